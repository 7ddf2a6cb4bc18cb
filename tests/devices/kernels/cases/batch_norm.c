/* Cases of batch normalization, its gradient and its running statistics. */
#include <math.h>
#include <stdio.h>

#include "tests/devices/kernels/cases.h"

/* x is (n, channels, inner); the place of element i of a channel, of n x inner. */
typedef struct layout {
  int64_t channels, inner, count;
} layout;

static layout layout_of(const tdm_shape *x) {
  layout found = {.channels = x->dims[1], .inner = 1};
  for (int d = 2; d < x->rank; d++)
    found.inner *= x->dims[d];
  found.count = x->dims[0] * found.inner;
  return found;
}

/* If the case normalizes instances, every channel of an image is one of a single image. */
static layout own_layout_of(const kernel_case *self, const tdm_shape *x) {
  layout found = layout_of(x);
  if (self->attributes.batch_norm.instances == 0) return found;
  found.channels *= x->dims[0];
  found.count = found.inner;
  return found;
}

static int64_t place_of(const layout *of, int64_t channel, int64_t i) {
  return (i / of->inner * of->channels + channel) * of->inner + i % of->inner;
}

static void evaluation_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  const layout of = layout_of(&self->inputs[0].spec.shape);
  for (int64_t c = 0; c < of.channels; c++) {
    const double inverse = 1 / sqrt(inputs[2][c] + self->attributes.batch_norm.epsilon);
    for (int64_t i = 0; i < of.count; i++) {
      const int64_t place = place_of(&of, c, i);
      outputs[0][place] =
          (inputs[0][place] - inputs[1][c]) * inverse * (inputs[3] ? inputs[3][c] : 1) +
          (inputs[4] ? inputs[4][c] : 0);
    }
  }
}

static void training_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const layout of = own_layout_of(self, &self->inputs[0].spec.shape);
  for (int64_t c = 0; c < of.channels; c++) {
    double mean = of.count > 0 ? inputs[0][place_of(&of, c, 0)] : 0, squares = 0;
    for (int pass = 0; pass < 2; pass++) { /* the second pass removes rounding errors */
      double apart = 0;
      for (int64_t i = 0; i < of.count; i++)
        apart += inputs[0][place_of(&of, c, i)] - mean;
      mean += of.count > 0 ? apart / (double)of.count : 0;
    }
    for (int64_t i = 0; i < of.count; i++)
      squares += pow(inputs[0][place_of(&of, c, i)] - mean, 2);
    outputs[1][c] = mean;
    const double terms = of.count > 0 ? (double)of.count : 1; /* empty: as if one 0 */
    outputs[2][c] = 1 / sqrt(squares / terms + self->attributes.batch_norm.epsilon);
    const double variance = squares / (double)(of.count > 1 ? of.count - 1 : 1);
    outputs[3][c] = self->dtype == TDM_FLOAT32 ? (double)(float)variance : variance;
    for (int64_t i = 0; i < of.count; i++) {
      const int64_t place = place_of(&of, c, i);
      outputs[0][place] =
          (inputs[0][place] - mean) * outputs[2][c] * (inputs[3] ? inputs[3][c] : 1) +
          (inputs[4] ? inputs[4][c] : 0);
    }
  }
}

static void gradient_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const layout of = own_layout_of(self, &self->inputs[1].spec.shape);
  for (int64_t c = 0; c < of.channels; c++) {
    const double mean = inputs[2][c], inverse = inputs[3][c];
    double sum = 0, product = 0;
    for (int64_t i = 0; i < of.count; i++) {
      const int64_t place = place_of(&of, c, i);
      sum += inputs[0][place];
      product += inputs[0][place] * (inputs[1][place] - mean) * inverse;
    }
    outputs[1][c] = product;
    outputs[2][c] = sum;
    for (int64_t i = 0; i < of.count; i++) {
      const int64_t place = place_of(&of, c, i);
      const double n = (inputs[1][place] - mean) * inverse;
      outputs[0][place] = inverse * (inputs[4] ? inputs[4][c] : 1) *
                          (inputs[0][place] - (sum + n * product) / (double)of.count);
    }
  }
}

