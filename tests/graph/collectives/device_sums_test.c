/* Sums over devices at home, in chains, rings and trees: equal bits, bytes on each link, the
 * algorithm that the links select, and reports. For accelerators of TEST_KIND; only simulated ones
 * have links of a speed. */
#include <stdlib.h>

#include <jansson.h>

#include "graph/run/session.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { WIDTH = 256, LAYERS = 3, ROWS = 8, STEPS = 3 }; /* a weight has 256 KiB */

#define A(index) TEST_KIND ":" #index
#define ALL A(0) "," A(1) "," A(2) "," A(3)

static bool has_link_speeds(void) {
  return strcmp(TEST_KIND, "sim") == 0;
}

/* Creates a context with two cpu devices and four accelerators: simulated ones with 0.5 GB/s to the
 * host, 1 GB/s between peers, so that a weight goes in two pieces. */
static tdm_context *linked_context(void) {
  if (!has_link_speeds()) return graph_context_of(2, 4); /* GPUs: as many parts as main requests */
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 4,
              o.sim = "latency_us=1,gigabytes_per_second=0.5,peer_gigabytes_per_second=1");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static tdm_context *context; /* context of the test group */

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
  const char *home; /* home of the parameters; NULL: the first of devices */
  int micro_batches;
  int depth;
  double clip_norm;
  double clip_value;
  bool deterministic;
  bool maximize;
  bool factored; /* Adafactor instead of Adam */
} variant;

static tdm_graph *build(const variant *of, bool wrapped, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  if (!wrapped) tdm_place(graph, of->home);
  tdm_scope_push(graph, "model");
  tdm_value y = x;
  for (int i = 0; i < LAYERS; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    y = tdm_tanh(graph, "tanh", tdm_linear(graph, name, y, WIDTH));
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = of->devices);
  if (wrapped) tdm_data_parallel(graph, "model", &options);
  tdm_output(graph, "y", y);
  *out_loss = tdm_mse(graph, "loss", y, x);
  return graph;
}

/* A session whose store has its parameters at home. */
static tdm_store *store_at_home(const variant *of) {
  tdm_value loss;
  tdm_graph *graph = build(of, false, &loss);
  tdm_session *session = run_session(graph, WITH(tdm_session_options, o.seed = 7));
  tdm_store *store = tdm_store_retain(tdm_session_store(session));
  tdm_session_release(session);
  return store;
}

static tdm_session *make_session(const variant *of, tdm_collective collective) {
  tdm_value loss;
  tdm_optimizer optimizer = of->factored ? tdm_adafactor(0.01) : tdm_adam(0.01);
  if (of->clip_norm > 0) optimizer.clip_norm = of->clip_norm;
  if (of->clip_value > 0) optimizer.clip_value = of->clip_value;
  optimizer.maximize = of->maximize;
  tdm_store *store = of->home ? store_at_home(of) : NULL;
  tdm_graph *graph = build(of, true, &loss);
  tdm_session *session =
      train_session(graph, loss, optimizer,
                    WITH(tdm_session_options, o.store = store, o.seed = 7,
                         o.micro_batches = OR_ONE(of->micro_batches), o.depth = OR_ONE(of->depth),
                         o.deterministic = of->deterministic, o.collective = collective));
  tdm_store_release(store);
  return session;
}

/* Steps on batches that their numbers decide. */
static void train_from(tdm_session *session, int first, int steps) {
  for (int i = first; i < first + steps; i++) {
    tdm_tensor *x = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH),
                                       (uint64_t)i + 1, -1, 1);
    const tdm_feed feed = {.name = "x", .tensor = x};
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
    tdm_tensor_release(x);
  }
}

static void train(tdm_session *session, int steps) {
  train_from(session, 0, steps);
}

static uint64_t refreshed_by(tdm_session *session) {
  uint64_t transfers = 0;
  uint64_t bytes = 0;
  assert_ok(tdm_session_refreshed(session, &transfers, &bytes));
  return transfers;
}

