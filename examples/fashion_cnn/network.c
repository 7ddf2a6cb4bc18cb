/* The network: two blocks of convolution, batch normalization and pooling, then two linear layers
 * with dropout between them. Names are those that PyTorch gives
 * Sequential(OrderedDict(features=..., classifier=...)) with named children. */
#include "examples/fashion_cnn/network.h"

static const double DROPPED = 0.25;

/* x (batch, ..., n, n) -> (batch, channels, n / 2, n / 2). */
static tdm_value block(tdm_graph *graph, const char *name, tdm_value x, int64_t channels) {
  tdm_conv_options same_size = tdm_conv_options_default();
  same_size.padding[0] = same_size.padding[1] = 1;
  tdm_scope_push(graph, name);
  x = tdm_conv2d(graph, "conv", x, channels, 3, 3, &same_size);
  x = tdm_batch_norm(graph, "norm", x);
  x = tdm_relu(graph, "relu", x);
  x = tdm_max_pool2d(graph, "pool", x, 2, 2, NULL);
  tdm_scope_pop(graph);
  return x;
}

tdm_value fashion_network_describe(tdm_graph *graph, const fashion_network_sizes *sizes,
                                   tdm_value images, tdm_value classes, const char *accelerator,
                                   const char *parallel, tdm_value *out_scores) {
  if (!parallel) tdm_place(graph, "cpu:0");
  tdm_scope_push(graph, "features");
  tdm_value x = block(graph, "block1", images, sizes->channels[0]);
  x = block(graph, "block2", x, sizes->channels[1]); /* (batch, channels, image / 4, image / 4) */
  tdm_scope_pop(graph);
  if (parallel) {
    tdm_parallel_options wrapped = tdm_parallel_options_default();
    wrapped.devices = parallel;
    tdm_data_parallel(graph, "features", &wrapped);
  }
  if (accelerator) tdm_place(graph, accelerator);
  tdm_scope_push(graph, "classifier");
  const int64_t features = sizes->channels[1] * (sizes->image / 4) * (sizes->image / 4);
  x = tdm_reshape(graph, "flatten", x, tdm_shape_of(2, TDM_INFER, features));
  x = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", x, sizes->hidden));
  x = tdm_dropout(graph, "dropout", x, DROPPED);
  *out_scores = tdm_linear(graph, "scores", x, sizes->classes);
  tdm_scope_pop(graph);
  return tdm_cross_entropy(graph, "loss", *out_scores, classes);
}
