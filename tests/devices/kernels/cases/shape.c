/* Cases of kernels that move or convert elements: fill, cast, select, exchange of dimensions. */
#include "tests/devices/kernels/cases.h"

#include <math.h>

/* ---- fill ------------------------------------------------------------------------------------ */

static void fill_reference(const kernel_case *self, const double *const *inputs,
                           double *const *outputs) {
  (void)inputs;
  const int64_t count = tdm_shape_count(&self->outputs[0].shape);
  const double value = self->attributes.fill.value;
  for (int64_t i = 0; i < count; i++) {
    outputs[0][i] = tdm_dtype_is_floating(self->dtype) ? value
                    : self->dtype == TDM_BOOL          ? value != 0
                                                       : trunc(value);
  }
}

static void fill_cases(tdm_dtype dtype, kernel_visit visit, void *user) {
  static const int64_t counts[] = {0, 1, 5, 63, 64, 4100};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    kernel_case test =
        kernel_case_make(TDM_OP_FILL, dtype, fill_reference, "%lld elements", (long long)counts[i]);
    test.attributes.fill.value = tdm_dtype_bytes(dtype) == 2 ? 0 : 2.75;
    kernel_case_output(&test, dtype, tdm_shape_of(1, counts[i]));
    visit(&test, user);
  }
}

/* ---- cast ------------------------------------------------------------------------------------ */

static double cast_value(tdm_dtype from, tdm_dtype to, double x) {
  if (tdm_dtype_is_floating(to)) return to == TDM_FLOAT32 ? (double)(float)x : x;
  if (to == TDM_BOOL) return x != 0;
  const double least = to == TDM_UINT8 ? 0 : to == TDM_INT32 ? -0x1p31 : -0x1p63;
  const double most = to == TDM_UINT8 ? 255 : to == TDM_INT32 ? 0x1p31 - 1 : 0x1p63;
  if (tdm_dtype_is_floating(from)) return fmin(fmax(trunc(x), least), most);
  if (to == TDM_UINT8) return (double)((int64_t)x & 255); /* integers wrap */
  return x;
}

static void cast_reference(const kernel_case *self, const double *const *inputs,
                           double *const *outputs) {
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = cast_value(self->inputs[0].spec.dtype, self->dtype, inputs[0][i]);
}

static void cast_cases(tdm_dtype from, tdm_dtype to, kernel_visit visit, void *user) {
  static const struct {
    int64_t count;
    double range;
  } sizes[] = {{0, 1}, {1, 1}, {37, 3}, {5001, 400}, {9000, 1e12}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    double high = sizes[i].range;
    if (from == TDM_INT32 && high > 2e9) high = 2e9;
    if (from == TDM_UINT8 && high > 255) high = 255;
    if (from == TDM_BOOL) high = 1;
    const bool is_signed = from != TDM_UINT8 && from != TDM_BOOL;
    /* Values that exceed an int32 wrap, which float64 arithmetic does not show. */
    if (from == TDM_INT64 && to == TDM_INT32 && high > 2e9) high = 2e9;
    kernel_case test = kernel_case_make(TDM_OP_CAST, to, cast_reference, "from %s, %lld elements",
                                        tdm_dtype_name(from), (long long)sizes[i].count);
    kernel_case_input(&test, from, tdm_shape_of(1, sizes[i].count), is_signed ? -high : 0, high);
    kernel_case_output(&test, to, tdm_shape_of(1, sizes[i].count));
    visit(&test, user);
  }
}

/* ---- select ---------------------------------------------------------------------------------- */

typedef struct split {
  int64_t outer, size, inner;
} split;

static split split_of(const tdm_spec *spec, int64_t dimension) {
  split result = {1, spec->shape.dims[dimension], 1};
  for (int64_t i = 0; i < dimension; i++)
    result.outer *= spec->shape.dims[i];
  for (int64_t i = dimension + 1; i < spec->shape.rank; i++)
    result.inner *= spec->shape.dims[i];
  return result;
}

static int64_t wrapped(const tdm_select_attributes *attributes, int64_t size) {
  return attributes->index < 0 ? attributes->index + size : attributes->index;
}

