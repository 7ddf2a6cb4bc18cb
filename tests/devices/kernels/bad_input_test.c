/* Ids, targets and values that are not legal: an error that names the thing and where it is, and
 * nothing read outside the tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/devices/kernels/direct.h"

enum { ROWS = 1000, DIM = 2, IDS = 9 };

static void expect_failure(tdm_status status, const char *message) {
  assert_int_equal(status, TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), message);
}

/* Runs the operation of the embedding on int64 ids, with id at position 7. */
static tdm_status run_embedding(const char *isa, const char *operation, int64_t id) {
  static float weight[ROWS * DIM], values[IDS * DIM];
  int64_t ids[IDS] = {0, 1, 999, 3, 4, 5, 6, id, 8};
  int64_t indices[IDS], count;
  const tdm_embedding_attributes attributes = {ROWS, -1};
  const direct_operand table = {TDM_FLOAT32, tdm_shape_of(2, ROWS, DIM), weight};
  const direct_operand rows = {TDM_FLOAT32, tdm_shape_of(2, IDS, DIM), values};
  const direct_operand places = {TDM_INT64, tdm_shape_of(1, IDS), ids};
  const bool forward = strcmp(operation, TDM_OP_EMBEDDING) == 0;
  const bool sparse = strcmp(operation, TDM_OP_EMBEDDING_SPARSE_GRADIENT) == 0;
  const direct_operand operands[] = {
      forward ? table : rows,
      places,
      forward || sparse ? rows : table,
      {TDM_INT64, tdm_shape_of(1, IDS), indices},
      {TDM_INT64, tdm_shape_scalar(), &count},
  };
  return direct_run(direct_kernel(isa, operation, TDM_FLOAT32), &attributes, operands, 2,
                    sparse ? 3 : 1, NULL);
}

static void stray_ids_are_named(void **state) {
  (void)state;
  static const char *const operations[] = {TDM_OP_EMBEDDING, TDM_OP_EMBEDDING_GRADIENT,
                                           TDM_OP_EMBEDDING_SPARSE_GRADIENT};
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    if (!direct_kernel(direct_isas[isa], TDM_OP_EMBEDDING, TDM_FLOAT32)) continue;
    for (size_t i = 0; i < 3; i++) {
      const char *operation = operations[i];
      assert_int_equal(run_embedding(direct_isas[isa], operation, 999), TDM_OK);
      expect_failure(run_embedding(direct_isas[isa], operation, 1000),
                     "ids 1000 at position 7 is outside 0 to 999");
      expect_failure(run_embedding(direct_isas[isa], operation, -1),
                     "ids -1 at position 7 is outside 0 to 999");
      expect_failure(run_embedding(direct_isas[isa], operation, INT64_MIN),
                     "ids -9223372036854775808 at position 7 is outside 0 to 999");
    }
  }
}

static void narrow_ids_are_checked_too(void **state) {
  (void)state;
  float weight[3] = {1, 2, 3}, out[2];
  int32_t ids[2] = {2, -3};
  const tdm_embedding_attributes attributes = {3, -1};
  const direct_operand operands[] = {{TDM_FLOAT32, tdm_shape_of(2, 3, 1), weight},
                                     {TDM_INT32, tdm_shape_of(1, 2), ids},
                                     {TDM_FLOAT32, tdm_shape_of(2, 2, 1), out}};
  const tdm_kernel *kernel = direct_kernel("baseline", TDM_OP_EMBEDDING, TDM_FLOAT32);
  expect_failure(direct_run(kernel, &attributes, operands, 2, 1, NULL),
                 "ids -3 at position 1 is outside 0 to 2");
}

static void empty_table_has_no_ids(void **state) {
  (void)state;
  float weight[1], out[1];
  int64_t id = 0;
  const tdm_embedding_attributes attributes = {0, -1};
  const direct_operand operands[] = {{TDM_FLOAT32, tdm_shape_of(2, 0, 1), weight},
                                     {TDM_INT64, tdm_shape_of(1, 1), &id},
                                     {TDM_FLOAT32, tdm_shape_of(2, 1, 1), out}};
  const tdm_kernel *kernel = direct_kernel("baseline", TDM_OP_EMBEDDING, TDM_FLOAT32);
  expect_failure(direct_run(kernel, &attributes, operands, 2, 1, NULL),
                 "ids 0 at position 0 is outside a table of 0 rows");
}

