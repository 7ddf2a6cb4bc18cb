/* Images of another size: a dimension after the other, each element that of the nearest place, or
 * of the two beside it by their distances. Invariant: places are numbers that the graph counts, so
 * that nothing is fed for them. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

static const tdm_value invalid = {0, 0};

/* One dimension of x, of `from` elements, is made `to`. */
typedef struct resizing {
  tdm_graph *graph;
  const char *name;
  int dimension;
  int64_t from;
  int64_t to;
  bool align_corners;
} resizing;

static tdm_value as_index(const resizing *resize, tdm_value places) {
  const tdm_value inside =
      tdm_clamp(resize->graph, resize->name, places, 0, (double)(resize->from - 1));
  return tdm_cast(resize->graph, resize->name, inside, TDM_INT64);
}

static tdm_value pick(const resizing *resize, tdm_value x, tdm_value places) {
  return tdm_index_select(resize->graph, resize->name, x, resize->dimension,
                          as_index(resize, places));
}

/* In float32, as PyTorch counts them, whatever x is. */
static tdm_value resize_nearest(const resizing *resize, tdm_value x) {
  const tdm_value counted =
      tdm_arange(resize->graph, resize->name, TDM_FLOAT32, 0, (double)resize->to, 1);
  const tdm_value places = tdm_mul_scalar(resize->graph, resize->name, counted,
                                          (double)resize->from / (double)resize->to);
  return pick(resize, x, tdm_floor(resize->graph, resize->name, places));
}

/* Where the elements of the result lie among those of x, as real numbers. */
static tdm_value real_places(const resizing *resize, tdm_dtype dtype) {
  tdm_graph *graph = resize->graph;
  const tdm_value counted = tdm_arange(graph, resize->name, dtype, 0, (double)resize->to, 1);
  if (resize->align_corners) {
    const double step = resize->to > 1 ? (double)(resize->from - 1) / (double)(resize->to - 1) : 0;
    return tdm_mul_scalar(graph, resize->name, counted, step);
  }
  const double step = (double)resize->from / (double)resize->to;
  const tdm_value centres = tdm_affine(graph, resize->name, counted, step, 0.5 * step - 0.5);
  return tdm_clamp(graph, resize->name, centres, 0, (double)resize->from);
}

static tdm_value resize_linear(const resizing *resize, tdm_value x) {
  tdm_graph *graph = resize->graph;
  const char *name = resize->name;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const tdm_value places = real_places(resize, tdm_value_dtype(graph, x));
  const tdm_value first = tdm_floor(graph, name, places);
  tdm_value second_share = tdm_sub(graph, name, places, first);
  tdm_shape aligned = {.rank = shape.rank - resize->dimension};
  for (int i = 0; i < aligned.rank; i++)
    aligned.dims[i] = i == 0 ? resize->to : 1;
  if (aligned.rank > 1) second_share = tdm_reshape(graph, name, second_share, aligned);
  const tdm_value first_share = tdm_affine(graph, name, second_share, -1, 1);
  const tdm_value second = tdm_add_scalar(graph, name, first, 1);
  return tdm_add(graph, name, tdm_mul(graph, name, pick(resize, x, first), first_share),
                 tdm_mul(graph, name, pick(resize, x, second), second_share));
}

tdm_value tdm_interpolate(tdm_graph *graph, const char *name, tdm_value x, const int64_t *sizes,
                          size_t count, tdm_interpolation mode, bool align_corners) {
  if (!tdm_layer_accepts(graph, "interpolate", name, x)) return invalid;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&shape, text, sizeof text);
  if (count < 1 || shape.rank != (int)count + 2 || !sizes ||
      !tdm_dtype_is_floating(tdm_value_dtype(graph, x)))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "interpolate %s: %zu sizes of x, which is %s: one a dimension behind (n, "
                          "channels), and x floating",
                          name ? name : "?", sizes ? count : 0, text);
  if (mode != TDM_INTERPOLATE_NEAREST && mode != TDM_INTERPOLATE_LINEAR)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "interpolate %s: there is no mode %d",
                          name ? name : "?", (int)mode);
  if (align_corners && mode == TDM_INTERPOLATE_NEAREST)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "interpolate %s: align_corners is of the linear mode only",
                          name ? name : "?");
  for (size_t i = 0; i < count; i++) {
    const tdm_dim from = shape.dims[2 + i];
    if (!tdm_dim_is_size(from) || from < 1 || !tdm_layer_is_window(sizes[i], 1))
      return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                            "interpolate %s: x is %s, and dimension %zu is to be %lld: both must "
                            "be sizes, 1 or more",
                            name ? name : "?", text, 2 + i, (long long)sizes[i]);
    const resizing resize = {graph, name, (int)i + 2, from, sizes[i], align_corners};
    x = mode == TDM_INTERPOLATE_NEAREST ? resize_nearest(&resize, x) : resize_linear(&resize, x);
  }
  return x;
}
