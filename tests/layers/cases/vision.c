/* Builders of the golden cases of tests/golden/vision_cases.py. */
#include "tests/layers/layer_cases.h"
#include "tests/options.h"

/* Numbers of the case: kind, slope. */
static void activation(layer_test *test, const layer_case *options) {
  tdm_graph *graph = test->graph;
  const tdm_value x = layer_parameter(test, "x");
  const int kind = (int)options->numbers[0];
  layer_judge(test, "y",
              kind == 0   ? tdm_gelu(graph, "f", x)
              : kind == 1 ? tdm_gelu_tanh(graph, "f", x)
              : kind == 2 ? tdm_silu(graph, "f", x)
                          : tdm_leaky_relu(graph, "f", x, options->numbers[1]));
}

/* Numbers of the case: same. */
static void mul(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  const tdm_value other = options->numbers[0] != 0 ? x : layer_parameter(test, "b");
  layer_judge(test, "y", tdm_mul(test->graph, "f", x, other));
}

/* Numbers of the case: mean, keep, dimensions. */
static void reduce(layer_test *test, const layer_case *options) {
  int dimensions[16];
  const size_t count = options->number_count - 2;
  for (size_t i = 0; i < count; i++)
    dimensions[i] = (int)options->numbers[2 + i];
  const tdm_value x = layer_parameter(test, "x");
  const bool keep = options->numbers[1] != 0;
  layer_judge(test, "y",
              options->numbers[0] != 0 ? tdm_mean(test->graph, "f", x, dimensions, count, keep)
                                       : tdm_sum(test->graph, "f", x, dimensions, count, keep));
}

/* Numbers of the case: rank, affine, epsilon. */
static void layer_norm(layer_test *test, const layer_case *options) {
  const tdm_layer_norm_options chosen =
      OPTIONS(tdm_layer_norm_options, o.epsilon = options->numbers[2],
              o.without_affine = options->numbers[1] == 0);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              tdm_layer_norm_with(test->graph, "layer", x, (int)options->numbers[0], &chosen));
}

/* Numbers of the case: rank, affine, epsilon. */
static void rms_norm(layer_test *test, const layer_case *options) {
  tdm_rms_norm_options chosen =
      OPTIONS(tdm_rms_norm_options, o.without_affine = options->numbers[1] == 0);
  if (options->numbers[2] != 0) chosen.epsilon = options->numbers[2];
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              tdm_rms_norm_with(test->graph, "layer", x, (int)options->numbers[0], &chosen));
}

static void read_pair(const double *numbers, int64_t pair[2]) {
  pair[0] = (int64_t)numbers[0];
  pair[1] = (int64_t)numbers[1];
}

/* dimensions, out, kernel (2), stride (2), padding (2), dilation (2), groups, bias */
static void convolution(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_conv_options chosen =
      OPTIONS(tdm_conv_options, o.groups = (int64_t)numbers[10], o.without_bias = numbers[11] == 0);
  int64_t kernel[2];
  const int64_t out = (int64_t)numbers[1];
  read_pair(numbers + 2, kernel);
  read_pair(numbers + 4, chosen.stride);
  read_pair(numbers + 6, chosen.padding);
  read_pair(numbers + 8, chosen.dilation);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              numbers[0] == 1
                  ? tdm_conv1d(test->graph, "layer", x, out, kernel[0], &chosen)
                  : tdm_conv2d(test->graph, "layer", x, out, kernel[0], kernel[1], &chosen));
}

/* kind, dimensions, kernel (2), stride (2), padding (2), dilation (2), ceil, exclude, divisor */
static void pool(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_graph *graph = test->graph;
  tdm_pool_options chosen =
      OPTIONS(tdm_pool_options, o.ceil = numbers[10] != 0, o.exclude_padding = numbers[11] != 0);
  if (numbers[12] != 0) chosen.divisor = (int64_t)numbers[12];
  int64_t kernel[2];
  read_pair(numbers + 2, kernel);
  read_pair(numbers + 4, chosen.stride);
  read_pair(numbers + 6, chosen.padding);
  read_pair(numbers + 8, chosen.dilation);
  const tdm_value x = layer_parameter(test, "x");
  tdm_value y;
  if (numbers[1] == 1)
    y = numbers[0] == 0 ? tdm_max_pool1d(graph, "f", x, kernel[0], &chosen)
                        : tdm_avg_pool1d(graph, "f", x, kernel[0], &chosen);
  else
    y = numbers[0] == 0 ? tdm_max_pool2d(graph, "f", x, kernel[0], kernel[1], &chosen)
                        : tdm_avg_pool2d(graph, "f", x, kernel[0], kernel[1], &chosen);
  layer_judge(test, "y", y);
}

/* kind, dimensions, size (2) */
static void adaptive_pool(layer_test *test, const layer_case *options) {
  tdm_graph *graph = test->graph;
  int64_t size[2];
  read_pair(options->numbers + 2, size);
  const tdm_value x = layer_parameter(test, "x");
  const bool takes_maximum = options->numbers[0] == 0;
  tdm_value y;
  if (options->numbers[1] == 1)
    y = takes_maximum ? tdm_adaptive_max_pool1d(graph, "f", x, size[0])
                      : tdm_adaptive_avg_pool1d(graph, "f", x, size[0]);
  else
    y = takes_maximum ? tdm_adaptive_max_pool2d(graph, "f", x, size[0], size[1])
                      : tdm_adaptive_avg_pool2d(graph, "f", x, size[0], size[1]);
  layer_judge(test, "y", y);
}

