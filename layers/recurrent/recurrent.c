/* RNN, LSTM and GRU: one operation for each layer and direction. Invariant: operations take time
 * first; batch_first only swaps dimensions before and after them. */
#include "tandem/layers/recurrent.h"

#include <math.h>
#include <stdio.h>

#include "layers/arguments.h"
#include "layers/common.h"
#include "layers/recurrent/recurrent_operations.h"
#include "tandem/layers/layers.h"

#define MOST_LAYERS 10000 /* limit of one call; names of parameters contain the layer */
#define MOST_GATES 4

/* The arguments of one call. */
typedef struct recurrent_layers {
  tdm_graph *graph;
  const char *kind; /* "lstm" */
  const char *name;
  const tdm_operation *operation;
  int32_t cell;
  int64_t hidden;
  tdm_rnn_options options;
  int directions;
} recurrent_layers;

/* Writes "name" "part" "layer" into text, followed by "_reverse" for direction 1. Returns NULL with
 * the graph's error. */
static const char *part_name(const recurrent_layers *layers, const char *part, int layer,
                             int direction, char *text) {
  char suffix[48];
  (void)snprintf(suffix, sizeof suffix, "%s%d%s", part, layer, direction > 0 ? "_reverse" : "");
  return tdm_layer_name(layers->graph, layers->name, suffix, text);
}

/* ---- One layer in one direction ----------------------------------------------------------------
 */

static void make_parameters(const recurrent_layers *layers, int layer, int direction, int64_t in,
                            tdm_value *inputs) {
  static const char *const names[] = {[TDM_RECURRENT_WEIGHT_IH] = ".weight_ih_l",
                                      [TDM_RECURRENT_WEIGHT_HH] = ".weight_hh_l",
                                      [TDM_RECURRENT_BIAS_IH] = ".bias_ih_l",
                                      [TDM_RECURRENT_BIAS_HH] = ".bias_hh_l"};
  const int64_t hidden = layers->hidden, columns = tdm_cell_gates(layers->cell) * hidden;
  const int64_t given = layers->options.projection > 0 ? layers->options.projection : hidden;
  const double bound = 1.0 / sqrt((double)hidden);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  const int last = layers->options.without_bias ? TDM_RECURRENT_WEIGHT_HH : TDM_RECURRENT_BIAS_HH;
  for (int i = TDM_RECURRENT_WEIGHT_IH; i <= last; i++) {
    char suffix[48];
    (void)snprintf(suffix, sizeof suffix, "%s%d%s", names[i], layer,
                   direction > 0 ? "_reverse" : "");
    const tdm_shape shape = i == TDM_RECURRENT_WEIGHT_IH   ? tdm_shape_of(2, columns, in)
                            : i == TDM_RECURRENT_WEIGHT_HH ? tdm_shape_of(2, columns, given)
                                                           : tdm_shape_of(1, columns);
    inputs[i] = tdm_layer_parameter(layers->graph, layers->name, suffix, shape, &uniform);
  }
}

/* Returns the part of h0 or c0 for that layer and direction, (batch, hidden), or an invalid value
 * if there is no initial state. */
static tdm_value first_state(const recurrent_layers *layers, const char *part, tdm_value states,
                             int layer, int direction) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_value_is_valid(states) || !part_name(layers, part, layer, direction, text))
    return TDM_NO_VALUE;
  return tdm_select(layers->graph, text, states, 0, layer * layers->directions + direction);
}

/* ---- Projection ------------------------------------------------------------------------------ */

/* Returns (length, batch or 1, 1): 1 at the first step of each row, 0 elsewhere. */
static tdm_value first_steps(const recurrent_layers *layers, const char *path, tdm_value x,
                             int direction) {
  tdm_graph *graph = layers->graph;
  const tdm_dtype dtype = tdm_value_dtype(graph, x);
  const tdm_value lengths = layers->options.lengths;
  tdm_value places = tdm_cast(graph, path, tdm_arange_like(graph, path, x, 0), dtype);
  tdm_value first;
  if (!tdm_value_is_valid(places)) return places;
  if (direction > 0 && tdm_value_is_valid(lengths)) {
    const tdm_value last = tdm_add_scalar(graph, path, tdm_cast(graph, path, lengths, dtype), -1);
    first = tdm_compare(graph, path, tdm_unsqueeze(graph, path, places, 1), TDM_EQUAL, last);
  } else {
    if (direction > 0) places = tdm_flip(graph, path, places, (const int[]){0}, 1);
    first = tdm_unsqueeze(graph, path, tdm_compare_scalar(graph, path, places, TDM_EQUAL, 0), 1);
  }
  return tdm_unsqueeze(graph, path, tdm_cast(graph, path, first, dtype), 2);
}

