/* Arithmetic of integers: quotients and remainders by PyTorch 2.15, with the header's results for
 * operands that PyTorch refuses (0, and the least number by -1), and scalars. All are also members
 * of fused nodes. Expected scalars are those of unsigned arithmetic, which wraps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"

enum { COUNT = 12 };

static const int64_t a_of_int32[COUNT] = {7,         -7,        7, -7, 6,         0,
                                          INT32_MIN, INT32_MAX, 5, 9,  INT32_MIN, -3};
static const int64_t b_of_int32[COUNT] = {2, 2, -2, -2, 3, 5, 7, -3, 10, 0, -1, 0};
/* torch.div(a, b, rounding_mode="floor"), "trunc", torch.remainder(a, b): all but the last three.
 */
static const int64_t floor_of_int32[COUNT] = {3,          -4,         -4, 3, 2,         0,
                                              -306783379, -715827883, 0,  0, INT32_MIN, 0};
static const int64_t trunc_of_int32[COUNT] = {3,          -3,         -3, 3, 2,         0,
                                              -306783378, -715827882, 0,  0, INT32_MIN, 0};
static const int64_t left_of_int32[COUNT] = {1, 1, -1, -1, 0, 0, 5, -2, 5, 9, 0, -3};

static int64_t element(tdm_dtype dtype, const void *data, int64_t i) {
  return dtype == TDM_INT32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

static tdm_tensor *tensor_of(tdm_context *context, tdm_dtype dtype, const int64_t *values) {
  int32_t narrow[COUNT];
  for (int i = 0; i < COUNT; i++)
    narrow[i] = (int32_t)values[i];
  const void *data = dtype == TDM_INT32 ? (const void *)narrow : values;
  return tdm_tensor_from(context, dtype, tdm_shape_of(1, COUNT), data);
}

static void check(tdm_dtype dtype, const char *what, tdm_tensor *got, const int64_t *expected) {
  for (int64_t i = 0; i < COUNT; i++) {
    const int64_t value = element(dtype, tdm_tensor_data(got), i);
    if (value != expected[i])
      fail_msg("%s of %s: element %lld is %lld, not %lld", what, tdm_dtype_name(dtype),
               (long long)i, (long long)value, (long long)expected[i]);
  }
  tdm_tensor_release(got);
}

/* Quotients rounded down and toward zero, and remainders. */
static void divide(tdm_dtype dtype, const char *device, const int64_t *a, const int64_t *b,
                   const int64_t *const expected[3]) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_value x = tdm_input(graph, "a", dtype, tdm_shape_of(1, COUNT));
  const tdm_value y = tdm_input(graph, "b", dtype, tdm_shape_of(1, COUNT));
  tdm_output(graph, "down", tdm_integer_div(graph, "down", x, y, TDM_ROUND_DOWN));
  tdm_output(graph, "zero", tdm_integer_div(graph, "zero", x, y, TDM_ROUND_TOWARD_ZERO));
  tdm_output(graph, "left", tdm_remainder(graph, "left", x, y));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  const tdm_feed feeds[] = {{"a", tensor_of(context, dtype, a), false},
                            {"b", tensor_of(context, dtype, b), false}};
  tdm_fetch fetches[] = {{"down", NULL}, {"zero", NULL}, {"left", NULL}};
  if (tdm_run(session, feeds, 2, fetches, 3) != TDM_OK) fail_msg("%s", tdm_last_message());
  for (int i = 0; i < 3; i++)
    check(dtype, fetches[i].name, fetches[i].tensor, expected[i]);
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(feeds[i].tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

static void quotients_are_pytorchs(void **state) {
  (void)state;
  const int64_t *const expected[] = {floor_of_int32, trunc_of_int32, left_of_int32};
  divide(TDM_INT32, "cpu:0", a_of_int32, b_of_int32, expected);
  divide(TDM_INT32, "sim:0", a_of_int32, b_of_int32, expected);
}

static void the_least_int64_by_minus_one_is_itself(void **state) {
  (void)state;
  static const int64_t a[COUNT] = {INT64_MIN, INT64_MIN, INT64_MAX, INT64_MIN, -9, 9};
  static const int64_t b[COUNT] = {-1, 0, -2, INT64_MAX, 4, -4};
  static const int64_t down[COUNT] = {INT64_MIN, 0, -(INT64_MAX / 2) - 1, -2, -3, -3};
  static const int64_t zero[COUNT] = {INT64_MIN, 0, -(INT64_MAX / 2), -1, -2, -2};
  static const int64_t left[COUNT] = {0, INT64_MIN, -1, INT64_MAX - 1, 3, -3};
  divide(TDM_INT64, "cpu:0", a, b, (const int64_t *const[]){down, zero, left});
}

/* ---- Scalars --------------------------------------------------------------------------------- */

typedef tdm_value (*build_function)(tdm_graph *graph, tdm_value x);

static tdm_value add(tdm_graph *graph, tdm_value x) {
  return tdm_add_scalar(graph, "f", x, 5);
}
static tdm_value multiply(tdm_graph *graph, tdm_value x) {
  return tdm_mul_scalar(graph, "f", x, -3);
}
static tdm_value negate(tdm_graph *graph, tdm_value x) {
  return tdm_neg(graph, "f", x);
}
static tdm_value both(tdm_graph *graph, tdm_value x) {
  return tdm_affine(graph, "f", x, 7, -2);
}
/* Adds one fused node. */
static tdm_value chain(tdm_graph *graph, tdm_value x) {
  const tdm_value y = tdm_affine(graph, "f", x, 7, -2);
  return tdm_sub(graph, "h", tdm_remainder(graph, "g", y, tdm_full_like(graph, "ten", y, 10)), x);
}

static void scale(tdm_dtype dtype, const char *device, build_function build, int64_t factor,
                  int64_t shift, bool chained) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  tdm_output(graph, "y", build(graph, tdm_input(graph, "x", dtype, tdm_shape_of(1, COUNT))));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  const tdm_feed feed = {"x", tensor_of(context, dtype, a_of_int32), false};
  tdm_fetch fetch = {"y", NULL};
  if (tdm_run(session, &feed, 1, &fetch, 1) != TDM_OK) fail_msg("%s", tdm_last_message());
  int64_t expected[COUNT];
  for (int i = 0; i < COUNT; i++) {
    const uint64_t x = (uint64_t)a_of_int32[i];
    int64_t y = (int64_t)(x * (uint64_t)factor + (uint64_t)shift);
    if (dtype == TDM_INT32) y = (int32_t)(uint32_t)y;
    if (chained) y = (int64_t)((uint64_t)((y % 10 + 10) % 10) - x);
    expected[i] = dtype == TDM_INT32 ? (int32_t)(uint32_t)y : y;
  }
  check(dtype, "scalars", fetch.tensor, expected);
  tdm_tensor_release(feed.tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

static void scalars_wrap(void **state) {
  (void)state;
  static const tdm_dtype dtypes[] = {TDM_INT32, TDM_INT64};
  static const char *const devices[] = {"cpu:0", "sim:0"};
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++) {
      scale(dtypes[i], devices[k], add, 1, 5, false);
      scale(dtypes[i], devices[k], multiply, -3, 0, false);
      scale(dtypes[i], devices[k], negate, -1, 0, false);
      scale(dtypes[i], devices[k], both, 7, -2, false);
      scale(dtypes[i], devices[k], chain, 7, -2, true);
    }
}

/* ---- Refused --------------------------------------------------------------------------------- */

static tdm_value half(tdm_graph *graph, tdm_value x) {
  return tdm_add_scalar(graph, "f", x, 0.5);
}
static tdm_value beyond(tdm_graph *graph, tdm_value x) {
  return tdm_mul_scalar(graph, "f", x, 4294967296.0);
}
static tdm_value no_rounding(tdm_graph *graph, tdm_value x) {
  return tdm_integer_div(graph, "f", x, x, (tdm_rounding)7);
}
static tdm_value of_floats(tdm_graph *graph, tdm_value x) {
  const tdm_value real = tdm_cast(graph, "real", x, TDM_FLOAT32);
  return tdm_integer_div(graph, "f", real, real, TDM_ROUND_DOWN);
}

static void what_integers_do_not_hold_is_refused(void **state) {
  (void)state;
  static const struct {
    build_function build;
    const char *says[2];
  } cases[] = {{half, {"affine f", "0.5, and int32 holds whole numbers"}},
               {beyond, {"affine f", "4294967296, and int32 holds"}},
               {no_rounding, {"integer_div f", "rounding is 7"}},
               {of_floats, {"div_floor f", "a is float32, and must be int32 or int64"}}};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_INT32, tdm_shape_of(1, COUNT));
    assert_false(tdm_value_is_valid(cases[i].build(graph, x)));
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    for (int k = 0; k < 2; k++)
      if (!strstr(tdm_last_message(), cases[i].says[k]))
        fail_msg("'%s' lacks '%s'", tdm_last_message(), cases[i].says[k]);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quotients_are_pytorchs),
      cmocka_unit_test(the_least_int64_by_minus_one_is_itself),
      cmocka_unit_test(scalars_wrap),
      cmocka_unit_test(what_integers_do_not_hold_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
