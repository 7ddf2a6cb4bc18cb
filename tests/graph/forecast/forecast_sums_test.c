/* Forecasts of sums over devices: rings and trees by their formulas, which algorithm is chosen and
 * how it compares with the others, 1 to 64 devices. */
#include <math.h>

#include "graph/run/session.h"
#include "tests/graph/forecast/support.h"
#include "tests/options.h"

enum { DEVICES = 4, WIDTH = 8, PARAMETERS = 4 };

/* Wraps what lies in scope over all four devices, trains it and forecasts that. */
static tdm_forecast *forecast_over_all(tdm_context *context, tdm_graph *graph, const char *scope,
                                       tdm_value loss, tdm_optimizer optimizer,
                                       tdm_collective collective) {
  const tdm_parallel_options wrap =
      OPTIONS(tdm_parallel_options, o.devices = "paper:0,paper:1,paper:2,paper:3");
  tdm_data_parallel(graph, scope, &wrap);
  tdm_session *session =
      train_session(graph, loss, optimizer, WITH(tdm_session_options, o.collective = collective));
  tdm_tensor *fed =
      tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 4 * DEVICES, WIDTH));
  const tdm_feed feeds[] = {{"x", fed, false}, {"y", fed, false}};
  assert_ok(tdm_session_prepare(session, feeds, 2, NULL, 0, true));
  tdm_tensor_release(fed);
  tdm_forecast *made = forecast(session, NULL);
  tdm_session_release(session);
  return made;
}

/* Forecasts x (batch, 8) -> two linear layers of 8. */
static tdm_forecast *forecast_wrapped(tdm_optimizer optimizer, tdm_collective collective) {
  tdm_context *context = described_context();
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_scope_push(graph, "net");
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "fc1", x, WIDTH));
  const tdm_value out = tdm_linear(graph, "fc2", hidden, WIDTH);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_mse(graph, "loss", out, y);
  tdm_forecast *made = forecast_over_all(context, graph, "net", loss, optimizer, collective);
  tdm_context_release(context);
  return made;
}

/* Returns the bytes and copies from paper:index to its peers. */
static tdm_forecast_link sent_by(const tdm_forecast *made, int index) {
  char name[56];
  (void)snprintf(name, sizeof name, "paper:%d to its peers", index);
  return *forecast_link(made, name);
}

/* All algorithms move rows of results and of their gradients. In addition, a device that is not the
 * home sends each gradient once to the home; in a ring it sends 2 (k - 1) pieces of 1 / k of it. */
static void rings_and_trees_move_what_their_formulas_say(void **state) {
  (void)state;
  tdm_forecast *home = forecast_wrapped(tdm_sgd(0.1), TDM_COLLECTIVE_HOME);
  tdm_forecast *ring = forecast_wrapped(tdm_sgd(0.1), TDM_COLLECTIVE_RING);
  tdm_forecast *tree = forecast_wrapped(tdm_sgd(0.1), TDM_COLLECTIVE_TREE);
  const double gradients = 2 * (WIDTH * WIDTH + WIDTH) * 4.0;
  double totals[3] = {0};
  uint32_t copies[3] = {0};
  for (int d = 0; d < DEVICES; d++) {
    const tdm_forecast_link sent[] = {sent_by(home, d), sent_by(ring, d), sent_by(tree, d)};
    for (int k = 0; k < 3; k++) {
      totals[k] += sent[k].bytes;
      copies[k] += sent[k].copies;
    }
    if (d == 0) continue;
    assert_close(sent[1].bytes - sent[0].bytes,
                 gradients * (2.0 * (DEVICES - 1) / DEVICES) - gradients);
    assert_int_equal(sent[1].copies - sent[0].copies, PARAMETERS * (2 * (DEVICES - 1) - 1));
  }
  /* In all, each algorithm moves 2 (k - 1) times the gradients: the home's with the refreshes. */
  assert_close(totals[1], totals[0]);
  assert_close(totals[2], totals[0]);
  assert_int_equal(copies[1] - copies[0], PARAMETERS * 2 * (DEVICES - 1) * (DEVICES - 1));
  assert_int_equal(copies[2], copies[0]);
  /* Binomial: paper:2 sends the sum of two up, and the whole down to paper:3. */
  assert_close(sent_by(tree, 2).bytes - sent_by(home, 2).bytes, gradients);
  assert_close(sent_by(tree, 1).bytes, sent_by(home, 1).bytes);
  tdm_forecast_release(home);
  tdm_forecast_release(ring);
  tdm_forecast_release(tree);
}

static double busy_of(const tdm_forecast *made, const char *queue) {
  for (size_t i = 0; i < made->queue_count; i++)
    if (strcmp(made->queues[i].name, queue) == 0) return made->queues[i].busy_ns;
  fail_msg("nothing is done on %s", queue);
  return 0;
}

