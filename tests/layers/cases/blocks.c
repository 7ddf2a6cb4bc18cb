/* Builders of the golden cases of tests/golden/blocks_cases.py. */
#include "tests/layers/layer_cases.h"
#include "tests/options.h"

enum { TANH, RELU, LSTM, GRU };
enum { HIDDEN = 4, PROJECTED = 2 };

/* The states of all layers and directions are concatenated, and judged as one. */
static void judge_states(layer_test *test, const char *name, tdm_value states) {
  layer_judge(test, name, tdm_flatten(test->graph, name, states, 0, 1));
}

/* Numbers of the case: layers, bidirectional, batch_first, bias, initial, lengths. */
static void projected(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_rnn_options chosen = OPTIONS(
      tdm_rnn_options, o.layers = (int)numbers[0], o.bidirectional = numbers[1] != 0,
      o.batch_first = numbers[2] != 0, o.without_bias = numbers[3] == 0, o.projection = PROJECTED);
  const tdm_value x = layer_parameter(test, "x");
  if (numbers[4] != 0) {
    chosen.h0 = layer_parameter(test, "h0");
    chosen.c0 = layer_parameter(test, "c0");
  }
  if (numbers[5] != 0) chosen.lengths = layer_input(test, "lengths");
  tdm_value h_n, c_n;
  layer_judge(test, "y", tdm_lstm(test->graph, "layer", x, HIDDEN, &chosen, &h_n, &c_n));
  judge_states(test, "h_n", h_n);
  judge_states(test, "c_n", c_n);
}

/* Numbers of the case: kind, bidirectional, initial. */
static void sequence(layer_test *test, const layer_case *options) {
  const int kind = (int)options->numbers[0];
  tdm_graph *graph = test->graph;
  tdm_rnn_options chosen = OPTIONS(tdm_rnn_options, o.layers = 2, o.relu = kind == RELU,
                                   o.bidirectional = options->numbers[1] != 0);
  const tdm_value x = layer_parameter(test, "x");
  if (options->numbers[2] != 0) {
    chosen.h0 = layer_parameter(test, "h0");
    if (kind == LSTM) chosen.c0 = layer_parameter(test, "c0");
  }
  tdm_value h_n, c_n;
  layer_judge(test, "y",
              kind == LSTM  ? tdm_lstm(graph, "layer", x, HIDDEN, &chosen, &h_n, &c_n)
              : kind == GRU ? tdm_gru(graph, "layer", x, HIDDEN, &chosen, &h_n)
                            : tdm_rnn(graph, "layer", x, HIDDEN, &chosen, &h_n));
  judge_states(test, "h_n", h_n);
  if (kind == LSTM) judge_states(test, "c_n", c_n);
}

/* Numbers of the case: kind, bias, initial. */
static void cell(layer_test *test, const layer_case *options) {
  const int kind = (int)options->numbers[0];
  tdm_graph *graph = test->graph;
  const tdm_cell_options chosen =
      OPTIONS(tdm_cell_options, o.without_bias = options->numbers[1] == 0, o.relu = kind == RELU);
  const tdm_value x = layer_parameter(test, "x");
  tdm_value h = {0, 0}, c = {0, 0}, after;
  if (options->numbers[2] != 0) {
    h = layer_parameter(test, "h");
    if (kind == LSTM) c = layer_parameter(test, "c");
  }
  layer_judge(test, "h_n",
              kind == LSTM  ? tdm_lstm_cell(graph, "layer", x, h, c, HIDDEN, &chosen, &after)
              : kind == GRU ? tdm_gru_cell(graph, "layer", x, h, HIDDEN, &chosen)
                            : tdm_rnn_cell(graph, "layer", x, h, HIDDEN, &chosen));
  if (kind == LSTM) layer_judge(test, "c_n", after);
}

/* Numbers of the case: itself, batch_first, bias, bias_kv, zero, causal, mask, padding, weights. */
static void heads(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_value weights;
  tdm_multi_head_attention_options chosen = OPTIONS(
      tdm_multi_head_attention_options, o.batch_first = numbers[1] != 0,
      o.without_bias = numbers[2] == 0, o.add_bias_kv = numbers[3] != 0,
      o.add_zero_attn = numbers[4] != 0, o.causal = numbers[5] != 0,
      o.out_weights = numbers[8] != 0 ? &weights : NULL, o.weights_by_head = numbers[8] == 2);
  const tdm_value query = layer_parameter(test, "query");
  const bool itself = numbers[0] != 0;
  const tdm_value key = itself ? query : layer_parameter(test, "key");
  const tdm_value value = itself ? query : layer_parameter(test, "value");
  if (numbers[6] != 0) chosen.mask = layer_input(test, "mask");
  if (numbers[7] != 0) chosen.padding = layer_input(test, "padding");
  layer_judge(test, "y",
              tdm_multi_head_attention(test->graph, "layer", query, key, value, 2, &chosen));
  if (numbers[8] != 0) layer_judge(test, "weights", weights);
}

/* Numbers of the case: bias. */
static void bilinear(layer_test *test, const layer_case *options) {
  const tdm_value a = layer_parameter(test, "a"), b = layer_parameter(test, "b");
  layer_judge(test, "y",
              (options->numbers[0] != 0 ? tdm_bilinear : tdm_bilinear_without_bias)(
                  test->graph, "layer", a, b, 5));
}

/* Numbers of the case: decoder, gelu, norm_first, batch_first, causal, padding. */
static void transformer(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const bool decoder = numbers[0] != 0;
  tdm_transformer_options chosen = OPTIONS(
      tdm_transformer_options, o.feedforward = 8, o.dropout = 0.0, o.gelu = numbers[1] != 0,
      o.norm_first = numbers[2] != 0, o.batch_first = numbers[3] != 0, o.causal = numbers[4] != 0);
  const tdm_value x = layer_parameter(test, "x");
  if (numbers[5] != 0)
    *(decoder ? &chosen.memory_padding : &chosen.padding) = layer_input(test, "padding");
  layer_judge(test, "y",
              decoder ? tdm_transformer_decoder_layer(test->graph, "layer", x,
                                                      layer_parameter(test, "memory"), 2, &chosen)
                      : tdm_transformer_encoder_layer(test->graph, "layer", x, 2, &chosen));
}

const layer_builder blocks_builders[] = {
    {"projected", {.build = projected}},
    {"sequence", {.build = sequence}},
    {"cell", {.build = cell}},
    {"heads", {.build = heads}},
    {"bilinear", {.build = bilinear}},
    {"transformer", {.build = transformer}},
    {.layer = NULL},
};
