/* Moving averages of parameters, as torch.optim.swa_utils makes them (get_ema_multi_avg_fn, and the
 * mean of AveragedModel): which share is new, in double, the average in the parameter's dtype. */
#include "devices/kernels/updates/average_share.h"
#include "devices/kernels/updates/cuda/update.h"

/* parameter, average: (count); so_far: (). From the nearer end, as torch.lerp: a share of 1 copies.
 */
template <class stored>
static __global__ void average_step(const stored *parameter, stored *average, const stored *so_far,
                                    double decay, int64_t count) {
  typedef real_of<stored> real;
  const real share = (real)tdm_average_share(decay, (double)*so_far);
  EACH_ELEMENT(i, count) {
    const real p = parameter[i], a = average[i], d = p - a;
    average[i] = share < (real)0.5 ? a + d * share : p - d * (1 - share);
  }
}

/* so_far: (); one thread works, in a launch after all have read it. */
template <class stored> static __global__ void count_average(stored *so_far) {
  if (threadIdx.x == 0) *so_far = *so_far + 1;
}

template <class stored> static tdm_status average_run(const tdm_kernel_call *call) {
  const int64_t count = state_of<update_sizes>(call)->count;
  stored *so_far = output_of<stored>(call, 1);
  TDM_TRY(kernel_launch(call, "average", average_step<stored>, blocks_for(count), BLOCK,
                        input_of<stored>(call, 1), output_of<stored>(call, 0), so_far,
                        attributes_of<tdm_average_attributes>(call)->decay, count));
  return kernel_launch(call, "count_average", count_average<stored>, 1, WARP, so_far);
}

KERNELS(average, KERNEL(TDM_OP_AVERAGE, update_prepare, average_run<stored>))
