/* Cases of sums and means over dimensions, and of their gradient. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/kernels/cases.h"

/* The element of the sums that element i of x (dims) goes into. */
static int64_t target_of(const tdm_reduce_attributes *attributes, const tdm_shape *x, int64_t i) {
  int64_t place = 0, step = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    const int64_t index = i % x->dims[d];
    i /= x->dims[d];
    if ((attributes->mask >> d & 1) != 0) continue;
    place += index * step;
    step *= x->dims[d];
  }
  return place;
}

static double divisor_of(const tdm_reduce_attributes *attributes, const tdm_shape *x) {
  double divisor = 1;
  for (int d = 0; attributes->mean != 0 && d < x->rank; d++)
    if ((attributes->mask >> d & 1) != 0) divisor *= (double)x->dims[d];
  return divisor;
}

static void reduce_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const tdm_reduce_attributes *attributes = &self->attributes.reduce;
  const tdm_shape *x = &self->inputs[0].spec.shape;
  for (int64_t i = 0; i < tdm_shape_count(&self->outputs[0].shape); i++)
    outputs[0][i] = 0;
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][target_of(attributes, x, i)] += inputs[0][i] / divisor_of(attributes, x);
}

static void gradient_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const tdm_reduce_attributes *attributes = &self->attributes.reduce;
  const tdm_shape *x = &self->outputs[0].shape;
  for (int64_t i = 0; i < tdm_shape_count(x); i++)
    outputs[0][i] = inputs[0][target_of(attributes, x, i)] / divisor_of(attributes, x);
}

static tdm_shape reduced_shape(const tdm_shape *x, const tdm_reduce_attributes *attributes) {
  tdm_shape out = {.rank = 0};
  for (int d = 0; d < x->rank; d++) {
    const bool goes = (attributes->mask >> d & 1) != 0;
    if (!goes || attributes->keep != 0) out.dims[out.rank++] = goes ? 1 : x->dims[d];
  }
  return out;
}

static void reduce_case(tdm_dtype dtype, tdm_shape x, int64_t mask, bool mean, kernel_visit visit,
                        void *user) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&x, text, sizeof text);
  kernel_case test = kernel_case_make(TDM_OP_REDUCE, dtype, reduce_reference, "%s mask %d%s", text,
                                      (int)mask, mean ? " mean" : "");
  test.attributes.reduce.mask = mask;
  test.attributes.reduce.keep = mask % 3 == 1;
  test.attributes.reduce.mean = mean;
  const tdm_shape sums = reduced_shape(&x, &test.attributes.reduce);
  kernel_case_input(&test, dtype, x, -1, 3);
  kernel_case_output(&test, dtype, sums);
  visit(&test, user);

  kernel_case back = kernel_case_make(TDM_OP_REDUCE_GRADIENT, dtype, gradient_reference,
                                      "%s mask %d%s", text, (int)mask, mean ? " mean" : "");
  back.attributes = test.attributes;
  back.attributes.reduce.rank = x.rank;
  for (int d = 0; d < x.rank; d++)
    back.attributes.reduce.dims[d] = x.dims[d];
  kernel_case_input(&back, dtype, sums, -1, 3);
  kernel_case_output(&back, dtype, x);
  visit(&back, user);
}

/* ---- Deviations ------------------------------------------------------------------------------ */

