/* Calls of layers/moves.h, arrays.h and of other functions that move elements: one each, with drawn
 * arguments. */
#include "tests/fuzz/api/api.h"

enum { MOST_OPERANDS = 4 };

/* Draws values; returns their number, at most MOST_OPERANDS. */
static uint32_t draw_values(api *self, tdm_value *values) {
  const uint32_t count = fuzz_below(&self->input, MOST_OPERANDS + 1);
  for (uint32_t i = 0; i < count; i++)
    values[i] = api_value(self);
  return count;
}

static uint32_t draw_dimensions(api *self, int *dimensions) {
  const uint32_t count = fuzz_below(&self->input, MOST_OPERANDS + 1);
  for (uint32_t i = 0; i < count; i++)
    dimensions[i] = api_dimension(self);
  return count;
}

static uint32_t draw_sizes(api *self, int64_t *sizes) {
  const uint32_t count = fuzz_below(&self->input, MOST_OPERANDS + 1);
  for (uint32_t i = 0; i < count; i++)
    sizes[i] = api_size(self);
  return count;
}

/* ---- Elements of one value, elsewhere -------------------------------------------------------- */

static tdm_value call_slice(api *self, const char *name, tdm_value x) {
  const int dimension = api_dimension(self);
  const int64_t begin = api_size(self);
  const int64_t end = api_size(self);
  const int64_t step = api_bool(self) ? 1 : api_size(self);
  return tdm_slice(self->graph, name, x, dimension, begin, end, step);
}

static tdm_value call_order(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  int dimensions[MOST_OPERANDS];
  const uint32_t count = draw_dimensions(self, dimensions);
  switch (fuzz_below(&self->input, 6)) {
  case 0:
    return tdm_permute(graph, name, x, dimensions, count);
  case 1:
    return tdm_flip(graph, name, x, dimensions, count);
  case 2:
    return tdm_roll(graph, name, x, api_size(self), api_dimension(self));
  case 3:
    return tdm_tril(graph, name, x, api_size(self));
  case 4:
    return tdm_triu(graph, name, x, api_size(self));
  default:
    return tdm_diagonal(graph, name, x, api_size(self), count ? dimensions[0] : 0,
                        api_dimension(self));
  }
}

static tdm_value call_shape(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  int64_t sizes[MOST_OPERANDS];
  switch (fuzz_below(&self->input, 7)) {
  case 0:
    return tdm_squeeze(graph, name, x, api_dimension(self));
  case 1:
    return tdm_unsqueeze(graph, name, x, api_dimension(self));
  case 2: {
    const int first = api_dimension(self);
    return tdm_flatten(graph, name, x, first, api_dimension(self));
  }
  case 3:
    return tdm_expand(graph, name, x, api_shape(self, true));
  case 4:
    return tdm_expand_as(graph, name, x, api_value(self));
  case 5: {
    const uint32_t count = draw_sizes(self, sizes);
    return tdm_repeat(graph, name, x, sizes, count);
  }
  default:
    return tdm_diagonal_sum(graph, name, x);
  }
}

static tdm_value call_pad(api *self, const char *name, tdm_value x) {
  int64_t amounts[MOST_OPERANDS];
  const uint32_t count = draw_sizes(self, amounts);
  const tdm_pad_mode mode = (tdm_pad_mode)fuzz_below(&self->input, 5);
  return tdm_pad(self->graph, name, x, amounts, count, mode, api_real(self));
}

/* ---- By indices ------------------------------------------------------------------------------ */

static tdm_value call_indexed(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  const int dimension = api_dimension(self);
  const tdm_value index = api_value(self);
  switch (fuzz_below(&self->input, 5)) {
  case 0:
    return tdm_gather(graph, name, x, dimension, index);
  case 1:
    return tdm_index_select(graph, name, x, dimension, index);
  case 2:
    return tdm_scatter_add(graph, name, x, dimension, index, api_value(self));
  case 3:
    return tdm_one_hot(graph, name, x, api_size(self));
  default:
    return tdm_accuracy(graph, name, x, index);
  }
}

static tdm_value call_sorted(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  tdm_value indices = {0, 0};
  tdm_value found;
  const int dimension = api_dimension(self);
  const bool flag = api_bool(self);
  switch (fuzz_below(&self->input, 4)) {
  case 0:
    found = tdm_sort(graph, name, x, dimension, flag, &indices);
    break;
  case 1:
    return tdm_argsort(graph, name, x, dimension, flag);
  case 2:
    found = tdm_topk(graph, name, x, api_size(self), dimension, flag, &indices);
    break;
  default:
    return tdm_median(graph, name, x, dimension, flag);
  }
  api_keep(self, indices);
  return found;
}

