/* Class indices of rows: the divisor of a mean over rows. */
#ifndef TANDEM_DEVICES_KERNELS_LOSSES_CPU_TARGETS_H
#define TANDEM_DEVICES_KERNELS_LOSSES_CPU_TARGETS_H

#include "devices/kernels/cpu/real.h"

/* How many targets are not ignored; with weight (classes) the sum of their weights, for targets
 * that were checked. */
static inline real targets_weight(const tdm_cpu_ids *targets, int64_t ignored,
                                  const stored *weight) {
  double sum = 0;
  for (int64_t row = 0; row < targets->count; row++) {
    const int64_t target = tdm_cpu_id(targets, row);
    if (target == ignored) continue;
    sum += weight ? (double)widened(weight[target]) : 1.0;
  }
  return (real)sum;
}

#endif
