/* Cases of softmax, cross-entropy and the losses of elements without other options. */
#include "tests/devices/kernels/cases.h"

#include <math.h>

/* ---- softmax --------------------------------------------------------------------------------- */

typedef struct layout {
  int64_t outer, size, inner;
} layout;

static layout layout_of(const kernel_case *test) {
  const tdm_shape *shape = &test->outputs[0].shape;
  const int64_t dimension = test->attributes.softmax.dimension;
  layout result = {1, shape->rank > 0 ? shape->dims[dimension] : 1, 1};
  for (int64_t i = 0; i < dimension; i++)
    result.outer *= shape->dims[i];
  for (int64_t i = dimension + 1; i < shape->rank; i++)
    result.inner *= shape->dims[i];
  return result;
}

/* Computes y of one row x; the elements of each are `step` apart. */
static void softmax_row(const double *x, double *y, int64_t size, int64_t step, bool logarithm) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < size; i++)
    most = fmax(most, x[i * step]);
  for (int64_t i = 0; i < size; i++)
    sum += exp(x[i * step] - most);
  for (int64_t i = 0; i < size; i++) {
    const double shifted = x[i * step] - most;
    y[i * step] = logarithm ? shifted - log(sum) : exp(shifted) / sum;
  }
}

static void softmax_gradient_row(const double *d_y, const double *y, double *d_x, int64_t size,
                                 int64_t step, bool logarithm) {
  double sum = 0;
  for (int64_t i = 0; i < size; i++)
    sum += d_y[i * step] * (logarithm ? 1 : y[i * step]);
  for (int64_t i = 0; i < size; i++) {
    const int64_t at = i * step;
    d_x[at] = logarithm ? d_y[at] - exp(y[at]) * sum : y[at] * (d_y[at] - sum);
  }
}

static void softmax_any(const kernel_case *self, const double *const *inputs,
                        double *const *outputs, bool logarithm, bool gradient) {
  const layout at = layout_of(self);
  for (int64_t i = 0; i < at.outer; i++) {
    for (int64_t j = 0; j < at.inner; j++) {
      const int64_t start = i * at.size * at.inner + j;
      if (gradient) {
        softmax_gradient_row(inputs[0] + start, inputs[1] + start, outputs[0] + start, at.size,
                             at.inner, logarithm);
      } else {
        softmax_row(inputs[0] + start, outputs[0] + start, at.size, at.inner, logarithm);
      }
    }
  }
}

#define SOFTMAX_REFERENCE(name, logarithm, gradient)                                               \
  static void name##_reference(const kernel_case *self, const double *const *inputs,               \
                               double *const *outputs) {                                           \
    softmax_any(self, inputs, outputs, logarithm, gradient);                                       \
  }
SOFTMAX_REFERENCE(softmax, false, false)
SOFTMAX_REFERENCE(log_softmax, true, false)
SOFTMAX_REFERENCE(softmax_gradient, false, true)
SOFTMAX_REFERENCE(log_softmax_gradient, true, true)

static void softmax_case(const char *operation, kernel_reference reference, bool gradient,
                         tdm_dtype dtype, tdm_shape shape, int64_t dimension, kernel_visit visit,
                         void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test =
      kernel_case_make(operation, dtype, reference, "%s dimension %lld",
                       tdm_shape_text(&shape, text, sizeof text), (long long)dimension);
  test.attributes.softmax.dimension = dimension;
  const bool logarithm = reference == log_softmax_gradient_reference;
  kernel_case_input(&test, dtype, shape, gradient ? -1 : -20, gradient ? 1 : 20);
  if (gradient) kernel_case_input(&test, dtype, shape, logarithm ? -6 : 0, logarithm ? 0 : 1);
  kernel_case_output(&test, dtype, shape);
  visit(&test, user);
}

void softmax_cases(kernel_visit visit, void *user) {
  const struct {
    tdm_shape shape;
    int64_t dimension;
  } sizes[] = {
      {tdm_shape_of(2, 30, 8), 1},       {tdm_shape_of(2, 30, 8), 0},
      {tdm_shape_of(1, 1), 0},           {tdm_shape_of(3, 5, 17, 33), 0},
      {tdm_shape_of(3, 5, 17, 33), 1},   {tdm_shape_of(3, 5, 17, 33), 2},
      {tdm_shape_of(2, 0, 4), 1},        {tdm_shape_of(2, 300, 129), 1},
      {tdm_shape_of(3, 300, 2, 200), 1},
  };
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      const tdm_shape shape = sizes[i].shape;
      const int64_t dimension = sizes[i].dimension;
      softmax_case(TDM_OP_SOFTMAX, softmax_reference, false, dtype, shape, dimension, visit, user);
      softmax_case(TDM_OP_LOG_SOFTMAX, log_softmax_reference, false, dtype, shape, dimension, visit,
                   user);
      softmax_case(TDM_OP_SOFTMAX_GRADIENT, softmax_gradient_reference, true, dtype, shape,
                   dimension, visit, user);
      softmax_case(TDM_OP_LOG_SOFTMAX_GRADIENT, log_softmax_gradient_reference, true, dtype, shape,
                   dimension, visit, user);
    }
  }
}

