/* Sums over devices at home and in chains: the same bits, other ways; what moves over which link;
 * what is chosen by the links, and what is told. */
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/graph/support.h"

enum { WIDTH = 256, LAYERS = 3, ROWS = 8, STEPS = 3 }; /* a weight has 256 KiB */

/* Two cpu and four sim devices: 0.5 GB/s to the host, 1 GB/s between peers, so that a weight goes
 * in two pieces. */
static tdm_context *linked_context(void) {
  const tdm_context_options options = {
      .struct_size = sizeof options,
      .cpu_devices = 2,
      .sim_devices = 4,
      .sim = "latency_us=1,gigabytes_per_second=0.5,peer_gigabytes_per_second=1"};
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static tdm_context *context; /* of the group */

static int begin_group(void **unused) {
  (void)unused;
  context = linked_context();
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* ---- A model, wrapped over devices ----------------------------------------------------------- */

typedef struct variant {
  const char *devices;
  const char *home; /* of the parameters; NULL: the first of devices */
  int micro_batches;
  int depth;
  double clip_norm;
  bool deterministic;
} variant;

static tdm_graph *build(const variant *of, bool wrapped, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  if (!wrapped) tdm_place(graph, of->home);
  tdm_scope_push(graph, "model");
  tdm_value y = x;
  for (int i = 0; i < LAYERS; i++) {
    char name[8];
    (void)snprintf(name, sizeof name, "l%d", i);
    y = tdm_tanh(graph, "tanh", tdm_linear(graph, name, y, WIDTH));
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options options = {.struct_size = sizeof options, .devices = of->devices};
  if (wrapped) tdm_data_parallel(graph, "model", &options);
  tdm_output(graph, "y", y);
  *out_loss = tdm_mse(graph, "loss", y, x);
  return graph;
}

/* A session whose store has its parameters at home. */
static tdm_store *store_at_home(const variant *of) {
  tdm_value loss;
  tdm_graph *graph = build(of, false, &loss);
  tdm_session *session = run_session(graph, &(tdm_session_options){.seed = 7});
  tdm_store *store = tdm_store_retain(tdm_session_store(session));
  tdm_session_release(session);
  return store;
}

static tdm_session *make_session(const variant *of, tdm_collective collective) {
  tdm_value loss;
  tdm_optimizer optimizer = tdm_adam(0.01);
  optimizer.clip_norm = of->clip_norm;
  tdm_store *store = of->home ? store_at_home(of) : NULL;
  tdm_graph *graph = build(of, true, &loss);
  tdm_session *session = train_session(graph, loss, optimizer,
                                       &(tdm_session_options){.store = store,
                                                              .seed = 7,
                                                              .micro_batches = of->micro_batches,
                                                              .depth = of->depth,
                                                              .deterministic = of->deterministic,
                                                              .collective = collective});
  tdm_store_release(store);
  return session;
}

static void train(tdm_session *session, int steps) {
  for (int i = 0; i < steps; i++) {
    tdm_tensor *x = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH),
                                       (uint64_t)i + 1, -1, 1);
    const tdm_feed feed = {.name = "x", .tensor = x};
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
    tdm_tensor_release(x);
  }
}

static size_t count_of(const tdm_session *session, tdm_collective collective) {
  size_t count = 0;
  TDM_EACH_NODE(&session->newest->graph, node) {
    count += node->collective == collective;
  }
  return count;
}

/* Bytes that a step copies to device, or from it. */
static uint64_t bytes_at(const tdm_session *session, const char *device, bool in) {
  const tdm_graph *graph = &session->newest->graph;
  uint64_t bytes = 0;
  TDM_EACH_NODE(graph, node) {
    if (node->operation) continue;
    const int16_t from = tdm_ir_value_at(graph, node->inputs[0])->device;
    if (from == node->device) continue;
    const int16_t end = in ? node->device : from;
    if (strcmp(tdm_context_device(context, (size_t)end)->name, device) == 0)
      bytes += tdm_ir_value_at(graph, node->first_output)->bytes;
  }
  return bytes;
}

/* ---- Bits ------------------------------------------------------------------------------------ */

static void every_way_gives_the_same_bits(void **unused) {
  (void)unused;
  static const variant variants[] = {
      {.devices = "sim:0,sim:1,sim:2,sim:3"},
      {.devices = "sim:0,sim:1,sim:2"},
      {.devices = "sim:2,sim:0,sim:3,sim:1", .clip_norm = 0.5},
      {.devices = "sim:0,sim:0,sim:1,sim:2,sim:2"}, /* replicas that share a device */
      {.devices = "sim:0,sim:1,sim:0,sim:1"},
      {.devices = "sim:0,sim:1,sim:2,sim:3", .home = "cpu:0"},
      {.devices = "sim:0,sim:1,sim:2,sim:3", .home = "sim:3"}, /* the last of them */
      {.devices = "sim:0,sim:1,sim:2,sim:3", .micro_batches = 2},
      {.devices = "sim:0,sim:1,sim:2,sim:3", .depth = 3, .deterministic = true},
      {.devices = "cpu:0,cpu:1,cpu:0,cpu:1"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(variants); i++) {
    tdm_tensor_list *wanted = NULL;
    for (int c = TDM_COLLECTIVE_COUNT - 1; c >= 0; c--) {
      tdm_session *session = make_session(&variants[i], (tdm_collective)c);
      train(session, STEPS);
      if (c == TDM_COLLECTIVE_CHAIN && count_of(session, TDM_COLLECTIVE_CHAIN) == 0)
        fail_msg("%s: nothing is summed in a chain", variants[i].devices);
      if (c == TDM_COLLECTIVE_HOME) assert_int_equal(count_of(session, TDM_COLLECTIVE_CHAIN), 0);
      tdm_tensor_list *state = state_of(session);
      if (wanted) assert_same_state(state, wanted);
      if (wanted) tdm_tensor_list_release(state);
      if (!wanted) wanted = state;
      tdm_session_release(session);
    }
    tdm_tensor_list_release(wanted);
  }
}

/* ---- What moves ------------------------------------------------------------------------------ */

/* Of parameters of n bytes in all, the home receives 3 n at home and n of a chain, and sends 3 n
 * and 2 n (a gradient and a copy). */
static void a_chain_brings_the_home_one_total(void **unused) {
  (void)unused;
  const variant of = {.devices = "sim:0,sim:1,sim:2,sim:3"};
  tdm_session *home = make_session(&of, TDM_COLLECTIVE_HOME);
  tdm_session *chosen = make_session(&of, TDM_COLLECTIVE_AUTO);
  train(home, 1);
  train(chosen, 1);
  const uint64_t parameters = (uint64_t)LAYERS * (WIDTH + 1) * WIDTH * sizeof(float);
  assert_int_equal(count_of(home, TDM_COLLECTIVE_CHAIN), 0);
  assert_int_equal(count_of(chosen, TDM_COLLECTIVE_HOME), 0);
  assert_int_equal(count_of(chosen, TDM_COLLECTIVE_CHAIN), LAYERS * 3 * (2 + 1)); /* pieces */
  assert_int_equal(bytes_at(home, "sim:0", true) - bytes_at(chosen, "sim:0", true), 2 * parameters);
  assert_int_equal(bytes_at(home, "sim:0", false) - bytes_at(chosen, "sim:0", false), parameters);
  tdm_session_release(home);
  tdm_session_release(chosen);
}

/* Nothing is gained where copies take no time, or where sums read in place. */
static void free_links_leave_sums_at_home(void **unused) {
  (void)unused;
  tdm_context *linked = context;
  context = graph_context_of(3, 3);
  static const char *const devices[] = {"sim:0,sim:1,sim:2", "cpu:0,cpu:1,cpu:2"};
  for (size_t i = 0; i < TDM_COUNT_OF(devices); i++) {
    const variant of = {.devices = devices[i]};
    tdm_session *session = make_session(&of, TDM_COLLECTIVE_AUTO);
    train(session, 1);
    assert_int_equal(count_of(session, TDM_COLLECTIVE_CHAIN), 0);
    tdm_session_release(session);
  }
  tdm_context_release(context);
  context = linked;
}

static void plans_tell_the_way(void **unused) {
  (void)unused;
  const variant of = {.devices = "sim:0,sim:1,sim:2,sim:3"};
  tdm_session *session = make_session(&of, TDM_COLLECTIVE_AUTO);
  train(session, 1);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  if (!strstr(text, "of a sum over devices, in a chain")) fail_msg("%s", text);
  free(text);
  text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  if (!strstr(text, "in a chain")) fail_msg("%s", text);
  free(text);
  tdm_session_release(session);
}

static void unknown_ways_are_refused(void **unused) {
  (void)unused;
  const variant of = {.devices = "sim:0,sim:1"};
  tdm_value loss;
  tdm_graph *graph = build(&of, true, &loss);
  const tdm_session_options options = {.struct_size = sizeof options,
                                       .collective = TDM_COLLECTIVE_COUNT};
  assert_null(tdm_session_create(graph, &options));
  assert_message("session options: collective is 3, not 0 to 2");
  tdm_graph_release(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_gives_the_same_bits),
      cmocka_unit_test(a_chain_brings_the_home_one_total),
      cmocka_unit_test(free_links_leave_sums_at_home),
      cmocka_unit_test(plans_tell_the_way),
      cmocka_unit_test(unknown_ways_are_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
