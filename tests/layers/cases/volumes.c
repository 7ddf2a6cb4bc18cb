/* Builders of the golden cases of tests/golden/volumes_cases.py. */
#include "tests/layers/layer_cases.h"
#include "tests/options.h"

enum { AXES = 3 };

/* Returns the next three of a case's numbers. */
static const double *take(const double *numbers, int64_t out[AXES]) {
  for (int i = 0; i < AXES; i++)
    out[i] = (int64_t)numbers[i];
  return numbers + AXES;
}

/* dimensions, kernel (2), same, padding, dilation, groups, mode */
static void padded(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_value x = layer_parameter(test, "x");
  const int64_t height = (int64_t)numbers[1], width = (int64_t)numbers[2];
  const int64_t padding = (int64_t)numbers[4];
  const tdm_conv_options chosen =
      OPTIONS(tdm_conv_options, o.same = numbers[3] != 0, o.padding[0] = o.padding[1] = padding,
              o.dilation[0] = (int64_t)numbers[5], o.dilation[1] = (int64_t)numbers[5],
              o.groups = (int64_t)numbers[6], o.padding_mode = (tdm_pad_mode)numbers[7]);
  layer_judge(test, "y",
              numbers[0] == 1 ? tdm_conv1d(test->graph, "layer", x, 4, width, &chosen)
                              : tdm_conv2d(test->graph, "layer", x, 4, height, width, &chosen));
}

/* Numbers of the case: dimensions. */
static void transposed_image(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  const tdm_conv_transpose_options chosen =
      OPTIONS(tdm_conv_transpose_options, o.stride[0] = o.stride[1] = 2);
  layer_judge(test, "y",
              options->numbers[0] == 1
                  ? tdm_conv_transpose1d(test->graph, "layer", x, 3, 2, &chosen)
                  : tdm_conv_transpose2d(test->graph, "layer", x, 3, 2, 2, &chosen));
}

/* Numbers of the case: dimensions, maximum, adaptive. */
static void pooled_image(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  const bool flat = options->numbers[0] == 1, maximum = options->numbers[1] != 0;
  tdm_graph *graph = test->graph;
  tdm_value y;
  if (options->numbers[2] != 0)
    y = flat ? (maximum ? tdm_adaptive_max_pool1d : tdm_adaptive_avg_pool1d)(graph, "f", x, 2)
             : (maximum ? tdm_adaptive_max_pool2d : tdm_adaptive_avg_pool2d)(graph, "f", x, 2, 2);
  else
    y = flat ? (maximum ? tdm_max_pool1d : tdm_avg_pool1d)(graph, "f", x, 2, NULL)
             : (maximum ? tdm_max_pool2d : tdm_avg_pool2d)(graph, "f", x, 2, 2, NULL);
  layer_judge(test, "y", y);
}

/* Numbers of the case: out, kernel, stride, padding, dilation, groups, bias. */
static void convolution3d(layer_test *test, const layer_case *options) {
  tdm_conv3d_options chosen = tdm_conv3d_options_default();
  int64_t kernel[AXES];
  const double *numbers = take(options->numbers + 1, kernel);
  numbers = take(numbers, chosen.stride);
  numbers = take(numbers, chosen.padding);
  numbers = take(numbers, chosen.dilation);
  chosen.groups = (int64_t)numbers[0];
  chosen.without_bias = numbers[1] == 0;
  layer_judge(test, "y",
              tdm_conv3d(test->graph, "layer", layer_parameter(test, "x"),
                         (int64_t)options->numbers[0], kernel, &chosen));
}

/* Numbers of the case: kernel, same, padding, dilation, mode. */
static void padded3d(layer_test *test, const layer_case *options) {
  tdm_conv3d_options chosen = tdm_conv3d_options_default();
  int64_t kernel[AXES];
  const double *numbers = take(options->numbers, kernel);
  chosen.same = numbers[0] != 0;
  for (int i = 0; i < AXES; i++)
    chosen.padding[i] = (int64_t)numbers[1];
  for (int i = 0; i < AXES; i++)
    chosen.dilation[i] = (int64_t)numbers[2];
  chosen.padding_mode = (tdm_pad_mode)numbers[3];
  layer_judge(test, "y",
              tdm_conv3d(test->graph, "layer", layer_parameter(test, "x"), 4, kernel, &chosen));
}

/* Numbers of the case: out, kernel, stride, padding, output_padding, dilation, groups, bias. */
static void transposed3d(layer_test *test, const layer_case *options) {
  tdm_conv_transpose3d_options chosen = tdm_conv_transpose3d_options_default();
  int64_t kernel[AXES];
  const double *numbers = take(options->numbers + 1, kernel);
  numbers = take(numbers, chosen.stride);
  numbers = take(numbers, chosen.padding);
  numbers = take(numbers, chosen.output_padding);
  numbers = take(numbers, chosen.dilation);
  chosen.groups = (int64_t)numbers[0];
  chosen.without_bias = numbers[1] == 0;
  layer_judge(test, "y",
              tdm_conv_transpose3d(test->graph, "layer", layer_parameter(test, "x"),
                                   (int64_t)options->numbers[0], kernel, &chosen));
}

/* kernel, stride, padding, dilation (0: the average), ceil, exclude, divisor */
static void pool3d(layer_test *test, const layer_case *options) {
  tdm_pool3d_options chosen = tdm_pool3d_options_default();
  int64_t kernel[AXES];
  const double *numbers = take(options->numbers, kernel);
  numbers = take(numbers, chosen.stride);
  numbers = take(numbers, chosen.padding);
  numbers = take(numbers, chosen.dilation);
  chosen.ceil = numbers[0] != 0;
  chosen.exclude_padding = numbers[1] != 0;
  if (numbers[2] != 0) chosen.divisor = (int64_t)numbers[2];
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              (chosen.dilation[0] > 0 ? tdm_max_pool3d : tdm_avg_pool3d)(test->graph, "f", x,
                                                                         kernel, &chosen));
}

