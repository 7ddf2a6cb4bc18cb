/* RMSprop as torch.optim.RMSprop does it (its single-tensor form): with weight decay, momentum, and
 * centered. T. Tieleman, G. Hinton, "Lecture 6.5: rmsprop", 2012; centered: A. Graves, "Generating
 * sequences with recurrent neural networks", arXiv:1308.0850, 2013. */
#include "devices/kernels/updates/cuda/update.h"
#include "devices/kernels/updates/optimizers.h"
#include "devices/kernels/updates/update_sizes.h"

/* Settings that all elements of a step share. */
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
template <class stored>
static __global__ void rmsprop_step(const stored *gradient, stored *parameter, stored *square,
                                    stored *average, stored *buffer, rmsprop_rates<stored> rates,
                                    int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const real p = parameter[i];
    const real g = with_decay<real>(gradient[i], p, rates.decay);
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

template <class stored> static tdm_status rmsprop_run(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const int64_t count = state_of<update_sizes>(call)->count;
  const tdm_rmsprop_attributes *attributes = attributes_of<tdm_rmsprop_attributes>(call);
  const bool centered = attributes->centered != 0;
  const double momentum =
      call->scalars->has_momentum ? call->scalars->momentum : attributes->momentum;
  /* A run without momentum leaves the buffer to those that have some. */
  const bool buffers = attributes->momentum != 0 && momentum != 0;
  stored *average = centered ? output_of<stored>(call, 2) : NULL;
  stored *buffer = buffers ? output_of<stored>(call, centered ? 3 : 2) : NULL;
  const rmsprop_rates<stored> rates = {
      (real)attributes->alpha,
      (real)(1.0 - attributes->alpha),
      (real)attributes->epsilon,
      (real)attributes->weight_decay,
      (real)momentum,
      (real)call->scalars->learning_rate};
  return kernel_launch(call, "rmsprop", rmsprop_step<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 1), output_of<stored>(call, 0),
                       output_of<stored>(call, 1), average, buffer, rates, count);
}

KERNELS(rmsprop, KERNEL(TDM_OP_RMSPROP, update_prepare, rmsprop_run<stored>))
