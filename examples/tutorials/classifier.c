/* A convolutional network finds the bright quarter of an image. */
#include "examples/tutorials/tutorial.h"

static tdm_value net(tdm_graph *graph, tdm_value x) {
  x = tdm_relu(graph, "relu1", tdm_conv2d(graph, "conv1", x, 6, 5, 5, NULL));
  x = tdm_max_pool2d(graph, "pool1", x, 2, 2, NULL);
  x = tdm_relu(graph, "relu2", tdm_conv2d(graph, "conv2", x, 16, 3, 3, NULL));
  x = tdm_max_pool2d(graph, "pool2", x, 2, 2, NULL);
  x = tdm_flatten(graph, "flat", x, 1, 3);
  x = tdm_relu(graph, "relu3", tdm_linear(graph, "fc1", x, 32));
  x = tdm_relu(graph, "relu4", tdm_linear(graph, "fc2", x, 16));
  return tdm_linear(graph, "fc3", x, 4);
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_tensor *images =
      tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(4, 64, 1, 16, 16), 1, 0, 0.5);
  tdm_tensor *labels = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 64));
  check(images && labels);
  float *pixels = tdm_tensor_data(images);
  int64_t *wanted = tdm_tensor_data(labels);
  for (int i = 0; i < 64 * 256; i++) {
    const int image = i / 256, row = i / 16 % 16, column = i % 16;
    wanted[image] = image % 4;
    if (row / 8 * 2 + column / 8 == image % 4) pixels[i] += 0.5F;
  }

  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, TDM_DIM("batch"), 1, 16, 16));
  const tdm_value y = tdm_input(graph, "labels", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value outputs = net(graph, x);
  tdm_output(graph, "accuracy", tdm_accuracy(graph, NULL, outputs, y));
  tdm_sgd_options momentum = tdm_sgd_options_default();
  momentum.learning_rate = 0.05;
  momentum.momentum = 0.9;
  const tdm_optimizer sgd = tdm_sgd_with(&momentum);
  tdm_session_options options = tdm_session_options_default();
  options.optimizer = &sgd;
  options.loss = tdm_cross_entropy(graph, "loss", outputs, y);
  tdm_session *session = tdm_session_create(graph, &options);
  check(session != NULL);
  const tdm_feed feeds[] = {{"images", images, false}, {"labels", labels, false}};
  for (int epoch = 1; epoch <= 60; epoch++) {
    double loss;
    check(tdm_train_step(session, feeds, 2, NULL, 0, &loss) == TDM_OK);
    if (epoch % 20 == 0) printf("epoch %d: loss %.3f\n", epoch, loss);
  }

  tdm_tensor *accuracy = tdm_run_output(session, feeds, 2, "accuracy");
  check(accuracy != NULL);
  printf("%g %% of 64 images are right\n", 100 * tdm_tensor_item(accuracy, 0));
  tdm_tensor_release(accuracy);
  tdm_tensor_release(images);
  tdm_tensor_release(labels);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