/* Numbers of the case: rank, kernel, stride, padding, dilation, ceil, whether no windows overlap,
 * sizes of x. */
static void pool_indices(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const int64_t kernel = (int64_t)numbers[1], stride = (int64_t)numbers[2];
  const int64_t padding = (int64_t)numbers[3], dilation = (int64_t)numbers[4];
  const tdm_pool_options chosen = OPTIONS(
      tdm_pool_options, o.stride[0] = o.stride[1] = stride, o.padding[0] = o.padding[1] = padding,
      o.dilation[0] = o.dilation[1] = dilation, o.ceil = numbers[5] != 0);
  const tdm_pool3d_options deep =
      OPTIONS(tdm_pool3d_options, o.stride[0] = o.stride[1] = o.stride[2] = stride,
              o.padding[0] = o.padding[1] = o.padding[2] = padding,
              o.dilation[0] = o.dilation[1] = o.dilation[2] = dilation, o.ceil = numbers[5] != 0);
  const int64_t cube[] = {kernel, kernel, kernel};
  const int rank = (int)numbers[0];
  const tdm_value x = layer_parameter(test, "x");
  tdm_graph *graph = test->graph;
  tdm_value indices;
  const tdm_value y =
      rank == 1   ? tdm_max_pool1d_with_indices(graph, "f", x, kernel, &chosen, &indices)
      : rank == 2 ? tdm_max_pool2d_with_indices(graph, "f", x, kernel, kernel, &chosen, &indices)
                  : tdm_max_pool3d_with_indices(graph, "f", x, cube, &deep, &indices);
  int64_t sizes[AXES] = {0};
  for (int i = 0; i < rank; i++)
    sizes[i] = (int64_t)numbers[7 + i];
  const tdm_value unpooled = tdm_max_unpool(graph, "g", y, indices, sizes, (size_t)rank);
  layer_output(test, "indices", indices);
  if (numbers[6] != 0)
    layer_judge(test, "unpooled", unpooled);
  else
    layer_output(test, "unpooled", unpooled);
  layer_judge(test, "y", y);
}

/* Numbers of the case: sizes. */
static void adaptive_indices(layer_test *test, const layer_case *options) {
  int64_t sizes[AXES] = {0};
  for (size_t i = 0; i < options->number_count; i++)
    sizes[i] = (int64_t)options->numbers[i];
  const tdm_value x = layer_parameter(test, "x");
  tdm_graph *graph = test->graph;
  tdm_value indices;
  layer_judge(
      test, "y",
      options->number_count == 1
          ? tdm_adaptive_max_pool1d_with_indices(graph, "f", x, sizes[0], &indices)
      : options->number_count == 2
          ? tdm_adaptive_max_pool2d_with_indices(graph, "f", x, sizes[0], sizes[1], &indices)
          : tdm_adaptive_max_pool3d_with_indices(graph, "f", x, sizes, &indices));
  layer_output(test, "indices", indices);
}

/* Numbers of the case: maximum, sizes. */
static void adaptive3d(layer_test *test, const layer_case *options) {
  int64_t sizes[AXES];
  take(options->numbers + 1, sizes);
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              (options->numbers[0] != 0 ? tdm_adaptive_max_pool3d
                                        : tdm_adaptive_avg_pool3d)(test->graph, "f", x, sizes));
}

/* Numbers of the case: affine. */
static void batch_norm3d(layer_test *test, const layer_case *options) {
  const tdm_batch_norm_options chosen =
      OPTIONS(tdm_batch_norm_options, o.without_affine = options->numbers[0] == 0);
  layer_judge(test, "y",
              tdm_batch_norm_with(test->graph, "layer", layer_parameter(test, "x"), &chosen));
}

static void instance_norm3d(layer_test *test, const layer_case *options) {
  (void)options;
  const tdm_instance_norm_options chosen = OPTIONS(tdm_instance_norm_options, o.affine = true);
  layer_judge(test, "y",
              tdm_instance_norm_with(test->graph, "layer", layer_parameter(test, "x"), &chosen));
}

/* Numbers of the case: cubic, align_corners, sizes. */
static void resized(layer_test *test, const layer_case *options) {
  int64_t sizes[AXES];
  const size_t count = options->number_count - 2;
  for (size_t i = 0; i < count; i++)
    sizes[i] = (int64_t)options->numbers[2 + i];
  layer_judge(
      test, "y",
      tdm_interpolate(test->graph, "f", layer_parameter(test, "x"), sizes, count,
                      options->numbers[0] != 0 ? TDM_INTERPOLATE_CUBIC : TDM_INTERPOLATE_LINEAR,
                      options->numbers[1] != 0));
}

const layer_builder volumes_builders[] = {
    {"padded", {.build = padded}},
    {"transposed_image", {.build = transposed_image}},
    {"pooled_image", {.build = pooled_image}},
    {"convolution3d", {.build = convolution3d}},
    {"padded3d", {.build = padded3d}},
    {"transposed3d", {.build = transposed3d}},
    {"pool3d", {.build = pool3d}},
    {"pool_indices", {.build = pool_indices}},
    {"adaptive_indices", {.build = adaptive_indices}},
    {"adaptive3d", {.build = adaptive3d}},
    {"batch_norm3d", {.build = batch_norm3d, .in_training = true}},
    {"instance_norm3d", {.build = instance_norm3d}},
    {"resized", {.build = resized}},
    {.layer = NULL},
};
