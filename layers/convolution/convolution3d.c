/* Convolutions of three dimensions, also transposed, composed of two-dimensional ones. Invariant:
 * the slices that a kernel reads or writes are channels of one convolution of planes. */
#include <math.h>

#include "layers/common.h"
#include "layers/convolution/volume.h"
#include "tandem/layers/layers.h"

enum { N, CHANNELS, FIRST_AXIS };

/* Orders of dimensions: (n, channels, depth, ...) to (depth, n, channels, ...) and back. Depth
 * comes before n, so that a batch that is split stays contiguous in the merged dimension. */
static const int depth_first[] = {2, 0, 1, 3, 4}, batch_first[] = {1, 2, 0, 3, 4};

/* Returns n, left open if it is not a size, so that the layer also accepts a part of the batch. */
static tdm_dim open_batch(const tdm_shape *x) {
  return tdm_dim_is_size(x->dims[0]) ? TDM_INFER : x->dims[0];
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* The arguments of one convolution of three dimensions, with defaults resolved. */
typedef struct volume_convolution {
  tdm_graph *graph;
  const char *name;
  int64_t kernel[TDM_VOLUME_AXES];
  int64_t stride[TDM_VOLUME_AXES];
  int64_t padding[TDM_VOLUME_AXES];
  int64_t dilation[TDM_VOLUME_AXES];
  int64_t groups;
  int64_t out_channels;
  tdm_shape x;
} volume_convolution;

static bool read_convolution(volume_convolution *self, const char *layer, const int64_t *kernel,
                             const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                             int64_t groups, int64_t out_channels) {
  self->groups = groups;
  self->out_channels = out_channels;
  const int64_t channels = self->x.dims[CHANNELS];
  bool legal = self->groups > 0 && out_channels > 0 && channels % self->groups == 0 &&
               out_channels % self->groups == 0;
  for (int axis = 0; axis < TDM_VOLUME_AXES; axis++) {
    self->kernel[axis] = kernel[axis];
    self->stride[axis] = stride[axis];
    self->padding[axis] = padding[axis];
    self->dilation[axis] = dilation[axis];
    legal = legal && tdm_layer_is_window(kernel[axis], 1) &&
            tdm_layer_is_window(self->stride[axis], 1) &&
            tdm_layer_is_window(self->padding[axis], 0) &&
            tdm_layer_is_window(self->dilation[axis], 1);
  }
  char text[TDM_SHAPE_TEXT];
  if (!legal)
    tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT,
                   "%s %s: kernel, stride, dilation and groups must be positive, padding not "
                   "negative, none of them beyond %lld, and %lld groups divide the channels of x, "
                   "which is %s, and %lld",
                   layer, self->name, (long long)TDM_LAYER_WINDOW_MAX, (long long)self->groups,
                   tdm_shape_text(&self->x, text, sizeof text), (long long)out_channels);
  return legal;
}

static tdm_initializer uniform_within(double fan_in) {
  const double bound = fan_in > 0 ? 1.0 / sqrt(fan_in) : 0.0;
  return (tdm_initializer){TDM_INIT_UNIFORM, -bound, bound, -1};
}

static double kernel_count(const volume_convolution *self) {
  return (double)self->kernel[TDM_DEPTH] * (double)self->kernel[TDM_HEIGHT] *
         (double)self->kernel[TDM_WIDTH];
}

/* Returns y (n, channels, depth, height, width) plus one bias per channel. */
static tdm_value add_bias(const volume_convolution *self, tdm_value y,
                          const tdm_initializer *uniform) {
  const tdm_value bias = tdm_layer_parameter(self->graph, self->name, ".bias",
                                             tdm_shape_of(1, self->out_channels), uniform);
  const tdm_value aligned =
      tdm_reshape(self->graph, self->name, bias, tdm_shape_of(4, self->out_channels, 1, 1, 1));
  return tdm_value_is_valid(y) ? tdm_add(self->graph, self->name, y, aligned) : TDM_NO_VALUE;
}

