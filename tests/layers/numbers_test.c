/* Numbers and dtypes. A comparison with a number is exact, even if the dtype cannot represent it. A
 * fill, a pad, a range or a tensor with a number that its dtype cannot represent is refused; the
 * message has number, dtype and range. Expected results are those of long double, which represents
 * every double and every int64. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"

_Static_assert(LDBL_MANT_DIG >= 64, "a long double holds every int64");

/* ---- Comparisons ----------------------------------------------------------------------------- */

static const float float32_elements[] = {0,        -0.0F,    0.1F,      1,   16777216,  FLT_MAX,
                                         -FLT_MAX, INFINITY, -INFINITY, NAN, 0x1p-149F, -0.1F};
static const double float64_elements[] = {0,        -0.0,     0.1,       1,   0x1p53,    DBL_MAX,
                                          -DBL_MAX, INFINITY, -INFINITY, NAN, 0x1p-1074, 1e12};
static const int32_t int32_elements[] = {0, 1, -1, INT32_MAX, INT32_MIN, 16777217, INT32_MAX - 1};
static const int64_t int64_elements[] = {
    0, 1, -1, INT64_MAX, INT64_MIN, INT64_MAX - 1, (INT64_C(1) << 53) + 1, INT64_C(1) << 53};
static const uint8_t uint8_elements[] = {0, 1, 2, 254, 255};
static const uint8_t bool_elements[] = {0, 1};

static const double numbers[] = {
    0,         -0.0,       0.5,        -0.5,       0.1,           (double)0.1F,
    -0.1,      1,          1.5,        2,          255,           255.5,
    256,       16777217,   2147483647, 2147483648, -2147483648.0, -2147483649.0,
    0x1p53,    0x1p53 + 2, 0x1p63,     0x1p63 * 2, -0x1p63,       -0x1p64,
    1e12,      1e300,      -1e300,     DBL_MAX,    FLT_MAX,       0x1p-200,
    -0x1p-200, INFINITY,   -INFINITY,  NAN};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

typedef struct elements {
  tdm_dtype dtype;
  const void *data;
  int64_t count;
} elements;

#define ELEMENTS(dtype, data)                                                                      \
  { dtype, data, sizeof data / sizeof *(data) }
static const elements all_elements[] = {
    ELEMENTS(TDM_FLOAT32, float32_elements), ELEMENTS(TDM_FLOAT64, float64_elements),
    ELEMENTS(TDM_INT32, int32_elements),     ELEMENTS(TDM_INT64, int64_elements),
    ELEMENTS(TDM_UINT8, uint8_elements),     ELEMENTS(TDM_BOOL, bool_elements)};

static long double element(const elements *of, int64_t i) {
  switch (of->dtype) {
  case TDM_FLOAT32:
    return ((const float *)of->data)[i];
  case TDM_FLOAT64:
    return ((const double *)of->data)[i];
  case TDM_INT32:
    return ((const int32_t *)of->data)[i];
  case TDM_INT64:
    return ((const int64_t *)of->data)[i];
  default:
    return ((const uint8_t *)of->data)[i];
  }
}

static bool is_true(long double a, int relation, long double b) {
  switch (relation) {
  case TDM_LESS:
    return a < b;
  case TDM_LESS_EQUAL:
    return a <= b;
  case TDM_GREATER:
    return a > b;
  case TDM_GREATER_EQUAL:
    return a >= b;
  case TDM_EQUAL:
    return a == b;
  default:
    return a != b;
  }
}

/* Runs every relation of x and the number, or, if it is NULL, of x and each of its elements. */
static void compare(tdm_context *context, const elements *of, const double *number,
                    const char *device) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_value x = tdm_input(graph, "x", of->dtype, tdm_shape_of(1, of->count));
  const tdm_value column = tdm_unsqueeze(graph, "column", x, 1);
  for (int r = TDM_LESS; r <= TDM_NOT_EQUAL; r++) {
    char name[8];
    (void)snprintf(name, sizeof name, "y%d", r);
    tdm_output(graph, name,
               number ? tdm_compare_scalar(graph, name, x, (tdm_relation)r, *number)
                      : tdm_compare(graph, name, column, (tdm_relation)r, x));
  }
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *fed = tdm_tensor_from(context, of->dtype, tdm_shape_of(1, of->count), of->data);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetches[] = {{"y0", NULL}, {"y1", NULL}, {"y2", NULL},
                         {"y3", NULL}, {"y4", NULL}, {"y5", NULL}};
  if (tdm_run(session, &feed, 1, fetches, 6) != TDM_OK) fail_msg("%s", tdm_last_message());
  const int64_t columns = number ? 1 : of->count;
  for (int r = 0; r < 6; r++) {
    const uint8_t *got = tdm_tensor_data(fetches[r].tensor);
    for (int64_t i = 0; i < of->count * columns; i++) {
      const long double a = element(of, i / columns);
      const long double b = number ? *number : element(of, i % columns);
      if (got[i] != is_true(a, r, b))
        fail_msg("%s %.20Lg %d %.20Lg is %d", tdm_dtype_name(of->dtype), a, r, b, got[i]);
    }
    tdm_tensor_release(fetches[r].tensor);
  }
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void comparisons_are_those_of_real_numbers(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof all_elements / sizeof *all_elements; i++) {
    compare(context, &all_elements[i], NULL, "cpu:0");
    for (int k = 0; k < NUMBERS; k++)
      compare(context, &all_elements[i], &numbers[k], "cpu:0");
  }
  tdm_context_release(context);
}

