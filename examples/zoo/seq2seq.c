/* A recurrent encoder and a decoder with attention (Bahdanau, Cho, Bengio, "Neural machine
 * translation by jointly learning to align and translate", 2015), small; seq2seq.py is the same in
 * PyTorch. */
#include "examples/zoo/zoo.h"

enum { LENGTH = 7, WRITTEN = 6, WORDS = 30, WIDTH = 24 };

/* state (batch, width), keys (batch, length, 2 width) -> (batch, 2 width). */
static tdm_value attention(tdm_graph *graph, tdm_value state, tdm_value keys) {
  tdm_scope_push(graph, "attention");
  const tdm_value query = tdm_unsqueeze(graph, "query", tdm_linear(graph, "Wa", state, WIDTH), 1);
  tdm_value x = tdm_add(graph, "sum", query, tdm_linear(graph, "Ua", keys, WIDTH));
  x = tdm_linear(graph, "Va", tdm_tanh(graph, "tanh", x), 1);
  x = tdm_mul(graph, "weighted", tdm_softmax(graph, "weights", x, 1), keys);
  x = tdm_sum(graph, "context", x, (const int[]){1}, 1, false);
  tdm_scope_pop(graph);
  return x;
}

/* Decodes one word: returns its scores, and the next state in *state. */
static tdm_value decode(tdm_graph *graph, tdm_value words, tdm_value *state, tdm_value keys) {
  tdm_scope_push(graph, "decoder");
  const tdm_value parts[] = {tdm_embedding(graph, "embedding", words, WORDS, WIDTH),
                             attention(graph, *state, keys)};
  const tdm_value x = tdm_unsqueeze(graph, "x", tdm_concat(graph, "parts", parts, 2, 1), 0);
  tdm_rnn_options options = tdm_rnn_options_default();
  options.h0 = tdm_unsqueeze(graph, "h0", *state, 0);
  tdm_value states;
  tdm_gru(graph, "gru", x, WIDTH, &options, &states);
  *state = tdm_select(graph, "state", states, 0, 0);
  const tdm_value scores = tdm_linear(graph, "out", *state, WORDS);
  tdm_scope_pop(graph);
  tdm_tie(graph, "decoder", "decoder");
  return scores;
}

zoo_training zoo_seq2seq(tdm_graph *graph) {
  const tdm_shape sentence = tdm_shape_of(2, TDM_DIM("batch"), WRITTEN);
  const tdm_value read =
      tdm_input(graph, "read", TDM_INT64, tdm_shape_of(2, TDM_DIM("batch"), LENGTH));
  const tdm_value written = tdm_input(graph, "written", TDM_INT64, sentence);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, sentence);
  tdm_rnn_options both = tdm_rnn_options_default();
  both.batch_first = true;
  both.bidirectional = true;
  tdm_value states, scores[WRITTEN];
  const tdm_value words = tdm_embedding(graph, "embedding", read, WORDS, WIDTH);
  const tdm_value keys = tdm_gru(graph, "encoder", words, WIDTH, &both, &states);
  const tdm_value backward = tdm_select(graph, "backward", states, 0, 1);
  tdm_value state = tdm_tanh(graph, "tanh", tdm_linear(graph, "bridge", backward, WIDTH));
  for (int i = 0; i < WRITTEN; i++)
    scores[i] = decode(graph, tdm_select(graph, "word", written, 1, i), &state, keys);
  const tdm_value x = tdm_stack(graph, "scores", scores, WRITTEN, 2);
  tdm_output(graph, "output", x);
  return (zoo_training){tdm_cross_entropy(graph, "loss", x, targets), tdm_adam(3e-3)};
}
