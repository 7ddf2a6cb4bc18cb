/* Elementwise nodes that are fused and nodes that must not be fused; user-defined operations;
 * reports of fused nodes; and memory after failed allocations. */
#include <stdlib.h>

#include "devices/kernels/elementwise/fused.h"
#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { ROWS = 4, WIDTH = 6 };

/* ---- Graphs ---------------------------------------------------------------------------------- */

/* Creates a graph on cpu:0 with the input "x" (ROWS, WIDTH). */
static tdm_graph *begin_graph(tdm_value *out_x) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  *out_x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  return graph;
}

/* Runs the graph, whose output is "y"; the session stays, for its plan. */
static tdm_session *run_graph(tdm_graph *graph, const tdm_session_options *options) {
  tdm_session *session = run_session(graph, options);
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  return session;
}

/* Checks the names of the fused nodes of the session's plan, in order (NULL after the last).
 * Releases the session. */
static void expect_fused(tdm_session *session, const char *first, const char *second) {
  const char *wanted[] = {first, second, NULL};
  const tdm_graph *graph = &session->newest->graph;
  size_t found = 0;
  TDM_EACH_NODE(graph, node) {
    if (node->operation != &tdm_operation_fused) continue;
    if (!wanted[found]) fail_msg("%s is fused", node->name);
    assert_string_equal(node->name, wanted[found]);
    found++;
  }
  if (wanted[found]) fail_msg("%s is not fused", wanted[found]);
  tdm_session_release(session);
}

/* The same of a graph whose output is y. */
static void expect_fused_of(tdm_graph *graph, tdm_value y, const char *first, const char *second) {
  tdm_output(graph, "y", y);
  expect_fused(run_graph(graph, NULL), first, second);
}

/* ---- Fused nodes ----------------------------------------------------------------------------- */

static void a_chain_is_one(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value b = tdm_mul(graph, "b", a, x);
  expect_fused_of(graph, tdm_gelu(graph, "c", b), "a+b+c", NULL);
}

static void a_chain_stays_if_asked_to(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  tdm_output(graph, "y", tdm_tanh(graph, "b", tdm_relu(graph, "a", x)));
  expect_fused(run_graph(graph, WITH(tdm_session_options, o.unfused = true)), NULL, NULL);
}

/* Branches that begin and end inside. */
static void a_diamond_is_one(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value left = tdm_tanh(graph, "left", a);
  const tdm_value right = tdm_sigmoid(graph, "right", a);
  expect_fused_of(graph, tdm_add(graph, "sum", left, right), "a+left+right+sum", NULL);
}

/* A member with readers after the group is stored too. */
static void later_readers_find_what_they_read(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value b = tdm_tanh(graph, "b", a);
  const tdm_value row = tdm_sum(graph, "row", a, (int[]){1}, 1, true);
  const tdm_value both[] = {row, b};
  expect_fused_of(graph, tdm_concat(graph, "y", both, 2, 1), "a+b", NULL);
}

static void views_between_are_passed(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value flat = tdm_reshape(graph, "flat", a, tdm_shape_of(1, ROWS * WIDTH));
  expect_fused_of(graph, tdm_tanh(graph, "b", flat), "a+b", NULL);
}

static void views_of_what_is_stored_follow(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value flat = tdm_reshape(graph, "flat", a, tdm_shape_of(1, ROWS * WIDTH));
  const tdm_value b = tdm_tanh(graph, "b", a);
  const tdm_value both[] = {flat, tdm_reshape(graph, "b", b, tdm_shape_of(1, ROWS * WIDTH))};
  expect_fused_of(graph, tdm_concat(graph, "y", both, 2, 0), "a+b", NULL);
}

/* A row and a column are broadcast: every element may read them in place. */
static void what_is_repeated_is_read_where_it_lies(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value row = tdm_mean(graph, "row", x, (int[]){0}, 1, true);
  const tdm_value column = tdm_mean(graph, "column", x, (int[]){1}, 1, true);
  const tdm_value a = tdm_add(graph, "a", x, row);
  const tdm_value b = tdm_mul(graph, "b", column, a);
  expect_fused_of(graph, tdm_tanh(graph, "c", b), "a+b+c", NULL);
}

