/* Cases of the embedding and of sparse gradients. */
#include "tests/devices/kernels/cases.h"

#include <string.h>

/* ---- embedding ------------------------------------------------------------------------------- */

static void embedding_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  const int64_t dim = input_last_dim(self, 0);
  for (int64_t i = 0; i < input_count_of(self, 1); i++) {
    for (int64_t j = 0; j < dim; j++)
      outputs[0][i * dim + j] = inputs[0][(int64_t)inputs[1][i] * dim + j];
  }
}

static void embedding_gradient_reference(const kernel_case *self, const double *const *inputs,
                                         double *const *outputs) {
  const tdm_embedding_attributes *attributes = &self->attributes.embedding;
  const int64_t dim = input_last_dim(self, 0);
  memset(outputs[0], 0, (size_t)(attributes->rows * dim) * sizeof(double));
  for (int64_t i = 0; i < input_count_of(self, 1); i++) {
    const int64_t id = (int64_t)inputs[1][i];
    if (id == attributes->padding_index) continue;
    for (int64_t j = 0; j < dim; j++)
      outputs[0][id * dim + j] += inputs[0][i * dim + j];
  }
}

static const struct embedding_size {
  int64_t rows, dim, count, length; /* ids (count, length); length 0: (count) */
  tdm_dtype ids;
  int64_t padding;
} embedding_sizes[] = {
    {1000, 10, 30, 0, TDM_INT64, -1}, {7, 1, 0, 0, TDM_INT64, -1},
    {1, 3, 5, 0, TDM_INT32, -1},      {50, 17, 9, 4, TDM_INT32, 3},
    {300, 64, 33, 2, TDM_INT64, 0},   {257, 33, 90, 70, TDM_INT64, 5},
    {5, 100, 3000, 0, TDM_INT64, 4},
};
#define EMBEDDING_SIZES (sizeof embedding_sizes / sizeof embedding_sizes[0])

static void lookup_case(const struct embedding_size *size, tdm_dtype dtype, kernel_visit visit,
                        void *user) {
  const tdm_shape ids =
      size->length == 0 ? tdm_shape_of(1, size->count) : tdm_shape_of(2, size->count, size->length);
  const tdm_shape values = size->length == 0
                               ? tdm_shape_of(2, size->count, size->dim)
                               : tdm_shape_of(3, size->count, size->length, size->dim);
  const tdm_shape weight = tdm_shape_of(2, size->rows, size->dim);
  const tdm_embedding_attributes attributes = {size->rows, size->padding};

  kernel_case forward = kernel_case_make(
      TDM_OP_EMBEDDING, dtype, embedding_reference, "%lldx%lld ids %lldx%lld",
      (long long)size->rows, (long long)size->dim, (long long)size->count, (long long)size->length);
  forward.attributes.embedding = attributes;
  kernel_case_input(&forward, dtype, weight, -1, 1);
  kernel_case_input(&forward, size->ids, ids, 0, (double)size->rows);
  kernel_case_output(&forward, dtype, values);
  visit(&forward, user);

  kernel_case gradient = kernel_case_make(TDM_OP_EMBEDDING_GRADIENT, dtype,
                                          embedding_gradient_reference, "%s", forward.name);
  gradient.attributes.embedding = attributes;
  kernel_case_input(&gradient, dtype, values, -1, 1);
  kernel_case_input(&gradient, size->ids, ids, 0, (double)size->rows);
  kernel_case_output(&gradient, dtype, weight);
  visit(&gradient, user);
}

void embedding_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    for (size_t i = 0; i < EMBEDDING_SIZES; i++)
      lookup_case(&embedding_sizes[i], dtype, visit, user);
  }
}

/* ---- sparse gradients -------------------------------------------------------------------------
 */

/* For every row of the table, all ids are searched: slow and plain. */
static void sparse_gradient_reference(const kernel_case *self, const double *const *inputs,
                                      double *const *outputs) {
  const tdm_embedding_attributes *attributes = &self->attributes.embedding;
  const int64_t dim = input_last_dim(self, 0), count = input_count_of(self, 1);
  int64_t used = 0;
  memset(outputs[0], 0, (size_t)(count * dim) * sizeof(double));
  for (int64_t i = 0; i < count; i++)
    outputs[1][i] = -1;
  for (int64_t row = 0; row < attributes->rows; row++) {
    bool found = false;
    for (int64_t i = 0; i < count && row != attributes->padding_index; i++) {
      if ((int64_t)inputs[1][i] != row) continue;
      found = true;
      for (int64_t j = 0; j < dim; j++)
        outputs[0][used * dim + j] += inputs[0][i * dim + j];
    }
    if (found) outputs[1][used++] = (double)row;
  }
  outputs[2][0] = (double)used;
}

