/* Adagrad as torch.optim.Adagrad does it (its single-tensor form): the count of steps is on the
 * device, so the rate of a step is computed there, in float64, before the elements. J. Duchi,
 * E. Hazan, Y. Singer, "Adaptive subgradient methods for online learning and stochastic
 * optimization", JMLR 12, 2011. */
#include "devices/kernels/updates/cuda/update.h"
#include "devices/kernels/updates/optimizers.h"
#include "devices/kernels/updates/update_sizes.h"

/* step: (), counted up; step_rate: (). One thread works. */
template <class stored>
static __global__ void begin_step(stored *step, double rate, double rate_decay, double *step_rate) {
  if (threadIdx.x != 0) return;
  *step_rate = rate / (1.0 + (double)*step * rate_decay);
  *step = *step + 1;
}

/* One element; all pointers are to it. */
template <class stored>
static __device__ void update_element(real_of<stored> gradient, real_of<stored> decay,
                                      real_of<stored> epsilon, real_of<stored> rate,
                                      stored *parameter, stored *sum) {
  typedef real_of<stored> real;
  const real p = *parameter;
  const real g = with_decay<real>(gradient, p, decay);
  const real s = *sum + g * g;
  *sum = s;
  *parameter = p - rate * (g / (sqrt(s) + epsilon));
}

/* gradient, parameter, sum: (count). */
template <class stored>
static __global__ void adagrad_step(const stored *gradient, stored *parameter, stored *sum,
                                    const double *step_rate, real_of<stored> decay,
                                    real_of<stored> epsilon, int64_t count) {
  typedef real_of<stored> real;
  const real rate = (real)*step_rate;
  EACH_ELEMENT(i, count) {
    update_element<stored>(gradient[i], decay, epsilon, rate, parameter + i, sum + i);
  }
}

static tdm_status adagrad_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(update_prepare(request, answer));
  answer->workspace_bytes = sizeof(double);
  return TDM_OK;
}

template <class stored> static tdm_status adagrad_begin_update(const tdm_kernel_call *call) {
  return kernel_launch(call, "adagrad_begin", begin_step<stored>, 1, WARP,
                       output_of<stored>(call, 2), call->scalars->learning_rate,
                       attributes_of<tdm_adagrad_attributes>(call)->rate_decay,
                       static_cast<double *>(call->workspace));
}

template <class stored> static tdm_status adagrad_run(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const update_sizes *state = state_of<update_sizes>(call);
  const tdm_adagrad_attributes *attributes = attributes_of<tdm_adagrad_attributes>(call);
  TDM_TRY(adagrad_begin_update<stored>(call));
  return kernel_launch(call, "adagrad", adagrad_step<stored>, blocks_for(state->count), BLOCK,
                       input_of<stored>(call, 1), output_of<stored>(call, 0),
                       output_of<stored>(call, 1), static_cast<const double *>(call->workspace),
                       (real)attributes->weight_decay, (real)attributes->epsilon, state->count);
}

/* ---- The rows of a sparse gradient ----------------------------------------------------------- */

/* A block a row of the gradient. gradient: (n, dim), indices: (n), distinct as far as used ();
 * parameter, sum: (rows, dim). */
template <class stored>
static __global__ void sparse_step(const stored *gradient, const int64_t *indices,
                                   const int64_t *used, int64_t dim, stored *parameter, stored *sum,
                                   const double *step_rate, real_of<stored> epsilon) {
  typedef real_of<stored> real;
  const real rate = (real)*step_rate;
  EACH_OF_GRID(row, *used) {
    const int64_t to = indices[row] * dim, from = row * dim;
    EACH_OF_BLOCK(j, dim) {
      update_element<stored>(gradient[from + j], 0, epsilon, rate, parameter + to + j,
                             sum + to + j);
    }
  }
}

static tdm_status adagrad_sparse_prepare(const tdm_kernel_request *request,
                                         tdm_kernel_answer *answer) {
  TDM_TRY(update_rows_prepare(request, answer));
  answer->workspace_bytes = sizeof(double);
  return TDM_OK;
}

template <class stored> static tdm_status run_sparse(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const update_sizes *state = state_of<update_sizes>(call);
  const tdm_adagrad_attributes *attributes = attributes_of<tdm_adagrad_attributes>(call);
  TDM_TRY(adagrad_begin_update<stored>(call));
  return kernel_launch(call, "adagrad_sparse", sparse_step<stored>, blocks_of(state->count),
                       threads_for_row(state->dim), input_of<stored>(call, 1),
                       input_of<int64_t>(call, 2), input_of<int64_t>(call, 3), state->dim,
                       output_of<stored>(call, 0), output_of<stored>(call, 1),
                       static_cast<const double *>(call->workspace), (real)attributes->epsilon);
}

KERNELS(adagrad, KERNEL(TDM_OP_ADAGRAD, adagrad_prepare, adagrad_run<stored>),
        KERNEL(TDM_OP_ADAGRAD_SPARSE, adagrad_sparse_prepare, run_sparse<stored>))
