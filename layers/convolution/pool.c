/* Maximum and average pooling in one and two dimensions, also adaptive. Invariant: attributes
 * always describe two dimensions; in one dimension, the window's height is 1. */
#include <string.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

static int dimension_of(const tdm_shape *shape, int axis) {
  const int dimension = shape->rank - 2 + axis;
  return dimension < 2 ? -1 : dimension;
}

/* Returns the number of windows along `size` elements, or -1 if none fits. */
static int64_t window_count(const tdm_pool_attributes *attributes, int axis, int64_t size) {
  const int64_t stride = attributes->stride[axis], padding = attributes->padding[axis];
  const int64_t reach = attributes->dilation[axis] * (attributes->kernel[axis] - 1) + 1;
  const int64_t room = size + 2 * padding - reach + (attributes->ceil != 0 ? stride - 1 : 0);
  if (room < 0) return -1;
  const int64_t count = room / stride + 1;
  return attributes->ceil != 0 && (count - 1) * stride >= size + padding
             ? count - 1
             : count; /* start in x or its padding */
}

/* Returns true if each window contains an element of x. Only the first window has to be checked:
 * its first element after the padding must exist. If the dilation exceeds the size of x, there is
 * no other window. */
static bool has_elements(const tdm_pool_attributes *attributes, int axis, int64_t size) {
  const int64_t dilation = attributes->dilation[axis];
  const int64_t before = attributes->padding[axis] % dilation;
  return size > (before > 0 ? dilation - before : 0);
}

static tdm_status infer_size(const tdm_pool_attributes *attributes, int axis, tdm_dim size,
                             tdm_dim *out_size) {
  const bool adaptive = attributes->adaptive != 0;
  *out_size = adaptive ? attributes->output[axis] : TDM_DIM_UNKNOWN;
  if (!tdm_dim_is_size(size) || (adaptive && size > 0)) return TDM_OK;
  if (adaptive) return tdm_fail(TDM_INVALID_ARGUMENT, "there is no element to share out");
  if (!has_elements(attributes, axis, size))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "a window of %lld with dilation %lld and padding %lld holds none of %lld "
                    "elements",
                    (long long)attributes->kernel[axis], (long long)attributes->dilation[axis],
                    (long long)attributes->padding[axis], (long long)size);
  *out_size = window_count(attributes, axis, size);
  if (*out_size > 0) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "no window of %lld fits into %lld with padding %lld",
                  (long long)attributes->kernel[axis], (long long)size,
                  (long long)attributes->padding[axis]);
}

static tdm_status infer_pool(tdm_infer *infer) {
  const tdm_pool_attributes *attributes = infer->attributes;
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  TDM_TRY(tdm_expect_rank(infer, 0, "x", 3, 4));
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  tdm_shape out = *x;
  for (int axis = 0; axis < 2; axis++) {
    const int d = dimension_of(x, axis);
    if (d >= 0) TDM_TRY(infer_size(attributes, axis, x->dims[d], &out.dims[d]));
  }
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &out);
  if (infer->output_count > 1) tdm_infer_set(infer, 1, TDM_INT32, &out);
  return TDM_OK;
}

static tdm_status infer_gradient(tdm_infer *infer) {
  const tdm_pool_attributes *attributes = infer->attributes;
  tdm_shape d_x = *tdm_infer_shape(infer, 0);
  for (int axis = 0; axis < 2; axis++)
    if (dimension_of(&d_x, axis) >= 0) d_x.dims[dimension_of(&d_x, axis)] = attributes->input[axis];
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &d_x);
  return TDM_OK;
}

static const tdm_operation max_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_MAX_POOL_GRADIENT,
    .attribute_bytes = sizeof(tdm_pool_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation average_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_AVERAGE_POOL_GRADIENT,
    .attribute_bytes = sizeof(tdm_pool_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

/* d_y and, for the maximum, indices -> d_x. */
static tdm_status append_gradient(tdm_gradient *gradient, const tdm_operation *operation) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_pool_attributes attributes;
  memcpy(&attributes, tdm_gradient_attributes(gradient), sizeof attributes);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  for (int axis = 0; axis < 2; axis++) {
    const int d = dimension_of(&x, axis);
    attributes.input[axis] = d < 0 ? 1 : x.dims[d];
  }
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_output(gradient, 1)};
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, operation, tdm_gradient_name(gradient), &attributes, operands,
                              operation->min_inputs, NULL));
  return tdm_graph_status(graph);
}

static tdm_status append_max_gradient(tdm_gradient *gradient) {
  return append_gradient(gradient, &max_gradient);
}

static tdm_status append_average_gradient(tdm_gradient *gradient) {
  return append_gradient(gradient, &average_gradient);
}

