/* Numbers that all elements of a step of Adam and its variants share. They are computed where the
 * count of steps is stored: on the host, or by one thread of a GPU. Bias corrections and all other
 * numbers are float64, as in torch.optim. */
#ifndef TANDEM_DEVICES_KERNELS_UPDATES_MOMENT_RATES_H
#define TANDEM_DEVICES_KERNELS_UPDATES_MOMENT_RATES_H

#include <math.h>

#include "devices/kernels/updates/optimizers.h"
#include "tandem/devices/kernel.h"

#if defined(__CUDACC__)
#define TDM_MOMENT_FUNCTION static __host__ __device__ inline
#else
#define TDM_MOMENT_FUNCTION static inline __attribute__((unused))
#endif

/* An element moves by -(of_gradient g + of_average m) / denominator, which is
 * sqrt(v) / root + epsilon; of adamax v itself, and 1 where `plain`. */
typedef struct tdm_moment_rates {
  double of_gradient;
  double of_average;
  double root;
  double plain; /* 1: radam's estimate of the variance has too few steps yet */
} tdm_moment_rates;

/* The attributes with the beta1 of the run. */
TDM_MOMENT_FUNCTION tdm_adam_attributes tdm_adam_attributes_of(const tdm_kernel_call *call) {
  tdm_adam_attributes attributes = *(const tdm_adam_attributes *)call->attributes;
  if (call->scalars->has_momentum) attributes.beta1 = call->scalars->momentum;
  return attributes;
}

/* step: of this update, from 1 on. */
TDM_MOMENT_FUNCTION tdm_moment_rates tdm_adam_rates(const tdm_adam_attributes *attributes,
                                                    double learning_rate, double step) {
  tdm_moment_rates rates = {0.0, 0.0, 1.0, 0.0};
  rates.of_average = learning_rate / (1.0 - pow(attributes->beta1, step));
  rates.root = sqrt(1.0 - pow(attributes->beta2, step));
  return rates;
}

/* The momentum of that step. */
TDM_MOMENT_FUNCTION double tdm_nadam_momentum(const tdm_adam_attributes *attributes, double step) {
  return attributes->beta1 * (1.0 - 0.5 * pow(0.96, step * attributes->momentum_decay));
}

/* product: of the momenta of all steps, this one included. */
TDM_MOMENT_FUNCTION tdm_moment_rates tdm_nadam_rates(const tdm_adam_attributes *attributes,
                                                     double learning_rate, double step,
                                                     double product) {
  tdm_moment_rates rates = {0.0, 0.0, 1.0, 0.0};
  const double next = tdm_nadam_momentum(attributes, step + 1);
  rates.of_gradient =
      learning_rate * (1.0 - tdm_nadam_momentum(attributes, step)) / (1.0 - product);
  rates.of_average = learning_rate * next / (1.0 - product * next);
  rates.root = sqrt(1.0 - pow(attributes->beta2, step));
  return rates;
}

/* Rectified once the variance is that of more than five degrees of freedom. */
TDM_MOMENT_FUNCTION tdm_moment_rates tdm_radam_rates(const tdm_adam_attributes *attributes,
                                                     double learning_rate, double step) {
  tdm_moment_rates rates = {0.0, 0.0, 1.0, 1.0};
  const double power = pow(attributes->beta2, step);
  const double most = 2.0 / (1.0 - attributes->beta2) - 1.0;
  const double length = most - 2.0 * step * power / (1.0 - power);
  rates.of_average = learning_rate / (1.0 - pow(attributes->beta1, step));
  if (!(length > 5.0)) return rates;
  rates.plain = 0.0;
  rates.of_average *= sqrt(1.0 - power) * sqrt((length - 4.0) * (length - 2.0) * most /
                                               ((most - 4.0) * (most - 2.0) * length));
  return rates;
}

/* Returns the rates of adamax, which have only beta1's bias correction. */
TDM_MOMENT_FUNCTION tdm_moment_rates tdm_adamax_rates(const tdm_adam_attributes *attributes,
                                                      double learning_rate, double step) {
  tdm_moment_rates rates = {0.0, 0.0, 1.0, 0.0};
  rates.of_average = learning_rate / (1.0 - pow(attributes->beta1, step));
  return rates;
}

#endif
