/* Cases of picking by indices, of adding by them, and of ids as rows. */
#include "tests/devices/kernels/cases.h"

#include "core/status.h"

/* The indexed operand as (outer, size, inner), and the picked elements as (outer, picked,
 * inner). */
typedef struct layout {
  int64_t outer;
  int64_t size;
  int64_t inner;
  int64_t picked;
} layout;

static layout layout_of(const kernel_case *self, const tdm_shape *x, size_t index) {
  const int64_t dimension = self->attributes.gather.dimension;
  const bool whole_rows = self->attributes.gather.whole_rows != 0;
  layout found = {1, x->dims[dimension], 1,
                  input_dim(self, index, whole_rows ? 0 : (int)dimension)};
  for (int d = 0; d < x->rank; d++) {
    if (d < dimension) found.outer *= x->dims[d];
    if (d > dimension) found.inner *= x->dims[d];
  }
  return found;
}

/* Returns the position in x of element i of the result. */
static int64_t place_of(const kernel_case *self, const layout *sizes, const double *index,
                        int64_t i) {
  const int64_t row = i / sizes->inner, outer = row / sizes->picked;
  const bool whole_rows = self->attributes.gather.whole_rows != 0;
  const int64_t id = (int64_t)index[whole_rows ? row % sizes->picked : i];
  return (outer * sizes->size + id) * sizes->inner + i % sizes->inner;
}

static void gather_reference(const kernel_case *self, const double *const *inputs,
                             double *const *outputs) {
  const layout sizes = layout_of(self, &self->inputs[0].spec.shape, 1);
  for (int64_t i = 0; i < sizes.outer * sizes.picked * sizes.inner; i++)
    outputs[0][i] = inputs[0][place_of(self, &sizes, inputs[1], i)];
}

static void scatter_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const layout sizes = layout_of(self, &self->outputs[0].shape, 0);
  for (int64_t i = 0; i < sizes.outer * sizes.size * sizes.inner; i++)
    outputs[0][i] = inputs[2] ? inputs[2][i] : 0;
  for (int64_t i = 0; i < sizes.outer * sizes.picked * sizes.inner; i++)
    outputs[0][place_of(self, &sizes, inputs[0], i)] += inputs[1][i];
}

typedef struct gather_case {
  tdm_shape x;
  tdm_shape picked;
  int64_t dimension;
  bool whole_rows;
} gather_case;

static const gather_case all_cases[] = {
    {{1, {9}}, {1, {30}}, 0, false},
    {{1, {9}}, {1, {5}}, 0, true},
    {{2, {5, 7}}, {2, {12, 7}}, 0, false},
    {{2, {5, 7}}, {2, {12, 7}}, 0, true},
    {{2, {5, 7}}, {2, {5, 3}}, 1, false},
    {{3, {3, 4, 70}}, {3, {3, 9, 70}}, 1, false},
    {{3, {3, 4, 70}}, {3, {3, 9, 70}}, 1, true},
    {{3, {3, 4, 5}}, {3, {3, 4, 11}}, 2, true},
    {{2, {5, 7}}, {2, {0, 7}}, 0, true},
    {{3, {2, 3, 0}}, {3, {2, 5, 0}}, 1, false},
    {{2, {300, 170}}, {2, {400, 170}}, 0, false}, /* large enough to be split by a team */
};

static tdm_shape index_of(const gather_case *made) {
  return made->whole_rows ? tdm_shape_of(1, made->picked.dims[made->dimension]) : made->picked;
}

static kernel_case begin(const char *operation, tdm_dtype dtype, kernel_reference reference,
                         const gather_case *made, size_t number) {
  kernel_case test = kernel_case_make(operation, dtype, reference, "%zu", number);
  test.attributes.gather = (tdm_gather_attributes){
      .dimension = made->dimension, .whole_rows = made->whole_rows, .rank = made->x.rank};
  for (int i = 0; i < made->x.rank; i++)
    test.attributes.gather.dims[i] = made->x.dims[i];
  return test;
}

static void visit_gather(tdm_dtype dtype, size_t number, kernel_visit visit, void *user) {
  const gather_case *made = &all_cases[number];
  kernel_case test = begin(TDM_OP_GATHER, dtype, gather_reference, made, number);
  kernel_case_any_input(&test, dtype, made->x);
  kernel_case_input(&test, number % 2 ? TDM_INT32 : TDM_INT64, index_of(made), 0,
                    (double)made->x.dims[made->dimension]);
  kernel_case_output(&test, dtype, made->picked);
  visit(&test, user);
}

