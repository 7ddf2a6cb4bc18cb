/* Max unpooling: each maximum goes to its original place in a plane, zeros elsewhere. Invariant:
 * several maxima at one place are averaged, so the result does not depend on their order. */
#include "layers/arguments.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { MOST_AXES = 3 };

/* Returns x (n, channels, ...) as (n, channels, elements). */
static tdm_value flat(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_value_is_valid(x) ? tdm_flatten(graph, name, x, 2, -1) : TDM_NO_VALUE;
}

/* Returns true if x is (n, channels, ...), or lacks n, with as many dimensions after the channels
 * as there are sizes. Writes whether x lacks n, and the number of elements of a plane of the
 * result. Otherwise returns false with the graph's error. */
static bool read_sizes(tdm_graph *graph, const char *name, tdm_value x, const int64_t *sizes,
                       size_t count, bool *out_single, int64_t *out_plane) {
  static const char layer[] = "max_unpool";
  if (!tdm_argument_is_within(graph, layer, name, "the number of sizes", sizes ? (int64_t)count : 0,
                              -1, 1, MOST_AXES) ||
      !tdm_argument_is_floating(graph, layer, name, "x", x) ||
      !tdm_argument_has_rank(graph, layer, name, "x", x, (int)count + 1, (int)count + 2))
    return false;
  const tdm_shape shape = tdm_value_shape(graph, x);
  *out_single = shape.rank == (int)count + 1;
  *out_plane = 1;
  for (size_t i = 0; i < count; i++) {
    const int64_t most = INT64_MAX / *out_plane;
    if (!tdm_argument_is_within(graph, layer, name, "sizes", sizes[i], (int)i, 1, most))
      return false;
    *out_plane *= sizes[i];
  }
  bool sized = true;
  for (int i = *out_single ? 0 : 1; i < shape.rank; i++)
    sized = sized && tdm_dim_is_size(shape.dims[i]) && shape.dims[i] > 0;
  char text[TDM_SHAPE_TEXT];
  if (!sized)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "max_unpool %s: x is %s, expected sizes of 1 or more as all dimensions but n",
                   name, tdm_shape_text(&shape, text, sizeof text));
  return sized;
}

/* x (n, channels, elements) -> (n, channels, plane). */
static tdm_value place(tdm_graph *graph, const char *name, tdm_value x, tdm_value indices,
                       int64_t plane) {
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  const tdm_value numbers = tdm_cast(graph, name, indices, dtype);
  const tdm_value ones = tdm_affine(graph, name, numbers, 0, 1);
  const tdm_value zero = tdm_slice(graph, name, tdm_affine(graph, name, numbers, 0, 0), 2, 0, 1, 1);
  if (!tdm_value_is_valid(zero)) return TDM_NO_VALUE;
  const tdm_value zeros =
      tdm_expand(graph, name, zero, tdm_shape_of(3, TDM_INFER, TDM_INFER, plane));
  if (!tdm_value_is_valid(zeros)) return TDM_NO_VALUE;
  const tdm_value sums = tdm_scatter_add(graph, name, zeros, 2, indices, x);
  const tdm_value counts = tdm_scatter_add(graph, name, zeros, 2, indices, ones);
  if (!tdm_value_is_valid(sums) || !tdm_value_is_valid(counts)) return TDM_NO_VALUE;
  return tdm_div(graph, name, sums,
                 tdm_maximum(graph, name, counts, tdm_affine(graph, name, zeros, 0, 1)));
}

tdm_value tdm_max_unpool(tdm_graph *graph, const char *name, tdm_value x, tdm_value indices,
                         const int64_t *sizes, size_t count) {
  name = tdm_graph_name(graph, name);
  bool single;
  int64_t plane;
  tdm_shape shape = tdm_value_shape(graph, x);
  if (!read_sizes(graph, name, x, sizes, count, &single, &plane) ||
      !tdm_argument_has_shape(graph, "max_unpool", name, "indices", indices, &shape))
    return TDM_NO_VALUE;
  const tdm_argument places = {
      .layer = "max_unpool", .name = name, .what = "indices", .most = plane - 1};
  indices = tdm_argument_check(graph, &places, indices);
  if (!tdm_value_is_valid(indices)) return TDM_NO_VALUE;
  if (single) {
    x = tdm_unsqueeze(graph, name, x, 0);
    indices = tdm_unsqueeze(graph, name, indices, 0);
    shape = tdm_value_shape(graph, x);
  }
  x = flat(graph, name, x);
  indices = flat(graph, name, indices);
  if (!tdm_value_is_valid(x) || !tdm_value_is_valid(indices)) return TDM_NO_VALUE;
  const tdm_value placed = place(graph, name, x, indices, plane);
  if (!tdm_value_is_valid(placed)) return TDM_NO_VALUE;
  for (size_t i = 0; i < count; i++)
    shape.dims[2 + i] = sizes[i];
  const int8_t sources[] = {0, -1, -1, -1, -1};
  const tdm_value y = tdm_reshape_from(graph, name, placed, shape, sources);
  return single && tdm_value_is_valid(y) ? tdm_squeeze(graph, name, y, 0) : y;
}
