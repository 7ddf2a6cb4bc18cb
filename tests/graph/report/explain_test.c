/* What a plan's text says of its commands is what the JSON says: predictions in another unit, to
 * which sums they belong, and where the results of those that have a place in an arena lie. */
#include <jansson.h>
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/graph/support.h"

static tdm_context *context; /* of the group: a link of 4 ms */
static tdm_session *session;

static int begin_group(void **unused) {
  (void)unused;
  const tdm_context_options options = {.struct_size = sizeof options,
                                       .cpu_devices = 1,
                                       .sim_devices = 1,
                                       .sim = "latency_us=4000,gigabytes_per_second=1"};
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

/* How often part is in text. */
static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
    count++;
  return count;
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

/* Each device's is its own, of which others say nothing; in the text each has a line. */
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
  assert_int_equal(count_of(text, "activations of "), 2); /* of each device */
  free(text);
}

static void sums_are_told_by_their_algorithm(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *at_home = train_session(graph, loss, tdm_adam(0.1),
                                       &(tdm_session_options){.collective = TDM_COLLECTIVE_HOME});
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_are_those_of_the_links),
      cmocka_unit_test(memory_is_that_of_each_device),
      cmocka_unit_test(sums_are_told_by_their_algorithm),
      cmocka_unit_test(places_in_arenas_are_told),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
