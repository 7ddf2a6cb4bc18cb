/* What maxima of windows leave of a plane: each where it was, zeros elsewhere. Invariant: of
 * several at one place the mean is kept, so that the result does not depend on their order. */
#include "layers/arguments.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { MOST_AXES = 3 };

static const tdm_value invalid = {0, 0};

/* x (n, channels, elements), of x (n, channels, ...). */
static tdm_value flat(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_value_is_valid(x) ? tdm_flatten(graph, name, x, 2, -1) : invalid;
}

/* Are the sizes sizes, and x one of that many dimensions, with indices like it? Writes whether x
 * has no n, and how large a plane of the result is; false with the graph's error. */
static bool read_sizes(tdm_graph *graph, const char *name, const tdm_shape *x,
                       const tdm_shape *indices, const int64_t *sizes, size_t count,
                       bool *out_single, int64_t *out_plane) {
  bool legal = sizes && count >= 1 && count <= MOST_AXES && indices->rank == x->rank &&
               (x->rank == (int)count + 1 || x->rank == (int)count + 2);
  *out_plane = 1;
  *out_single = x->rank == (int)count + 1;
  for (size_t i = 0; legal && i < count; i++)
    legal = sizes[i] > 0 && !__builtin_mul_overflow(*out_plane, sizes[i], out_plane);
  for (int i = *out_single ? 0 : 1; legal && i < x->rank; i++)
    legal = tdm_dim_is_size(x->dims[i]) && x->dims[i] > 0 && indices->dims[i] == x->dims[i];
  char text[TDM_SHAPE_TEXT], indices_text[TDM_SHAPE_TEXT];
  if (!legal)
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "max_unpool %s: x is %s, indices are %s: both must be (n, channels, ...) alike, "
                   "or without n, all but n sizes, and the result have 1 to %d sizes above 0, as "
                   "many as x has behind its channels; there are %zu",
                   name, tdm_shape_text(x, text, sizeof text),
                   tdm_shape_text(indices, indices_text, sizeof indices_text), MOST_AXES, count);
  return legal;
}

/* x (n, channels, elements) -> (n, channels, plane). */
static tdm_value place(tdm_graph *graph, const char *name, tdm_value x, tdm_value indices,
                       int64_t plane) {
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  const tdm_value numbers = tdm_cast(graph, name, indices, dtype);
  const tdm_value ones = tdm_affine(graph, name, numbers, 0, 1);
  const tdm_value zero = tdm_slice(graph, name, tdm_affine(graph, name, numbers, 0, 0), 2, 0, 1, 1);
  if (!tdm_value_is_valid(zero)) return invalid;
  const tdm_value zeros =
      tdm_expand(graph, name, zero, tdm_shape_of(3, TDM_INFER, TDM_INFER, plane));
  if (!tdm_value_is_valid(zeros)) return invalid;
  const tdm_value sums = tdm_scatter_add(graph, name, zeros, 2, indices, x);
  const tdm_value counts = tdm_scatter_add(graph, name, zeros, 2, indices, ones);
  if (!tdm_value_is_valid(sums) || !tdm_value_is_valid(counts)) return invalid;
  return tdm_div(graph, name, sums,
                 tdm_maximum(graph, name, counts, tdm_affine(graph, name, zeros, 0, 1)));
}

tdm_value tdm_max_unpool(tdm_graph *graph, const char *name, tdm_value x, tdm_value indices,
                         const int64_t *sizes, size_t count) {
  name = tdm_graph_name(graph, name);
  bool single;
  int64_t plane;
  if (!tdm_layer_accepts(graph, "max_unpool", name, x) ||
      !tdm_layer_accepts(graph, "max_unpool", name, indices))
    return invalid;
  tdm_shape shape = tdm_value_shape(graph, x);
  const tdm_shape indexed = tdm_value_shape(graph, indices);
  if (!read_sizes(graph, name, &shape, &indexed, sizes, count, &single, &plane)) return invalid;
  const tdm_argument places = {
      .layer = "max_unpool", .name = name, .what = "indices", .most = plane - 1};
  indices = tdm_argument_check(graph, &places, indices);
  if (!tdm_value_is_valid(indices)) return invalid;
  if (single) {
    x = tdm_unsqueeze(graph, name, x, 0);
    indices = tdm_unsqueeze(graph, name, indices, 0);
    shape = tdm_value_shape(graph, x);
  }
  x = flat(graph, name, x);
  indices = flat(graph, name, indices);
  if (!tdm_value_is_valid(x) || !tdm_value_is_valid(indices)) return invalid;
  const tdm_value placed = place(graph, name, x, indices, plane);
  if (!tdm_value_is_valid(placed)) return invalid;
  for (size_t i = 0; i < count; i++)
    shape.dims[2 + i] = sizes[i];
  const int8_t sources[] = {0, -1, -1, -1, -1};
  const tdm_value y = tdm_reshape_from(graph, name, placed, shape, sources);
  return single && tdm_value_is_valid(y) ? tdm_squeeze(graph, name, y, 0) : y;
}
