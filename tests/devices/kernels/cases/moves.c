/* Cases of copies by strides, of padding, and of numbers in a row: places are counted one by one in
 * the references. */
#include "core/status.h"
#include "tests/devices/kernels/cases.h"

#include <math.h>

enum { FAR = 1000 }; /* beyond any end */

/* Computes the index of element i of a shape along each dimension. */
static void indices_of(const tdm_shape *shape, int64_t i, int64_t *out_indices) {
  for (int d = shape->rank - 1; d >= 0; d--) {
    out_indices[d] = i % shape->dims[d];
    i /= shape->dims[d];
  }
}

static int64_t place_of(const tdm_shape *shape, const int64_t *indices) {
  int64_t place = 0;
  for (int d = 0; d < shape->rank; d++)
    place = place * shape->dims[d] + indices[d];
  return place;
}

/* ---- By strides ------------------------------------------------------------------------------ */

/* Returns the first index for a begin that may be negative or beyond the size. */
static int64_t first_of(int64_t size, int64_t begin, int64_t step) {
  const int64_t counted = begin < 0 ? begin + size : begin;
  if (counted < 0) return step > 0 ? 0 : -1;
  return counted < size ? counted : step > 0 ? size : size - 1;
}

static void strided_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const tdm_strided_attributes *wanted = &self->attributes.strided;
  const tdm_shape *x = &self->inputs[0].spec.shape, *y = &self->outputs[0].shape;
  for (int64_t i = 0; i < tdm_shape_count(y); i++) {
    int64_t at[TDM_MAX_RANK] = {0}, from[TDM_MAX_RANK] = {0};
    indices_of(y, i, at);
    for (int d = 0; d < y->rank; d++) {
      const int64_t source = wanted->sources[d];
      if (source >= 0)
        from[source] = first_of(x->dims[source], wanted->begins[d], wanted->steps[d]) +
                       at[d] * wanted->steps[d];
    }
    outputs[0][i] = inputs[0][place_of(x, from)];
  }
}

typedef struct strided_case {
  const char *title;
  tdm_shape x;
  tdm_shape y;
  tdm_strided_attributes attributes;
} strided_case;

static const strided_case strided_cases[] = {
    {"all of it", {1, {9}}, {1, {9}}, {1, {0}, {0}, {FAR}, {1}, {0}}},
    {"every third", {1, {10}}, {1, {3}}, {1, {0}, {1}, {9}, {3}, {0}}},
    {"in reverse", {1, {33}}, {1, {33}}, {1, {0}, {-1}, {-FAR}, {-1}, {0}}},
    {"transposed", {2, {33, 50}}, {2, {50, 33}}, {2, {1, 0}, {0}, {FAR, FAR}, {1, 1}, {0}}},
    {"heads",
     {4, {2, 5, 3, 4}},
     {4, {2, 3, 5, 4}},
     {4, {0, 2, 1, 3}, {0}, {FAR, FAR, FAR, FAR}, {1, 1, 1, 1}, {0}}},
    {"channels last",
     {4, {2, 3, 17, 5}},
     {4, {2, 17, 5, 3}},
     {4, {0, 2, 3, 1}, {0}, {FAR, FAR, FAR, FAR}, {1, 1, 1, 1}, {0}}},
    {"window",
     {3, {4, 7, 6}},
     {3, {2, 3, 4}},
     {3, {0, 1, 2}, {1, -2, 1}, {3, 0, 5}, {1, -2, 1}, {0}}},
    {"repeated rows", {2, {1, 6}}, {2, {20, 6}}, {2, {-1, 1}, {0}, {0, FAR}, {1, 1}, {20, 0}}},
    {"repeated columns", {2, {7, 1}}, {2, {7, 40}}, {2, {0, -1}, {0}, {FAR, 0}, {1, 1}, {0, 40}}},
    {"one to many", {0, {0}}, {3, {3, 4, 5}}, {3, {-1, -1, -1}, {0}, {0}, {1, 1, 1}, {3, 4, 5}}},
    {"repeated never",
     {2, {1, 6}},
     {2, {0, 6}},
     {2, {-1, 1}, {0}, {0, FAR}, {1, 1}, {TDM_STRIDED_NONE, 0}}},
    {"nothing", {2, {0, 4}}, {2, {4, 0}}, {2, {1, 0}, {0}, {FAR, FAR}, {1, 1}, {0}}},
    {"of nothing left", {2, {3, 4}}, {2, {3, 0}}, {2, {0, 1}, {0, 4}, {FAR, FAR}, {1, 1}, {0}}},
    {"all turned",
     {8, {2, 1, 3, 2, 1, 2, 2, 3}},
     {8, {3, 2, 2, 1, 2, 3, 1, 2}},
     {8,
      {7, 6, 5, 4, 3, 2, 1, 0},
      {0, 0, -1},
      {FAR, FAR, -FAR, FAR, FAR, FAR, FAR, FAR},
      {1, 1, -1, 1, 1, 1, 1, 1},
      {0}}},
    {"that a team splits",
     {3, {4, 301, 70}},
     {3, {70, 4, 301}},
     {3, {2, 0, 1}, {0}, {FAR, FAR, FAR}, {1, 1, 1}, {0}}},
};