/* Prepares inputs so that the operation without projection computes a layer with one (Sak, Senior,
 * Beaufays, "Long short-term memory recurrent neural network architectures for large scale acoustic
 * modeling", 2014). The operation's state is the cells' output m, with h = weight_hr m, so
 * weight_hh h is (weight_hh weight_hr) m. For an initial h there is no m, so h is passed as
 * features of the first step, with weight_hh as their weight. */
static void enter_projection(const recurrent_layers *layers, const char *path, tdm_value weight_hr,
                             int direction, tdm_value *inputs) {
  tdm_graph *graph = layers->graph;
  const tdm_value weight_hh = inputs[TDM_RECURRENT_WEIGHT_HH], h0 = inputs[TDM_RECURRENT_H0];
  inputs[TDM_RECURRENT_WEIGHT_HH] = tdm_matmul(graph, path, weight_hh, weight_hr);
  inputs[TDM_RECURRENT_H0] = TDM_NO_VALUE;
  if (!tdm_value_is_valid(h0)) return;
  const tdm_value first = first_steps(layers, path, inputs[TDM_RECURRENT_X], direction);
  if (!tdm_value_is_valid(first)) return;
  const tdm_value h = tdm_mul(graph, path, first, tdm_unsqueeze(graph, path, h0, 0));
  const tdm_value features[] = {inputs[TDM_RECURRENT_X], h};
  const tdm_value weights[] = {inputs[TDM_RECURRENT_WEIGHT_IH], weight_hh};
  inputs[TDM_RECURRENT_X] = tdm_concat(graph, path, features, 2, 2);
  inputs[TDM_RECURRENT_WEIGHT_IH] = tdm_concat(graph, path, weights, 2, 1);
}

/* Returns bool (batch, 1) or (): true if a row has no steps. Invalid if each row has steps. */
static tdm_value find_stepless(const recurrent_layers *layers, const char *path, tdm_value x) {
  tdm_graph *graph = layers->graph;
  const tdm_value lengths = layers->options.lengths;
  const tdm_dim length = tdm_value_shape(graph, x).dims[0];
  if (tdm_value_is_valid(lengths)) {
    const tdm_value none = tdm_compare_scalar(graph, path, lengths, TDM_EQUAL, 0);
    return tdm_value_is_valid(none) ? tdm_unsqueeze(graph, path, none, 1) : none;
  }
  if (tdm_dim_is_size(length) && length > 0) return TDM_NO_VALUE;
  const tdm_value places =
      tdm_cast(graph, path, tdm_arange_like(graph, path, x, 0), tdm_value_dtype(graph, x));
  const tdm_value ones = tdm_affine(graph, path, places, 0, 1);
  const tdm_value steps = tdm_sum(graph, path, ones, NULL, 0, false);
  return tdm_compare_scalar(graph, path, steps, TDM_EQUAL, 0);
}

/* Projects the cells' outputs to y and h_n. A row without steps keeps its initial h, which the
 * cells do not receive. */
static void leave_projection(const recurrent_layers *layers, const char *path, tdm_value weight_hr,
                             tdm_value x, tdm_value h0, tdm_value *outputs) {
  tdm_graph *graph = layers->graph;
  for (int i = TDM_RECURRENT_Y; i <= TDM_RECURRENT_H_N; i++)
    outputs[i] = tdm_linear_of(graph, path, outputs[i], weight_hr, TDM_NO_VALUE);
  if (!tdm_value_is_valid(h0)) return;
  const tdm_value stepless = find_stepless(layers, path, x);
  if (tdm_value_is_valid(stepless))
    outputs[TDM_RECURRENT_H_N] = tdm_where(graph, path, stepless, h0, outputs[TDM_RECURRENT_H_N]);
}

static tdm_value make_projection(const recurrent_layers *layers, int layer, int direction) {
  const double bound = 1.0 / sqrt((double)layers->hidden);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  char suffix[48];
  (void)snprintf(suffix, sizeof suffix, ".weight_hr_l%d%s", layer, direction > 0 ? "_reverse" : "");
  return tdm_layer_parameter(layers->graph, layers->name, suffix,
                             tdm_shape_of(2, layers->options.projection, layers->hidden), &uniform);
}

