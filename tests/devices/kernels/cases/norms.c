/* Cases of layer normalization; those of batch normalization join them. */
#include "tests/devices/kernels/cases.h"

#include <math.h>
#include <stdio.h>

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
  const double scale = self->inputs[0].high > 1e100 ? 1e-150 : 1; /* squares stay finite */
  for (int64_t row = 0; row < rows; row++) {
    const double *x = inputs[0] + row * count;
    const bool centered = self->attributes.layer_norm.uncentered == 0;
    double mean = centered && count > 0 ? x[0] : 0, variance = 0;
    for (int pass = 0; pass < 2 && centered; pass++) { /* the second removes rounding */
      double apart = 0;
      for (int64_t i = 0; i < count; i++)
        apart += x[i] - mean;
      mean += count > 0 ? apart / (double)count : 0;
    }
    for (int64_t i = 0; i < count; i++)
      variance += pow((x[i] - mean) * scale, 2) / (double)count;
    outputs[1][row] = mean;
    outputs[2][row] = scale / sqrt(variance + self->attributes.layer_norm.epsilon * scale * scale);
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

static kernel_case forward_case(tdm_dtype dtype, tdm_shape x, int rank, bool affine,
                                bool uncentered, const char *kind) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&x, text, sizeof text);
  tdm_shape rows = x, normalized = {.rank = rank};
  rows.rank -= rank;
  for (int i = 0; i < rank; i++)
    normalized.dims[i] = x.dims[rows.rank + i];
  kernel_case forward = kernel_case_make(TDM_OP_LAYER_NORM, dtype, layer_norm_reference,
                                         "%s rank %d%s", text, rank, kind);
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
  kernel_case_output(&forward, TDM_FLOAT64, rows);
  kernel_case_output(&forward, dtype, rows);
  return forward;
}

/* The gradient of x; that of the parameters lacks the last input and has other outputs. */
static kernel_case gradient_case(tdm_dtype dtype, tdm_shape x, int rank, bool uncentered,
                                 const char *kind) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&x, text, sizeof text);
  tdm_shape rows = x;
  rows.rank -= rank;
  kernel_case back =
      kernel_case_make(TDM_OP_LAYER_NORM_GRADIENT, dtype, layer_norm_gradient_reference,
                       "%s rank %d%s", text, rank, kind);
  back.attributes.layer_norm =
      (tdm_layer_norm_attributes){.epsilon = 1e-3, .rank = rank, .uncentered = uncentered};
  kernel_case_input(&back, dtype, x, -1, 1);
  kernel_case_input(&back, dtype, x, -1, 3);
  kernel_case_input(&back, TDM_FLOAT64, rows, 0.5, 1.5);
  kernel_case_input(&back, dtype, rows, 0.5, 1.5);
  return back;
}

static kernel_case parameter_case(const kernel_case *back, tdm_shape normalized) {
  kernel_case parameters = *back;
  parameters.operation = TDM_OP_LAYER_NORM_PARAMETER_GRADIENT;
  parameters.reference = layer_norm_parameters_reference;
  kernel_case_output(&parameters, back->dtype, normalized);
  kernel_case_output(&parameters, back->dtype, normalized);
  return parameters;
}

static void layer_norm_case(tdm_dtype dtype, tdm_shape x, int rank, bool affine, bool uncentered,
                            kernel_visit visit, void *user) {
  const char *kind = uncentered ? " uncentered" : affine ? "" : " plain";
  tdm_shape normalized = {.rank = rank};
  for (int i = 0; i < rank; i++)
    normalized.dims[i] = x.dims[x.rank - rank + i];
  const kernel_case forward = forward_case(dtype, x, rank, affine, uncentered, kind);
  visit(&forward, user);
  kernel_case back = gradient_case(dtype, x, rank, uncentered, kind);
  const kernel_case parameters = parameter_case(&back, normalized);
  if (affine)
    kernel_case_input(&back, dtype, normalized, -1, 2);
  else
    kernel_case_absent_input(&back);
  kernel_case_output(&back, dtype, x);
  visit(&back, user);
  visit(&parameters, user);
}

/* ---- Means that are large relative to the deviation ------------------------------------------ */

