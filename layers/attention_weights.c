/* Attention as products and a softmax. Invariant: a key that is left out has the weight 0, also of
 * a query that sees no key at all. */
#include <float.h>
#include <math.h>

#include "layers/attention.h"
#include "layers/common.h"

static const tdm_value invalid = {0, 0};

/* x (batch, length, heads dim) -> (batch, heads, length, dim), or, turned, (batch, heads, dim,
 * length). */
static tdm_value by_heads(tdm_graph *graph, const char *name, tdm_value x, int64_t heads,
                          bool turned) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (shape.rank != 3 || !tdm_dim_is_size(shape.dims[2]) || heads < 1 || shape.dims[2] % heads != 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "attention %s: an operand is %s, and %lld heads cannot share its last "
                          "dimension",
                          name, tdm_shape_text(&shape, text, sizeof text), (long long)heads);
  const int8_t sources[] = {0, 1, -1, -1};
  const tdm_value apart = tdm_reshape_from(
      graph, name, x, tdm_shape_of(4, shape.dims[0], shape.dims[1], heads, shape.dims[2] / heads),
      sources);
  static const int plain[] = {0, 2, 1, 3}, turn[] = {0, 2, 3, 1};
  return tdm_value_is_valid(apart) ? tdm_permute(graph, name, apart, turned ? turn : plain, 4)
                                   : invalid;
}

/* Scores with what the options leave out at minus infinity, or with their mask added. */
static tdm_value masked(tdm_graph *graph, const char *name, tdm_value scores,
                        const tdm_attention_options *options) {
  if (tdm_value_is_valid(options->padding)) { /* (batch, keys) */
    const tdm_value padding = tdm_unsqueeze(graph, name, options->padding, 1);
    scores =
        tdm_masked_fill(graph, name, scores, tdm_unsqueeze(graph, name, padding, 1), -INFINITY);
  }
  const tdm_value mask = tdm_mask_by_heads(graph, name, options->mask, options->heads);
  if (tdm_value_is_valid(mask))
    scores = tdm_value_dtype(graph, mask) == TDM_BOOL
                 ? tdm_masked_fill(graph, name, scores, mask, -INFINITY)
                 : tdm_add(graph, name, scores, mask);
  if (options->causal && tdm_value_is_valid(scores)) {
    const tdm_value queries = tdm_arange_like(graph, name, scores, 2);
    const tdm_value keys = tdm_arange_like(graph, name, scores, 3);
    const tdm_value behind =
        tdm_compare(graph, name, keys, TDM_GREATER, tdm_unsqueeze(graph, name, queries, 1));
    scores = tdm_masked_fill(graph, name, scores, behind, -INFINITY);
  }
  return scores;
}

/* Infinities would be taken from one another where there are no others. */
static tdm_value weigh(tdm_graph *graph, const char *name, tdm_value scores, bool has_mask) {
  if (!has_mask) return tdm_softmax(graph, name, scores, -1);
  const double least = tdm_value_dtype(graph, scores) == TDM_FLOAT32 ? -(double)FLT_MAX : -DBL_MAX;
  const tdm_value out = tdm_compare_scalar(graph, name, scores, TDM_LESS_EQUAL, least);
  const tdm_value finite = tdm_masked_fill(graph, name, scores, out, least);
  return tdm_masked_fill(graph, name, tdm_softmax(graph, name, finite, -1), out, 0);
}

tdm_value tdm_attention_with_weights(tdm_graph *graph, const char *name, tdm_value q, tdm_value k,
                                     tdm_value v, const tdm_attention_options *options,
                                     tdm_value *out_weights) {
  const int64_t heads = options->heads;
  *out_weights = invalid;
  const tdm_value queries = by_heads(graph, name, q, heads, false);
  const tdm_value keys = by_heads(graph, name, k, heads, true);
  const tdm_value values = by_heads(graph, name, v, heads, false);
  if (!tdm_value_is_valid(queries) || !tdm_value_is_valid(keys) || !tdm_value_is_valid(values))
    return invalid;
  const int64_t dim = tdm_value_shape(graph, queries).dims[3];
  const double scale = tdm_or_default(options->scale, 1 / sqrt((double)dim));
  tdm_value scores = tdm_matmul(graph, name, tdm_mul_scalar(graph, name, queries, scale), keys);
  scores = masked(graph, name, scores, options);
  if (!tdm_value_is_valid(scores)) return invalid;
  const bool has_mask =
      options->causal || tdm_value_is_valid(options->padding) || tdm_value_is_valid(options->mask);
  tdm_value weights = weigh(graph, name, scores, has_mask);
  if (options->dropout > 0) weights = tdm_dropout(graph, name, weights, options->dropout);
  const tdm_value y = tdm_matmul(graph, name, weights, values);
  if (!tdm_value_is_valid(y)) return invalid;
  *out_weights = weights;
  const tdm_value together = tdm_permute(graph, name, y, (const int[]){0, 2, 1, 3}, 4);
  return tdm_value_is_valid(together) ? tdm_flatten(graph, name, together, 2, 3) : invalid;
}
