/* Shape and gradient rules of recurrent layers; devices/kernels.h has their formulas. Invariant: in
 * training, other operations replace these and store the inputs of the gradient, so that only
 * training has this cost. */
#include "layers/recurrent/recurrent_operations.h"

#include "layers/common.h"

enum {
  X = TDM_RECURRENT_X,
  WEIGHT_IH = TDM_RECURRENT_WEIGHT_IH,
  WEIGHT_HH = TDM_RECURRENT_WEIGHT_HH,
  BIAS_IH = TDM_RECURRENT_BIAS_IH,
  BIAS_HH = TDM_RECURRENT_BIAS_HH,
  H0 = TDM_RECURRENT_H0,
  C0 = TDM_RECURRENT_C0,
  LENGTHS = TDM_RECURRENT_LENGTHS,
  INPUTS = TDM_RECURRENT_INPUTS,
};
enum { Y = TDM_RECURRENT_Y, H_N = TDM_RECURRENT_H_N, C_N = TDM_RECURRENT_C_N };

static const char *const input_names[INPUTS] = {"x",       "weight_ih", "weight_hh", "bias_ih",
                                                "bias_hh", "h0",        "c0",        "lengths"};

static int32_t cell_of(const void *attributes) {
  return ((const tdm_recurrent_attributes *)attributes)->cell;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Reports, for example, "weight_ih expects 8 features, x has 10 (x [length, batch, 10], weight_ih
 * [16, 8])". */
static tdm_status expect_features(const tdm_infer *infer) {
  const tdm_shape *x = tdm_infer_shape(infer, X);
  const tdm_shape *weight = tdm_infer_shape(infer, WEIGHT_IH);
  if (tdm_dim_agree(x->dims[2], weight->dims[1])) return TDM_OK;
  char wanted[24];
  char found[24];
  char x_text[TDM_SHAPE_TEXT];
  char weight_text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "weight_ih expects %s features, x has %s (x %s, weight_ih %s)",
                  tdm_dim_text(weight->dims[1], wanted), tdm_dim_text(x->dims[2], found),
                  tdm_shape_text(x, x_text, sizeof x_text),
                  tdm_shape_text(weight, weight_text, sizeof weight_text));
}

static tdm_status expect_dtypes(const tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, X, input_names[X]));
  for (size_t i = WEIGHT_IH; i < LENGTHS; i++)
    if (i <= WEIGHT_HH || tdm_infer_has(infer, i))
      TDM_TRY(tdm_expect_dtype_of_first(infer, i, "x", input_names[i]));
  return tdm_infer_has(infer, LENGTHS) ? tdm_expect_ids(infer, LENGTHS, "lengths") : TDM_OK;
}

