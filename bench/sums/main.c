/* Compares the algorithms for sums over devices: training steps of sixteen layers of 4 MiB over
 * eight simulated devices. Their links are modelled, with 10 GB/s to the host and 50 GB/s between
 * peers. The algorithms take turns. The wall time of a step is measured, with the kernels of all
 * devices on this machine's cores. A forecast of the same plan, with the measured kernels, gives
 * the time of the copies over the home's links. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/help.h"
#include "bench/timing.h"

enum { DEVICES = 8, LAYERS = 16, WIDTH = 1024, ROWS = DEVICES, WARM_STEPS = 2, STEPS = 15 };

enum { ALGORITHMS = TDM_COLLECTIVE_TREE + 1 }; /* over the devices of one machine */

static tdm_context *open_context(void) {
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 1;
  options.sim_devices = DEVICES;
  options.sim = "latency_us=2,gigabytes_per_second=10,peer_gigabytes_per_second=50";
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("the context");
  return context;
}

static tdm_value describe(tdm_graph *graph) {
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "deep");
  tdm_value value = x;
  for (int i = 0; i < LAYERS; i++) {
    char name[8];
    (void)snprintf(name, sizeof name, "l%d", i);
    value = tdm_relu(graph, "relu", tdm_linear(graph, name, value, WIDTH));
  }
  tdm_scope_pop(graph);
  char devices[DEVICES * 6] = "";
  for (int d = 0; d < DEVICES; d++)
    (void)snprintf(devices + strlen(devices), sizeof devices - strlen(devices), "%ssim:%d",
                   d ? "," : "", d);
  tdm_parallel_options wrap = tdm_parallel_options_default();
  wrap.devices = devices;
  tdm_data_parallel(graph, "deep", &wrap);
  return tdm_mse(graph, "loss", value, x);
}

static tdm_session *open_session(tdm_context *context, tdm_collective collective) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value loss = describe(graph);
  const tdm_optimizer optimizer = tdm_sgd(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = loss;
  options.optimizer = &optimizer;
  options.profile = true;
  options.collective = collective;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) bench_fail("a session");
  tdm_graph_release(graph);
  return session;
}

/* Returns the median step in ms. */
static double measure(tdm_session *session, const tdm_feed *feed) {
  double samples[STEPS];
  for (int i = -WARM_STEPS; i < STEPS; i++) {
    const double begin = bench_now_ms();
    bench_check(tdm_train_step(session, feed, 1, NULL, 0, NULL), "a step");
    if (i >= 0) samples[i] = bench_now_ms() - begin;
  }
  return bench_median(samples, STEPS);
}

/* MB that a step moves over the links of sim:0, into it and out of it. */
static void home_traffic(const tdm_forecast *forecast, double *out_in, double *out_out) {
  *out_in = *out_out = 0;
  for (size_t i = 0; i < forecast->link_count; i++) {
    const tdm_forecast_link *link = &forecast->links[i];
    if (strncmp(link->name, "sim:0 ", 6) == 0) *out_out += link->bytes / 1e6;
    if (strstr(link->name, "-> sim:0")) *out_in += link->bytes / 1e6;
  }
}

static void tell(tdm_context *context, tdm_collective collective, const tdm_feed *feed) {
  tdm_session *session = open_session(context, collective);
  const double step_ms = measure(session, feed);
  tdm_costs *costs = tdm_costs_create(context);
  if (!costs) bench_fail("costs");
  bench_check(tdm_costs_learn(costs, session, true), "learning costs");
  bench_check(tdm_costs_learn(costs, session, false), "learning costs");
  tdm_forecast_options options = tdm_forecast_options_default();
  options.costs = costs;
  tdm_forecast *forecast = NULL;
  bench_check(tdm_session_forecast(session, &options, &forecast), "a forecast");
  double in, out;
  home_traffic(forecast, &in, &out);
  printf("%-8s %12.1f %12.1f %12.1f\n",
         collective == TDM_COLLECTIVE_AUTO ? "chosen" : tdm_collective_name(collective), step_ms,
         in, out);
  tdm_forecast_release(forecast);
  tdm_costs_release(costs);
  tdm_session_release(session);
}

int main(int argc, char **argv) {
  bench_help(
      argc, argv,
      "bazel run //bench:sums\n\n"
      "Training steps over eight simulated devices with modelled links, by each algorithm of\n"
      "summing gradients: the median step, and what the home's links carry in one.\n");
  tdm_context *context = open_context();
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH), 1, -1, 1);
  const tdm_feed feed = {.name = "x", .tensor = x};
  printf("%-8s %12s %12s %12s\n", "sums", "step ms", "home in MB", "home out MB");
  for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
    tell(context, (tdm_collective)algorithm, &feed);
  tdm_tensor_release(x);
  tdm_context_release(context);
  return 0;
}
