/* Stochastic gradient descent as torch.optim.SGD does it (its single-tensor form): weight decay,
 * momentum with dampening, Nesterov; and its plain form on the rows of a sparse gradient. */
#include "devices/kernels/updates/cuda/update.h"
#include "devices/kernels/updates/optimizers.h"
#include "devices/kernels/updates/update_sizes.h"

/* parameter, gradient: (count). */
template <class stored>
static __global__ void plain_step(stored *parameter, const stored *gradient, real_of<stored> decay,
                                  real_of<stored> rate, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const real p = parameter[i];
    parameter[i] = p - rate * with_decay<real>(gradient[i], p, decay);
  }
}

/* parameter, gradient, buffer: (count); initialized: (), 0 where the buffer holds nothing yet. */
template <class stored>
static __global__ void momentum_step(stored *parameter, const stored *gradient, stored *buffer,
                                     const stored *initialized, real_of<stored> decay,
                                     real_of<stored> momentum, real_of<stored> kept, bool nesterov,
                                     real_of<stored> rate, int64_t count) {
  typedef real_of<stored> real;
  const bool first = *initialized == 0;
  EACH_ELEMENT(i, count) {
    const real p = parameter[i];
    const real d = with_decay<real>(gradient[i], p, decay);
    const real m = first ? d : momentum * buffer[i] + kept * d;
    buffer[i] = m;
    parameter[i] = p - rate * (nesterov ? d + momentum * m : m);
  }
}

/* initialized: (); one thread works, in a launch after all have read it. */
template <class stored> static __global__ void set_initialized(stored *initialized) {
  if (threadIdx.x == 0) *initialized = 1;
}

template <class stored> static tdm_status sgd_run(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const update_sizes *state = state_of<update_sizes>(call);
  const tdm_sgd_attributes *attributes = attributes_of<tdm_sgd_attributes>(call);
  const tdm_run_scalars *scalars = call->scalars;
  const real decay = (real)attributes->weight_decay;
  const real momentum = (real)(scalars->has_momentum ? scalars->momentum : attributes->momentum);
  const real rate = (real)scalars->learning_rate;
  const int64_t blocks = blocks_for(state->count);
  stored *parameter = output_of<stored>(call, 0);
  const stored *gradient = input_of<stored>(call, 1);
  /* A run without momentum leaves the buffer to those that have some. */
  if (attributes->momentum == 0 || momentum == 0) {
    return kernel_launch(call, "sgd", plain_step<stored>, blocks, BLOCK, parameter, gradient, decay,
                         rate, state->count);
  }
  stored *initialized = output_of<stored>(call, 2);
  TDM_TRY(kernel_launch(call, "sgd", momentum_step<stored>, blocks, BLOCK, parameter, gradient,
                        output_of<stored>(call, 1), initialized, decay, momentum,
                        (real)(1.0 - attributes->dampening), attributes->nesterov != 0, rate,
                        state->count));
  return kernel_launch(call, "set_initialized", set_initialized<stored>, 1, WARP, initialized);
}

/* ---- The rows of a sparse gradient ----------------------------------------------------------- */

/* A block a row of the gradient. parameter: (rows, dim), gradient: (n, dim), indices: (n), distinct
 * as far as used (). */
template <class stored>
static __global__ void sparse_step(stored *parameter, const stored *gradient,
                                   const int64_t *indices, const int64_t *used, int64_t dim,
                                   real_of<stored> rate) {
  EACH_OF_GRID(row, *used) {
    const int64_t to = indices[row] * dim, from = row * dim;
    EACH_OF_BLOCK(j, dim) {
      parameter[to + j] = parameter[to + j] - rate * gradient[from + j];
    }
  }
}

template <class stored> static tdm_status run_sparse(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const update_sizes *state = state_of<update_sizes>(call);
  return kernel_launch(call, "sgd_sparse", sparse_step<stored>, blocks_of(state->count),
                       threads_for_row(state->dim), output_of<stored>(call, 0),
                       input_of<stored>(call, 1), input_of<int64_t>(call, 2),
                       input_of<int64_t>(call, 3), state->dim, (real)call->scalars->learning_rate);
}

KERNELS(sgd, KERNEL(TDM_OP_SGD, update_prepare, sgd_run<stored>),
        KERNEL(TDM_OP_SGD_SPARSE, update_rows_prepare, run_sparse<stored>))
