/* data_parallel_block: block1 -> block2, replicated by data parallelism -> block3, trained. The
 * model is described as for one device; only tdm_data_parallel names others.
 *
 *   data_parallel_block [DEVICES]    default: cpu:0,cpu:1 */
#include <stdio.h>
#include <string.h>

#include <tandem/tandem.h>

enum { INPUT_SIZE = 10, HIDDEN = 20, ROWS = 64, STEPS = 200, REPORT_EVERY = 50 };

static tdm_session *create_session(tdm_context *context, const char *devices) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, INPUT_SIZE));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, HIDDEN));

  tdm_place(graph, "cpu:0");
  tdm_value hidden = tdm_tanh(graph, "act1", tdm_linear(graph, "block1", x, HIDDEN));
  hidden = tdm_linear(graph, "block2", hidden, HIDDEN);
  tdm_parallel_options wrapped = tdm_parallel_options_default();
  wrapped.devices = devices;
  tdm_data_parallel(graph, "block2", &wrapped);
  const tdm_value scores = tdm_linear(graph, "block3", hidden, HIDDEN);

  const tdm_optimizer adam = tdm_adam(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_mse(graph, "loss", scores, y);
  options.optimizer = &adam;
  options.seed = 1;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

/* Fits random targets; the loss falls. */
static tdm_status train(tdm_context *context, tdm_session *session) {
  tdm_tensor *x = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32,
                                     tdm_shape_of(2, ROWS, INPUT_SIZE), 1, -1.0, 1.0);
  tdm_tensor *y = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, HIDDEN),
                                     2, -1.0, 1.0);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  tdm_status status = session && x && y ? TDM_OK : TDM_INVALID_ARGUMENT;
  for (int step = 1; status == TDM_OK && step <= STEPS; step++) {
    double loss = 0;
    status = tdm_train_step(session, feeds, 2, NULL, 0, &loss);
    if (status == TDM_OK && (step == 1 || step % REPORT_EVERY == 0))
      printf("step %3d  loss %.4f\n", step, loss);
  }
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  return status;
}

static void print_traffic(tdm_session *session) {
  tdm_traffic traffic;
  if (tdm_session_traffic(session, &traffic) != TDM_OK) return;
  printf("a step moves %llu bytes of values and gradients in %llu transfers, and %llu bytes of "
         "parameters in %llu\n",
         (unsigned long long)traffic.edge_bytes, (unsigned long long)traffic.edge_transfers,
         (unsigned long long)traffic.refresh_bytes, (unsigned long long)traffic.refresh_transfers);
}

static const char usage[] =
    "usage: data_parallel_block [DEVICES]\n"
    "Trains three blocks, the second of them wrapped over devices, as cpu:0,cpu:1.\n";

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--help") == 0) return fputs(usage, stdout) < 0;
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 2;
  tdm_context *context = tdm_context_create(&options);
  tdm_session *session =
      context ? create_session(context, argc > 1 ? argv[1] : "cpu:0,cpu:1") : NULL;
  const bool done = session && train(context, session) == TDM_OK;
  if (done) print_traffic(session);
  if (!done) fprintf(stderr, "data_parallel_block: %s\n", tdm_last_message());
  tdm_session_release(session);
  tdm_context_release(context);
  return done ? 0 : 1;
}