static void visit_scatter(tdm_dtype dtype, size_t number, bool with_x, kernel_visit visit,
                          void *user) {
  const gather_case *made = &all_cases[number];
  kernel_case test = begin(TDM_OP_SCATTER_ADD, dtype, scatter_reference, made, number * 2 + with_x);
  kernel_case_input(&test, number % 2 ? TDM_INT64 : TDM_INT32, index_of(made), 0,
                    (double)made->x.dims[made->dimension]);
  kernel_case_input(&test, dtype, made->picked, -2, 2);
  if (with_x)
    kernel_case_input(&test, dtype, made->x, -9, 9);
  else
    kernel_case_absent_input(&test);
  kernel_case_output(&test, dtype, made->x);
  visit(&test, user);
}

static void one_hot_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const int64_t classes = self->attributes.one_hot.classes;
  for (int64_t i = 0; i < input_count_of(self, 0) * classes; i++)
    outputs[0][i] = inputs[0][i / classes] == (double)(i % classes);
}

static void visit_one_hot(tdm_dtype ids, tdm_shape shape, int64_t classes, kernel_visit visit,
                          void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test = kernel_case_make(TDM_OP_ONE_HOT, TDM_INT64, one_hot_reference,
                                      "%s of %lld, %s", tdm_shape_text(&shape, text, sizeof text),
                                      (long long)classes, tdm_dtype_name(ids));
  test.attributes.one_hot.classes = classes;
  kernel_case_input(&test, ids, shape, 0, (double)classes);
  shape.dims[shape.rank++] = classes;
  kernel_case_output(&test, TDM_INT64, shape);
  visit(&test, user);
}

static void check_reference(const kernel_case *self, const double *const *inputs,
                            double *const *outputs) {
  for (int64_t i = 0; i < input_count_of(self, 0); i++)
    outputs[0][i] = inputs[0][i];
}

/* like: the operand whose dimension 1 gives the upper bound. */
static void visit_check(tdm_dtype dtype, tdm_shape shape, int64_t least, bool like,
                        kernel_visit visit, void *user) {
  char text[TDM_SHAPE_TEXT];
  kernel_case test = kernel_case_make(TDM_OP_CHECK, dtype, check_reference, "%s from %lld, %s%s",
                                      tdm_shape_text(&shape, text, sizeof text), (long long)least,
                                      tdm_dtype_name(dtype), like ? ", like" : "");
  test.attributes.check = (tdm_check_attributes){
      .layer = "ctc", .argument = "lengths", .least = least, .most = like ? -1 : 8, .dimension = 1};
  kernel_case_input(&test, dtype, shape, (double)least, 9);
  if (like) kernel_case_input(&test, TDM_FLOAT32, tdm_shape_of(2, 1, 9), 0, 1);
  kernel_case_output(&test, dtype, shape);
  visit(&test, user);
}

void gather_cases(kernel_visit visit, void *user) {
  static const tdm_dtype numbers[] = {TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64};
  const tdm_dtype *const all = every_dtype;
  for (size_t k = 0; k < TDM_COUNT_OF(all_cases); k++) {
    for (size_t i = 0; i < EVERY_DTYPE; i++)
      visit_gather(all[i], k, visit, user);
    for (size_t i = 0; i < TDM_COUNT_OF(numbers); i++) {
      visit_scatter(numbers[i], k, false, visit, user);
      visit_scatter(numbers[i], k, true, visit, user);
    }
  }
  visit_one_hot(TDM_INT64, tdm_shape_of(1, 17), 5, visit, user);
  visit_one_hot(TDM_INT32, tdm_shape_of(2, 3, 200), 70, visit, user);
  visit_one_hot(TDM_INT64, tdm_shape_scalar(), 1, visit, user);
  visit_one_hot(TDM_INT64, tdm_shape_of(1, 0), 4, visit, user);
  visit_check(TDM_INT32, tdm_shape_of(1, 30), 0, false, visit, user);
  visit_check(TDM_INT32, tdm_shape_scalar(), 0, false, visit, user);
  visit_check(TDM_INT32, tdm_shape_of(2, 4, 5), -3, true, visit, user);
  visit_check(TDM_INT64, tdm_shape_of(2, 50, 100), -5, false, visit, user);
  visit_check(TDM_INT64, tdm_shape_of(1, 7), 1, true, visit, user);
  visit_check(TDM_INT64, tdm_shape_of(1, 0), 0, true, visit, user);
}
