/* The table of a session's layers, letter for letter: a plain model, one whose activation is fused
 * and whose parts are wrapped, times where runs were measured. */
#define _GNU_SOURCE /* open_memstream */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define GROUP_CONTEXT graph_context_of(2, 2)
#include "tests/graph/group.h"
#include "tests/options.h"

static char *summary_of(tdm_session *session) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  assert_ok(tdm_session_print_summary(session, out));
  assert_int_equal(fclose(out), 0);
  return text;
}

static void expect_summary(tdm_session *session, const char *wanted) {
  char *text = summary_of(session);
  assert_string_equal(text, wanted);
  free(text);
}

/* Builds a model with its embedding on cpu:0 and the rest on sim:0. The tied head has no separate
 * parameters. */
static tdm_graph *build(tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  tdm_place(graph, "cpu:0");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, 20, 6);
  tdm_place(graph, "sim:0");
  tdm_scope_push(graph, "block");
  tdm_value y = tdm_tanh(graph, NULL, tdm_linear(graph, NULL, words, 6));
  tdm_scope_pop(graph);
  tdm_tie(graph, "head", "embedding");
  y = tdm_linear_without_bias(graph, "head", y, 20);
  tdm_output(graph, "scores", y);
  *out_loss = tdm_cross_entropy(graph, "loss", y, classes);
  return graph;
}

static void prepare(tdm_session *session, int64_t rows, bool trains) {
  tdm_tensor *ids = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, rows));
  const tdm_feed feeds[] = {{"ids", ids, false}, {"classes", ids, false}};
  tdm_fetch fetch = {.name = "scores"};
  assert_ok(tdm_session_prepare(session, feeds, trains ? 2 : 1, &fetch, trains ? 0 : 1, trains));
  tdm_tensor_release(ids);
}

static void rows_tell_devices_shapes_parameters_and_bytes(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = build(&loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.01), NULL);
  assert_status(tdm_session_print_summary(session, stdout), TDM_INVALID_ARGUMENT);
  assert_message("no plan yet");
  assert_status(tdm_session_print_summary(session, NULL), TDM_INVALID_ARGUMENT);
  assert_status(tdm_session_print_summary(NULL, stdout), TDM_INVALID_ARGUMENT);
  prepare(session, 3, false);
  expect_summary(session,
                 "layer                  device  output           parameters  bytes  time\n"
                 "-----------------------------------------------------------------------\n"
                 "embedding (embedding)  cpu:0   float32 [3, 6]          120   72 B     -\n"
                 "block/0 (linear)       sim:0   float32 [3, 6]           42   72 B     -\n"
                 "block/1 (tanh)         sim:0   float32 [3, 6]            0   72 B     -\n"
                 "head (linear)          sim:0   float32 [3, 20]           0  240 B     -\n"
                 "-----------------------------------------------------------------------\n"
                 "parameters: 162; with all states 648 B\n"
                 "a run makes 456 B forward, transfers 792 B\n");
  /* A refused request does not replace the last one. */
  tdm_tensor *more = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 7));
  const tdm_feed of_more[] = {{"ids", more, false}};
  assert_int_not_equal(tdm_session_prepare(session, of_more, 1, NULL, 0, true), TDM_OK);
  tdm_tensor_release(more);
  char *text = summary_of(session);
  assert_non_null(
      strstr(text, "embedding (embedding)  cpu:0   float32 [3, 6]          120   72 B"));
  free(text);
  prepare(session, 5, true);
  expect_summary(session,
                 "layer                  device  output           parameters  bytes  time\n"
                 "-----------------------------------------------------------------------\n"
                 "embedding (embedding)  cpu:0   float32 [5, 6]          120  120 B     -\n"
                 "block/0 (linear)       sim:0   float32 [5, 6]           42  120 B     -\n"
                 "block/1 (tanh)         sim:0   float32 [5, 6]            0  120 B     -\n"
                 "head (linear)          sim:0   float32 [5, 20]           0  400 B     -\n"
                 "loss (cross_entropy)   sim:0   float32 []                0  408 B     -\n"
                 "-----------------------------------------------------------------------\n"
                 "parameters: 162; with all states 1956 B\n"
                 "a run that trains makes 1168 B forward, transfers 1244 B\n");
  tdm_session_release(session);
}

/* Unnamed sizes, of a named dimension that was flattened, padded or cut, are those of the run. This
 * holds also for nodes that were cut into replicas and micro-batches. */
static void sizes_behind_a_flatten_are_those_of_the_run(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(3, TDM_DIM("batch"), TDM_DIM("length"), 4);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value flat = tdm_flatten(graph, "flatten", x, 0, 1);
  const tdm_value h = tdm_tanh(graph, "tanh", tdm_linear(graph, "fc", flat, 6));
  const tdm_value cut = tdm_slice(graph, "half", x, 1, 0, TDM_TO_THE_END, 2);
  const tdm_value both =
      tdm_add(graph, "both", tdm_mean(graph, "mean", h, NULL, 0, false),
              tdm_sum(graph, "sum", tdm_flatten(graph, "flat", cut, 0, 2), NULL, 0, false));
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:1");
  tdm_data_parallel(graph, "flatten,fc,tanh", &options);
  tdm_session *session =
      train_session(graph, both, tdm_sgd(0.1), WITH(tdm_session_options, o.micro_batches = 2));
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, 8, 5, 4));
  const tdm_feed feed = {"x", fed, false};
  assert_ok(tdm_session_prepare(session, &feed, 1, NULL, 0, true));
  char *text = summary_of(session);
  static const char *const rows[] = {"float32 [40, 4] ", "float32 [40, 6] ", "float32 [8, 3, 4] ",
                                     "float32 [96] "};
  for (size_t i = 0; i < TDM_COUNT_OF(rows); i++)
    if (!strstr(text, rows[i])) fail_msg("\"%s\" is not in\n%s", rows[i], text);
  if (strchr(text, '?')) fail_msg("a size is unknown in\n%s", text);
  free(text);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* A row of both replicas; the gate is fused into what reads it. */
