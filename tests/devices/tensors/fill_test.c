/* Tensors that are filled by numbers: their contents, also element by element, and refused
 * calls. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/devices/support.h"

static void assert_elements(tdm_tensor *tensor, tdm_shape shape, const float *expected) {
  if (!tensor) fail_msg("%s", tdm_last_message());
  const tdm_shape found = tdm_tensor_shape(tensor);
  assert_true(tdm_shape_equal(&found, &shape));
  float read[16];
  assert_ok(tdm_tensor_read(tensor, read, (size_t)tdm_shape_count(&shape) * sizeof *read));
  assert_memory_equal(read, expected, (size_t)tdm_shape_count(&shape) * sizeof *read);
  tdm_tensor_release(tensor);
}

static void each_is_what_it_says(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  static const char *const devices[] = {"cpu:0", "sim:1"};
  for (size_t i = 0; i < TDM_COUNT_OF(devices); i++) {
    const char *device = devices[i];
    assert_elements(tdm_tensor_ones(context, device, TDM_FLOAT32, tdm_shape_of(2, 2, 2)),
                    tdm_shape_of(2, 2, 2), (const float[]){1, 1, 1, 1});
    assert_elements(tdm_tensor_eye(context, device, TDM_FLOAT32, 2, 3), tdm_shape_of(2, 2, 3),
                    (const float[]){1, 0, 0, 0, 1, 0});
    assert_elements(tdm_tensor_eye(context, device, TDM_FLOAT32, 0, 3), tdm_shape_of(2, 0, 3),
                    (const float[]){0});
    assert_elements(tdm_tensor_arange(context, device, TDM_FLOAT32, 1, 2.5, 0.5),
                    tdm_shape_of(1, 3), (const float[]){1, 1.5F, 2});
    assert_elements(tdm_tensor_arange(context, device, TDM_FLOAT32, 3, 0, -2), tdm_shape_of(1, 2),
                    (const float[]){3, 1});
    assert_elements(tdm_tensor_arange(context, device, TDM_FLOAT32, 3, 3, 1), tdm_shape_of(1, 0),
                    (const float[]){0});
  }
  tdm_tensor *counted = tdm_tensor_arange(context, "cpu:0", TDM_INT64, 0, 4, 1);
  assert_memory_equal(tdm_tensor_data(counted), ((const int64_t[]){0, 1, 2, 3}), 32);
  tdm_tensor_release(counted);
  tdm_context_release(context);
}

/* The mean and the variance of rand are 1/2 and 1/12, of randn 0 and 1. */
static void random_numbers_are_spread_as_they_say(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  tdm_context *context = test_context(NULL);
  for (int normal = 0; normal < 2; normal++) {
    const tdm_shape shape = tdm_shape_of(1, COUNT);
    tdm_tensor *tensor = normal ? tdm_tensor_randn(context, "cpu:0", TDM_FLOAT64, shape, 7)
                                : tdm_tensor_rand(context, "cpu:0", TDM_FLOAT64, shape, 7);
    const double *values = tdm_tensor_data(tensor);
    assert_non_null(values);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < COUNT; i++) {
      if (!normal) assert_true(values[i] >= 0 && values[i] < 1);
      sum += values[i];
      squares += values[i] * values[i];
    }
    const double mean = sum / COUNT;
    assert_true(fabs(mean - (normal ? 0 : 0.5)) < 0.03);
    assert_true(fabs(squares / COUNT - mean * mean - (normal ? 1 : 1.0 / 12)) < 0.03);
    tdm_tensor *again = normal ? tdm_tensor_randn(context, "sim:0", TDM_FLOAT64, shape, 7)
                               : tdm_tensor_rand(context, "sim:0", TDM_FLOAT64, shape, 7);
    static double there[COUNT];
    assert_ok(tdm_tensor_read(again, there, sizeof there));
    assert_memory_equal(there, values, sizeof there);
    tdm_tensor_release(again);
    tdm_tensor_release(tensor);
  }
  tdm_context_release(context);
}

