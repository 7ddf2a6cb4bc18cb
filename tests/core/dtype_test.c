/* Dtypes: sizes, names of both kinds and back, and values outside the enumeration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tandem/core/core.h"

typedef struct expectation {
  size_t bytes;
  const char *name;
  const char *safetensors_name;
  tdm_dtype dtype;
  bool floating;
} expectation;

static const expectation expectations[] = {
    {sizeof(float), "float32", "F32", TDM_FLOAT32, true},
    {sizeof(double), "float64", "F64", TDM_FLOAT64, true},
    {sizeof(int32_t), "int32", "I32", TDM_INT32, false},
    {sizeof(int64_t), "int64", "I64", TDM_INT64, false},
    {sizeof(uint8_t), "uint8", "U8", TDM_UINT8, false},
    {1, "bool", "BOOL", TDM_BOOL, false},
    {2, "float16", "F16", TDM_FLOAT16, true},
    {2, "bfloat16", "BF16", TDM_BFLOAT16, true},
};

static void every_dtype_has_its_row(void **state) {
  (void)state;
  const size_t count = sizeof expectations / sizeof expectations[0];
  assert_int_equal(count, TDM_DTYPE_COUNT - 1);
  for (size_t i = 0; i < count; i++) {
    const expectation *expected = &expectations[i];
    assert_int_equal(tdm_dtype_bytes(expected->dtype), expected->bytes);
    assert_string_equal(tdm_dtype_name(expected->dtype), expected->name);
    assert_int_equal(tdm_dtype_is_floating(expected->dtype), expected->floating);
    assert_int_equal(tdm_dtype_from_name(expected->name), expected->dtype);
    assert_int_equal(tdm_dtype_from_name(expected->safetensors_name), expected->dtype);
  }
}

static void others_are_none(void **state) {
  (void)state;
  const tdm_dtype others[] = {TDM_DTYPE_NONE, TDM_DTYPE_COUNT, (tdm_dtype)-1, (tdm_dtype)1000};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    assert_int_equal(tdm_dtype_bytes(others[i]), 0);
    assert_string_equal(tdm_dtype_name(others[i]), "none");
    assert_false(tdm_dtype_is_floating(others[i]));
  }
  const char *const names[] = {"", "none", "float", "F32 ", "f32", "FLOAT32"};
  for (size_t i = 0; i < sizeof(names) / sizeof names[0]; i++)
    assert_int_equal(tdm_dtype_from_name(names[i]), TDM_DTYPE_NONE);
  assert_int_equal(tdm_dtype_from_name(NULL), TDM_DTYPE_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_dtype_has_its_row),
      cmocka_unit_test(others_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
