/* Convolutions of one and two dimensions, which are one operation. Invariant: attributes always
 * describe two dimensions; in one dimension, the height has kernel 1, padding 0 and stride 1. */
#include <math.h>
#include <string.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { X, WEIGHT, BIAS };

/* Returns the dimension of the shape that axis of the attributes refers to, or -1 if x has no
 * height. */
static int dimension_of(const tdm_shape *shape, int axis) {
  const int dimension = shape->rank - 2 + axis;
  return dimension < 2 ? -1 : dimension;
}

static tdm_status expect_channels(const tdm_infer *infer, int64_t groups) {
  const tdm_dim has = tdm_infer_shape(infer, X)->dims[1];
  const tdm_shape *weight = tdm_infer_shape(infer, WEIGHT);
  if (tdm_dim_agree(has, weight->dims[1] * groups) && weight->dims[0] % groups == 0) return TDM_OK;
  char text[24];
  char weight_text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "x has %s channels, weight is %s, in %lld groups",
                  tdm_dim_text(has, text), tdm_shape_text(weight, weight_text, sizeof weight_text),
                  (long long)groups);
}

static tdm_status infer_size(const tdm_convolution_attributes *attributes, int axis, tdm_dim size,
                             tdm_dim kernel, tdm_dim *out_size) {
  *out_size = TDM_DIM_UNKNOWN;
  if (!tdm_dim_is_size(size)) return TDM_OK;
  /* All factors are at most TDM_LAYER_WINDOW_MAX, so no product overflows. */
  const int64_t reach = attributes->dilation[axis] * (kernel - 1) + 1;
  const int64_t room = size + 2 * attributes->padding[axis] - reach;
  if (room < 0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "a kernel that reaches over %lld does not fit into %lld with padding %lld",
                    (long long)reach, (long long)size, (long long)attributes->padding[axis]);
  *out_size = room / attributes->stride[axis] + 1;
  return TDM_OK;
}

/* Checks the size of x with its padding, because kernels may store it so. */
static tdm_status check_padded(const tdm_infer *infer) {
  const tdm_convolution_attributes *attributes = infer->attributes;
  tdm_shape padded = *tdm_infer_shape(infer, X);
  for (int axis = 0; axis < 2; axis++) {
    const int d = dimension_of(&padded, axis);
    if (d >= 0 && tdm_dim_is_size(padded.dims[d])) padded.dims[d] += 2 * attributes->padding[axis];
  }
  if (!tdm_shape_is_concrete(&padded) || tdm_shape_bytes(&padded, infer->inputs[X].dtype) >= 0)
    return TDM_OK;
  char text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "with its padding x is %s, which is larger than any memory",
                  tdm_shape_text(&padded, text, sizeof text));
}

static tdm_status infer_convolution(tdm_infer *infer) {
  const tdm_convolution_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, X, "x"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, WEIGHT, "x", "weight"));
  const tdm_shape *x = tdm_infer_shape(infer, X);
  const tdm_shape *weight = tdm_infer_shape(infer, WEIGHT);
  TDM_TRY(tdm_expect_rank(infer, WEIGHT, "weight", 3, 4));
  TDM_TRY(tdm_expect_rank(infer, X, "x", weight->rank, weight->rank));
  TDM_TRY(expect_channels(infer, attributes->groups));
  const tdm_shape channels = {.rank = 1, .dims = {weight->dims[0]}};
  if (tdm_infer_has(infer, BIAS)) {
    TDM_TRY(tdm_expect_dtype_of_first(infer, BIAS, "x", "bias"));
    TDM_TRY(tdm_expect_shape(infer, BIAS, "bias", &channels));
  }
  tdm_shape out = *x;
  out.dims[1] = weight->dims[0];
  for (int axis = 0; axis < 2; axis++) {
    const int d = dimension_of(x, axis);
    if (d >= 0) TDM_TRY(infer_size(attributes, axis, x->dims[d], weight->dims[d], &out.dims[d]));
  }
  tdm_infer_set(infer, 0, infer->inputs[X].dtype, &out);
  return check_padded(infer);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* d_y, weight -> d_x. */
