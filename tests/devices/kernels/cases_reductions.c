/* Cases of sums and means over dimensions, and of their gradient. */
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
    dimension_cases(dtype, visit, user);
  }
}