/* An outlier first, then small numbers: a guess from the first element would be far off. */
static void generate_outlier(const kernel_case *test, void *data) {
  for (int64_t i = 0; i < input_count_of(test, 0); i++) {
    const double value = i % input_last_dim(test, 0) == 0 ? 3e4 : (double)(i * 7 % 13) - 5.5;
    if (test->dtype == TDM_FLOAT64)
      ((double *)data)[i] = value;
    else
      ((float *)data)[i] = (float)value;
  }
}

/* 5e-7 of the factor 1 / sqrt(variance) is 1e-6 of the variance. */
static void mean_case(tdm_dtype dtype, tdm_shape x, double mean, kernel_visit visit, void *user) {
  char kind[32];
  const double half = sqrt(3); /* half the width of a uniform distribution of variance 1 */
  (void)snprintf(kind, sizeof kind, " mean %g", mean);
  kernel_case forward = forward_case(dtype, x, 1, false, false, kind);
  forward.attributes.layer_norm.epsilon = 1e-12;
  forward.inputs[0].low = mean - half;
  forward.inputs[0].high = mean + half;
  forward.tolerance = 5e-7;
  visit(&forward, user);
  kernel_case back = gradient_case(dtype, x, 1, false, kind);
  for (size_t i = 1; i <= 2; i++) {
    back.inputs[i].low = mean - half;
    back.inputs[i].high = mean + half;
  }
  const kernel_case parameters = parameter_case(&back, tdm_shape_of(1, x.dims[x.rank - 1]));
  kernel_case_absent_input(&back);
  kernel_case_output(&back, dtype, x);
  visit(&back, user);
  visit(&parameters, user);
}

static void range_case(tdm_dtype dtype, int64_t count, double low, double high, bool uncentered,
                       kernel_visit visit, void *user) {
  char kind[48];
  (void)snprintf(kind, sizeof kind, " from %g to %g%s", low, high, uncentered ? " uncentered" : "");
  kernel_case forward =
      forward_case(dtype, tdm_shape_of(2, 3, count), 1, low == high, uncentered, kind);
  forward.attributes.layer_norm.epsilon = high < 1 ? 1e-60 : 1e-5;
  forward.inputs[0].low = low;
  forward.inputs[0].high = high;
  visit(&forward, user);
}

static void mean_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const int64_t counts[] = {2, 3, 5, 17, 33, 64, 100, 255, 768, 1023, 5001};
  /* in float64 the mean itself has an error of 2e-16 of it, so that two means are enough */
  static const double means[] = {0.5, 1, 100, 1e3, 1e4, 1e5};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    for (size_t j = 0; j < (dtype == TDM_FLOAT64 ? 2 : sizeof means / sizeof *means); j++)
      mean_case(dtype, tdm_shape_of(2, 3, counts[i]), means[j], visit, user);
  if (dtype == TDM_FLOAT32) mean_case(dtype, tdm_shape_of(2, 1, 100000), 1e5, visit, user);
  mean_case(dtype, tdm_shape_of(2, 1, 99999), 0.5, visit, user);
  kernel_case outlier = forward_case(dtype, tdm_shape_of(2, 2, 5000), 1, false, false, " outlier");
  outlier.inputs[0].generate = generate_outlier;
  outlier.tolerance = 1e-6;
  visit(&outlier, user);
  for (int uncentered = 0; uncentered < 2; uncentered++) {
    range_case(dtype, 768, 1234.567, 1234.567, uncentered, visit, user);
    range_case(dtype, 768, 1e6, 1e6, uncentered, visit, user);
    range_case(dtype, 37, -1e6 / 3, -1e6 / 3, uncentered, visit, user);
    range_case(dtype, 768, -1e20, 1e20, uncentered, visit, user);
    range_case(dtype, 333, -1e30, 1e30, uncentered, visit, user);
    range_case(dtype, 33, 1e-25, 1e-23, uncentered, visit, user);
  }
  if (dtype == TDM_FLOAT64) range_case(dtype, 33, -1e200, 1e200, false, visit, user);
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
    mean_cases(dtype, visit, user);
    batch_norm_cases(dtype, visit, user);
  }
}