/* Runs four ids in three bags: the sum, the maximum and a gradient. */
static tdm_status run_bags(const char *isa, const char *operation, const int64_t offsets[3],
                           int64_t last_id) {
  float weight[5] = {0}, y[5] = {0};
  int64_t ids[4] = {0, 4, 1, last_id}, list[3], winners[3];
  for (int i = 0; i < 3; i++)
    list[i] = offsets[i];
  const tdm_embedding_bag_attributes attributes = {.rows = 5, .padding_index = -1};
  const bool gradient = strcmp(operation, TDM_OP_EMBEDDING_BAG_GRADIENT) == 0;
  const bool largest = strcmp(operation, TDM_OP_EMBEDDING_BAG_MAX) == 0;
  const direct_operand table = {TDM_FLOAT32, tdm_shape_of(2, 5, 1), weight};
  const direct_operand bags = {TDM_FLOAT32, tdm_shape_of(2, 3, 1), y};
  const direct_operand places = {TDM_INT64, tdm_shape_of(2, 3, 1), winners};
  direct_operand operands[7] = {gradient ? bags : table,
                                {TDM_INT64, tdm_shape_of(1, 4), ids},
                                {TDM_INT64, tdm_shape_of(1, 3), list}};
  const size_t inputs = gradient ? 5 : largest ? 3 : 4;
  operands[inputs] = gradient ? table : bags;
  if (largest) operands[inputs + 1] = places;
  return direct_run(direct_kernel(isa, operation, TDM_FLOAT32), &attributes, operands, inputs,
                    largest ? 2 : 1, NULL);
}

static void wrong_offsets_of_bags_are_named(void **state) {
  (void)state;
  static const char *const operations[] = {TDM_OP_EMBEDDING_BAG, TDM_OP_EMBEDDING_BAG_MAX,
                                           TDM_OP_EMBEDDING_BAG_GRADIENT};
  static const int64_t right[] = {0, 2, 2}, late[] = {1, 2, 2}, down[] = {0, 3, 2},
                       far[] = {0, 2, 5}, full[] = {0, 4, 4};
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    if (!direct_kernel(direct_isas[isa], TDM_OP_EMBEDDING_BAG, TDM_FLOAT32)) continue;
    for (size_t i = 0; i < 3; i++) {
      const char *operation = operations[i];
      assert_int_equal(run_bags(direct_isas[isa], operation, right, 2), TDM_OK);
      assert_int_equal(run_bags(direct_isas[isa], operation, full, 2), TDM_OK);
      expect_failure(run_bags(direct_isas[isa], operation, right, 5),
                     "ids 5 at position 3 is outside 0 to 4");
      expect_failure(run_bags(direct_isas[isa], operation, late, 5),
                     "offsets 1 at position 0 is outside 0 to 0");
      expect_failure(run_bags(direct_isas[isa], operation, down, 2),
                     "offsets 2 at position 2 is outside 3 to 4");
      expect_failure(run_bags(direct_isas[isa], operation, far, 2),
                     "offsets 5 at position 2 is outside 2 to 4");
    }
  }
}

static void stray_targets_are_named(void **state) {
  (void)state;
  double logits[3 * 4] = {0}, log_probabilities[3 * 4], loss, divisor;
  int64_t targets[3] = {3, -100, 4};
  const tdm_loss_attributes attributes = {.reduction = TDM_REDUCTION_MEAN, .ignore_index = -100};
  const direct_operand operands[] = {
      {TDM_FLOAT64, tdm_shape_of(2, 3, 4), logits},
      {TDM_INT64, tdm_shape_of(1, 3), targets},
      {TDM_FLOAT64, tdm_shape_scalar(), &loss},
      {TDM_FLOAT64, tdm_shape_of(2, 3, 4), log_probabilities},
      {TDM_FLOAT64, tdm_shape_scalar(), &divisor},
  };
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    const tdm_kernel *kernel = direct_kernel(direct_isas[isa], TDM_OP_CROSS_ENTROPY, TDM_FLOAT64);
    if (!kernel) continue;
    targets[2] = 4;
    expect_failure(direct_run(kernel, &attributes, operands, 2, 3, NULL),
                   "targets 4 at position 2 is outside 0 to 3");
    targets[2] = -1;
    expect_failure(direct_run(kernel, &attributes, operands, 2, 3, NULL),
                   "targets -1 at position 2 is outside 0 to 3");
    targets[2] = 2;
    assert_int_equal(direct_run(kernel, &attributes, operands, 2, 3, NULL), TDM_OK);
  }
}

