/* Three-dimensional pooling, composed of two-dimensional pooling over height and width, then over
 * depth, both on views of x. Invariant: the first of equal elements in x is selected, as in two
 * dimensions. */
#include <string.h>

#include "layers/common.h"
#include "layers/convolution/volume.h"
#include "tandem/layers/layers.h"

enum { N, CHANNELS, FIRST_AXIS };

/* ---- Volumes --------------------------------------------------------------------------------- */

/* Converts x to a batch (n, channels, depth, height, width), a single volume to a batch of one.
 * Returns false with the graph's error. */
bool tdm_volume_read(tdm_graph *graph, const char *layer, const char *name, tdm_value *x,
                     bool *out_single, tdm_shape *out_shape) {
  if (!tdm_layer_accepts(graph, layer, name, *x)) return false;
  tdm_shape shape = tdm_value_shape(graph, *x);
  *out_single = shape.rank == TDM_VOLUME_RANK - 1;
  if (*out_single) *x = tdm_unsqueeze(graph, name, *x, 0);
  *out_shape = tdm_value_shape(graph, *x);
  if (out_shape->rank == TDM_VOLUME_RANK && tdm_dim_is_size(out_shape->dims[CHANNELS]) &&
      tdm_dim_is_size(out_shape->dims[FIRST_AXIS]))
    return true;
  char text[TDM_SHAPE_TEXT];
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: x must be (n, channels, depth, height, width), or without n, channels and "
                 "depth being sizes; x is %s",
                 layer, name, tdm_shape_text(&shape, text, sizeof text));
  return false;
}

tdm_value tdm_volume_finish(tdm_graph *graph, const char *name, tdm_value y, bool single) {
  return single && tdm_value_is_valid(y) ? tdm_squeeze(graph, name, y, 0) : y;
}

bool tdm_volume_has_list(tdm_graph *graph, const char *layer, const char *name,
                         const int64_t *list) {
  if (list) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: the list of three numbers is NULL", layer,
                 name);
  return false;
}

/* ---- Two steps ------------------------------------------------------------------------------- */

typedef struct pooling pooling;

/* Pools the last two dimensions of x (n, ..., height, width), or, over depth, only the first of
 * these two. */
typedef tdm_value (*pool_step)(tdm_graph *graph, const char *name, tdm_value x,
                               const pooling *asked, bool over_depth, tdm_value *out_indices);

struct pooling {
  pool_step step;
  int64_t kernel[TDM_VOLUME_AXES]; /* sizes of the window, or of the result */
  tdm_pool_options plane;
  tdm_pool_options depth;
  tdm_value *out_indices; /* maximum only; NULL: indices are not requested */
};

/* Returns x reshaped. The first dimension stays the same. */
static tdm_value seen_as(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape) {
  int8_t sources[TDM_MAX_RANK];
  for (int i = 0; i < TDM_MAX_RANK; i++)
    sources[i] = i == 0 ? 0 : -1;
  return tdm_value_is_valid(x) ? tdm_reshape_from(graph, name, x, shape, sources) : TDM_NO_VALUE;
}

/* Returns the indices of the maxima in the volume. of_planes (n, channels, depth, columns) has the
 * indices within planes of `plane` elements; of_depth (n, channels, depth', columns) selects among
 * them. */
static tdm_value volume_indices(tdm_graph *graph, const char *name, tdm_value of_planes,
                                tdm_value of_depth, int64_t plane) {
  const tdm_shape before = tdm_value_shape(graph, of_planes);
  const tdm_shape after = tdm_value_shape(graph, of_depth);
  if (!tdm_value_is_valid(of_planes) || !tdm_value_is_valid(of_depth)) return TDM_NO_VALUE;
  const double volume = (double)(before.dims[2] * plane);
  tdm_value begins = tdm_arange(graph, name, TDM_INT64, 0, volume, (double)plane);
  begins = tdm_reshape(graph, name, begins, tdm_shape_of(2, before.dims[2], 1));
  const tdm_value places = tdm_add(graph, name, of_planes, begins);
  const tdm_value all =
      seen_as(graph, name, places,
              tdm_shape_of(3, before.dims[0], before.dims[1], before.dims[2] * before.dims[3]));
  const tdm_value taken =
      seen_as(graph, name, of_depth,
              tdm_shape_of(3, after.dims[0], after.dims[1], after.dims[2] * after.dims[3]));
  return tdm_value_is_valid(all) ? tdm_gather(graph, name, all, 2, taken) : TDM_NO_VALUE;
}

