/* Cases of the negative log-likelihood, the counting of targets by weight, smooth L1, binary
 * cross-entropy and divergence, by the formulas of devices/kernels.h. */
#include <math.h>
#include <string.h>

#include "tests/devices/kernels/cases.h"

static tdm_shape loss_shape(int32_t reduction, tdm_shape each) {
  return reduction == TDM_REDUCTION_NONE ? each : tdm_shape_scalar();
}

/* Reduces one value per element as the reduction requires. divisor: that of the mean. */
static void reduce(const kernel_case *self, const double *values, int64_t count, double divisor,
                   double *out) {
  const int32_t reduction = self->attributes.loss.reduction;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    if (reduction == TDM_REDUCTION_NONE) out[i] = values[i];
    sum += values[i];
  }
  const bool mean = reduction == TDM_REDUCTION_MEAN || reduction == TDM_REDUCTION_BATCH_MEAN;
  if (reduction != TDM_REDUCTION_NONE) out[0] = sum / (mean ? divisor : 1);
}

/* ---- Classes --------------------------------------------------------------------------------- */

static double weight_of(const double *weight, int64_t index) {
  return weight ? weight[index] : 1;
}

static void count_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  outputs[0][0] = 0;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    if ((int64_t)inputs[0][i] != self->attributes.loss.ignore_index)
      outputs[0][0] += weight_of(inputs[1], (int64_t)inputs[0][i]);
  }
}

static void nll_reference(const kernel_case *self, const double *const *inputs,
                          double *const *outputs) {
  const tdm_loss_attributes *a = &self->attributes.loss;
  const int64_t rows = input_dim(self, 0, 0), classes = input_dim(self, 0, 1);
  static double losses[1024];
  double divisor = 0;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t target = (int64_t)inputs[1][i];
    losses[i] = 0;
    if (target == a->ignore_index) continue;
    const double *row = inputs[0] + i * classes;
    divisor += weight_of(inputs[2], target);
    losses[i] = -(1 - a->smoothing) * weight_of(inputs[2], target) * row[target];
    for (int64_t j = 0; j < classes; j++)
      losses[i] -= a->smoothing / (double)classes * weight_of(inputs[2], j) * row[j];
  }
  reduce(self, losses, rows, divisor, outputs[0]);
  outputs[1][0] = a->reduction == TDM_REDUCTION_MEAN ? divisor : 1;
}

static void nll_gradient_reference(const kernel_case *self, const double *const *inputs,
                                   double *const *outputs) {
  const tdm_loss_attributes *a = &self->attributes.loss;
  const int64_t rows = input_count_of(self, 1), classes = a->classes;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t target = (int64_t)inputs[1][i];
    const double d = inputs[0][a->reduction == TDM_REDUCTION_NONE ? i : 0] / inputs[2][0];
    for (int64_t j = 0; j < classes; j++) {
      const double share = a->smoothing / (double)classes + (j == target ? 1 - a->smoothing : 0);
      outputs[0][i * classes + j] =
          target == a->ignore_index ? 0 : -d * share * weight_of(inputs[3], j);
    }
  }
}

static void targets_input(kernel_case *test, tdm_dtype ids, int64_t rows, int64_t classes) {
  kernel_input *targets = kernel_case_input(test, ids, tdm_shape_of(1, rows), 0, (double)classes);
  targets->fill = FILL_TARGETS;
  targets->ignored = test->attributes.loss.ignore_index;
}

static void weight_input(kernel_case *test, bool weighs, tdm_dtype dtype, tdm_shape shape) {
  if (weighs)
    kernel_case_input(test, dtype, shape, 0.1, 2);
  else
    kernel_case_absent_input(test);
}

static void nll_cases(tdm_dtype dtype, tdm_dtype ids, int64_t rows, int64_t classes, bool weighs,
                      tdm_loss_attributes attributes, kernel_visit visit, void *user) {
  const tdm_shape whole = tdm_shape_of(2, rows, classes), each = tdm_shape_of(1, rows);
  const tdm_shape weights = tdm_shape_of(1, classes), loss = loss_shape(attributes.reduction, each);
  kernel_case test = kernel_case_make(TDM_OP_NLL, dtype, nll_reference,
                                      "%lld x %lld, reduction %d, smoothing %g%s", (long long)rows,
                                      (long long)classes, (int)attributes.reduction,
                                      attributes.smoothing, weighs ? " weighed" : "");
  test.attributes.loss = attributes;
  kernel_case_input(&test, dtype, whole, -8, 0);
  targets_input(&test, ids, rows, classes);
  weight_input(&test, weighs, dtype, weights);
  kernel_case_output(&test, dtype, loss);
  kernel_case_output(&test, dtype, tdm_shape_scalar());
  visit(&test, user);

  kernel_case gradient =
      kernel_case_make(TDM_OP_NLL_GRADIENT, dtype, nll_gradient_reference, "%s", test.name);
  gradient.attributes.loss = attributes;
  gradient.attributes.loss.classes = classes;
  kernel_case_input(&gradient, dtype, loss, -2, 2);
  targets_input(&gradient, ids, rows, classes);
  kernel_case_input(&gradient, dtype, tdm_shape_scalar(), 1, 40);
  weight_input(&gradient, weighs, dtype, weights);
  kernel_case_output(&gradient, dtype, whole);
  visit(&gradient, user);

  kernel_case count =
      kernel_case_make(TDM_OP_COUNT_TARGETS, dtype, count_reference, "by weight, %s", test.name);
  count.attributes.loss = attributes;
  targets_input(&count, ids, rows, classes);
  weight_input(&count, weighs, dtype, weights);
  kernel_case_output(&count, dtype, tdm_shape_scalar());
  visit(&count, user);
}

