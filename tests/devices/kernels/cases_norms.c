/* Cases of layer normalization; those of batch normalization join them. */
#include "tests/devices/kernels/cases.h"

#include <math.h>

/* ---- Layer normalization --------------------------------------------------------------------- */

static int64_t normalized_count(const kernel_case *self, size_t x) {
  int64_t count = 1;
  const tdm_shape *shape = &self->inputs[x].spec.shape;
  for (int64_t i = 0; i < self->attributes.layer_norm.rank; i++)
    count *= shape->dims[shape->rank - 1 - i];
  return count;
}

static void layer_norm_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  const int64_t count = normalized_count(self, 0);
  const int64_t rows = tdm_shape_count(&self->outputs[1].shape);
  for (int64_t row = 0; row < rows; row++) {
    const double *x = inputs[0] + row * count;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count && !self->attributes.layer_norm.uncentered; i++)
      mean += x[i] / (double)count;
    for (int64_t i = 0; i < count; i++)
      variance += (x[i] - mean) * (x[i] - mean) / (double)count;
    outputs[1][row] = mean;
    outputs[2][row] = 1 / sqrt(variance + self->attributes.layer_norm.epsilon);
    for (int64_t i = 0; i < count; i++) {
      const double n = (x[i] - mean) * outputs[2][row];
      outputs[0][row * count + i] =
          n * (inputs[1] ? inputs[1][i] : 1) + (inputs[2] ? inputs[2][i] : 0);
    }
  }
}

static void layer_norm_gradient_reference(const kernel_case *self, const double *const *inputs,
                                          double *const *outputs) {
  const int64_t count = normalized_count(self, 1);
  for (int64_t row = 0; row < input_count_of(self, 2); row++) {
    const double *d_y = inputs[0] + row * count, *x = inputs[1] + row * count;
    const double mean = inputs[2][row], inverse = inputs[3][row];
    double sum = 0, product = 0;
    for (int64_t i = 0; i < count; i++) {
      const double g = d_y[i] * (inputs[4] ? inputs[4][i] : 1);
      sum += self->attributes.layer_norm.uncentered ? 0 : g / (double)count;
      product += g * (x[i] - mean) * inverse / (double)count;
    }
    for (int64_t i = 0; i < count; i++) {
      const double g = d_y[i] * (inputs[4] ? inputs[4][i] : 1);
      outputs[0][row * count + i] = inverse * (g - sum - (x[i] - mean) * inverse * product);
    }
  }
}

static void layer_norm_parameters_reference(const kernel_case *self, const double *const *inputs,
                                            double *const *outputs) {
  const int64_t count = normalized_count(self, 1);
  for (int64_t i = 0; i < count; i++) {
    outputs[0][i] = outputs[1][i] = 0;
    for (int64_t row = 0; row < input_count_of(self, 2); row++) {
      const double d = inputs[0][row * count + i];
      outputs[0][i] += d * (inputs[1][row * count + i] - inputs[2][row]) * inputs[3][row];
      outputs[1][i] += d;
    }
  }
}

static void layer_norm_case(tdm_dtype dtype, tdm_shape x, int rank, bool affine, bool uncentered,
                            kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&x, text, sizeof text);
  const char *plain = uncentered ? " uncentered" : affine ? "" : " plain";
  tdm_shape rows = x, normalized = {.rank = rank};
  rows.rank -= rank;
  for (int i = 0; i < rank; i++)
    normalized.dims[i] = x.dims[rows.rank + i];
  kernel_case forward = kernel_case_make(TDM_OP_LAYER_NORM, dtype, layer_norm_reference,
                                         "%s rank %d%s", text, rank, plain);
  forward.attributes.layer_norm =
      (tdm_layer_norm_attributes){.epsilon = 1e-3, .rank = rank, .uncentered = uncentered};
  kernel_case_input(&forward, dtype, x, -1, 3);
  for (int i = 0; i < 2; i++) {
    if (affine && !(uncentered && i == 1))
      kernel_case_input(&forward, dtype, normalized, -1, 2);
    else
      kernel_case_absent_input(&forward);
  }
  kernel_case_output(&forward, dtype, x);
  kernel_case_output(&forward, dtype, rows);
  kernel_case_output(&forward, dtype, rows);
  visit(&forward, user);

  kernel_case back =
      kernel_case_make(TDM_OP_LAYER_NORM_GRADIENT, dtype, layer_norm_gradient_reference,
                       "%s rank %d%s", text, rank, plain);
  back.attributes = forward.attributes;
  kernel_case_input(&back, dtype, x, -1, 1);
  kernel_case_input(&back, dtype, x, -1, 3);
  kernel_case_input(&back, dtype, rows, 0.5, 1.5);
  kernel_case_input(&back, dtype, rows, 0.5, 1.5);
  kernel_case parameters = back;
  if (affine)
    kernel_case_input(&back, dtype, normalized, -1, 2);
  else
    kernel_case_absent_input(&back);
  kernel_case_output(&back, dtype, x);
  visit(&back, user);

  parameters.operation = TDM_OP_LAYER_NORM_PARAMETER_GRADIENT;
  parameters.reference = layer_norm_parameters_reference;
  kernel_case_output(&parameters, dtype, normalized);
  kernel_case_output(&parameters, dtype, normalized);
  visit(&parameters, user);
}

void norm_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (int rank = 1; rank <= 3; rank++)
      layer_norm_case(dtype, tdm_shape_of(3, 4, 5, 17), rank, rank != 2, false, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 300, 100), 1, true, false, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 1100, 3), 1, true, false, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 1100, 33), 1, true, false, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 3, 9001), 1, true, false, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 7, 1), 1, true, false, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 0, 5), 1, true, false, visit, user);
    layer_norm_case(dtype, tdm_shape_of(3, 4, 5, 17), 2, true, true, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 300, 100), 1, true, true, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 7, 33), 1, false, true, visit, user);
    layer_norm_case(dtype, tdm_shape_of(2, 0, 5), 1, true, true, visit, user);
    batch_norm_cases(dtype, visit, user);
  }
}
