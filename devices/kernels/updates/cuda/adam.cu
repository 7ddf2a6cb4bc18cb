/* Adam and its kin as torch.optim does them (single-tensor forms): AdamW, AMSGrad, NAdam, RAdam,
 * Adamax, SparseAdam. The count of steps is on the device, so what a step's elements share is
 * computed there, in float64, before the elements. Kingma and Ba, "Adam: a method for stochastic
 * optimization", ICLR 2015; Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR
 * 2019; Reddi et al., "On the convergence of Adam and beyond", ICLR 2018; of the others see
 * devices/kernels/updates/optimizers.h. */
#include "devices/kernels/updates/cuda/update.h"
#include "devices/kernels/updates/moment_rates.h"
#include "devices/kernels/updates/optimizers.h"
#include "devices/kernels/updates/update_sizes.h"

enum moments_form { ADAM, AMSGRAD, NADAM, RADAM, ADAMAX };

/* step: (), counted up; product: () of nadam, NULL else; rates: (). One thread works. */
template <class stored, moments_form form>
static __global__ void begin_step(stored *step, stored *product, tdm_adam_attributes attributes,
                                  double learning, tdm_moment_rates *rates) {
  typedef real_of<stored> real;
  if (threadIdx.x != 0) return;
  *step = *step + 1;
  const double steps = (double)*step;
  if (form == NADAM) {
    *product = *product * (real)tdm_nadam_momentum(&attributes, steps);
    *rates = tdm_nadam_rates(&attributes, learning, steps, (double)*product);
  } else {
    *rates = form == RADAM    ? tdm_radam_rates(&attributes, learning, steps)
             : form == ADAMAX ? tdm_adamax_rates(&attributes, learning, steps)
                              : tdm_adam_rates(&attributes, learning, steps);
  }
}

/* Settings that the host passes to all elements. */
template <class real> struct moments_settings {
  real beta1;
  real keep1; /* 1 - beta1 */
  real beta2;
  real keep2; /* 1 - beta2 */
  real epsilon;
  real decay;  /* of the parameter, into the gradient */
  real shrink; /* of the parameter, before all else */
};

template <class stored> static moments_settings<stored> settings_of(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const tdm_adam_attributes attributes = tdm_adam_attributes_of(call);
  const double learning = call->scalars->learning_rate, decay = attributes.weight_decay;
  const bool decoupled = attributes.decoupled != 0;
  const moments_settings<stored> settings = {(real)attributes.beta1,
                                             (real)(1.0 - attributes.beta1),
                                             (real)attributes.beta2,
                                             (real)(1.0 - attributes.beta2),
                                             (real)attributes.epsilon,
                                             (real)(decoupled ? 0 : decay),
                                             (real)(decoupled ? 1.0 - learning * decay : 1)};
  return settings;
}

/* A NaN stays, as in torch.maximum. */
template <class real> static __device__ real larger_of(real a, real b) {
  return a > b || a != a ? a : b;
}

/* gradient, parameter, average, square, largest: (count); largest is NULL except for amsgrad. */
template <class stored, moments_form form>
static __global__ void moments_step(const stored *gradient, stored *parameter, stored *average,
                                    stored *square, stored *largest, const tdm_moment_rates *rates,
                                    moments_settings<stored> settings, int64_t count) {
  typedef real_of<stored> real;
  const real of_average = (real)rates->of_average, of_gradient = (real)rates->of_gradient;
  const real root = (real)rates->root;
  const bool plain = form == RADAM && rates->plain != 0;
  EACH_ELEMENT(i, count) {
    const real p = parameter[i] * settings.shrink;
    const real g = with_decay<real>(gradient[i], p, settings.decay);
    const real m = average[i] * settings.beta1 + g * settings.keep1;
    const real before = square[i] * settings.beta2;
    const real v = form == ADAMAX ? larger_of<real>(before, fabs(g) + settings.epsilon)
                                  : before + g * g * settings.keep2;
    average[i] = m;
    square[i] = v;
    real most = v;
    if (form == AMSGRAD) {
      most = larger_of<real>(largest[i], v);
      largest[i] = most;
    }
    const real denominator = plain            ? (real)1
                             : form == ADAMAX ? v
                                              : sqrt(most) / root + settings.epsilon;
    real after = p - of_average * (m / denominator);
    if (form == NADAM) after -= of_gradient * (g / denominator);
    parameter[i] = after;
  }
}

