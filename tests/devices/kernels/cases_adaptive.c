/* Cases of Adagrad, RMSprop, Adadelta and of moving averages: one step from given states, by the
 * formulas of the documentation of torch.optim. */
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <string.h>

/* ---- Adagrad --------------------------------------------------------------------------------- */

static double step_rate(const kernel_case *self, double step) {
  return self->scalars.learning_rate / (1 + step * self->attributes.adagrad.rate_decay);
}

static void adagrad_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_adagrad_attributes *a = &self->attributes.adagrad;
  const double rate = step_rate(self, inputs[3][0]);
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const double g = inputs[1][i] + a->weight_decay * inputs[0][i];
    outputs[1][i] = inputs[2][i] + g * g;
    outputs[0][i] = inputs[0][i] - rate * g / (sqrt(outputs[1][i]) + a->epsilon);
  }
  outputs[2][0] = inputs[3][0] + 1;
}

static void adagrad_case(tdm_dtype dtype, int64_t count, tdm_adagrad_attributes attributes,
                         double step, kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(1, count);
  kernel_case test =
      kernel_case_make(TDM_OP_ADAGRAD, dtype, adagrad_reference, "%lld, decay %g, %g, step %g",
                       (long long)count, attributes.rate_decay, attributes.weight_decay, step);
  test.attributes.adagrad = attributes;
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, 0, step == 0 ? 0 : 2);
  kernel_case_input(&test, dtype, tdm_shape_scalar(), step, step);
  kernel_case_overwrite(&test, 0);
  kernel_case_overwrite(&test, 2);
  kernel_case_overwrite(&test, 3);
  visit(&test, user);
}

/* ---- RMSprop --------------------------------------------------------------------------------- */

static void rmsprop_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_rmsprop_attributes *a = &self->attributes.rmsprop;
  const int buffer = a->centered != 0 ? 4 : 3;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const double g = inputs[1][i] + a->weight_decay * inputs[0][i];
    double variance = a->alpha * inputs[2][i] + (1 - a->alpha) * g * g;
    outputs[1][i] = variance;
    if (a->centered != 0) {
      const double mean = a->alpha * inputs[3][i] + (1 - a->alpha) * g;
      outputs[2][i] = mean;
      variance -= mean * mean;
    }
    double direction = g / (sqrt(variance) + a->epsilon);
    const double momentum = a->momentum != 0 ? kernel_case_momentum(self, a->momentum) : 0;
    if (a->momentum != 0) outputs[buffer - 1][i] = inputs[buffer][i];
    if (momentum != 0) {
      direction += momentum * inputs[buffer][i];
      outputs[buffer - 1][i] = direction;
    }
    outputs[0][i] = inputs[0][i] - self->scalars.learning_rate * direction;
  }
}

static void rmsprop_case(tdm_dtype dtype, int64_t count, const tdm_rmsprop_attributes *attributes,
                         bool first, kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(1, count);
  kernel_case test =
      kernel_case_make(TDM_OP_RMSPROP, dtype, rmsprop_reference, "%lld, decay %g, momentum %g%s%s",
                       (long long)count, attributes->weight_decay, attributes->momentum,
                       attributes->centered ? " centered" : "", first ? " 1st" : "");
  test.attributes.rmsprop = *attributes;
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  /* At least the squares of the averages that follow, so that no variance is negative. */
  kernel_case_input(&test, dtype, shape, first ? 0 : 0.5, first ? 0 : 1);
  if (attributes->centered != 0)
    kernel_case_input(&test, dtype, shape, first ? 0 : -0.4, first ? 0 : 0.4);
  if (attributes->momentum != 0)
    kernel_case_input(&test, dtype, shape, first ? 0 : -3, first ? 0 : 3);
  kernel_case_overwrite(&test, 0);
  for (size_t i = 2; i < test.input_count; i++)
    kernel_case_overwrite(&test, i);
  kernel_case_visit_momenta(&test, visit, user);
}

/* ---- Adadelta -------------------------------------------------------------------------------- */

static void adadelta_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const tdm_adadelta_attributes *a = &self->attributes.adadelta;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const double g = inputs[1][i] + a->weight_decay * inputs[0][i];
    const double v = a->rho * inputs[2][i] + (1 - a->rho) * g * g;
    const double change = sqrt(inputs[3][i] + a->epsilon) / sqrt(v + a->epsilon) * g;
    outputs[1][i] = v;
    outputs[2][i] = a->rho * inputs[3][i] + (1 - a->rho) * change * change;
    outputs[0][i] = inputs[0][i] - self->scalars.learning_rate * change;
  }
}

