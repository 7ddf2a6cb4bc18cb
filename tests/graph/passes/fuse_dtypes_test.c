/* Members of other dtypes, and members whose operands are broadcast: they become one node on every
 * kind, with the bits that they have by themselves. For accelerators of TEST_KIND, and cpu. */
#include <stdio.h>

#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"

static const char *const devices[] = {"cpu:0", TEST_KIND ":0"};

enum { ROWS = 5, WIDTH = 6 };

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Builds a graph from x and y, float32 of (ROWS, WIDTH). Returns one value of any dtype. */
typedef tdm_value (*grown)(tdm_graph *graph, tdm_value x, tdm_value y);

static tdm_session *make_session(grown grow, const char *device, bool unfused) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_shape shape = tdm_shape_of(2, ROWS, WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_output(graph, "z", grow(graph, x, tdm_input(graph, "y", TDM_FLOAT32, shape)));
  return run_session(graph, WITH(tdm_session_options, o.unfused = unfused));
}

/* Returns the name of the only fused node of the session's plan; NULL: there is none. */
static const char *fused_name(const tdm_session *session) {
  const char *name = NULL;
  TDM_EACH_NODE(&session->newest->graph, node) {
    if (node->operation != &tdm_operation_fused) continue;
    if (name) fail_msg("%s and %s are fused", name, node->name);
    name = node->name;
  }
  return name;
}

static void expect_one(grown grow, const char *wanted, const char *device) {
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -3, 3);
  tdm_tensor *y =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 2, -3, 3);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  tdm_fetch fetches[] = {{.name = "z"}, {.name = "z"}};
  tdm_session *sessions[] = {make_session(grow, device, false), make_session(grow, device, true)};
  for (int s = 0; s < 2; s++)
    assert_ok(tdm_run(sessions[s], feeds, 2, &fetches[s], 1));
  assert_same_tensor(fetches[0].tensor, fetches[1].tensor);
  const char *found = fused_name(sessions[0]);
  if (!found) fail_msg("nothing is fused on %s", device);
  assert_string_equal(found, wanted);
  assert_null(fused_name(sessions[1]));
  for (int s = 0; s < 2; s++) {
    tdm_tensor_release(fetches[s].tensor);
    tdm_session_release(sessions[s]);
  }
  tdm_tensor_release(x);
  tdm_tensor_release(y);
}

static void expect_one_everywhere(grown grow, const char *wanted) {
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
    expect_one(grow, wanted, devices[d]);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

/* The row is read by two members, whose results have other shapes. */
static tdm_value grow_rows(tdm_graph *graph, tdm_value x, tdm_value y) {
  const tdm_value row = tdm_mean(graph, "row", x, (int[]){0}, 1, true);
  const tdm_value column = tdm_mean(graph, "column", y, (int[]){1}, 1, true);
  const tdm_value a = tdm_sub(graph, "a", row, x);
  const tdm_value b = tdm_mul(graph, "b", a, column);
  const tdm_value flat = tdm_reshape(graph, "flat", b, tdm_shape_of(3, ROWS, 1, WIDTH));
  return tdm_maximum(graph, "c", flat, row);
}

static void operands_are_broadcast(void **unused) {
  (void)unused;
  expect_one_everywhere(grow_rows, "a+b+c");
}

/* Adds a choice whose operands each lack another dimension. */
static tdm_value grow_choice(tdm_graph *graph, tdm_value x, tdm_value y) {
  const tdm_value row = tdm_mean(graph, "row", x, (int[]){0}, 1, true);
  const tdm_value column = tdm_mean(graph, "column", y, (int[]){1}, 1, true);
  const tdm_value middle = tdm_affine(graph, "middle", row, 0.5, 0.1);
  const tdm_value below = tdm_compare(graph, "a", middle, TDM_LESS, column);
  const tdm_value chosen = tdm_where(graph, "b", below, row, column);
  return tdm_add(graph, "c", chosen, x);
}

static void choices_are_broadcast(void **unused) {
  (void)unused;
  expect_one_everywhere(grow_choice, "a+b+c");
}

static tdm_value grow_wide(tdm_graph *graph, tdm_value x, tdm_value y) {
  const tdm_value wide = tdm_exp(graph, "b", tdm_cast(graph, "a", x, TDM_FLOAT64));
  const tdm_value row = tdm_mean(graph, "row", y, (int[]){0}, 1, true);
  const tdm_value narrow = tdm_cast(graph, "c", wide, TDM_FLOAT32);
  const tdm_value sum = tdm_add(graph, "d", narrow, row);
  return tdm_masked_fill(graph, "f", sum, tdm_compare_scalar(graph, "e", wide, TDM_GREATER, 1), -2);
}

static void both_real_dtypes_are_joined(void **unused) {
  (void)unused;
  expect_one_everywhere(grow_wide, "a+b+c+d+e+f");
}

/* Adds sums of integers that wrap, of both widths, from floats that saturate, and bytes. */
static tdm_value grow_integers(tdm_graph *graph, tdm_value x, tdm_value y) {
  const tdm_value large = tdm_affine(graph, "a", x, 1e9, 0);
  const tdm_value a = tdm_cast(graph, "b", large, TDM_INT32);
  const tdm_value b = tdm_add(graph, "d", a, tdm_cast(graph, "c", y, TDM_INT32));
  const tdm_value wide = tdm_cast(graph, "e", tdm_add(graph, "d", a, b), TDM_INT64);
  const tdm_value byte = tdm_cast(graph, "f", tdm_cast(graph, "f", b, TDM_UINT8), TDM_INT64);
  const tdm_value sum = tdm_add(graph, "g", wide, byte);
  return tdm_cast(graph, "i", tdm_compare(graph, "h", sum, TDM_LESS, wide), TDM_FLOAT64);
}

static void integers_are_joined(void **unused) {
  (void)unused;
  expect_one_everywhere(grow_integers, "a+b+c+d+e+f+g+h+i");
}

/* Integers that are broadcast, and compared with a number beyond them. */
static tdm_value grow_places(tdm_graph *graph, tdm_value x, tdm_value y) {
  const tdm_value row = tdm_mean(graph, "row", x, (int[]){0}, 1, true);
  const tdm_value tens = tdm_cast(graph, "tens", row, TDM_INT64);
  const tdm_value sum = tdm_add(graph, "b", tdm_cast(graph, "a", y, TDM_INT64), tens);
  const tdm_value below = tdm_compare_scalar(graph, "c", sum, TDM_LESS, 1e300);
  return tdm_masked_fill(graph, "d", x, below, 0.5);
}

static void integers_are_broadcast(void **unused) {
  (void)unused;
  expect_one_everywhere(grow_places, "a+b+c+d");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_are_broadcast),      cmocka_unit_test(choices_are_broadcast),
      cmocka_unit_test(both_real_dtypes_are_joined), cmocka_unit_test(integers_are_joined),
      cmocka_unit_test(integers_are_broadcast),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
