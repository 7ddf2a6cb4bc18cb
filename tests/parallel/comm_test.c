/* The primitives on tensors, by the names and intents of PyTorch's TestCudaComm
 * (test/test_cuda_multigpu.py): broadcast, sums, scatter, gather, on every kind of device. */
#include <stdlib.h>

#include "tests/parallel/support.h"

/* The devices of inputs, in turn. */
static const char *const homes[] = {"cpu:0", "cpu:2", FIRST, SECOND};
#define HERE_AND_THERE FIRST "," SECOND ",cpu:1"
static const char *const targets[] = {FIRST, SECOND, "cpu:1"}; /* the devices of HERE_AND_THERE */

/* ---- Broadcast ------------------------------------------------------------------------------- */

static void broadcast(void **unused) {
  (void)unused;
  for (size_t h = 0; h < TDM_COUNT_OF(homes); h++) {
    tdm_tensor *x = draw_on(homes[h], tdm_shape_of(2, 5, 5), 1);
    tdm_tensor *copies[3];
    assert_ok(tdm_tensors_broadcast(&x, 1, HERE_AND_THERE, copies, 3));
    for (size_t i = 0; i < 3; i++) {
      assert_on(copies[i], targets[i]);
      assert_equal_tensors(copies[i], x);
      /* The first is the input itself in PyTorch: here that of the device it lies on. */
      assert_int_equal(copies[i] == x, strcmp(homes[h], targets[i]) == 0);
    }
    release_tensors(copies, 3);
    tdm_tensor_release(x);
  }
}

/* Several tensors, of all dtypes and of none at all, from several devices. */
static void broadcast_coalesced(void **unused) {
  (void)unused;
  static const tdm_dtype dtypes[] = {TDM_FLOAT32, TDM_INT64, TDM_BOOL, TDM_FLOAT64, TDM_INT32};
  enum { COUNT = 20 };
  tdm_tensor *tensors[COUNT];
  for (size_t i = 0; i < COUNT; i++)
    tensors[i] = count_on(homes[i % 4], dtypes[i % 5], tdm_shape_of(2, (int64_t)i * 7, 3));
  tdm_tensor *copies[3 * COUNT];
  assert_ok(tdm_tensors_broadcast(tensors, COUNT, HERE_AND_THERE, copies, 3 * COUNT));
  for (size_t k = 0; k < 3 * COUNT; k++) {
    assert_on(copies[k], targets[k / COUNT]);
    assert_equal_tensors(copies[k], tensors[k % COUNT]);
  }
  release_tensors(copies, 3 * COUNT);
  release_tensors(tensors, COUNT);
}

/* More parts than those whose formats a kernel can choose. */
static void gather_of_many_parts(void **unused) {
  (void)unused;
  enum { COUNT = 20, ROWS = 3 };
  tdm_tensor *tensors[COUNT];
  for (size_t i = 0; i < COUNT; i++)
    tensors[i] = count_on(homes[i % 4], TDM_INT64, tdm_shape_of(2, ROWS, 2));
  tdm_tensor *whole = tdm_tensors_gather(tensors, COUNT, 1, "cpu:0");
  if (!whole) fail_msg("%s", tdm_last_message());
  const int64_t *elements = tdm_tensor_data(whole); /* (ROWS, 2 * COUNT) */
  for (int64_t i = 0; i < ROWS * 2 * COUNT; i++)
    assert_int_equal(elements[i], i / (2 * COUNT) * 2 + i % 2);
  tdm_tensor_release(whole);
  release_tensors(tensors, COUNT);
}

