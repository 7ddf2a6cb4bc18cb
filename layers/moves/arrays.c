/* Parts and diagonals of arrays, grids and norms, composed of views, slices and sums. Invariant:
 * divisors and arguments of roots are never 0 on a path that a gradient takes. */
#include <math.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Parts ----------------------------------------------------------------------------------- */

void tdm_unbind(tdm_graph *graph, const char *name, tdm_value x, int dimension, size_t count,
                tdm_value *out_parts) {
  name = tdm_graph_name(graph, name);
  for (size_t i = 0; out_parts && i < count; i++)
    out_parts[i] = TDM_NO_VALUE;
  if (!tdm_layer_accepts(graph, "unbind", name, x)) return;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "unbind", name, &shape, dimension);
  if (counted < 0) return;
  char text[TDM_SHAPE_TEXT];
  if (!out_parts || shape.dims[counted] != (tdm_dim)count) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "unbind %s: %zu parts of x, which is %s: dimension %d must be as many, and a "
                   "list for them be given",
                   name, count, tdm_shape_text(&shape, text, sizeof text), dimension);
    return;
  }
  for (size_t i = 0; i < count; i++)
    out_parts[i] = tdm_select(graph, name, x, counted, (int64_t)i);
}

/* Moves both dimensions to the end and merges them: every (columns + 1)th element of the merged
 * dimension is on the diagonal. */
tdm_value tdm_diagonal(tdm_graph *graph, const char *name, tdm_value x, int64_t offset, int first,
                       int second) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "diagonal", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int a = tdm_layer_dimension(graph, "diagonal", name, &shape, first);
  const int b = a < 0 ? -1 : tdm_layer_dimension(graph, "diagonal", name, &shape, second);
  if (b < 0) return TDM_NO_VALUE;
  const int64_t rows = shape.dims[a], columns = shape.dims[b];
  char text[TDM_SHAPE_TEXT];
  if (a == b || !tdm_dim_is_size(rows) || !tdm_dim_is_size(columns))
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "diagonal %s: of dimensions %d and %d of x, which is %s: they must be two "
        "sizes",
        name, first, second, tdm_shape_text(&shape, text, sizeof text));
  int order[TDM_MAX_RANK], count = 0;
  for (int i = 0; i < shape.rank; i++)
    if (i != a && i != b) order[count++] = i;
  order[count++] = a;
  order[count++] = b;
  x = tdm_permute(graph, name, x, order, (size_t)count);
  if (!tdm_value_is_valid(x)) return TDM_NO_VALUE;
  x = tdm_flatten(graph, name, x, -2, -1);
  if (offset >= columns || offset <= -rows) return tdm_slice(graph, name, x, -1, 0, 0, 1);
  const int64_t right = offset > 0 ? offset : 0, down = offset < 0 ? -offset : 0;
  const int64_t length = columns - right < rows - down ? columns - right : rows - down;
  const int64_t begin = down * columns + right;
  return tdm_slice(graph, name, x, -1, begin, begin + (length - 1) * (columns + 1) + 1,
                   columns + 1);
}

tdm_value tdm_diagonal_sum(tdm_graph *graph, const char *name, tdm_value x) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "diagonal_sum", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (shape.rank != 2)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "diagonal_sum %s: x is %s, and must have two dimensions", name,
                          tdm_shape_text(&shape, text, sizeof text));
  const tdm_value diagonal = tdm_diagonal(graph, name, x, 0, 0, 1);
  return tdm_value_is_valid(diagonal) ? tdm_sum(graph, name, diagonal, NULL, 0, false)
                                      : TDM_NO_VALUE;
}

/* ---- Grids ----------------------------------------------------------------------------------- */

/* Reshapes x (n) to `rank` dimensions, all 1 except `dimension`, which is n. */
static tdm_value stand_along(tdm_graph *graph, const char *name, tdm_value x, int rank,
                             int dimension) {
  tdm_shape wanted = {.rank = rank};
  int8_t sources[TDM_MAX_RANK];
  for (int i = 0; i < rank; i++) {
    wanted.dims[i] = i == dimension ? tdm_value_shape(graph, x).dims[0] : 1;
    sources[i] = i == dimension ? 0 : -1;
  }
  return rank == 1 ? x : tdm_reshape_from(graph, name, x, wanted, sources);
}

static bool is_vector(tdm_graph *graph, const char *function, const char *name, tdm_value x) {
  if (!tdm_layer_accepts(graph, function, name, x)) return false;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (shape.rank == 1) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: a value is %s, and must have one dimension",
                 function, name, tdm_shape_text(&shape, text, sizeof text));
  return false;
}

