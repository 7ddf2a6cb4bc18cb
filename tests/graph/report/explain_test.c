/* A plan's text and its JSON agree: predictions in another unit, the sums of commands, and the
 * positions of results that have a place in an arena. */
#include <jansson.h>
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/options.h"

static tdm_context *context; /* context of the test group; its link has a latency of 4 ms */
static tdm_session *session;

static int begin_group(void **unused) {
  (void)unused;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1,
              o.sim = "latency_us=4000,gigabytes_per_second=1");
  context = tdm_context_create(&options);
  assert_non_null(context);
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  session = train_session(graph, loss, tdm_adam(0.1), NULL);
  (void)train_steps(session, 6, 1);
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_session_release(session);
  tdm_context_release(context);
  return 0;
}

/* Returns the number of occurrences of part in text. */
static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
    count++;
  return count;
}

static tdm_status print_trace(tdm_session *of, const char *what, tdm_plan_format format,
                              FILE *out) {
  (void)what;
  return tdm_session_trace(of, format == TDM_PLAN_JSON ? TDM_TRACE_CHROME : TDM_TRACE_SUMMARY, out);
}

static void predictions_are_those_of_the_links(void **unused) {
  (void)unused;
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  char *told = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(told, 0, NULL);
  assert_non_null(plan);
  size_t index, transfers = 0;
  json_t *command;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    const json_t *predicted =
        json_object_get(command, "route") ? json_object_get(command, "predicted_ns") : NULL;
    if (!predicted) continue;
    char part[64];
    (void)snprintf(part, sizeof part, ", predicted %.1f us (modelled)",
                   json_number_value(predicted) / 1000);
    if (!strstr(text, part)) fail_msg("\"%s\" is not in\n%s", part, text);
    transfers++;
  }
  assert_true(transfers > 4);
  assert_int_equal(count_of(text, ", predicted "), transfers);
  json_decref(plan);
  free(told);
  free(text);
}

static void expect_bytes(json_t *told, const char *name, uint64_t bytes) {
  assert_int_equal(json_integer_value(json_object_get(told, name)), bytes);
}

/* Each device reports only its own memory, and has a line in the text. */
static void memory_is_that_of_each_device(void **unused) {
  (void)unused;
  char *text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  uint64_t parameters_bytes = 0;
  size_t index;
  json_t *told;
  json_array_foreach(json_object_get(plan, "memory"), index, told) {
    tdm_memory_use use;
    assert_ok(
        tdm_session_memory(session, json_string_value(json_object_get(told, "device")), &use));
    expect_bytes(told, "parameters_bytes", use.parameters_bytes);
    expect_bytes(told, "copies_bytes", use.copies_bytes);
    expect_bytes(told, "activations_bytes", use.activations_bytes);
    expect_bytes(told, "outputs_bytes", use.outputs_bytes);
    parameters_bytes += use.parameters_bytes;
  }
  assert_int_equal(index, 2);
  assert_true(parameters_bytes > 0);
  json_decref(plan);
  free(text);
  text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  assert_int_equal(count_of(text, "\n  cpu:0     activations of "), 1);
  assert_int_equal(count_of(text, "\n  sim:0     activations of "), 1);
  free(text);
}

static void places_in_arenas_are_told(void **unused) {
  (void)unused;
  const tdm_plan *plan = session->newest;
  const tdm_schedule *schedule = &plan->lowered.schedule;
  size_t in_arenas = 0, elsewhere = 0;
  for (size_t s = 0; s < schedule->step_count; s++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[s].node);
    const uint32_t storage = plan->lowered.storage_of[node->first_output];
    if (storage == UINT32_MAX) continue;
    in_arenas += schedule->storages[storage].kind == TDM_STORAGE_ARENA;
    elsewhere += schedule->storages[storage].kind != TDM_STORAGE_ARENA;
  }
  assert_true(in_arenas > elsewhere && elsewhere > 0);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  assert_int_equal(count_of(text, ", at "), in_arenas);
  assert_int_equal(count_of(text, "activations of "), 2); /* one line per device */
  free(text);
}