static void sparse_gradient_case(const struct embedding_size *size, tdm_dtype dtype,
                                 kernel_visit visit, void *user) {
  const int64_t count = size->count * (size->length == 0 ? 1 : size->length);
  kernel_case test = kernel_case_make(
      TDM_OP_EMBEDDING_SPARSE_GRADIENT, dtype, sparse_gradient_reference, "%lldx%lld ids %lld",
      (long long)size->rows, (long long)size->dim, (long long)count);
  test.attributes.embedding = (tdm_embedding_attributes){size->rows, size->padding};
  kernel_case_input(&test, dtype, tdm_shape_of(2, count, size->dim), -1, 1);
  kernel_case_input(&test, size->ids, tdm_shape_of(1, count), 0, (double)size->rows);
  kernel_case_output(&test, dtype, tdm_shape_of(2, count, size->dim));
  kernel_case_output(&test, TDM_INT64, tdm_shape_of(1, count));
  kernel_case_output(&test, TDM_INT64, tdm_shape_scalar());
  visit(&test, user);
}

/* Adds the rows of b for each index to those of a. */
static void sparse_add_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  const int64_t dim = input_last_dim(self, 0);
  const int64_t capacity = input_dim(self, 0, 0) + input_dim(self, 3, 0);
  int64_t used = 0;
  memset(outputs[0], 0, (size_t)(capacity * dim) * sizeof(double));
  for (int64_t i = 0; i < capacity; i++)
    outputs[1][i] = -1;
  for (int64_t index = 0; index < 1000; index++) {
    bool found = false;
    for (size_t operand = 0; operand < 6; operand += 3) {
      for (int64_t i = 0; i < (int64_t)inputs[operand + 2][0]; i++) {
        if ((int64_t)inputs[operand + 1][i] != index) continue;
        found = true;
        for (int64_t j = 0; j < dim; j++)
          outputs[0][used * dim + j] += inputs[operand][i * dim + j];
      }
    }
    if (found) outputs[1][used++] = (double)index;
  }
  outputs[2][0] = (double)used;
}

/* A sparse gradient of n entries, `used` of which are valid. */
static void sparse_operand(kernel_case *test, tdm_dtype dtype, int64_t n, int64_t used, int64_t dim,
                           double first) {
  kernel_input *rows = kernel_case_input(test, dtype, tdm_shape_of(2, n, dim), -1, 1);
  rows->fill = FILL_ROWS;
  rows->used = used;
  kernel_input *indices = kernel_case_input(test, TDM_INT64, tdm_shape_of(1, n), first, 1000);
  indices->fill = FILL_SPARSE;
  indices->used = used;
  const double count = (double)used;
  kernel_case_input(test, TDM_INT64, tdm_shape_scalar(), count, count);
}

static void sparse_add_case(tdm_dtype dtype, int64_t n, int64_t n_used, int64_t m, int64_t m_used,
                            int64_t dim, kernel_visit visit, void *user) {
  kernel_case test = kernel_case_make(
      TDM_OP_SPARSE_ADD, dtype, sparse_add_reference, "%lld of %lld and %lld of %lld, dim %lld",
      (long long)n_used, (long long)n, (long long)m_used, (long long)m, (long long)dim);
  sparse_operand(&test, dtype, n, n_used, dim, 0);
  sparse_operand(&test, dtype, m, m_used, dim, 10);
  kernel_case_output(&test, dtype, tdm_shape_of(2, n + m, dim));
  kernel_case_output(&test, TDM_INT64, tdm_shape_of(1, n + m));
  kernel_case_output(&test, TDM_INT64, tdm_shape_scalar());
  visit(&test, user);
}

/* ---- rows in and out ------------------------------------------------------------------------- */

static void take_rows_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  const int64_t dim = input_last_dim(self, 0);
  for (int64_t i = 0; i < input_count_of(self, 1); i++) {
    const int64_t row = (int64_t)inputs[1][i];
    for (int64_t j = 0; j < dim; j++)
      outputs[0][i * dim + j] = row < 0 ? 0 : inputs[0][row * dim + j];
    outputs[1][i] = inputs[1][i];
  }
}

static void put_rows_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const int64_t dim = input_last_dim(self, 0);
  memcpy(outputs[0], inputs[0], (size_t)input_count_of(self, 0) * sizeof(double));
  for (int64_t i = 0; i < input_count_of(self, 2); i++)
    for (int64_t j = 0; j < dim && inputs[2][i] >= 0; j++)
      outputs[0][(int64_t)inputs[2][i] * dim + j] = inputs[1][i * dim + j];
}

