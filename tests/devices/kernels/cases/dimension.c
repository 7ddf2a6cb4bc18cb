/* Cases of extremes along a dimension, of their gradient, and of running sums. */
#include "tests/devices/kernels/cases.h"

#include <math.h>

/* x as (outer, size, inner). */
typedef struct layout {
  int64_t outer;
  int64_t size;
  int64_t inner;
} layout;

static layout layout_of(const tdm_shape *x, int64_t dimension) {
  layout found = {1, x->dims[dimension], 1};
  for (int d = 0; d < x->rank; d++) {
    if (d < dimension) found.outer *= x->dims[d];
    if (d > dimension) found.inner *= x->dims[d];
  }
  return found;
}

static void extreme_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_dimension_attributes *attributes = &self->attributes.dimension;
  const layout x = layout_of(&self->inputs[0].spec.shape, attributes->dimension);
  for (int64_t place = 0; place < x.outer * x.inner; place++) {
    const double *from = inputs[0] + place / x.inner * x.size * x.inner + place % x.inner;
    int64_t best = 0;
    for (int64_t i = 1; i < x.size; i++) {
      const double value = from[i * x.inner], other = from[best * x.inner];
      const bool beyond = attributes->least != 0 ? value < other : value > other;
      if (beyond || (isnan(value) && !isnan(other))) best = i;
    }
    const double of_none = attributes->least != 0 ? INFINITY : -INFINITY;
    outputs[0][place] = x.size > 0 ? from[best * x.inner] : of_none;
    outputs[1][place] = (double)best;
  }
}

static void gradient_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const layout x = layout_of(&self->outputs[0].shape, self->attributes.dimension.dimension);
  for (int64_t i = 0; i < x.outer * x.size * x.inner; i++) {
    const int64_t place = i / x.inner / x.size * x.inner + i % x.inner;
    outputs[0][i] = (double)(i / x.inner % x.size) == inputs[1][place] ? inputs[0][place] : 0;
  }
}

static void cumsum_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const tdm_dimension_attributes *attributes = &self->attributes.dimension;
  const layout x = layout_of(&self->inputs[0].spec.shape, attributes->dimension);
  for (int64_t place = 0; place < x.outer * x.inner; place++) {
    const int64_t first = place / x.inner * x.size * x.inner + place % x.inner;
    double sum = 0;
    for (int64_t i = 0; i < x.size; i++) {
      const int64_t at = first + (attributes->reverse != 0 ? x.size - 1 - i : i) * x.inner;
      sum += inputs[0][at];
      outputs[0][at] = sum;
    }
  }
}

/* Whole numbers from few, so that many are equal, and now and then NaN or an infinity. */
static void fill_with_ties(const kernel_case *test, void *data) {
  const int64_t count = input_count_of(test, 0);
  for (int64_t i = 0; i < count; i++) {
    const int64_t drawn = (i * 7919 + i / 13) % 97;
    const double value = drawn == 5 ? NAN : drawn == 6 ? -INFINITY : (double)(drawn % 9) - 4;
    if (test->dtype == TDM_FLOAT32)
      ((float *)data)[i] = (float)value;
    else
      ((double *)data)[i] = value;
  }
}

static void extreme_case(tdm_dtype dtype, tdm_shape x, int dimension, bool least, bool ties,
                         kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&x, text, sizeof text);
  kernel_case test =
      kernel_case_make(TDM_OP_EXTREME, dtype, extreme_reference, "%s dimension %d%s%s", text,
                       dimension, least ? " least" : "", ties ? " ties" : "");
  test.attributes.dimension = (tdm_dimension_attributes){.dimension = dimension, .least = least};
  tdm_shape out = {.rank = 0};
  for (int d = 0; d < x.rank; d++)
    if (d != dimension) out.dims[out.rank++] = x.dims[d];
  kernel_input *input = kernel_case_input(&test, dtype, x, -3, 3);
  if (ties) input->generate = fill_with_ties;
  kernel_case_output(&test, dtype, out);
  kernel_case_output(&test, TDM_INT64, out);
  visit(&test, user);

  kernel_case back = kernel_case_make(TDM_OP_EXTREME_GRADIENT, dtype, gradient_reference,
                                      "%s dimension %d%d%d", text, dimension, least, ties);
  back.attributes.dimension = test.attributes.dimension;
  back.attributes.dimension.size = x.dims[dimension];
  kernel_case_input(&back, dtype, out, -3, 3);
  kernel_case_input(&back, TDM_INT64, out, 0,
                    x.dims[dimension] > 0 ? (double)x.dims[dimension] : 1);
  kernel_case_output(&back, dtype, x);
  visit(&back, user);
}