/* ---- Refused --------------------------------------------------------------------------------- */

typedef struct refused_case {
  tdm_value (*build)(tdm_graph *graph);
  const char *says[4]; /* all expected in the message */
} refused_case;

static tdm_value x_of(tdm_graph *graph, tdm_dtype dtype) {
  return tdm_input(graph, "x", dtype, tdm_shape_of(1, 4));
}

static tdm_value fill(tdm_graph *graph, tdm_dtype dtype, double number) {
  const tdm_value mask = tdm_input(graph, "mask", TDM_BOOL, tdm_shape_of(1, 4));
  return tdm_masked_fill(graph, "f", x_of(graph, dtype), mask, number);
}

static tdm_value pad(tdm_graph *graph, tdm_dtype dtype, double number) {
  return tdm_pad(graph, "f", x_of(graph, dtype), (const int64_t[]){1, 1}, 2, TDM_PAD_CONSTANT,
                 number);
}

static tdm_value half_filled(tdm_graph *graph) {
  return fill(graph, TDM_INT64, 0.5);
}
static tdm_value large_filled(tdm_graph *graph) {
  return fill(graph, TDM_INT32, 2147483648.0);
}
static tdm_value larger_filled(tdm_graph *graph) {
  return fill(graph, TDM_INT64, 0x1p63);
}
static tdm_value nan_filled(tdm_graph *graph) {
  return fill(graph, TDM_INT32, NAN);
}
static tdm_value huge_filled(tdm_graph *graph) {
  return fill(graph, TDM_FLOAT32, -1e300);
}
static tdm_value padded_bool(tdm_graph *graph) {
  return pad(graph, TDM_BOOL, 2);
}
static tdm_value padded_byte(tdm_graph *graph) {
  return pad(graph, TDM_UINT8, -1);
}
static tdm_value clamped(tdm_graph *graph) {
  return tdm_clamp(graph, "f", x_of(graph, TDM_FLOAT32), 0, 1e300);
}
static tdm_value scaled(tdm_graph *graph) {
  return tdm_mul_scalar(graph, "f", x_of(graph, TDM_FLOAT32), 1e300);
}
static tdm_value leaky(tdm_graph *graph) {
  return tdm_leaky_relu(graph, "f", x_of(graph, TDM_FLOAT32), 1e39);
}
static tdm_value long_range(tdm_graph *graph) {
  return tdm_arange(graph, "f", TDM_INT32, 2147483640.0, 2147483650.0, 1);
}
static tdm_value huge_range(tdm_graph *graph) {
  return tdm_arange(graph, "f", TDM_FLOAT32, 0, 1e300, 1e299);
}
static tdm_value constant_parameter(tdm_graph *graph) {
  const tdm_initializer half = {TDM_INIT_CONSTANT, 0.5, 0, -1};
  return tdm_parameter(graph, "f", TDM_INT32, tdm_shape_of(1, 4), &half);
}

static const refused_case refused_cases[] = {
    {half_filled, {"masked_fill f", "0.5", "int64", "-9223372036854775808"}},
    {large_filled, {"masked_fill f", "2147483648", "int32", "2147483647"}},
    {larger_filled, {"masked_fill f", "9.22337203685478e+18", "int64"}},
    {nan_filled, {"masked_fill f", "nan", "int32"}},
    {huge_filled, {"masked_fill f", "-1e+300", "float32", "3.4028235e+38"}},
    {padded_bool, {"pad f", "is 2", "bool", "0 and 1"}},
    {padded_byte, {"pad f", "is -1", "uint8", "0 to 255"}},
    {clamped, {"clamp f", "1e+300", "float32"}},
    {scaled, {"affine f", "1e+300", "float32"}},
    {leaky, {"leaky_relu f", "1e+39", "float32"}},
    {long_range, {"arange f", "last element", "2147483649", "int32"}},
    {huge_range, {"arange f", "float32"}},
    {constant_parameter, {"parameter f", "0.5", "int32"}},
};

