/* Training steps in flight, up to STEPS_IN_FLIGHT, in the order they were submitted. Invariant: a
 * step in flight points into the struct, which must exist until steps_finish. */
#ifndef EXAMPLES_COMMON_STEPS_H
#define EXAMPLES_COMMON_STEPS_H

#include <pthread.h>

#include <tandem/tandem.h>

enum { STEPS_IN_FLIGHT = 2 }; /* the batch of one is uploaded under the compute of the other */

typedef struct steps steps;

typedef struct step {
  steps *all;
  int64_t rows; /* 0: not under way */
} step;

struct steps {
  tdm_session *session; /* borrowed */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  step places[STEPS_IN_FLIGHT];
  int64_t rows;    /* number of rows of the steps that have ended */
  double loss_sum; /* sum of the loss per row */
  tdm_status status;
  char message[256]; /* message of the first step that failed */
};

void steps_start(steps *all, tdm_session *session);
/* Waits for a place, then submits a step; the feeds' tensors are not touched any more. Fails with
 * the first step that has failed. mean_loss (may be NULL) gets that of the rows so far. */
tdm_status steps_submit(steps *all, const tdm_feed *feeds, size_t feed_count, int64_t rows,
                        double *mean_loss);
/* Rows of the steps that have ended, and the sum of their losses. */
void steps_tell(steps *all, int64_t *out_rows, double *out_loss_sum);
/* Waits for all of them; others may follow. */
tdm_status steps_wait(steps *all);
/* Waits for all steps after the last one. */
tdm_status steps_finish(steps *all);

#endif
