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

/* What a layer with attention is given, under the names of its own arguments. */
typedef struct tdm_attended {
  const char *layer; /* the function without "tdm_": "transformer_decoder_layer" */
  const char *name;
  const char *names[3]; /* of query, key and value: "x", "memory", "memory" */
  tdm_value inputs[3];  /* (length, batch, features), or (length, features) of one sequence */
  int64_t heads;
  bool batch_first; /* (batch, length, features) */
  const char *mask_name;
  tdm_value mask; /* may be invalid, as padding */
  const char *padding_name;
  tdm_value padding;
  double dropout;
} tdm_attended;

/* Returns true if inputs, masks, heads and dropout fit one another; otherwise the graph's error
 * names the layer and its argument. */
bool tdm_attended_check(tdm_graph *graph, const tdm_attended *given);

#endif