/* Pads x if the two-dimensional convolution cannot, because both sides differ or the padding is not
 * zeros. Returns false with the graph's error. */
static bool pad_input(volume_convolution *self, const tdm_conv3d_options *options, tdm_value *x) {
  int64_t amounts[2 * TDM_VOLUME_AXES]; /* last dimension first */
  bool legal = true, alike = options->padding_mode == TDM_PAD_CONSTANT;
  for (int axis = 0; axis < TDM_VOLUME_AXES; axis++) {
    const int64_t given = self->padding[axis];
    const int64_t total = self->dilation[axis] * (self->kernel[axis] - 1);
    int64_t *sides = amounts + 2 * (TDM_VOLUME_AXES - 1 - axis);
    sides[0] = options->same ? total / 2 : given;
    sides[1] = options->same ? total - total / 2 : given;
    legal = legal && tdm_layer_is_window(sides[1], 0) &&
            (!options->same || (given == 0 && self->stride[axis] == 1));
    alike = alike && sides[0] == sides[1];
  }
  if (!legal)
    tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT,
                   "conv3d %s: with `same` strides are 1, no padding is given, and none is beyond "
                   "%lld",
                   self->name, (long long)TDM_LAYER_WINDOW_MAX);
  if (!legal) return false;
  for (int axis = 0; axis < TDM_VOLUME_AXES; axis++)
    self->padding[axis] = alike ? amounts[2 * (TDM_VOLUME_AXES - 1 - axis)] : 0;
  if (alike) return true;
  *x = tdm_pad(self->graph, self->name, *x, amounts, 2 * TDM_VOLUME_AXES, options->padding_mode, 0);
  if (!tdm_value_is_valid(*x)) return false;
  self->x = tdm_value_shape(self->graph, *x);
  return true;
}

/* Returns the depth of the result, or 0 with the graph's error if the kernel does not fit. */
static int64_t depth_of_result(const volume_convolution *self) {
  const int64_t reach = self->dilation[TDM_DEPTH] * (self->kernel[TDM_DEPTH] - 1) + 1;
  const int64_t room = self->x.dims[FIRST_AXIS] + 2 * self->padding[TDM_DEPTH] - reach;
  char text[TDM_SHAPE_TEXT];
  if (room >= 0 && self->kernel[TDM_DEPTH] <= TDM_MAX_PARTS)
    return room / self->stride[TDM_DEPTH] + 1;
  tdm_graph_fail(
      self->graph, TDM_INVALID_ARGUMENT,
      "conv3d %s: a kernel that reaches over %lld slices, %lld of them, %d at most, does "
      "not fit into x, which is %s, with padding %lld",
      self->name, (long long)reach, (long long)self->kernel[TDM_DEPTH], TDM_MAX_PARTS,
      tdm_shape_text(&self->x, text, sizeof text), (long long)self->padding[TDM_DEPTH]);
  return 0;
}

/* Returns x as (depth' n, groups kernel_depth channels / groups, height, width): for each group,
 * the slices that the kernel reads at each place of its depth, in order. */
