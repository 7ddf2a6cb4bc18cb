/* Describes to the library what goes along a dimension that may be the batch. */
#include <math.h>

#include "tests/options.h"
#include "tests/random/view.h"

static tdm_value build_shift(tdm_graph *graph, tdm_value x, int dimension, int rank) {
  int64_t amounts[2 * MOST_RANK] = {0}; /* the last dimension first */
  amounts[2 * (rank - 1 - dimension)] = 1;
  const tdm_value more = tdm_pad(graph, "more", x, amounts, 2 * (size_t)rank, TDM_PAD_CONSTANT, 0);
  return tdm_slice(graph, "it", more, dimension, 0, -1, 1);
}

/* x times 1, 2, ... along the dimension. */
static tdm_value build_places(tdm_graph *graph, tdm_value x, int dimension, int rank) {
  tdm_value places = tdm_arange_like(graph, "places", x, dimension);
  places = tdm_cast(graph, "numbers", places, TDM_FLOAT64);
  for (int i = dimension + 1; i < rank; i++)
    places = tdm_unsqueeze(graph, "wider", places, -1);
  return tdm_mul(graph, "it", x, tdm_affine(graph, "scaled", places, 0.25, 1));
}

static tdm_value build_window(tdm_graph *graph, const random_node *what, tdm_value x,
                              int64_t channels) {
  const tdm_conv_options same = OPTIONS(tdm_conv_options, o.padding[0] = 1, o.without_bias = true);
  const tdm_pool_options around =
      OPTIONS(tdm_pool_options, o.stride[0] = o.stride[1] = 1, o.padding[0] = 1);
  if (what->which == ROWS_WINDOW) return tdm_conv1d(graph, "it", x, channels, 3, &same);
  if (what->which == ROWS_POOL) return tdm_avg_pool1d(graph, "it", x, 3, &around);
  return tdm_instance_norm(graph, "it", x);
}

/* A norm has a bend where all is 0, which rounding would show. */
static tdm_value build_norm(tdm_graph *graph, const char *name, tdm_value x, double p,
                            int dimension, bool keep) {
  const tdm_value moved = tdm_add_scalar(graph, "moved", x, 0.31);
  return tdm_norm(graph, name, moved, p, &dimension, 1, keep);
}

static tdm_value build_like(tdm_graph *graph, const random_node *what, tdm_value x, int rank) {
  const int d = what->dimension;
  switch (what->which) {
  case ROWS_FLIP:
    return tdm_flip(graph, "it", x, &d, 1);
  case ROWS_SORT:
    return tdm_sort(graph, "it", x, d, true, NULL);
  case ROWS_GATHER:
    return tdm_gather(graph, "it", x, d, tdm_argsort(graph, "order", x, d, false));
  case ROWS_SHIFT:
    return build_shift(graph, x, d, rank);
  case ROWS_PLACES:
    return build_places(graph, x, d, rank);
  case ROWS_CENTRE:
    return tdm_sub(graph, "it", x, tdm_mean(graph, "mean", x, &d, 1, true));
  case ROWS_LESS_MOST:
    return tdm_sub(graph, "it", x, tdm_max(graph, "most", x, d, true, NULL));
  case ROWS_LESS_LOG_SUM:
    return tdm_sub(graph, "it", x, tdm_logsumexp(graph, "sum", x, &d, 1, true));
  case ROWS_SCALE:
    return tdm_div(graph, "it", x,
                   tdm_add_scalar(graph, "some", build_norm(graph, "norm", x, 2, d, true), 1));
  case ROWS_SOFTMAX:
    return tdm_softmax(graph, "it", x, d);
  default:
    return tdm_cumsum(graph, "it", x, d);
  }
}

static tdm_value build_reduced(tdm_graph *graph, const random_node *what, tdm_value x) {
  const int *d = &what->dimension;
  switch (what->which) {
  case ROWS_SUM:
    return tdm_sum(graph, "it", x, d, 1, what->flag);
  case ROWS_MEAN:
    return tdm_mean(graph, "it", x, d, 1, what->flag);
  case ROWS_MOST:
    return tdm_max(graph, "it", x, *d, what->flag, NULL);
  case ROWS_NORM:
    return build_norm(graph, "it", x, 2, *d, what->flag);
  case ROWS_LARGEST:
    return build_norm(graph, "it", x, INFINITY, *d, what->flag);
  case ROWS_VARIANCE:
    return tdm_variance(graph, "it", x, d, 1, 0, what->flag);
  default:
    return tdm_logsumexp(graph, "it", x, d, 1, what->flag);
  }
}

tdm_value build_rows(tdm_graph *graph, const random_node *what, tdm_value x, const extent *made) {
  const tdm_value twice[] = {x, x};
  int64_t times[MOST_RANK] = {1, 1, 1, 1};
  if (what->which >= ROWS_INSTANCE && what->which <= ROWS_POOL)
    return build_window(graph, what, x, made->dims[1]);
  if (what->which < ROWS_SUM) return build_like(graph, what, x, made->rank);
  if (what->which < ROWS_STACK) return build_reduced(graph, what, x);
  if (what->which == ROWS_STACK) return tdm_stack(graph, "it", twice, 2, what->dimension);
  if (what->which == ROWS_SLICE)
    return tdm_slice(graph, "it", x, what->dimension, what->kernel[0], what->kernel[1],
                     what->stride[0]);
  times[what->dimension] = 2;
  return tdm_repeat(graph, "it", x, times, (size_t)made->rank);
}
