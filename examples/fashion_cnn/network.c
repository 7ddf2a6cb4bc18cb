/* The network: two blocks of convolution, batch normalization and pooling, then two linear layers
 * with dropout between them. Names are those that PyTorch gives
 * Sequential(OrderedDict(features=..., classifier=...)) with named children. */
#include "examples/fashion_cnn/network.h"

#include "examples/clothes/clothes.h"

enum { FIRST_CHANNELS = 16, SECOND_CHANNELS = 32, HIDDEN_SIZE = 128 };
static const double DROPPED = 0.25;

/* x (batch, ..., n, n) -> (batch, channels, n / 2, n / 2). */
static tdm_value block(tdm_graph *graph, const char *name, tdm_value x, int64_t channels) {
  const tdm_conv_options same_size = {.struct_size = sizeof same_size, .padding = {1, 1}};
  tdm_scope_push(graph, name);
  x = tdm_conv2d(graph, "conv", x, channels, 3, 3, &same_size);
  x = tdm_batch_norm(graph, "norm", x);
  x = tdm_relu(graph, "relu", x);
  x = tdm_max_pool2d(graph, "pool", x, 2, 2, NULL);
  tdm_scope_pop(graph);
  return x;
}

tdm_value network_describe(tdm_graph *graph, const char *accelerator, const char *parallel) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value images = tdm_input(graph, CLOTHES_IMAGES, TDM_FLOAT32,
                                     tdm_shape_of(4, batch, 1, IMAGE_SIZE, IMAGE_SIZE));
  const tdm_value classes = tdm_input(graph, CLOTHES_CLASSES, TDM_INT64, tdm_shape_of(1, batch));

  if (!parallel) tdm_place(graph, "cpu:0");
  tdm_scope_push(graph, "features");
  tdm_value x = block(graph, "block1", images, FIRST_CHANNELS);
  x = block(graph, "block2", x, SECOND_CHANNELS); /* (batch, 32, 7, 7) */
  tdm_scope_pop(graph);
  if (parallel) {
    const tdm_parallel_options wrapped = {.struct_size = sizeof wrapped, .devices = parallel};
    tdm_data_parallel(graph, "features", &wrapped);
  }
  if (accelerator) tdm_place(graph, accelerator);
  tdm_scope_push(graph, "classifier");
  x = tdm_reshape(graph, "flatten", x,
                  tdm_shape_of(2, batch, SECOND_CHANNELS * (IMAGE_SIZE / 4) * (IMAGE_SIZE / 4)));
  x = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", x, HIDDEN_SIZE));
  x = tdm_dropout(graph, "dropout", x, DROPPED);
  const tdm_value scores = tdm_linear(graph, "scores", x, CLASS_COUNT);
  tdm_scope_pop(graph);
  tdm_output(graph, CLOTHES_SCORES, scores);
  return tdm_cross_entropy(graph, "loss", scores, classes);
}