static tdm_status chunk_pool(tdm_chunked *chunked) {
  const tdm_pool_attributes *attributes = tdm_chunked_attributes(chunked);
  bool is_alone[2];
  for (int axis = 0; axis < 2; axis++)
    is_alone[axis] = attributes->adaptive == 0 && attributes->kernel[axis] == 1 &&
                     attributes->stride[axis] == 1 && attributes->padding[axis] == 0;
  return tdm_chunk_windows(chunked, is_alone);
}

static const tdm_operation max_pool = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_MAX_POOL,
    .attribute_bytes = sizeof(tdm_pool_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 2,
    .infer = infer_pool,
    .gradient = append_max_gradient,
    .chunk = chunk_pool,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static const tdm_operation average_pool = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_AVERAGE_POOL,
    .attribute_bytes = sizeof(tdm_pool_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_pool,
    .gradient = append_average_gradient,
    .chunk = chunk_pool,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(
    pool,
    {.operation = &max_pool,
     .functions = "tdm_max_pool1d tdm_max_pool2d tdm_adaptive_max_pool1d tdm_adaptive_max_pool2d "
                  "tdm_max_pool3d tdm_adaptive_max_pool3d tdm_max_pool1d_with_indices "
                  "tdm_max_pool2d_with_indices tdm_max_pool3d_with_indices "
                  "tdm_adaptive_max_pool1d_with_indices tdm_adaptive_max_pool2d_with_indices "
                  "tdm_adaptive_max_pool3d_with_indices"},
    {.operation = &max_gradient},
    {.operation = &average_pool,
     .functions = "tdm_avg_pool1d tdm_avg_pool2d tdm_adaptive_avg_pool1d tdm_adaptive_avg_pool2d "
                  "tdm_avg_pool3d tdm_adaptive_avg_pool3d tdm_local_response_norm"},
    {.operation = &average_gradient});

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Converts x to a batch, a single image to a batch of one. Returns false with the graph's error. */
static bool accepts(tdm_graph *graph, const char *name, tdm_value *x, int dimensions,
                    bool *out_single) {
  *out_single = false;
  if (!tdm_layer_accepts(graph, "pool", name, *x)) return false;
  const tdm_shape shape = tdm_value_shape(graph, *x);
  *out_single = shape.rank == dimensions + 1;
  if (*out_single) *x = tdm_unsqueeze(graph, name, *x, 0);
  if (*out_single || shape.rank == dimensions + 2) return tdm_value_is_valid(*x);
  char text[TDM_SHAPE_TEXT];
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "pool %s: x must have %d dimensions, or one less, is %s", name, dimensions + 2,
                 tdm_shape_text(&shape, text, sizeof text));
  return false;
}

/* Appends a pooling. out_indices is used only for the maximum and may be NULL. */
static tdm_value append_pool(tdm_graph *graph, const tdm_operation *operation, const char *name,
                             tdm_value x, bool single, const tdm_pool_attributes *attributes,
                             tdm_value *out_indices) {
  tdm_value outputs[2] = {{0, 0}, {0, 0}};
  tdm_append(graph, operation, name, attributes, &x, 1, outputs);
  for (int i = 0; i < 2; i++) {
    if (!tdm_value_is_valid(outputs[i]) || (i == 1 && !out_indices)) continue;
    if (i == 1) outputs[i] = tdm_cast(graph, name, outputs[i], TDM_INT64);
    if (single) outputs[i] = tdm_squeeze(graph, name, outputs[i], 0);
  }
  if (out_indices) *out_indices = outputs[1];
  return outputs[0];
}

static int64_t size_or_default(int64_t size, int64_t otherwise) {
  return size != TDM_DEFAULT_SIZE ? size : otherwise;
}

static tdm_value make_pool(tdm_graph *graph, const tdm_operation *operation, const char *name,
                           tdm_value x, int dimensions, const int64_t kernel[2],
                           const tdm_pool_options *options, tdm_value *out_indices) {
  name = tdm_graph_name(graph, name);
  if (out_indices) *out_indices = TDM_NO_VALUE;
  tdm_pool_options chosen;
  bool single;
  if (!tdm_layer_options(graph, "pool", name, pool, options, &chosen) ||
      !accepts(graph, name, &x, dimensions, &single))
    return TDM_NO_VALUE;
  tdm_pool_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  if (chosen.divisor != TDM_DEFAULT_SIZE &&
      !tdm_layer_is_at_least(graph, "pool", name, "divisor", chosen.divisor, 1))
    return TDM_NO_VALUE;
  bool legal = true;
  for (int axis = 0; axis < 2; axis++) {
    const bool flat = dimensions == 1 && axis == 0;
    const int from = dimensions == 1 ? 0 : axis;
    attributes.kernel[axis] = kernel[axis];
    attributes.stride[axis] = flat ? 1 : size_or_default(chosen.stride[from], kernel[axis]);
    attributes.dilation[axis] = flat || operation != &max_pool ? 1 : chosen.dilation[from];
    attributes.padding[axis] = flat ? 0 : chosen.padding[from];
    legal = legal && tdm_layer_is_window(kernel[axis], 1) &&
            tdm_layer_is_window(attributes.stride[axis], 1) &&
            tdm_layer_is_window(attributes.dilation[axis], 1) &&
            tdm_layer_is_window(attributes.padding[axis], 0) &&
            2 * attributes.padding[axis] <= kernel[axis];
  }
  if (!legal)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "pool %s: kernel, stride and dilation must be positive and at most "
                          "%lld, and padding at most half the kernel; kernel is %lld x %lld, "
                          "stride %lld x %lld, padding %lld x %lld, dilation %lld x %lld",
                          name, (long long)TDM_LAYER_WINDOW_MAX, (long long)attributes.kernel[0],
                          (long long)attributes.kernel[1], (long long)attributes.stride[0],
                          (long long)attributes.stride[1], (long long)attributes.padding[0],
                          (long long)attributes.padding[1], (long long)attributes.dilation[0],
                          (long long)attributes.dilation[1]);
  attributes.ceil = chosen.ceil;
  attributes.count_padding = !chosen.exclude_padding;
  attributes.divisor = size_or_default(chosen.divisor, 0);
  return append_pool(graph, operation, name, x, single, &attributes, out_indices);
}