/* Computes one direction from x (length, batch, in). Returns y and writes all outputs of the
 * operation. */
static tdm_value make_direction(const recurrent_layers *layers, tdm_value x, int layer,
                                int direction, tdm_value *outputs) {
  tdm_graph *graph = layers->graph;
  tdm_shape shape = tdm_value_shape(graph, x);
  if (shape.rank < 0) return x; /* the graph has its error */
  tdm_value inputs[TDM_RECURRENT_INPUTS] = {x};
  make_parameters(layers, layer, direction, *tdm_shape_last(&shape), inputs);
  inputs[TDM_RECURRENT_H0] = first_state(layers, "/h0_l", layers->options.h0, layer, direction);
  inputs[TDM_RECURRENT_C0] = first_state(layers, "/c0_l", layers->options.c0, layer, direction);
  inputs[TDM_RECURRENT_LENGTHS] = layers->options.lengths;
  if (tdm_graph_status(graph) != TDM_OK) return TDM_NO_VALUE;
  char text[TDM_LAYER_NAME_BYTES];
  const char *path = layers->name;
  if (layers->options.layers * layers->directions > 1)
    path = part_name(layers, "/l", layer, direction, text);
  const tdm_value h0 = inputs[TDM_RECURRENT_H0];
  tdm_value weight_hr = {0, 0};
  if (layers->options.projection > 0) {
    weight_hr = make_projection(layers, layer, direction);
    enter_projection(layers, path, weight_hr, direction, inputs);
  }
  if (tdm_graph_status(graph) != TDM_OK) return TDM_NO_VALUE;
  const tdm_recurrent_attributes attributes = {.cell = layers->cell, .reverse = direction};
  tdm_append(graph, layers->operation, path, &attributes, inputs, TDM_RECURRENT_INPUTS, outputs);
  if (layers->options.projection > 0 && tdm_value_is_valid(outputs[TDM_RECURRENT_Y]))
    leave_projection(layers, path, weight_hr, x, h0, outputs);
  return outputs[TDM_RECURRENT_Y];
}

/* ---- All of them -------------------------------------------------------------------------------
 */

/* Concatenates y of both directions and applies dropout before the next layer. */
static tdm_value join_layer(const recurrent_layers *layers, const tdm_value *y, int layer) {
  char text[TDM_LAYER_NAME_BYTES];
  tdm_value joined = y[0];
  if (layers->directions > 1) {
    if (!part_name(layers, "/both_l", layer, 0, text)) return TDM_NO_VALUE;
    joined = tdm_concat(layers->graph, text, y, 2, 2);
  }
  if (layers->options.dropout == 0 || layer + 1 == layers->options.layers) return joined;
  if (!part_name(layers, "/dropout_l", layer, 0, text)) return TDM_NO_VALUE;
  return tdm_dropout(layers->graph, text, joined, layers->options.dropout);
}

/* Returns x with its first two dimensions swapped, under name/part, if the batch comes first. */
static tdm_value exchange(const recurrent_layers *layers, const char *part, tdm_value x) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!layers->options.batch_first) return x;
  if (!tdm_layer_name(layers->graph, layers->name, part, text)) return TDM_NO_VALUE;
  return tdm_swap_first_dimensions(layers->graph, text, x);
}

/* The final states of layers and directions, to be concatenated along dimension 0. */
typedef struct last_states {
  const char *part;               /* suffix of the name */
  tdm_value parts[TDM_MAX_PARTS]; /* (states, batch, hidden) */
  size_t count;
} last_states;

static void join_states(const recurrent_layers *layers, last_states *states) {
  char text[TDM_LAYER_NAME_BYTES];
  if (states->count < 2 || !tdm_layer_name(layers->graph, layers->name, states->part, text)) return;
  states->parts[0] = tdm_concat(layers->graph, text, states->parts, states->count, 0);
  states->count = 1;
}

/* Adds a state; does nothing if states is NULL, which means that the caller does not request
 * them. */
static void add_state(const recurrent_layers *layers, last_states *states, tdm_value state) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!states || !tdm_value_is_valid(state)) return;
  if (states->count == TDM_MAX_PARTS) join_states(layers, states);
  if (tdm_layer_name(layers->graph, layers->name, states->part, text))
    states->parts[states->count++] = tdm_unsqueeze(layers->graph, text, state, 0);
}

