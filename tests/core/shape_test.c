/* Dimensions and shapes: names and their text, legal and illegal shapes, counts and overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tandem/core/core.h"

static const char *text_of(tdm_shape shape) {
  static char text[TDM_SHAPE_TEXT];
  return tdm_shape_text(&shape, text, sizeof(text));
}

static void names_come_back_as_text(void **state) {
  (void)state;
  const char *const names[] = {"a", "batch", "batch_2",      "z9_",          "0",
                               "_", "aa",    "aaaaaaaaaaaa", "____________", "999999999999"};
  const size_t count = sizeof(names) / sizeof names[0];
  for (size_t i = 0; i < count; i++) {
    const tdm_dim dim = TDM_DIM(names[i]);
    char text[24];
    assert_true(dim < TDM_INFER);
    assert_true(dim != TDM_DIM_UNKNOWN && dim != TDM_DIM_INVALID);
    assert_true(tdm_dim_is_named(dim));
    assert_false(tdm_dim_is_size(dim));
    assert_string_equal(tdm_dim_text(dim, text), names[i]);
    for (size_t j = 0; j < i; j++)
      assert_true(dim != TDM_DIM(names[j]));
  }
}

static void every_character_has_its_digit(void **state) {
  (void)state;
  for (int character = 1; character < 256; character++) {
    const char name[2] = {(char)character, '\0'};
    const bool legal = (character >= 'a' && character <= 'z') ||
                       (character >= '0' && character <= '9') || character == '_';
    const tdm_dim dim = TDM_DIM(name);
    char text[24];
    assert_int_equal(dim != TDM_DIM_INVALID, legal);
    if (legal) assert_string_equal(tdm_dim_text(dim, text), name);
  }
}

static void other_names_are_invalid(void **state) {
  (void)state;
  assert_int_equal(TDM_DIM(""), TDM_DIM_INVALID);
  assert_int_equal(TDM_DIM(NULL), TDM_DIM_INVALID);
  assert_int_equal(TDM_DIM("Batch"), TDM_DIM_INVALID);
  assert_int_equal(TDM_DIM("a b"), TDM_DIM_INVALID);
  assert_int_equal(TDM_DIM("thirteen_long"), TDM_DIM_INVALID);
  assert_false(tdm_dim_is_named(TDM_DIM_INVALID));
  assert_false(tdm_dim_is_named(TDM_DIM_UNKNOWN));
  assert_false(tdm_dim_is_named(TDM_INFER));
  assert_false(tdm_dim_is_named(0));
  assert_false(tdm_dim_is_named(-2));            /* no characters */
  assert_false(tdm_dim_is_named(-2 - 38));       /* a hole, then "a" */
  assert_false(tdm_dim_is_named(INT64_MIN + 2)); /* more than 12 characters */
}

static void other_dimensions_have_a_text(void **state) {
  (void)state;
  char text[24];
  assert_string_equal(tdm_dim_text(30, text), "30");
  assert_string_equal(tdm_dim_text(INT64_MAX, text), "9223372036854775807");
  assert_string_equal(tdm_dim_text(TDM_INFER, text), "-1");
  assert_string_equal(tdm_dim_text(TDM_DIM_UNKNOWN, text), "?");
  assert_string_equal(tdm_dim_text(TDM_DIM_INVALID, text), "invalid");
}

static void shapes_have_a_text(void **state) {
  (void)state;
  assert_string_equal(text_of(tdm_shape_of(2, TDM_DIM("batch"), 10)), "[batch, 10]");
  assert_string_equal(text_of(tdm_shape_scalar()), "[]");
  assert_string_equal(text_of(tdm_shape_of(1, TDM_DIM_UNKNOWN)), "[?]");
  assert_string_equal(text_of(tdm_shape_of(1, TDM_DIM_INVALID)), "invalid");
  const tdm_dim m = INT64_MAX;
  const char *longest = text_of(tdm_shape_of(8, m, m, m, m, m, m, m, m));
  assert_int_equal(strlen(longest), 2 + 8 * 19 + 7 * 2);
  assert_int_equal(longest[strlen(longest) - 1], ']');
  char cut[6];
  const tdm_shape shape = tdm_shape_of(2, 100, 200);
  assert_string_equal(tdm_shape_text(&shape, cut, sizeof(cut)), "[100,");
}

