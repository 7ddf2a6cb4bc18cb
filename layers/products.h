/* Public part of layers/: products of matrices, of pairs of vectors, and attention. Included by
 * layers/layers.h, whose rules hold here too. */
#ifndef TANDEM_LAYERS_PRODUCTS_H
#define TANDEM_LAYERS_PRODUCTS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a (..., m, k), b (..., k, n) -> (..., m, n), both of two dimensions or more; leading dimensions
 * are broadcast as PyTorch does it: a dimension that is missing, or is the size 1, is repeated. */
TDM_API tdm_value tdm_matmul(tdm_graph *graph, const char *name, tdm_value a, tdm_value b);
/* x with two dimensions exchanged (negative: from the end); float32, float64, int32 or int64. */
TDM_API tdm_value tdm_transpose(tdm_graph *graph, const char *name, tdm_value x, int first,
                                int second);

/* x (batch, vectors, dim) -> (batch, vectors (vectors - 1) / 2): the products of a sample's vectors
 * with those before them, (1,0), (2,0), (2,1), ..., the lower triangle as DLRM takes it; with
 * `with_self` each one's with itself too. vectors is a size of 256 at most. */
TDM_API tdm_value tdm_dot_interaction(tdm_graph *graph, const char *name, tdm_value x,
                                      bool with_self);

typedef struct tdm_attention_options {
  size_t struct_size;
  int64_t heads;     /* that the last dimensions are shared out to, 1 or more; default 1 */
  bool causal;       /* query i sees the keys up to i */
  tdm_value padding; /* bool (batch, keys): true where a key is left out; or invalid */
  double scale;      /* of the products; default TDM_DEFAULT: 1 / sqrt of a head's share of q */
  double dropout;    /* probability with which a weight is dropped in runs that train */
  /* PyTorch's attn_mask: bool, true where a key is left out, or of q's dtype, added to the scaled
   * products; (queries, keys), (batch heads, queries, keys) or (batch, heads, queries, keys); or
   * invalid. No gradient flows into it. Into a parallel region (queries, keys) goes as
   * TDM_BROADCAST. */
  tdm_value mask;
} tdm_attention_options;
static inline tdm_attention_options tdm_attention_options_default(void) {
  tdm_attention_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_attention_options);
  options.heads = 1;
  options.scale = TDM_DEFAULT;
  return options;
}

/* Scaled dot-product attention: q (batch, queries, heads dim), k (batch, keys, heads dim), v
 * (batch, keys, heads width) -> (batch, queries, heads width): softmax(scale q k^T) v, head by
 * head. Memory grows with queries + keys: no matrix of weights is kept. A query that sees no key
 * has 0. */
TDM_API tdm_value tdm_attention(tdm_graph *graph, const char *name, tdm_value q, tdm_value k,
                                tdm_value v, const tdm_attention_options *options);

typedef struct tdm_multi_head_attention_options {
  size_t struct_size;
  bool batch_first;  /* (batch, length, features) instead of (length, batch, features) */
  bool without_bias; /* of all four products */
  bool causal;       /* query i sees the keys up to i */
  tdm_value padding; /* bool (batch, keys): PyTorch's key_padding_mask; or invalid */
  double dropout;
  tdm_value mask;     /* as of tdm_attention: PyTorch's attn_mask */
  bool add_bias_kv;   /* one key and value more, name.bias_k and name.bias_v (1, 1, features):
                         normal(0, 1/sqrt(features)) */
  bool add_zero_attn; /* one more of zeros */
  /* Unless NULL: gets what values are weighted by, (batch, queries, keys), the mean over heads,
   * after dropout; with weights_by_head (batch, heads, queries, keys). It is a matrix in memory
   * then, and attention is put together of products and a softmax. */
  tdm_value *out_weights;
  bool weights_by_head;
} tdm_multi_head_attention_options;
static inline tdm_multi_head_attention_options tdm_multi_head_attention_options_default(void) {
  tdm_multi_head_attention_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_multi_head_attention_options);
  return options;
}

/* PyTorch's MultiheadAttention: query (queries, batch, features), key and value (keys, batch,
 * features) -> (queries, batch, features). name.in_proj_weight (3 features, features): uniform
 * within sqrt(6 / (4 features)), name.in_proj_bias (3 features): zeros, name.out_proj.weight
 * (features, features): uniform within 1/sqrt(features), name.out_proj.bias: zeros. Where key or
 * value have other features (PyTorch's kdim and vdim): name.q_proj_weight, name.k_proj_weight and
 * name.v_proj_weight (features, theirs) in place of the first, uniform within sqrt(6 / (features +
 * theirs)). One sequence may come without a batch, all three inputs (length, features). options may
 * be NULL. */
TDM_API tdm_value tdm_multi_head_attention(tdm_graph *graph, const char *name, tdm_value query,
                                           tdm_value key, tdm_value value, int64_t heads,
                                           const tdm_multi_head_attention_options *options);

#ifdef __cplusplus
}
#endif
#endif