static void statistics_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  const double momentum = self->attributes.batch_norm.momentum;
  outputs[2][0] = inputs[2][0] + (self->attributes.batch_norm.instances == 0);
  const double share = momentum < 0 ? 1 / outputs[2][0] : momentum;
  for (int k = 0; k < 2; k++)
    for (int64_t c = 0; c < input_count_of(self, 0); c++)
      outputs[k][c] = (1 - share) * inputs[k][c] + share * inputs[3 + k][c];
}

/* Adds the operands weight and bias to the case, or absent ones if not affine. */
static void add_affine(kernel_case *test, tdm_dtype dtype, tdm_shape channels, int count,
                       bool affine) {
  for (int i = 0; i < count; i++) {
    if (affine)
      kernel_case_input(test, dtype, channels, -1, 2);
    else
      kernel_case_absent_input(test);
  }
}

static kernel_case training_case(tdm_dtype dtype, tdm_shape x, bool affine, bool instances,
                                 const char *kind) {
  char text[TDM_SHAPE_TEXT];
  const tdm_shape channels =
      instances ? tdm_shape_of(2, x.dims[0], x.dims[1]) : tdm_shape_of(1, x.dims[1]);
  kernel_case training = kernel_case_make(TDM_OP_BATCH_NORM_TRAINING, dtype, training_reference,
                                          "%s%s", tdm_shape_text(&x, text, sizeof text), kind);
  training.attributes.batch_norm =
      (tdm_batch_norm_attributes){.epsilon = 1e-3, .momentum = 0.1, .instances = instances};
  kernel_case_input(&training, dtype, x, -1, 3);
  kernel_case_absent_input(&training);
  kernel_case_absent_input(&training);
  add_affine(&training, dtype, channels, 2, affine);
  kernel_case_output(&training, dtype, x);
  for (int i = 0; i < 3; i++)
    kernel_case_output(&training, i == 0 ? TDM_FLOAT64 : dtype, channels);
  return training;
}

static kernel_case gradient_case(tdm_dtype dtype, tdm_shape x, bool affine, bool instances,
                                 const char *kind) {
  char text[TDM_SHAPE_TEXT];
  const tdm_shape channels =
      instances ? tdm_shape_of(2, x.dims[0], x.dims[1]) : tdm_shape_of(1, x.dims[1]);
  kernel_case back = kernel_case_make(TDM_OP_BATCH_NORM_GRADIENT, dtype, gradient_reference, "%s%s",
                                      tdm_shape_text(&x, text, sizeof text), kind);
  back.attributes.batch_norm =
      (tdm_batch_norm_attributes){.epsilon = 1e-3, .momentum = 0.1, .instances = instances};
  kernel_case_input(&back, dtype, x, -1, 1);
  kernel_case_input(&back, dtype, x, -1, 3);
  kernel_case_input(&back, TDM_FLOAT64, channels, 0.5, 1.5);
  kernel_case_input(&back, dtype, channels, 0.5, 1.5);
  add_affine(&back, dtype, channels, 1, affine);
  kernel_case_output(&back, dtype, x);
  kernel_case_output(&back, dtype, channels);
  kernel_case_output(&back, dtype, channels);
  return back;
}

static void shape_cases_of(tdm_dtype dtype, tdm_shape x, bool affine, bool instances,
                           kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  const tdm_shape channels = tdm_shape_of(1, x.dims[1]);
  kernel_case evaluation = kernel_case_make(TDM_OP_BATCH_NORM, dtype, evaluation_reference, "%s",
                                            tdm_shape_text(&x, text, sizeof text));
  evaluation.attributes.batch_norm =
      (tdm_batch_norm_attributes){.epsilon = 1e-3, .momentum = 0.1, .instances = instances};
  kernel_case_input(&evaluation, dtype, x, -1, 3);
  kernel_case_input(&evaluation, dtype, channels, -1, 1);
  kernel_case_input(&evaluation, dtype, channels, 0.1, 2);
  add_affine(&evaluation, dtype, channels, 2, affine);
  kernel_case_output(&evaluation, dtype, x);
  visit(&evaluation, user);
  const kernel_case training = training_case(dtype, x, affine, instances, "");
  visit(&training, user);
  const kernel_case back = gradient_case(dtype, x, affine, instances, "");
  visit(&back, user);
}

