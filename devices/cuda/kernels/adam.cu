/* Adam, AdamW and SparseAdam as torch.optim does them (single-tensor forms): the count of steps is
 * on the device, so its bias corrections are computed there, in float64, before the elements.
 * Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015; Loshchilov and Hutter,
 * "Decoupled weight decay regularization", ICLR 2019. */
#include "devices/cuda/kernels/update.h"

/* What a step multiplies and divides by; the first in float64, the rest rounded. */
enum { CORRECTION1, CORRECTION2_ROOT, CORRECTIONS };

/* step: (), counted up; corrections: (CORRECTIONS). One thread works. */
template <class stored>
static __global__ void begin_step(stored *step, double beta1, double beta2, double *corrections) {
  if (threadIdx.x != 0) return;
  *step = *step + 1;
  const double steps = (double)*step;
  corrections[CORRECTION1] = 1.0 - pow(beta1, steps);
  corrections[CORRECTION2_ROOT] = sqrt(1.0 - pow(beta2, steps));
}

/* What a step's elements are told. */
template <class real> struct adam_rates {
  real beta1;
  real keep1; /* 1 - beta1 */
  real beta2;
  real keep2; /* 1 - beta2 */
  real epsilon;
  real decay;  /* of the parameter, into the gradient */
  real shrink; /* of the parameter, before all else */
  double learning;
};

template <class stored> static adam_rates<stored> rates_of(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const tdm_adam_attributes *attributes = attributes_of<tdm_adam_attributes>(call);
  const double learning = call->scalars->learning_rate, decay = attributes->weight_decay;
  const bool decoupled = attributes->decoupled != 0;
  const adam_rates<stored> rates = {(real)attributes->beta1,
                                    (real)(1.0 - attributes->beta1),
                                    (real)attributes->beta2,
                                    (real)(1.0 - attributes->beta2),
                                    (real)attributes->epsilon,
                                    (real)(decoupled ? 0 : decay),
                                    (real)(decoupled ? 1.0 - learning * decay : 1),
                                    learning};
  return rates;
}

/* gradient, parameter, average, square: (count). */
template <class stored>
static __global__ void adam_step(const stored *gradient, stored *parameter, stored *average,
                                 stored *square, const double *corrections,
                                 adam_rates<stored> rates, int64_t count) {
  typedef real_of<stored> real;
  const real step_size = (real)(rates.learning / corrections[CORRECTION1]);
  const real root = (real)corrections[CORRECTION2_ROOT];
  EACH_ELEMENT(i, count) {
    const real p = parameter[i] * rates.shrink;
    const real g = gradient[i] + rates.decay * p;
    const real m = average[i] * rates.beta1 + g * rates.keep1;
    const real v = square[i] * rates.beta2 + g * g * rates.keep2;
    average[i] = m;
    square[i] = v;
    parameter[i] = p - step_size * (m / (sqrt(v) / root + rates.epsilon));
  }
}

static tdm_status adam_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(update_prepare(request, answer));
  answer->workspace_bytes = CORRECTIONS * sizeof(double);
  return TDM_OK;
}

template <class stored> static tdm_status adam_begin_update(const tdm_kernel_call *call) {
  const tdm_adam_attributes *attributes = attributes_of<tdm_adam_attributes>(call);
  return kernel_launch(call, "adam_begin", begin_step<stored>, 1, WARP, output_of<stored>(call, 3),
                       attributes->beta1, attributes->beta2,
                       static_cast<double *>(call->workspace));
}

template <class stored> static tdm_status adam_run(const tdm_kernel_call *call) {
  const update_sizes *state = state_of<update_sizes>(call);
  TDM_TRY(adam_begin_update<stored>(call));
  return kernel_launch(
      call, "adam", adam_step<stored>, blocks_for(state->count), BLOCK, input_of<stored>(call, 1),
      output_of<stored>(call, 0), output_of<stored>(call, 1), output_of<stored>(call, 2),
      static_cast<const double *>(call->workspace), rates_of<stored>(call), state->count);
}

/* ---- The rows of a sparse gradient ----------------------------------------------------------- */

/* A block a row of the gradient: moments move by keep times the difference, only here. gradient:
 * (n, dim), indices: (n), distinct as far as used (); parameter, average, square: (rows, dim). */
template <class stored>
static __global__ void sparse_step(const stored *gradient, const int64_t *indices,
                                   const int64_t *used, int64_t dim, stored *parameter,
                                   stored *average, stored *square, const double *corrections,
                                   adam_rates<stored> rates) {
  typedef real_of<stored> real;
  const int64_t row = blockIdx.x;
  if (row >= *used) return;
  const real step_size =
      (real)(rates.learning * corrections[CORRECTION2_ROOT] / corrections[CORRECTION1]);
  const int64_t to = indices[row] * dim, from = row * dim;
  EACH_OF_BLOCK(j, dim) {
    const real g = gradient[from + j];
    const real m = average[to + j] + (g - average[to + j]) * rates.keep1;
    const real v = square[to + j] + (g * g - square[to + j]) * rates.keep2;
    average[to + j] = m;
    square[to + j] = v;
    parameter[to + j] = parameter[to + j] - m / (sqrt(v) + rates.epsilon) * step_size;
  }
}

static tdm_status adam_sparse_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  TDM_TRY(update_rows_prepare(request, answer));
  answer->workspace_bytes = CORRECTIONS * sizeof(double);
  return TDM_OK;
}

template <class stored> static tdm_status run_sparse(const tdm_kernel_call *call) {
  const update_sizes *state = state_of<update_sizes>(call);
  TDM_TRY(adam_begin_update<stored>(call));
  return kernel_launch(
      call, "adam_sparse", sparse_step<stored>, state->count, threads_for_row(state->dim),
      input_of<stored>(call, 1), input_of<int64_t>(call, 2), input_of<int64_t>(call, 3), state->dim,
      output_of<stored>(call, 0), output_of<stored>(call, 1), output_of<stored>(call, 2),
      static_cast<const double *>(call->workspace), rates_of<stored>(call));
}

KERNELS(adam, KERNEL(TDM_OP_ADAM, adam_prepare, adam_run<stored>),
        KERNEL(TDM_OP_ADAM_SPARSE, adam_sparse_prepare, run_sparse<stored>))