/* The home computes the factor that clips gradients. Every device scales its updates by it. */
static void what_follows_the_sums_is_done_by_all(void **state) {
  (void)state;
  tdm_optimizer clipped = tdm_adam(0.1);
  clipped.clip_norm = 1;
  tdm_forecast *plain = forecast_wrapped(tdm_adam(0.1), TDM_COLLECTIVE_RING);
  tdm_forecast *ring = forecast_wrapped(clipped, TDM_COLLECTIVE_RING);
  tdm_forecast *home = forecast_wrapped(clipped, TDM_COLLECTIVE_HOME);
  const double scaling_ns = busy_of(ring, "paper:3 compute") - busy_of(plain, "paper:3 compute");
  assert_true(scaling_ns > 3000.0 * PARAMETERS && scaling_ns < 3000.0 * (PARAMETERS + 1));
  /* An update and three additions of each, which no kernel waits for. */
  const double more_ns = busy_of(ring, "paper:3 compute") - busy_of(home, "paper:3 compute");
  assert_true(more_ns > scaling_ns + 3000.0 * PARAMETERS);
  assert_true(busy_of(ring, "paper:3 sum") > 3000.0 * 3 * PARAMETERS);
  assert_true(busy_of(ring, "paper:0 compute") > busy_of(ring, "paper:3 compute") + 3000.0);
  tdm_forecast_release(plain);
  tdm_forecast_release(ring);
  tdm_forecast_release(home);
}

/* A gradient that is joined where its parts are is cut like others. */
static void a_gradient_in_parts_goes_around(void **state) {
  (void)state;
  tdm_context *context = described_context();
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:0");
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "affine");
  const tdm_value both = tdm_parameter(graph, "both", TDM_FLOAT32, tdm_shape_of(2, 2, WIDTH), NULL);
  const tdm_dim sizes[2] = {1, 1};
  tdm_value parts[2];
  tdm_split(graph, "split", both, 0, sizes, 2, parts);
  const tdm_value scaled = tdm_mul(graph, "scaled", x, parts[0]);
  const tdm_value out = tdm_add(graph, "shifted", scaled, parts[1]);
  tdm_scope_pop(graph);
  tdm_forecast *ring = forecast_over_all(context, graph, "affine", tdm_mse(graph, "loss", out, y),
                                         tdm_sgd(0.1), TDM_COLLECTIVE_RING);
  /* Rows of results go home, and those of their gradients come from there. */
  const double rows = 4 * WIDTH * 4.0;
  assert_close(sent_by(ring, 3).bytes, rows + 2 * WIDTH * 4.0 * 6 / 4);
  tdm_forecast_release(ring);
  tdm_context_release(context);
}

/* Layers of 4 MiB over the first `devices` of a machine: 50 GB/s between peers, 10 GB/s to the
 * host, each as fast in float32 as such machines are. */
static const char deep_text[] =
    "{\"title\": \"deep\", \"sources\": [\"this test\"], \"devices_per_host\": 64, \"device\": "
    "{\"model\": \"toy\", \"flops_per_second\": {\"float32\": 2e13}, "
    "\"memory_bytes_per_second\": 1.5e12, \"launch_us\": 3}, \"peer\": {\"latency_us\": 2, "
    "\"bytes_per_second\": 50e9}, \"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 10e9}}";

enum { LAYERS = 16, LAYER_WIDTH = 1024, LAYER_ROWS = 512, ENDS = 16 };

typedef struct deep {
  int layers;
  int devices;
  tdm_collective collective;
  bool deterministic;
} deep;

static tdm_session *deep_session(tdm_context *context, const deep *of) {
  char list[64 * 9] = "";
  for (int d = 0; d < of->devices; d++)
    (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%spaper:%d", d ? "," : "", d);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:0");
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), ENDS);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "deep");
  tdm_value value = tdm_linear(graph, "first", x, LAYER_WIDTH);
  for (int i = 0; i < of->layers; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    value = tdm_relu(graph, "relu", tdm_linear(graph, name, value, LAYER_WIDTH));
  }
  value = tdm_linear(graph, "last", value, ENDS);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_mse(graph, "loss", value, y);
  const tdm_parallel_options wrap = OPTIONS(tdm_parallel_options, o.devices = list);
  tdm_data_parallel(graph, "deep", &wrap);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1),
                                       WITH(tdm_session_options, o.collective = of->collective,
                                            o.deterministic = of->deterministic));
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32,
                                     tdm_shape_of(2, (int64_t)of->devices * LAYER_ROWS, ENDS));
  const tdm_feed feeds[] = {{"x", fed, false}, {"y", fed, false}};
  assert_ok(tdm_session_prepare(session, feeds, 2, NULL, 0, true));
  tdm_tensor_release(fed);
  return session;
}

static tdm_forecast *forecast_deep(tdm_context *context, const deep *of) {
  tdm_session *session = deep_session(context, of);
  tdm_forecast *made = forecast(session, NULL);
  tdm_session_release(session);
  return made;
}

