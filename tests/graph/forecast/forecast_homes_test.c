/* Forecasts of a step whose gradients and parameters cross for as long as it computes: by a ring,
 * and with sharded optimizer states or parameters. */
#include "graph/run/session.h"
#include "tests/graph/forecast/support.h"
#include "tests/options.h"

/* A replica's 6 * ROWS * WIDTH^2 operations a layer, 768 a ns, take as long as its 4 * WIDTH^2
 * bytes do, 1 a ns: half of a layer's gradient and of its parameter go either way. */
enum { WIDTH = 1024, ROWS = 512, ENDS = 16, MOST_LAYERS = 24 };

static const char two_hosts[] =
    "{\"title\": \"two\", \"sources\": [\"this test\"], \"hosts\": 2, \"device\": {\"model\": "
    "\"toy\", \"flops_per_second\": {\"float32\": 7.68e11}, \"memory_bytes_per_second\": 1e15, "
    "\"launch_us\": 1}, \"host_link\": {\"latency_us\": 1, \"bytes_per_second\": 1e15}, "
    "\"network\": {\"latency_us\": 1, \"bytes_per_second\": 1e9}}";

typedef struct manner {
  tdm_collective collective;
  tdm_parallel_sharding sharding;
} manner;

static double step_ns(tdm_context *context, int layers, const manner *of) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), ENDS);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "deep");
  tdm_value value = tdm_linear_without_bias(graph, "first", x, WIDTH);
  for (int i = 0; i < layers; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    value = tdm_linear_without_bias(graph, name, value, WIDTH);
  }
  const tdm_value loss = tdm_mean(graph, "loss", value, NULL, 0, false);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap =
      OPTIONS(tdm_parallel_options, o.devices = "paper:0,paper:1", o.sharding = of->sharding);
  tdm_data_parallel(graph, "deep", &wrap);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1),
                                       WITH(tdm_session_options, o.collective = of->collective));
  tdm_tensor *fed =
      tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, (int64_t)2 * ROWS, ENDS));
  const tdm_feed feed = {"x", fed, false};
  assert_ok(tdm_session_prepare(session, &feed, 1, NULL, 0, true));
  tdm_tensor_release(fed);
  tdm_forecast *made = forecast(session, NULL);
  const double ns = made->step_ns;
  tdm_forecast_release(made);
  tdm_session_release(session);
  return ns;
}

/* Checks that no kernel waits for additions. Transfers begin with the first gradient, after a third
 * of the computation and that of its layer. From then on links are never idle: arriving terms are
 * added on a separate queue and sent on immediately. */
static void additions_hold_up_no_kernel(void **unused) {
  (void)unused;
  tdm_context *context = context_of(two_hosts);
  for (int layers = 8; layers <= MOST_LAYERS; layers += 8) {
    const double layer_ns = 4.0 * WIDTH * WIDTH, longer_ns = layers * layer_ns;
    const double ring_ns = step_ns(context, layers, &(manner){.collective = TDM_COLLECTIVE_RING});
    if (ring_ns > 4.0 / 3 * longer_ns + 0.4 * layer_ns)
      fail_msg("%d layers: %.3f by a ring", layers, ring_ns / longer_ns);
  }
  tdm_context_release(context);
}

/* In a ring no gradient crosses before the backward pass begins, after a third of the computation.
 * With sharded states half of the bytes cross during the forward pass, which is shorter. The
 * remaining time is that half and the backward pass, and at most the bytes of two layers, which
 * nothing hides: the last gradient and the first parameter. */
static void sharded_states_take_less_than_a_ring(void **unused) {
  (void)unused;
  tdm_context *context = context_of(two_hosts);
  for (int layers = 8; layers <= MOST_LAYERS; layers += 8) {
    const double layer_ns = 4.0 * WIDTH * WIDTH, longer_ns = layers * layer_ns;
    const double ring_ns = step_ns(context, layers, &(manner){.collective = TDM_COLLECTIVE_RING});
    const double homes_ns =
        step_ns(context, layers, &(manner){.sharding = TDM_SHARDING_OPTIMIZER_STATES});
    if (ring_ns < 4.0 / 3 * longer_ns || homes_ns > 7.0 / 6 * longer_ns + 2.1 * layer_ns)
      fail_msg("%d layers: %.3f by a ring, %.3f with sharded states", layers, ring_ns / longer_ns,
               homes_ns / longer_ns);
  }
  tdm_context_release(context);
}

/* Half of each divided parameter crosses in each direction, and a third of the bytes as gradients
 * only, so each pass carries as many bytes as it can hide. The forward pass waits for half a layer
 * where it begins, and links wait for half a layer where the backward pass ends. */
static void sharded_parameters_take_about_as_long_as_computing(void **unused) {
  (void)unused;
  tdm_context *context = context_of(two_hosts);
  for (int layers = 8; layers <= MOST_LAYERS; layers += 8) {
    const double layer_ns = 4.0 * WIDTH * WIDTH, longer_ns = layers * layer_ns;
    const double ns = step_ns(context, layers, &(manner){.sharding = TDM_SHARDING_PARAMETERS});
    if (ns > longer_ns + 1.1 * layer_ns) fail_msg("%d layers: %.3f", layers, ns / longer_ns);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(additions_hold_up_no_kernel),
      cmocka_unit_test(sharded_states_take_less_than_a_ring),
      cmocka_unit_test(sharded_parameters_take_about_as_long_as_computing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