static void sums_are_told_by_their_algorithm(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *at_home = train_session(
      graph, loss, tdm_adam(0.1), WITH(tdm_session_options, o.collective = TDM_COLLECTIVE_HOME));
  (void)train_steps(at_home, 6, 1);
  char *text = printed(at_home, print_explain, NULL, TDM_PLAN_TEXT);
  char *told = printed(at_home, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(told, 0, NULL);
  assert_non_null(plan);
  size_t index, sums = 0;
  json_t *command;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    const char *algorithm = json_string_value(json_object_get(command, "sum"));
    if (!algorithm) continue;
    assert_string_equal(algorithm, "home");
    sums++;
  }
  assert_true(sums > 0);
  assert_int_equal(count_of(text, ", of a sum over devices, home"), sums);
  json_decref(plan);
  free(told);
  free(text);
  tdm_session_release(at_home);
}

/* ---- The route ------------------------------------------------------------------------------- */

static json_t *explained(tdm_session *of) {
  char *text = printed(of, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  free(text);
  return plan;
}

/* Copies between two accelerators of a kind, and within one, do not pass through host memory. */
static void copies_between_accelerators_pass_no_host_memory(void **unused) {
  (void)unused;
  tdm_context *two = graph_context();
  tdm_value loss;
  tdm_graph *graph = zigzag_graph(two, "sim:0", "sim:1", &loss);
  tdm_session *of =
      train_session(graph, loss, tdm_sgd(0.1), WITH(tdm_session_options, o.trace_runs = 1));
  (void)train_steps(of, 6, 1);
  char *text = printed(of, print_explain, NULL, TDM_PLAN_TEXT);
  assert_true(count_of(text, ", peer, memory of devices, ") > 2);
  assert_int_equal(count_of(text, "host memory"), 0);
  free(text);
  json_t *plan = explained(of);
  size_t index;
  json_t *command;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    const char *route = json_string_value(json_object_get(command, "route"));
    if (!route || strcmp(route, "peer") != 0) continue;
    assert_string_equal(json_string_value(json_object_get(command, "memory")), "memory of devices");
  }
  json_decref(plan);
  text = printed(of, print_trace, NULL, TDM_PLAN_JSON);
  assert_true(count_of(text, "\"route\":\"peer\",\"memory\":\"memory of devices\"") > 2);
  free(text);
  tdm_session_release(of);
  tdm_context_release(two);
}

/* The usual traffic of a run after a similar one is the plan's traffic. Copies that devices update
 * themselves are not refreshed. */
static void what_usually_moves_is_the_traffic(void **unused) {
  (void)unused;
  tdm_context *two = graph_context();
  tdm_graph *graph = tdm_graph_create(two);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, "sim:0");
  const tdm_value loss = tdm_mse(graph, "loss", tdm_linear(graph, "fc", x, 4), x);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1");
  tdm_data_parallel(graph, "", &wrapped);
  tdm_session *of = train_session(graph, loss, tdm_adam(0.1),
                                  WITH(tdm_session_options, o.collective = TDM_COLLECTIVE_TREE));
  tdm_tensor *fed = tdm_tensor_zeros(two, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 10, 4));
  const tdm_feed feed = {"x", fed, false};
  assert_ok(tdm_session_prepare(of, &feed, 1, NULL, 0, true));
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(of, &traffic));
  uint64_t usual_bytes = 0, unusual_bytes = 0;
  json_t *plan = explained(of), *command;
  size_t index;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    const char *route = json_string_value(json_object_get(command, "route"));
    if (!route || strcmp(route, "same device") == 0) continue;
    assert_false(json_is_true(json_object_get(command, "usual")));
    *(json_object_get(command, "usual") ? &unusual_bytes : &usual_bytes) +=
        (uint64_t)json_integer_value(json_object_get(command, "bytes"));
  }
  assert_true(unusual_bytes > 0);
  assert_int_equal(usual_bytes,
                   traffic.edge_bytes + traffic.boundary_bytes + traffic.refresh_bytes);
  json_decref(plan);
  tdm_tensor_release(fed);
  tdm_session_release(of);
  tdm_context_release(two);
}

