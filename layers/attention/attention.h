/* Attention that returns its weights, and the arguments of layers with attention. */
#ifndef TANDEM_LAYERS_ATTENTION_ATTENTION_H
#define TANDEM_LAYERS_ATTENTION_ATTENTION_H

#include "tandem/layers/layers.h"

/* Computes tdm_attention as products and a softmax, and writes *out_weights (batch, heads, queries,
 * keys): the weights of the values after dropout, 0 for masked keys. */
tdm_value tdm_attention_with_weights(tdm_graph *graph, const char *name, tdm_value q, tdm_value k,
                                     tdm_value v, const tdm_attention_options *options,
                                     tdm_value *out_weights);
/* Returns PyTorch's mask (batch heads, queries, keys) as (batch, heads, queries, keys), and any
 * other mask unchanged. */
tdm_value tdm_mask_by_heads(tdm_graph *graph, const char *name, tdm_value mask, int64_t heads);

/* Arguments of a layer with attention, with the names that its function gives them. */
typedef struct tdm_attended {
  const char *layer; /* the function without "tdm_": "transformer_decoder_layer" */
  const char *name;
  const char *names[3]; /* names of query, key and value: "x", "memory", "memory" */
  tdm_value inputs[3];  /* (length, batch, features), or (length, features) of one sequence */
  int64_t heads;
  bool batch_first; /* (batch, length, features) */
  const char *mask_name;
  tdm_value mask; /* attention mask; may be invalid, like `padding` */
  const char *padding_name;
  tdm_value padding;
  double dropout;
} tdm_attended;

/* Returns true if inputs, masks, heads and dropout are consistent; otherwise the graph's error
 * names the layer and its argument. */
bool tdm_attended_check(tdm_graph *graph, const tdm_attended *given);

#endif
