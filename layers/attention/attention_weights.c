/* Attention composed of products and a softmax. Invariant: a masked key has the weight 0, also for
 * a query all of whose keys are masked. */
#include <float.h>
#include <math.h>

#include "layers/arguments.h"
#include "layers/attention/attention.h"
#include "layers/common.h"

/* ---- Arguments ------------------------------------------------------------------------------- */

/* Returns true if all features are sizes and the query's are a multiple of the heads. */
static bool has_features(tdm_graph *graph, const tdm_attended *given, int input, int rank) {
  tdm_shape shape = tdm_value_shape(graph, given->inputs[input]);
  char text[TDM_SHAPE_TEXT];
  const tdm_dim features = shape.rank > 0 ? *tdm_shape_last(&shape) : 0;
  if (!tdm_argument_has_rank(graph, given->layer, given->name, given->names[input],
                             given->inputs[input], rank ? rank : 2, rank ? rank : 3))
    return false;
  if (features > 0 && features <= INT64_MAX / 3 && (input > 0 || features % given->heads == 0))
    return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 input > 0 ? "%s %s: %s is %s, expected a last dimension of 1 or more features"
                           : "%s %s: %s is %s, expected a last dimension that %lld heads divide",
                 given->layer, given->name, given->names[input],
                 tdm_shape_text(&shape, text, sizeof text), (long long)given->heads);
  return false;
}

/* Returns true if dtypes and batches agree, and there are as many values as keys. */
static bool fit_inputs(tdm_graph *graph, const tdm_attended *given) {
  const int rank = tdm_value_shape(graph, given->inputs[0]).rank;
  const int batch = given->batch_first ? 0 : 1, length = rank == 2 ? 0 : 1 - batch;
  for (int i = 0; i < 3; i++) {
    if (!tdm_argument_has_parameter_dtype(graph, given->layer, given->name, given->names[i],
                                          given->inputs[i]) ||
        !has_features(graph, given, i, i > 0 ? rank : 0))
      return false;
    tdm_shape expected = tdm_value_shape(graph, given->inputs[i]);
    if (rank == 3 && i > 0)
      expected.dims[batch] = tdm_value_shape(graph, given->inputs[0]).dims[batch];
    if (i == 2) expected.dims[length] = tdm_value_shape(graph, given->inputs[1]).dims[length];
    if (!tdm_argument_has_shape(graph, given->layer, given->name, given->names[i], given->inputs[i],
                                &expected))
      return false;
  }
  return true;
}

static bool fits_padding(tdm_graph *graph, const tdm_attended *given, tdm_dim batch, tdm_dim keys) {
  const bool single = tdm_value_shape(graph, given->inputs[0]).rank == 2;
  tdm_shape expected = {.rank = 2, .dims = {batch, keys}};
  if (single && tdm_value_shape(graph, given->padding).rank == 1)
    expected = (tdm_shape){.rank = 1, .dims = {keys}};
  return tdm_argument_has_dtype(graph, given->layer, given->name, given->padding_name,
                                given->padding, TDM_BOOL) &&
         tdm_argument_has_shape(graph, given->layer, given->name, given->padding_name,
                                given->padding, &expected);
}

static bool fits_mask(tdm_graph *graph, const tdm_attended *given, tdm_dim batch, tdm_dim queries,
                      tdm_dim keys) {
  tdm_shape expected = {.rank = 2, .dims = {queries, keys}};
  const int rank = tdm_value_shape(graph, given->mask).rank;
  const tdm_dim all = tdm_dim_is_size(batch) ? batch * given->heads : TDM_DIM_UNKNOWN;
  if (rank == 3) expected = (tdm_shape){.rank = 3, .dims = {all, queries, keys}};
  if (rank == 4) expected = (tdm_shape){.rank = 4, .dims = {batch, given->heads, queries, keys}};
  if (tdm_value_dtype(graph, given->mask) != TDM_BOOL &&
      !tdm_argument_has_dtype(graph, given->layer, given->name, given->mask_name, given->mask,
                              tdm_graph_dtype(graph)))
    return false;
  return tdm_argument_has_shape(graph, given->layer, given->name, given->mask_name, given->mask,
                                &expected);
}

bool tdm_attended_check(tdm_graph *graph, const tdm_attended *given) {
  for (int i = 0; i < 3; i++)
    if (!tdm_argument_is_value(graph, given->layer, given->name, given->names[i], given->inputs[i]))
      return false;
  if (!tdm_layer_is_at_least(graph, given->layer, given->name, "heads", given->heads, 1) ||
      !fit_inputs(graph, given))
    return false;
  if (!tdm_argument_is_probability(graph, given->layer, given->name, "dropout", given->dropout))
    return false;
  const tdm_shape query = tdm_value_shape(graph, given->inputs[0]);
  const tdm_shape key = tdm_value_shape(graph, given->inputs[1]);
  const int batch = given->batch_first ? 0 : 1, length = query.rank == 2 ? 0 : 1 - batch;
  const tdm_dim sequences = query.rank == 2 ? 1 : tdm_dim_merge(query.dims[batch], key.dims[batch]);
  return (!tdm_value_is_valid(given->padding) ||
          fits_padding(graph, given, sequences, key.dims[length])) &&
         (!tdm_value_is_valid(given->mask) ||
          fits_mask(graph, given, sequences, query.dims[length], key.dims[length]));
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Returns x (batch, length, heads dim) as (batch, heads, length, dim), or, if turned, as (batch,
 * heads, dim, length). */
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
                                   : TDM_NO_VALUE;
}

/* Returns the scores with masked keys at minus infinity, or with a floating mask added. */
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

/* Returns the softmax of the scores with a weight of 0 for masked keys. Scores of minus infinity
 * become the least finite number first, so that a row of masked keys does not subtract
 * infinities. */
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
  *out_weights = TDM_NO_VALUE;
  const tdm_value queries = by_heads(graph, name, q, heads, false);
  const tdm_value keys = by_heads(graph, name, k, heads, true);
  const tdm_value values = by_heads(graph, name, v, heads, false);
  if (!tdm_value_is_valid(queries) || !tdm_value_is_valid(keys) || !tdm_value_is_valid(values))
    return TDM_NO_VALUE;
  const int64_t dim = tdm_value_shape(graph, queries).dims[3];
  const double scale = tdm_or_default(options->scale, 1 / sqrt((double)dim));
  tdm_value scores = tdm_matmul(graph, name, tdm_mul_scalar(graph, name, queries, scale), keys);
  scores = masked(graph, name, scores, options);
  if (!tdm_value_is_valid(scores)) return TDM_NO_VALUE;
  const bool has_mask =
      options->causal || tdm_value_is_valid(options->padding) || tdm_value_is_valid(options->mask);
  tdm_value weights = weigh(graph, name, scores, has_mask);
  if (options->dropout > 0) weights = tdm_dropout(graph, name, weights, options->dropout);
  const tdm_value y = tdm_matmul(graph, name, weights, values);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  *out_weights = weights;
  const tdm_value together = tdm_permute(graph, name, y, (const int[]){0, 2, 1, 3}, 4);
  return tdm_value_is_valid(together) ? tdm_flatten(graph, name, together, 2, 3) : TDM_NO_VALUE;
}