/* Members of other dtypes, one with an operand that is not there. */
static void choices_and_conversions_are_joined(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value above = tdm_compare_scalar(graph, "a", x, TDM_GREATER, 0.25);
  const tdm_value filled = tdm_masked_fill(graph, "b", x, above, 2);
  const tdm_value wide = tdm_cast(graph, "c", filled, TDM_FLOAT64);
  expect_fused_of(graph, tdm_exp(graph, "d", wide), "a+b+c+d", NULL);
}

static void long_chains_are_several(void **unused) {
  (void)unused;
  tdm_value value;
  tdm_graph *graph = begin_graph(&value);
  for (int i = 0; i < TDM_FUSED_MEMBERS + 2; i++)
    value = tdm_tanh(graph, i < 2 ? "early" : "late", value);
  expect_fused_of(graph, value, "early", "late");
}

/* ---- Nodes that are not fused ---------------------------------------------------------------- */

static void what_is_fetched_ends_a_chain(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value b = tdm_tanh(graph, "b", a);
  tdm_output(graph, "y", b);
  tdm_output(graph, "y2", tdm_gelu(graph, "c", b));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  tdm_fetch fetches[] = {{.name = "y"}, {.name = "y2"}};
  assert_ok(tdm_run(session, &feed, 1, fetches, 2));
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(fetches[i].tensor);
  tdm_tensor_release(fed);
  expect_fused(session, "a+b", NULL);
}

/* c needs the sum, which needs a: a cannot wait for c. */
static void readers_between_stand_between(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value columns[] = {
      tdm_sum(graph, "sum", a, (int[]){1}, 1, true),
      tdm_input(graph, "rest", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH - 1))};
  const tdm_value mixed = tdm_concat(graph, "mixed", columns, 2, 1);
  tdm_output(graph, "y", tdm_add(graph, "c", a, mixed));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed[] = {
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1),
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH - 1), 2, -1,
                         1)};
  const tdm_feed feeds[] = {{"x", fed[0], false}, {"rest", fed[1], false}};
  tdm_fetch fetch = {.name = "y"};
  assert_ok(tdm_run(session, feeds, 2, &fetch, 1));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed[0]);
  tdm_tensor_release(fed[1]);
  expect_fused(session, NULL, NULL);
}

static void other_devices_are_apart(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value b = tdm_tanh(graph, "b", a);
  tdm_place(graph, "sim:0");
  const tdm_value c = tdm_gelu(graph, "c", b);
  expect_fused_of(graph, tdm_mul(graph, "d", c, c), "a+b", "c+d");
}

static void other_counts_are_apart(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  const tdm_value sums = tdm_sum(graph, "sums", a, (int[]){1}, 1, false);
  expect_fused_of(graph, tdm_tanh(graph, "b", sums), NULL, NULL);
}

/* A piece of a member's result is not its result. */
static void pieces_are_apart(void **unused) {
  (void)unused;
  tdm_value x, halves[2];
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  tdm_split(graph, "halves", a, 0, (int64_t[]){ROWS / 2, ROWS / 2}, 2, halves);
  expect_fused_of(graph, tdm_add(graph, "b", halves[0], halves[1]), NULL, NULL);
}

/* Nor if that piece is broadcast to every row of the reader. */
static void pieces_that_are_repeated_are_apart(void **unused) {
  (void)unused;
  tdm_value x, pieces[2];
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  tdm_split(graph, "pieces", a, 0, (int64_t[]){1, ROWS - 1}, 2, pieces);
  expect_fused_of(graph, tdm_mul(graph, "b", x, pieces[0]), NULL, NULL);
}

/* The row and the column from which a is computed take less memory than a, so it is computed at its
 * reader, after the softmax. */
static void what_reads_little_may_wait(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value row = tdm_mean(graph, "row", x, (int[]){0}, 1, true);
  const tdm_value column = tdm_mean(graph, "column", x, (int[]){1}, 1, true);
  const tdm_value a = tdm_add(graph, "a", row, column);
  const tdm_value between = tdm_softmax(graph, "between", x, 1);
  expect_fused_of(graph, tdm_mul(graph, "b", a, between), "a+b", NULL);
}

