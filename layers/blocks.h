/* Public part of layers/: steps of recurrent layers, bilinear forms, and the layers of a
 * transformer. Included by layers/layers.h, whose rules hold here too. */
#ifndef TANDEM_LAYERS_BLOCKS_H
#define TANDEM_LAYERS_BLOCKS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One step of a recurrent layer ----------------------------------------------------------- */

typedef struct tdm_cell_options {
  size_t struct_size;
  bool without_bias; /* without name.bias_ih and name.bias_hh */
  bool relu;         /* of tdm_rnn_cell only; else tanh */
} tdm_cell_options;
static inline tdm_cell_options tdm_cell_options_default(void) {
  tdm_cell_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_cell_options);
  return options;
}

/* PyTorch's RNNCell: x (batch, in), h (batch, hidden) or invalid for zeros -> h' (batch, hidden);
 * also without batch. name.weight_ih (hidden, in), name.weight_hh (hidden, hidden), name.bias_ih,
 * name.bias_hh (hidden): uniform within 1/sqrt(hidden). A cell that is applied step by step is tied
 * to itself (tdm_tie). options may be NULL. */
TDM_API tdm_value tdm_rnn_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h,
                               int64_t hidden, const tdm_cell_options *options);
/* The same with four gates (4 hidden, ...), as tdm_lstm, and its state c; out_c: c', unless NULL.
 */
TDM_API tdm_value tdm_lstm_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h,
                                tdm_value c, int64_t hidden, const tdm_cell_options *options,
                                tdm_value *out_c);
/* The same as tdm_rnn_cell with three gates (3 hidden, ...), as tdm_gru. */
TDM_API tdm_value tdm_gru_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h,
                               int64_t hidden, const tdm_cell_options *options);

/* ---- Bilinear forms -------------------------------------------------------------------------- */

/* PyTorch's Bilinear: a (..., n), b (..., m) -> (..., out): y[o] = a^T weight[o] b + bias[o].
 * name.weight (out, n, m), name.bias (out): uniform within 1/sqrt(n). */
TDM_API tdm_value tdm_bilinear(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                               int64_t out_features);
TDM_API tdm_value tdm_bilinear_without_bias(tdm_graph *graph, const char *name, tdm_value a,
                                            tdm_value b, int64_t out_features);

/* ---- Transformers ---------------------------------------------------------------------------- */

typedef struct tdm_transformer_options {
  size_t struct_size;
  int64_t feedforward; /* features between the two linear layers, 1 or more; default 2048 */
  double dropout;      /* probability, 0 to 1; default 0.1 */
  double epsilon;      /* of the norms; default 1e-5 */
  bool gelu;           /* else relu */
  bool norm_first;
  bool batch_first;         /* (batch, length, features) instead of (length, batch, features) */
  bool causal;              /* of the attention to itself */
  tdm_value mask;           /* of that too; as of tdm_attention; or invalid */
  tdm_value padding;        /* bool (batch, length): PyTorch's key_padding_mask; or invalid */
  tdm_value memory_mask;    /* of a decoder's attention to the memory */
  tdm_value memory_padding; /* likewise */
  bool without_bias;        /* of the linear layers, the norms and the attentions */
} tdm_transformer_options;
static inline tdm_transformer_options tdm_transformer_options_default(void) {
  tdm_transformer_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_transformer_options);
  options.feedforward = 2048;
  options.dropout = 0.1;
  options.epsilon = 1e-5;
  return options;
}

/* PyTorch's TransformerEncoderLayer, with its names (name.self_attn.in_proj_weight, ...,
 * name.linear1, name.linear2, name.norm1, name.norm2): x (length, batch, features) -> likewise.
 * options may be NULL. */
TDM_API tdm_value tdm_transformer_encoder_layer(tdm_graph *graph, const char *name, tdm_value x,
                                                int64_t heads,
                                                const tdm_transformer_options *options);
/* PyTorch's TransformerDecoderLayer, which also attends to memory (length', batch, features):
 * name.multihead_attn, name.norm3. */
TDM_API tdm_value tdm_transformer_decoder_layer(tdm_graph *graph, const char *name, tdm_value x,
                                                tdm_value memory, int64_t heads,
                                                const tdm_transformer_options *options);

#ifdef __cplusplus
}
#endif
#endif