static void select_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const tdm_select_attributes *attributes = &self->attributes.select;
  const split s = split_of(&self->inputs[0].spec, attributes->dimension);
  const int64_t index = wrapped(attributes, s.size);
  for (int64_t i = 0; i < s.outer; i++) {
    for (int64_t j = 0; j < s.inner; j++)
      outputs[0][i * s.inner + j] = inputs[0][(i * s.size + index) * s.inner + j];
  }
}

static void select_gradient_reference(const kernel_case *self, const double *const *inputs,
                                      double *const *outputs) {
  const tdm_select_attributes *attributes = &self->attributes.select;
  const split s = split_of(&self->outputs[0], attributes->dimension);
  const int64_t index = wrapped(attributes, s.size);
  for (int64_t i = 0; i < s.outer; i++) {
    for (int64_t k = 0; k < s.size; k++) {
      for (int64_t j = 0; j < s.inner; j++)
        outputs[0][(i * s.size + k) * s.inner + j] = k == index ? inputs[0][i * s.inner + j] : 0;
    }
  }
}

static void select_cases(tdm_dtype dtype, tdm_shape x, int64_t dimension, int64_t index,
                         kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  tdm_shape y = {.rank = x.rank - 1};
  for (int i = 0, j = 0; i < x.rank; i++)
    if (i != dimension) y.dims[j++] = x.dims[i];
  kernel_case test = kernel_case_make(
      TDM_OP_SELECT, dtype, select_reference, "%s dimension %lld index %lld",
      tdm_shape_text(&x, text, sizeof text), (long long)dimension, (long long)index);
  test.attributes.select =
      (tdm_select_attributes){.dimension = dimension, .index = index, .size = x.dims[dimension]};
  kernel_case_any_input(&test, dtype, x);
  kernel_case_output(&test, dtype, y);
  visit(&test, user);
  if (dtype != TDM_FLOAT32 && dtype != TDM_FLOAT64) return;

  kernel_case gradient =
      kernel_case_make(TDM_OP_SELECT_GRADIENT, dtype, select_gradient_reference, "%s", test.name);
  gradient.attributes.select = test.attributes.select;
  kernel_case_input(&gradient, dtype, y, -9, 9);
  kernel_case_output(&gradient, dtype, x);
  visit(&gradient, user);
}

/* ---- swap_first_dimensions
 * -------------------------------------------------------------------------- */

static void swap_reference(const kernel_case *self, const double *const *inputs,
                           double *const *outputs) {
  const int64_t rows = input_dim(self, 0, 0), columns = input_dim(self, 0, 1);
  const int64_t inner = rows * columns > 0 ? input_count_of(self, 0) / (rows * columns) : 0;
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      for (int64_t k = 0; k < inner; k++)
        outputs[0][(j * rows + i) * inner + k] = inputs[0][(i * columns + j) * inner + k];
    }
  }
}

static void swap_case(tdm_dtype dtype, int64_t rows, int64_t columns, int64_t inner,
                      kernel_visit visit, void *user) {
  kernel_case test =
      kernel_case_make(TDM_OP_SWAP_FIRST_DIMENSIONS, dtype, swap_reference, "%lld x %lld x %lld",
                       (long long)rows, (long long)columns, (long long)inner);
  kernel_case_any_input(&test, dtype,
                        inner == 0 ? tdm_shape_of(2, rows, columns)
                                   : tdm_shape_of(3, rows, columns, inner));
  kernel_case_output(&test, dtype,
                     inner == 0 ? tdm_shape_of(2, columns, rows)
                                : tdm_shape_of(3, columns, rows, inner));
  visit(&test, user);
}

/* ---- split, concat --------------------------------------------------------------------------- */