static tdm_status infer_input_gradient(tdm_infer *infer) {
  const tdm_convolution_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "x", "weight"));
  tdm_shape d_x = *tdm_infer_shape(infer, 0);
  d_x.dims[1] = tdm_infer_shape(infer, 1)->dims[1] * attributes->groups;
  for (int axis = 0; axis < 2; axis++)
    if (dimension_of(&d_x, axis) >= 0) d_x.dims[dimension_of(&d_x, axis)] = attributes->input[axis];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_x);
  return TDM_OK;
}

/* d_y, x -> d_weight, d_bias. */
static tdm_status infer_parameter_gradient(tdm_infer *infer) {
  const tdm_convolution_attributes *attributes = infer->attributes;
  tdm_shape d_weight = *tdm_infer_shape(infer, 1);
  const tdm_dim in = d_weight.dims[1];
  d_weight.dims[0] = tdm_infer_shape(infer, 0)->dims[1];
  d_weight.dims[1] = tdm_dim_is_size(in) ? in / attributes->groups : TDM_DIM_UNKNOWN;
  for (int axis = 0; axis < 2; axis++) {
    const int d = dimension_of(&d_weight, axis);
    if (d >= 0) d_weight.dims[d] = attributes->kernel[axis];
  }
  const tdm_shape d_bias = {.rank = 1, .dims = {d_weight.dims[0]}};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_weight);
  tdm_infer_set(infer, 1, infer->inputs[0].dtype, &d_bias);
  return TDM_OK;
}

static tdm_status append_transposed_gradient(tdm_gradient *gradient);

const tdm_operation tdm_operation_convolution_input_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CONVOLUTION_INPUT_GRADIENT,
    .attribute_bytes = sizeof(tdm_convolution_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_input_gradient,
    .gradient = append_transposed_gradient,
    .work = tdm_work_products_input,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation parameter_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CONVOLUTION_PARAMETER_GRADIENT,
    .attribute_bytes = sizeof(tdm_convolution_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 2,
    .infer = infer_parameter_gradient,
    .work = tdm_work_products_parameter,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  const tdm_value x = tdm_gradient_input(gradient, X);
  const tdm_value weight = tdm_gradient_input(gradient, WEIGHT);
  const tdm_shape x_shape = tdm_value_shape(graph, x);
  tdm_convolution_attributes attributes;
  memcpy(&attributes, tdm_gradient_attributes(gradient), sizeof attributes);
  for (int axis = 0; axis < 2; axis++) {
    const int d = dimension_of(&x_shape, axis);
    attributes.input[axis] = d < 0 ? 1 : x_shape.dims[d];
  }
  if (tdm_gradient_wanted(gradient, WEIGHT) || tdm_gradient_wanted(gradient, BIAS)) {
    const tdm_value operands[] = {d_y, x};
    tdm_value outputs[2];
    tdm_append(graph, &parameter_gradient, name, &attributes, operands, 2, outputs);
    for (size_t i = 0; i < 2; i++)
      if (tdm_gradient_wanted(gradient, WEIGHT + i))
        tdm_gradient_set(gradient, WEIGHT + i, outputs[i]);
  }
  if (tdm_gradient_wanted(gradient, X)) {
    const tdm_value operands[] = {d_y, weight};
    tdm_gradient_set(gradient, X,
                     tdm_append(graph, &tdm_operation_convolution_input_gradient, name, &attributes,
                                operands, 2, NULL));
  }
  return tdm_graph_status(graph);
}

static tdm_status chunk_convolution(tdm_chunked *chunked) {
  const tdm_convolution_attributes *attributes = tdm_chunked_attributes(chunked);
  const tdm_shape weight = tdm_chunked_shape(chunked, WEIGHT);
  bool is_alone[2] = {true, true};
  for (int axis = 0; axis < 2; axis++) {
    const int d = dimension_of(&weight, axis);
    if (d >= 0)
      is_alone[axis] =
          weight.dims[d] == 1 && attributes->stride[axis] == 1 && attributes->padding[axis] == 0;
  }
  return tdm_chunk_windows(chunked, is_alone);
}

static const tdm_operation convolution = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CONVOLUTION,
    .attribute_bytes = sizeof(tdm_convolution_attributes),
    .min_inputs = 2,
    .max_inputs = 3,
    .output_count = 1,
    .infer = infer_convolution,
    .gradient = append_gradient,
    .chunk = chunk_convolution,
    .work = tdm_work_products,
    .precision = TDM_PRECISION_LOWER,
};