static void add_rows_reference(const kernel_case *self, const double *const *inputs,
                               double *const *outputs) {
  const int64_t dim = input_last_dim(self, 0);
  memcpy(outputs[0], inputs[0], (size_t)input_count_of(self, 0) * sizeof(double));
  for (int64_t i = 0; i < input_count_of(self, 2); i++)
    for (int64_t j = 0; j < dim && inputs[2][i] >= 0; j++)
      outputs[0][(int64_t)inputs[2][i] * dim + j] += inputs[1][i * dim + j];
}

/* A table (rows, dim), and n indices, `used` of which name a row. */
static void row_copies_case(tdm_dtype dtype, int64_t rows, int64_t dim, int64_t n, int64_t used,
                            kernel_visit visit, void *user) {
  kernel_case take = kernel_case_make(TDM_OP_TAKE_ROWS, dtype, take_rows_reference,
                                      "%lld of %lld indices, %lld x %lld", (long long)used,
                                      (long long)n, (long long)rows, (long long)dim);
  kernel_case_input(&take, dtype, tdm_shape_of(2, rows, dim), -1, 1);
  kernel_input *indices = kernel_case_input(&take, TDM_INT64, tdm_shape_of(1, n), 0, (double)rows);
  indices->fill = FILL_SPARSE;
  indices->used = used;
  kernel_case_output(&take, dtype, tdm_shape_of(2, n, dim));
  kernel_case_output(&take, TDM_INT64, tdm_shape_of(1, n));
  visit(&take, user);

  for (int adds = 0; adds < 2; adds++) {
    kernel_case put =
        kernel_case_make(adds ? TDM_OP_ADD_ROWS : TDM_OP_PUT_ROWS, dtype,
                         adds ? add_rows_reference : put_rows_reference, "%s", take.name);
    kernel_case_input(&put, dtype, tdm_shape_of(2, rows, dim), -1, 1);
    kernel_case_input(&put, dtype, tdm_shape_of(2, n, dim), -1, 1);
    indices = kernel_case_input(&put, TDM_INT64, tdm_shape_of(1, n), 0, (double)rows);
    indices->fill = FILL_SPARSE;
    indices->used = used;
    kernel_case_overwrite(&put, 0);
    visit(&put, user);
  }
}

static void index_copy_reference(const kernel_case *self, const double *const *inputs,
                                 double *const *outputs) {
  const int64_t row = input_count_of(self, 0) / self->inputs[0].spec.shape.dims[0];
  memcpy(outputs[0], inputs[0], (size_t)input_count_of(self, 0) * sizeof(double));
  for (int64_t i = 0; i < input_count_of(self, 2); i++)
    for (int64_t j = 0; j < row; j++)
      outputs[0][(int64_t)inputs[2][i] * row + j] = inputs[1][i * row + j];
}

/* Overwrites n rows of (rows, a, b). */
static void index_copy_case(tdm_dtype dtype, tdm_dtype indices_dtype, const int64_t sizes[3],
                            int64_t n, kernel_visit visit, void *user) {
  const double most = dtype == TDM_BOOL ? 2 : 100;
  kernel_case put =
      kernel_case_make(TDM_OP_INDEX_COPY, dtype, index_copy_reference, "%lld of (%lld, %lld, %lld)",
                       (long long)n, (long long)sizes[0], (long long)sizes[1], (long long)sizes[2]);
  kernel_case_input(&put, dtype, tdm_shape_of(3, sizes[0], sizes[1], sizes[2]), 0, most);
  kernel_case_input(&put, dtype, tdm_shape_of(3, n, sizes[1], sizes[2]), 0, most);
  kernel_input *indices =
      kernel_case_input(&put, indices_dtype, tdm_shape_of(1, n), 0, (double)sizes[0]);
  indices->fill = FILL_SPARSE;
  indices->used = n;
  kernel_case_overwrite(&put, 0);
  visit(&put, user);
}