/* The mean of each sum's elements: in two steps, so that of equal elements it is their value. */
static void mean_reference(const kernel_case *self, const double *const *inputs,
                           double *const *outputs) {
  const tdm_reduce_attributes *attributes = &self->attributes.deviations.reduce;
  const tdm_shape *x = &self->inputs[0].spec.shape;
  const double divisor = divisor_of(attributes, x);
  const int64_t count = input_count_of(self, 0), sums = tdm_shape_count(&self->outputs[1].shape);
  for (int64_t i = 0; i < sums; i++)
    outputs[1][i] = 0 / divisor;
  for (int64_t i = count - 1; i >= 0; i--)
    outputs[1][target_of(attributes, x, i)] = inputs[0][i];
  double *apart = calloc((size_t)sums + 1, sizeof *apart);
  for (int pass = 0; pass < 2; pass++) {
    memset(apart, 0, (size_t)sums * sizeof *apart);
    for (int64_t i = 0; i < count; i++) {
      const int64_t sum = target_of(attributes, x, i);
      apart[sum] += inputs[0][i] - outputs[1][sum];
    }
    for (int64_t i = 0; i < sums; i++)
      outputs[1][i] += apart[i] / divisor;
  }
  free(apart);
  memcpy(outputs[0], outputs[1], (size_t)sums * sizeof *outputs[0]);
}

static double deviations_divisor_of(const kernel_case *self, const tdm_shape *x) {
  const tdm_deviations_attributes *attributes = &self->attributes.deviations;
  return deviations_divisor(attributes, divisor_of(&attributes->reduce, x));
}

static void deviations_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  const tdm_deviations_attributes *attributes = &self->attributes.deviations;
  const tdm_shape *x = &self->inputs[0].spec.shape;
  const int64_t sums = tdm_shape_count(&self->outputs[0].shape);
  const double scale = self->inputs[0].high > 1e100 ? 1e-150 : 1;
  for (int64_t i = 0; i < sums; i++)
    outputs[0][i] = 0;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const int64_t sum = target_of(&attributes->reduce, x, i);
    const double apart = (inputs[0][i] - (inputs[1] ? inputs[1][sum] : 0)) * scale;
    outputs[0][sum] += apart * apart;
  }
  for (int64_t i = 0; i < sums; i++) {
    outputs[0][i] /= deviations_divisor_of(self, x);
    if (attributes->root != 0) outputs[0][i] = sqrt(outputs[0][i]) / scale;
  }
}

static void deviations_gradient_reference(const kernel_case *self, const double *const *inputs,
                                          double *const *outputs) {
  const tdm_deviations_attributes *attributes = &self->attributes.deviations;
  const tdm_shape *x = &self->outputs[0].shape;
  const double divisor = deviations_divisor_of(self, x);
  for (int64_t i = 0; i < tdm_shape_count(x); i++) {
    const int64_t sum = target_of(&attributes->reduce, x, i);
    const double apart = inputs[1][i] - (inputs[3] ? inputs[3][sum] : 0);
    const double slope = attributes->root == 0 ? 2 : inputs[2][sum] == 0 ? 0 : 1 / inputs[2][sum];
    outputs[0][i] = apart * slope * inputs[0][sum] / divisor;
  }
}

/* A variance or a norm, and its root or square, of numbers from low to high. */
typedef struct deviation_kind {
  bool centered;
  bool root;
  double low;
  double high;
} deviation_kind;

