/* A residual network for images of 64 x 64: the first three of the four stages of ResNet-18 (He et
 * al., "Deep residual learning for image recognition", 2016). */
#include <stdio.h>

#include "bench/models/models.h"

enum { IMAGE_SIZE = 64, CLASSES = 10, STAGES = 3, BLOCKS = 2, FIRST_WIDTH = 64 };

/* Adds a convolution without bias, its padding half the kernel, and batch normalization. */
static tdm_value convolve(tdm_graph *graph, const char *name, tdm_value x, int64_t channels,
                          int64_t kernel, int64_t stride) {
  char path[64];
  tdm_conv_options options = tdm_conv_options_default();
  options.stride[0] = options.stride[1] = stride;
  options.padding[0] = kernel / 2;
  options.padding[1] = kernel / 2;
  options.without_bias = true;
  (void)snprintf(path, sizeof path, "%s/conv", name);
  x = tdm_conv2d(graph, path, x, channels, kernel, kernel, &options);
  (void)snprintf(path, sizeof path, "%s/norm", name);
  return tdm_batch_norm(graph, path, x);
}

static tdm_value relu(tdm_graph *graph, const char *name, tdm_value x) {
  char path[64];
  (void)snprintf(path, sizeof path, "%s/relu", name);
  return tdm_relu(graph, path, x);
}

/* Adds two convolutions and x, or a projection of x if their shape differs. */
static tdm_value add_block(tdm_graph *graph, const char *name, tdm_value x, int64_t channels,
                           int64_t stride, bool reshapes) {
  char first[48], second[48], beside[48];
  (void)snprintf(first, sizeof first, "%s/first", name);
  (void)snprintf(second, sizeof second, "%s/second", name);
  (void)snprintf(beside, sizeof beside, "%s/beside", name);
  tdm_value y = relu(graph, first, convolve(graph, first, x, channels, 3, stride));
  y = convolve(graph, second, y, channels, 3, 1);
  if (reshapes) x = convolve(graph, beside, x, channels, 1, stride);
  return relu(graph, name, tdm_add(graph, name, y, x));
}

model model_residual(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "scores");
  tdm_graph *graph = made.graph;
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value images =
      tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, batch, 3, IMAGE_SIZE, IMAGE_SIZE));
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  tdm_pool_options halves = tdm_pool_options_default();
  halves.stride[0] = halves.stride[1] = 2;
  halves.padding[0] = halves.padding[1] = 1;
  tdm_value x = relu(graph, "stem", convolve(graph, "stem", images, FIRST_WIDTH, 7, 2));
  x = tdm_max_pool2d(graph, "pool", x, 3, 3, &halves);
  for (int stage = 0; stage < STAGES; stage++) {
    for (int block = 0; block < BLOCKS; block++) {
      const bool reshapes = stage > 0 && block == 0;
      char name[32];
      (void)snprintf(name, sizeof name, "stage%d/block%d", stage, block);
      x = add_block(graph, name, x, FIRST_WIDTH << stage, reshapes ? 2 : 1, reshapes);
    }
  }
  x = tdm_mean(graph, "mean", x, (const int[]){2, 3}, 2, false);
  const tdm_value scores = tdm_linear(graph, "fc", x, CLASSES);
  tdm_output(graph, "scores", scores);
  model_finish(&made, tdm_cross_entropy(graph, "loss", scores, classes), tdm_sgd(0.01));
  model_feed(&made, "images",
             model_uniform(context, tdm_shape_of(4, rows, 3, IMAGE_SIZE, IMAGE_SIZE), 1));
  made.forward_feed_count = made.feed_count;
  model_feed(&made, "classes", model_ids(context, 0, rows, 1, CLASSES));
  return made;
}