/* Over eight devices. At home as many gradients come in as there are other devices. */
static void the_choice_is_close_to_the_quickest(void **state) {
  (void)state;
  tdm_context *context = context_of(deep_text);
  tdm_forecast *made[TDM_COLLECTIVE_COUNT];
  double least_ns = INFINITY;
  for (int algorithm = 0; algorithm < TDM_COLLECTIVE_COUNT; algorithm++) {
    made[algorithm] = forecast_deep(context, &(deep){LAYERS, 8, (tdm_collective)algorithm, false});
    least_ns = fmin(least_ns, made[algorithm]->step_ns);
  }
  const tdm_forecast *chosen = made[TDM_COLLECTIVE_AUTO];
  const tdm_forecast *home = made[TDM_COLLECTIVE_HOME];
  /* A ring whose messages and additions have separate queues, each waiting only for the previous
   * round: 4.89 ms. */
  if (chosen->step_ns > 1.1 * 4.89e6 || chosen->step_ns > 1.05 * least_ns ||
      home->step_ns < 4 * chosen->step_ns)
    fail_msg("%.0f us; of all algorithms %.0f, at home %.0f", chosen->step_ns / 1e3, least_ns / 1e3,
             home->step_ns / 1e3);
  assert_true(sent_by(chosen, 0).bytes < 0.3 * sent_by(home, 0).bytes);
  for (int algorithm = 0; algorithm < TDM_COLLECTIVE_COUNT; algorithm++)
    tdm_forecast_release(made[algorithm]);
  tdm_context_release(context);
}

/* Each device has a copy of 8.5 MB of parameters. Own updates would also take a gradient and a sum
 * of this size. */
static void without_room_the_home_updates(void **state) {
  (void)state;
  static const double rooms[] = {20e6, 30e6};
  static const tdm_collective algorithms[] = {TDM_COLLECTIVE_CHAIN, TDM_COLLECTIVE_RING};
  for (size_t i = 0; i < TDM_COUNT_OF(rooms); i++) {
    const char *rates = strstr(deep_text, "\"memory_bytes_per_second\"");
    char text[sizeof deep_text + 64];
    (void)snprintf(text, sizeof text, "%.*s\"memory_bytes\": %.0f, %s", (int)(rates - deep_text),
                   deep_text, rooms[i], rates);
    tdm_context *context = context_of(text);
    tdm_session *session = deep_session(context, &(deep){2, 8, TDM_COLLECTIVE_AUTO, false});
    const tdm_collective_choice *choice = &session->newest->sums;
    if (choice->algorithm != algorithms[i]) fail_msg("%.0f bytes: %s", rooms[i], choice->reason);
    assert_int_equal(strcmp(choice->reason, "no room for updates of their own") == 0, i == 0);
    tdm_session_release(session);
    tdm_context_release(context);
  }
}

/* The code works for any number of devices. With a batch that grows with the devices, a step
 * grows only by the duration of sums, and the selected algorithm is never much slower than the
 * fastest. */
static void any_number_of_devices_is_forecast(void **state) {
  (void)state;
  tdm_context *context = context_of(deep_text);
  double one_ns = 0;
  for (int devices = 1; devices <= 64; devices *= 2) {
    double ns[TDM_COLLECTIVE_COUNT];
    double least_ns = INFINITY;
    for (int algorithm = 0; algorithm < TDM_COLLECTIVE_COUNT; algorithm++) {
      tdm_forecast *made =
          forecast_deep(context, &(deep){2, devices, (tdm_collective)algorithm, false});
      ns[algorithm] = made->step_ns;
      least_ns = fmin(least_ns, ns[algorithm]);
      tdm_forecast_release(made);
    }
    if (devices == 1) one_ns = least_ns;
    if (ns[TDM_COLLECTIVE_AUTO] > 1.1 * least_ns || ns[TDM_COLLECTIVE_AUTO] < one_ns)
      fail_msg("%d devices: %.0f us, and %.0f the quickest algorithm", devices, ns[0] / 1e3,
               least_ns / 1e3);
  }
  tdm_context_release(context);
}

static void forecasts_repeat(void **state) {
  (void)state;
  for (int algorithm = 0; algorithm < TDM_COLLECTIVE_COUNT; algorithm++) {
    tdm_forecast *a = forecast_wrapped(tdm_adam(0.1), (tdm_collective)algorithm);
    tdm_forecast *b = forecast_wrapped(tdm_adam(0.1), (tdm_collective)algorithm);
    assert_true(a->step_ns == b->step_ns);
    assert_int_equal(a->queue_count, b->queue_count);
    assert_memory_equal(a->queues, b->queues, a->queue_count * sizeof *a->queues);
    assert_memory_equal(a->links, b->links, a->link_count * sizeof *a->links);
    double critical_ns = 0;
    for (size_t i = 0; i < a->queue_count; i++)
      critical_ns += a->queues[i].critical_ns;
    assert_close(critical_ns, a->step_ns);
    tdm_forecast_release(a);
    tdm_forecast_release(b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rings_and_trees_move_what_their_formulas_say),
      cmocka_unit_test(what_follows_the_sums_is_done_by_all),
      cmocka_unit_test(a_gradient_in_parts_goes_around),
      cmocka_unit_test(the_choice_is_close_to_the_quickest),
      cmocka_unit_test(without_room_the_home_updates),
      cmocka_unit_test(any_number_of_devices_is_forecast),
      cmocka_unit_test(forecasts_repeat),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
