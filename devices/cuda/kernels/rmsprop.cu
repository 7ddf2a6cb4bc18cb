/* RMSprop as torch.optim.RMSprop does it (its single-tensor form): with weight decay, momentum, and
 * centered. T. Tieleman, G. Hinton, "Lecture 6.5: rmsprop", 2012; centered: A. Graves, "Generating
 * sequences with recurrent neural networks", arXiv:1308.0850, 2013. */
#include "devices/cuda/kernels/kernel.h"

struct rmsprop_state {
  int64_t count;
  tdm_rmsprop_attributes attributes;
};

static const rmsprop_state *state_of(const tdm_kernel_call *call) {
  return static_cast<const rmsprop_state *>(call->state);
}

/* What a step's elements are told. */
template <class real> struct rmsprop_rates {
  real alpha;
  real kept; /* 1 - alpha */
  real epsilon;
  real decay;
  real momentum;
  real learning;
};

/* gradient, parameter, square, average, buffer: (count); average NULL: not centered; buffer NULL:
 * no momentum. */
template <class real>
static __global__ void rmsprop_step(const real *gradient, real *parameter, real *square,
                                    real *average, real *buffer, rmsprop_rates<real> rates,
                                    int64_t count) {
  EACH_ELEMENT(i, count) {
    const real p = parameter[i];
    const real g = gradient[i] + rates.decay * p;
    real s = square[i] * rates.alpha + g * g * rates.kept;
    square[i] = s;
    if (average) {
      const real m = average[i] * rates.alpha + g * rates.kept;
      average[i] = m;
      s -= m * m;
    }
    real direction = g / (sqrt(s) + rates.epsilon);
    if (buffer) {
      direction += buffer[i] * rates.momentum;
      buffer[i] = direction;
    }
    parameter[i] = p - rates.learning * direction;
  }
}

static tdm_status rmsprop_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  rmsprop_state *state = state_create<rmsprop_state>(answer);
  if (!state) return TDM_OUT_OF_MEMORY;
  state->count = count_of(&request->inputs[0]);
  state->attributes = *static_cast<const tdm_rmsprop_attributes *>(request->attributes);
  return TDM_OK;
}

template <class real> static tdm_status run(const tdm_kernel_call *call) {
  const rmsprop_state *state = state_of(call);
  const tdm_rmsprop_attributes *attributes = &state->attributes;
  const bool centered = attributes->centered != 0;
  real *average = centered ? output_of<real>(call, 2) : NULL;
  real *buffer = attributes->momentum != 0 ? output_of<real>(call, centered ? 3 : 2) : NULL;
  const rmsprop_rates<real> rates = {
      (real)attributes->alpha,    (real)(1.0 - attributes->alpha),
      (real)attributes->epsilon,  (real)attributes->weight_decay,
      (real)attributes->momentum, (real)call->scalars->learning_rate};
  return kernel_launch(call, "rmsprop", rmsprop_step<real>, blocks_for(state->count), BLOCK,
                       input_of<real>(call, 1), output_of<real>(call, 0), output_of<real>(call, 1),
                       average, buffer, rates, state->count);
}

KERNELS(rmsprop, KERNEL(TDM_OP_RMSPROP, rmsprop_prepare, run<real>))