static void deviation_case(tdm_dtype dtype, tdm_shape x, int64_t mask, const deviation_kind *kind,
                           kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&x, text, sizeof text);
  kernel_case test =
      kernel_case_make(TDM_OP_PRECISE_MEAN, dtype, mean_reference, "%s mask %d from %g to %g%s",
                       text, (int)mask, kind->low, kind->high, kind->root ? " root" : "");
  test.attributes.deviations.reduce.mask = mask;
  test.attributes.deviations.reduce.mean = kind->centered;
  test.attributes.deviations.reduce.keep = 1;
  test.attributes.deviations.root = kind->root;
  kernel_case_input(&test, dtype, x, kind->low, kind->high);
  const tdm_shape means = reduced_shape(&x, &test.attributes.deviations.reduce);
  kernel_case mean = test;
  kernel_case_output(&mean, dtype, means);
  kernel_case_output(&mean, TDM_FLOAT64, means);
  if (kind->centered && !kind->root) visit(&mean, user);

  test.operation = TDM_OP_DEVIATIONS;
  test.reference = deviations_reference;
  test.attributes.deviations.correction = 1;
  test.tolerance = 1e-6;
  if (kind->centered)
    kernel_case_input(&test, TDM_FLOAT64, means, kind->low, kind->high);
  else
    kernel_case_absent_input(&test);
  kernel_case_output(&test, dtype, means);
  visit(&test, user);

  kernel_case back =
      kernel_case_make(TDM_OP_DEVIATIONS_GRADIENT, dtype, deviations_gradient_reference,
                       "%s mask %d from %g to %g%s", text, (int)mask, kind->low, kind->high,
                       kind->root ? " root" : "");
  back.attributes = test.attributes;
  kernel_case_input(&back, dtype, means, -1, 1);
  kernel_case_input(&back, dtype, x, kind->low, kind->high);
  kernel_case_input(&back, dtype, means, kind->high, 2 * kind->high);
  if (kind->centered)
    kernel_case_input(&back, TDM_FLOAT64, means, kind->low, kind->high);
  else
    kernel_case_absent_input(&back);
  kernel_case_output(&back, dtype, x);
  visit(&back, user);
}

static void deviation_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const deviation_kind kinds[] = {
      {.centered = true, .low = -1, .high = 3},
      {.centered = true, .root = true, .low = 1e4, .high = 10001},
      {.root = true, .low = -1, .high = 1}};
  static const deviation_kind large = {.root = true, .low = 1e19, .high = 1e25};
  static const deviation_kind small = {.root = true, .low = 1e-25, .high = 1e-24};
  static const deviation_kind largest = {.root = true, .low = 1e150, .high = 1e200};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    for (int mask = 1; mask < 16; mask++)
      deviation_case(dtype, tdm_shape_of(4, 3, 5, 4, 17), mask, &kinds[k], visit, user);
    deviation_case(dtype, tdm_shape_of(1, 20011), 1, &kinds[k], visit, user);
    deviation_case(dtype, tdm_shape_of(3, 91, 7, 101), 5, &kinds[k], visit, user);
    deviation_case(dtype, tdm_shape_of(2, 3, 16385), 2, &kinds[k], visit, user);
    deviation_case(dtype, tdm_shape_of(2, 1100, 37), 1, &kinds[k], visit, user);
  }
  for (int mask = 1; mask < 4; mask++) {
    deviation_case(dtype, tdm_shape_of(2, 37, 65), mask, &large, visit, user);
    deviation_case(dtype, tdm_shape_of(2, 37, 65), mask, &small, visit, user);
    if (dtype == TDM_FLOAT64)
      deviation_case(dtype, tdm_shape_of(2, 37, 65), mask, &largest, visit, user);
  }
}

void reduction_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (int mask = 0; mask < 16; mask++)
      reduce_case(dtype, tdm_shape_of(4, 3, 5, 4, 17), mask, mask % 2 == 0, visit, user);
    for (int mask = 1; mask < 8; mask += 2)
      reduce_case(dtype, tdm_shape_of(3, 2, 1, 33), mask, true, visit, user);
    reduce_case(dtype, tdm_shape_of(1, 20011), 1, true, visit, user);
    reduce_case(dtype, tdm_shape_of(3, 91, 7, 101), 5, false, visit, user);
    reduce_case(dtype, tdm_shape_of(2, 3, 16384), 2, true, visit, user);
    reduce_case(dtype, tdm_shape_of(2, 1100, 300), 1, true, visit, user);
    reduce_case(dtype, tdm_shape_of(2, 300, 1100), 2, false, visit, user);
    reduce_case(dtype, tdm_shape_of(2, 0, 7), 2, false, visit, user);
    reduce_case(dtype, tdm_shape_of(2, 0, 7), 1, false, visit, user);
    reduce_case(dtype, tdm_shape_scalar(), 0, false, visit, user);
    deviation_cases(dtype, visit, user);
    dimension_cases(dtype, visit, user);
  }
}
