/* Elman RNN over a sequence (J. L. Elman, "Finding structure in time", 1990), one operation a
 * layer. Invariant: operations are time first; batch_first only exchanges dimensions around them.
 */
#include "layers/common.h"
#include "layers/layers.h"

#include <math.h>
#include <stdio.h>

enum { X, H0, WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, OPERANDS };

static const char *const operand_names[OPERANDS] = {"x",         "h0",      "weight_ih",
                                                    "weight_hh", "bias_ih", "bias_hh"};

/* "weight_ih expects 8 features, x has 10 (x [length, batch, 10], weight_ih [16, 8])" */
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

static tdm_status infer_rnn(tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, X, "x"));
  for (size_t i = H0; i < OPERANDS; i++)
    if (i != H0 || tdm_infer_has(infer, H0))
      TDM_TRY(tdm_expect_dtype_of_first(infer, i, "x", operand_names[i]));
  TDM_TRY(tdm_expect_rank(infer, X, "x", 3, 3));
  TDM_TRY(tdm_expect_rank(infer, WEIGHT_IH, "weight_ih", 2, 2));
  TDM_TRY(expect_features(infer));
  const tdm_shape *x = tdm_infer_shape(infer, X);
  const tdm_dim hidden = tdm_infer_shape(infer, WEIGHT_IH)->dims[0];
  const tdm_shape square = {.rank = 2, .dims = {hidden, hidden}};
  const tdm_shape vector = {.rank = 1, .dims = {hidden}};
  const tdm_shape state = {.rank = 2, .dims = {x->dims[1], hidden}};
  TDM_TRY(tdm_expect_shape(infer, WEIGHT_HH, "weight_hh", &square));
  TDM_TRY(tdm_expect_shape(infer, BIAS_IH, "bias_ih", &vector));
  TDM_TRY(tdm_expect_shape(infer, BIAS_HH, "bias_hh", &vector));
  if (tdm_infer_has(infer, H0)) TDM_TRY(tdm_expect_shape(infer, H0, "h0", &state));
  const tdm_shape y = {.rank = 3, .dims = {x->dims[0], x->dims[1], hidden}};
  tdm_infer_set(infer, 0, infer->inputs[X].dtype, &y);
  return TDM_OK;
}

/* d_y (length, batch, hidden), x, y, [h0], weight_ih, weight_hh -> d_x, d_h0 (batch, hidden),
 * d_weight_ih, d_weight_hh, d_bias (hidden). */
static tdm_status infer_gradient(tdm_infer *infer) {
  const tdm_dtype dtype = infer->inputs[0].dtype;
  const tdm_shape *y = tdm_infer_shape(infer, 2);
  const tdm_shape state = {.rank = 2, .dims = {y->dims[1], y->dims[2]}};
  const tdm_shape bias = {.rank = 1, .dims = {y->dims[2]}};
  tdm_infer_set(infer, 0, dtype, tdm_infer_shape(infer, 1));
  tdm_infer_set(infer, 1, dtype, &state);
  tdm_infer_set(infer, 2, dtype, tdm_infer_shape(infer, 4));
  tdm_infer_set(infer, 3, dtype, tdm_infer_shape(infer, 5));
  tdm_infer_set(infer, 4, dtype, &bias);
  return TDM_OK;
}

static const tdm_operation rnn_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_RNN_GRADIENT,
    .attribute_bytes = sizeof(tdm_rnn_attributes),
    .min_inputs = 3, /* operand 3 may be absent */
    .max_inputs = 6,
    .output_count = 5,
    .infer = infer_gradient,
};

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value operands[] = {
      tdm_gradient_of_output(gradient, 0),     tdm_gradient_input(gradient, X),
      tdm_gradient_output(gradient, 0),        tdm_gradient_input(gradient, H0),
      tdm_gradient_input(gradient, WEIGHT_IH), tdm_gradient_input(gradient, WEIGHT_HH)};
  tdm_value outputs[5];
  tdm_append(graph, &rnn_gradient, tdm_gradient_name(gradient), tdm_gradient_attributes(gradient),
             operands, 6, outputs);
  for (size_t i = 0; i < OPERANDS; i++)
    if (tdm_value_is_valid(tdm_gradient_input(gradient, i)) && tdm_gradient_wanted(gradient, i))
      tdm_gradient_set(gradient, i, outputs[i < BIAS_HH ? i : BIAS_IH]);
  return tdm_graph_status(graph);
}

/* A step needs the one before: time is not cut. */
static tdm_status chunk_rnn(tdm_chunked *chunked) {
  return tdm_chunked_rows(chunked, 0, X);
}

static const tdm_operation rnn = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_RNN,
    .attribute_bytes = sizeof(tdm_rnn_attributes),
    .min_inputs = 1, /* h0 may be absent; the rule insists on the others */
    .max_inputs = OPERANDS,
    .output_count = 1,
    .infer = infer_rnn,
    .gradient = append_gradient,
    .chunk = chunk_rnn,
};

