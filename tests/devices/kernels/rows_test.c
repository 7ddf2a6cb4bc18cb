/* A row of a result depends only on its own row of the batch: the same bits whether a batch runs
 * whole, in pieces, or row by row. Data-parallel chunks and micro-batches rely on this. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/devices/kernels/direct.h"

enum { BATCH = 150, IN = 300, OUT = 70, LENGTH = 3, HIDDEN = 33 };

/* Returns floats uniform in [-0.5, 0.5), which the caller frees. */
static float *random_floats(const char *name, int64_t count) {
  const tdm_random random = {.seed = 1, .stream = tdm_random_stream(name)};
  float *values = malloc((size_t)count * sizeof(float));
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++)
    values[i] = tdm_random_uniform_float32(&random, (uint64_t)i) - 0.5f;
  return values;
}

static const int64_t pieces[] = {1, 2, 7, 64, 65, 149};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

/* ---- linear ---------------------------------------------------------------------------------- */

typedef struct product_case {
  const char *operation;
  int64_t in; /* length of a row that is read */
  int64_t out;
} product_case;

static void run_product(const char *isa, const product_case *test, float *weight, float *bias,
                        float *x, float *y, int64_t rows) {
  const bool forward = strcmp(test->operation, TDM_OP_LINEAR) == 0;
  const direct_operand output = {TDM_FLOAT32, tdm_shape_of(2, rows, test->out), y};
  const direct_operand operands[] = {
      {TDM_FLOAT32, tdm_shape_of(2, rows, test->in), x},
      {TDM_FLOAT32, tdm_shape_of(2, OUT, IN), weight},
      forward ? (direct_operand){TDM_FLOAT32, tdm_shape_of(1, OUT), bias} : output,
      output,
  };
  const tdm_kernel *kernel = direct_kernel(isa, test->operation, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, NULL, operands, forward ? 3 : 2, 1, NULL), TDM_OK);
}

static void product_rows_stand_alone(void **state) {
  const product_case *test = *state;
  float *x = random_floats("x", BATCH * test->in);
  float *weight = random_floats("weight", OUT * IN), *bias = random_floats("bias", OUT);
  float *whole = malloc(sizeof(float) * (size_t)(BATCH * test->out));
  float *piece = malloc(sizeof(float) * (size_t)(BATCH * test->out));
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    if (!direct_kernel(direct_isas[isa], test->operation, TDM_FLOAT32)) continue;
    run_product(direct_isas[isa], test, weight, bias, x, whole, BATCH);
    for (size_t i = 0; i < PIECES; i++) {
      for (int64_t row = 0; row < BATCH; row += pieces[i]) {
        const int64_t rows = BATCH - row < pieces[i] ? BATCH - row : pieces[i];
        run_product(direct_isas[isa], test, weight, bias, x + row * test->in, piece, rows);
        assert_memory_equal(piece, whole + row * test->out,
                            sizeof(float) * (size_t)(rows * test->out));
      }
    }
  }
  free(x);
  free(weight);
  free(bias);
  free(whole);
  free(piece);
}

/* ---- gru ------------------------------------------------------------------------------------- */

/* Rows begin <= row < end of a (LENGTH, BATCH, dim), as (LENGTH, end - begin, dim); freed by the
 * caller. */
static float *batch_slice(const float *whole, int64_t dim, int64_t begin, int64_t end) {
  const int64_t rows = end - begin;
  float *slice = malloc(sizeof(float) * (size_t)(LENGTH * rows * dim));
  assert_non_null(slice);
  for (int64_t t = 0; t < LENGTH; t++) {
    memcpy(slice + t * rows * dim, whole + (t * BATCH + begin) * dim,
           sizeof(float) * (size_t)(rows * dim));
  }
  return slice;
}

typedef struct gru_weights {
  float *ih, *hh, *bias_ih, *bias_hh, *h0;
} gru_weights;