static void visit_strided(const strided_case *made, tdm_dtype dtype, kernel_visit visit,
                          void *user) {
  kernel_case test = kernel_case_make(TDM_OP_STRIDED, dtype, strided_reference, "%s", made->title);
  test.attributes.strided = made->attributes;
  kernel_case_input(&test, dtype, made->x, dtype == TDM_BOOL ? 0 : 1, dtype == TDM_BOOL ? 2 : 99);
  kernel_case_output(&test, dtype, made->y);
  visit(&test, user);
}

/* ---- Padding --------------------------------------------------------------------------------- */

static void pad_reference(const kernel_case *self, const double *const *inputs,
                          double *const *outputs) {
  const tdm_pad_attributes *wanted = &self->attributes.pad;
  const tdm_shape *x = &self->inputs[0].spec.shape, *y = &self->outputs[0].shape;
  for (int64_t i = 0; i < tdm_shape_count(y); i++)
    outputs[0][i] = wanted->value;
  for (int64_t i = 0; i < tdm_shape_count(x); i++) {
    int64_t at[TDM_MAX_RANK] = {0};
    indices_of(x, i, at);
    for (int d = 0; d < x->rank; d++) {
      const int64_t step = wanted->steps[d];
      at[d] = step > 0 ? wanted->before[d] + at[d] * step
                       : wanted->before[d] + (x->dims[d] - 1 - at[d]) * -step;
    }
    outputs[0][place_of(y, at)] = inputs[0][i];
  }
}

typedef struct pad_case {
  const char *title;
  tdm_shape x;
  tdm_shape y;
  tdm_pad_attributes attributes;
} pad_case;

static const pad_case pad_cases[] = {
    {"before", {1, {5}}, {1, {8}}, {1, {3}, {0}, {1}, 1}},
    {"around", {2, {3, 4}}, {2, {6, 9}}, {2, {1, 2}, {2, 3}, {1, 1}, 0}},
    {"apart", {2, {3, 4}}, {2, {7, 13}}, {2, {0, 1}, {0, 2}, {3, 3}, 1}},
    {"in reverse", {2, {3, 4}}, {2, {4, 8}}, {2, {1, 0}, {0, 1}, {-1, -2}, 1}},
    {"nothing", {2, {0, 4}}, {2, {3, 4}}, {2, {2, 0}, {1, 0}, {1, 1}, 1}},
    {"that a team splits",
     {3, {3, 200, 61}},
     {3, {3, 205, 71}},
     {3, {0, 2, 4}, {0, 3, 6}, {1, 1, 1}, 1}},
};

static void visit_pad(const pad_case *made, tdm_dtype dtype, kernel_visit visit, void *user) {
  kernel_case test = kernel_case_make(TDM_OP_PAD, dtype, pad_reference, "%s", made->title);
  test.attributes.pad = made->attributes;
  if (tdm_dtype_bytes(dtype) == 2) test.attributes.pad.value = 0;
  kernel_case_input(&test, dtype, made->x, dtype == TDM_BOOL ? 0 : 1, dtype == TDM_BOOL ? 2 : 99);
  kernel_case_output(&test, dtype, made->y);
  visit(&test, user);
}

/* ---- Numbers in a row ------------------------------------------------------------------------ */

static void arange_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  (void)inputs;
  const tdm_arange_attributes *wanted = &self->attributes.arange;
  for (int64_t i = 0; i < tdm_shape_count(&self->outputs[0].shape); i++)
    outputs[0][i] = wanted->start + (double)i * wanted->step;
}

static void visit_arange(tdm_dtype dtype, int64_t count, double start, double step,
                         kernel_visit visit, void *user) {
  kernel_case test = kernel_case_make(TDM_OP_ARANGE, dtype, arange_reference, "%lld from %g by %g",
                                      (long long)count, start, step);
  test.attributes.arange = (tdm_arange_attributes){
      .start = start, .step = step, .dtype = (int64_t)dtype, .count = count};
  kernel_case_output(&test, dtype, tdm_shape_of(1, count));
  visit(&test, user);
}

/* ---- The family ------------------------------------------------------------------------------ */

void move_cases(kernel_visit visit, void *user) {
  const tdm_dtype *const all = every_dtype;
  for (size_t i = 0; i < EVERY_DTYPE; i++) {
    for (size_t k = 0; k < TDM_COUNT_OF(strided_cases); k++)
      visit_strided(&strided_cases[k], all[i], visit, user);
    for (size_t k = 0; k < TDM_COUNT_OF(pad_cases); k++)
      visit_pad(&pad_cases[k], all[i], visit, user);
  }
  for (size_t i = 0; i < 4; i++) {
    visit_arange(all[i], 0, 0, 1, visit, user);
    visit_arange(all[i], 700, -3, 2, visit, user);
    visit_arange(all[i], 17, 9, -1, visit, user);
  }
}