static tdm_value pool_volume(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                             const pooling *asked) {
  tdm_shape shape;
  bool single;
  if (asked->out_indices) *asked->out_indices = TDM_NO_VALUE;
  if (!tdm_volume_read(graph, layer, name, &x, &single, &shape)) return TDM_NO_VALUE;
  if (asked->out_indices && !(tdm_dim_is_size(shape.dims[FIRST_AXIS + TDM_HEIGHT]) &&
                              tdm_dim_is_size(shape.dims[FIRST_AXIS + TDM_WIDTH])))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "%s %s: with indices height and width of x must be sizes", layer, name);
  const tdm_dim channels = shape.dims[CHANNELS], depth = shape.dims[FIRST_AXIS];
  const int8_t planes[] = {N, -1, FIRST_AXIS + TDM_HEIGHT, FIRST_AXIS + TDM_WIDTH};
  x = tdm_reshape_from(graph, name, x,
                       tdm_shape_of(4, shape.dims[N], channels * depth,
                                    shape.dims[FIRST_AXIS + TDM_HEIGHT],
                                    shape.dims[FIRST_AXIS + TDM_WIDTH]),
                       planes);
  tdm_value of_planes = TDM_NO_VALUE, of_depth = TDM_NO_VALUE;
  x = tdm_value_is_valid(x) ? asked->step(graph, name, x, asked, false, &of_planes) : TDM_NO_VALUE;
  if (!tdm_value_is_valid(x)) return TDM_NO_VALUE;
  const tdm_shape pooled = tdm_value_shape(graph, x);
  const bool sizes = tdm_dim_is_size(pooled.dims[2]) && tdm_dim_is_size(pooled.dims[3]);
  const tdm_shape columns = tdm_shape_of(4, shape.dims[N], channels, depth,
                                         sizes ? pooled.dims[2] * pooled.dims[3] : TDM_INFER);
  x = seen_as(graph, name, x, columns);
  x = tdm_value_is_valid(x) ? asked->step(graph, name, x, asked, true, &of_depth) : TDM_NO_VALUE;
  if (!tdm_value_is_valid(x)) return TDM_NO_VALUE;
  const tdm_dim deep = tdm_value_shape(graph, x).dims[2];
  const tdm_shape volumes =
      tdm_shape_of(TDM_VOLUME_RANK, shape.dims[N], channels, deep, pooled.dims[2], pooled.dims[3]);
  x = seen_as(graph, name, x, volumes);
  if (asked->out_indices && tdm_value_is_valid(x)) {
    const int64_t plane = shape.dims[FIRST_AXIS + TDM_HEIGHT] * shape.dims[FIRST_AXIS + TDM_WIDTH];
    of_planes = seen_as(graph, name, of_planes, columns);
    const tdm_value indices =
        seen_as(graph, name, volume_indices(graph, name, of_planes, of_depth, plane), volumes);
    *asked->out_indices = tdm_volume_finish(graph, name, indices, single);
  }
  return tdm_volume_finish(graph, name, x, single);
}

/* ---- Windows --------------------------------------------------------------------------------- */

static tdm_value max_step(tdm_graph *graph, const char *name, tdm_value x, const pooling *asked,
                          bool over_depth, tdm_value *out_indices) {
  const int64_t height = over_depth ? asked->kernel[TDM_DEPTH] : asked->kernel[TDM_HEIGHT];
  const int64_t width = over_depth ? 1 : asked->kernel[TDM_WIDTH];
  return tdm_max_pool2d_with_indices(graph, name, x, height, width,
                                     over_depth ? &asked->depth : &asked->plane,
                                     asked->out_indices ? out_indices : NULL);
}

static tdm_value avg_step(tdm_graph *graph, const char *name, tdm_value x, const pooling *asked,
                          bool over_depth, tdm_value *out_indices) {
  (void)out_indices;
  const int64_t *kernel = asked->kernel;
  return over_depth
             ? tdm_avg_pool2d(graph, name, x, kernel[TDM_DEPTH], 1, &asked->depth)
             : tdm_avg_pool2d(graph, name, x, kernel[TDM_HEIGHT], kernel[TDM_WIDTH], &asked->plane);
}

