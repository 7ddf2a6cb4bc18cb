/* What an epoch has made so far, besides what a checkpoint has of session and loader: sums of the
 * loss, and what steps carry on. */
#ifndef EXAMPLES_COMMON_MIDDLE_H
#define EXAMPLES_COMMON_MIDDLE_H

#include "examples/common/evaluate.h"
#include "examples/common/steps.h"

/* Writes a checkpoint once the steps under way have ended. */
tdm_status middle_save(const learner *self, steps *under_way, const carrier *state,
                       const char *path);

/* The same at the end of an epoch, where there is nothing but what the learner keeps. */
tdm_status epoch_save(const learner *self, const char *path);

/* What middle_save has added, of a checkpoint from the middle of an epoch. */
typedef struct middle {
  bool is_there; /* false: an epoch begins */
  double loss_sum;
  int64_t rows;
  carrier state; /* owned until it is taken */
} middle;
/* Goes on from a checkpoint; `from` is filled where it is from the middle of an epoch. */
tdm_status middle_load(const learner *self, const char *path, middle *from);
void middle_release(middle *from, const learner *self);

#endif