/* y and d_x of rows [begin, end) of a GRU, of x and d_y (LENGTH, end - begin, ...). */
static void run_gru(const char *isa, const gru_weights *weights, float *x, float *d_y, float *y,
                    float *d_x, int64_t begin, int64_t end) {
  static float h_n[BATCH * HIDDEN], gates[LENGTH * BATCH * 4 * HIDDEN], d_h0[BATCH * HIDDEN];
  static float d_ih[3 * HIDDEN * IN], d_hh[3 * HIDDEN * HIDDEN], d_bias[2][3 * HIDDEN];
  tdm_recurrent_attributes attributes = {.cell = TDM_CELL_GRU};
  const int64_t rows = end - begin;
  const direct_operand absent = {.dtype = TDM_DTYPE_NONE};
  const direct_operand sequence = {TDM_FLOAT32, tdm_shape_of(3, LENGTH, rows, IN), x};
  const direct_operand states = {TDM_FLOAT32, tdm_shape_of(3, LENGTH, rows, HIDDEN), y};
  const direct_operand kept = {TDM_FLOAT32, tdm_shape_of(3, LENGTH, rows, 4 * HIDDEN), gates};
  const direct_operand initial = {TDM_FLOAT32, tdm_shape_of(2, rows, HIDDEN),
                                  weights->h0 + begin * HIDDEN};
  const direct_operand ih = {TDM_FLOAT32, tdm_shape_of(2, 3 * HIDDEN, IN), weights->ih};
  const direct_operand hh = {TDM_FLOAT32, tdm_shape_of(2, 3 * HIDDEN, HIDDEN), weights->hh};
  const direct_operand forward[] = {sequence,
                                    ih,
                                    hh,
                                    {TDM_FLOAT32, tdm_shape_of(1, 3 * HIDDEN), weights->bias_ih},
                                    {TDM_FLOAT32, tdm_shape_of(1, 3 * HIDDEN), weights->bias_hh},
                                    initial,
                                    absent,
                                    absent,
                                    states,
                                    {TDM_FLOAT32, tdm_shape_of(2, rows, HIDDEN), h_n},
                                    kept};
  const direct_operand backward[] = {sequence,
                                     states,
                                     ih,
                                     hh,
                                     {TDM_FLOAT32, tdm_shape_of(3, LENGTH, rows, HIDDEN), d_y},
                                     absent,
                                     absent,
                                     initial,
                                     absent,
                                     kept,
                                     absent,
                                     absent,
                                     {TDM_FLOAT32, tdm_shape_of(2, 3 * HIDDEN, IN), d_ih},
                                     {TDM_FLOAT32, tdm_shape_of(2, 3 * HIDDEN, HIDDEN), d_hh},
                                     {TDM_FLOAT32, tdm_shape_of(1, 3 * HIDDEN), d_bias[0]},
                                     {TDM_FLOAT32, tdm_shape_of(1, 3 * HIDDEN), d_bias[1]},
                                     {TDM_FLOAT32, tdm_shape_of(2, rows, HIDDEN), d_h0},
                                     {TDM_FLOAT32, tdm_shape_of(3, LENGTH, rows, IN), d_x}};
  const tdm_kernel *kernel = direct_kernel(isa, TDM_OP_GRU_TRAINING, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, &attributes, forward, 8, 3, NULL), TDM_OK);
  attributes.input_gradient = 1;
  kernel = direct_kernel(isa, TDM_OP_GRU_GRADIENT, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, &attributes, backward, 12, 6, NULL), TDM_OK);
}

static void compare_piece(const char *isa, const gru_weights *weights, const float *x,
                          const float *d_y, const float *y, const float *d_x, int64_t begin,
                          int64_t end) {
  float *piece_x = batch_slice(x, IN, begin, end),
        *piece_d_y = batch_slice(d_y, HIDDEN, begin, end);
  float *expected_y = batch_slice(y, HIDDEN, begin, end);
  float *expected_d_x = batch_slice(d_x, IN, begin, end);
  float *piece_y = batch_slice(y, HIDDEN, begin, end), *piece_d_x = batch_slice(x, IN, begin, end);
  run_gru(isa, weights, piece_x, piece_d_y, piece_y, piece_d_x, begin, end);
  const size_t rows = (size_t)(LENGTH * (end - begin));
  assert_memory_equal(piece_y, expected_y, sizeof(float) * rows * HIDDEN);
  assert_memory_equal(piece_d_x, expected_d_x, sizeof(float) * rows * IN);
  free(piece_x);
  free(piece_d_y);
  free(expected_y);
  free(expected_d_x);
  free(piece_y);
  free(piece_d_x);
}