static size_t count_of(const tdm_session *session, tdm_collective collective) {
  size_t count = 0;
  TDM_EACH_NODE(&session->newest->graph, node)
    count += tdm_ir_collective(node) == collective;
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

static const variant variants[] = {
    {.devices = ALL},
    {.devices = A(0) "," A(1) "," A(2)},
    {.devices = A(2) "," A(0) "," A(3) "," A(1), .clip_norm = 0.5},
    {.devices = A(0) "," A(0) "," A(1) "," A(2) "," A(2)}, /* replicas that share a device */
    {.devices = A(0) "," A(1) "," A(0) "," A(1)},
    {.devices = ALL, .home = "cpu:0"},
    {.devices = ALL, .home = A(3)},                    /* the last of them */
    {.devices = A(0) "," A(1) "," A(2), .home = A(3)}, /* the home has no term */
    {.devices = ALL, .micro_batches = 2},
    {.devices = ALL, .depth = 3},
    {.devices = ALL, .depth = 3, .deterministic = true},
    {.devices = "cpu:0,cpu:1,cpu:0,cpu:1"},
    {.devices = ALL, .maximize = true},
    {.devices = ALL, .clip_value = 1e-3, .maximize = true},
    {.devices = ALL, .clip_value = 1e-3, .micro_batches = 2},
    {.devices = ALL, .clip_norm = 0.5, .maximize = true, .factored = true},
};

/* Emulated GPUs are slow, and so are sanitizers. */
static size_t stride(void) {
  return !has_link_speeds() ? 5 : test_is_sanitized() ? 3 : 1;
}

static bool goes_around(tdm_collective collective) {
  return collective == TDM_COLLECTIVE_RING || collective == TDM_COLLECTIVE_TREE;
}

static tdm_tensor_list *trained_state(const variant *of, tdm_collective collective) {
  tdm_session *session = make_session(of, collective);
  train(session, STEPS);
  if (count_of(session, collective) == 0) fail_msg("%s: not summed by that algorithm", of->devices);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

/* Checks that sums at home and in a chain give the same bits, and that a ring and a tree give the
 * same bits each time. */
static void every_way_repeats_its_bits(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(variants); i += stride()) {
    tdm_tensor_list *at_home = trained_state(&variants[i], TDM_COLLECTIVE_HOME);
    for (int c = TDM_COLLECTIVE_CHAIN; c <= TDM_COLLECTIVE_TREE; c++) {
      if (variants[i].deterministic && goes_around((tdm_collective)c)) continue;
      tdm_tensor_list *state = trained_state(&variants[i], (tdm_collective)c);
      tdm_tensor_list *wanted =
          c == TDM_COLLECTIVE_CHAIN ? at_home : trained_state(&variants[i], (tdm_collective)c);
      assert_same_state(state, wanted);
      if (wanted != at_home) tdm_tensor_list_release(wanted);
      tdm_tensor_list_release(state);
    }
    tdm_tensor_list_release(at_home);
  }
}

/* ---- Many sums at one place --------------------------------------------------------------------
 */

enum { MANY = 40 }; /* more than the buckets of a device */

static tdm_tensor_list *train_many(tdm_collective collective) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_initializer drawn = {.kind = TDM_INIT_UNIFORM, .a = -0.1, .b = 0.1};
  tdm_value rows[MANY];
  tdm_scope_push(graph, "model");
  for (int i = 0; i < MANY; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "row%d", i);
    rows[i] = tdm_parameter(graph, name, TDM_FLOAT32, tdm_shape_of(2, WIDTH, 3), &drawn);
  }
  const tdm_value whole = tdm_concat(graph, "whole", rows, MANY, 1);
  const tdm_value y = tdm_matmul(graph, "product", x, whole);
  tdm_scope_pop(graph);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = A(0) "," A(1));
  tdm_data_parallel(graph, "model", &options);
  tdm_session *session =
      train_session(graph, tdm_mse(graph, "loss", y, tdm_relu(graph, "target", y)), tdm_sgd(0.1),
                    WITH(tdm_session_options, o.seed = 7, o.collective = collective));
  train(session, STEPS);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

