/* A tagger of words: a bidirectional LSTM of two layers over sentences of different lengths;
 * tagger.py is the same in PyTorch. */
#include "examples/zoo/zoo.h"

enum { WORDS = 50, EMBEDDING = 16, HIDDEN = 16, TAGS = 7, NONE = -1 };

zoo_training zoo_tagger(tdm_graph *graph) {
  const tdm_shape sentence = tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length"));
  const tdm_value words = tdm_input(graph, "words", TDM_INT64, sentence);
  const tdm_value lengths =
      tdm_input(graph, "lengths", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value tags = tdm_input(graph, "tags", TDM_INT64, sentence);
  tdm_embedding_options padded = tdm_embedding_options_default();
  padded.padding_index = 0;
  tdm_rnn_options lstm = tdm_rnn_options_default();
  lstm.layers = 2;
  lstm.batch_first = true;
  lstm.bidirectional = true;
  lstm.lengths = lengths;
  tdm_value x = tdm_embedding_with(graph, "embedding", words, WORDS, EMBEDDING, &padded);
  x = tdm_lstm(graph, "lstm", x, HIDDEN, &lstm, NULL, NULL);
  x = tdm_linear(graph, "hidden2tag", x, TAGS);
  tdm_output(graph, "output", x);
  tdm_loss_options tagged = tdm_loss_options_default();
  tagged.ignore_index = NONE;
  x = tdm_cross_entropy_with(graph, "loss", tdm_flatten(graph, "rows", x, 0, 1),
                             tdm_flatten(graph, "wanted", tags, 0, 1), &tagged);
  return (zoo_training){x, tdm_adam(0.01)};
}
