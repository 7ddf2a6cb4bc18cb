/* The operations of recurrent layers: each is one layer in one direction, with time first. */
#ifndef TANDEM_LAYERS_RECURRENT_RECURRENT_OPERATIONS_H
#define TANDEM_LAYERS_RECURRENT_RECURRENT_OPERATIONS_H

#include "devices/kernels.h"
#include "tandem/graph/graph.h"

/* Inputs of tdm_operation_rnn, _lstm and _gru; attributes are tdm_recurrent_attributes. */
enum {
  TDM_RECURRENT_X,
  TDM_RECURRENT_WEIGHT_IH,
  TDM_RECURRENT_WEIGHT_HH,
  TDM_RECURRENT_BIAS_IH,
  TDM_RECURRENT_BIAS_HH,
  TDM_RECURRENT_H0,
  TDM_RECURRENT_C0,
  TDM_RECURRENT_LENGTHS,
  TDM_RECURRENT_INPUTS,
};
/* Outputs of these operations. */
enum { TDM_RECURRENT_Y, TDM_RECURRENT_H_N, TDM_RECURRENT_C_N, TDM_RECURRENT_OUTPUTS };

extern const tdm_operation tdm_operation_rnn;  /* y, h_n */
extern const tdm_operation tdm_operation_lstm; /* y, h_n, c_n */
extern const tdm_operation tdm_operation_gru;  /* y, h_n */

#endif