static void adadelta_case(tdm_dtype dtype, int64_t count, tdm_adadelta_attributes attributes,
                          bool first, kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(1, count);
  kernel_case test = kernel_case_make(TDM_OP_ADADELTA, dtype, adadelta_reference,
                                      "%lld, decay %g, rho %g%s", (long long)count,
                                      attributes.weight_decay, attributes.rho, first ? " 1st" : "");
  test.attributes.adadelta = attributes;
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  for (size_t i = 0; i < 2; i++)
    kernel_case_input(&test, dtype, shape, 0, first ? 0 : 1);
  kernel_case_overwrite(&test, 0);
  kernel_case_overwrite(&test, 2);
  kernel_case_overwrite(&test, 3);
  visit(&test, user);
}

/* ---- Moving averages ------------------------------------------------------------------------- */

static void average_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const double decay = self->attributes.average.decay, so_far = inputs[2][0];
  const double share = so_far == 0 ? 1 : decay < 0 ? 1 / (so_far + 1) : 1 - decay;
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = (1 - share) * inputs[0][i] + share * inputs[1][i];
  outputs[1][0] = so_far + 1;
}

static void average_case(tdm_dtype dtype, int64_t count, double decay, double so_far,
                         kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(1, count);
  kernel_case test = kernel_case_make(TDM_OP_AVERAGE, dtype, average_reference,
                                      "%lld, decay %g, %g so far", (long long)count, decay, so_far);
  test.attributes.average.decay = decay;
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, tdm_shape_scalar(), so_far, so_far);
  kernel_case_overwrite(&test, 0);
  kernel_case_overwrite(&test, 2);
  visit(&test, user);
}

void adaptive_optimizer_cases(tdm_dtype dtype, int64_t count, kernel_visit visit, void *user) {
  static const tdm_rmsprop_attributes settings[] = {{0.99, 1e-8, 0, 0, 0},
                                                    {0.9, 1e-6, 0.1, 0, 1},
                                                    {0.9, 1e-8, 0, 0.8, 0},
                                                    {0.7, 1e-3, 0.05, 0.9, 1}};
  const tdm_adagrad_attributes plain = {.epsilon = 1e-10};
  const tdm_adagrad_attributes decaying = {.rate_decay = 0.3, .weight_decay = 0.1, .epsilon = 1e-3};
  const tdm_adadelta_attributes zeiler = {.rho = 0.9, .epsilon = 1e-6};
  const tdm_adadelta_attributes shrinking = {.rho = 0.7, .epsilon = 1e-3, .weight_decay = 0.1};
  average_case(dtype, count > 1000 ? count / 2 : count, 0.999, 3, visit, user);
  if (count > 1000) { /* large ones are slow where threads are emulated */
    adagrad_case(dtype, count / 2, decaying, 4, visit, user);
    rmsprop_case(dtype, count / 2, &settings[3], false, visit, user);
    adadelta_case(dtype, count / 2, shrinking, false, visit, user);
    return;
  }
  average_case(dtype, count, 0.3, 2, visit, user);
  average_case(dtype, count, 0.9, 0, visit, user);
  average_case(dtype, count, -1, 4, visit, user);
  adadelta_case(dtype, count, zeiler, true, visit, user);
  adadelta_case(dtype, count, shrinking, false, visit, user);
  adagrad_case(dtype, count, plain, 0, visit, user);
  adagrad_case(dtype, count, decaying, 4, visit, user);
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
    rmsprop_case(dtype, count, &settings[i], i == 0, visit, user);
}

/* ---- Sparse ---------------------------------------------------------------------------------- */

static void adagrad_sparse_reference(const kernel_case *self, const double *const *inputs,
                                     double *const *outputs) {
  const int64_t dim = input_dim(self, 0, 1);
  const size_t bytes = (size_t)input_count_of(self, 0) * sizeof(double);
  const double rate = step_rate(self, inputs[5][0]);
  memcpy(outputs[0], inputs[0], bytes);
  memcpy(outputs[1], inputs[4], bytes);
  outputs[2][0] = inputs[5][0] + 1;
  for (int64_t i = 0; i < (int64_t)inputs[3][0]; i++) {
    for (int64_t j = 0; j < dim; j++) {
      const int64_t at = (int64_t)inputs[2][i] * dim + j;
      const double g = inputs[1][i * dim + j];
      outputs[1][at] += g * g;
      outputs[0][at] -= rate * g / (sqrt(outputs[1][at]) + self->attributes.adagrad.epsilon);
    }
  }
}

void adagrad_sparse_case(const kernel_case *begun, kernel_visit visit, void *user) {
  kernel_case test = *begun;
  test.reference = adagrad_sparse_reference;
  test.attributes.adagrad = (tdm_adagrad_attributes){.rate_decay = 0.3, .epsilon = 1e-10};
  kernel_case_input(&test, test.dtype, test.inputs[0].spec.shape, 0, 2);
  kernel_case_input(&test, test.dtype, tdm_shape_scalar(), 2, 2);
  kernel_case_overwrite(&test, 0);
  kernel_case_overwrite(&test, 4);
  kernel_case_overwrite(&test, 5);
  visit(&test, user);
}