/* ---- Element by element ---------------------------------------------------------------------- */

#define MOST_ELEMENTS 40000

static double smooth_l1_of(const tdm_loss_attributes *a, double d) {
  const double size = fabs(d);
  return a->scale * (size < a->beta ? d * d / (2 * a->beta) : size - a->beta / 2);
}

static double smooth_l1_slope(const tdm_loss_attributes *a, double d) {
  return a->scale * (fabs(d) < a->beta ? d / a->beta : d > 0 ? 1 : d < 0 ? -1 : 0);
}

static double divergence_of(const tdm_loss_attributes *a, double x, double t, int64_t classes,
                            bool slope) {
  const double p = a->logarithms ? exp(t) : (1 - a->smoothing) * t + a->smoothing / (double)classes;
  if (slope) return -p;
  return (a->entropy && p != 0 ? p * (a->logarithms ? t : log(p)) : 0) - p * x;
}

static double repeated(const kernel_case *self, const double *const *inputs, size_t input,
                       int64_t i) {
  return inputs[input] ? inputs[input][i % input_count_of(self, input)] : 1;
}

/* Returns the loss of element i, or its gradient, from operands beginning at number x. */
static double element_of(const kernel_case *self, const double *const *inputs, size_t x, int64_t i,
                         bool slope) {
  const tdm_loss_attributes *a = &self->attributes.loss;
  const double value = inputs[x][i], target = inputs[x + 1][i];
  if (a->scale != 0)
    return slope ? smooth_l1_slope(a, value - target) : smooth_l1_of(a, value - target);
  const double weight = repeated(self, inputs, x + 2, i);
  if (strncmp(self->operation, "divergence", strlen("divergence")) == 0)
    return weight * divergence_of(a, value, target, input_last_dim(self, x), slope);
  const double positive = 1 + (repeated(self, inputs, x + 3, i) - 1) * target;
  if (slope) return weight * ((1 - target) - positive / (1 + exp(value)));
  const double softplus = value > 0 ? log1p(exp(-value)) : log1p(exp(value)) - value;
  return weight * ((1 - target) * value + positive * softplus);
}

/* Returns the divisor of the mean. x: the operand of that number. */
static double divisor_of(const kernel_case *self, size_t x) {
  const int32_t reduction = self->attributes.loss.reduction;
  if (reduction == TDM_REDUCTION_MEAN) return (double)input_count_of(self, x);
  return reduction == TDM_REDUCTION_BATCH_MEAN ? (double)input_dim(self, x, 0) : 1;
}

static void pointwise_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  static double losses[MOST_ELEMENTS];
  const int64_t count = input_count_of(self, 0);
  for (int64_t i = 0; i < count; i++)
    losses[i] = element_of(self, inputs, 0, i, false);
  reduce(self, losses, count, divisor_of(self, 0), outputs[0]);
}

static void pointwise_gradient_reference(const kernel_case *self, const double *const *inputs,
                                         double *const *outputs) {
  const int32_t reduction = self->attributes.loss.reduction;
  const int64_t count = input_count_of(self, 1);
  for (int64_t i = 0; i < count; i++) {
    const double d = inputs[0][reduction == TDM_REDUCTION_NONE ? i : 0];
    outputs[0][i] = element_of(self, inputs, 1, i, true) * d / divisor_of(self, 1);
  }
}

typedef struct pointwise {
  const char *loss;
  const char *gradient;
  double low, high; /* range of targets */
  tdm_loss_attributes attributes;
  int weight_count;    /* weight, pos_weight */
  int weight_rank;     /* -1: none */
  int pos_weight_rank; /* -1: none */
} pointwise;

static void weights_input(kernel_case *test, int rank, tdm_dtype dtype, const tdm_shape *shape) {
  tdm_shape last = {.rank = rank < 0 ? 0 : rank};
  for (int i = 0; i < last.rank; i++)
    last.dims[i] = shape->dims[shape->rank - last.rank + i];
  weight_input(test, rank >= 0, dtype, last);
}