/* Means that are large relative to the deviation, and squares beyond the range of float32. */
static void range_cases(tdm_dtype dtype, tdm_shape x, bool instances, kernel_visit visit,
                        void *user) {
  static const double ranges[][2] = {
      {1e5 - 1.7, 1e5 + 1.7}, {1e3, 1e3 + 1}, {1234.567, 1234.567}, {-1e20, 1e20}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    char kind[48];
    (void)snprintf(kind, sizeof kind, " from %g to %g", ranges[i][0], ranges[i][1]);
    const bool is_constant = ranges[i][0] == ranges[i][1];
    kernel_case training = training_case(dtype, x, is_constant && !instances, instances, kind);
    training.attributes.batch_norm.epsilon = is_constant ? 1e-5 : 1e-12;
    training.inputs[0].low = ranges[i][0];
    training.inputs[0].high = ranges[i][1];
    training.tolerance = ranges[i][0] > 0 ? 1e-6 : 0;
    if (dtype == TDM_FLOAT64 && ranges[i][0] > 1e4) continue;
    visit(&training, user);
    kernel_case back = gradient_case(dtype, x, false, instances, kind);
    for (size_t k = 1; k <= 2; k++) {
      back.inputs[k].low = ranges[i][0];
      back.inputs[k].high = ranges[i][1];
    }
    if (!is_constant && ranges[i][0] > 0) visit(&back, user);
  }
}

static void statistics_case(tdm_dtype dtype, int64_t channels, double momentum, bool instances,
                            kernel_visit visit, void *user) {
  kernel_case test = kernel_case_make(TDM_OP_BATCH_NORM_STATISTICS, dtype, statistics_reference,
                                      "%d channels, momentum %g", (int)channels, momentum);
  test.attributes.batch_norm =
      (tdm_batch_norm_attributes){.epsilon = 1e-3, .momentum = momentum, .instances = instances};
  kernel_case_input(&test, dtype, tdm_shape_of(1, channels), -1, 1);
  kernel_case_input(&test, dtype, tdm_shape_of(1, channels), 0.5, 1);
  kernel_case_input(&test, TDM_INT64, tdm_shape_scalar(), 3, 3.5);
  kernel_case_input(&test, TDM_FLOAT64, tdm_shape_of(1, channels), -1, 1);
  kernel_case_input(&test, dtype, tdm_shape_of(1, channels), 0.5, 1);
  for (size_t i = 0; i < 3; i++)
    kernel_case_overwrite(&test, i);
  visit(&test, user);
}

void batch_norm_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  shape_cases_of(dtype, tdm_shape_of(4, 3, 5, 4, 7), true, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(3, 4, 3, 9), false, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(2, 7, 37), true, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(2, 300, 3), false, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(4, 6, 9, 30, 30), true, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(3, 1, 2, 20), true, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(2, 0, 37), true, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(4, 3, 5, 0, 7), false, false, visit, user);
  shape_cases_of(dtype, tdm_shape_of(4, 3, 5, 4, 7), false, true, visit, user);
  shape_cases_of(dtype, tdm_shape_of(3, 4, 3, 900), false, true, visit, user);
  shape_cases_of(dtype, tdm_shape_of(3, 7, 5, 1), false, true, visit, user);
  for (int instances = 0; instances < 2; instances++) {
    range_cases(dtype, tdm_shape_of(3, 40, 3, 21), instances, visit, user);
    range_cases(dtype, tdm_shape_of(4, 3, 2, 19, 17), instances, visit, user);
  }
  range_cases(dtype, tdm_shape_of(2, 150, 37), false, visit, user);
  statistics_case(dtype, 37, 0.3, true, visit, user);
  statistics_case(dtype, 1, 0.1, false, visit, user);
  statistics_case(dtype, 37, 0.3, false, visit, user);
  statistics_case(dtype, 300, -1, false, visit, user);
  statistics_case(dtype, 20, 0, false, visit, user); /* only the count moves */
}