/* The steps of the same run that a command waits for are listed before it. The text and the JSON
 * mark those of the previous run. */
static void waits_for_the_run_before_are_told_apart(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *of =
      train_session(graph, loss, tdm_adam(0.1), WITH(tdm_session_options, o.depth = 3));
  (void)train_steps(of, 6, 1);
  char *text = printed(of, print_explain, NULL, TDM_PLAN_TEXT);
  json_t *plan = explained(of);
  size_t index, k, own = 0, before = 0;
  json_t *command, *wait;
  json_array_foreach(json_object_get(plan, "commands"), index, command) {
    json_array_foreach(json_object_get(command, "waits"), k, wait) {
      assert_true(json_integer_value(wait) < (json_int_t)index);
      own++;
    }
    before += json_array_size(json_object_get(command, "waits_of_the_run_before"));
  }
  assert_true(own > 0 && before > 0);
  assert_int_equal(count_of(text, " of the run before"), before);
  json_decref(plan);
  free(text);
  tdm_session_release(of);
}

/* A gradient is called one on all of its way, here from sim:0 by cpu:0 to a described device. */
static void gradients_are_gradients_on_all_of_their_way(void **unused) {
  (void)unused;
  char path[] = "/tmp/explain_test_XXXXXX";
  FILE *file = fdopen(mkstemp(path), "w");
  assert_non_null(file);
  fputs("{\"title\": \"one\", \"sources\": [\"this test\"], \"device\": {\"model\": \"toy\", "
        "\"flops_per_second\": {\"float32\": 2e9}, \"memory_bytes_per_second\": 1e9}, "
        "\"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 10e9}}",
        file);
  (void)fclose(file);
  tdm_context *described = tdm_context_create(
      WITH(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1, o.machine = path));
  (void)remove(path);
  assert_non_null(described);
  tdm_value loss;
  tdm_graph *graph = zigzag_graph(described, "paper:0", "sim:0", &loss);
  tdm_session *of = train_session(graph, loss, tdm_sgd(0.1), NULL);
  test_batch batch;
  test_batch_make(&batch, described, 6, 1);
  assert_ok(tdm_session_prepare(of, batch.feeds, 2, NULL, 0, true));
  char *text = printed(of, print_explain, NULL, TDM_PLAN_TEXT);
  const size_t first = count_of(text, "sim:0 to cpu:0"), second = count_of(text, "staged, ");
  size_t gradients[2] = {0, 0};
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    if (!strstr(line, "gradient of ")) continue;
    gradients[0] += !strstr(line, "staged, ");
    gradients[1] += strstr(line, "staged, ") != NULL;
  }
  assert_true(first > 0 && second > 0 && gradients[0] > 0);
  assert_int_equal(gradients[1], gradients[0]);
  free(text);
  test_batch_release(&batch);
  tdm_session_release(of);
  tdm_context_release(described);
}

/* Adds a linear layer on device, below three scopes, all of that name. */
static tdm_value far_below(tdm_graph *graph, const char *device, const char *name, tdm_value x) {
  for (int i = 0; i < 3; i++)
    tdm_scope_push(graph, name);
  tdm_place(graph, device);
  x = tdm_linear(graph, name, x, 4);
  for (int i = 0; i < 3; i++)
    tdm_scope_pop(graph);
  return x;
}

/* However long paths are, a cause has all of both. */
static void long_paths_are_told_whole(void **unused) {
  (void)unused;
  enum { LONG = 200 };
  char names[2][LONG + 1] = {"", ""}, paths[2][4 * (LONG + 1)], wanted[2 * sizeof paths[0] + 8];
  for (int i = 0; i < 2; i++) {
    memset(names[i], 'a' + i, LONG);
    (void)snprintf(paths[i], sizeof paths[i], "%s/%s/%s/%s", names[i], names[i], names[i],
                   names[i]);
  }
  (void)snprintf(wanted, sizeof wanted, "%s -> %s", paths[0], paths[1]);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  x = far_below(graph, "sim:0", names[0], x);
  tdm_output(graph, "y", far_below(graph, "cpu:0", names[1], x));
  tdm_session *of = run_session(graph, WITH(tdm_session_options, o.trace_runs = 1));
  tdm_tensor_release(run_on_uniform(of, 3, 4));
  for (int format = TDM_PLAN_TEXT; format <= TDM_PLAN_JSON; format++) {
    char *text = printed(of, print_explain, NULL, (tdm_plan_format)format);
    assert_int_equal(count_of(text, wanted), 1);
    free(text);
  }
  char *text = printed(of, print_trace, NULL, TDM_PLAN_JSON);
  assert_int_equal(count_of(text, wanted), 1);
  free(text);
  tdm_session_release(of);
}