/* ---- cross_entropy --------------------------------------------------------------------------- */

static void cross_entropy_reference(const kernel_case *self, const double *const *inputs,
                                    double *const *outputs) {
  const tdm_loss_attributes *attributes = &self->attributes.loss;
  const int64_t rows = input_dim(self, 0, 0), classes = input_dim(self, 0, 1);
  double sum = 0, counted = 0;
  for (int64_t row = 0; row < rows; row++) {
    softmax_row(inputs[0] + row * classes, outputs[1] + row * classes, classes, 1, true);
    const int64_t target = (int64_t)inputs[1][row];
    const bool ignored = target == attributes->ignore_index;
    const double loss = ignored ? 0 : -outputs[1][row * classes + target];
    if (attributes->reduction == TDM_REDUCTION_NONE) outputs[0][row] = loss;
    sum += loss;
    counted += !ignored;
  }
  outputs[2][0] = attributes->reduction == TDM_REDUCTION_MEAN ? counted : 1;
  if (attributes->reduction != TDM_REDUCTION_NONE) outputs[0][0] = sum / outputs[2][0];
}

static void cross_entropy_gradient_reference(const kernel_case *self, const double *const *inputs,
                                             double *const *outputs) {
  const tdm_loss_attributes *attributes = &self->attributes.loss;
  const int64_t rows = input_dim(self, 1, 0), classes = input_dim(self, 1, 1);
  for (int64_t row = 0; row < rows; row++) {
    const int64_t target = (int64_t)inputs[2][row];
    const double d = inputs[0][attributes->reduction == TDM_REDUCTION_NONE ? row : 0];
    for (int64_t j = 0; j < classes; j++) {
      const double probability = exp(inputs[1][row * classes + j]);
      outputs[0][row * classes + j] =
          target == attributes->ignore_index ? 0 : (probability - (j == target)) * d / inputs[3][0];
    }
  }
}

static tdm_shape loss_shape(tdm_reduction reduction, tdm_shape whole) {
  return reduction == TDM_REDUCTION_NONE ? whole : tdm_shape_scalar();
}

static void targets_input(kernel_case *test, tdm_dtype ids, int64_t rows, int64_t classes,
                          int64_t ignored) {
  kernel_input *targets = kernel_case_input(test, ids, tdm_shape_of(1, rows), 0, (double)classes);
  targets->fill = FILL_TARGETS;
  targets->ignored = ignored;
}

static void count_targets_reference(const kernel_case *self, const double *const *inputs,
                                    double *const *outputs) {
  outputs[0][0] = 0;
  for (int64_t row = 0; row < input_dim(self, 0, 0); row++)
    outputs[0][0] += (int64_t)inputs[0][row] != self->attributes.loss.ignore_index;
}

static void count_targets_case(tdm_dtype dtype, tdm_dtype ids, int64_t rows, int64_t classes,
                               int64_t ignored, kernel_visit visit, void *user) {
  kernel_case test = kernel_case_make(TDM_OP_COUNT_TARGETS, dtype, count_targets_reference,
                                      "%lld, ignoring %lld", (long long)rows, (long long)ignored);
  test.attributes.loss = (tdm_loss_attributes){.ignore_index = ignored};
  targets_input(&test, ids, rows, classes, ignored);
  kernel_case_output(&test, dtype, tdm_shape_scalar());
  visit(&test, user);
}

static void cross_entropy_case(tdm_dtype dtype, tdm_dtype ids, int64_t rows, int64_t classes,
                               int64_t ignored, tdm_reduction reduction, kernel_visit visit,
                               void *user) {
  const tdm_shape logits = tdm_shape_of(2, rows, classes), each = tdm_shape_of(1, rows);
  const tdm_loss_attributes attributes = {.reduction = (int32_t)reduction, .ignore_index = ignored};
  kernel_case test = kernel_case_make(TDM_OP_CROSS_ENTROPY, dtype, cross_entropy_reference,
                                      "%lld x %lld, reduction %d, ignoring %lld", (long long)rows,
                                      (long long)classes, (int)reduction, (long long)ignored);
  test.attributes.loss = attributes;
  kernel_case_input(&test, dtype, logits, -10, 10);
  targets_input(&test, ids, rows, classes, ignored);
  kernel_case_output(&test, dtype, loss_shape(reduction, each));
  kernel_case_output(&test, dtype, logits);
  kernel_case_output(&test, dtype, tdm_shape_scalar());
  visit(&test, user);

  kernel_case gradient = kernel_case_make(TDM_OP_CROSS_ENTROPY_GRADIENT, dtype,
                                          cross_entropy_gradient_reference, "%s", test.name);
  gradient.attributes.loss = attributes;
  kernel_case_input(&gradient, dtype, loss_shape(reduction, each), -2, 2);
  kernel_case_input(&gradient, dtype, logits, -8, 0);
  targets_input(&gradient, ids, rows, classes, ignored);
  kernel_case_input(&gradient, dtype, tdm_shape_scalar(), 1, 40);
  kernel_case_output(&gradient, dtype, logits);
  visit(&gradient, user);
}

