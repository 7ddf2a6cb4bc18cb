/* Cases of elements in order along a dimension. */
#include "tests/devices/kernels/cases.h"

#include <math.h>

/* Returns true if element a of a row precedes element b, which is after it, in the sorted row. */
static bool stays_before(double a, double b, bool descending) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? true : descending == isnan(a);
  return descending ? a >= b : a <= b;
}

/* The rank of an element is the number of earlier elements that stay before it, plus the number of
 * later elements that it does not precede. */
static void sort_reference(const kernel_case *self, const double *const *inputs,
                           double *const *outputs) {
  const tdm_sort_attributes *attributes = &self->attributes.sort;
  const tdm_shape *x = &self->inputs[0].spec.shape;
  const int64_t size = x->dims[attributes->dimension];
  const int64_t count = attributes->count > 0 ? attributes->count : size;
  const bool descending = attributes->descending != 0;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < x->rank; d++) {
    if (d < attributes->dimension) outer *= x->dims[d];
    if (d > attributes->dimension) inner *= x->dims[d];
  }
  for (int64_t row = 0; row < outer * inner; row++) {
    const double *from = inputs[0] + row / inner * size * inner + row % inner;
    for (int64_t i = 0; i < size; i++) {
      int64_t rank = 0;
      for (int64_t k = 0; k < size; k++) {
        if (k < i) rank += stays_before(from[k * inner], from[i * inner], descending);
        if (k > i) rank += !stays_before(from[i * inner], from[k * inner], descending);
      }
      if (rank >= count) continue;
      const int64_t to = (row / inner * count + rank) * inner + row % inner;
      outputs[0][to] = from[i * inner];
      outputs[1][to] = (double)i;
    }
  }
}

/* Whole numbers from few, so that many are equal, both zeros, NaN and infinities. */
static void fill_with_equals(const kernel_case *test, void *data) {
  static const double rare[] = {NAN, -INFINITY, INFINITY, -0.0};
  const int64_t count = input_count_of(test, 0);
  for (int64_t i = 0; i < count; i++) {
    const int64_t drawn = (i * 7919 + i / 13) % 97;
    const double value = drawn < 4 ? rare[drawn] : (double)(drawn % 9) - 4;
    if (test->dtype == TDM_FLOAT32)
      ((float *)data)[i] = (float)value;
    else
      ((double *)data)[i] = value;
  }
}

static void sort_case(tdm_dtype dtype, tdm_shape x, int dimension, int64_t count, bool descending,
                      bool equals, kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test =
      kernel_case_make(TDM_OP_SORT, dtype, sort_reference, "%s dimension %d first %lld%s%s",
                       tdm_shape_text(&x, text, sizeof text), dimension, (long long)count,
                       descending ? " descending" : "", equals ? " equals" : "");
  test.attributes.sort =
      (tdm_sort_attributes){.dimension = dimension, .count = count, .descending = descending};
  const bool is_real = tdm_dtype_is_floating(dtype);
  kernel_input *input =
      is_real ? kernel_case_input(&test, dtype, x, -3, 3) : kernel_case_any_input(&test, dtype, x);
  if (equals && is_real) input->generate = fill_with_equals;
  if (count > 0) x.dims[dimension] = count;
  kernel_case_output(&test, dtype, x);
  kernel_case_output(&test, TDM_INT64, x);
  visit(&test, user);
}

void sort_cases(kernel_visit visit, void *user) {
  const tdm_shape shapes[] = {tdm_shape_of(3, 5, 37, 3), tdm_shape_of(2, 3, 1),
                              tdm_shape_of(1, 1),        tdm_shape_of(2, 0, 3),
                              tdm_shape_of(1, 700),      tdm_shape_of(2, 2, 1500)};
  for (size_t t = 0; t < 6; t++) { /* every dtype except the 16-bit ones */
    const tdm_dtype dtype = every_dtype[t];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
      for (int d = 0; d < shapes[i].rank; d++)
        for (int way = 0; way < 4; way++) {
          const int64_t size = shapes[i].dims[d];
          sort_case(dtype, shapes[i], d, 0, way % 2 != 0, way / 2 != 0, visit, user);
          if (size > 1)
            sort_case(dtype, shapes[i], d, size / 2, way % 2 != 0, way / 2 != 0, visit, user);
          if (size > 8)
            sort_case(dtype, shapes[i], d, size / 9, way % 2 != 0, way / 2 != 0, visit, user);
        }
  }
}
