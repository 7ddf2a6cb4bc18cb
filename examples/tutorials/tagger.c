/* An LSTM finds the part of speech of each word of a sentence. */
#include "examples/tutorials/vocabulary.h"

enum { SENTENCES = 2 };

static const char *const sentences[] = {"the dog ate the apple", "everybody read that book"};
static const char *const marks[] = {"DET NN V DET NN", "NN V DET NN"};

static tdm_value tagger(tdm_graph *graph, tdm_value sentence, int64_t words, int64_t tags) {
  tdm_value x = tdm_embedding(graph, "embeddings", sentence, words, 6);
  x = tdm_lstm(graph, "lstm", tdm_unsqueeze(graph, NULL, x, 1), 6, NULL, NULL, NULL);
  return tdm_linear(graph, "hidden2tag", tdm_flatten(graph, NULL, x, 0, 1), tags);
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  const vocabulary words = vocabulary_of_words(sentences, SENTENCES);
  const vocabulary tags = vocabulary_of_words(marks, SENTENCES);
  tdm_feed feeds[SENTENCES][2];
  for (int i = 0; i < SENTENCES; i++) {
    tdm_tensor *sentence = vocabulary_encode(context, &words, &sentences[i], 1, NULL);
    feeds[i][0] = (tdm_feed){"sentence", sentence, false};
    tdm_tensor *wanted = vocabulary_encode(context, &tags, &marks[i], 1, NULL);
    feeds[i][1] = (tdm_feed){"tags", wanted, false};
  }

  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape length = tdm_shape_of(1, TDM_DIM("length"));
  const tdm_value sentence = tdm_input(graph, "sentence", TDM_INT64, length);
  const tdm_value wanted = tdm_input(graph, "tags", TDM_INT64, length);
  const tdm_value scores = tagger(graph, sentence, words.count, tags.count);
  tdm_output(graph, "found", tdm_argmax(graph, NULL, scores, 1, false));
  const tdm_optimizer sgd = tdm_sgd(0.1);
  tdm_session_options options = tdm_session_options_default();
  options.optimizer = &sgd;
  options.loss = tdm_cross_entropy(graph, "loss", scores, wanted);
  tdm_session *model = tdm_session_create(graph, &options);
  for (int epoch = 1; epoch <= 300; epoch++) {
    double loss;
    for (int i = 0; i < SENTENCES; i++)
      check(tdm_train_step(model, feeds[i], 2, NULL, 0, &loss) == TDM_OK);
    if (epoch % 100 == 0) printf("epoch %d: loss %.3f\n", epoch, loss);
  }

  tdm_tensor *found = tdm_run_output(model, feeds[0], 1, "found");
  check(found != NULL);
  const int64_t *sentence_words = tdm_tensor_data(feeds[0][0].tensor);
  for (int i = 0; i < 5; i++) {
    const int64_t tag = (int64_t)tdm_tensor_item(found, i);
    printf("%s is %s\n", words.tokens[sentence_words[i]], tags.tokens[tag]);
  }
  tdm_tensor_release(found);
  for (int i = 0; i < 2 * SENTENCES; i++)
    tdm_tensor_release(feeds[i / 2][i % 2].tensor);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