/* Appends the gradient of a transposed convolution, which is the gradient of a convolution's input
 * as a layer. The gradient of its x is a convolution of the adjoint d_y. */
static tdm_status append_transposed_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const void *attributes = tdm_gradient_attributes(gradient);
  const tdm_value x = tdm_gradient_input(gradient, 0), weight = tdm_gradient_input(gradient, 1);
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  if (tdm_gradient_wanted(gradient, 0)) {
    const tdm_value operands[] = {d_y, weight, {0, 0}}; /* no bias */
    tdm_gradient_set(gradient, 0,
                     tdm_append(graph, &convolution, name, attributes, operands, 3, NULL));
  }
  if (tdm_gradient_wanted(gradient, 1)) {
    const tdm_value operands[] = {x, d_y};
    tdm_value outputs[2];
    tdm_append(graph, &parameter_gradient, name, attributes, operands, 2, outputs);
    tdm_gradient_set(gradient, 1, outputs[0]);
  }
  return tdm_graph_status(graph);
}

TDM_RECORDS(convolution,
            {.operation = &convolution, .functions = "tdm_conv1d tdm_conv2d tdm_conv3d"},
            {.operation = &tdm_operation_convolution_input_gradient,
             .functions = "tdm_conv_transpose1d tdm_conv_transpose2d tdm_conv_transpose3d"},
            {.operation = &parameter_gradient});

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Fills attributes from the options of a convolution of `dimensions` dimensions. Returns false with
 * the graph's error if a number is illegal. */
static bool read_options(tdm_graph *graph, const char *name, const tdm_conv_options *options,
                         int dimensions, const int64_t kernel[2],
                         tdm_convolution_attributes *attributes) {
  memset(attributes, 0, sizeof *attributes);
  attributes->groups = options->groups;
  bool legal = attributes->groups > 0;
  for (int axis = 0; axis < 2; axis++) {
    const bool flat = dimensions == 1 && axis == 0;
    const int from = dimensions == 1 ? 0 : axis;
    attributes->stride[axis] = flat ? 1 : options->stride[from];
    attributes->dilation[axis] = flat ? 1 : options->dilation[from];
    attributes->padding[axis] = flat ? 0 : options->padding[from];
    attributes->kernel[axis] = kernel[axis];
    legal = legal && tdm_layer_is_window(attributes->stride[axis], 1) &&
            tdm_layer_is_window(attributes->dilation[axis], 1) &&
            tdm_layer_is_window(attributes->padding[axis], 0) &&
            tdm_layer_is_window(kernel[axis], 1);
  }
  if (!legal)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "convolution %s: kernel, stride, dilation and groups must be positive, "
                   "padding not negative, and none of them beyond %lld; kernel is %lld x %lld, "
                   "stride %lld x %lld, padding %lld x %lld, dilation %lld x %lld, groups %lld",
                   name, (long long)TDM_LAYER_WINDOW_MAX, (long long)kernel[0],
                   (long long)kernel[1], (long long)attributes->stride[0],
                   (long long)attributes->stride[1], (long long)attributes->padding[0],
                   (long long)attributes->padding[1], (long long)attributes->dilation[0],
                   (long long)attributes->dilation[1], (long long)attributes->groups);
  return legal;
}

tdm_value tdm_convolution_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                             const tdm_convolution_attributes *attributes) {
  const tdm_value operands[3] = {x, weight};
  return tdm_append(graph, &convolution, name, attributes, operands, 3, NULL);
}

/* Applies the padding that the options define, also for `same`. Equal numbers of zeros on both
 * sides go into the attributes; any other padding is an operation on x before the convolution.
 * Returns false with the graph's error. */
