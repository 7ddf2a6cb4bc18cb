/* Cells: one step of a recurrent layer. Invariant: a cell is the layer's operation on a sequence of
 * one step, so its results equal the layer's. */
#include <math.h>

#include "layers/arguments.h"
#include "layers/common.h"
#include "layers/recurrent/recurrent_operations.h"
#include "tandem/layers/layers.h"

#define MOST_GATES 4

/* The arguments of one call. */
typedef struct recurrent_cell {
  tdm_graph *graph;
  const char *kind; /* "lstm_cell" */
  const char *name;
  const tdm_operation *operation;
  int32_t cell;
  int64_t hidden;
  bool single; /* x (in) and states (hidden), without a batch */
} recurrent_cell;

static void make_parameters(const recurrent_cell *self, int64_t in, bool without_bias,
                            tdm_value *inputs) {
  static const char *const names[] = {[TDM_RECURRENT_WEIGHT_IH] = ".weight_ih",
                                      [TDM_RECURRENT_WEIGHT_HH] = ".weight_hh",
                                      [TDM_RECURRENT_BIAS_IH] = ".bias_ih",
                                      [TDM_RECURRENT_BIAS_HH] = ".bias_hh"};
  const int64_t columns = tdm_cell_gates(self->cell) * self->hidden;
  const double bound = 1.0 / sqrt((double)self->hidden);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  const int last = without_bias ? TDM_RECURRENT_WEIGHT_HH : TDM_RECURRENT_BIAS_HH;
  for (int i = TDM_RECURRENT_WEIGHT_IH; i <= last; i++) {
    const tdm_shape shape = i == TDM_RECURRENT_WEIGHT_IH   ? tdm_shape_of(2, columns, in)
                            : i == TDM_RECURRENT_WEIGHT_HH ? tdm_shape_of(2, columns, self->hidden)
                                                           : tdm_shape_of(1, columns);
    inputs[i] = tdm_layer_parameter(self->graph, self->name, names[i], shape, &uniform);
  }
}

static bool accepts_state(const recurrent_cell *self, const char *which, tdm_value state,
                          const tdm_shape *x) {
  if (!tdm_value_is_valid(state)) return true;
  tdm_shape expected = *x;
  *tdm_shape_last(&expected) = self->hidden;
  return tdm_argument_has_parameter_dtype(self->graph, self->kind, self->name, which, state) &&
         tdm_argument_has_shape(self->graph, self->kind, self->name, which, state, &expected);
}

/* Returns true if x is (batch, in) or (in), `in` is a size, and the states fit x. */
static bool accepts(recurrent_cell *self, tdm_value x, tdm_value h, tdm_value c) {
  tdm_graph *graph = self->graph;
  if (!tdm_argument_has_parameter_dtype(graph, self->kind, self->name, "x", x)) return false;
  tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  self->single = shape.rank == 1;
  if (shape.rank < 1 || shape.rank > 2 || !tdm_dim_is_size(*tdm_shape_last(&shape))) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "%s %s: x is %s, expected [batch, features] or [features] with a size for "
                   "features",
                   self->kind, self->name, tdm_shape_text(&shape, text, sizeof text));
    return false;
  }
  return tdm_argument_is_within(graph, self->kind, self->name, "hidden", self->hidden, -1, 1,
                                INT64_MAX / MOST_GATES) &&
         accepts_state(self, "h", h, &shape) && accepts_state(self, "c", c, &shape);
}

/* Returns x with `more` leading dimensions of 1. One of them is the batch if x has none. */
static tdm_value widened(const recurrent_cell *self, tdm_value x, int more) {
  if (!tdm_value_is_valid(x)) return x;
  for (int i = 0; i < more + self->single && tdm_value_is_valid(x); i++)
    x = tdm_unsqueeze(self->graph, self->name, x, 0);
  return x;
}

static tdm_value step(recurrent_cell *self, tdm_value x, tdm_value h, tdm_value c,
                      const tdm_cell_options *options, tdm_value *out_c) {
  tdm_cell_options chosen;
  if (out_c) *out_c = TDM_NO_VALUE;
  if (!tdm_layer_options(self->graph, self->kind, self->name, cell, options, &chosen) ||
      !accepts(self, x, h, c))
    return TDM_NO_VALUE;
  if (chosen.relu && self->cell != TDM_CELL_TANH)
    return tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT, "%s %s: it has no option relu",
                          self->kind, self->name);
  if (chosen.relu) self->cell = TDM_CELL_RELU;
  tdm_shape shape = tdm_value_shape(self->graph, x);
  tdm_value inputs[TDM_RECURRENT_INPUTS] = {widened(self, x, 1)};
  make_parameters(self, *tdm_shape_last(&shape), chosen.without_bias, inputs);
  inputs[TDM_RECURRENT_H0] = widened(self, h, 0);
  inputs[TDM_RECURRENT_C0] = widened(self, c, 0);
  if (tdm_graph_status(self->graph) != TDM_OK) return TDM_NO_VALUE;
  const tdm_recurrent_attributes attributes = {.cell = self->cell};
  tdm_value outputs[TDM_RECURRENT_OUTPUTS] = {{0, 0}};
  tdm_append(self->graph, self->operation, self->name, &attributes, inputs, TDM_RECURRENT_INPUTS,
             outputs);
  for (int i = TDM_RECURRENT_H_N; i <= TDM_RECURRENT_C_N; i++)
    if (self->single && tdm_value_is_valid(outputs[i]))
      outputs[i] = tdm_squeeze(self->graph, self->name, outputs[i], 0);
  if (out_c) *out_c = outputs[TDM_RECURRENT_C_N];
  return outputs[TDM_RECURRENT_H_N];
}

tdm_value tdm_rnn_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h, int64_t hidden,
                       const tdm_cell_options *options) {
  name = tdm_graph_name(graph, name);
  recurrent_cell self = {graph, "rnn_cell", name, &tdm_operation_rnn, TDM_CELL_TANH, hidden, false};
  return step(&self, x, h, TDM_NO_VALUE, options, NULL);
}

tdm_value tdm_lstm_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h, tdm_value c,
                        int64_t hidden, const tdm_cell_options *options, tdm_value *out_c) {
  name = tdm_graph_name(graph, name);
  recurrent_cell self = {graph,         "lstm_cell", name, &tdm_operation_lstm,
                         TDM_CELL_LSTM, hidden,      false};
  return step(&self, x, h, c, options, out_c);
}

tdm_value tdm_gru_cell(tdm_graph *graph, const char *name, tdm_value x, tdm_value h, int64_t hidden,
                       const tdm_cell_options *options) {
  name = tdm_graph_name(graph, name);
  recurrent_cell self = {graph, "gru_cell", name, &tdm_operation_gru, TDM_CELL_GRU, hidden, false};
  return step(&self, x, h, TDM_NO_VALUE, options, NULL);
}