static tdm_value pool(tdm_graph *graph, const char *layer, pool_step step, const char *name,
                      tdm_value x, const int64_t kernel[TDM_VOLUME_AXES],
                      const tdm_pool3d_options *options, tdm_value *out_indices) {
  name = tdm_graph_name(graph, name);
  if (out_indices) *out_indices = TDM_NO_VALUE;
  tdm_pool3d_options chosen;
  if (!tdm_layer_options(graph, layer, name, pool3d, options, &chosen) ||
      !tdm_volume_has_list(graph, layer, name, kernel))
    return TDM_NO_VALUE;
  pooling asked = {.step = step, .out_indices = out_indices};
  memcpy(asked.kernel, kernel, sizeof asked.kernel);
  asked.plane = asked.depth = tdm_pool_options_default();
  for (int axis = 0; axis < 2; axis++) {
    asked.plane.stride[axis] = chosen.stride[TDM_HEIGHT + axis];
    asked.plane.padding[axis] = chosen.padding[TDM_HEIGHT + axis];
    asked.plane.dilation[axis] = chosen.dilation[TDM_HEIGHT + axis];
  }
  asked.depth.stride[0] = chosen.stride[TDM_DEPTH];
  asked.depth.stride[1] = 1;
  asked.depth.padding[0] = chosen.padding[TDM_DEPTH];
  asked.depth.dilation[0] = chosen.dilation[TDM_DEPTH];
  asked.plane.ceil = asked.depth.ceil = chosen.ceil;
  asked.plane.exclude_padding = asked.depth.exclude_padding = chosen.exclude_padding;
  asked.plane.divisor = chosen.divisor;
  if (chosen.divisor != TDM_DEFAULT_SIZE) asked.depth.divisor = 1;
  return pool_volume(graph, layer, name, x, &asked);
}

tdm_value tdm_max_pool3d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                      const int64_t kernel[3], const tdm_pool3d_options *options,
                                      tdm_value *out_indices) {
  return pool(graph, "max_pool3d", max_step, name, x, kernel, options, out_indices);
}

tdm_value tdm_max_pool3d(tdm_graph *graph, const char *name, tdm_value x, const int64_t kernel[3],
                         const tdm_pool3d_options *options) {
  return tdm_max_pool3d_with_indices(graph, name, x, kernel, options, NULL);
}

tdm_value tdm_avg_pool3d(tdm_graph *graph, const char *name, tdm_value x, const int64_t kernel[3],
                         const tdm_pool3d_options *options) {
  return pool(graph, "avg_pool3d", avg_step, name, x, kernel, options, NULL);
}

/* ---- Sizes of the result --------------------------------------------------------------------- */

static tdm_value share_max(tdm_graph *graph, const char *name, tdm_value x, const pooling *asked,
                           bool over_depth, tdm_value *out_indices) {
  const int64_t *sizes = asked->kernel;
  const int64_t height = over_depth ? sizes[TDM_DEPTH] : sizes[TDM_HEIGHT];
  const int64_t width = over_depth ? sizes[TDM_HEIGHT] * sizes[TDM_WIDTH] : sizes[TDM_WIDTH];
  return tdm_adaptive_max_pool2d_with_indices(graph, name, x, height, width,
                                              asked->out_indices ? out_indices : NULL);
}

static tdm_value share_avg(tdm_graph *graph, const char *name, tdm_value x, const pooling *asked,
                           bool over_depth, tdm_value *out_indices) {
  (void)out_indices;
  const int64_t height = asked->kernel[TDM_HEIGHT], width = asked->kernel[TDM_WIDTH];
  return over_depth
             ? tdm_adaptive_avg_pool2d(graph, name, x, asked->kernel[TDM_DEPTH], height * width)
             : tdm_adaptive_avg_pool2d(graph, name, x, height, width);
}

static tdm_value pool_adaptively(tdm_graph *graph, const char *layer, pool_step step,
                                 const char *name, tdm_value x,
                                 const int64_t sizes[TDM_VOLUME_AXES], tdm_value *out_indices) {
  name = tdm_graph_name(graph, name);
  if (out_indices) *out_indices = TDM_NO_VALUE;
  if (!tdm_volume_has_list(graph, layer, name, sizes)) return TDM_NO_VALUE;
  const pooling asked = {
      .step = step, .kernel = {sizes[0], sizes[1], sizes[2]}, .out_indices = out_indices};
  return pool_volume(graph, layer, name, x, &asked);
}

tdm_value tdm_adaptive_max_pool3d_with_indices(tdm_graph *graph, const char *name, tdm_value x,
                                               const int64_t sizes[3], tdm_value *out_indices) {
  return pool_adaptively(graph, "adaptive_max_pool3d", share_max, name, x, sizes, out_indices);
}

tdm_value tdm_adaptive_max_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                  const int64_t sizes[3]) {
  return tdm_adaptive_max_pool3d_with_indices(graph, name, x, sizes, NULL);
}

tdm_value tdm_adaptive_avg_pool3d(tdm_graph *graph, const char *name, tdm_value x,
                                  const int64_t sizes[3]) {
  return pool_adaptively(graph, "adaptive_avg_pool3d", share_avg, name, x, sizes, NULL);
}
