/* Transposed convolutions of one and two dimensions: the input gradient of a convolution, plus a
 * bias. Invariant: x is the adjoint of a convolution whose input has y's shape. */
#include <math.h>
#include <string.h>

#include "layers/common.h"
#include "layers/convolution/volume.h"
#include "tandem/layers/layers.h"

/* Returns the option's number for an axis, or `flat` for axis 0 (the height) of one dimension. */
static int64_t of_axis(const int64_t numbers[2], int dimensions, int axis, int64_t flat) {
  return dimensions == 2 ? numbers[axis] : axis == 0 ? flat : numbers[0];
}

/* Fills attributes; `input` is the height and width of y. Returns false with the graph's error if a
 * number is illegal. */
static bool read_options(tdm_graph *graph, const char *name,
                         const tdm_conv_transpose_options *options, int dimensions,
                         const int64_t kernel[2], const tdm_shape *x,
                         tdm_convolution_attributes *attributes) {
  memset(attributes, 0, sizeof *attributes);
  attributes->groups = options->groups;
  bool legal = attributes->groups > 0;
  for (int axis = 0; axis < 2; axis++) {
    const int64_t stride = of_axis(options->stride, dimensions, axis, 1);
    const int64_t dilation = of_axis(options->dilation, dimensions, axis, 1);
    const int64_t padding = of_axis(options->padding, dimensions, axis, 0);
    const int64_t more = of_axis(options->output_padding, dimensions, axis, 0);
    const tdm_dim size = axis == 0 && dimensions == 1 ? 1 : x->dims[x->rank - 2 + axis];
    attributes->stride[axis] = stride;
    attributes->dilation[axis] = dilation;
    attributes->padding[axis] = padding;
    attributes->kernel[axis] = kernel[axis];
    legal = legal && tdm_layer_is_window(stride, 1) && tdm_layer_is_window(dilation, 1) &&
            tdm_layer_is_window(padding, 0) && tdm_layer_is_window(kernel[axis], 1) && more >= 0 &&
            (more == 0 || more < (stride > dilation ? stride : dilation)) &&
            tdm_layer_is_window(size, 1);
    if (!legal) break;
    attributes->input[axis] =
        (size - 1) * stride - 2 * padding + dilation * (kernel[axis] - 1) + more + 1;
    legal = attributes->input[axis] > 0;
  }
  char text[TDM_SHAPE_TEXT];
  if (!legal)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "conv_transpose %s: x is %s: its height and width must be sizes, kernel, "
                   "stride, dilation and groups positive, paddings not negative, none of them "
                   "beyond %lld, output_padding less than stride or dilation, and something must "
                   "be left",
                   name, tdm_shape_text(x, text, sizeof text), (long long)TDM_LAYER_WINDOW_MAX);
  return legal;
}

/* Pads x with zeros after its last elements, one row for each full stride of output padding, so
 * that a convolution of y has x's size. */
static tdm_value pad_behind(tdm_graph *graph, const char *name, tdm_value x,
                            const tdm_conv_transpose_options *options, int dimensions,
                            const tdm_convolution_attributes *attributes) {
  int64_t amounts[4] = {0}; /* last dimension first */
  for (int axis = 2 - dimensions; axis < 2; axis++)
    amounts[2 * (1 - axis) + 1] =
        of_axis(options->output_padding, dimensions, axis, 0) / attributes->stride[axis];
  if (amounts[1] == 0 && amounts[3] == 0) return x;
  return tdm_pad(graph, name, x, amounts, 2 * (size_t)dimensions, TDM_PAD_CONSTANT, 0);
}

/* Appends the operation with an existing weight and no bias. All dimensions of x except n are
 * sizes. */
static tdm_value make_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                         int dimensions, const int64_t kernel[2],
                         const tdm_conv_transpose_options *options) {
  tdm_convolution_attributes attributes;
  const tdm_shape shape = tdm_value_shape(graph, x);
  if (!tdm_value_is_valid(weight) ||
      !read_options(graph, name, options, dimensions, kernel, &shape, &attributes))
    return TDM_NO_VALUE;
  const tdm_value operands[] = {pad_behind(graph, name, x, options, dimensions, &attributes),
                                weight};
  return tdm_append(graph, &tdm_operation_convolution_input_gradient, name, &attributes, operands,
                    2, NULL);
}

tdm_value tdm_conv_transpose_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                                const tdm_conv_transpose_options *options) {
  const tdm_shape shape = tdm_value_shape(graph, weight);
  const int64_t kernel[2] = {shape.dims[2], shape.dims[3]};
  return make_of(graph, name, x, weight, 2, kernel, options);
}

static tdm_value make(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                      int dimensions, const int64_t kernel[2],
                      const tdm_conv_transpose_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_conv_transpose_options chosen;
  if (!tdm_layer_options(graph, "conv_transpose", name, conv_transpose, options, &chosen) ||
      !tdm_layer_accepts(graph, "conv_transpose", name, x))
    return TDM_NO_VALUE;
  tdm_shape shape = tdm_value_shape(graph, x);
  const bool single = shape.rank == dimensions + 1; /* x is one image without a batch */
  if (single) x = tdm_unsqueeze(graph, name, x, 0);
  shape = tdm_value_shape(graph, x);
  const int64_t groups = chosen.groups;
  char text[TDM_SHAPE_TEXT];
  if (shape.rank != dimensions + 2 || !tdm_dim_is_size(shape.dims[1]) || groups < 1 ||
      shape.dims[1] % groups != 0 || out_channels % groups != 0 || out_channels < 1)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "conv_transpose %s: x must have %d dimensions, or one less, and %lld "
                          "groups must divide its channels and %lld; x is %s",
                          name, dimensions + 2, (long long)groups, (long long)out_channels,
                          tdm_shape_text(&shape, text, sizeof text));
  tdm_shape weight = tdm_shape_of(4, shape.dims[1], out_channels / groups, kernel[0], kernel[1]);
  if (dimensions == 1) weight = tdm_shape_of(3, weight.dims[0], weight.dims[1], kernel[1]);
  const double fan_in = (double)weight.dims[1] * (double)kernel[0] * (double)kernel[1];
  const double bound = 1.0 / sqrt(fan_in);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  const tdm_value y =
      make_of(graph, name, x, tdm_layer_parameter(graph, name, ".weight", weight, &uniform),
              dimensions, kernel, &chosen);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  tdm_value biased = y;
  if (!chosen.without_bias) {
    const tdm_value bias =
        tdm_layer_parameter(graph, name, ".bias", tdm_shape_of(1, out_channels), &uniform);
    const tdm_shape aligned =
        dimensions == 1 ? tdm_shape_of(2, out_channels, 1) : tdm_shape_of(3, out_channels, 1, 1);
    biased = tdm_add(graph, name, y, tdm_reshape(graph, name, bias, aligned));
  }
  return single && tdm_value_is_valid(biased) ? tdm_squeeze(graph, name, biased, 0) : biased;
}

tdm_value tdm_conv_transpose2d(tdm_graph *graph, const char *name, tdm_value x,
                               int64_t out_channels, int64_t kernel_height, int64_t kernel_width,
                               const tdm_conv_transpose_options *options) {
  const int64_t kernel[2] = {kernel_height, kernel_width};
  return make(graph, name, x, out_channels, 2, kernel, options);
}

tdm_value tdm_conv_transpose1d(tdm_graph *graph, const char *name, tdm_value x,
                               int64_t out_channels, int64_t kernel,
                               const tdm_conv_transpose_options *options) {
  const int64_t both[2] = {1, kernel};
  return make(graph, name, x, out_channels, 1, both, options);
}
