/* ResNet-18 (He et al., "Deep residual learning for image recognition", 2016), narrow; resnet18.py
 * is the same in PyTorch. */
#include "examples/zoo/zoo.h"

enum { WIDTH = 4, CLASSES = 10 };

static tdm_value conv(tdm_graph *graph, const char *name, tdm_value x, int64_t channels,
                      int64_t kernel, int64_t stride) {
  tdm_conv_options options = tdm_conv_options_default();
  options.stride[0] = options.stride[1] = stride;
  options.padding[0] = kernel / 2;
  options.padding[1] = kernel / 2;
  options.without_bias = true;
  return tdm_conv2d(graph, name, x, channels, kernel, kernel, &options);
}

static tdm_value downsample(tdm_graph *graph, tdm_value x, int64_t channels, int64_t stride) {
  tdm_scope_push(graph, "downsample");
  x = tdm_batch_norm(graph, "1", conv(graph, "0", x, channels, 1, stride));
  tdm_scope_pop(graph);
  return x;
}

static tdm_value block(tdm_graph *graph, int i, tdm_value x, int64_t channels, int64_t stride) {
  tdm_scope_push(graph, i == 0 ? "0" : "1");
  tdm_value y = tdm_batch_norm(graph, "bn1", conv(graph, "conv1", x, channels, 3, stride));
  y = conv(graph, "conv2", tdm_relu(graph, "relu1", y), channels, 3, 1);
  y = tdm_batch_norm(graph, "bn2", y);
  if (stride > 1) x = downsample(graph, x, channels, stride);
  x = tdm_relu(graph, "relu2", tdm_add(graph, "sum", x, y));
  tdm_scope_pop(graph);
  return x;
}

static tdm_value stage(tdm_graph *graph, const char *name, tdm_value x, int64_t times) {
  tdm_scope_push(graph, name);
  x = block(graph, 0, x, times * WIDTH, times == 1 ? 1 : 2);
  x = block(graph, 1, x, times * WIDTH, 1);
  tdm_scope_pop(graph);
  return x;
}

zoo_training zoo_resnet18(tdm_graph *graph) {
  const tdm_value images =
      tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, TDM_DIM("batch"), 3, 48, 48));
  const tdm_value classes =
      tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_pool_options pool = tdm_pool_options_default();
  pool.stride[0] = pool.stride[1] = 2;
  pool.padding[0] = pool.padding[1] = 1;
  tdm_value x = tdm_batch_norm(graph, "bn1", conv(graph, "conv1", images, WIDTH, 7, 2));
  x = tdm_max_pool2d(graph, "pool", tdm_relu(graph, "relu", x), 3, 3, &pool);
  x = stage(graph, "layer1", x, 1);
  x = stage(graph, "layer2", x, 2);
  x = stage(graph, "layer3", x, 4);
  x = stage(graph, "layer4", x, 8);
  x = tdm_flatten(graph, "flat", tdm_adaptive_avg_pool2d(graph, "mean", x, 1, 1), 1, 3);
  x = tdm_linear(graph, "fc", x, CLASSES);
  tdm_output(graph, "output", x);
  tdm_sgd_options sgd = tdm_sgd_options_default();
  sgd.learning_rate = 0.002;
  sgd.momentum = 0.9;
  sgd.weight_decay = 1e-4;
  return (zoo_training){tdm_cross_entropy(graph, "loss", x, classes), tdm_sgd_with(&sgd)};
}