/* Numbers of the case: epsilon, momentum, affine, statistics. */
static void batch_norm(layer_test *test, const layer_case *options) {
  const tdm_batch_norm_options chosen = OPTIONS(
      tdm_batch_norm_options, o.epsilon = options->numbers[0], o.momentum = options->numbers[1],
      o.without_affine = options->numbers[2] == 0, o.without_statistics = options->numbers[3] == 0);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_batch_norm_with(test->graph, "layer", x, &chosen));
}

/* Numbers of the case: p. */
static void dropout(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_dropout(test->graph, "f", x, options->numbers[0]));
}

/* Numbers of the case: rank. */
static void layer_norm_without_bias(layer_test *test, const layer_case *options) {
  const tdm_layer_norm_options chosen = OPTIONS(tdm_layer_norm_options, o.without_bias = true);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              tdm_layer_norm_with(test->graph, "layer", x, (int)options->numbers[0], &chosen));
}

/* Numbers of the case: groups, affine, epsilon. */
static void group_norm(layer_test *test, const layer_case *options) {
  const tdm_group_norm_options chosen =
      OPTIONS(tdm_group_norm_options, o.epsilon = options->numbers[2],
              o.without_affine = options->numbers[1] == 0);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              tdm_group_norm_with(test->graph, "layer", x, (int64_t)options->numbers[0], &chosen));
}

/* Numbers of the case: affine. */
static void instance_norm(layer_test *test, const layer_case *options) {
  const tdm_instance_norm_options chosen =
      OPTIONS(tdm_instance_norm_options, o.affine = options->numbers[0] != 0);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_instance_norm_with(test->graph, "layer", x, &chosen));
}

/* Numbers of the case: affine, momentum. */
static void tracked_instance_norm(layer_test *test, const layer_case *options) {
  const tdm_instance_norm_options chosen =
      OPTIONS(tdm_instance_norm_options, o.affine = options->numbers[0] != 0,
              o.track_statistics = true, o.momentum = options->numbers[1]);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_instance_norm_with(test->graph, "layer", x, &chosen));
}

/* Numbers of the case: size, alpha, beta, k. */
static void local_response_norm(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  layer_judge(test, "y",
              tdm_local_response_norm(test->graph, "f", layer_parameter(test, "x"),
                                      (int64_t)numbers[0], numbers[1], numbers[2], numbers[3]));
}

/* Numbers of the case: dimensions, out, kernel, stride, padding, output padding, dilation, groups,
 * bias. */
static void transposed(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const int64_t out = (int64_t)numbers[1];
  tdm_conv_transpose_options chosen =
      OPTIONS(tdm_conv_transpose_options, o.groups = (int64_t)numbers[12],
              o.without_bias = numbers[13] == 0);
  int64_t kernel[2];
  for (int i = 0; i < 2; i++) {
    kernel[i] = (int64_t)numbers[2 + i];
    chosen.stride[i] = (int64_t)numbers[4 + i];
    chosen.dilation[i] = (int64_t)numbers[10 + i];
  }
  read_pair(numbers + 6, chosen.padding);
  read_pair(numbers + 8, chosen.output_padding);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(
      test, "y",
      numbers[0] == 1
          ? tdm_conv_transpose1d(test->graph, "layer", x, out, kernel[0], &chosen)
          : tdm_conv_transpose2d(test->graph, "layer", x, out, kernel[0], kernel[1], &chosen));
}

/* Numbers of the case: linear, align, sizes. */
static void interpolate(layer_test *test, const layer_case *options) {
  int64_t sizes[2];
  const size_t count = options->number_count - 2;
  for (size_t i = 0; i < count; i++)
    sizes[i] = (int64_t)options->numbers[2 + i];
  const tdm_interpolation mode =
      options->numbers[0] != 0 ? TDM_INTERPOLATE_LINEAR : TDM_INTERPOLATE_NEAREST;
  layer_judge(test, "y",
              tdm_interpolate(test->graph, "f", layer_parameter(test, "x"), sizes, count, mode,
                              options->numbers[1] != 0));
}

const layer_builder vision_builders[] = {
    {"layer_norm_without_bias", {.build = layer_norm_without_bias}},
    {"group_norm", {.build = group_norm}},
    {"instance_norm", {.build = instance_norm}},
    {"tracked_instance_norm", {.build = tracked_instance_norm, .in_training = true}},
    {"local_response_norm", {.build = local_response_norm}},
    {"transposed", {.build = transposed}},
    {"interpolate", {.build = interpolate}},
    {"activation", {.build = activation}},
    {"mul", {.build = mul}},
    {"reduce", {.build = reduce}},
    {"layer_norm", {.build = layer_norm}},
    {"rms_norm", {.build = rms_norm}},
    {"convolution", {.build = convolution}},
    {"pool", {.build = pool}},
    {"adaptive_pool", {.build = adaptive_pool}},
    {"batch_norm", {.build = batch_norm, .in_training = true}},
    {"dropout", {.build = dropout, .in_training = true}},
    {.layer = NULL},
};