/* ---- Losses of elements with the reduction as the only option
 * ------------------------------------
 */

typedef double real;
#define number double
#define absolute_of fabs
#define exp_of exp
#define log1p_of_fraction log1p
#define sigmoid_of(x) (1 / (1 + exp(-(x))))
#define choose(condition, yes, no) ((condition) ? (yes) : (no))
#define every(number) (number)

/* The references are the formulas of devices/kernels/losses/losses.h in float64. Golden data
 * compares these with PyTorch. */
#define REFERENCES(name, ...)                                                                      \
  static double name##_loss(double x, double t) {                                                  \
    TDM_LOSS_##name                                                                                \
  }                                                                                                \
  static double name##_slope(double x, double t) {                                                 \
    TDM_SLOPE_##name                                                                               \
  }                                                                                                \
  static void name##_reference(const kernel_case *self, const double *const *inputs,               \
                               double *const *outputs) {                                           \
    const int64_t count = input_count_of(self, 0);                                                 \
    const int32_t reduction = self->attributes.loss.reduction;                                     \
    double sum = 0;                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const double loss = name##_loss(inputs[0][i], inputs[1][i]);                                 \
      if (reduction == TDM_REDUCTION_NONE) outputs[0][i] = loss;                                   \
      sum += loss;                                                                                 \
    }                                                                                              \
    if (reduction == TDM_REDUCTION_SUM) outputs[0][0] = sum;                                       \
    if (reduction == TDM_REDUCTION_MEAN) outputs[0][0] = sum / (double)count;                      \
  }                                                                                                \
  static void name##_gradient_reference(const kernel_case *self, const double *const *inputs,      \
                                        double *const *outputs) {                                  \
    const int64_t count = input_count_of(self, 1);                                                 \
    const int32_t reduction = self->attributes.loss.reduction;                                     \
    for (int64_t i = 0; i < count; i++)                                                            \
      outputs[0][i] = name##_slope(inputs[1][i], inputs[2][i]) *                                   \
                      inputs[0][reduction == TDM_REDUCTION_NONE ? i : 0] /                         \
                      (reduction == TDM_REDUCTION_MEAN ? (double)count : 1);                       \
  }
TDM_LOSSES(REFERENCES)

static void plain_case(const char *operation, kernel_reference reference, bool gradient,
                       tdm_dtype dtype, tdm_shape shape, tdm_reduction reduction,
                       kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  const tdm_shape loss = loss_shape(reduction, shape);
  kernel_case test = kernel_case_make(operation, dtype, reference, "%s, reduction %d",
                                      tdm_shape_text(&shape, text, sizeof text), (int)reduction);
  test.attributes.loss.reduction = (int32_t)reduction;
  if (gradient) kernel_case_input(&test, dtype, loss, -2, 2);
  kernel_case_input(&test, dtype, shape, -2, 2);
  kernel_case_input(&test, dtype, shape, -2, 2);
  kernel_case_output(&test, dtype, gradient ? shape : loss);
  visit(&test, user);
}

static void plain_cases(tdm_dtype dtype, tdm_reduction reduction, kernel_visit visit, void *user) {
  const tdm_shape shapes[] = {tdm_shape_of(2, 30, 10), tdm_shape_of(1, 1), tdm_shape_of(2, 0, 3),
                              tdm_shape_of(3, 50, 41, 29)};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
#define VISIT(name, ...)                                                                           \
  plain_case(#name, name##_reference, false, dtype, shapes[i], reduction, visit, user);            \
  plain_case(#name "_gradient", name##_gradient_reference, true, dtype, shapes[i], reduction,      \
             visit, user);
    TDM_LOSSES(VISIT)
  }
}

/* ---- The family ------------------------------------------------------------------------------ */

void loss_cases(kernel_visit visit, void *user) {
  static const tdm_reduction reductions[] = {TDM_REDUCTION_MEAN, TDM_REDUCTION_SUM,
                                             TDM_REDUCTION_NONE};
  EACH_REAL(dtype) {
    for (size_t i = 0; i < 3; i++) {
      const tdm_reduction reduction = reductions[i];
      cross_entropy_case(dtype, TDM_INT64, 30, 8, -100, reduction, visit, user);
      cross_entropy_case(dtype, TDM_INT32, 1, 1, -100, reduction, visit, user);
      cross_entropy_case(dtype, TDM_INT32, 700, 50, 3, reduction, visit, user);
      cross_entropy_case(dtype, TDM_INT64, 0, 5, -100, reduction, visit, user);
      cross_entropy_case(dtype, TDM_INT64, 9, 1000, -1, reduction, visit, user);
      plain_cases(dtype, reduction, visit, user);
      weighted_loss_cases(dtype, reduction, visit, user);
    }
    ctc_cases(dtype, visit, user);
    count_targets_case(dtype, TDM_INT32, 700, 50, 3, visit, user);
    count_targets_case(dtype, TDM_INT64, 30, 8, -100, visit, user);
    count_targets_case(dtype, TDM_INT64, 0, 8, -100, visit, user);
  }
}
