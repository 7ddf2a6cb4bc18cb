/* Cases of SGD, Adam, AdamW, SparseAdam: one step from given states, by the formulas of the
 * documentation of torch.optim. */
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <string.h>

static const int64_t counts[] = {0, 1, 17, 110, 10000, 40003};
#define COUNTS (sizeof counts / sizeof counts[0])

/* ---- sgd ------------------------------------------------------------------------------------- */

static void sgd_reference(const kernel_case *self, const double *const *inputs,
                          double *const *outputs) {
  const tdm_sgd_attributes *a = &self->attributes.sgd;
  const double momentum = a->momentum != 0 ? kernel_case_momentum(self, a->momentum) : 0;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    double d = inputs[1][i] + a->weight_decay * inputs[0][i];
    if (a->momentum != 0) outputs[1][i] = inputs[2][i];
    if (momentum != 0) {
      const bool first = inputs[3][0] == 0;
      const double buffer = first ? d : momentum * inputs[2][i] + (1 - a->dampening) * d;
      outputs[1][i] = buffer;
      d = a->nesterov != 0 ? d + momentum * buffer : buffer;
    }
    outputs[0][i] = inputs[0][i] - self->scalars.learning_rate * d;
  }
  if (a->momentum != 0) outputs[2][0] = momentum != 0 ? 1 : inputs[3][0];
}

static void sgd_case(tdm_dtype dtype, int64_t count, const tdm_sgd_attributes *attributes,
                     double initialized, kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(1, count);
  kernel_case test = kernel_case_make(
      TDM_OP_SGD, dtype, sgd_reference, "%lld, momentum %g dampening %g decay %g nesterov %d (%g)",
      (long long)count, attributes->momentum, attributes->dampening, attributes->weight_decay,
      (int)attributes->nesterov, initialized);
  test.attributes.sgd = *attributes;
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  if (attributes->momentum != 0) {
    kernel_case_input(&test, dtype, shape, -1, 1);
    kernel_case_input(&test, dtype, tdm_shape_scalar(), initialized, initialized);
    kernel_case_overwrite(&test, 0);
    kernel_case_overwrite(&test, 2);
    kernel_case_overwrite(&test, 3);
  } else {
    kernel_case_absent_input(&test);
    kernel_case_absent_input(&test);
    kernel_case_overwrite(&test, 0);
  }
  kernel_case_visit_momenta(&test, visit, user);
}

/* ---- adam ------------------------------------------------------------------------------------ */

static void adam_reference(const kernel_case *self, const double *const *inputs,
                           double *const *outputs) {
  const tdm_adam_attributes own = kernel_case_adam(self), *a = &own;
  const double rate = self->scalars.learning_rate, step = inputs[4][0] + 1;
  const double correction1 = 1 - pow(a->beta1, step), correction2 = 1 - pow(a->beta2, step);
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    double p = inputs[0][i], g = inputs[1][i];
    if (a->decoupled != 0) {
      p *= 1 - rate * a->weight_decay;
    } else {
      g += a->weight_decay * p;
    }
    const double m = a->beta1 * inputs[2][i] + (1 - a->beta1) * g;
    const double v = a->beta2 * inputs[3][i] + (1 - a->beta2) * g * g;
    outputs[0][i] = p - rate / correction1 * m / (sqrt(v) / sqrt(correction2) + a->epsilon);
    outputs[1][i] = m;
    outputs[2][i] = v;
  }
  outputs[3][0] = step;
}

static void adam_case(tdm_dtype dtype, int64_t count, double decay, bool decoupled, double step,
                      kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(1, count);
  kernel_case test =
      kernel_case_make(TDM_OP_ADAM, dtype, adam_reference, "%lld, decay %g%s, step %g",
                       (long long)count, decay, decoupled ? " decoupled" : "", step);
  test.attributes.adam = (tdm_adam_attributes){
      .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = decay, .decoupled = decoupled};
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, -1, 1);
  kernel_case_input(&test, dtype, shape, step == 0 ? 0 : -0.5, step == 0 ? 0 : 0.5);
  kernel_case_input(&test, dtype, shape, 0, step == 0 ? 0 : 0.3);
  kernel_case_input(&test, dtype, tdm_shape_scalar(), step, step);
  kernel_case_overwrite(&test, 0);
  kernel_case_overwrite(&test, 2);
  kernel_case_overwrite(&test, 3);
  kernel_case_overwrite(&test, 4);
  kernel_case_visit_momenta(&test, visit, user);
}

void optimizer_cases(kernel_visit visit, void *user) {
  static const tdm_sgd_attributes sgds[] = {
      {0, 0, 0, 0}, {0, 0, 0.1, 0}, {0.9, 0, 0, 0}, {0.9, 0.2, 0.05, 0}, {0.8, 0, 0.01, 1},
  };
  EACH_REAL(dtype) {
    for (size_t i = 0; i < COUNTS; i++) {
      for (size_t j = 0; j < sizeof sgds / sizeof sgds[0]; j++) {
        sgd_case(dtype, counts[i], &sgds[j], 0, visit, user);
        sgd_case(dtype, counts[i], &sgds[j], 1, visit, user);
      }
      adam_case(dtype, counts[i], 0, false, 0, visit, user);
      adam_case(dtype, counts[i], 0.1, false, 4, visit, user);
      adam_case(dtype, counts[i], 0.1, true, 4, visit, user);
      moments_cases(dtype, counts[i], visit, user);
      adaptive_optimizer_cases(dtype, counts[i], visit, user);
      adafactor_cases(dtype, counts[i], visit, user);
    }
  }
}

