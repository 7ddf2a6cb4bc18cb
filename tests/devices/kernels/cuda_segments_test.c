/* More ids than one block ranks in one go, and ids that come in every order: rows summed by hand,
 * exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/devices/kernels/direct_cuda.h"

/* Compares the dense and the sparse gradient of a table of `rows` rows. Row i is looked up
 * lengths[i] times; look-ups of different rows alternate. All elements are small whole numbers, so
 * that sums do not depend on the order of additions. */
static void check_lengths(const int64_t *lengths, int64_t rows, int64_t dim) {
  int64_t count = 0, given = 0, used = -1;
  for (int64_t row = 0; row < rows; row++)
    count += lengths[row];
  int64_t *ids = calloc((size_t)count, sizeof *ids), *indices = calloc((size_t)count, sizeof *ids);
  float *d_out = calloc((size_t)(count * dim), sizeof *d_out);
  float *dense = calloc((size_t)(rows * dim), sizeof *dense);
  float *sparse = calloc((size_t)(count * dim), sizeof *sparse);
  for (int64_t turn = 0; given < count; turn++)
    for (int64_t row = 0; row < rows; row++)
      if (turn < lengths[row]) ids[given++] = row;
  for (int64_t i = 0; i < count * dim; i++)
    d_out[i] = (float)(1 + i % dim % 7);
  const tdm_embedding_attributes attributes = {rows, -1};
  const direct_operand operands[] = {{TDM_FLOAT32, tdm_shape_of(2, count, dim), d_out},
                                     {TDM_INT64, tdm_shape_of(1, count), ids},
                                     {TDM_FLOAT32, tdm_shape_of(2, rows, dim), dense}};
  const direct_operand sparsely[] = {operands[0],
                                     operands[1],
                                     {TDM_FLOAT32, tdm_shape_of(2, count, dim), sparse},
                                     {TDM_INT64, tdm_shape_of(1, count), indices},
                                     {TDM_INT64, tdm_shape_scalar(), &used}};
  const tdm_kernel *kernel = direct_kernel("random", TDM_OP_EMBEDDING_GRADIENT, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, &attributes, operands, 2, 1, NULL), TDM_OK);
  kernel = direct_kernel("random", TDM_OP_EMBEDDING_SPARSE_GRADIENT, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, &attributes, sparsely, 2, 3, NULL), TDM_OK);
  assert_int_equal(used, rows);
  for (int64_t i = 0; i < rows * dim; i++) {
    const float expected = (float)(lengths[i / dim] * (1 + i % dim % 7));
    if (dense[i] != expected || sparse[i] != expected)
      fail_msg("%lld rows of %lld: %g and %g, not %g", (long long)lengths[i / dim], (long long)dim,
               (double)dense[i], (double)sparse[i], (double)expected);
  }
  free(ids);
  free(indices);
  free(d_out);
  free(dense);
  free(sparse);
}

/* Checks a sparse gradient of `count` ids whose distance is `step` modulo rows. Every row of d_out
 * is 1. */
static void check_counts(int64_t count, int64_t rows, int64_t step) {
  int64_t *ids = calloc((size_t)count, sizeof *ids), *indices = calloc((size_t)count, sizeof *ids);
  float *d_out = calloc((size_t)count, sizeof *d_out), *out = calloc((size_t)count, sizeof *out);
  int64_t *expected = calloc((size_t)rows, sizeof *expected), used = -1, distinct = 0;
  for (int64_t i = 0; i < count; i++) {
    ids[i] = i * step % rows;
    d_out[i] = 1;
    expected[ids[i]]++;
  }
  const tdm_embedding_attributes attributes = {rows, -1};
  const direct_operand operands[] = {{TDM_FLOAT32, tdm_shape_of(2, count, 1), d_out},
                                     {TDM_INT64, tdm_shape_of(1, count), ids},
                                     {TDM_FLOAT32, tdm_shape_of(2, count, 1), out},
                                     {TDM_INT64, tdm_shape_of(1, count), indices},
                                     {TDM_INT64, tdm_shape_scalar(), &used}};
  const tdm_kernel *kernel = direct_kernel("random", TDM_OP_EMBEDDING_SPARSE_GRADIENT, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, &attributes, operands, 2, 3, NULL), TDM_OK);
  for (int64_t row = 0; row < rows; row++) {
    if (expected[row] == 0) continue;
    assert_int_equal(indices[distinct], row);
    assert_true(out[distinct] == (float)expected[row]);
    distinct++;
  }
  assert_int_equal(used, distinct);
  for (int64_t i = distinct; i < count; i++)
    assert_true(indices[i] == -1 && out[i] == 0);
  free(ids);
  free(indices);
  free(d_out);
  free(out);
  free(expected);
}

static void ranks_go_on_from_tile_to_tile(void **state) {
  (void)state;
  check_counts(70000, 1009, 17); /* more than 256 tiles of 256 */
}

static void sizes_around_a_piece_and_a_tile(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 2, 255, 256, 257, 511, 512, 513, 1024, 1025};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    check_counts(counts[i], 300, 7);
    check_counts(counts[i], 2000, 1999); /* descending, all distinct up to 2000 */
    check_counts(counts[i], 1, 1);
  }
}

/* Tests lengths around one, two and several pieces, beginning at every position in a cell. */
static void long_segments_are_summed_in_pieces(void **state) {
  (void)state;
  static const int64_t lengths[] = {1,   255, 256, 257, 1,   511, 512, 513, 2,    767, 3,   1,
                                    769, 256, 256, 300, 700, 1,   1,   257, 2000, 513, 256, 1};
  const int64_t rows = sizeof lengths / sizeof lengths[0];
  for (int64_t first = 0; first < rows; first += 5)
    check_lengths(lengths + first, rows - first, first % 2 == 0 ? 3 : 70);
  check_lengths((const int64_t[]){256}, 1, 2);
  check_lengths((const int64_t[]){257}, 1, 2);
  check_lengths((const int64_t[]){5000}, 1, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(long_segments_are_summed_in_pieces),
      cmocka_unit_test(ranks_go_on_from_tile_to_tile),
      cmocka_unit_test(sizes_around_a_piece_and_a_tile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