/* Two terms have the same sum in every order. */
static void sums_that_stand_together_all_have_their_terms(void **unused) {
  (void)unused;
  tdm_tensor_list *at_home = train_many(TDM_COLLECTIVE_HOME);
  for (int c = TDM_COLLECTIVE_CHAIN; c <= TDM_COLLECTIVE_TREE; c++) {
    tdm_tensor_list *state = train_many((tdm_collective)c);
    assert_same_state(state, at_home);
    tdm_tensor_list_release(state);
  }
  tdm_tensor_list_release(at_home);
}

/* ---- Copies that devices update themselves --------------------------------------------------- */

/* A session that finds in its store what another one has at home: its devices are sent that. */
static tdm_tensor *outputs_of_the_home(const variant *of, tdm_session *trained) {
  tdm_session *fresh = make_session(of, TDM_COLLECTIVE_HOME);
  train(fresh, 1);
  tdm_tensor_list *state = state_of(trained);
  assert_ok(tdm_store_load(tdm_session_store(fresh), state));
  tdm_tensor_list_release(state);
  tdm_tensor *outputs = run_on_uniform(fresh, ROWS, WIDTH);
  tdm_session_release(fresh);
  return outputs;
}

static bool any_updated(const tdm_session *session) {
  const tdm_plan *plan = session->last_asked;
  for (size_t i = 0; i < plan->graph.planned->deriveds.count; i++)
    if (plan->refreshes[i].updated) return true;
  return false;
}

/* After the first step nothing is refreshed, and every device has computed for its copies the same
 * values as the home for the parameters. */
static void every_device_has_the_bits_of_the_home(void **unused) {
  (void)unused;
  for (size_t i = 0; i < TDM_COUNT_OF(variants); i += stride()) {
    if (variants[i].deterministic || variants[i].home) continue;
    for (int c = TDM_COLLECTIVE_RING; c <= TDM_COLLECTIVE_TREE; c++) {
      tdm_session *session = make_session(&variants[i], (tdm_collective)c);
      train(session, STEPS);
      assert_true(any_updated(session));
      assert_int_equal(refreshed_by(session), 0);
      tdm_tensor *wanted = outputs_of_the_home(&variants[i], session);
      tdm_tensor *found = run_on_uniform(session, ROWS, WIDTH);
      assert_same_tensor(found, wanted);
      assert_int_equal(refreshed_by(session), 0);
      tdm_tensor_release(found);
      tdm_tensor_release(wanted);
      tdm_session_release(session);
    }
  }
}

/* A home without terms, or of another kind, only receives the sum, and sends the updated
 * parameter. */
static void only_with_a_home_among_them_do_devices_update(void **unused) {
  (void)unused;
  static const struct {
    variant of;
    uint32_t own_updates;
  } cases[] = {
      {{.devices = A(0) "," A(1) "," A(2), .home = A(2)}, 2 * LAYERS},
      {{.devices = A(0) "," A(1) "," A(2), .home = A(3)}, 0},
      {{.devices = A(0) "," A(1) "," A(2), .home = "cpu:0"}, 0},
      {{.devices = "cpu:0,cpu:1", .home = "cpu:1"}, 2 * LAYERS},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_session *session = make_session(&cases[i].of, TDM_COLLECTIVE_RING);
    train(session, STEPS);
    assert_int_equal(session->newest->sums.sums, 2 * LAYERS);
    assert_int_equal(session->newest->sums.own_updates, cases[i].own_updates);
    assert_int_equal(any_updated(session), cases[i].own_updates > 0);
    assert_int_equal(refreshed_by(session) == 0, cases[i].own_updates > 0);
    tdm_session_release(session);
  }
}