static void recurrent_rows_stand_alone(void **state) {
  (void)state;
  const gru_weights weights = {.ih = random_floats("ih", 3 * HIDDEN * IN),
                               .hh = random_floats("hh", 3 * HIDDEN * HIDDEN),
                               .bias_ih = random_floats("bias_ih", 3 * HIDDEN),
                               .bias_hh = random_floats("bias_hh", 3 * HIDDEN),
                               .h0 = random_floats("h0", BATCH * HIDDEN)};
  float *x = random_floats("x", LENGTH * BATCH * IN);
  float *d_y = random_floats("d_y", LENGTH * BATCH * HIDDEN);
  float *y = random_floats("y", LENGTH * BATCH * HIDDEN);
  float *d_x = random_floats("d_x", LENGTH * BATCH * IN);
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    if (!direct_kernel(direct_isas[isa], TDM_OP_GRU, TDM_FLOAT32)) continue;
    run_gru(direct_isas[isa], &weights, x, d_y, y, d_x, 0, BATCH);
    for (size_t i = 0; i < PIECES; i++) {
      compare_piece(direct_isas[isa], &weights, x, d_y, y, d_x, 0, pieces[i]);
      compare_piece(direct_isas[isa], &weights, x, d_y, y, d_x, pieces[i], BATCH);
    }
  }
  free(weights.ih);
  free(weights.hh);
  free(weights.bias_ih);
  free(weights.bias_hh);
  free(weights.h0);
  free(x);
  free(d_y);
  free(y);
  free(d_x);
}

/* ---- Dimensions before the batch ------------------------------------------------------------- */

typedef struct column_case {
  const char *operation;
  size_t inputs; /* (IN, rows) each */
  bool reduces;  /* the result has the shape (rows) */
} column_case;

/* Columns begin <= column < end of a (IN, BATCH), as (IN, end - begin). */
static void take_columns(const float *whole, float *part, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < IN; i++)
    memcpy(part + i * (end - begin), whole + i * BATCH + begin,
           sizeof(float) * (size_t)(end - begin));
}

/* Runs it on x (IN, rows), for both inputs. */
static void run_columns(const char *isa, const column_case *test, float *x, float *y,
                        int64_t rows) {
  const direct_operand read = {TDM_FLOAT32, tdm_shape_of(2, IN, rows), x};
  direct_operand operands[3] = {read, read, read};
  operands[test->inputs] = read;
  operands[test->inputs].data = y;
  if (test->reduces) operands[test->inputs].shape = tdm_shape_of(1, rows);
  const tdm_softmax_attributes softmax = {.dimension = 0};
  const tdm_reduce_attributes reduce = {.mask = 1, .mean = 1};
  const void *attributes = test->reduces ? (const void *)&reduce : &softmax;
  const tdm_kernel *kernel = direct_kernel(isa, test->operation, TDM_FLOAT32);
  assert_int_equal(direct_run(kernel, attributes, operands, test->inputs, 1, NULL), TDM_OK);
}

static void columns_stand_alone(void **state) {
  const column_case *test = *state;
  float *x = random_floats("x", IN * BATCH), *y = random_floats("y", IN * BATCH);
  float *x_part = random_floats("part", IN * BATCH), *y_part = random_floats("part", IN * BATCH);
  float *wanted = random_floats("wanted", IN * BATCH);
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    if (!direct_kernel(direct_isas[isa], test->operation, TDM_FLOAT32)) continue;
    run_columns(direct_isas[isa], test, x, y, BATCH);
    for (size_t i = 0; i < PIECES; i++) {
      const int64_t rows = pieces[i], begin = BATCH - rows;
      take_columns(x, x_part, begin, BATCH);
      run_columns(direct_isas[isa], test, x_part, y_part, rows);
      if (!test->reduces) take_columns(y, wanted, begin, BATCH);
      assert_memory_equal(y_part, test->reduces ? y + begin : wanted,
                          sizeof(float) * (size_t)(test->reduces ? rows : IN * rows));
    }
  }
  free(x);
  free(y);
  free(x_part);
  free(y_part);
  free(wanted);
}

int main(void) {
  product_case forward = {TDM_OP_LINEAR, IN, OUT};
  product_case backward = {TDM_OP_LINEAR_INPUT_GRADIENT, OUT, IN};
  column_case columns[] = {{TDM_OP_SOFTMAX, 1, false},
                           {TDM_OP_LOG_SOFTMAX, 1, false},
                           {TDM_OP_SOFTMAX_GRADIENT, 2, false},
                           {TDM_OP_LOG_SOFTMAX_GRADIENT, 2, false},
                           {TDM_OP_REDUCE, 1, true}};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(columns_stand_alone, &columns[0]),
      cmocka_unit_test_prestate(columns_stand_alone, &columns[1]),
      cmocka_unit_test_prestate(columns_stand_alone, &columns[2]),
      cmocka_unit_test_prestate(columns_stand_alone, &columns[3]),
      cmocka_unit_test_prestate(columns_stand_alone, &columns[4]),
      cmocka_unit_test_prestate(product_rows_stand_alone, &forward),
      cmocka_unit_test_prestate(product_rows_stand_alone, &backward),
      cmocka_unit_test(recurrent_rows_stand_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