/* "name" "format with layer" into text; NULL with the graph's error. */
static const char *layer_name(tdm_graph *graph, const char *name, const char *part, int layer,
                              char *text) {
  char suffix[32];
  (void)snprintf(suffix, sizeof suffix, "%s%d", part, layer);
  return tdm_layer_name(graph, name, suffix, text);
}

static void make_parameters(tdm_graph *graph, const char *name, int layer, int64_t in,
                            int64_t hidden, tdm_value *operands) {
  const double bound = hidden > 0 ? 1.0 / sqrt((double)hidden) : 0.0;
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  for (int i = WEIGHT_IH; i < OPERANDS; i++) {
    char suffix[32];
    (void)snprintf(suffix, sizeof suffix, ".%s_l%d", operand_names[i], layer);
    const tdm_shape shape = i == WEIGHT_IH   ? tdm_shape_of(2, hidden, in)
                            : i == WEIGHT_HH ? tdm_shape_of(2, hidden, hidden)
                                             : tdm_shape_of(1, hidden);
    operands[i] = tdm_layer_parameter(graph, name, suffix, shape, &uniform);
  }
}

/* One layer: x (length, batch, in) -> y (length, batch, hidden). */
static tdm_value make_layer(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                            const tdm_rnn_options *options, int layer) {
  char text[TDM_LAYER_NAME_BYTES];
  tdm_shape shape = tdm_value_shape(graph, x);
  if (shape.rank < 0) return x; /* the graph has its error */
  tdm_value operands[OPERANDS] = {x};
  if (tdm_value_is_valid(options->h0)) {
    if (!layer_name(graph, name, "/h0_l", layer, text)) return (tdm_value){0, 0};
    operands[H0] = tdm_select(graph, text, options->h0, 0, layer);
    if (!tdm_value_is_valid(operands[H0])) return operands[H0];
  }
  make_parameters(graph, name, layer, *tdm_shape_last(&shape), hidden, operands);
  const tdm_rnn_attributes attributes = {.nonlinearity =
                                             options->relu ? TDM_RNN_RELU : TDM_RNN_TANH};
  const char *path = name;
  if (options->layers > 1) path = layer_name(graph, name, "/l", layer, text);
  return tdm_append(graph, &rnn, path, &attributes, operands, OPERANDS, NULL);
}

/* Is x (length, batch, features) with a size for features, and does h0 serve all layers? */
static bool accepts(tdm_graph *graph, const char *name, tdm_value x,
                    const tdm_rnn_options *options) {
  if (!tdm_layer_accepts(graph, "rnn", name, x)) return false;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (shape.rank != 3 || !tdm_dim_is_size(shape.dims[2])) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "rnn %s: x must be %s with a size for features, x is %s", name ? name : "?",
                   options->batch_first ? "[batch, length, features]" : "[length, batch, features]",
                   tdm_shape_text(&shape, text, sizeof text));
    return false;
  }
  if (options->layers < 1) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "rnn %s: %d layers", name ? name : "?",
                   options->layers);
    return false;
  }
  if (!tdm_value_is_valid(options->h0)) return true;
  const tdm_shape h0 = tdm_value_shape(graph, options->h0);
  if (h0.rank == 3 && tdm_dim_agree(h0.dims[0], options->layers)) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "rnn %s: h0 must be [%d, batch, hidden], is %s",
                 name ? name : "?", options->layers, tdm_shape_text(&h0, text, sizeof text));
  return false;
}

/* x with its first two dimensions exchanged, under name/part. */
static tdm_value exchange(tdm_graph *graph, const char *name, const char *part, tdm_value x) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_name(graph, name, part, text)) return (tdm_value){0, 0};
  return tdm_swap_first_dimensions(graph, text, x);
}

tdm_value tdm_rnn(tdm_graph *graph, const char *name, tdm_value x, int64_t hidden,
                  const tdm_rnn_options *options, tdm_value *out_h_n) {
  tdm_rnn_options chosen;
  const tdm_value invalid = {0, 0};
  const bool legal = tdm_layer_options(graph, "rnn", name, options, sizeof chosen, &chosen);
  if (chosen.layers == 0) chosen.layers = 1;
  for (int i = 0; out_h_n && i < chosen.layers; i++)
    out_h_n[i] = invalid;
  if (!legal || !accepts(graph, name, x, &chosen)) return invalid;
  tdm_value y = chosen.batch_first ? exchange(graph, name, "/time_first", x) : x;
  for (int i = 0; i < chosen.layers; i++) {
    y = make_layer(graph, name, y, hidden, &chosen, i);
    char text[TDM_LAYER_NAME_BYTES];
    if (out_h_n && tdm_value_is_valid(y) && layer_name(graph, name, "/h_l", i, text))
      out_h_n[i] = tdm_last_step(graph, text, y);
  }
  if (!tdm_value_is_valid(y)) return invalid;
  return chosen.batch_first ? exchange(graph, name, "/batch_first", y) : y;
}