/* Copies are stale after another session has trained the store, or after a load. */
static void copies_that_others_made_old_are_sent_again(void **unused) {
  (void)unused;
  const variant of = {.devices = ALL};
  tdm_session *session = make_session(&of, TDM_COLLECTIVE_RING);
  train(session, STEPS);
  tdm_tensor_list *state = NULL;
  assert_ok(tdm_session_save(session, &state));
  train_from(session, STEPS, 1);
  tdm_tensor_list *wanted = state_of(session);
  assert_ok(tdm_session_load(session, state));
  train_from(session, STEPS, 1);
  assert_true(refreshed_by(session) > 0);
  tdm_tensor_list *found = state_of(session);
  assert_same_state(found, wanted);
  tdm_tensor_list_release(state);
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(found);
  tdm_session_release(session);
}

/* ---- What moves ------------------------------------------------------------------------------ */

/* For parameters of n bytes in all, the home receives 3 n at home and n with a chain, and sends 3 n
 * and 2 n (a gradient and a copy). */
static void a_chain_brings_the_home_one_total(void **unused) {
  (void)unused;
  if (!has_link_speeds()) return;
  const variant of = {.devices = ALL, .deterministic = true};
  tdm_session *home = make_session(&of, TDM_COLLECTIVE_HOME);
  tdm_session *chosen = make_session(&of, TDM_COLLECTIVE_AUTO);
  train(home, 1);
  train(chosen, 1);
  const uint64_t parameters = (uint64_t)LAYERS * (WIDTH + 1) * WIDTH * sizeof(float);
  assert_int_equal(count_of(home, TDM_COLLECTIVE_CHAIN), 0);
  assert_int_equal(count_of(chosen, TDM_COLLECTIVE_HOME), 0);
  assert_int_equal(count_of(chosen, TDM_COLLECTIVE_CHAIN), LAYERS * 3 * (2 + 1)); /* pieces */
  assert_int_equal(bytes_at(home, A(0), true) - bytes_at(chosen, A(0), true), 2 * parameters);
  assert_int_equal(bytes_at(home, A(0), false) - bytes_at(chosen, A(0), false), parameters);
  tdm_session_release(home);
  tdm_session_release(chosen);
}

/* A ring of four brings every device 2 * 3 quarters, and sends as many out, where the home receives
 * three gradients and sends as many copies otherwise. */
static void a_ring_is_chosen_where_order_is_free(void **unused) {
  (void)unused;
  if (!has_link_speeds()) return;
  const variant of = {.devices = ALL};
  tdm_session *home = make_session(&of, TDM_COLLECTIVE_HOME);
  tdm_session *chosen = make_session(&of, TDM_COLLECTIVE_AUTO);
  train(home, 1);
  train(chosen, 1);
  const tdm_collective_choice *choice = &chosen->newest->sums;
  assert_int_equal(choice->algorithm, TDM_COLLECTIVE_RING);
  assert_int_equal(choice->own_updates, 2 * LAYERS);
  assert_true(choice->predicted_ns[TDM_COLLECTIVE_RING] <
              choice->predicted_ns[TDM_COLLECTIVE_CHAIN]);
  assert_int_equal(count_of(chosen, TDM_COLLECTIVE_HOME), 0);
  const uint64_t weights = (uint64_t)LAYERS * WIDTH * WIDTH * sizeof(float);
  const uint64_t biases = weights / WIDTH;
  assert_int_equal(bytes_at(home, A(0), true) - bytes_at(chosen, A(0), true),
                   (weights + biases) * (3 * 4 - 6) / 4);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(home, &traffic));
  assert_int_equal(traffic.refresh_bytes, 3 * (weights + biases));
  assert_ok(tdm_session_traffic(chosen, &traffic));
  assert_int_equal(traffic.refresh_bytes, 0);
  tdm_session_release(home);
  tdm_session_release(chosen);
}

/* Host devices add terms in place in each other's memory. The report names which device reads
 * which. */