static void values_that_are_not_finite_are_named(void **state) {
  (void)state;
  float x[70] = {0};
  const direct_operand operands[] = {{TDM_FLOAT32, tdm_shape_of(1, 70), x},
                                     {TDM_FLOAT32, tdm_shape_of(1, 70), x}};
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    const tdm_kernel *kernel = direct_kernel(direct_isas[isa], TDM_OP_CHECK_FINITE, TDM_FLOAT32);
    if (!kernel) continue;
    for (int i = 0; i < 70; i++) {
      char message[80];
      (void)snprintf(message, sizeof message, "element %d of 70 is inf: not finite", i);
      x[i] = INFINITY;
      assert_int_equal(direct_run(kernel, NULL, operands, 1, 1, NULL), TDM_NOT_FINITE);
      assert_string_equal(tdm_last_message(), message);
      x[i] = NAN;
      assert_int_equal(direct_run(kernel, NULL, operands, 1, 1, NULL), TDM_NOT_FINITE);
      x[i] = 1;
      assert_int_equal(direct_run(kernel, NULL, operands, 1, 1, NULL), TDM_OK);
    }
  }
}

/* Runs a GRU of 2 rows and 3 steps of one feature, or its gradient. */
static tdm_status run_lengths(const char *isa, bool gradient, int32_t *lengths) {
  static float values[16][3 * 2 * 4];
  const tdm_recurrent_attributes attributes = {.cell = TDM_CELL_GRU, .reverse = 1};
  const direct_operand absent = {.dtype = TDM_DTYPE_NONE};
  const direct_operand steps = {TDM_FLOAT32, tdm_shape_of(3, 3, 2, 1), values[0]};
  const direct_operand gates = {TDM_FLOAT32, tdm_shape_of(3, 3, 2, 4), values[1]};
  const direct_operand weight = {TDM_FLOAT32, tdm_shape_of(2, 3, 1), values[2]};
  const direct_operand of_rows = {TDM_INT32, tdm_shape_of(1, 2), lengths};
  const direct_operand y = {TDM_FLOAT32, tdm_shape_of(3, 3, 2, 1), values[3]};
  const direct_operand state = {TDM_FLOAT32, tdm_shape_of(2, 2, 1), values[4]};
  const direct_operand forward[] = {steps,  weight, weight,  absent, absent,
                                    absent, absent, of_rows, y,      state};
  const direct_operand back[] = {steps,
                                 y,
                                 weight,
                                 weight,
                                 y,
                                 absent,
                                 absent,
                                 absent,
                                 absent,
                                 gates,
                                 absent,
                                 of_rows,
                                 {TDM_FLOAT32, tdm_shape_of(2, 3, 1), values[5]},
                                 {TDM_FLOAT32, tdm_shape_of(2, 3, 1), values[6]},
                                 {TDM_FLOAT32, tdm_shape_of(1, 3), values[7]},
                                 {TDM_FLOAT32, tdm_shape_of(1, 3), values[8]},
                                 state};
  const tdm_kernel *kernel =
      direct_kernel(isa, gradient ? TDM_OP_GRU_GRADIENT : TDM_OP_GRU, TDM_FLOAT32);
  return gradient ? direct_run(kernel, &attributes, back, 12, 5, NULL)
                  : direct_run(kernel, &attributes, forward, 8, 2, NULL);
}

static void stray_lengths_are_named(void **state) {
  (void)state;
  for (size_t isa = 0; isa < direct_isa_count; isa++) {
    if (!direct_kernel(direct_isas[isa], TDM_OP_GRU, TDM_FLOAT32)) continue;
    for (int gradient = 0; gradient < 2; gradient++) {
      int32_t lengths[] = {0, 3};
      assert_int_equal(run_lengths(direct_isas[isa], gradient != 0, lengths), TDM_OK);
      lengths[1] = 4;
      expect_failure(run_lengths(direct_isas[isa], gradient != 0, lengths),
                     "lengths 4 at position 1 is outside 0 to 3");
      lengths[0] = -1;
      expect_failure(run_lengths(direct_isas[isa], gradient != 0, lengths),
                     "lengths -1 at position 0 is outside 0 to 3");
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stray_ids_are_named),
      cmocka_unit_test(narrow_ids_are_checked_too),
      cmocka_unit_test(empty_table_has_no_ids),
      cmocka_unit_test(wrong_offsets_of_bags_are_named),
      cmocka_unit_test(stray_targets_are_named),
      cmocka_unit_test(stray_lengths_are_named),
      cmocka_unit_test(values_that_are_not_finite_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