static void prod_reference(const kernel_case *self, const double *const *inputs,
                           double *const *outputs) {
  const layout x = layout_of(&self->inputs[0].spec.shape, self->attributes.dimension.dimension);
  for (int64_t place = 0; place < x.outer * x.inner; place++) {
    outputs[0][place] = 1;
    for (int64_t i = 0; i < x.size; i++)
      outputs[0][place] *= inputs[0][(place / x.inner * x.size + i) * x.inner + place % x.inner];
  }
}

static void prod_gradient_reference(const kernel_case *self, const double *const *inputs,
                                    double *const *outputs) {
  const layout x = layout_of(&self->outputs[0].shape, self->attributes.dimension.dimension);
  for (int64_t i = 0; i < x.outer * x.size * x.inner; i++) {
    const int64_t place = i / x.inner / x.size * x.inner + i % x.inner;
    outputs[0][i] = inputs[0][place];
    for (int64_t k = 0; k < x.size; k++) {
      const int64_t at = (place / x.inner * x.size + k) * x.inner + place % x.inner;
      if (at != i) outputs[0][i] *= inputs[1][at];
    }
  }
}

static void prod_case(tdm_dtype dtype, tdm_shape x, int dimension, kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape y = x;
  y.dims[dimension] = 1;
  kernel_case test = kernel_case_make(TDM_OP_PROD, dtype, prod_reference, "%s dimension %d",
                                      tdm_shape_text(&x, text, sizeof text), dimension);
  kernel_case back =
      kernel_case_make(TDM_OP_PROD_GRADIENT, dtype, prod_gradient_reference, "%s", test.name);
  test.attributes.dimension = back.attributes.dimension =
      (tdm_dimension_attributes){.dimension = dimension, .keep = 1};
  kernel_case_input(&test, dtype, x, 0.8, 1.2);
  kernel_case_output(&test, dtype, y);
  visit(&test, user);
  kernel_case_input(&back, dtype, y, -2, 2);
  kernel_case_input(&back, dtype, x, 0.8, 1.2);
  kernel_case_output(&back, dtype, x);
  visit(&back, user);
}

static void cumsum_case(tdm_dtype dtype, tdm_shape x, int dimension, bool reverse,
                        kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test =
      kernel_case_make(TDM_OP_CUMSUM, dtype, cumsum_reference, "%s dimension %d%s",
                       tdm_shape_text(&x, text, sizeof text), dimension, reverse ? " reverse" : "");
  test.attributes.dimension =
      (tdm_dimension_attributes){.dimension = dimension, .reverse = reverse};
  kernel_case_input(&test, dtype, x, -1, 3);
  kernel_case_output(&test, dtype, x);
  visit(&test, user);
}

/* ---- Running products, and logarithms of sums of exponentials -------------------------------- */

static void cumprod_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const layout x = layout_of(&self->inputs[0].spec.shape, self->attributes.dimension.dimension);
  for (int64_t place = 0; place < x.outer * x.inner; place++) {
    double product = 1;
    for (int64_t i = 0; i < x.size; i++) {
      const int64_t at = (place / x.inner * x.size + i) * x.inner + place % x.inner;
      outputs[0][at] = product *= inputs[0][at];
    }
  }
}

static void logcumsumexp_reference(const kernel_case *self, const double *const *inputs,
                                   double *const *outputs) {
  const layout x = layout_of(&self->inputs[0].spec.shape, self->attributes.dimension.dimension);
  for (int64_t place = 0; place < x.outer * x.inner; place++) {
    double sum = 0;
    for (int64_t i = 0; i < x.size; i++) {
      const int64_t at = (place / x.inner * x.size + i) * x.inner + place % x.inner;
      outputs[0][at] = log(sum += exp(inputs[0][at]));
    }
  }
}

static void logsumexp_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  const layout x = layout_of(&self->inputs[0].spec.shape, self->attributes.dimension.dimension);
  for (int64_t place = 0; place < x.outer * x.inner; place++) {
    double sum = 0;
    for (int64_t i = 0; i < x.size; i++)
      sum += exp(inputs[0][(place / x.inner * x.size + i) * x.inner + place % x.inner]);
    outputs[0][place] = log(sum);
  }
}