static void illegal_shapes_are_invalid(void **state) {
  (void)state;
  const tdm_dim dims[TDM_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  assert_int_equal(tdm_shape_make(TDM_MAX_RANK, dims).rank, TDM_MAX_RANK);
  assert_int_equal(tdm_shape_make(TDM_MAX_RANK + 1, dims).rank, -1);
  assert_int_equal(tdm_shape_make(-1, dims).rank, -1);
  assert_int_equal(tdm_shape_make(1, NULL).rank, -1);
  assert_int_equal(tdm_shape_make(0, NULL).rank, 0);
  assert_int_equal(tdm_shape_of(3, 1, 2).rank, -1); /* not three dimensions */
  assert_int_equal(tdm_shape_of(2, 1, -2).rank, -1);
  assert_int_equal(tdm_shape_of(2, 1, TDM_DIM("Batch")).rank, -1);
  const tdm_shape legal = tdm_shape_of(3, TDM_INFER, TDM_DIM("n"), TDM_DIM_UNKNOWN);
  assert_true(tdm_shape_is_valid(&legal));
  const tdm_shape invalid = tdm_shape_of(1, TDM_DIM_INVALID);
  assert_false(tdm_shape_is_valid(&invalid));
  assert_int_equal(tdm_shape_count(&invalid), -1);
  tdm_shape spoiled = tdm_shape_of(1, 4);
  spoiled.dims[0] = -2;
  assert_false(tdm_shape_is_valid(&spoiled));
}

static void equality_compares_rank_and_dimensions(void **state) {
  (void)state;
  const tdm_shape a = tdm_shape_of(2, TDM_DIM("batch"), 10);
  tdm_shape b = tdm_shape_of(2, TDM_DIM("batch"), 10);
  assert_true(tdm_shape_equal(&a, &b));
  b.dims[7] = 3; /* past the rank */
  assert_true(tdm_shape_equal(&a, &b));
  const tdm_shape other_name = tdm_shape_of(2, TDM_DIM("bathc"), 10);
  const tdm_shape other_rank = tdm_shape_of(3, TDM_DIM("batch"), 10, 1);
  const tdm_shape unknown = tdm_shape_of(2, TDM_DIM_UNKNOWN, 10);
  assert_false(tdm_shape_equal(&a, &other_name));
  assert_false(tdm_shape_equal(&a, &other_rank));
  assert_false(tdm_shape_equal(&a, &unknown));
}

static void counts_and_bytes(void **state) {
  (void)state;
  const tdm_shape scalar = tdm_shape_scalar();
  const tdm_shape cube = tdm_shape_of(3, 2, 3, 4);
  const tdm_shape named = tdm_shape_of(2, TDM_DIM("batch"), 4);
  const tdm_shape infer = tdm_shape_of(2, TDM_INFER, 4);
  const tdm_shape huge = tdm_shape_of(2, INT64_MAX / 2, 3);
  const tdm_shape empty = tdm_shape_of(3, INT64_MAX, 0, 1);
  const tdm_shape impossible = tdm_shape_of(3, INT64_C(1) << 40, INT64_C(1) << 40, 0);
  const tdm_shape thin = tdm_shape_of(3, 0, INT64_C(1) << 40, INT64_C(1) << 20);
  const tdm_shape many = tdm_shape_of(1, INT64_MAX / 4);
  assert_int_equal(tdm_shape_count(&scalar), 1);
  assert_int_equal(tdm_shape_count(&cube), 24);
  assert_int_equal(tdm_shape_count(&named), -1);
  assert_int_equal(tdm_shape_count(&infer), -1);
  assert_int_equal(tdm_shape_count(&huge), -1);
  assert_int_equal(tdm_shape_count(&empty), 0);
  assert_int_equal(tdm_shape_count(&impossible), -1);
  assert_int_equal(tdm_shape_bytes(&impossible, TDM_BOOL), -1);
  assert_int_equal(tdm_shape_bytes(&thin, TDM_FLOAT32), 0);
  assert_int_equal(tdm_shape_count(&thin), 0);
  assert_int_equal(tdm_shape_bytes(&cube, TDM_FLOAT64), 192);
  assert_int_equal(tdm_shape_bytes(&named, TDM_FLOAT32), -1);
  assert_int_equal(tdm_shape_bytes(&many, TDM_FLOAT32), INT64_MAX / 4 * 4);
  assert_int_equal(tdm_shape_bytes(&many, TDM_FLOAT64), -1);
  assert_int_equal(tdm_shape_bytes(&empty, TDM_BOOL), 0);
  assert_int_equal(tdm_shape_bytes(&empty, TDM_FLOAT64), -1);
  assert_true(tdm_shape_is_concrete(&cube));
  assert_false(tdm_shape_is_concrete(&named));
  assert_false(tdm_shape_is_concrete(&infer));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_come_back_as_text),
      cmocka_unit_test(every_character_has_its_digit),
      cmocka_unit_test(other_names_are_invalid),
      cmocka_unit_test(other_dimensions_have_a_text),
      cmocka_unit_test(shapes_have_a_text),
      cmocka_unit_test(illegal_shapes_are_invalid),
      cmocka_unit_test(equality_compares_rank_and_dimensions),
      cmocka_unit_test(counts_and_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
