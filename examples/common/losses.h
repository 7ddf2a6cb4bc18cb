/* The judge of models that are scored by their loss: its mean over batches of one size, in bits. */
#ifndef EXAMPLES_COMMON_LOSSES_H
#define EXAMPLES_COMMON_LOSSES_H

#include "examples/common/learner.h"

typedef struct losses {
  double sum; /* sum over batches, in units of e */
  int64_t batch_count;
} losses;

/* A judge for a model whose output is the loss, float32 (). Counts into `counted`, borrowed. */
judge losses_judge(const char *score_name, losses *counted);
double losses_bits(const losses *counted); /* 0 before the first batch */

#endif