static tdm_value gather_slices(const volume_convolution *self, tdm_value x, int64_t depth) {
  tdm_graph *graph = self->graph;
  const char *name = self->name;
  const int64_t in_group = self->x.dims[CHANNELS] / self->groups, deep = self->kernel[TDM_DEPTH];
  const int64_t around[] = {0, 0, 0, 0, self->padding[TDM_DEPTH], self->padding[TDM_DEPTH]};
  if (self->padding[TDM_DEPTH] > 0) x = tdm_pad(graph, name, x, around, 6, TDM_PAD_CONSTANT, 0);
  if (!tdm_value_is_valid(x)) return TDM_NO_VALUE;
  x = tdm_permute(graph, name, x, depth_first, TDM_VOLUME_RANK);
  const tdm_dim height = self->x.dims[FIRST_AXIS + TDM_HEIGHT];
  const tdm_dim width = self->x.dims[FIRST_AXIS + TDM_WIDTH];
  const int8_t grouped[] = {0, 1, -1, -1, -1, 3, 4};
  tdm_value parts[TDM_MAX_PARTS];
  for (int64_t k = 0; k < deep && tdm_value_is_valid(x); k++) {
    const int64_t begin = k * self->dilation[TDM_DEPTH];
    const tdm_value part =
        tdm_slice(graph, name, x, 0, begin, begin + (depth - 1) * self->stride[TDM_DEPTH] + 1,
                  self->stride[TDM_DEPTH]);
    if (!tdm_value_is_valid(part)) return TDM_NO_VALUE;
    parts[k] = tdm_reshape_from(
        graph, name, part,
        tdm_shape_of(7, depth, self->x.dims[N], self->groups, 1, in_group, height, width), grouped);
  }
  const tdm_value slices =
      tdm_value_is_valid(x) ? tdm_concat(graph, name, parts, (size_t)deep, 3) : TDM_NO_VALUE;
  const int8_t planes[] = {-1, -1, 5, 6};
  return tdm_value_is_valid(slices)
             ? tdm_reshape_from(
                   graph, name, slices,
                   tdm_shape_of(4, TDM_INFER, self->groups * deep * in_group, height, width),
                   planes)
             : TDM_NO_VALUE;
}

/* Returns the parameter with its depth merged into the channels, in the order of the slices. */
static tdm_value plane_weight(const volume_convolution *self, const tdm_initializer *uniform) {
  const int64_t in_group = self->x.dims[CHANNELS] / self->groups;
  const int64_t *kernel = self->kernel;
  const tdm_value weight =
      tdm_layer_parameter(self->graph, self->name, ".weight",
                          tdm_shape_of(TDM_VOLUME_RANK, self->out_channels, in_group,
                                       kernel[TDM_DEPTH], kernel[TDM_HEIGHT], kernel[TDM_WIDTH]),
                          uniform);
  if (!tdm_value_is_valid(weight)) return TDM_NO_VALUE;
  const tdm_value turned =
      tdm_permute(self->graph, self->name, weight, (const int[]){0, 2, 1, 3, 4}, TDM_VOLUME_RANK);
  return tdm_value_is_valid(turned)
             ? tdm_reshape(self->graph, self->name, turned,
                           tdm_shape_of(4, self->out_channels, kernel[TDM_DEPTH] * in_group,
                                        kernel[TDM_HEIGHT], kernel[TDM_WIDTH]))
             : TDM_NO_VALUE;
}

tdm_value tdm_conv3d(tdm_graph *graph, const char *name, tdm_value x, int64_t out_channels,
                     const int64_t kernel[3], const tdm_conv3d_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_conv3d_options chosen;
  volume_convolution self = {.graph = graph, .name = name};
  bool single;
  if (!tdm_layer_options(graph, "conv3d", name, conv3d, options, &chosen) ||
      !tdm_volume_has_list(graph, "conv3d", name, kernel) ||
      !tdm_volume_read(graph, "conv3d", name, &x, &single, &self.x) ||
      !read_convolution(&self, "conv3d", kernel, chosen.stride, chosen.padding, chosen.dilation,
                        chosen.groups, out_channels) ||
      !pad_input(&self, &chosen, &x))
    return TDM_NO_VALUE;
  const int64_t depth = depth_of_result(&self);
  if (depth == 0) return TDM_NO_VALUE;
  const tdm_initializer uniform =
      uniform_within((double)(self.x.dims[CHANNELS] / self.groups) * kernel_count(&self));
  const tdm_value weight = plane_weight(&self, &uniform);
  const tdm_value slices = gather_slices(&self, x, depth);
  if (!tdm_value_is_valid(weight) || !tdm_value_is_valid(slices)) return TDM_NO_VALUE;
  const tdm_convolution_attributes attributes = {
      .stride = {self.stride[TDM_HEIGHT], self.stride[TDM_WIDTH]},
      .padding = {self.padding[TDM_HEIGHT], self.padding[TDM_WIDTH]},
      .dilation = {self.dilation[TDM_HEIGHT], self.dilation[TDM_WIDTH]},
      .kernel = {self.kernel[TDM_HEIGHT], self.kernel[TDM_WIDTH]},
      .groups = self.groups,
  };
  tdm_value y = tdm_convolution_of(graph, name, slices, weight, &attributes);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  const tdm_shape planes = tdm_value_shape(graph, y);
  const int8_t sources[] = {-1, -1, 1, 2, 3};
  y = tdm_reshape_from(graph, name, y,
                       tdm_shape_of(TDM_VOLUME_RANK, depth, open_batch(&self.x), out_channels,
                                    planes.dims[2], planes.dims[3]),
                       sources);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  y = tdm_permute(graph, name, y, batch_first, TDM_VOLUME_RANK);
  if (!chosen.without_bias) y = add_bias(&self, y, &uniform);
  return tdm_volume_finish(graph, name, y, single);
}

