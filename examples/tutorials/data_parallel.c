/* A model whose batches are shared out over all GPUs, or here over two parts of the processor. */
#include "examples/tutorials/tutorial.h"

enum { INPUT = 5, OUTPUT = 2, ROWS = 100, BATCH = 30 };

static void print_shape(const char *name, const tdm_tensor *tensor) {
  const tdm_shape shape = tdm_tensor_shape(tensor);
  char text[TDM_SHAPE_TEXT];
  printf("%s: %s\n", name, tdm_shape_text(&shape, text, sizeof text));
}

/* Prints the values of each replica. */
static void observe(void *user, const tdm_observation *seen) {
  (void)user;
  print_shape(seen->name, seen->tensor);
}

int main(void) {
  tdm_context_options two = tdm_context_options_default();
  two.cpu_devices = 2;
  tdm_context *context = tdm_context_create(&two);
  const bool gpus = tdm_is_available(context, "cuda");
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), INPUT);
  tdm_value x = tdm_input(graph, "rows", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "model");
  x = tdm_linear(graph, "fc", tdm_observe(graph, "x", x), OUTPUT);
  x = tdm_observe(graph, "y", x);
  tdm_scope_pop(graph);
  tdm_parallel_options options = tdm_parallel_options_default();
  options.devices = gpus ? "cuda:*" : "cpu:*";
  tdm_data_parallel(graph, "model", &options);
  tdm_output(graph, "scores", x);
  tdm_session_options observed = tdm_session_options_default();
  observed.observer = observe;
  tdm_session *model = tdm_session_create(graph, &observed);
  tdm_tensor *rows = tdm_tensor_randn(context, "cpu", TDM_FLOAT32, tdm_shape_of(2, ROWS, INPUT), 1);
  for (int i = 0; i < ROWS; i += BATCH) {
    tdm_tensor *batch = tdm_tensor_slice(rows, i, i + BATCH < ROWS ? i + BATCH : ROWS);
    tdm_tensor *scores = tdm_run_output(model, &(tdm_feed){"rows", batch, false}, 1, "scores");
    check(scores != NULL);
    print_shape("rows", batch);
    print_shape("scores", scores);
    tdm_tensor_release(scores);
    tdm_tensor_release(batch);
  }
  tdm_tensor_release(rows);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
