/* Sums of columns that take more than one step, and more than two: exactly, as sums of small whole
 * numbers are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "tests/devices/kernels/direct_cuda.h"

/* The gradient of a linear layer's bias: every row of d_out is 0, 1, ... 6, 0, ... from another of
 * these on. */
static void check(int64_t rows, int64_t columns) {
  float *d_out = calloc((size_t)(rows * columns), sizeof *d_out), *bias = calloc(1, 4 * 64);
  float *x = calloc((size_t)rows, sizeof *x), *weight = calloc((size_t)columns, sizeof *weight);
  int64_t expected[64] = {0};
  assert_true(d_out && bias && x && weight && columns <= 64);
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < columns; column++) {
      const int64_t value = (row * 3 + column) % 7;
      d_out[row * columns + column] = (float)value;
      expected[column] += value;
    }
  const direct_operand operands[] = {{TDM_FLOAT32, tdm_shape_of(2, rows, columns), d_out},
                                     {TDM_FLOAT32, tdm_shape_of(2, rows, 1), x},
                                     {TDM_FLOAT32, tdm_shape_of(2, columns, 1), weight},
                                     {TDM_FLOAT32, tdm_shape_of(1, columns), bias}};
  const tdm_kernel *kernel = direct_kernel("random", TDM_OP_LINEAR_PARAMETER_GRADIENT, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, NULL, operands, 2, 2, NULL), TDM_OK);
  for (int64_t column = 0; column < columns; column++)
    if (bias[column] != (float)expected[column])
      fail_msg("%lld rows: column %lld is %g, not %lld", (long long)rows, (long long)column,
               (double)bias[column], (long long)expected[column]);
  free(d_out);
  free(bias);
  free(x);
  free(weight);
}

static void sizes_around_a_piece(void **state) {
  (void)state;
  static const int64_t columns[] = {1, 2, 3, 8, 9, 31, 32, 33, 64};
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
    for (int64_t piece = 512; piece <= 16384; piece *= 2)
      for (int64_t rows = piece - 1; rows <= piece + 1; rows++)
        if (rows * columns[i] < 70000) check(rows, columns[i]);
}

static void pieces_are_summed_in_pieces(void **state) {
  (void)state;
  check(262145, 17); /* 513 pieces of 512 rows */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_around_a_piece),
      cmocka_unit_test(pieces_are_summed_in_pieces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
