/* Public part of layers/: recurrent layers, PyTorch's RNN, LSTM and GRU. Included by
 * layers/layers.h. The conventions of functions that build a graph are at the top of
 * graph/building.h. */
#ifndef TANDEM_LAYERS_RECURRENT_H
#define TANDEM_LAYERS_RECURRENT_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of recurrent layers. D, the number of directions, is 2 for bidirectional layers and 1
 * otherwise. States are ordered by layer, and within a layer forward before backward. */
typedef struct tdm_rnn_options {
  size_t struct_size;
  int layers;       /* Number of layers, 1 to 10000. Default 1. */
  bool relu;        /* For tdm_rnn only: true: relu instead of tanh. Default false. */
  bool batch_first; /* true: x and the result are (batch, length, ...). Default false. */
  /* (layers D, batch, hidden): states before the first step. Default invalid: zeros. */
  tdm_value h0;
  /* For tdm_lstm only: states of the cells before the first step, as h0. Default invalid: zeros. */
  tdm_value c0;
  /* int32 or int64 (batch): row i has lengths[i] steps, 0 to length, as in PyTorch's packed
   * sequences, in any order. Default invalid: all rows have length steps. */
  tdm_value lengths;
  /* true: a second direction reads the steps backward; the result is (..., 2 hidden), forward, then
   * backward. Default false. */
  bool bidirectional;
  bool without_bias; /* true: no biases. Default false. */
  double dropout;    /* Probability of dropout between layers, 0 to 1. Default 0. */
  /* For tdm_lstm only: PyTorch's proj_size, less than hidden. Default 0: none. */
  int64_t projection;
} tdm_rnn_options;
static inline tdm_rnn_options tdm_rnn_options_default(void) {
  tdm_rnn_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_rnn_options);
  options.layers = 1;
  return options;
}

/* Applies a recurrent layer: h(t) = tanh(x(t) weight_ih^T + bias_ih + h(t-1) weight_hh^T + bias_hh)
 * (torch.nn.RNN).
 * @code
 * tdm_rnn_options options = tdm_rnn_options_default();
 * options.layers = 2;
 * tdm_value last;
 * tdm_value y = tdm_rnn(graph, "rnn", x, 128, &options, &last);
 * @endcode
 *
 * Declares `name.weight_ih_l0` (hidden, in), `name.weight_hh_l0` (hidden, hidden),
 * `name.bias_ih_l0` (hidden) and `name.bias_hh_l0` (hidden), all uniform within +-1/sqrt(hidden).
 * The names of the backward direction end with "_reverse"; further layers are l1, l2, ..., and in
 * is D hidden for them.
 * @param x (length, batch, in), or (length, in); then states have no batch either, and lengths
 *     cannot be set.
 * @param hidden 1 or more.
 * @param options NULL: all defaults.
 * @param out_h_n receives the states after the last steps, (layers D, batch, hidden); NULL: not
 *     needed.
 * @return (length, batch, D hidden): states of the last layer. Steps after a row's length are
 *     zeros, and the backward direction begins with the row's last step. */
TDM_API tdm_value tdm_rnn(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                          const tdm_rnn_options *options, tdm_value *out_h_n);

/* Applies an LSTM (torch.nn.LSTM). As tdm_rnn, with weights and biases of four gates (4 hidden,
 * ...): input, forget, cell and output.
 *
 * With a projection P, h0, out_h_n and the result have P instead of hidden; c0 and out_c_n keep
 * hidden. `name.weight_hh_l0` is (4 hidden, P), and `name.weight_hr_l0` (P, hidden) is declared
 * too. Steps multiply by the product of these two matrices, which is computed once per run.
 * @param out_c_n receives the states of the cells after the last steps, (layers D, batch, hidden);
 *     NULL: not needed. */
TDM_API tdm_value tdm_lstm(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                           const tdm_rnn_options *options, tdm_value *out_h_n, tdm_value *out_c_n);

/* Applies a GRU (torch.nn.GRU). As tdm_rnn, with weights and biases of three gates (3 hidden, ...):
 * reset, update and new. */
TDM_API tdm_value tdm_gru(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                          const tdm_rnn_options *options, tdm_value *out_h_n);

#ifdef __cplusplus
}
#endif
#endif
