/* U-Net (Ronneberger, Fischer, Brox, "U-Net: convolutional networks for biomedical image
 * segmentation", 2015), small and padded, with batch normalization; unet.py is the same in
 * PyTorch. */
#include "examples/zoo/zoo.h"

enum { CHANNELS = 6, CLASSES = 3, SIZE = 16 };

static tdm_value double_conv(tdm_graph *graph, const char *name, tdm_value x, int64_t channels) {
  tdm_conv_options options = tdm_conv_options_default();
  options.padding[0] = options.padding[1] = 1;
  options.without_bias = true;
  tdm_scope_push(graph, name);
  tdm_scope_push(graph, "double_conv");
  for (int i = 0; i < 2; i++) {
    x = tdm_conv2d(graph, NULL, x, channels, 3, 3, &options);
    x = tdm_relu(graph, NULL, tdm_batch_norm(graph, NULL, x));
  }
  tdm_scope_pop(graph);
  tdm_scope_pop(graph);
  return x;
}

static tdm_value down(tdm_graph *graph, const char *name, tdm_value x, int64_t channels) {
  return double_conv(graph, name, tdm_max_pool2d(graph, "pool", x, 2, 2, NULL), channels);
}

static tdm_value up(tdm_graph *graph, const char *name, tdm_value x, tdm_value skipped,
                    int64_t channels) {
  tdm_conv_transpose_options twice = tdm_conv_transpose_options_default();
  twice.stride[0] = twice.stride[1] = 2;
  tdm_scope_push(graph, name);
  x = tdm_conv_transpose2d(graph, "up", x, channels, 2, 2, &twice);
  x = tdm_concat(graph, "both", (const tdm_value[]){skipped, x}, 2, 1);
  x = double_conv(graph, "conv", x, channels);
  tdm_scope_pop(graph);
  return x;
}

zoo_training zoo_unet(tdm_graph *graph) {
  const tdm_value images =
      tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, TDM_DIM("batch"), 1, SIZE, SIZE));
  const tdm_value classes =
      tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(3, TDM_DIM("batch"), SIZE, SIZE));
  const tdm_value x1 = double_conv(graph, "inc", images, CHANNELS);
  const tdm_value x2 = down(graph, "down1", x1, 2 * CHANNELS);
  tdm_value x = down(graph, "down2", x2, 4 * CHANNELS);
  x = up(graph, "up1", x, x2, 2 * CHANNELS);
  x = up(graph, "up2", x, x1, CHANNELS);
  x = tdm_conv2d(graph, "outc", x, CLASSES, 1, 1, NULL);
  tdm_output(graph, "output", x);
  tdm_rmsprop_options rmsprop = tdm_rmsprop_options_default();
  rmsprop.learning_rate = 1e-3;
  rmsprop.epsilon = 1e-3;
  rmsprop.momentum = 0.9;
  return (zoo_training){tdm_cross_entropy(graph, "loss", x, classes), tdm_rmsprop_with(&rmsprop)};
}