/* ---- Transposed convolution ------------------------------------------------------------------ */

/* Returns the parameter (channels, out / groups, depth, height, width) with its depth merged into
 * the channels. */
static tdm_value transposed_weight(const volume_convolution *self, const tdm_initializer *uniform) {
  const int64_t out_group = self->out_channels / self->groups;
  const int64_t *kernel = self->kernel;
  const tdm_value weight =
      tdm_layer_parameter(self->graph, self->name, ".weight",
                          tdm_shape_of(TDM_VOLUME_RANK, self->x.dims[CHANNELS], out_group,
                                       kernel[TDM_DEPTH], kernel[TDM_HEIGHT], kernel[TDM_WIDTH]),
                          uniform);
  return tdm_value_is_valid(weight)
             ? tdm_reshape(self->graph, self->name, weight,
                           tdm_shape_of(4, self->x.dims[CHANNELS], out_group * kernel[TDM_DEPTH],
                                        kernel[TDM_HEIGHT], kernel[TDM_WIDTH]))
             : TDM_NO_VALUE;
}

/* Returns the result (depth', n, out, height, width): the sum of planes (depth, n, out,
 * kernel_depth, height, width), where each place of the kernel's depth contributes to its own
 * slice. */
static tdm_value add_slices(const volume_convolution *self, tdm_value planes, int64_t depth) {
  tdm_graph *graph = self->graph;
  const int64_t stride = self->stride[TDM_DEPTH];
  const int64_t extent = (self->x.dims[FIRST_AXIS] - 1) * stride + 1;
  tdm_value sum = TDM_NO_VALUE;
  for (int64_t k = 0; k < self->kernel[TDM_DEPTH]; k++) {
    const tdm_value part = tdm_select(graph, self->name, planes, 3, k);
    tdm_pad_attributes pad = {.rank = TDM_VOLUME_RANK, .steps = {stride, 1, 1, 1, 1}};
    pad.before[0] = k * self->dilation[TDM_DEPTH];
    pad.after[0] = depth + 2 * self->padding[TDM_DEPTH] - extent - pad.before[0];
    if (!tdm_value_is_valid(part)) return TDM_NO_VALUE;
    tdm_value placed = part;
    if (pad.before[0] != 0 || pad.after[0] != 0 || stride != 1)
      placed = tdm_pad_with(graph, self->name, part, &pad);
    sum = k == 0 ? placed : tdm_add(graph, self->name, sum, placed);
  }
  const int64_t taken = self->padding[TDM_DEPTH];
  return taken > 0 && tdm_value_is_valid(sum)
             ? tdm_slice(graph, self->name, sum, 0, taken, taken + depth, 1)
             : sum;
}

/* Returns the depth of the result, or 0 with the graph's error if the result is empty or a size is
 * illegal. */
