/* Operations: sums of squared distances over dimensions, from which variances, deviations and norms
 * are computed. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_REDUCTIONS_DEVIATIONS_H
#define TANDEM_DEVICES_KERNELS_REDUCTIONS_DEVIATIONS_H

#include "devices/kernels/reductions/reductions.h"

/* x F -> mean F, mean float64: over the dimensions of the mask, which stay as 1; the second keeps
 * the digits that F does not hold. With `terms` divided by these: a part of a mean. */
#define TDM_OP_PRECISE_MEAN "precise_mean"
/* x F, [mean float64, dimensions of the mask 1] -> F: the sum over the dimensions of the mask of
 * the squares of x - mean, or of x. If `mean`, it is divided by the count of terms - correction, at
 * least 0. If `root`, the result is the root of that, which is right also if squares leave the
 * range of F. The mean gets no gradient: the distances from it add up to 0. */
#define TDM_OP_DEVIATIONS "deviations"
/* d_out, x, out, [mean] -> d_x. That of a root that is 0 is 0. */
#define TDM_OP_DEVIATIONS_GRADIENT "deviations_gradient"
typedef struct tdm_deviations_attributes {
  tdm_reduce_attributes reduce; /* the first member: sizes are read of it */
  double correction;
  int64_t root; /* 0 or 1 */
} tdm_deviations_attributes;

/* Returns the divisor of sums. divisor: of reduce_sizes. */
static inline double deviations_divisor(const tdm_deviations_attributes *attributes,
                                        double divisor) {
  if (attributes->reduce.mean == 0) return 1;
  return divisor > attributes->correction ? divisor - attributes->correction : 0;
}

#endif
