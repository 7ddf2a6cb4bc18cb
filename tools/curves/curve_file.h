/* Files that examples write by --log: a heading, then a line each of step, epoch, loss, score, rate
 * and learning rate, with tabs between them; "-" is no value. */
#ifndef TOOLS_CURVES_CURVE_FILE_H
#define TOOLS_CURVES_CURVE_FILE_H

#include "tandem/tandem.h"

enum { CURVE_NAME = 64 };

typedef struct curve_point {
  int64_t step;
  double epoch; /* epochs done */
  double loss;  /* NaN: none, as is the next */
  double score;
  double rate; /* units a second */
} curve_point;

typedef struct curve {
  char name[CURVE_NAME]; /* name of the file without its folder and ending */
  char score_name[CURVE_NAME];
  char rate_name[CURVE_NAME];
  curve_point *points; /* point_count of them, at least one */
  size_t point_count;
} curve;

/* IO, or CORRUPT_DATA naming the line. On failure *out_curve is empty. A last line without an end,
 * of a program that was killed, is passed over. */
tdm_status curve_read(const char *path, curve *out_curve);
/* Empty ones are legal. */
void curve_deinit(curve *freed);

/* The last point that has a score, or a loss; NULL: none has. */
const curve_point *curve_last_score(const curve *of);
const curve_point *curve_last_loss(const curve *of);

#endif
