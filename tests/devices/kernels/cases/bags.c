/* Cases of the embedding bag: bags of one length and by offsets, empty ones among them. */
#include "tests/devices/kernels/cases.h"

#include <string.h>

typedef struct bag_size {
  int64_t rows, dim, bags, length; /* length 0: by offsets, which say about 3 */
  tdm_dtype ids;
  int64_t padding;
  bool ends; /* offsets have one more entry, and the last ids are in no bag */
} bag_size;

static const bag_size bag_sizes[] = {
    {30, 10, 8, 5, TDM_INT64, -1, false}, {7, 1, 0, 4, TDM_INT64, -1, false},
    {40, 17, 9, 4, TDM_INT32, 3, false},  {25, 64, 3, 26, TDM_INT64, 0, false},
    {5, 130, 7, 0, TDM_INT64, 2, false},  {20, 33, 10, 0, TDM_INT32, -1, true},
};

static int64_t id_count(const bag_size *size) {
  return size->length > 0 ? size->bags * size->length : 3 * size->bags + 1;
}

/* Ascending up to the ids; every third bag is empty, the last one is what remains. */
static int64_t offset_of(int64_t i) {
  return i / 3 * 9 + (i % 3 == 2 ? 9 : i % 3 * 4);
}

static void make_offsets(const kernel_case *test, void *data) {
  size_t input = 0;
  while (test->inputs[input].generate != make_offsets)
    input++;
  const int64_t last = input_count_of(test, input - 1);
  for (int64_t i = 0; i < input_count_of(test, input); i++) {
    const int64_t offset = offset_of(i) < last ? offset_of(i) : last;
    if (test->inputs[input].spec.dtype == TDM_INT64) ((int64_t *)data)[i] = offset;
    if (test->inputs[input].spec.dtype == TDM_INT32) ((int32_t *)data)[i] = (int32_t)offset;
  }
}

/* ---- References ------------------------------------------------------------------------------ */

typedef struct bags_view {
  const double *ids;
  const double *offsets; /* or NULL */
  int64_t id_count;
  int64_t offset_count;
  int64_t length;
} bags_view;

static bags_view view_of(const kernel_case *self, const double *const *inputs, size_t ids) {
  const tdm_shape *shape = &self->inputs[ids].spec.shape;
  bags_view view = {.ids = inputs[ids],
                    .offsets = inputs[ids + 1],
                    .id_count = input_count_of(self, ids),
                    .length = shape->rank == 2 ? shape->dims[1] : 0};
  if (view.offsets) view.offset_count = input_count_of(self, ids + 1);
  return view;
}

/* Returns true if the id at position i belongs to bag and counts. */
static bool counts(const kernel_case *self, const bags_view *view, int64_t bag, int64_t i) {
  int64_t begin = bag * view->length, end = begin + view->length;
  if (view->offsets) {
    begin = (int64_t)view->offsets[bag];
    end = bag + 1 < view->offset_count ? (int64_t)view->offsets[bag + 1] : view->id_count;
  }
  return i >= begin && i < end &&
         (int64_t)view->ids[i] != self->attributes.embedding_bag.padding_index;
}

static int64_t size_of(const kernel_case *self, const bags_view *view, int64_t bag) {
  int64_t size = 0;
  for (int64_t i = 0; i < view->id_count; i++)
    size += counts(self, view, bag, i);
  return size;
}

/* Returns the weight of the id at i in bag, or 0 if it is not in it. */
static double share_of(const kernel_case *self, const bags_view *view, const double *scales,
                       int64_t bag, int64_t i) {
  if (!counts(self, view, bag, i)) return 0;
  if (self->attributes.embedding_bag.mean) return 1.0 / (double)size_of(self, view, bag);
  return scales ? scales[i] : 1;
}

static void bag_reference(const kernel_case *self, const double *const *inputs,
                          double *const *outputs) {
  const bags_view view = view_of(self, inputs, 1);
  const int64_t dim = input_last_dim(self, 0), bags = self->outputs[0].shape.dims[0];
  memset(outputs[0], 0, (size_t)(bags * dim) * sizeof(double));
  for (int64_t bag = 0; bag < bags; bag++) {
    for (int64_t i = 0; i < view.id_count; i++) {
      const double share = share_of(self, &view, inputs[3], bag, i);
      for (int64_t j = 0; j < dim && share != 0; j++)
        outputs[0][bag * dim + j] += share * inputs[0][(int64_t)view.ids[i] * dim + j];
    }
  }
}