/* ---- In a job -------------------------------------------------------------------------------- */

static uint64_t told(const json_t *object, const char *name) {
  return (uint64_t)json_integer_value(json_object_get(object, name));
}

/* x (5, 4) -> "fc0" to 3 on rank 0 -> "fc1" to 2 on rank 1; both are delivered. The bytes that this
 * rank's plan touches outside of arenas, sends and receives go to number, loss and hash. */
static tdm_status explain_rank(job_rank *rank) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_shape shape = tdm_shape_of(2, 5, 4);
  tdm_place(graph, "host:0/cpu:0");
  const tdm_value x = tdm_linear(graph, "fc0", tdm_input(graph, "x", TDM_FLOAT32, shape), 3);
  tdm_place(graph, "host:1/cpu:0");
  tdm_output(graph, "y", tdm_linear(graph, "fc1", x, 2));
  tdm_session *of = job_session(graph, (tdm_value){0}, NULL);
  if (!of) return TDM_INTERNAL;
  const tdm_feed feed = {"x", tdm_tensor_zeros(rank->context, "cpu:0", TDM_FLOAT32, shape), false};
  const tdm_fetch fetch = {"y", NULL};
  const tdm_status status = tdm_session_prepare(of, &feed, 1, &fetch, 1, false);
  if (status == TDM_OK) {
    char *text = printed(of, print_explain, NULL, TDM_PLAN_JSON);
    json_t *plan = json_loads(text, 0, NULL);
    const json_t *network = json_object_get(plan, "network");
    rank->number = told(plan, "touched_bytes");
    for (uint32_t i = 0; i < of->newest->lowered.schedule.arena_count; i++)
      rank->number -= of->newest->lowered.schedule.arena_bytes[i];
    rank->loss = (double)told(network, "sent_bytes");
    rank->hash = told(network, "received_bytes");
    json_decref(plan);
    free(text);
  }
  tdm_tensor_release(feed.tensor);
  tdm_session_release(of);
  return status;
}

/* Checks that a rank's plan accesses the data of its own nodes: on rank 0 the inputs and "fc0", on
 * rank 1 "fc1". */
static void ranks_tell_what_is_their_own(void **unused) {
  (void)unused;
  enum { THERE = 5 * 3 * 4, BACK = 5 * 2 * 4, FED = 5 * 4 * 4 };
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2}, explain_rank, ranks);
  assert_true(ranks[0].loss == THERE && ranks[1].loss == BACK);
  assert_int_equal(ranks[0].hash, BACK);
  assert_int_equal(ranks[1].hash, THERE);
  assert_int_equal(ranks[0].number, FED + (4 + 1) * 3 * 4);
  assert_int_equal(ranks[1].number, (3 + 1) * 2 * 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_are_those_of_the_links),
      cmocka_unit_test(memory_is_that_of_each_device),
      cmocka_unit_test(sums_are_told_by_their_algorithm),
      cmocka_unit_test(places_in_arenas_are_told),
      cmocka_unit_test(copies_between_accelerators_pass_no_host_memory),
      cmocka_unit_test(what_usually_moves_is_the_traffic),
      cmocka_unit_test(waits_for_the_run_before_are_told_apart),
      cmocka_unit_test(gradients_are_gradients_on_all_of_their_way),
      cmocka_unit_test(long_paths_are_told_whole),
      cmocka_unit_test(ranks_tell_what_is_their_own),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
