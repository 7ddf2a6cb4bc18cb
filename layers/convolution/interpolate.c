/* Resizes images, one dimension after another. Each element is that of the nearest place, or a
 * weighted sum of the two or four around it. Invariant: the graph computes the places, so no input
 * has to be fed. */
#include "layers/arguments.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* Resizes one dimension of x from `from` to `to` elements. */
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

/* Computes places in float32 for every dtype of x, as PyTorch does. */
static tdm_value resize_nearest(const resizing *resize, tdm_value x) {
  const tdm_value counted =
      tdm_arange(resize->graph, resize->name, TDM_FLOAT32, 0, (double)resize->to, 1);
  const tdm_value places = tdm_mul_scalar(resize->graph, resize->name, counted,
                                          (double)resize->from / (double)resize->to);
  return pick(resize, x, tdm_floor(resize->graph, resize->name, places));
}

/* Returns the real-valued place in x of each element of the result. */
static tdm_value real_places(const resizing *resize, tdm_dtype dtype, bool inside) {
  tdm_graph *graph = resize->graph;
  const tdm_value counted = tdm_arange(graph, resize->name, dtype, 0, (double)resize->to, 1);
  if (resize->align_corners) {
    const double step = resize->to > 1 ? (double)(resize->from - 1) / (double)(resize->to - 1) : 0;
    return tdm_mul_scalar(graph, resize->name, counted, step);
  }
  const double step = (double)resize->from / (double)resize->to;
  const tdm_value centres = tdm_affine(graph, resize->name, counted, step, 0.5 * step - 0.5);
  return inside ? tdm_clamp(graph, resize->name, centres, 0, (double)resize->from) : centres;
}

/* Returns x (..., from, ...) times one number per place of the dimension. */
static tdm_value weigh(const resizing *resize, tdm_value picked, tdm_value weights) {
  const int rank = tdm_value_shape(resize->graph, picked).rank;
  tdm_shape aligned = {.rank = rank - resize->dimension};
  for (int i = 0; i < aligned.rank; i++)
    aligned.dims[i] = i == 0 ? resize->to : 1;
  if (aligned.rank > 1) weights = tdm_reshape(resize->graph, resize->name, weights, aligned);
  return tdm_mul(resize->graph, resize->name, picked, weights);
}

static tdm_value resize_linear(const resizing *resize, tdm_value x) {
  tdm_graph *graph = resize->graph;
  const char *name = resize->name;
  const tdm_value places = real_places(resize, tdm_value_dtype(graph, x), true);
  const tdm_value first = tdm_floor(graph, name, places);
  const tdm_value second_share = tdm_sub(graph, name, places, first);
  const tdm_value first_share = tdm_affine(graph, name, second_share, -1, 1);
  const tdm_value second = tdm_add_scalar(graph, name, first, 1);
  return tdm_add(graph, name, weigh(resize, pick(resize, x, first), first_share),
                 weigh(resize, pick(resize, x, second), second_share));
}

/* Returns the weight of one of the four elements around a place. The place is a fraction `share`
 * after the second element. With distance d and a = -0.75 the weight is ((a + 2) d - (a + 3)) d d +
 * 1 up to d = 1, and ((d - 5) d + 8) a d - 4 a up to 2 (R. Keys, "Cubic convolution interpolation
 * for digital image processing", 1981). */
static tdm_value cubic_weight(const resizing *resize, tdm_value share, int element) {
  static const double a = -0.75;
  tdm_graph *graph = resize->graph;
  const char *name = resize->name;
  const double before =
      element < 2 ? 1 : -1; /* d is the distance share + 1 - element, or its negative */
  const tdm_value d = tdm_affine(graph, name, share, before, before * (1 - element));
  const bool near = element == 1 || element == 2;
  const tdm_value linear =
      near ? tdm_affine(graph, name, d, a + 2, -(a + 3)) : tdm_affine(graph, name, d, a, -5 * a);
  const tdm_value square = tdm_mul(graph, name, linear, d);
  if (near) return tdm_add_scalar(graph, name, tdm_mul(graph, name, square, d), 1);
  const tdm_value cubic = tdm_mul(graph, name, tdm_add_scalar(graph, name, square, 8 * a), d);
  return tdm_add_scalar(graph, name, cubic, -4 * a);
}

static tdm_value resize_cubic(const resizing *resize, tdm_value x) {
  tdm_graph *graph = resize->graph;
  const char *name = resize->name;
  const tdm_value places = real_places(resize, tdm_value_dtype(graph, x), false);
  const tdm_value second = tdm_floor(graph, name, places);
  const tdm_value share = tdm_sub(graph, name, places, second);
  tdm_value sum = TDM_NO_VALUE;
  for (int k = 0; k < 4; k++) {
    const tdm_value picked = pick(resize, x, tdm_add_scalar(graph, name, second, k - 1));
    if (!tdm_value_is_valid(picked)) return TDM_NO_VALUE;
    const tdm_value term = weigh(resize, picked, cubic_weight(resize, share, k));
    sum = k == 0 ? term : tdm_add(graph, name, sum, term);
  }
  return sum;
}

static tdm_value resize_by(const resizing *resize, tdm_value x, tdm_interpolation mode) {
  if (mode == TDM_INTERPOLATE_NEAREST) return resize_nearest(resize, x);
  return mode == TDM_INTERPOLATE_LINEAR ? resize_linear(resize, x) : resize_cubic(resize, x);
}

tdm_value tdm_interpolate(tdm_graph *graph, const char *name, tdm_value x, const int64_t *sizes,
                          size_t count, tdm_interpolation mode, bool align_corners) {
  name = tdm_graph_name(graph, name);
  if (!tdm_argument_is_floating(graph, "interpolate", name, "x", x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&shape, text, sizeof text);
  if (count < 1 || shape.rank != (int)count + 2 || !sizes)
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "interpolate %s: sizes has %zu numbers, expected one for each dimension of "
        "x behind (n, channels); x is %s",
        name, sizes ? count : 0, text);
  if (mode == TDM_INTERPOLATE_CUBIC && count != 2)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "interpolate %s: %zu sizes, and the cubic mode takes two", name, count);
  if ((int)mode < TDM_INTERPOLATE_NEAREST || mode > TDM_INTERPOLATE_CUBIC)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "interpolate %s: there is no mode %d", name,
                          (int)mode);
  if (align_corners && mode == TDM_INTERPOLATE_NEAREST)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "interpolate %s: align_corners is of the linear and cubic modes only",
                          name);
  for (size_t i = 0; i < count; i++) {
    const tdm_dim from = shape.dims[2 + i];
    if (!tdm_argument_is_within(graph, "interpolate", name, "sizes", sizes[i], (int)i, 1,
                                TDM_LAYER_WINDOW_MAX))
      return TDM_NO_VALUE;
    if (!tdm_dim_is_size(from) || from < 1)
      return tdm_graph_fail(
          graph, TDM_INVALID_ARGUMENT,
          "interpolate %s: x is %s, expected a size of 1 or more as dimension %zu", name, text,
          2 + i);
    const resizing resize = {graph, name, (int)i + 2, from, sizes[i], align_corners};
    x = resize_by(&resize, x, mode);
  }
  return x;
}