static void numbers_that_a_dtype_does_not_hold_are_refused(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof refused_cases / sizeof *refused_cases; i++) {
    const refused_case *refused = &refused_cases[i];
    tdm_graph *graph = tdm_graph_create(context);
    if (tdm_value_is_valid(refused->build(graph))) fail_msg("case %zu was accepted", i);
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    for (int k = 0; k < 4 && refused->says[k]; k++)
      if (!strstr(tdm_last_message(), refused->says[k]))
        fail_msg("'%s' lacks '%s'", tdm_last_message(), refused->says[k]);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

static void refuse_tensor(tdm_tensor *tensor, const char *number, const char *dtype) {
  assert_null(tensor);
  assert_int_equal(tdm_last_status(), TDM_INVALID_ARGUMENT);
  if (!strstr(tdm_last_message(), number) || !strstr(tdm_last_message(), dtype))
    fail_msg("'%s' lacks '%s' or '%s'", tdm_last_message(), number, dtype);
}

static void tensors_of_other_numbers_are_refused(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  const tdm_shape two = tdm_shape_of(1, 2);
  refuse_tensor(tdm_tensor_full(context, "cpu:0", TDM_INT32, two, 0.5), "0.5", "int32");
  refuse_tensor(tdm_tensor_full(context, "cpu:0", TDM_UINT8, two, 256), "256", "uint8");
  refuse_tensor(tdm_tensor_full(context, "cpu:0", TDM_BOOL, two, 2), "2", "bool");
  refuse_tensor(tdm_tensor_full(context, "cpu:0", TDM_INT64, two, NAN), "nan", "int64");
  refuse_tensor(tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, two, 1e300), "1e+300", "float32");
  refuse_tensor(tdm_tensor_arange(context, "cpu:0", TDM_UINT8, 0, 300, 1), "299", "uint8");
  refuse_tensor(tdm_tensor_arange(context, "cpu:0", TDM_INT32, 0, 5, 0.5), "0.5", "int64");
  refuse_tensor(tdm_tensor_arange(context, "cpu:0", TDM_INT64, 0.25, 5, 1), "0.25", "int64");
  refuse_tensor(tdm_tensor_uniform(context, "cpu:0", TDM_UINT8, two, 1, 0, 257), "257", "uint8");
  refuse_tensor(tdm_tensor_uniform(context, "cpu:0", TDM_INT32, two, 1, -1e10, 0), "-1e+10",
                "int32");
  tdm_context_release(context);
}

/* ---- Accepted -------------------------------------------------------------------------------- */

static void ranges_beyond_2_to_the_53_are_exact(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  const double start = 0x1p53;
  tdm_tensor *tensor = tdm_tensor_arange(context, "cpu:0", TDM_INT64, start, start + 6, 1);
  if (!tensor) fail_msg("%s", tdm_last_message());
  tdm_graph *graph = tdm_graph_create(context);
  tdm_output(graph, "y", tdm_arange(graph, "y", TDM_INT64, start, start + 6, 1));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_fetch fetch = {"y", NULL};
  assert_int_equal(tdm_run(session, NULL, 0, &fetch, 1), TDM_OK);
  for (int64_t i = 0; i < 6; i++) {
    assert_int_equal(((const int64_t *)tdm_tensor_data(tensor))[i], (INT64_C(1) << 53) + i);
    assert_int_equal(((const int64_t *)tdm_tensor_data(fetch.tensor))[i], (INT64_C(1) << 53) + i);
  }
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

static void ends_of_ranges_are_accepted(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  const tdm_shape two = tdm_shape_of(1, 2);
  tdm_tensor *made[] = {
      tdm_tensor_full(context, "cpu:0", TDM_INT32, two, INT32_MIN),
      tdm_tensor_full(context, "cpu:0", TDM_INT64, two, -0x1p63),
      tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, two, FLT_MAX),
      tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, two, -INFINITY),
      tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, two, 0.1),
      tdm_tensor_uniform(context, "cpu:0", TDM_UINT8, two, 1, 0, 256),
      tdm_tensor_uniform(context, "cpu:0", TDM_BOOL, two, 1, 0, 2),
      tdm_tensor_arange(context, "cpu:0", TDM_UINT8, 0, 256, 1),
      tdm_tensor_arange(context, "cpu:0", TDM_BOOL, 0, 2, 1),
  };
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    if (!made[i]) fail_msg("%zu is refused", i);
    tdm_tensor_release(made[i]);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(comparisons_are_those_of_real_numbers),
      cmocka_unit_test(numbers_that_a_dtype_does_not_hold_are_refused),
      cmocka_unit_test(tensors_of_other_numbers_are_refused),
      cmocka_unit_test(ranges_beyond_2_to_the_53_are_exact),
      cmocka_unit_test(ends_of_ranges_are_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