/* Only tensors without elements. */
static void broadcast_coalesced_empty_tensors(void **unused) {
  (void)unused;
  tdm_tensor *tensors[] = {draw_on("cpu:0", tdm_shape_of(1, 0), 1),
                           draw_on(FIRST, tdm_shape_of(2, 3, 0), 1)};
  tdm_tensor *copies[6];
  assert_ok(tdm_tensors_broadcast(tensors, 2, HERE_AND_THERE, copies, 6));
  for (size_t k = 0; k < 6; k++) {
    assert_on(copies[k], targets[k / 2]);
    assert_equal_tensors(copies[k], tensors[k % 2]);
  }
  release_tensors(copies, 6);
  release_tensors(tensors, 2);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static void reduce_add(void **unused) {
  (void)unused;
  tdm_tensor *terms[] = {draw_on(FIRST, tdm_shape_of(2, 5, 5), 1),
                         draw_on(SECOND, tdm_shape_of(2, 5, 5), 2)};
  float a[25];
  float b[25];
  float got[25];
  assert_ok(tdm_tensor_read(terms[0], a, sizeof a));
  assert_ok(tdm_tensor_read(terms[1], b, sizeof b));
  for (size_t h = 0; h <= TDM_COUNT_OF(homes); h++) {
    const char *device = h < TDM_COUNT_OF(homes) ? homes[h] : NULL;
    tdm_tensor *sum;
    assert_ok(tdm_tensors_reduce_add(terms, 2, 1, device, &sum));
    assert_on(sum, device ? device : FIRST);
    assert_ok(tdm_tensor_read(sum, got, sizeof got));
    for (int i = 0; i < 25; i++)
      assert_true(got[i] == a[i] + b[i]);
    tdm_tensor_release(sum);
  }
  release_tensors(terms, 2);
}

/* Lists of tensors of several shapes and dtypes; summed in the order of the lists, bit for bit. */
static void reduce_add_coalesced(void **unused) {
  (void)unused;
  enum { LISTS = 5, COUNT = 4, MOST = 35 };
  static const char *const places[LISTS] = {SECOND, "cpu:1", FIRST, "cpu:0", SECOND};
  const tdm_shape shapes[COUNT] = {tdm_shape_of(2, 5, 7), tdm_shape_scalar(), tdm_shape_of(1, 0),
                                   tdm_shape_of(1, 9)};
  tdm_tensor *terms[LISTS * COUNT];
  float wanted[2][MOST] = {{0}};
  for (size_t r = 0; r < LISTS; r++)
    for (size_t i = 0; i < COUNT; i++) {
      tdm_tensor **term = &terms[r * COUNT + i];
      *term = i == 3 ? count_on(places[r], TDM_INT64, shapes[i])
                     : draw_on(places[r], shapes[i], r * COUNT + i + 1);
      float values[MOST];
      if (i < 2) assert_ok(tdm_tensor_read(*term, values, tdm_tensor_bytes(*term)));
      for (int64_t e = 0; i < 2 && e < tdm_shape_count(&shapes[i]); e++)
        wanted[i][e] = r == 0 ? values[e] : wanted[i][e] + values[e];
    }
  tdm_tensor *sums[COUNT];
  assert_ok(tdm_tensors_reduce_add(terms, LISTS, COUNT, FIRST, sums));
  for (size_t i = 0; i < COUNT; i++) {
    assert_on(sums[i], FIRST);
    sums[i] = to_host(sums[i]);
    if (i < 2) assert_memory_equal(tdm_tensor_data(sums[i]), wanted[i], tdm_tensor_bytes(sums[i]));
  }
  for (int64_t e = 0; e < 9; e++)
    assert_int_equal(((int64_t *)tdm_tensor_data(sums[3]))[e], LISTS * e);
  release_tensors(sums, COUNT);
  release_tensors(terms, LISTS * COUNT);
}

/* ---- Scatter --------------------------------------------------------------------------------- */

/* Element (a, b) of (n, m) is a * m + b: chunk i along dimension has those from first on. */
static void assert_chunk(tdm_tensor *chunk, int64_t columns, int dimension, int64_t first,
                         int64_t size, int64_t other) {
  const tdm_shape wanted =
      dimension == 0 ? tdm_shape_of(2, size, other) : tdm_shape_of(2, other, size);
  const tdm_shape shape = tdm_tensor_shape(chunk);
  assert_true(tdm_shape_equal(&shape, &wanted));
  tdm_tensor *here = to_host(tdm_tensor_retain(chunk));
  const int64_t *data = tdm_tensor_data(here);
  for (int64_t a = 0; a < shape.dims[0]; a++)
    for (int64_t b = 0; b < shape.dims[1]; b++) {
      const int64_t row = dimension == 0 ? first + a : a;
      const int64_t column = dimension == 1 ? first + b : b;
      assert_int_equal(data[a * shape.dims[1] + b], row * columns + column);
    }
  tdm_tensor_release(here);
}

/* Scatters and gathers from every home; wanted: the expected sizes. */
static void expect_scatter(int64_t rows, int64_t columns, int dimension, const int64_t *sizes,
                           size_t count, const int64_t *wanted) {
  const int along = dimension < 0 ? dimension + 2 : dimension;
  for (size_t h = 0; h < TDM_COUNT_OF(homes); h++) {
    tdm_tensor *x = count_on(homes[h], TDM_INT64, tdm_shape_of(2, rows, columns));
    tdm_tensor *chunks[3];
    size_t made = 0;
    assert_ok(tdm_tensors_scatter(x, HERE_AND_THERE, dimension, sizes, chunks, 3, &made));
    assert_int_equal(made, count);
    int64_t first = 0;
    for (size_t i = 0; i < count; i++) {
      assert_on(chunks[i], targets[i]);
      assert_chunk(chunks[i], columns, along, first, wanted[i], along == 0 ? columns : rows);
      const bool view = ((const tdm_tensor *)chunks[i])->storage == x->storage;
      if (along == 0) assert_int_equal(view, strcmp(targets[i], homes[h]) == 0);
      first += wanted[i];
    }
    for (size_t t = 0; t < TDM_COUNT_OF(homes); t++) {
      tdm_tensor *again = tdm_tensors_gather(chunks, count, dimension, homes[t]);
      if (!again) fail_msg("no gather: %s", tdm_last_message());
      assert_on(again, homes[t]);
      assert_equal_tensors(again, x);
      tdm_tensor_release(again);
    }
    release_tensors(chunks, count);
    tdm_tensor_release(x);
  }
}

static void scatter_cpu_and_gpu(void **unused) {
  (void)unused;
  expect_scatter(7, 4, 0, NULL, 3, (int64_t[]){3, 3, 1});
  expect_scatter(4, 4, 0, NULL, 2, (int64_t[]){2, 2}); /* fewer chunks than devices */
  expect_scatter(1, 4, 0, NULL, 1, (int64_t[]){1});
  expect_scatter(0, 4, 0, NULL, 1, (int64_t[]){0});
}

static void scatter_dim(void **unused) {
  (void)unused;
  expect_scatter(4, 7, 1, NULL, 3, (int64_t[]){3, 3, 1});
  expect_scatter(1, 7, 1, NULL, 3, (int64_t[]){3, 3, 1}); /* stretches of one row */
  expect_scatter(4, 1, 1, NULL, 1, (int64_t[]){1});
  expect_scatter(0, 7, 1, NULL, 3, (int64_t[]){3, 3, 1});
}

static void scatter_neg_dim(void **unused) {
  (void)unused;
  expect_scatter(4, 6, -1, NULL, 3, (int64_t[]){2, 2, 2});
  expect_scatter(6, 4, -2, NULL, 3, (int64_t[]){2, 2, 2});
}

static void scatter_sizes(void **unused) {
  (void)unused;
  const int64_t sizes[] = {2, 4, 1};
  expect_scatter(7, 3, 0, sizes, 3, sizes);
  expect_scatter(3, 7, 1, sizes, 3, sizes);
  const int64_t empty_chunks[] = {0, 7, 0};
  expect_scatter(7, 3, 0, empty_chunks, 3, empty_chunks);
  expect_scatter(3, 7, -1, empty_chunks, 3, empty_chunks);
}

/* ---- Gather ---------------------------------------------------------------------------------- */

static void expect_gather(tdm_shape a_shape, tdm_shape b_shape, int dimension, tdm_shape wanted) {
  tdm_tensor *parts[] = {draw_on(FIRST, a_shape, 1), draw_on(SECOND, b_shape, 2)};
  for (size_t h = 0; h <= TDM_COUNT_OF(homes); h++) {
    const char *device = h < TDM_COUNT_OF(homes) ? homes[h] : NULL;
    tdm_tensor *whole = tdm_tensors_gather(parts, 2, dimension, device);
    if (!whole) fail_msg("no gather: %s", tdm_last_message());
    assert_on(whole, device ? device : FIRST);
    const tdm_shape shape = tdm_tensor_shape(whole);
    assert_true(tdm_shape_equal(&shape, &wanted));
    const int64_t sizes[] = {
        a_shape.rank ? a_shape.dims[dimension < 0 ? dimension + 2 : dimension] : 1,
        b_shape.rank ? b_shape.dims[dimension < 0 ? dimension + 2 : dimension] : 1};
    tdm_tensor *chunks[2]; /* cut again */
    assert_ok(tdm_tensors_scatter(whole, FIRST ",cpu:1", dimension, sizes, chunks, 2, NULL));
    for (size_t i = 0; i < 2 && a_shape.rank; i++)
      assert_equal_tensors(chunks[i], parts[i]);
    release_tensors(chunks, 2);
    tdm_tensor_release(whole);
  }
  release_tensors(parts, 2);
}

static void gather(void **unused) {
  (void)unused;
  expect_gather(tdm_shape_of(2, 2, 5), tdm_shape_of(2, 2, 5), 0, tdm_shape_of(2, 4, 5));
  expect_gather(tdm_shape_of(2, 3, 5), tdm_shape_of(2, 1, 5), 0, tdm_shape_of(2, 4, 5));
  expect_gather(tdm_shape_scalar(), tdm_shape_scalar(), 0, tdm_shape_of(1, 2));
  tdm_tensor *one = draw_on(FIRST, tdm_shape_of(1, 3), 1); /* the only term is the result */
  tdm_tensor *same = tdm_tensors_gather(&one, 1, 0, NULL);
  assert_ptr_equal(same, one);
  tdm_tensor_release(same);
  tdm_tensor_release(one);
}

static void gather_dim(void **unused) {
  (void)unused;
  expect_gather(tdm_shape_of(2, 2, 5), tdm_shape_of(2, 2, 5), 1, tdm_shape_of(2, 2, 10));
  expect_gather(tdm_shape_of(2, 2, 5), tdm_shape_of(2, 2, 3), 1, tdm_shape_of(2, 2, 8));
}

static void gather_neg_dim(void **unused) {
  (void)unused;
  expect_gather(tdm_shape_of(2, 2, 5), tdm_shape_of(2, 2, 3), -1, tdm_shape_of(2, 2, 8));
  expect_gather(tdm_shape_of(2, 2, 5), tdm_shape_of(2, 1, 5), -2, tdm_shape_of(2, 3, 5));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broadcast),
      cmocka_unit_test(broadcast_coalesced),
      cmocka_unit_test(broadcast_coalesced_empty_tensors),
      cmocka_unit_test(gather_of_many_parts),
      cmocka_unit_test(reduce_add),
      cmocka_unit_test(reduce_add_coalesced),
      cmocka_unit_test(scatter_cpu_and_gpu),
      cmocka_unit_test(scatter_dim),
      cmocka_unit_test(scatter_neg_dim),
      cmocka_unit_test(scatter_sizes),
      cmocka_unit_test(gather),
      cmocka_unit_test(gather_dim),
      cmocka_unit_test(gather_neg_dim),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
