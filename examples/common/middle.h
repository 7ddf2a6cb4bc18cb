/* The state of an unfinished epoch, in addition to the checkpoint of session and loader: sums of
 * the loss, and carried values. */
#ifndef EXAMPLES_COMMON_MIDDLE_H
#define EXAMPLES_COMMON_MIDDLE_H

#include "examples/common/evaluate.h"
#include "examples/common/steps.h"

/* Writes a checkpoint once the steps under way have ended. */
tdm_status middle_save(const learner *self, steps *under_way, const carrier *state,
                       const char *path);

/* Writes a checkpoint at the end of an epoch, which contains only the learner's state. */
tdm_status epoch_save(const learner *self, const char *path);

/* The state that middle_save adds to a checkpoint in an epoch. */
typedef struct middle {
  bool is_there; /* false: an epoch begins */
  double loss_sum;
  int64_t rows;
  carrier state; /* owned until it is taken */
} middle;
/* Loads a checkpoint; `from` is filled if the checkpoint was written in an epoch. */
tdm_status middle_load(const learner *self, const char *path, middle *from);
void middle_release(middle *from, const learner *self);

#endif