static tdm_value make_layers(const recurrent_layers *layers, tdm_value x, last_states *h_n,
                             last_states *c_n) {
  x = exchange(layers, "/time_first", x);
  for (int layer = 0; layer < layers->options.layers; layer++) {
    tdm_value y[2];
    for (int direction = 0; direction < layers->directions; direction++) {
      tdm_value outputs[TDM_RECURRENT_OUTPUTS] = {{0, 0}};
      y[direction] = make_direction(layers, x, layer, direction, outputs);
      if (!tdm_value_is_valid(y[direction])) return y[direction];
      add_state(layers, h_n, outputs[TDM_RECURRENT_H_N]);
      add_state(layers, c_n, outputs[TDM_RECURRENT_C_N]);
    }
    x = join_layer(layers, y, layer);
  }
  return tdm_value_is_valid(x) ? exchange(layers, "/batch_first", x) : x;
}

/* ---- What is asked for -------------------------------------------------------------------------
 */

/* Returns true if there is no initial state, or if it has one of that size for each layer,
 * direction and row. */
static bool accepts_state(const recurrent_layers *layers, const char *which, tdm_value states,
                          tdm_dim batch, int64_t size) {
  if (!tdm_value_is_valid(states)) return true;
  const tdm_shape expected =
      tdm_shape_of(3, layers->options.layers * layers->directions, batch, size);
  return tdm_argument_has_parameter_dtype(layers->graph, layers->kind, layers->name, which,
                                          states) &&
         tdm_argument_has_shape(layers->graph, layers->kind, layers->name, which, states,
                                &expected);
}

static bool accepts_lengths(const recurrent_layers *layers, tdm_dim batch) {
  const tdm_value lengths = layers->options.lengths;
  if (!tdm_value_is_valid(lengths)) return true;
  const tdm_shape expected = tdm_shape_of(1, batch);
  return tdm_argument_has_integers(layers->graph, layers->kind, layers->name, "lengths", lengths) &&
         tdm_argument_has_shape(layers->graph, layers->kind, layers->name, "lengths", lengths,
                                &expected);
}

/* Returns true if all values in the options fit x, which is (length, batch, features) or has the
 * batch first. */
static bool accepts_values(const recurrent_layers *layers, const tdm_shape *x) {
  const tdm_rnn_options *options = &layers->options;
  const tdm_dim batch = x->dims[options->batch_first ? 0 : 1];
  const int64_t given = options->projection > 0 ? options->projection : layers->hidden;
  return accepts_state(layers, "h0", options->h0, batch, given) &&
         accepts_state(layers, "c0", options->c0, batch, layers->hidden) &&
         accepts_lengths(layers, batch);
}

/* Returns the name of an option that this kind lacks, or NULL. */
static const char *stray_option(const recurrent_layers *layers) {
  if (layers->options.relu && layers->cell == TDM_CELL_LSTM) return "relu";
  if (layers->options.relu && layers->cell == TDM_CELL_GRU) return "relu";
  const bool has_cells = layers->cell == TDM_CELL_LSTM;
  if (layers->options.projection != 0 && !has_cells) return "projection";
  return tdm_value_is_valid(layers->options.c0) && !has_cells ? "c0" : NULL;
}

/* Returns true if x is (length, batch, features), features is a size, and the options fit x. */
static bool accepts(const recurrent_layers *layers, tdm_value x) {
  const tdm_rnn_options *options = &layers->options;
  tdm_graph *graph = layers->graph;
  const char *kind = layers->kind, *name = layers->name;
  if (!tdm_argument_has_parameter_dtype(graph, kind, name, "x", x)) return false;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (shape.rank != 3 || !tdm_dim_is_size(shape.dims[2])) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "%s %s: x must be %s with a size for features, x is %s", kind, name,
                   options->batch_first ? "[batch, length, features]" : "[length, batch, features]",
                   tdm_shape_text(&shape, text, sizeof text));
    return false;
  }
  const char *stray = stray_option(layers);
  if (stray) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: it has no option %s", kind, name, stray);
    return false;
  }
  return tdm_argument_is_within(graph, kind, name, "layers", options->layers, -1, 1, MOST_LAYERS) &&
         tdm_argument_is_within(graph, kind, name, "hidden", layers->hidden, -1, 1,
                                INT64_MAX / MOST_GATES) &&
         tdm_argument_is_within(graph, kind, name, "projection", options->projection, -1, 0,
                                layers->hidden - 1) &&
         tdm_argument_is_probability(graph, kind, name, "dropout", options->dropout) &&
         accepts_values(layers, &shape);
}