tdm_value tdm_outer(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  name = tdm_graph_name(graph, name);
  if (!is_vector(graph, "outer", name, a) || !is_vector(graph, "outer", name, b))
    return TDM_NO_VALUE;
  return tdm_mul(graph, name, stand_along(graph, name, a, 2, 0), b);
}

/* Repeats each value to the broadcast shape of all of them. */
void tdm_meshgrid(tdm_graph *graph, const char *name, const tdm_value *values, size_t count,
                  tdm_value *out_values) {
  name = tdm_graph_name(graph, name);
  for (size_t i = 0; out_values && i < count; i++)
    out_values[i] = TDM_NO_VALUE;
  if (count < 1 || count > TDM_MAX_RANK || !values || !out_values) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "meshgrid %s: %zu values, 1 to %d can be, and a list for the results", name,
                   values ? count : 0, TDM_MAX_RANK);
    return;
  }
  tdm_value standing[TDM_MAX_RANK], like = TDM_NO_VALUE;
  for (size_t i = 0; i < count; i++) {
    if (!is_vector(graph, "meshgrid", name, values[i])) return;
    standing[i] = stand_along(graph, name, values[i], (int)count, (int)i);
    like = i == 0 ? standing[0] : tdm_add(graph, name, like, standing[i]);
  }
  for (size_t i = 0; i < count && tdm_value_is_valid(like); i++)
    out_values[i] = tdm_expand_as(graph, name, standing[i], like);
}

/* ---- Norms ----------------------------------------------------------------------------------- */

/* Computes the root, of 1 where the sum is 0, so that its slope is finite there. The gradient is
 * multiplied by the elements, which are 0, so a NaN stays NaN. */
static tdm_value root_of(tdm_graph *graph, const char *name, tdm_value sum, double p) {
  const tdm_value is_zero = tdm_compare_scalar(graph, name, sum, TDM_EQUAL, 0);
  const tdm_value one = tdm_cast(graph, name, is_zero, tdm_value_dtype(graph, sum));
  const tdm_value root = tdm_pow(graph, name, tdm_add(graph, name, sum, one), 1 / p);
  return tdm_sub(graph, name, root, one);
}

/* Reduces one dimension after another, the last first so that the others keep their indices. */
static tdm_value extreme_of(tdm_graph *graph, const char *name, tdm_value x, bool largest,
                            const int *dimensions, size_t count, bool keep) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  unsigned mask = count == 0 ? (1U << shape.rank) - 1 : 0;
  for (size_t i = 0; i < count; i++) {
    const int counted = tdm_layer_dimension(graph, "norm", name, &shape, dimensions[i]);
    if (counted < 0) return TDM_NO_VALUE;
    mask |= 1U << counted;
  }
  for (int i = shape.rank - 1; i >= 0 && tdm_value_is_valid(x); i--)
    if ((mask >> i & 1) != 0) x = (largest ? tdm_max : tdm_min)(graph, name, x, i, keep, NULL);
  return x;
}

tdm_value tdm_norm(tdm_graph *graph, const char *name, tdm_value x, double p, const int *dimensions,
                   size_t count, bool keep) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "norm", name, x)) return TDM_NO_VALUE;
  if (!(p > 0) && p != -INFINITY)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "norm %s: p is %g, and must be positive, or an infinity", name, p);
  if (count > 0 && !dimensions)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "norm %s: dimensions is NULL, count is %zu",
                          name, count);
  if (p == 2) return tdm_root_of_squares(graph, "norm", name, x, dimensions, count, keep);
  const tdm_value sizes = tdm_abs(graph, name, x);
  if (!tdm_value_is_valid(sizes)) return TDM_NO_VALUE;
  if (isinf(p)) return extreme_of(graph, name, sizes, p > 0, dimensions, count, keep);
  const tdm_value powers = p == 1 ? sizes : tdm_pow(graph, name, sizes, p);
  const tdm_value sum = tdm_sum(graph, name, powers, dimensions, count, keep);
  return p == 1 || !tdm_value_is_valid(sum) ? sum : root_of(graph, name, sum, p);
}

tdm_value tdm_normalize(tdm_graph *graph, const char *name, tdm_value x, double p, int dimension,
                        double epsilon) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_epsilon(graph, "normalize", name, epsilon)) return TDM_NO_VALUE;
  const tdm_value norm = tdm_norm(graph, name, x, p, &dimension, 1, true);
  if (!tdm_value_is_valid(norm)) return TDM_NO_VALUE;
  return tdm_div(graph, name, x, tdm_clamp(graph, name, norm, epsilon, INFINITY));
}
