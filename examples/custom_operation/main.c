/* custom_operation: trains a small model with a custom operation on a curve, on cpu:0 and on sim:0,
 * whose memory the host cannot read. With `deterministic` both devices give the same bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/custom_operation/swish.h"

enum { ROWS = 64, HIDDEN = 32, STEPS = 300, REPORT_EVERY = 100 };

/* linear(1 -> 32), swish, linear(32 -> 1), mean squared error. NULL on failure, with a message. */
static tdm_session *create_session(tdm_graph *graph, const char *device_map) {
  const tdm_dim batch = TDM_DIM("batch");
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, 1));
  tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, 1));
  tdm_value hidden = tdm_linear(graph, "in", x, HIDDEN);
  hidden = swish(graph, "swish", hidden, 1.5);
  tdm_value answer = tdm_linear(graph, "out", hidden, 1);
  const tdm_optimizer adam = tdm_adam(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_mse(graph, "loss", answer, y);
  options.optimizer = &adam;
  options.device_map = device_map;
  options.seed = 1;
  options.deterministic = true;
  return tdm_session_create(graph, &options);
}

/* Points of y = sin(3x), x in [-1, 1]. */
static void make_points(tdm_context *context, tdm_tensor **out_x, tdm_tensor **out_y) {
  float x[ROWS];
  float y[ROWS];
  for (int i = 0; i < ROWS; i++) {
    x[i] = -1.0f + 2.0f * (float)i / (ROWS - 1);
    y[i] = sinf(3.0f * x[i]);
  }
  *out_x = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, ROWS, 1), x);
  *out_y = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, ROWS, 1), y);
}

/* Trains on one device; returns the trained parameters, NULL on failure. */
static tdm_tensor_list *train(tdm_context *context, const char *device_map) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_session *session = create_session(graph, device_map);
  tdm_tensor *x = NULL;
  tdm_tensor *y = NULL;
  make_points(context, &x, &y);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  tdm_status status = session && x && y ? TDM_OK : TDM_INVALID_ARGUMENT;
  for (int step = 1; status == TDM_OK && step <= STEPS; step++) {
    double loss = 0;
    status = tdm_train_step(session, feeds, 2, NULL, 0, &loss);
    if (status == TDM_OK && (step == 1 || step % REPORT_EVERY == 0))
      printf("%s  step %3d  loss %.6f\n", device_map, step, loss);
  }
  tdm_tensor_list *trained =
      status == TDM_OK ? tdm_store_save(tdm_session_store(session), false) : NULL;
  tdm_tensor_release(y);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return trained;
}

/* Returns true if all parameters are equal, bit for bit. */
static bool agree(const tdm_tensor_list *a, const tdm_tensor_list *b) {
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const tdm_tensor *left = tdm_tensor_list_tensor(a, i);
    const tdm_tensor *right = tdm_tensor_list_find(b, tdm_tensor_list_name(a, i));
    if (!right ||
        memcmp(tdm_tensor_data(left), tdm_tensor_data(right), tdm_tensor_bytes(left)) != 0) {
      printf("cpu:0 and sim:0 differ in %s\n", tdm_tensor_list_name(a, i));
      return false;
    }
  }
  printf("cpu:0 and sim:0 agree: %zu parameters are equal, bit for bit\n",
         tdm_tensor_list_count(a));
  return true;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--help") == 0) {
    return puts("custom_operation: a model with an operation of its own, on cpu:0 and on sim:0.") <
           0;
  }
  tdm_context *context = tdm_context_create(NULL);
  tdm_status status = context ? swish_register(context) : TDM_UNAVAILABLE;
  tdm_tensor_list *on_cpu = status == TDM_OK ? train(context, "*=cpu:0") : NULL;
  tdm_tensor_list *on_sim = on_cpu ? train(context, "*=sim:0") : NULL;
  const bool trained = on_sim != NULL;
  if (!trained) fprintf(stderr, "custom_operation: %s\n", tdm_last_message());
  const bool equal = trained && agree(on_cpu, on_sim);
  tdm_tensor_list_release(on_sim);
  tdm_tensor_list_release(on_cpu);
  tdm_context_release(context);
  return equal ? 0 : 1;
}