void index_copy_cases(kernel_visit visit, void *user) {
  const tdm_dtype *const dtypes = every_dtype;
  for (size_t i = 0; i < EVERY_DTYPE; i++) {
    index_copy_case(dtypes[i], TDM_INT64, (const int64_t[]){9, 3, 5}, 4, visit, user);
    index_copy_case(dtypes[i], TDM_INT64, (const int64_t[]){5, 1, 1}, 5, visit, user);
    index_copy_case(dtypes[i], TDM_INT32, (const int64_t[]){9, 3, 5}, 0, visit, user);
  }
  index_copy_case(TDM_FLOAT32, TDM_INT64, (const int64_t[]){700, 8, 16}, 600, visit, user);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static void shard_ids_reference(const kernel_case *self, const double *const *inputs,
                                double *const *outputs) {
  const tdm_shard_ids_attributes *shard = &self->attributes.shard_ids;
  for (int64_t i = 0; i < input_count_of(self, 0); i++) {
    const int64_t id = (int64_t)inputs[0][i], end = shard->first + shard->rows;
    const bool own = id >= shard->first && id < end;
    outputs[0][i] = own ? (double)(id - shard->first) : -1;
    outputs[1][i] = (double)(own && id != shard->padding_index ? id - shard->first : shard->rows);
  }
}

static void shard_places_reference(const kernel_case *self, const double *const *inputs,
                                   double *const *outputs) {
  const tdm_shard_places_attributes *shards = &self->attributes.shard_places;
  const int64_t count = input_count_of(self, 0);
  for (int64_t i = 0; i < count; i++) {
    int64_t shard = 0;
    while (inputs[0][i] >= (double)shards->ends[shard])
      shard++;
    outputs[0][i] = (double)(shard * count + i);
    if (inputs[0][i] == (double)shards->padding_index)
      outputs[0][i] = (double)(shards->count * count);
  }
}

/* ids (count, 2) of a table in shards of shard_rows rows, the last of which has the rest. */
static void shard_case(tdm_dtype ids, int64_t rows, int64_t shard_rows, int64_t padding,
                       int64_t count, kernel_visit visit, void *user) {
  const tdm_shape shape = tdm_shape_of(2, count, 2);
  kernel_case places = kernel_case_make(TDM_OP_SHARD_PLACES, TDM_INT64, shard_places_reference,
                                        "%lldx2 ids of %lld rows, %lld a shard", (long long)count,
                                        (long long)rows, (long long)shard_rows);
  tdm_shard_places_attributes *all = &places.attributes.shard_places;
  all->padding_index = padding;
  while (all->count * shard_rows < rows) {
    const int64_t end = (all->count + 1) * shard_rows;
    kernel_case taken =
        kernel_case_make(TDM_OP_SHARD_IDS, TDM_INT64, shard_ids_reference, "%s", places.name);
    taken.attributes.shard_ids =
        (tdm_shard_ids_attributes){.table_rows = rows,
                                   .first = all->count * shard_rows,
                                   .rows = (end < rows ? end : rows) - all->count * shard_rows,
                                   .padding_index = padding};
    kernel_case_input(&taken, ids, shape, 0, (double)rows);
    kernel_case_output(&taken, TDM_INT64, tdm_shape_of(1, 2 * count));
    kernel_case_output(&taken, TDM_INT64, tdm_shape_of(1, 2 * count));
    visit(&taken, user);
    all->ends[all->count++] = end < rows ? end : rows;
  }
  kernel_case_input(&places, ids, shape, 0, (double)rows);
  kernel_case_output(&places, TDM_INT64, shape);
  visit(&places, user);
}

static void shard_cases(kernel_visit visit, void *user) {
  shard_case(TDM_INT64, 1, 1, -1, 3, visit, user);
  shard_case(TDM_INT32, 7, 2, 3, 40, visit, user);
  shard_case(TDM_INT64, 1000, 300, 0, 0, visit, user);
  shard_case(TDM_INT64, 1000, 16, 999, 4000, visit, user);
}

void sparse_cases(kernel_visit visit, void *user) {
  EACH_REAL(dtype) {
    row_copies_case(dtype, 7, 3, 0, 0, visit, user);
    row_copies_case(dtype, 50, 17, 9, 5, visit, user);
    row_copies_case(dtype, 2000, 64, 1500, 1500, visit, user);
    row_copies_case(dtype, 300, 1, 280, 0, visit, user);
    for (size_t i = 0; i < EMBEDDING_SIZES; i++)
      sparse_gradient_case(&embedding_sizes[i], dtype, visit, user);
    sparse_add_case(dtype, 0, 0, 0, 0, 4, visit, user);
    sparse_add_case(dtype, 5, 3, 0, 0, 4, visit, user);
    sparse_add_case(dtype, 0, 0, 6, 6, 9, visit, user);
    sparse_add_case(dtype, 90, 80, 110, 99, 17, visit, user);
    sparse_add_case(dtype, 500, 500, 500, 400, 3, visit, user);
  }
  shard_cases(visit, user);
}
