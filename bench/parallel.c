/* Measures data parallelism on the CPU: an MLP 512-2048-2048-512 trained on one one-core device,
 * wrapped for that one device, and wrapped over two such devices. Steps of the variants alternate.
 * Prints medians in milliseconds. */
#include <stdio.h>

#include "bench/help.h"
#include "bench/timing.h"

enum { INPUT = 512, HIDDEN = 2048, STEPS = 15, WARM_STEPS = 2 };

typedef struct trained_mlp {
  const char *devices; /* NULL: not wrapped */
  tdm_session *session;
  double samples_ms[STEPS];
  double median_ms;
} trained_mlp;

static tdm_session *create_session(tdm_context *context, const char *devices) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, INPUT));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, INPUT));
  tdm_scope_push(graph, "mlp");
  tdm_value hidden = tdm_relu(graph, "relu1", tdm_linear(graph, "fc1", x, HIDDEN));
  hidden = tdm_relu(graph, "relu2", tdm_linear(graph, "fc2", hidden, HIDDEN));
  const tdm_value out = tdm_linear(graph, "fc3", hidden, INPUT);
  tdm_scope_pop(graph);
  tdm_parallel_options wrapped = tdm_parallel_options_default();
  wrapped.devices = devices;
  if (devices) tdm_data_parallel(graph, "mlp", &wrapped);
  const tdm_optimizer sgd = tdm_sgd(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_mse(graph, "loss", out, y);
  options.optimizer = &sgd;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) bench_fail("session");
  tdm_graph_release(graph);
  return session;
}

static void take_steps(tdm_context *context, trained_mlp *models, size_t count, int64_t rows) {
  tdm_tensor *x =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, INPUT), 1, -1.0, 1.0);
  if (!x) bench_fail("batch");
  const tdm_feed feeds[] = {{"x", x, false}, {"y", x, false}};
  for (int step = -WARM_STEPS; step < STEPS; step++)
    for (size_t m = 0; m < count; m++) {
      const double began_ms = bench_now_ms();
      bench_check(tdm_train_step(models[m].session, feeds, 2, NULL, 0, NULL), "step");
      if (step >= 0) models[m].samples_ms[step] = bench_now_ms() - began_ms;
    }
  tdm_tensor_release(x);
  for (size_t m = 0; m < count; m++)
    models[m].median_ms = bench_median(models[m].samples_ms, STEPS);
}

int main(int argc, char **argv) {
  bench_help(
      argc, argv,
      "parallel: milliseconds a training step of an MLP on one device, and wrapped over two.\n");
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 2;
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("context");
  trained_mlp models[] = {{.devices = NULL}, {.devices = "cpu:0"}, {.devices = "cpu:0,cpu:1"}};
  const size_t count = sizeof models / sizeof *models;
  for (size_t m = 0; m < count; m++)
    models[m].session = create_session(context, models[m].devices);
  printf("%-8s %-14s %10s %10s\n", "rows", "devices", "ms a step", "speed-up");
  static const int64_t batches[] = {256, 1024};
  for (size_t b = 0; b < 2; b++) {
    take_steps(context, models, count, batches[b]);
    for (size_t m = 0; m < count; m++)
      printf("%-8lld %-14s %10.2f %10.2f\n", (long long)batches[b],
             models[m].devices ? models[m].devices : "not wrapped", models[m].median_ms,
             models[0].median_ms / models[m].median_ms);
  }
  for (size_t m = 0; m < count; m++)
    tdm_session_release(models[m].session);
  tdm_context_release(context);
  return 0;
}