static void what_is_read_in_place_is_told(void **unused) {
  (void)unused;
  const variant of = {.devices = "cpu:0,cpu:1"};
  tdm_session *session = make_session(&of, TDM_COLLECTIVE_HOME);
  train(session, 1);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(text, 0, NULL);
  assert_non_null(plan);
  const json_t *commands = json_object_get(plan, "commands");
  int reads = 0;
  for (size_t i = 0; i < json_array_size(commands); i++) {
    const json_t *command = json_array_get(commands, i);
    const char *from = json_string_value(json_object_get(command, "reads_from"));
    assert_int_equal(from != NULL, json_object_get(command, "reads_in_place") != NULL);
    if (!from) continue;
    assert_string_equal(json_string_value(json_object_get(command, "device")), "cpu:0");
    assert_string_equal(from, "cpu:1");
    reads++;
  }
  assert_int_equal(reads, 2 * LAYERS); /* weights and biases */
  json_decref(plan);
  free(text);
  text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  if (!strstr(text, " of cpu:1 in place")) fail_msg("%s", text);
  free(text);
  tdm_session_release(session);
}

/* Nothing is gained where copies take no time, or where sums read in place. */
static void free_links_leave_sums_at_home(void **unused) {
  (void)unused;
  tdm_context *linked = context;
  context = graph_context_of(3, 3);
  static const char *const devices[] = {A(0) "," A(1) "," A(2), "cpu:0,cpu:1,cpu:2"};
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

static void plans_tell_the_algorithm(void **unused) {
  (void)unused;
  const variant of = {.devices = ALL};
  tdm_session *ring = make_session(&of, TDM_COLLECTIVE_RING);
  train(ring, 1);
  char *told = printed(ring, print_explain, NULL, TDM_PLAN_TEXT);
  if (!strstr(told, ", ring: as asked; 6 updated by every device")) fail_msg("%s", told);
  free(told);
  told = printed(ring, print_explain, NULL, TDM_PLAN_JSON);
  if (!strstr(told, "\"updated_by_every_device\": 6")) fail_msg("%s", told);
  free(told);
  tdm_session_release(ring);
  if (!has_link_speeds()) return;
  const variant in_order = {.devices = ALL, .deterministic = true};
  tdm_session *session = make_session(&in_order, TDM_COLLECTIVE_AUTO);
  train(session, 1);
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  if (!strstr(text, ", chain: in the order of replicas, as `deterministic` requires; 0 updated"))
    fail_msg("%s", text);
  if (!strstr(text, "of a sum over devices, chain")) fail_msg("%s", text);
  free(text);
  text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  if (!strstr(text, "chain")) fail_msg("%s", text);
  free(text);
  tdm_session_release(session);
}

static void unknown_algorithms_are_refused(void **unused) {
  (void)unused;
  const variant of = {.devices = A(0) "," A(1)};
  tdm_value loss;
  tdm_graph *graph = build(&of, true, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.collective = TDM_COLLECTIVE_COUNT);
  assert_null(tdm_session_create(graph, &options));
  assert_message("session options: collective is 6, expected 0 to 5");
  assert_null(tdm_collective_name(TDM_COLLECTIVE_COUNT));
  const tdm_session_options both =
      OPTIONS(tdm_session_options, o.collective = TDM_COLLECTIVE_RING, o.deterministic = true);
  assert_null(tdm_session_create(graph, &both));
  assert_message("a ring does not add in the order of replicas, as `deterministic` requires");
  tdm_graph_release(graph);
}

int main(void) {
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "4", true), 0); /* also on a single GPU */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_repeats_its_bits),
      cmocka_unit_test(sums_that_stand_together_all_have_their_terms),
      cmocka_unit_test(every_device_has_the_bits_of_the_home),
      cmocka_unit_test(only_with_a_home_among_them_do_devices_update),
      cmocka_unit_test(copies_that_others_made_old_are_sent_again),
      cmocka_unit_test(a_chain_brings_the_home_one_total),
      cmocka_unit_test(a_ring_is_chosen_where_order_is_free),
      cmocka_unit_test(what_is_read_in_place_is_told),
      cmocka_unit_test(free_links_leave_sums_at_home),
      cmocka_unit_test(plans_tell_the_algorithm),
      cmocka_unit_test(unknown_algorithms_are_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