static void wrapped_rows_are_added_up(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  const tdm_value h =
      tdm_gelu(graph, "gelu", tdm_sigmoid(graph, "gate", tdm_linear(graph, "fc", x, 4)));
  const tdm_value loss = tdm_mse(graph, "loss", h, x);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:1");
  tdm_data_parallel(graph, "", &options);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 10, 4));
  const tdm_feed feed = {"x", fed, false};
  assert_ok(tdm_session_prepare(session, &feed, 1, NULL, 0, true));
  expect_summary(session, "layer           device       output           parameters  bytes  time\n"
                          "---------------------------------------------------------------------\n"
                          "fc (linear)     cpu:0,sim:1  float32 [10, 4]          20  160 B     -\n"
                          "gate (sigmoid)  cpu:0,sim:1  float32 [10, 4]           0    0 B     -\n"
                          "gelu (gelu)     cpu:0,sim:1  float32 [10, 4]           0  320 B     -\n"
                          "loss (mse)      cpu:0,sim:1  float32 []                0   20 B     -\n"
                          "---------------------------------------------------------------------\n"
                          "parameters: 20; with all states 80 B\n"
                          "a run that trains makes 500 B forward, transfers 248 B\n");
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* If every device updates its own copies none is refreshed, and the usual traffic is the plan's. */
static void what_no_run_moves_is_not_counted(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, "sim:0");
  const tdm_value loss = tdm_mse(graph, "loss", tdm_linear(graph, "fc", x, 4), x);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1");
  tdm_data_parallel(graph, "", &options);
  tdm_session *session = train_session(
      graph, loss, tdm_adam(0.1), WITH(tdm_session_options, o.collective = TDM_COLLECTIVE_TREE));
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 10, 4));
  const tdm_feed feed = {"x", fed, false};
  assert_ok(tdm_session_prepare(session, &feed, 1, NULL, 0, true));
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.refresh_bytes, 0);
  char wanted[64];
  (void)snprintf(wanted, sizeof wanted, ", transfers %llu B\n",
                 (unsigned long long)(traffic.edge_bytes + traffic.boundary_bytes));
  char *text = summary_of(session);
  if (!strstr(text, wanted)) fail_msg("\"%s\" is not in\n%s", wanted, text);
  free(text);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* Names that have no room are not cut to those of other devices. */
static void of_many_devices_the_first_are_named(void **unused) {
  (void)unused;
  tdm_context *many = graph_context_of(1, 12);
  tdm_graph *graph = tdm_graph_create(many);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_output(graph, "y", tdm_linear(graph, "fc", x, 4));
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "sim:*");
  tdm_data_parallel(graph, "fc", &options);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor_release(run_on_uniform(session, 24, 4));
  char *text = summary_of(session);
  if (!strstr(text, " sim:0,sim:1,sim:2,sim:3,sim:4,sim:5,sim:6,sim:7,sim:8,sim:9,... "))
    fail_msg("%s", text);
  free(text);
  tdm_session_release(session);
  tdm_context_release(many);
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* Replaces the digits and points before " us" by one #. */
static void mask_times(char *text) {
  char *to = text;
  for (const char *at = text; *at;) {
    const size_t digits = strspn(at, "0123456789.");
    if (digits > 0 && strncmp(at + digits, " us", 3) == 0) {
      *to++ = '#';
      at += digits;
      continue;
    }
    for (size_t i = 0; i <= digits && at[0]; i++)
      *to++ = *at++;
  }
  *to = 0;
}

static void times_are_told_once_runs_were_measured(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = build(&loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.profile = true);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
  tdm_tensor *ids = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 5));
  const tdm_feed feeds[] = {{"ids", ids, false}, {"classes", ids, false}};
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
  tdm_tensor_release(ids);
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_ok(tdm_session_print_summary(session, out));
  assert_int_equal(fclose(out), 0);
  mask_times(text);
  static const char *const lines[] = {"embedding (embedding)", "block/0 (linear)", "block/1 (tanh)",
                                      "head (", "loss (cross_entropy)"};
  for (size_t i = 0; i < TDM_COUNT_OF(lines); i++) {
    const char *line = strstr(text, lines[i]);
    assert_non_null(line);
    assert_non_null(memmem(line, strcspn(line, "\n"), "# us", 4));
  }
  assert_non_null(
      strstr(text, "; # us on all queues, transfers # us and other work # us of them\n"));
  free(text);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_tell_devices_shapes_parameters_and_bytes),
      cmocka_unit_test(sizes_behind_a_flatten_are_those_of_the_run),
      cmocka_unit_test(wrapped_rows_are_added_up),
      cmocka_unit_test(what_no_run_moves_is_not_counted),
      cmocka_unit_test(of_many_devices_the_first_are_named),
      cmocka_unit_test(times_are_told_once_runs_were_measured),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
