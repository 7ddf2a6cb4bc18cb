/* Public part of layers/: matrix products, dot products of vectors, and attention. Included by
 * layers/layers.h. The conventions of functions that build a graph are at the top of
 * graph/building.h. */
#ifndef TANDEM_LAYERS_PRODUCTS_H
#define TANDEM_LAYERS_PRODUCTS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes matrix products (torch.matmul). Leading dimensions are broadcast: one that is missing,
 * or is 1, is repeated.
 * @param a (..., m, k), with two dimensions or more, floating.
 * @param b (..., k, n), with two dimensions or more.
 * @return (..., m, n). */
TDM_API tdm_value tdm_matmul(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);

/* Returns x with two dimensions exchanged (torch.transpose). Negative dimensions count from the
 * end.
 * @param x any dtype. */
TDM_API tdm_value tdm_transpose(tdm_graph *graph, const char *name, tdm_value x, int first,
                                int second);

/* Computes the dot products of all pairs of vectors of each sample: (1,0), (2,0), (2,1), ..., the
 * lower triangle, as DLRM uses it.
 * @param x (batch, vectors, dim); vectors must be a size of at most 256.
 * @param with_self true: include the product of each vector with itself.
 * @return (batch, vectors (vectors - 1) / 2), or (batch, vectors (vectors + 1) / 2) with_self. */
TDM_API tdm_value tdm_dot_interaction(tdm_graph *graph, const char *name, tdm_value x,
                                      bool with_self);

/* Options of tdm_attention. */
typedef struct tdm_attention_options {
  size_t struct_size;
  /* Number of heads into which the last dimensions are divided, 1 or more. Default 1. */
  int64_t heads;
  bool causal; /* true: query i attends to keys up to i. Default false. */
  /* bool (batch, keys), true for keys that are ignored. Default invalid: none. */
  tdm_value padding;
  double scale; /* Factor of the products, finite. Default TDM_DEFAULT: 1 / sqrt(dim). */
  /* Probability with which a weight is dropped in runs that train, 0 to 1. Default 0. */
  double dropout;
  /* PyTorch's attn_mask: bool, true for keys that are ignored; or of q's dtype, added to the scaled
   * products. Its shape is (queries, keys), (batch heads, queries, keys) or (batch, heads, queries,
   * keys). No gradient flows into it. In a parallel region, (queries, keys) must be TDM_BROADCAST.
   * Default invalid: none. */
  tdm_value mask;
} tdm_attention_options;
static inline tdm_attention_options tdm_attention_options_default(void) {
  tdm_attention_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_attention_options);
  options.heads = 1;
  options.scale = TDM_DEFAULT;
  return options;
}

/* Computes scaled dot-product attention: softmax(scale q k^T) v for each head
 * (torch.nn.functional.scaled_dot_product_attention). Memory grows with queries + keys: the matrix
 * of weights is not stored. A query that attends to no key gives 0.
 * @param q (batch, queries, heads dim).
 * @param k (batch, keys, heads dim).
 * @param v (batch, keys, heads width).
 * @param options NULL: all defaults.
 * @return (batch, queries, heads width). */
TDM_API tdm_value tdm_attention(tdm_graph *graph, const char *name, tdm_value q, tdm_value k,
                                tdm_value v, const tdm_attention_options *options);

/* Options of tdm_multi_head_attention.
 * @code
 * tdm_multi_head_attention_options options = tdm_multi_head_attention_options_default();
 * options.causal = true;
 * tdm_value y = tdm_multi_head_attention(graph, "attention", x, x, x, 8, &options);
 * @endcode
 */
typedef struct tdm_multi_head_attention_options {
  size_t struct_size;
  /* true: operands are (batch, length, features). false: (length, batch, features). Default false.
   */
  bool batch_first;
  bool without_bias; /* true: no bias in any of the four linear layers. Default false. */
  bool causal;       /* true: query i attends to keys up to i. Default false. */
  /* bool (batch, keys), true for keys that are ignored: PyTorch's key_padding_mask. Default
   * invalid: none. */
  tdm_value padding;
  /* Probability with which a weight is dropped in runs that train, 0 to 1. Default 0. */
  double dropout;
  /* PyTorch's attn_mask, as in tdm_attention_options. Default invalid: none. */
  tdm_value mask;
  /* true: one further key and value, the parameters name.bias_k and name.bias_v (1, 1, features),
   * normal(0, 1/sqrt(features)). Default false. */
  bool add_bias_kv;
  bool add_zero_attn; /* true: one further key and value of zeros. Default false. */
  /* Receives the weights of the values after dropout: (batch, queries, keys), the mean over heads.
   * The weights are then a matrix in memory, and attention is computed by products and a softmax.
   * Default NULL: not needed. */
  tdm_value *out_weights;
  /* true: out_weights receives (batch, heads, queries, keys) instead. Default false. */
  bool weights_by_head;
} tdm_multi_head_attention_options;
static inline tdm_multi_head_attention_options tdm_multi_head_attention_options_default(void) {
  tdm_multi_head_attention_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_multi_head_attention_options);
  return options;
}

/* Applies multi-head attention: attention between linear layers (torch.nn.MultiheadAttention).
 * Declares
 * - `name.in_proj_weight` (3 features, features), uniform within +-sqrt(6 / (4 features)).
 * - `name.in_proj_bias` (3 features), zeros.
 * - `name.out_proj.weight` (features, features), uniform within +-1/sqrt(features).
 * - `name.out_proj.bias` (features), zeros.
 *
 * If key or value have other numbers of features (PyTorch's kdim and vdim), three parameters
 * replace the first: `name.q_proj_weight`, `name.k_proj_weight` and `name.v_proj_weight` (features,
 * n), uniform within +-sqrt(6 / (features + n)). n is the number of features of the operand.
 * @param query (queries, batch, features), or (queries, features).
 * @param key (keys, batch, features), or (keys, features).
 * @param value (keys, batch, features), or (keys, features).
 * @param heads number of heads; it divides features.
 * @param options NULL: all defaults.
 * @return of query's shape. */
TDM_API tdm_value tdm_multi_head_attention(tdm_graph *graph, const char *name, tdm_value query,
                                           tdm_value key, tdm_value value, int64_t heads,
                                           const tdm_multi_head_attention_options *options);

#ifdef __cplusplus
}
#endif
#endif
