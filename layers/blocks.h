/* Public part of layers/: recurrent cells, bilinear forms, and transformer layers. Included by
 * layers/layers.h. The conventions of functions that build a graph are at the top of
 * graph/building.h. */
#ifndef TANDEM_LAYERS_BLOCKS_H
#define TANDEM_LAYERS_BLOCKS_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Recurrent cells ------------------------------------------------------------------------- */

/* Options of recurrent cells. */
typedef struct tdm_cell_options {
  size_t struct_size;
  bool without_bias; /* true: without name.bias_ih and name.bias_hh. Default false. */
  bool relu;         /* For tdm_rnn_cell only: true: relu instead of tanh. Default false. */
} tdm_cell_options;
static inline tdm_cell_options tdm_cell_options_default(void) {
  tdm_cell_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_cell_options);
  return options;
}

/* Computes one step of a recurrent layer: h' = tanh(x weight_ih^T + bias_ih + h weight_hh^T +
 * bias_hh) (torch.nn.RNNCell). Declares `name.weight_ih` (hidden, in), `name.weight_hh` (hidden,
 * hidden), `name.bias_ih` (hidden) and `name.bias_hh` (hidden), all uniform within
 * +-1/sqrt(hidden). To apply a cell step by step, tie it to itself (tdm_tie).
 * @param x (batch, in), or (in).
 * @param h (batch, hidden), or (hidden): the state before the step; invalid: zeros.
 * @param hidden 1 or more.
 * @param options NULL: all defaults.
 * @return (batch, hidden), or (hidden): the state after the step. */
TDM_API tdm_value tdm_rnn_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h,
                               int64_t hidden, const tdm_cell_options *options);

/* Computes one step of an LSTM (torch.nn.LSTMCell). As tdm_rnn_cell, with four gates (4 hidden,
 * ...) as in tdm_lstm.
 * @param c state of the cells before the step, of h's shape; invalid: zeros.
 * @param out_c receives the state of the cells after the step; NULL: not needed. */
TDM_API tdm_value tdm_lstm_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h,
                                tdm_value c, int64_t hidden, const tdm_cell_options *options,
                                tdm_value *out_c);

/* Computes one step of a GRU (torch.nn.GRUCell). As tdm_rnn_cell, with three gates (3 hidden, ...)
 * as in tdm_gru. */
TDM_API tdm_value tdm_gru_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h,
                               int64_t hidden, const tdm_cell_options *options);

/* ---- Bilinear forms -------------------------------------------------------------------------- */

/* Applies a bilinear form: y[o] = a^T weight[o] b + bias[o] (torch.nn.Bilinear). Declares
 * `name.weight` (out_features, n, m) and `name.bias` (out_features), both uniform within
 * +-1/sqrt(n).
 * @param a (..., n).
 * @param b (..., m).
 * @param out_features 1 or more.
 * @return (..., out_features). */
TDM_API tdm_value tdm_bilinear(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                               int64_t out_features);

/* Applies a bilinear form without bias. Otherwise as tdm_bilinear. */
TDM_API tdm_value tdm_bilinear_without_bias(tdm_graph *graph, const char *name, tdm_value a,
                                            tdm_value b, int64_t out_features);

/* ---- Transformers ---------------------------------------------------------------------------- */

/* Options of transformer layers. */
typedef struct tdm_transformer_options {
  size_t struct_size;
  /* Number of features between the two linear layers, 1 or more. Default 2048. */
  int64_t feedforward;
  double dropout; /* Probability of dropout, 0 to 1. Default 0.1. */
  /* Epsilon of the layer normalizations, finite and 0 or more. Default 1e-5. */
  double epsilon;
  bool gelu; /* true: gelu. false: relu. Default false. */
  /* true: normalize before attention and linear layers instead of after them. Default false. */
  bool norm_first;
  /* true: x is (batch, length, features). false: (length, batch, features). Default false. */
  bool batch_first;
  /* true: in self-attention, position i attends to positions up to i. Default false. */
  bool causal;
  /* Mask of self-attention, as tdm_attention_options.mask. Default invalid: none. */
  tdm_value mask;
  /* bool (batch, length), true for positions that self-attention ignores: PyTorch's
   * key_padding_mask. Default invalid: none. */
  tdm_value padding;
  /* For a decoder: mask of the attention to memory. Default invalid: none. */
  tdm_value memory_mask;
  /* For a decoder: bool (batch, length'), true for positions of memory that are ignored. Default
   * invalid: none. */
  tdm_value memory_padding;
  /* true: no bias in the linear layers, normalizations and attentions. Default false. */
  bool without_bias;
} tdm_transformer_options;
static inline tdm_transformer_options tdm_transformer_options_default(void) {
  tdm_transformer_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_transformer_options);
  options.feedforward = 2048;
  options.dropout = 0.1;
  options.epsilon = 1e-5;
  return options;
}

/* Applies an encoder layer of a transformer: self-attention and two linear layers, each with
 * dropout, a residual connection and a layer normalization (torch.nn.TransformerEncoderLayer).
 * Declares PyTorch's parameters: those of name.self_attn, name.linear1, name.linear2, name.norm1
 * and name.norm2.
 * @param x (length, batch, features).
 * @param heads number of heads; it divides features.
 * @param options NULL: all defaults.
 * @return of x's shape. */
TDM_API tdm_value tdm_transformer_encoder_layer(tdm_graph *graph, const char *name, tdm_value x,
                                                int64_t heads,
                                                const tdm_transformer_options *options);

/* Applies a decoder layer of a transformer: as tdm_transformer_encoder_layer, with an attention to
 * memory after self-attention (torch.nn.TransformerDecoderLayer). Further declares the parameters
 * of name.multihead_attn and name.norm3.
 * @param x (length, batch, features).
 * @param memory (length', batch, features): result of an encoder.
 * @param heads number of heads; it divides features.
 * @param options NULL: all defaults.
 * @return of x's shape. */
TDM_API tdm_value tdm_transformer_decoder_layer(tdm_graph *graph, const char *name, tdm_value x,
                                                tdm_value memory, int64_t heads,
                                                const tdm_transformer_options *options);

#ifdef __cplusplus
}
#endif
#endif