/* d_x[i] is the sum of d_y[j] times the slope of the result y[j] by x[i], of all j from i on. */
static void running_gradient(const kernel_case *self, const double *const *inputs,
                             double *const *outputs, bool product) {
  const layout x = layout_of(&self->outputs[0].shape, self->attributes.dimension.dimension);
  const double *d_y = inputs[0], *from = inputs[1], *y = inputs[2];
  for (int64_t place = 0; place < x.outer * x.inner; place++) {
    const int64_t first = place / x.inner * x.size * x.inner + place % x.inner;
    for (int64_t i = 0; i < x.size; i++) {
      const int64_t at = first + i * x.inner;
      double others = i > 0 ? y[at - x.inner] : 1, sum = 0;
      for (int64_t j = i; j < x.size; j++) {
        const int64_t to = first + j * x.inner;
        if (product && j > i) others *= from[to];
        sum += d_y[to] * (product ? others : exp(from[at] - y[to]));
      }
      outputs[0][at] = sum;
    }
  }
}

static void cumprod_gradient_reference(const kernel_case *self, const double *const *inputs,
                                       double *const *outputs) {
  running_gradient(self, inputs, outputs, true);
}

static void logcumsumexp_gradient_reference(const kernel_case *self, const double *const *inputs,
                                            double *const *outputs) {
  running_gradient(self, inputs, outputs, false);
}

typedef struct running_operation {
  const char *forward, *back;
  kernel_reference forward_reference, back_reference;
  double least, most;     /* range of x */
  double least_y, most_y; /* range of y: operands of the gradient are drawn separately */
} running_operation;

static void running_case(const running_operation *of, tdm_dtype dtype, tdm_shape x, int dimension,
                         kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test = kernel_case_make(of->forward, dtype, of->forward_reference, "%s dimension %d",
                                      tdm_shape_text(&x, text, sizeof text), dimension);
  kernel_case back = kernel_case_make(of->back, dtype, of->back_reference, "%s", test.name);
  test.attributes.dimension = back.attributes.dimension =
      (tdm_dimension_attributes){.dimension = dimension};
  kernel_case_input(&test, dtype, x, of->least, of->most);
  kernel_case_output(&test, dtype, x);
  visit(&test, user);
  kernel_case_input(&back, dtype, x, -2, 2);
  kernel_case_input(&back, dtype, x, of->least, of->most);
  kernel_case_input(&back, dtype, x, of->least_y, of->most_y);
  kernel_case_output(&back, dtype, x);
  if (x.dims[dimension] < 1000) visit(&back, user);
}

static void logsumexp_case(tdm_dtype dtype, tdm_shape x, int dimension, kernel_visit visit,
                           void *user) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape y = x;
  y.dims[dimension] = 1;
  kernel_case test =
      kernel_case_make(TDM_OP_LOGSUMEXP, dtype, logsumexp_reference, "%s dimension %d",
                       tdm_shape_text(&x, text, sizeof text), dimension);
  test.attributes.dimension = (tdm_dimension_attributes){.dimension = dimension, .keep = 1};
  kernel_case_input(&test, dtype, x, -4, 4);
  kernel_case_output(&test, dtype, y);
  visit(&test, user);
}

void dimension_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  const tdm_shape shapes[] = {tdm_shape_of(3, 5, 37, 19), tdm_shape_of(2, 7, 100),
                              tdm_shape_of(2, 3, 1),      tdm_shape_of(1, 1),
                              tdm_shape_of(2, 0, 3),      tdm_shape_of(2, 3, 20011)};
  static const running_operation products = {TDM_OP_CUMPROD,
                                             TDM_OP_CUMPROD_GRADIENT,
                                             cumprod_reference,
                                             cumprod_gradient_reference,
                                             0.8,
                                             1.2,
                                             0.5,
                                             2};
  static const running_operation logarithms = {TDM_OP_LOGCUMSUMEXP,
                                               TDM_OP_LOGCUMSUMEXP_GRADIENT,
                                               logcumsumexp_reference,
                                               logcumsumexp_gradient_reference,
                                               -2,
                                               2,
                                               3,
                                               5};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    for (int d = 0; d < shapes[i].rank; d++)
      for (int way = 0; way < 2; way++) {
        cumsum_case(dtype, shapes[i], d, way == 1, visit, user);
        if (way == 0 && tdm_shape_count(&shapes[i]) < 10000) {
          prod_case(dtype, shapes[i], d, visit, user);
          running_case(&products, dtype, shapes[i], d, visit, user);
        }
        if (way == 0) {
          running_case(&logarithms, dtype, shapes[i], d, visit, user);
          logsumexp_case(dtype, shapes[i], d, visit, user);
        }
        extreme_case(dtype, shapes[i], d, way == 1, false, visit, user);
        extreme_case(dtype, shapes[i], d, way == 1, true, visit, user);
      }
}
