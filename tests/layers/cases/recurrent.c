/* Builders of the golden cases of tests/golden/recurrent_cases.py. */
#include "tests/layers/layer_cases.h"
#include "tests/options.h"

enum { KIND, LAYERS, BIDIRECTIONAL, BATCH_FIRST, BIAS, INITIAL, LENGTHS, DROPOUT };
enum { TANH, RELU, LSTM, GRU };
enum { HIDDEN = 2 };

/* All layers' and directions' states, (layers D batch, hidden), are judged as one. */
static void judge_states(layer_test *test, const char *name, tdm_value states) {
  layer_judge(test, name, tdm_flatten(test->graph, name, states, 0, 1));
}

static void recurrent(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const int kind = (int)numbers[KIND];
  tdm_rnn_options chosen = OPTIONS(
      tdm_rnn_options, o.layers = (int)numbers[LAYERS], o.relu = kind == RELU,
      o.batch_first = numbers[BATCH_FIRST] != 0, o.bidirectional = numbers[BIDIRECTIONAL] != 0,
      o.without_bias = numbers[BIAS] == 0, o.dropout = numbers[DROPOUT]);
  const tdm_value x = layer_parameter(test, "x");
  if (numbers[INITIAL] != 0) chosen.h0 = layer_parameter(test, "h0");
  if (numbers[INITIAL] != 0 && kind == LSTM) chosen.c0 = layer_parameter(test, "c0");
  if (numbers[LENGTHS] != 0) chosen.lengths = layer_input(test, "lengths");
  tdm_value h_n, c_n;
  tdm_graph *graph = test->graph;
  layer_judge(test, "y",
              kind == LSTM  ? tdm_lstm(graph, "layer", x, HIDDEN, &chosen, &h_n, &c_n)
              : kind == GRU ? tdm_gru(graph, "layer", x, HIDDEN, &chosen, &h_n)
                            : tdm_rnn(graph, "layer", x, HIDDEN, &chosen, &h_n));
  judge_states(test, "h_n", h_n);
  if (kind == LSTM) judge_states(test, "c_n", c_n);
}

const layer_builder recurrent_builders[] = {
    {"recurrent", {.build = recurrent}},
    {"recurrent_in_training", {.build = recurrent, .in_training = true}},
    {.layer = NULL},
};