static void pointwise_case(tdm_dtype dtype, tdm_shape shape, const pointwise *kind,
                           kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  for (int gradient = 0; gradient < 2; gradient++) {
    kernel_case test = kernel_case_make(
        gradient ? kind->gradient : kind->loss, dtype,
        gradient ? pointwise_gradient_reference : pointwise_reference,
        "%s, reduction %d, beta %g, smoothing %g, %d %d, weights %d %d",
        tdm_shape_text(&shape, text, sizeof text), (int)kind->attributes.reduction,
        kind->attributes.beta, kind->attributes.smoothing, (int)kind->attributes.logarithms,
        (int)kind->attributes.entropy, kind->weight_rank, kind->pos_weight_rank);
    const tdm_shape loss = loss_shape(kind->attributes.reduction, shape);
    test.attributes.loss = kind->attributes;
    if (gradient) kernel_case_input(&test, dtype, loss, -2, 2);
    kernel_case_input(&test, dtype, shape, -4, 4);
    kernel_case_input(&test, dtype, shape, kind->low, kind->high);
    if (kind->weight_count > 0) weights_input(&test, kind->weight_rank, dtype, &shape);
    if (kind->weight_count > 1) weights_input(&test, kind->pos_weight_rank, dtype, &shape);
    kernel_case_output(&test, dtype, gradient ? shape : loss);
    visit(&test, user);
  }
}

static void elementwise_cases_of(tdm_dtype dtype, int32_t reduction, kernel_visit visit,
                                 void *user) {
  static const double betas[] = {0, 0.5, 3};
  const tdm_shape shapes[] = {tdm_shape_of(2, 30, 10), tdm_shape_of(1, 1), tdm_shape_of(2, 0, 3),
                              tdm_shape_of(3, 8, 41, 29)};
  static const int ranks[][2] = {{-1, -1}, {1, -1}, {-1, 0}, {2, 1}, {0, 2}};
  /* The large one once: it is slow where threads are emulated. */
  for (size_t i = 0; i < (reduction == TDM_REDUCTION_MEAN ? 4 : 3); i++) {
    for (size_t j = 0; j < (i == 3 ? 1 : 3); j++) {
      pointwise smooth = {"smooth_l1", "smooth_l1_gradient", -4, 4, {0}, 0, -1, -1};
      smooth.attributes = (tdm_loss_attributes){
          .reduction = reduction, .beta = betas[(i + j) % 3], .scale = 1 + (double)j};
      pointwise_case(dtype, shapes[i], &smooth, visit, user);
    }
    for (size_t j = 0; j < (i == 3 ? 1 : 5); j++) {
      const size_t used = i == 3 ? 3 : j;
      pointwise binary = {"binary_cross_entropy",
                          "binary_cross_entropy_gradient",
                          0,
                          1,
                          {.reduction = reduction},
                          2,
                          ranks[used][0],
                          ranks[used][1]};
      if (binary.weight_rank > shapes[i].rank) binary.weight_rank = shapes[i].rank;
      if (binary.pos_weight_rank > shapes[i].rank) binary.pos_weight_rank = shapes[i].rank;
      pointwise_case(dtype, shapes[i], &binary, visit, user);
    }
  }
}

/* Targets around 0, below which the entropy is NaN; where they are summed, from 0 on. */
static void divergence_cases(tdm_dtype dtype, int32_t reduction, kernel_visit visit, void *user) {
  const tdm_shape shapes[] = {tdm_shape_of(2, 30, 10), tdm_shape_of(1, 1), tdm_shape_of(2, 0, 3),
                              tdm_shape_of(3, 8, 41, 29)};
  for (size_t i = 0; i < (reduction == TDM_REDUCTION_MEAN ? 4 : 3); i++)
    for (int form = 0; form < 4; form++) {
      const bool logarithms = form == 1;
      const double least = form == 0 && reduction != TDM_REDUCTION_NONE ? 0 : -0.5;
      const pointwise kind = {"divergence",
                              "divergence_gradient",
                              logarithms ? -6 : least,
                              logarithms ? 0 : 1,
                              {.reduction = reduction,
                               .smoothing = form == 3 ? 0.3 : 0,
                               .logarithms = logarithms,
                               .entropy = form < 2},
                              1,
                              form < 2 ? -1 : 1,
                              -1};
      pointwise_case(dtype, shapes[i], &kind, visit, user);
    }
}

void weighted_loss_cases(tdm_dtype dtype, tdm_reduction reduction, kernel_visit visit, void *user) {
  const tdm_loss_attributes plain = {.reduction = (int32_t)reduction, .ignore_index = -100};
  const tdm_loss_attributes smooth = {
      .reduction = (int32_t)reduction, .ignore_index = 3, .smoothing = 0.2};
  nll_cases(dtype, TDM_INT64, 30, 8, false, plain, visit, user);
  nll_cases(dtype, TDM_INT32, 30, 8, true, plain, visit, user);
  if (reduction == TDM_REDUCTION_MEAN)
    nll_cases(dtype, TDM_INT32, 300, 50, true, smooth, visit, user);
  nll_cases(dtype, TDM_INT64, 1, 1, false, smooth, visit, user);
  nll_cases(dtype, TDM_INT64, 0, 5, true, smooth, visit, user);
  nll_cases(dtype, TDM_INT64, 3, 700, false, smooth, visit, user);
  elementwise_cases_of(dtype, (int32_t)reduction, visit, user);
  divergence_cases(dtype, (int32_t)reduction, visit, user);
  if (reduction == TDM_REDUCTION_MEAN)
    divergence_cases(dtype, TDM_REDUCTION_BATCH_MEAN, visit, user);
}