static tdm_status moments_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  TDM_TRY(update_prepare(request, answer));
  answer->workspace_bytes = sizeof(tdm_moment_rates);
  return TDM_OK;
}

/* The states after the moments: [largest or product], step. */
template <class stored, moments_form form>
static tdm_status begin_update(const tdm_kernel_call *call) {
  const bool other = form == AMSGRAD || form == NADAM;
  stored *product = form == NADAM ? output_of<stored>(call, 3) : NULL;
  return kernel_launch(call, "adam_begin", begin_step<stored, form>, 1, WARP,
                       output_of<stored>(call, other ? 4 : 3), product,
                       tdm_adam_attributes_of(call), call->scalars->learning_rate,
                       static_cast<tdm_moment_rates *>(call->workspace));
}

template <class stored, moments_form form>
static tdm_status moments_run(const tdm_kernel_call *call) {
  const int64_t count = state_of<update_sizes>(call)->count;
  stored *largest = form == AMSGRAD ? output_of<stored>(call, 3) : NULL;
  TDM_TRY((begin_update<stored, form>(call)));
  return kernel_launch(
      call, "adam", moments_step<stored, form>, blocks_for(count), BLOCK, input_of<stored>(call, 1),
      output_of<stored>(call, 0), output_of<stored>(call, 1), output_of<stored>(call, 2), largest,
      static_cast<const tdm_moment_rates *>(call->workspace), settings_of<stored>(call), count);
}

template <class stored> static tdm_status adam_run(const tdm_kernel_call *call) {
  const bool amsgrad = attributes_of<tdm_adam_attributes>(call)->amsgrad != 0;
  return amsgrad ? moments_run<stored, AMSGRAD>(call) : moments_run<stored, ADAM>(call);
}

/* ---- The rows of a sparse gradient ----------------------------------------------------------- */

/* A block a row of the gradient: moments move by keep times the difference, only here. gradient:
 * (n, dim), indices: (n), distinct as far as used (); parameter, average, square: (rows, dim). */
template <class stored>
static __global__ void sparse_step(const stored *gradient, const int64_t *indices,
                                   const int64_t *used, int64_t dim, stored *parameter,
                                   stored *average, stored *square, const tdm_moment_rates *rates,
                                   moments_settings<stored> settings) {
  typedef real_of<stored> real;
  const real step_size = (real)(rates->of_average * rates->root);
  EACH_OF_GRID(row, *used) {
    const int64_t to = indices[row] * dim, from = row * dim;
    EACH_OF_BLOCK(j, dim) {
      const real g = gradient[from + j];
      const real m = average[to + j] + (g - average[to + j]) * settings.keep1;
      const real v = square[to + j] + (g * g - square[to + j]) * settings.keep2;
      average[to + j] = m;
      square[to + j] = v;
      parameter[to + j] = parameter[to + j] - m / (sqrt(v) + settings.epsilon) * step_size;
    }
  }
}

static tdm_status adam_sparse_prepare(const tdm_kernel_request *request,
                                      tdm_kernel_answer *answer) {
  TDM_TRY(update_rows_prepare(request, answer));
  answer->workspace_bytes = sizeof(tdm_moment_rates);
  return TDM_OK;
}

template <class stored> static tdm_status run_sparse(const tdm_kernel_call *call) {
  const update_sizes *state = state_of<update_sizes>(call);
  TDM_TRY((begin_update<stored, ADAM>(call)));
  return kernel_launch(
      call, "adam_sparse", sparse_step<stored>, blocks_of(state->count),
      threads_for_row(state->dim), input_of<stored>(call, 1), input_of<int64_t>(call, 2),
      input_of<int64_t>(call, 3), state->dim, output_of<stored>(call, 0),
      output_of<stored>(call, 1), output_of<stored>(call, 2),
      static_cast<const tdm_moment_rates *>(call->workspace), settings_of<stored>(call));
}

KERNELS(adam, KERNEL(TDM_OP_ADAM, moments_prepare, adam_run<stored>),
        KERNEL(TDM_OP_NADAM, moments_prepare, (moments_run<stored, NADAM>)),
        KERNEL(TDM_OP_RADAM, moments_prepare, (moments_run<stored, RADAM>)),
        KERNEL(TDM_OP_ADAMAX, moments_prepare, (moments_run<stored, ADAMAX>)),
        KERNEL(TDM_OP_ADAM_SPARSE, adam_sparse_prepare, run_sparse<stored>))
