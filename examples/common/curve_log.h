/* Writes training curves: losses, scores and rates over steps and epochs, as lines of tab-separated
 * values, which `tandem curves` plots. Each line is written as soon as it is known, so a run that
 * is killed leaves its lines. */
#ifndef EXAMPLES_COMMON_CURVE_LOG_H
#define EXAMPLES_COMMON_CURVE_LOG_H

#include <stdio.h>

#include "examples/common/learner.h"

typedef struct curve_log {
  FILE *stream; /* NULL: no log was requested, and the functions below do nothing */
  const char *path;
  int64_t row_units;
  int64_t every;     /* steps from line to line */
  int64_t rows;      /* rows of the epoch up to the last line */
  double loss_sum;   /* sum of the losses of these rows */
  uint64_t taken_ns; /* time of the last line */
  double loss;       /* mean loss of the rows of the current line; NaN without rows */
  double rate;       /* units per second in the current line */
} curve_log;

/* Opens the file that the options name; curve_log_end closes it. Lines up to `step`, the number of
 * steps done, are kept. Rank 0 writes. */
tdm_status curve_log_begin(const learner *self, const common_options *given, int64_t step,
                           curve_log *out_log);
/* Begins an epoch of which this many rows are already processed. */
void curve_log_begin_epoch(curve_log *log, int64_t rows, double loss_sum);
/* Returns true if a line follows this step. The last step of an epoch has its own line. */
bool curve_log_is_due(const curve_log *log, int64_t step);
/* Takes what is new since the last line: of the epoch are `rows`, and the sum of their losses. */
void curve_log_take(curve_log *log, int64_t rows, double loss_sum);
/* Writes the line: epoch counts parts of epochs; score is NULL where none was made. */
void curve_log_write(curve_log *log, int64_t step, double epoch, const double *score,
                     double learning_rate);
/* IO where it could not all be written. */
tdm_status curve_log_end(curve_log *log);

#endif