static bool pad_input(tdm_graph *graph, const char *name, int dimensions,
                      const tdm_conv_options *options, tdm_convolution_attributes *attributes,
                      tdm_value *x) {
  int64_t amounts[4] = {0}; /* last dimension first */
  bool legal = true, alike = options->padding_mode == TDM_PAD_CONSTANT;
  for (int axis = 2 - dimensions; axis < 2; axis++) {
    const int64_t given = attributes->padding[axis];
    const int64_t total = attributes->dilation[axis] * (attributes->kernel[axis] - 1);
    const int64_t before = options->same ? total / 2 : given;
    const int64_t after = options->same ? total - before : given;
    legal = legal && tdm_layer_is_window(after, 0) &&
            (!options->same || (given == 0 && attributes->stride[axis] == 1));
    alike = alike && before == after;
    amounts[2 * (1 - axis)] = before;
    amounts[2 * (1 - axis) + 1] = after;
  }
  if (!legal)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "convolution %s: with `same` strides are 1, no padding is given, and none is "
                   "beyond %lld; stride is %lld x %lld, padding %lld x %lld",
                   name, (long long)TDM_LAYER_WINDOW_MAX, (long long)attributes->stride[0],
                   (long long)attributes->stride[1], (long long)attributes->padding[0],
                   (long long)attributes->padding[1]);
  if (!legal) return false;
  for (int axis = 2 - dimensions; axis < 2; axis++)
    attributes->padding[axis] = alike ? amounts[2 * (1 - axis)] : 0;
  if (!alike)
    *x = tdm_pad(graph, name, *x, amounts, 2 * (size_t)dimensions, options->padding_mode, 0);
  return tdm_value_is_valid(*x);
}

static tdm_value make_convolution(tdm_graph *graph, const char *name, tdm_value x,
                                  int64_t out_channels, int dimensions, const int64_t kernel[2],
                                  const tdm_conv_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_conv_options chosen;
  tdm_convolution_attributes attributes;
  if (!tdm_layer_options(graph, "convolution", name, conv, options, &chosen) ||
      !tdm_layer_accepts(graph, "convolution", name, x) ||
      !read_options(graph, name, &chosen, dimensions, kernel, &attributes))
    return TDM_NO_VALUE;
  tdm_shape shape = tdm_value_shape(graph, x);
  const bool single = shape.rank == dimensions + 1; /* x is one image without a batch */
  if (single) x = tdm_unsqueeze(graph, name, x, 0);
  shape = tdm_value_shape(graph, x);
  if (shape.rank != dimensions + 2 || !tdm_dim_is_size(shape.dims[1]) ||
      shape.dims[1] % attributes.groups != 0 || out_channels % attributes.groups != 0) {
    char text[TDM_SHAPE_TEXT];
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "convolution %s: x must have %d dimensions, or one less, and %lld groups "
                          "must divide its channels and %lld; x is %s",
                          name, dimensions + 2, (long long)attributes.groups,
                          (long long)out_channels, tdm_shape_text(&shape, text, sizeof text));
  }
  if (!pad_input(graph, name, dimensions, &chosen, &attributes, &x)) return TDM_NO_VALUE;
  tdm_shape weight =
      tdm_shape_of(4, out_channels, shape.dims[1] / attributes.groups, kernel[0], kernel[1]);
  if (dimensions == 1) weight = tdm_shape_of(3, weight.dims[0], weight.dims[1], kernel[1]);
  const double fan_in = (double)weight.dims[1] * (double)kernel[0] * (double)kernel[1];
  const double bound = fan_in > 0 ? 1.0 / sqrt(fan_in) : 0.0;
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  tdm_value operands[3] = {x};
  operands[WEIGHT] = tdm_layer_parameter(graph, name, ".weight", weight, &uniform);
  if (!chosen.without_bias)
    operands[BIAS] =
        tdm_layer_parameter(graph, name, ".bias", tdm_shape_of(1, out_channels), &uniform);
  const tdm_value y = tdm_append(graph, &convolution, name, &attributes, operands, 3, NULL);
  return single && tdm_value_is_valid(y) ? tdm_squeeze(graph, name, y, 0) : y;
}

tdm_value tdm_conv2d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                     int64_t kernel_height, int64_t kernel_width, const tdm_conv_options *options) {
  const int64_t kernel[2] = {kernel_height, kernel_width};
  return make_convolution(graph, name, x, out_channels, 2, kernel, options);
}

tdm_value tdm_conv1d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                     int64_t kernel, const tdm_conv_options *options) {
  const int64_t both[2] = {1, kernel};
  return make_convolution(graph, name, x, out_channels, 1, both, options);
}