static tdm_value make_adaptive(tdm_graph *graph, const tdm_operation *operation, const char *name,
                               tdm_value x, int dimensions, int64_t height, int64_t width,
                               tdm_value *out_indices) {
  name = tdm_graph_name(graph, name);
  bool single;
  if (out_indices) *out_indices = TDM_NO_VALUE;
  if (!accepts(graph, name, &x, dimensions, &single)) return TDM_NO_VALUE;
  if (height <= 0 || width <= 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "pool %s: %lld x %lld is no size", name,
                          (long long)height, (long long)width);
  tdm_pool_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.adaptive = 1;
  attributes.output[0] = height;
  attributes.output[1] = width;
  return append_pool(graph, operation, name, x, single, &attributes, out_indices);
}

tdm_value tdm_max_pool2d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                      int64_t kernel_height, int64_t kernel_width,
                                      const tdm_pool_options *options, tdm_value *out_indices) {
  const int64_t kernel[2] = {kernel_height, kernel_width};
  return make_pool(graph, &max_pool, name, x, 2, kernel, options, out_indices);
}

tdm_value tdm_max_pool1d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                      int64_t kernel, const tdm_pool_options *options,
                                      tdm_value *out_indices) {
  const int64_t both[2] = {1, kernel};
  return make_pool(graph, &max_pool, name, x, 1, both, options, out_indices);
}

tdm_value tdm_max_pool2d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel_height,
                         int64_t kernel_width, const tdm_pool_options *options) {
  return tdm_max_pool2d_with_indices(graph, name, x, kernel_height, kernel_width, options, NULL);
}

tdm_value tdm_max_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel,
                         const tdm_pool_options *options) {
  return tdm_max_pool1d_with_indices(graph, name, x, kernel, options, NULL);
}

tdm_value tdm_avg_pool2d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel_height,
                         int64_t kernel_width, const tdm_pool_options *options) {
  const int64_t kernel[2] = {kernel_height, kernel_width};
  return make_pool(graph, &average_pool, name, x, 2, kernel, options, NULL);
}

tdm_value tdm_avg_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t kernel,
                         const tdm_pool_options *options) {
  const int64_t both[2] = {1, kernel};
  return make_pool(graph, &average_pool, name, x, 1, both, options, NULL);
}

tdm_value tdm_adaptive_max_pool2d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                               int64_t height, int64_t width,
                                               tdm_value *out_indices) {
  return make_adaptive(graph, &max_pool, name, x, 2, height, width, out_indices);
}

tdm_value tdm_adaptive_max_pool1d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                               int64_t width, tdm_value *out_indices) {
  return make_adaptive(graph, &max_pool, name, x, 1, 1, width, out_indices);
}

tdm_value tdm_adaptive_max_pool2d(tdm_graph *graph, const char *name, tdm_value x, int64_t height,
                                  int64_t width) {
  return tdm_adaptive_max_pool2d_with_indices(graph, name, x, height, width, NULL);
}

tdm_value tdm_adaptive_max_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t width) {
  return tdm_adaptive_max_pool1d_with_indices(graph, name, x, width, NULL);
}

tdm_value tdm_adaptive_avg_pool2d(tdm_graph *graph, const char *name, tdm_value x, int64_t height,
                                  int64_t width) {
  return make_adaptive(graph, &average_pool, name, x, 2, height, width, NULL);
}

tdm_value tdm_adaptive_avg_pool1d(tdm_graph *graph, const char *name, tdm_value x, int64_t width) {
  return make_adaptive(graph, &average_pool, name, x, 1, 1, width, NULL);
}