/* ---- One sequence without a batch ------------------------------------------------------------ */

/* Converts x (length, features) and its initial states to a batch of one. Returns false with the
 * graph's error. */
static bool widen(recurrent_layers *layers, tdm_value *x) {
  tdm_graph *graph = layers->graph;
  tdm_rnn_options *options = &layers->options;
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_name(graph, layers->name, "/batch_of_one", text)) return false;
  if (tdm_value_is_valid(options->lengths)) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "%s %s: one sequence without a batch has no lengths", layers->kind,
                   layers->name);
    return false;
  }
  options->batch_first = false;
  *x = tdm_unsqueeze(graph, text, *x, 1);
  if (tdm_value_shape(graph, options->h0).rank == 2)
    options->h0 = tdm_unsqueeze(graph, text, options->h0, 1);
  if (tdm_value_shape(graph, options->c0).rank == 2)
    options->c0 = tdm_unsqueeze(graph, text, options->c0, 1);
  return tdm_value_is_valid(*x);
}

/* Returns y or states (..., batch, hidden) without the batch of one. */
static tdm_value narrow(const recurrent_layers *layers, tdm_value y) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_value_is_valid(y) || !tdm_layer_name(layers->graph, layers->name, "/one_of_batch", text))
    return TDM_NO_VALUE;
  return tdm_squeeze(layers->graph, text, y, 1);
}

static void give_states(const recurrent_layers *layers, last_states *states, bool single,
                        tdm_value *out_states) {
  if (!out_states) return;
  join_states(layers, states);
  *out_states = single ? narrow(layers, states->parts[0]) : states->parts[0];
}

static tdm_value recurrent(tdm_graph *graph, const char *kind, int32_t cell,
                           const tdm_operation *operation, const char *name, tdm_value x,
                           int64_t hidden, const tdm_rnn_options *options, tdm_value *out_h_n,
                           tdm_value *out_c_n) {
  name = tdm_graph_name(graph, name);
  recurrent_layers layers = {.graph = graph,
                             .kind = kind,
                             .name = name,
                             .operation = operation,
                             .cell = cell,
                             .hidden = hidden};
  const bool legal = tdm_layer_options(graph, kind, name, rnn, options, &layers.options);
  layers.directions = layers.options.bidirectional ? 2 : 1;
  if (out_h_n) *out_h_n = TDM_NO_VALUE;
  if (out_c_n) *out_c_n = TDM_NO_VALUE;
  char text[TDM_LAYER_NAME_BYTES];
  if (!legal || !tdm_layer_name(graph, name, "", text)) return TDM_NO_VALUE;
  const bool single = tdm_value_shape(graph, x).rank == 2;
  if ((single && !widen(&layers, &x)) || !accepts(&layers, x)) return TDM_NO_VALUE;
  if (cell == TDM_CELL_TANH && layers.options.relu) layers.cell = TDM_CELL_RELU;
  last_states h_n = {.part = "/h_n"}, c_n = {.part = "/c_n"};
  const tdm_value y = make_layers(&layers, x, out_h_n ? &h_n : NULL, out_c_n ? &c_n : NULL);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  give_states(&layers, &h_n, single, out_h_n);
  give_states(&layers, &c_n, single, out_c_n);
  return single ? narrow(&layers, y) : y;
}

tdm_value tdm_rnn(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                  const tdm_rnn_options *options, tdm_value *out_h_n) {
  return recurrent(graph, "rnn", TDM_CELL_TANH, &tdm_operation_rnn, name, x, hidden, options,
                   out_h_n, NULL);
}

tdm_value tdm_lstm(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                   const tdm_rnn_options *options, tdm_value *out_h_n, tdm_value *out_c_n) {
  return recurrent(graph, "lstm", TDM_CELL_LSTM, &tdm_operation_lstm, name, x, hidden, options,
                   out_h_n, out_c_n);
}

tdm_value tdm_gru(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                  const tdm_rnn_options *options, tdm_value *out_h_n) {
  return recurrent(graph, "gru", TDM_CELL_GRU, &tdm_operation_gru, name, x, hidden, options,
                   out_h_n, NULL);
}