/* Outputs y, h_n, for lstm c_n; in training also gates, and for lstm cells. */
static tdm_status infer_forward(tdm_infer *infer) {
  TDM_TRY(expect_dtypes(infer));
  TDM_TRY(tdm_expect_rank(infer, X, "x", 3, 3));
  TDM_TRY(tdm_expect_rank(infer, WEIGHT_HH, "weight_hh", 2, 2));
  TDM_TRY(tdm_expect_rank(infer, WEIGHT_IH, "weight_ih", 2, 2));
  TDM_TRY(expect_features(infer));
  const tdm_shape *x = tdm_infer_shape(infer, X);
  const tdm_dim hidden = tdm_infer_shape(infer, WEIGHT_HH)->dims[1];
  const tdm_dim columns = tdm_cell_gates(cell_of(infer->attributes)) * hidden;
  const tdm_shape state = {.rank = 2, .dims = {x->dims[1], hidden}};
  const tdm_shape steps = {.rank = 3, .dims = {x->dims[0], x->dims[1], hidden}};
  const tdm_shape gates = {.rank = 3, .dims = {x->dims[0], x->dims[1], 4 * hidden}};
  const tdm_shape expected[INPUTS] = {[WEIGHT_IH] = {.rank = 2, .dims = {columns, x->dims[2]}},
                                      [WEIGHT_HH] = {.rank = 2, .dims = {columns, hidden}},
                                      [BIAS_IH] = {.rank = 1, .dims = {columns}},
                                      [BIAS_HH] = {.rank = 1, .dims = {columns}},
                                      [H0] = state,
                                      [C0] = state,
                                      [LENGTHS] = {.rank = 1, .dims = {x->dims[1]}}};
  for (size_t i = WEIGHT_IH; i < INPUTS; i++)
    if (tdm_infer_has(infer, i)) TDM_TRY(tdm_expect_shape(infer, i, input_names[i], &expected[i]));
  const size_t states = cell_of(infer->attributes) == TDM_CELL_LSTM ? 2 : 1;
  const tdm_dtype dtype = infer->inputs[X].dtype;
  for (size_t i = 0; i < infer->output_count; i++)
    tdm_infer_set(infer, i, dtype,
                  i == Y            ? &steps
                  : i <= states     ? &state
                  : i == 1 + states ? &gates
                                    : &steps);
  return TDM_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

enum { OF_X, OF_Y, OF_WEIGHT_IH, OF_WEIGHT_HH }; /* inputs that each gradient has */

static size_t count_gradients(const void *attributes) {
  const tdm_recurrent_attributes *recurrent = attributes;
  return 5 + (size_t)(recurrent->cell == TDM_CELL_LSTM) + (size_t)recurrent->input_gradient;
}

static tdm_status infer_gradient(tdm_infer *infer) {
  const tdm_dtype dtype = infer->inputs[OF_X].dtype;
  const tdm_shape *y = tdm_infer_shape(infer, OF_Y);
  const tdm_shape *weight = tdm_infer_shape(infer, OF_WEIGHT_IH);
  const tdm_shape state = {.rank = 2, .dims = {y->dims[1], y->dims[2]}};
  const tdm_shape bias = {.rank = 1, .dims = {weight->dims[0]}};
  const tdm_shape *const shapes[] = {weight, tdm_infer_shape(infer, OF_WEIGHT_HH), &bias, &bias,
                                     &state};
  for (size_t i = 0; i < 5; i++)
    tdm_infer_set(infer, i, dtype, shapes[i]);
  const size_t states = cell_of(infer->attributes) == TDM_CELL_LSTM ? 2 : 1;
  if (states == 2) tdm_infer_set(infer, 5, dtype, &state);
  if (infer->output_count > 4 + states)
    tdm_infer_set(infer, 4 + states, dtype, tdm_infer_shape(infer, OF_X));
  return TDM_OK;
}

/* Returns the operations of a step: 2 for each element of both weights and each row of the
 * batch. */
static double step_flops(const tdm_spec *x, const tdm_spec *weight_ih, const tdm_spec *weight_hh) {
  const double rows = (double)(x->shape.dims[0] * x->shape.dims[1]);
  return 2 * rows * (tdm_work_count(weight_ih) + tdm_work_count(weight_hh));
}

static void forward_work(const tdm_infer *node, tdm_work *work) {
  work->flops = step_flops(&node->inputs[X], &node->inputs[WEIGHT_IH], &node->inputs[WEIGHT_HH]);
}

/* Counts the same products twice, once for d_x and d_h, once for the weights. Inputs: x, y,
 * weight_ih, weight_hh, ... */
static void gradient_work(const tdm_infer *node, tdm_work *work) {
  work->flops = 2 * step_flops(&node->inputs[0], &node->inputs[2], &node->inputs[3]);
}

#define GRADIENT(operation)                                                                        \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = operation,                                       \
    .attribute_bytes = sizeof(tdm_recurrent_attributes), .min_inputs = 4, .max_inputs = 12,        \
    .count_outputs = count_gradients, .infer = infer_gradient, .work = gradient_work,              \
    .precision = TDM_PRECISION_GIVEN,                                                              \
  }
