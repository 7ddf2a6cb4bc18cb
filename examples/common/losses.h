/* The judge of models that are scored by their loss: its mean over batches of one size, in bits. */
#ifndef EXAMPLES_COMMON_LOSSES_H
#define EXAMPLES_COMMON_LOSSES_H

#include "examples/common/learner.h"

typedef struct losses {
  double sum; /* over batches, in units of e */
  int64_t batch_count;
} losses;

/* Of a model whose answers are the loss, float32 (): counts into `counted`, which is borrowed. */
judge losses_judge(const char *score_name, losses *counted);
double losses_bits(const losses *counted); /* 0 before the first batch */

#endif