/* Values of the forward phase that training needs are stored. Gradients are fused with each
 * other. */
static void phases_are_apart(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  tdm_value y = tdm_linear(graph, "linear", x, WIDTH);
  y = tdm_tanh(graph, "b", tdm_sigmoid(graph, "a", y));
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  tdm_tensor *fed =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_release(fed);
  expect_fused(session, "a+b", "b+a");
}

/* ---- Operations of a user's own -------------------------------------------------------------- */

static _Thread_local bool fails; /* blocking runs execute on the calling thread */

static tdm_status half_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  const float *x = call->inputs[0]; /* (count) */
  float *y = call->outputs[0];      /* (count) */
  if (fails) return tdm_fail(TDM_UNSUPPORTED, "no halves today");
  for (int64_t i = begin; i < end; i++)
    y[i] = x[i] / 2;
  return TDM_OK;
}

static tdm_status execute_half(const tdm_kernel_call *call) {
  return half_part(call, 0, tdm_shape_count(&call->output_specs[0].shape));
}

static const tdm_kernel half_kernel = {.struct_size = sizeof(tdm_kernel),
                                       .operation = "test_half",
                                       .executes = "cpu",
                                       .dtype = TDM_FLOAT32,
                                       .execute = execute_half,
                                       .execute_part = half_part};
static const tdm_kernel plain_kernel = {.struct_size = sizeof(tdm_kernel),
                                        .operation = "test_plain_half",
                                        .executes = "cpu",
                                        .dtype = TDM_FLOAT32,
                                        .execute = execute_half};

static tdm_status infer_half(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

#define HALF_OPERATION(called, is_elementwise)                                                     \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = called, .min_inputs = 1, .max_inputs = 1,        \
    .output_count = 1, .infer = infer_half, .elementwise = is_elementwise                          \
  }
static const tdm_operation half_operation = HALF_OPERATION("test_half", true);
static const tdm_operation plain_operation = HALF_OPERATION("test_plain_half", true);
static const tdm_operation silent_operation = HALF_OPERATION("test_half", false);

static void user_operations_take_part(void **unused) {
  (void)unused;
  const tdm_operation *operations[] = {&half_operation, &plain_operation, &silent_operation};
  for (int i = 0; i < 3; i++) {
    tdm_value x;
    tdm_graph *graph = begin_graph(&x);
    const tdm_value a = tdm_relu(graph, "a", x);
    const tdm_value b = tdm_append(graph, operations[i], "b", NULL, &a, 1, NULL);
    expect_fused_of(graph, tdm_tanh(graph, "c", b), i == 0 ? "a+b+c" : NULL, NULL);
  }
}

static tdm_status infer_two(tdm_infer *infer) {
  infer->outputs[0] = infer->outputs[1] = infer->inputs[0];
  return TDM_OK;
}

/* Checks that a node with more than one result is not fused, for any record. */
static void two_outputs_are_no_part(void **unused) {
  (void)unused;
  static const tdm_operation two = {.struct_size = sizeof(tdm_operation),
                                    .name = "test_half",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .output_count = 2,
                                    .infer = infer_two,
                                    .elementwise = true};
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  tdm_value halves[2];
  (void)tdm_append(graph, &two, "b", NULL, &a, 1, halves);
  expect_fused_of(graph, tdm_tanh(graph, "c", halves[0]), NULL, NULL);
}