static const tdm_operation rnn_gradient = GRADIENT(TDM_OP_RNN_GRADIENT);
static const tdm_operation lstm_gradient = GRADIENT(TDM_OP_LSTM_GRADIENT);
static const tdm_operation gru_gradient = GRADIENT(TDM_OP_GRU_GRADIENT);

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_recurrent_attributes attributes =
      *(const tdm_recurrent_attributes *)tdm_gradient_attributes(gradient);
  attributes.input_gradient = tdm_gradient_wanted(gradient, X);
  const bool lstm = attributes.cell == TDM_CELL_LSTM, gru = attributes.cell == TDM_CELL_GRU;
  const tdm_value operands[] = {
      tdm_gradient_input(gradient, X),
      tdm_gradient_output(gradient, Y),
      tdm_gradient_input(gradient, WEIGHT_IH),
      tdm_gradient_input(gradient, WEIGHT_HH),
      tdm_gradient_of_output(gradient, Y),
      tdm_gradient_of_output(gradient, H_N),
      lstm ? tdm_gradient_of_output(gradient, C_N) : TDM_NO_VALUE,
      tdm_gradient_input(gradient, H0),
      tdm_gradient_input(gradient, C0),
      lstm || gru ? tdm_gradient_output(gradient, lstm ? 3 : 2) : TDM_NO_VALUE, /* gates */
      lstm ? tdm_gradient_output(gradient, 4) : TDM_NO_VALUE,                   /* cells */
      tdm_gradient_input(gradient, LENGTHS),
  };
  tdm_value outputs[7];
  tdm_append(graph,
             lstm  ? &lstm_gradient
             : gru ? &gru_gradient
                   : &rnn_gradient,
             tdm_gradient_name(gradient), &attributes, operands, 12, outputs);
  for (size_t i = X; i < LENGTHS; i++) {
    if (!tdm_value_is_valid(tdm_gradient_input(gradient, i)) || !tdm_gradient_wanted(gradient, i))
      continue;
    tdm_gradient_set(gradient, i, outputs[i == X ? (lstm ? 6 : 5) : i - WEIGHT_IH]);
  }
  return tdm_graph_status(graph);
}

/* ---- The operations -------------------------------------------------------------------------- */

/* Splits the batch, never time: each step requires the previous one. */
static tdm_status chunk_recurrent(tdm_chunked *chunked) {
  return tdm_chunked_rows(chunked, 0, X);
}

#define FORWARD(operation, outputs, training)                                                      \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = operation,                                       \
    .attribute_bytes = sizeof(tdm_recurrent_attributes), .min_inputs = 3, .max_inputs = INPUTS,    \
    .output_count = outputs, .infer = infer_forward, .gradient = append_gradient,                  \
    .chunk = chunk_recurrent, .when_training = training, .when_differentiated = training,          \
    .work = forward_work, .precision = TDM_PRECISION_LOWER,                                        \
  }
static const tdm_operation lstm_training = FORWARD(TDM_OP_LSTM_TRAINING, 5, NULL);
static const tdm_operation gru_training = FORWARD(TDM_OP_GRU_TRAINING, 3, NULL);
const tdm_operation tdm_operation_rnn = FORWARD(TDM_OP_RNN, 2, NULL);
const tdm_operation tdm_operation_lstm = FORWARD(TDM_OP_LSTM, 3, &lstm_training);
const tdm_operation tdm_operation_gru = FORWARD(TDM_OP_GRU, 2, &gru_training);

TDM_RECORDS(recurrent, {.operation = &tdm_operation_rnn, .functions = "tdm_rnn tdm_rnn_cell"},
            {.operation = &rnn_gradient},
            {.operation = &tdm_operation_lstm, .functions = "tdm_lstm tdm_lstm_cell"},
            {.operation = &lstm_training}, {.operation = &lstm_gradient},
            {.operation = &tdm_operation_gru, .functions = "tdm_gru tdm_gru_cell"},
            {.operation = &gru_training}, {.operation = &gru_gradient});