/* Fills the parts from `from`, or, where that is NULL, `to` from the parts. */
static void each_element(const tdm_parts_attributes *attributes, const tdm_shape *whole,
                         const double *from, double *const *parts, double *to) {
  int64_t outer = 1;
  int64_t inner = 1;
  for (int d = 0; d < whole->rank; d++)
    *(d < attributes->dimension ? &outer : &inner) *=
        d == attributes->dimension ? 1 : whole->dims[d];
  int64_t at = 0;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < attributes->count; i++)
      for (int64_t k = 0; k < attributes->sizes[i] * inner; k++, at++) {
        double *part = &parts[i][o * attributes->sizes[i] * inner + k];
        if (from)
          *part = from[at];
        else
          to[at] = *part;
      }
}

static void split_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  each_element(&self->attributes.parts, &self->inputs[0].spec.shape, inputs[0], outputs, NULL);
}

static void concat_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  double *parts[TDM_MAX_PARTS];
  for (int64_t i = 0; i < self->attributes.parts.count; i++)
    parts[i] = (double *)inputs[i];
  each_element(&self->attributes.parts, &self->outputs[0].shape, NULL, parts, outputs[0]);
}

static void parts_cases(tdm_dtype dtype, tdm_shape whole, tdm_parts_attributes attributes,
                        kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case cut =
      kernel_case_make(TDM_OP_SPLIT, dtype, split_reference, "%s dimension %lld into %lld",
                       tdm_shape_text(&whole, text, sizeof text), (long long)attributes.dimension,
                       (long long)attributes.count);
  kernel_case joined = kernel_case_make(TDM_OP_CONCAT, dtype, concat_reference, "%s", cut.name);
  cut.attributes.parts = joined.attributes.parts = attributes;
  kernel_case_input(&cut, dtype, whole, dtype == TDM_BOOL ? 0 : 1, dtype == TDM_BOOL ? 2 : 99);
  for (int64_t i = 0; i < attributes.count; i++) {
    tdm_shape part = whole;
    part.dims[attributes.dimension] = attributes.sizes[i];
    kernel_case_output(&cut, dtype, part);
    kernel_case_input(&joined, dtype, part, dtype == TDM_BOOL ? 0 : 1, dtype == TDM_BOOL ? 2 : 99);
  }
  kernel_case_output(&joined, dtype, whole);
  visit(&cut, user);
  visit(&joined, user);
}

/* ---- The family ------------------------------------------------------------------------------ */

void shape_cases(kernel_visit visit, void *user) {
  const tdm_dtype *const all = every_dtype;
  enum { CONVERTED = 6 }; /* number of dtypes without the 16-bit ones */
  for (size_t i = 0; i < CONVERTED; i++)
    for (size_t j = 0; j < CONVERTED; j++)
      cast_cases(all[j], all[i], visit, user);
  for (size_t i = 0; i < EVERY_DTYPE; i++) {
    fill_cases(all[i], visit, user);
    parts_cases(all[i], tdm_shape_of(3, 2, 7, 3),
                (tdm_parts_attributes){.dimension = 1, .count = 3, .sizes = {4, 0, 3}}, visit,
                user);
    parts_cases(all[i], tdm_shape_of(2, 5, 4),
                (tdm_parts_attributes){.dimension = 0, .count = 2, .sizes = {2, 3}}, visit, user);
    parts_cases(all[i], tdm_shape_of(1, 6),
                (tdm_parts_attributes){.dimension = 0, .count = 1, .sizes = {6}}, visit, user);
  }
  for (size_t i = 0; i < EVERY_DTYPE; i++) {
    select_cases(all[i], tdm_shape_of(3, 5, 4, 3), 0, -1, visit, user);
    select_cases(all[i], tdm_shape_of(3, 5, 4, 3), 1, 2, visit, user);
    select_cases(all[i], tdm_shape_of(3, 5, 4, 3), 2, 0, visit, user);
    select_cases(all[i], tdm_shape_of(1, 9), 0, 8, visit, user);
    select_cases(all[i], tdm_shape_of(3, 12, 0, 7), 0, 3, visit, user);
    swap_case(all[i], 3, 5, 0, visit, user);
    swap_case(all[i], 33, 70, 0, visit, user);
    swap_case(all[i], 1, 1, 1, visit, user);
    swap_case(all[i], 7, 18, 5, visit, user);
    swap_case(all[i], 0, 4, 2, visit, user);
  }
}