/* ---- Functions of several values or results -------------------------------------------------- */

static tdm_value call_several(api *self, const char *name, tdm_value x) {
  static const char *const equations[] = {
      "ij,jk->ik", "ij->ji", "ii->i", "bij,bjk->bik", "i,j->ij", "...i->i", "ij,ij->",
      "ij",        "->",     "",      "i,i",          "ij->k",   "aB,Bc",   "i j , j -> i"};
  tdm_graph *graph = self->graph;
  tdm_value values[MOST_OPERANDS];
  tdm_value made[MOST_OPERANDS + 1] = {{0, 0}};
  const uint32_t count = draw_values(self, values);
  switch (fuzz_below(&self->input, 6)) {
  case 0:
    return tdm_stack(graph, name, values, count, api_dimension(self));
  case 1:
    return tdm_einsum(graph, name, equations[fuzz_below(&self->input, TDM_COUNT_OF(equations))],
                      values, count);
  case 2:
    tdm_meshgrid(graph, name, values, count, made);
    break;
  case 3:
    tdm_unbind(graph, name, x, api_dimension(self), count, made);
    break;
  case 4:
    tdm_split_evenly(graph, name, x, api_dimension(self), count, made);
    break;
  default:
    return tdm_outer(graph, name, x, api_value(self));
  }
  for (uint32_t i = 1; i < count; i++)
    api_keep(self, made[i]);
  return made[0];
}

/* ---- Along dimensions ------------------------------------------------------------------------ */

static tdm_value call_reduced(api *self, const char *name, tdm_value x) {
  tdm_graph *graph = self->graph;
  int dimensions[MOST_OPERANDS];
  const uint32_t count = draw_dimensions(self, dimensions);
  const int first = count ? dimensions[0] : 0;
  const bool keep = api_bool(self);
  switch (fuzz_below(&self->input, 8)) {
  case 0:
    return tdm_std(graph, name, x, dimensions, count, api_real(self), keep);
  case 1:
    return tdm_norm(graph, name, x, api_real(self), dimensions, count, keep);
  case 2:
    return tdm_prod(graph, name, x, dimensions, count, keep);
  case 3:
    return tdm_logsumexp(graph, name, x, dimensions, count, keep);
  case 4:
    return tdm_cumprod(graph, name, x, first);
  case 5:
    return tdm_logcumsumexp(graph, name, x, first);
  case 6:
    return tdm_normalize(graph, name, x, api_real(self), first, api_real(self));
  default:
    return tdm_glu(graph, name, x, first);
  }
}

static tdm_value call_pair(api *self, const char *name, tdm_value a) {
  tdm_graph *graph = self->graph;
  const tdm_value b = api_value(self);
  switch (fuzz_below(&self->input, 5)) {
  case 0:
    return tdm_remainder(graph, name, a, b);
  case 1:
    return tdm_power(graph, name, a, b);
  case 2: {
    const int dimension = api_dimension(self);
    return tdm_cosine_similarity(graph, name, a, b, dimension, api_real(self));
  }
  case 3: {
    const double p = api_real(self);
    const double epsilon = api_real(self);
    return tdm_pairwise_distance(graph, name, a, b, p, epsilon, api_bool(self));
  }
  default:
    return tdm_prelu(graph, name, a, api_size(self));
  }
}

static tdm_value call_range(api *self, const char *name, tdm_value x) {
  if (api_bool(self)) return tdm_arange_like(self->graph, name, x, api_dimension(self));
  const tdm_dtype dtype = api_dtype(self);
  const double start = api_real(self);
  const double end = api_real(self);
  return tdm_arange(self->graph, name, dtype, start, end, api_real(self));
}

void api_call_move(api *self, const char *name) {
  static tdm_value (*const calls[])(api *, const char *, tdm_value) = {
      call_slice,  call_order,   call_shape,   call_pad,  call_indexed,
      call_sorted, call_several, call_reduced, call_pair, call_range};
  const uint32_t which = fuzz_below(&self->input, TDM_COUNT_OF(calls));
  api_keep(self, calls[which](self, name, api_value(self)));
}
