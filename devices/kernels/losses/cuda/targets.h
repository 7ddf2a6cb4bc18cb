/* Losses of rows that have a class index each: their sum, and its divisor. Invariant: one block
 * sums, in one fixed order, in float64. */
#ifndef TANDEM_DEVICES_KERNELS_LOSSES_CUDA_TARGETS_H
#define TANDEM_DEVICES_KERNELS_LOSSES_CUDA_TARGETS_H

#include "devices/kernels/cuda/report.h"

/* Computes the sum of losses. losses: (rows); loss: () or NULL: only the divisor is computed;
 * weight: (classes) or NULL: every target has weight 1; divisor: (). Targets outside the classes
 * were reported; their weight is 0. */
template <class stored>
static __global__ void sum_of_losses(const stored *losses, const void *targets, bool wide,
                                     int64_t rows, const stored *weight, int64_t classes,
                                     int64_t ignored, bool mean, stored *loss, stored *divisor) {
  typedef real_of<stored> real;
  double part = 0, weights = 0;
  EACH_OF_BLOCK(row, rows) {
    if (loss) part += losses[row];
    const int64_t target = id_at(targets, wide, row);
    if (target == ignored) continue;
    if (!weight) {
      weights += 1;
    } else if (is_inside(target, classes)) {
      weights += weight[target];
    }
  }
  const double sum = block_sum(part);
  const double weighed = block_sum(weights);
  if (threadIdx.x != 0) return;
  const real divided_by = mean ? (real)weighed : 1;
  *divisor = divided_by;
  if (loss) *loss = (real)(sum / (double)divided_by);
}

template <class stored>
static tdm_status sum_losses(const tdm_kernel_call *call, const stored *losses,
                             const id_list *targets, const stored *weight, int64_t classes,
                             int64_t ignored, bool mean, stored *loss, stored *divisor) {
  return kernel_launch(call, "sum_of_losses", sum_of_losses<stored>, 1, BLOCK, losses,
                       targets->data, targets->wide, targets->count, weight, classes, ignored, mean,
                       loss, divisor);
}

#endif
