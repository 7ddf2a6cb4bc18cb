/* Training with any staging memory: on machines that hwloc describes and that are not present, and
 * where the system allocates it on another node than requested. That is logged once, counted, and
 * reported as pageable. Only strict sessions refuse it. */
#include "tests/graph/support.h"

#include <dirent.h>
#include <stdlib.h>

#include "devices/topology/topology.h"
#include "tests/graph/plan/staging_counters.h"
#include "tests/options.h"

#define MACHINES "tests/devices/machines"

/* ---- A system that misplaces ----------------------------------------------------------------- */

int __real_tdm_topology_memory_node(const tdm_topology *topology, const void *memory, size_t bytes);
int __wrap_tdm_topology_memory_node(const tdm_topology *topology, const void *memory, size_t bytes);

static bool misplaces;

int __wrap_tdm_topology_memory_node(const tdm_topology *topology, const void *memory,
                                    size_t bytes) {
  const int node = __real_tdm_topology_memory_node(topology, memory, bytes);
  return misplaces ? (node < 0 ? 0 : node) + 7 : node;
}

/* ---- Contexts that record log messages ------------------------------------------------------- */

typedef struct told_warnings {
  int count;
  char text[TDM_MESSAGE_BYTES];
} told_warnings;

static void keep_warning(void *user, tdm_log_level level, const char *text) {
  told_warnings *told = user;
  if (level != TDM_LOG_WARNING) return;
  told->count++;
  (void)snprintf(told->text, sizeof told->text, "%s", text);
}

static tdm_context *logged_context(told_warnings *told, int cpu_devices) {
  *told = (told_warnings){0};
  const tdm_context_options options = OPTIONS(
      tdm_context_options, o.log = keep_warning, o.log_user = told, o.cpu_devices = cpu_devices,
      o.sim_devices = 1, o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static tdm_session *make_session(tdm_context *context, bool strict) {
  tdm_value loss;
  tdm_graph *graph = zigzag_graph(context, "cpu:0", "sim:0", &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.strict = strict);
  return train_session(graph, loss, tdm_sgd(0.1), &options);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void misplaced_memory_is_pageable_and_told_once(void **state) {
  (void)state;
  told_warnings told;
  misplaces = true;
  tdm_context *context = logged_context(&told, 1);
  if (!staging_node_is_known(context)) skip(); /* a machine without known nodes */
  tdm_session *session = make_session(context, false);
  train_steps(session, 5, 2);
  train_steps(session, 9, 2);
  assert_int_equal(staging_counters_of(context).refused_binds, 0);
  assert_true(staging_counters_of(context).misplaced > 0);
  assert_int_equal(told.count, 1);
  assert_non_null(strstr(told.text, "is pageable: it was granted on NUMA node"));
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  assert_non_null(strstr(text, "pageable"));
  assert_null(strstr(text, "pinned"));
  free(text);
  text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  assert_null(strstr(text, "\"pageable\": false"));
  free(text);
  tdm_session_release(session);
  tdm_context_release(context);
  misplaces = false;
}

static void strict_sessions_refuse_misplaced_memory(void **state) {
  (void)state;
  told_warnings told;
  misplaces = true;
  tdm_context *context = logged_context(&told, 1);
  if (!staging_node_is_known(context)) skip();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 4));
  tdm_place(graph, "cpu:0");
  const tdm_value y = tdm_tanh(graph, "y", x);
  tdm_place(graph, "sim:0");
  tdm_output(graph, "z", tdm_relu(graph, "z", y));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.strict = true);
  tdm_session *session = run_session(graph, &options);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 3, 4));
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {"z", NULL};
  assert_status(tdm_run(session, &feed, 1, &fetch, 1), TDM_UNAVAILABLE);
  assert_message("not pinned");
  assert_null(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_context_release(context);
  misplaces = false;
}

/* The loss of some steps does not depend on the machine. On a described machine hwloc binds
 * nothing, which is logged. */
static void train_on(const char *machine, double *expected) {
  char path[sizeof MACHINES + 300];
  (void)snprintf(path, sizeof path, MACHINES "/%s", machine);
  (void)setenv("HWLOC_XMLFILE", path, 1);
  for (int here = 0; here < 2; here++) {
    (void)setenv("HWLOC_THISSYSTEM", here ? "1" : "0", 1);
    told_warnings told;
    tdm_context *context = logged_context(&told, TDM_FROM_ENVIRONMENT);
    tdm_session *session = make_session(context, false);
    const double loss = train_steps(session, 6, 3);
    if (*expected == 0) *expected = loss;
    if (loss != *expected) fail_msg("%s: a loss of %g, not %g", machine, loss, *expected);
    if (!here) {
      assert_true(staging_counters_of(context).refused_binds > 0);
      assert_int_equal(told.count, 1);
      assert_non_null(strstr(told.text, "not bound to NUMA node"));
    }
    tdm_session_release(session);
    tdm_context_release(context);
  }
}

static void a_model_trains_on_every_machine(void **state) {
  (void)state;
  DIR *folder = opendir(MACHINES);
  assert_non_null(folder);
  int machines = 0;
  double expected = 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    if (!strstr(entry->d_name, ".xml")) continue;
    train_on(entry->d_name, &expected);
    machines++;
  }
  closedir(folder);
  assert_true(machines >= 7);
  (void)unsetenv("HWLOC_XMLFILE");
  (void)unsetenv("HWLOC_THISSYSTEM");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misplaced_memory_is_pageable_and_told_once),
      cmocka_unit_test(strict_sessions_refuse_misplaced_memory),
      cmocka_unit_test(a_model_trains_on_every_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