static void bag_max_reference(const kernel_case *self, const double *const *inputs,
                              double *const *outputs) {
  const bags_view view = view_of(self, inputs, 1);
  const int64_t dim = input_last_dim(self, 0), bags = self->outputs[0].shape.dims[0];
  for (int64_t bag = 0; bag < bags; bag++) {
    for (int64_t j = 0; j < dim; j++) {
      double *y = &outputs[0][bag * dim + j], *winner = &outputs[1][bag * dim + j];
      *y = 0;
      *winner = -1;
      for (int64_t i = 0; i < view.id_count; i++) {
        const double value = inputs[0][(int64_t)view.ids[i] * dim + j];
        if (!counts(self, &view, bag, i) || (*winner >= 0 && value <= *y)) continue;
        *y = value;
        *winner = (double)i;
      }
    }
  }
}

/* Adds the share of the id at i of bag to d_weight. */
static void add_share(const kernel_case *self, const double *const *inputs, const bags_view *view,
                      const double *winners, int64_t bag, int64_t i, double *row) {
  const int64_t dim = input_last_dim(self, 0);
  const double share = share_of(self, view, inputs[3], bag, i);
  for (int64_t j = 0; j < dim && share != 0; j++)
    if (!winners || (int64_t)winners[bag * dim + j] == i)
      row[j] += share * inputs[0][bag * dim + j];
}

static void bag_gradient_reference(const kernel_case *self, const double *const *inputs,
                                   double *const *outputs) {
  const bags_view view = view_of(self, inputs, 1);
  const int64_t dim = input_last_dim(self, 0), bags = input_dim(self, 0, 0);
  memset(outputs[0], 0, (size_t)(self->attributes.embedding_bag.rows * dim) * sizeof(double));
  for (int64_t bag = 0; bag < bags; bag++)
    for (int64_t i = 0; i < view.id_count; i++)
      add_share(self, inputs, &view, inputs[4], bag, i, outputs[0] + (int64_t)view.ids[i] * dim);
}

static void bag_sparse_gradient_reference(const kernel_case *self, const double *const *inputs,
                                          double *const *outputs) {
  const bags_view view = view_of(self, inputs, 1);
  const int64_t dim = input_last_dim(self, 0), bags = input_dim(self, 0, 0);
  int64_t used = 0;
  memset(outputs[0], 0, (size_t)(view.id_count * dim) * sizeof(double));
  for (int64_t i = 0; i < view.id_count; i++)
    outputs[1][i] = -1;
  for (int64_t row = 0; row < self->attributes.embedding_bag.rows; row++) {
    bool found = false;
    for (int64_t i = 0; i < view.id_count; i++) {
      for (int64_t bag = 0; bag < bags && (int64_t)view.ids[i] == row; bag++) {
        found = found || counts(self, &view, bag, i);
        add_share(self, inputs, &view, NULL, bag, i, outputs[0] + used * dim);
      }
    }
    if (found) outputs[1][used++] = (double)row;
  }
  outputs[2][0] = (double)used;
}

