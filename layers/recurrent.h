/* Public part of layers/ for recurrent layers, included by layers/layers.h: PyTorch's RNN, LSTM and
 * GRU. All functions: one thread (the graph's); an invalid value in gives an invalid value out, the
 * first error sticks to the graph. */
#ifndef TANDEM_LAYERS_RECURRENT_H
#define TANDEM_LAYERS_RECURRENT_H

#include "tandem/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* D, directions, is 2 for bidirectional layers, else 1. States stand layer after layer, in each
 * forward before backward. */
typedef struct tdm_rnn_options {
  size_t struct_size;
  int layers;         /* 1 to 10000; default 1 */
  bool relu;          /* of tdm_rnn only; else tanh */
  bool batch_first;   /* x and y are (batch, length, ...) */
  tdm_value h0;       /* (layers D, batch, hidden); invalid: zeros */
  tdm_value c0;       /* of tdm_lstm only, likewise */
  tdm_value lengths;  /* int32 or int64 (batch): row i has lengths[i] steps, 0 to length, as in
                         PyTorch's packed sequences, in any order; invalid: all of them */
  bool bidirectional; /* y has (..., 2 hidden): forward, then backward */
  bool without_bias;
  double dropout;     /* tdm_dropout's p, of what every layer but the last gives to the next */
  int64_t projection; /* of tdm_lstm only: PyTorch's proj_size, less than hidden; 0: none */
} tdm_rnn_options;
static inline tdm_rnn_options tdm_rnn_options_default(void) {
  tdm_rnn_options options = TDM_ZEROED;
  options.struct_size = TDM_OPTIONS_SIZE(tdm_rnn_options);
  options.layers = 1;
  return options;
}

/* x (length, batch, in) -> y (length, batch, D hidden) of the last layer; zeros behind a row's own
 * steps, from the last of which the backward direction begins. *out_h_n, unless NULL, gets the
 * states after the last steps, one value (layers D, batch, hidden) as h0.
 * name.weight_ih_l0 (hidden, in), name.weight_hh_l0 (hidden, hidden), name.bias_ih_l0,
 * name.bias_hh_l0 (hidden), ..._l0_reverse, ..._l1 ...: uniform within 1/sqrt(hidden). in of the
 * layers behind the first is D hidden. One sequence may come without a batch, (length, in), its
 * first and last states without one too, and without lengths. options may be NULL. */
TDM_API tdm_value tdm_rnn(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                          const tdm_rnn_options *options, tdm_value *out_h_n);
/* The same with weights and biases of four gates (4 hidden, ...): input, forget, cell, output.
 * *out_c_n is as *out_h_n, of the cells' states. With a projection P, what steps and layers give
 * each other, y, h0 and h_n have P in place of hidden: name.weight_hr_l0 (P, hidden),
 * name.weight_hh_l0 (4 hidden, P). A step multiplies by the product of these two, which is made
 * once a run. */
TDM_API tdm_value tdm_lstm(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                           const tdm_rnn_options *options, tdm_value *out_h_n, tdm_value *out_c_n);
/* The same as tdm_rnn with weights and biases of three gates (3 hidden, ...): reset, update, new.
 */
TDM_API tdm_value tdm_gru(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                          const tdm_rnn_options *options, tdm_value *out_h_n);

#ifdef __cplusplus
}
#endif
#endif
