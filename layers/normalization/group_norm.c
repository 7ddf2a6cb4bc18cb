/* Group normalization, instance normalization and local response normalization, composed of layer
 * normalization and pooling. Invariant: images are normalized independently. */
#include "layers/arguments.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* Returns true if x is floating, has the parameters' dtype if there are any, and is (n, channels,
 * ...) with sizes for all dimensions except the first; otherwise the graph has an error. */
static bool has_channels(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                         bool has_parameters) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  if (has_parameters ? !tdm_argument_has_parameter_dtype(graph, layer, name, "x", x)
                     : !tdm_argument_is_floating(graph, layer, name, "x", x))
    return false;
  bool fits = shape.rank >= 2;
  for (int i = 1; fits && i < shape.rank; i++)
    fits = tdm_dim_is_size(shape.dims[i]);
  if (fits) return true;
  char text[TDM_SHAPE_TEXT];
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: x is %s, and must be (n, channels, ...), all sizes but the first", layer,
                 name, tdm_shape_text(&shape, text, sizeof text));
  return false;
}

/* Returns x reshaped. The first dimension stays the same. */
static tdm_value seen_as(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape) {
  int8_t sources[TDM_MAX_RANK];
  for (int i = 0; i < TDM_MAX_RANK; i++)
    sources[i] = i == 0 ? 0 : -1;
  return tdm_reshape_from(graph, name, x, shape, sources);
}

/* Creates a parameter (channels), viewed so that it broadcasts to x. */
static tdm_value of_channels(tdm_graph *graph, const char *name, const char *suffix,
                             const tdm_shape *x, double value) {
  const tdm_initializer filled = {value == 0 ? TDM_INIT_ZEROS : TDM_INIT_CONSTANT, value, 0.0, -1};
  tdm_shape aligned = {.rank = x->rank - 1};
  for (int i = 0; i < aligned.rank; i++)
    aligned.dims[i] = i == 0 ? x->dims[1] : 1;
  const tdm_value parameter =
      tdm_layer_parameter(graph, name, suffix, tdm_shape_of(1, x->dims[1]), &filled);
  return aligned.rank > 1 ? tdm_reshape(graph, name, parameter, aligned) : parameter;
}

/* Multiplies y by a weight per channel and adds a bias per channel. */
static tdm_value scale_channels(tdm_graph *graph, const char *name, tdm_value y) {
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, y);
  y = tdm_mul(graph, name, y, of_channels(graph, name, ".weight", &shape, 1));
  return tdm_add(graph, name, y, of_channels(graph, name, ".bias", &shape, 0));
}

/* Normalizes by groups of channels and, if affine, applies weight and bias. */
static tdm_value normalize(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                           int64_t groups, double epsilon, bool affine) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (groups < 1 || shape.dims[1] % groups != 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "%s %s: groups is %lld, expected a divisor of the %lld channels of x, "
                          "which is %s",
                          layer, name, (long long)groups, (long long)shape.dims[1],
                          tdm_shape_text(&shape, text, sizeof text));
  int64_t elements = shape.dims[1] / groups;
  for (int i = 2; i < shape.rank; i++)
    if (__builtin_mul_overflow(elements, shape.dims[i], &elements))
      return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: x is %s, which is too large",
                            layer, name, tdm_shape_text(&shape, text, sizeof text));
  const tdm_value grouped =
      seen_as(graph, name, x, tdm_shape_of(3, shape.dims[0], groups, elements));
  if (!tdm_value_is_valid(grouped)) return TDM_NO_VALUE;
  const tdm_value normal = tdm_normalize_groups(graph, name, grouped, epsilon);
  const tdm_value y =
      tdm_value_is_valid(normal) ? seen_as(graph, name, normal, shape) : TDM_NO_VALUE;
  return affine ? scale_channels(graph, name, y) : y;
}

/* Normalizes with running statistics. */
static tdm_value normalize_tracked(tdm_graph *graph, const char *name, tdm_value x,
                                   const tdm_instance_norm_options *options) {
  const double momentum = options->momentum > 0 ? options->momentum : 0;
  const tdm_value y =
      tdm_normalize_instances(graph, name, x, options->epsilon, momentum, TDM_NO_VALUE);
  return options->affine ? scale_channels(graph, name, y) : y;
}