static void bag_scales_gradient_reference(const kernel_case *self, const double *const *inputs,
                                          double *const *outputs) {
  const bags_view view = view_of(self, inputs, 2);
  const int64_t dim = input_last_dim(self, 0), bags = input_dim(self, 0, 0);
  memset(outputs[0], 0, (size_t)view.id_count * sizeof(double));
  for (int64_t bag = 0; bag < bags; bag++)
    for (int64_t i = 0; i < view.id_count; i++)
      for (int64_t j = 0; j < dim && counts(self, &view, bag, i); j++)
        outputs[0][i] += inputs[0][bag * dim + j] * inputs[1][(int64_t)view.ids[i] * dim + j];
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static kernel_case bag_case(const bag_size *size, const char *operation, tdm_dtype dtype,
                            kernel_reference reference, int64_t mean) {
  kernel_case test = kernel_case_make(
      operation, dtype, reference, "%lldx%lld bags %lldx%lld%s", (long long)size->rows,
      (long long)size->dim, (long long)size->bags, (long long)size->length, mean ? " mean" : "");
  test.attributes.embedding_bag =
      (tdm_embedding_bag_attributes){size->rows, size->padding, mean, size->ends};
  return test;
}

static tdm_shape ids_shape(const bag_size *size) {
  return size->length > 0 ? tdm_shape_of(2, size->bags, size->length)
                          : tdm_shape_of(1, id_count(size));
}

/* ids, [offsets] */
static void bag_inputs(kernel_case *test, const bag_size *size) {
  kernel_case_input(test, size->ids, ids_shape(size), 0, (double)size->rows);
  if (size->length > 0)
    kernel_case_absent_input(test);
  else
    kernel_case_input(test, size->ids, tdm_shape_of(1, size->bags + size->ends), 0, 0)->generate =
        make_offsets;
}

static void scales_input(kernel_case *test, const bag_size *size, tdm_dtype dtype, bool scaled) {
  if (scaled)
    kernel_case_input(test, dtype, ids_shape(size), -1, 1);
  else
    kernel_case_absent_input(test);
}

static void sum_cases(const bag_size *size, tdm_dtype dtype, int64_t mean, bool scaled,
                      kernel_visit visit, void *user) {
  const tdm_shape weight = tdm_shape_of(2, size->rows, size->dim);
  const tdm_shape y = tdm_shape_of(2, size->bags, size->dim);

  kernel_case forward = bag_case(size, TDM_OP_EMBEDDING_BAG, dtype, bag_reference, mean);
  kernel_case_input(&forward, dtype, weight, -1, 1);
  bag_inputs(&forward, size);
  scales_input(&forward, size, dtype, scaled);
  kernel_case_output(&forward, dtype, y);
  visit(&forward, user);

  kernel_case gradient =
      bag_case(size, TDM_OP_EMBEDDING_BAG_GRADIENT, dtype, bag_gradient_reference, mean);
  kernel_case_input(&gradient, dtype, y, -1, 1);
  bag_inputs(&gradient, size);
  scales_input(&gradient, size, dtype, scaled);
  kernel_case_absent_input(&gradient);
  kernel_case_output(&gradient, dtype, weight);
  visit(&gradient, user);

  kernel_case sparse = bag_case(size, TDM_OP_EMBEDDING_BAG_SPARSE_GRADIENT, dtype,
                                bag_sparse_gradient_reference, mean);
  const int64_t ids = id_count(size);
  kernel_case_input(&sparse, dtype, y, -1, 1);
  bag_inputs(&sparse, size);
  scales_input(&sparse, size, dtype, scaled);
  kernel_case_output(&sparse, dtype, tdm_shape_of(2, ids, size->dim));
  kernel_case_output(&sparse, TDM_INT64, tdm_shape_of(1, ids));
  kernel_case_output(&sparse, TDM_INT64, tdm_shape_scalar());
  visit(&sparse, user);
}

static void other_cases(const bag_size *size, tdm_dtype dtype, kernel_visit visit, void *user) {
  const tdm_shape weight = tdm_shape_of(2, size->rows, size->dim);
  const tdm_shape y = tdm_shape_of(2, size->bags, size->dim);

  kernel_case largest = bag_case(size, TDM_OP_EMBEDDING_BAG_MAX, dtype, bag_max_reference, 0);
  kernel_case_input(&largest, dtype, weight, -1, 1);
  bag_inputs(&largest, size);
  kernel_case_output(&largest, dtype, y);
  kernel_case_output(&largest, TDM_INT64, y);
  visit(&largest, user);

  kernel_case gradient =
      bag_case(size, TDM_OP_EMBEDDING_BAG_GRADIENT, dtype, bag_gradient_reference, 0);
  kernel_case_input(&gradient, dtype, y, -1, 1);
  bag_inputs(&gradient, size);
  kernel_case_absent_input(&gradient);
  kernel_case_input(&gradient, TDM_INT64, y, -1, (double)id_count(size));
  kernel_case_output(&gradient, dtype, weight);
  visit(&gradient, user);

  kernel_case scales =
      bag_case(size, TDM_OP_EMBEDDING_BAG_SCALES_GRADIENT, dtype, bag_scales_gradient_reference, 0);
  kernel_case_input(&scales, dtype, y, -1, 1);
  kernel_case_input(&scales, dtype, weight, -1, 1);
  bag_inputs(&scales, size);
  kernel_case_output(&scales, dtype, ids_shape(size));
  visit(&scales, user);
}

void bag_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t i = 0; i < sizeof bag_sizes / sizeof bag_sizes[0]; i++) {
      sum_cases(&bag_sizes[i], dtype, i % 2 == 0, i % 2 == 1, visit, user);
      other_cases(&bag_sizes[i], dtype, visit, user);
    }
  }
}