static int64_t depth_of_transposed(const volume_convolution *self,
                                   const int64_t more[TDM_VOLUME_AXES]) {
  int64_t sizes[TDM_VOLUME_AXES] = {0};
  bool legal = true;
  for (int axis = 0; axis < TDM_VOLUME_AXES && legal; axis++) {
    const tdm_dim size = self->x.dims[FIRST_AXIS + axis];
    const int64_t least =
        self->stride[axis] > self->dilation[axis] ? self->stride[axis] : self->dilation[axis];
    legal =
        tdm_layer_is_window(size, 1) && more[axis] >= 0 && (more[axis] == 0 || more[axis] < least);
    if (legal)
      sizes[axis] = (size - 1) * self->stride[axis] - 2 * self->padding[axis] +
                    self->dilation[axis] * (self->kernel[axis] - 1) + more[axis] + 1;
    legal = legal && sizes[axis] > 0;
  }
  char text[TDM_SHAPE_TEXT];
  if (!legal)
    tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT,
                   "conv_transpose3d %s: x is %s: all its dimensions but n must be sizes, "
                   "output_padding less than stride or dilation, and something must be left",
                   self->name, tdm_shape_text(&self->x, text, sizeof text));
  return legal ? sizes[TDM_DEPTH] : 0;
}

tdm_value tdm_conv_transpose3d(tdm_graph *graph, const char *name, tdm_value x,
                               int64_t out_channels, const int64_t kernel[3],
                               const tdm_conv_transpose3d_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_conv_transpose3d_options chosen;
  volume_convolution self = {.graph = graph, .name = name};
  bool single;
  if (!tdm_layer_options(graph, "conv_transpose3d", name, conv_transpose3d, options, &chosen) ||
      !tdm_volume_has_list(graph, "conv_transpose3d", name, kernel) ||
      !tdm_volume_read(graph, "conv_transpose3d", name, &x, &single, &self.x) ||
      !read_convolution(&self, "conv_transpose3d", kernel, chosen.stride, chosen.padding,
                        chosen.dilation, chosen.groups, out_channels))
    return TDM_NO_VALUE;
  const int64_t depth = depth_of_transposed(&self, chosen.output_padding);
  if (depth == 0) return TDM_NO_VALUE;
  const tdm_initializer uniform =
      uniform_within((double)(out_channels / self.groups) * kernel_count(&self));
  const tdm_value weight = transposed_weight(&self, &uniform);
  x = tdm_permute(graph, name, x, depth_first, TDM_VOLUME_RANK);
  if (!tdm_value_is_valid(weight) || !tdm_value_is_valid(x)) return TDM_NO_VALUE;
  const int8_t planes[] = {-1, 2, 3, 4};
  x = tdm_reshape_from(graph, name, x,
                       tdm_shape_of(4, TDM_INFER, self.x.dims[CHANNELS],
                                    self.x.dims[FIRST_AXIS + TDM_HEIGHT],
                                    self.x.dims[FIRST_AXIS + TDM_WIDTH]),
                       planes);
  tdm_conv_transpose_options of_planes = tdm_conv_transpose_options_default();
  for (int axis = 0; axis < 2; axis++) {
    of_planes.stride[axis] = self.stride[TDM_HEIGHT + axis];
    of_planes.padding[axis] = self.padding[TDM_HEIGHT + axis];
    of_planes.output_padding[axis] = chosen.output_padding[TDM_HEIGHT + axis];
    of_planes.dilation[axis] = self.dilation[TDM_HEIGHT + axis];
  }
  of_planes.groups = self.groups;
  if (!tdm_value_is_valid(x)) return TDM_NO_VALUE;
  tdm_value y = tdm_conv_transpose_of(graph, name, x, weight, &of_planes);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, y);
  static const int8_t apart[] = {-1, -1, -1, -1, 2, 3};
  y = tdm_reshape_from(graph, name, y,
                       tdm_shape_of(6, self.x.dims[FIRST_AXIS], open_batch(&self.x), out_channels,
                                    self.kernel[TDM_DEPTH], shape.dims[2], shape.dims[3]),
                       apart);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  y = add_slices(&self, y, depth);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  y = tdm_permute(graph, name, y, batch_first, TDM_VOLUME_RANK);
  if (!chosen.without_bias) y = add_bias(&self, y, &uniform);
  return tdm_volume_finish(graph, name, y, single);
}