tdm_value tdm_group_norm_with(tdm_graph *graph, const char *name, tdm_value x, int64_t groups,
                              const tdm_group_norm_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_group_norm_options chosen;
  if (!tdm_layer_options(graph, "group_norm", name, group_norm, options, &chosen) ||
      !tdm_layer_epsilon(graph, "group_norm", name, chosen.epsilon) ||
      !has_channels(graph, "group_norm", name, x, !chosen.without_affine))
    return TDM_NO_VALUE;
  return normalize(graph, "group_norm", name, x, groups, chosen.epsilon, !chosen.without_affine);
}

tdm_value tdm_group_norm(tdm_graph *graph, const char *name, tdm_value x, int64_t groups) {
  return tdm_group_norm_with(graph, name, x, groups, NULL);
}

tdm_value tdm_instance_norm_with(tdm_graph *graph, const char *name, tdm_value x,
                                 const tdm_instance_norm_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_instance_norm_options chosen;
  if (!tdm_layer_options(graph, "instance_norm", name, instance_norm, options, &chosen) ||
      !tdm_layer_epsilon(graph, "instance_norm", name, chosen.epsilon) ||
      !has_channels(graph, "instance_norm", name, x, chosen.affine || chosen.track_statistics))
    return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  if (shape.rank == 2)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "instance_norm %s: x has two dimensions, and so one element a channel; "
                          "(n, channels, ...) has more, also for one image",
                          name);
  if (shape.rank > 5 && chosen.track_statistics)
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "instance_norm %s: running statistics are of (n, channels, ...) with 3 to "
        "5 dimensions, x has %d",
        name, (int)shape.rank);
  if (chosen.track_statistics) return normalize_tracked(graph, name, x, &chosen);
  int64_t elements = 1;
  for (int i = 2; i < shape.rank; i++)
    elements = shape.dims[i] == 1 ? elements : 0;
  char text[TDM_SHAPE_TEXT];
  if (elements == 1)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "instance_norm %s: x is %s: one value per channel of an image, expected "
                          "at least 2. Use larger images, or track_statistics and a session that "
                          "does not train",
                          name, tdm_shape_text(&shape, text, sizeof text));
  return normalize(graph, "instance_norm", name, x, shape.dims[1], chosen.epsilon, chosen.affine);
}

tdm_value tdm_instance_norm(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_instance_norm_with(graph, name, x, NULL);
}

/* Computes the mean of squares of `size` adjacent channels: a pooling of x as (n, 1, channels,
 * elements), with zeros before the first and after the last channel. */
tdm_value tdm_local_response_norm(tdm_graph *graph, const char *name, tdm_value x, int64_t size,
                                  double alpha, double beta, double k) {
  name = tdm_graph_name(graph, name);
  if (!has_channels(graph, "local_response_norm", name, x, false) ||
      !tdm_argument_is_within(graph, "local_response_norm", name, "size", size, -1, 1,
                              TDM_LAYER_WINDOW_MAX))
    return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  int64_t elements = 1; /* elements per channel; TDM_INFER would fail for an empty batch */
  for (int i = 2; i < shape.rank; i++)
    if (__builtin_mul_overflow(elements, shape.dims[i], &elements)) elements = TDM_INFER;
  const tdm_value squares = seen_as(graph, name, tdm_square(graph, name, x),
                                    tdm_shape_of(4, shape.dims[0], 1, shape.dims[1], elements));
  if (!tdm_value_is_valid(squares)) return TDM_NO_VALUE;
  const int64_t around[] = {0, 0, size / 2, (size - 1) / 2};
  const tdm_value padded = tdm_pad(graph, name, squares, around, 4, TDM_PAD_CONSTANT, 0);
  tdm_pool_options by_one = tdm_pool_options_default();
  by_one.stride[0] = by_one.stride[1] = 1;
  const tdm_value means = tdm_avg_pool2d(graph, name, padded, size, 1, &by_one);
  if (!tdm_value_is_valid(means)) return TDM_NO_VALUE;
  const tdm_value divisor = tdm_affine(graph, name, seen_as(graph, name, means, shape), alpha, k);
  return tdm_div(graph, name, x, tdm_pow(graph, name, divisor, beta));
}
