/* A model whose halves live on two devices. */
#include "examples/tutorials/tutorial.h"

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  const bool two = tdm_is_available(context, "cuda:1");
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 10));
  const tdm_value labels =
      tdm_input(graph, "labels", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 5));
  tdm_place(graph, two ? "cuda:0" : "cpu:0");
  const tdm_value hidden = tdm_relu(graph, "relu", tdm_linear(graph, "net1", x, 10));
  tdm_place(graph, two ? "cuda:1" : tdm_simulator(context));
  const tdm_value y = tdm_linear(graph, "net2", hidden, 5);
  const tdm_optimizer sgd = tdm_sgd(0.05);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_mse(graph, "loss", y, labels);
  options.optimizer = &sgd;
  options.seed = 1;
  tdm_session *model = tdm_session_create(graph, &options);
  const tdm_feed feeds[] = {
      {"x", tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 20, 10), 1), false},
      {"labels", tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 20, 5), 2), false},
  };
  for (int step = 1; step <= 3; step++) {
    double loss;
    check(tdm_train_step(model, feeds, 2, NULL, 0, &loss) == TDM_OK);
    printf("step %d: loss %.3f\n", step, loss);
  }
  check(tdm_graph_print(graph, stdout) == TDM_OK);
  tdm_tensor_release(feeds[0].tensor);
  tdm_tensor_release(feeds[1].tensor);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