static void what_cannot_be_filled_is_refused(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  static const double ranges[][3] = {{0, 4, -1},  {4, 0, 1}, {0, 4, 0},       {0, 1e12, 1},
                                     {0, NAN, 1}, {0, 0, 0}, {INFINITY, 4, 1}};
  for (size_t i = 0; i < TDM_COUNT_OF(ranges); i++) {
    assert_null(
        tdm_tensor_arange(context, "cpu:0", TDM_FLOAT32, ranges[i][0], ranges[i][1], ranges[i][2]));
    assert_message("arange from ");
  }
  assert_null(tdm_tensor_rand(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 3), 1));
  assert_message("rand fills tensors of floating dtypes, not int64");
  assert_null(tdm_tensor_randn(context, "cpu:0", TDM_BOOL, tdm_shape_of(1, 3), 1));
  assert_message("randn fills tensors of floating dtypes, not bool");
  assert_null(tdm_tensor_eye(context, "cpu:0", TDM_FLOAT32, -1, 3));
  assert_null(tdm_tensor_ones(context, "sim:9", TDM_FLOAT32, tdm_shape_of(1, 3)));
  assert_message("devices are: cpu:0, cpu:1, sim:0, sim:1");
  assert_null(tdm_tensor_ones(NULL, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 3)));
  tdm_context_release(context);
}

static void an_element_is_read_from_anywhere(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  static const tdm_dtype dtypes[] = {TDM_FLOAT32, TDM_FLOAT64, TDM_INT32, TDM_INT64};
  for (size_t i = 0; i < TDM_COUNT_OF(dtypes); i++) {
    tdm_tensor *counted = tdm_tensor_arange(context, i % 2 ? "sim:1" : "cpu:0", dtypes[i], 0, 6, 1);
    tdm_tensor *rows = tdm_tensor_view(counted, tdm_shape_of(2, 2, 3));
    assert_true(tdm_tensor_item(rows, 4) == 4);
    assert_true(isnan(tdm_tensor_item(rows, 6)));
    assert_string_equal(tdm_last_message(), "tdm_tensor_item: there is no element 6 of 6");
    tdm_tensor_release(rows);
    tdm_tensor_release(counted);
  }
  assert_true(isnan(tdm_tensor_item(NULL, 0)));
  tdm_context_release(context);
}

static void uniform_numbers_are_of_a_range_that_the_dtype_has(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  static const struct {
    tdm_dtype dtype;
    double low, high;
  } refused[] = {
      {TDM_FLOAT64, 0, INFINITY},    {TDM_FLOAT64, -INFINITY, 0}, {TDM_FLOAT64, -DBL_MAX, DBL_MAX},
      {TDM_FLOAT32, 0, 1e300},       {TDM_FLOAT32, 1, 0},         {TDM_FLOAT64, NAN, 1},
      {TDM_INT64, -DBL_MAX, DBL_MAX}};
  for (size_t i = 0; i < TDM_COUNT_OF(refused); i++) {
    assert_null(tdm_tensor_uniform(context, "cpu:0", refused[i].dtype, tdm_shape_of(1, 4), 1,
                                   refused[i].low, refused[i].high));
    assert_message("can be drawn from [");
  }
  tdm_tensor *widest = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 1000), 1,
                                          -(double)FLT_MAX, (double)FLT_MAX);
  const float *values = tdm_tensor_data(widest);
  assert_non_null(values);
  for (int i = 0; i < 1000; i++)
    assert_true(values[i] >= -FLT_MAX && values[i] < FLT_MAX);
  tdm_tensor_release(widest);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_is_what_it_says),
      cmocka_unit_test(an_element_is_read_from_anywhere),
      cmocka_unit_test(random_numbers_are_spread_as_they_say),
      cmocka_unit_test(what_cannot_be_filled_is_refused),
      cmocka_unit_test(uniform_numbers_are_of_a_range_that_the_dtype_has),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
