/* Adadelta as torch.optim.Adadelta does it (its single-tensor form). M. D. Zeiler, "ADADELTA: an
 * adaptive learning rate method", arXiv:1212.5701, 2012. */
#include "devices/kernels/updates/cuda/update.h"
#include "devices/kernels/updates/optimizers.h"
#include "devices/kernels/updates/update_sizes.h"

/* Settings that all elements of a step share. */
template <class real> struct adadelta_rates {
  real rho;
  real kept; /* 1 - rho */
  real epsilon;
  real decay;
  real learning;
};

/* gradient, parameter, square, changes: (count). */
template <class stored>
static __global__ void adadelta_step(const stored *gradient, stored *parameter, stored *square,
                                     stored *changes, adadelta_rates<stored> rates, int64_t count) {
  typedef real_of<stored> real;
  EACH_ELEMENT(i, count) {
    const real p = parameter[i];
    const real g = with_decay<real>(gradient[i], p, rates.decay);
    const real v = square[i] * rates.rho + g * g * rates.kept;
    const real u = changes[i];
    const real change = sqrt(u + rates.epsilon) / sqrt(v + rates.epsilon) * g;
    square[i] = v;
    changes[i] = u * rates.rho + change * change * rates.kept;
    parameter[i] = p - rates.learning * change;
  }
}

template <class stored> static tdm_status adadelta_run(const tdm_kernel_call *call) {
  typedef real_of<stored> real;
  const int64_t count = state_of<update_sizes>(call)->count;
  const tdm_adadelta_attributes *attributes = attributes_of<tdm_adadelta_attributes>(call);
  const adadelta_rates<stored> rates = {(real)attributes->rho, (real)(1.0 - attributes->rho),
                                        (real)attributes->epsilon, (real)attributes->weight_decay,
                                        (real)call->scalars->learning_rate};
  return kernel_launch(call, "adadelta", adadelta_step<stored>, blocks_for(count), BLOCK,
                       input_of<stored>(call, 1), output_of<stored>(call, 0),
                       output_of<stored>(call, 1), output_of<stored>(call, 2), rates, count);
}

KERNELS(adadelta, KERNEL(TDM_OP_ADADELTA, update_prepare, adadelta_run<stored>))
