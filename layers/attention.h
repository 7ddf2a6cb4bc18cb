/* Attention whose weights somebody wants to see. */
#ifndef TANDEM_LAYERS_ATTENTION_H
#define TANDEM_LAYERS_ATTENTION_H

#include "tandem/layers/layers.h"

/* tdm_attention, put together of products and a softmax, so that *out_weights (batch, heads,
 * queries, keys) is there: what the values are weighted by, after dropout, 0 of keys that are left
 * out. */
tdm_value tdm_attention_with_weights(tdm_graph *graph, const char *name, tdm_value q, tdm_value k,
                                     tdm_value v, const tdm_attention_options *options,
                                     tdm_value *out_weights);
/* PyTorch's mask (batch heads, queries, keys) as (batch, heads, queries, keys); others as they
 * are. */
tdm_value tdm_mask_by_heads(tdm_graph *graph, const char *name, tdm_value mask, int64_t heads);

#endif
