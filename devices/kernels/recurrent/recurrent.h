/* Operations: recurrent layers. Part of devices/kernels.h, which describes the notation. */
#ifndef TANDEM_DEVICES_KERNELS_RECURRENT_RECURRENT_H
#define TANDEM_DEVICES_KERNELS_RECURRENT_RECURRENT_H

#include <stdint.h>

/* One layer of a recurrent network over a sequence in one direction, time first. G is 1 (rnn), 4
 * (lstm) or 3 (gru). Weights and biases hold their gates one after the other.
 *
 *     x F (length, batch, in), weight_ih F (G hidden, in), weight_hh F (G hidden, hidden),
 *     [bias_ih F (G hidden)], [bias_hh F (G hidden)], [h0 F (batch, hidden)],
 *     [c0 F (batch, hidden), only lstm], [lengths ids (batch)] ->
 *     y F (length, batch, hidden), h_n F (batch, hidden), [c_n F (batch, hidden), only lstm]
 *
 * With a = x_t weight_ih^T + bias_ih and b = h weight_hh^T + bias_hh, gate by gate:
 *
 *     rnn:  h = act(a + b) (J. L. Elman, 1990)
 *     lstm: i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of a + b; c = f c + i g; h = o tanh(c)
 *           (Hochreiter, Schmidhuber, 1997)
 *     gru:  r, z = sigmoid of a + b; n = tanh(a_n + r b_n); h = n + z (h - n) (Cho et al., 2014)
 *
 * Absent states are zeros. Row i has lengths[i] steps, 0 to length, or all if lengths is absent.
 * After its last step, y is zeros and the states stay. A length outside fails, and the message
 * names it. */
#define TDM_OP_RNN "rnn"
#define TDM_OP_LSTM "lstm"
#define TDM_OP_GRU "gru"
/* The same, with the values that gradients need: -> ..., gates F (length, batch, 4 hidden): i, f,
 * g, o, or r, z, n, b_n; lstm also returns cells F (length, batch, hidden): every c. Elements after
 * a row's last step are zeros. */
#define TDM_OP_LSTM_TRAINING "lstm_training"
#define TDM_OP_GRU_TRAINING "gru_training"
/* x, y, weight_ih, weight_hh, [d_y], [d_h_n], [d_c_n], [h0], [c0], [gates], [cells], [lengths] ->
 * d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh, d_h0 (batch, hidden), of lstm d_c0 (batch,
 * hidden), with input_gradient d_x. An absent adjoint is zeros. */
#define TDM_OP_RNN_GRADIENT "rnn_gradient"
#define TDM_OP_LSTM_GRADIENT "lstm_gradient"
#define TDM_OP_GRU_GRADIENT "gru_gradient"
typedef enum tdm_cell {
  TDM_CELL_TANH = 0, /* rnn only */
  TDM_CELL_RELU = 1, /* rnn only */
  TDM_CELL_LSTM = 2,
  TDM_CELL_GRU = 3
} tdm_cell;
typedef struct tdm_recurrent_attributes {
  int32_t cell;           /* tdm_cell */
  int32_t reverse;        /* 1: from each row's last step to the first */
  int32_t input_gradient; /* gradients only; 1: d_x is computed */
  int32_t reserved;
} tdm_recurrent_attributes;
/* Returns G of the comment above. */
static inline int64_t tdm_cell_gates(int32_t cell) {
  return cell == TDM_CELL_LSTM ? 4 : cell == TDM_CELL_GRU ? 3 : 1;
}

#endif