/* ---- Sparse ---------------------------------------------------------------------------------- */

static void sgd_sparse_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  const int64_t dim = input_dim(self, 0, 1);
  memcpy(outputs[0], inputs[0], (size_t)input_count_of(self, 0) * sizeof(double));
  for (int64_t i = 0; i < (int64_t)inputs[3][0]; i++) {
    for (int64_t j = 0; j < dim; j++) {
      outputs[0][(int64_t)inputs[2][i] * dim + j] -=
          self->scalars.learning_rate * inputs[1][i * dim + j];
    }
  }
}

static void adam_sparse_reference(const kernel_case *self, const double *const *inputs,
                                  double *const *outputs) {
  const tdm_adam_attributes own = kernel_case_adam(self), *a = &own;
  const int64_t dim = input_dim(self, 0, 1);
  const size_t bytes = (size_t)input_count_of(self, 0) * sizeof(double);
  const double step = inputs[6][0] + 1;
  const double correction1 = 1 - pow(a->beta1, step), correction2 = 1 - pow(a->beta2, step);
  const double step_size = self->scalars.learning_rate * sqrt(correction2) / correction1;
  memcpy(outputs[0], inputs[0], bytes);
  memcpy(outputs[1], inputs[4], bytes);
  memcpy(outputs[2], inputs[5], bytes);
  outputs[3][0] = step;
  for (int64_t i = 0; i < (int64_t)inputs[3][0]; i++) {
    for (int64_t j = 0; j < dim; j++) {
      const int64_t at = (int64_t)inputs[2][i] * dim + j;
      const double g = inputs[1][i * dim + j];
      outputs[1][at] += (g - outputs[1][at]) * (1 - a->beta1);
      outputs[2][at] += (g * g - outputs[2][at]) * (1 - a->beta2);
      outputs[0][at] -= step_size * outputs[1][at] / (sqrt(outputs[2][at]) + a->epsilon);
    }
  }
}

/* Creates a case with a parameter (rows, dim) and a gradient of n entries, `used` of which are
 * valid. */
static kernel_case sparse_case(const char *operation, tdm_dtype dtype, kernel_reference reference,
                               const int64_t size[4]) {
  const int64_t rows = size[0], dim = size[1], n = size[2], used = size[3];
  kernel_case test =
      kernel_case_make(operation, dtype, reference, "%lld x %lld, %lld of %lld entries",
                       (long long)rows, (long long)dim, (long long)used, (long long)n);
  kernel_case_input(&test, dtype, tdm_shape_of(2, rows, dim), -1, 1);
  kernel_input *values = kernel_case_input(&test, dtype, tdm_shape_of(2, n, dim), -1, 1);
  values->fill = FILL_ROWS;
  values->used = used;
  kernel_input *indices = kernel_case_input(&test, TDM_INT64, tdm_shape_of(1, n), 0, (double)rows);
  indices->fill = FILL_SPARSE;
  indices->used = used;
  const double count = (double)used;
  kernel_case_input(&test, TDM_INT64, tdm_shape_scalar(), count, count);
  return test;
}

void sparse_optimizer_cases(kernel_visit visit, void *user) {
  static const int64_t sizes[][4] = {
      {10, 4, 0, 0}, {10, 4, 6, 0}, {1, 1, 1, 1}, {50, 17, 30, 22}, {2000, 64, 1500, 1500}};
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      kernel_case sgd = sparse_case(TDM_OP_SGD_SPARSE, dtype, sgd_sparse_reference, sizes[i]);
      kernel_case_overwrite(&sgd, 0);
      visit(&sgd, user);

      kernel_case adam = sparse_case(TDM_OP_ADAM_SPARSE, dtype, adam_sparse_reference, sizes[i]);
      adam.attributes.adam = (tdm_adam_attributes){.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
      kernel_case_input(&adam, dtype, adam.inputs[0].spec.shape, -0.5, 0.5);
      kernel_case_input(&adam, dtype, adam.inputs[0].spec.shape, 0, 0.3);
      kernel_case_input(&adam, dtype, tdm_shape_scalar(), 2, 2);
      kernel_case_overwrite(&adam, 0);
      kernel_case_overwrite(&adam, 4);
      kernel_case_overwrite(&adam, 5);
      kernel_case_overwrite(&adam, 6);
      kernel_case_visit_momenta(&adam, visit, user);

      const kernel_case adagrad = sparse_case(TDM_OP_ADAGRAD_SPARSE, dtype, NULL, sizes[i]);
      adagrad_sparse_case(&adagrad, visit, user);
    }
  }
}