static void a_failure_names_the_member(void **unused) {
  (void)unused;
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  const tdm_value a = tdm_relu(graph, "a", x);
  tdm_output(graph, "y", tdm_append(graph, &half_operation, "b", NULL, &a, 1, NULL));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  tdm_fetch fetch = {.name = "y"};
  fails = true;
  const tdm_status status = tdm_run(session, &feed, 1, &fetch, 1);
  fails = false;
  assert_int_equal(status, TDM_UNSUPPORTED);
  assert_message("a+b: fused on cpu:0: member 2, test_half: no halves today");
  assert_null(fetch.tensor);
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void plans_name_the_members(void **unused) {
  (void)unused;
  static const struct {
    tdm_plan_format format;
    const char *text;
  } told[] = {{TDM_PLAN_TEXT, "a+b, of relu, gelu, float32"},
              {TDM_PLAN_JSON, "relu, gelu"},
              {TDM_PLAN_DOT, "fused of relu, gelu"}};
  tdm_value x;
  tdm_graph *graph = begin_graph(&x);
  tdm_output(graph, "y", tdm_gelu(graph, "b", tdm_relu(graph, "a", x)));
  tdm_session *session =
      run_graph(graph, WITH(tdm_session_options, o.profile = true, o.trace_runs = 1));
  for (size_t i = 0; i < TDM_COUNT_OF(told); i++) {
    char *text = printed(session, print_explain, NULL, told[i].format);
    if (!strstr(text, told[i].text)) fail_msg("%s is not told in\n%s", told[i].text, text);
    free(text);
  }
  char *text = printed(session, tdm_session_print_pass, "fuse", TDM_PLAN_TEXT);
  assert_non_null(strstr(text, "fused"));
  free(text);
  char *buffer = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&buffer, &bytes);
  assert_ok(tdm_session_trace(session, TDM_TRACE_CHROME, out));
  (void)fclose(out);
  assert_non_null(strstr(buffer, "fused: relu, gelu"));
  free(buffer);
  tdm_session_release(session);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Plans the chain while allocation n fails. Returns true if it did fail. */
static bool plan_without(tdm_faulty_allocator *faulty, tdm_context *mine, uint64_t n) {
  tdm_graph *graph = tdm_graph_create(mine);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  tdm_output(graph, "y", tdm_gelu(graph, "b", tdm_relu(graph, "a", x)));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed =
      tdm_tensor_uniform(mine, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  const tdm_fetch fetch = {.name = "y"};
  tdm_faulty_allocator_arm(faulty, n, false);
  const tdm_status status = tdm_session_prepare(session, &feed, 1, &fetch, 1, false);
  const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
  tdm_faulty_allocator_arm(faulty, 0, false);
  assert_int_equal(status, failed ? TDM_OUT_OF_MEMORY : TDM_OK);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return failed;
}

static void plans_fail_cleanly_when_memory_is_short(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1);
  tdm_context *mine = tdm_context_create(&options);
  assert_non_null(mine);
  uint64_t n = 1;
  while (plan_without(faulty, mine, n))
    n++;
  assert_true(n > 5);
  tdm_context_release(mine);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

static int begin_all(void **state) {
  (void)begin_group(state);
  assert_ok(tdm_kernel_register(context, &half_kernel));
  assert_ok(tdm_kernel_register(context, &plain_kernel));
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_one),
      cmocka_unit_test(a_chain_stays_if_asked_to),
      cmocka_unit_test(a_diamond_is_one),
      cmocka_unit_test(later_readers_find_what_they_read),
      cmocka_unit_test(views_between_are_passed),
      cmocka_unit_test(views_of_what_is_stored_follow),
      cmocka_unit_test(what_is_repeated_is_read_where_it_lies),
      cmocka_unit_test(choices_and_conversions_are_joined),
      cmocka_unit_test(long_chains_are_several),
      cmocka_unit_test(what_is_fetched_ends_a_chain),
      cmocka_unit_test(readers_between_stand_between),
      cmocka_unit_test(other_devices_are_apart),
      cmocka_unit_test(other_counts_are_apart),
      cmocka_unit_test(pieces_are_apart),
      cmocka_unit_test(pieces_that_are_repeated_are_apart),
      cmocka_unit_test(what_reads_little_may_wait),
      cmocka_unit_test(phases_are_apart),
      cmocka_unit_test(user_operations_take_part),
      cmocka_unit_test(two_outputs_are_no_part),
      cmocka_unit_test(a_failure_names_the_member),
      cmocka_unit_test(plans_name_the_members),
      cmocka_unit_test(plans_fail_cleanly_when_memory_is_short),
  };
  return cmocka_run_group_tests(tests, begin_all, end_group);
}
