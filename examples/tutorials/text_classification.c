/* Bags of words of different lengths tell good reviews from bad ones. */
#include <string.h>

#include "examples/tutorials/tutorial.h"

enum { REVIEWS = 6, MOST_WORDS = 64 };

static const char *const reviews[REVIEWS] = {
    "a fine film with a warm heart",
    "what a dull and tired plot",
    "warm and funny from start to end",
    "a tired cast and a dull script",
    "the cast is funny and the script is fine",
    "the plot is a dull mess",
};
static const int64_t labels[REVIEWS] = {1, 0, 1, 0, 1, 0};
static char vocabulary[MOST_WORDS][16];
static int64_t word_count;

static int64_t number_of(const char *word) {
  int64_t i = 0;
  while (i < word_count && strcmp(vocabulary[i], word) != 0)
    i++;
  if (i == word_count) snprintf(vocabulary[word_count++], sizeof *vocabulary, "%s", word);
  return i;
}

/* The numbers of all words, and where each review begins, as what a run is fed. */
static void encode(tdm_context *context, const char *const *texts, int count, tdm_feed feeds[2]) {
  int64_t text[MOST_WORDS], offsets[REVIEWS], length = 0;
  for (int i = 0; i < count; i++) {
    char word[16];
    offsets[i] = length;
    for (int used = 0, at = 0; sscanf(texts[i] + at, "%15s%n", word, &used) == 1; at += used)
      text[length++] = number_of(word);
  }
  feeds[0] =
      (tdm_feed){"text", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, length), text), false};
  feeds[1] = (tdm_feed){
      "offsets", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, count), offsets), false};
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_feed feeds[3];
  encode(context, reviews, REVIEWS, feeds);
  feeds[2] = (tdm_feed){
      "labels", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, REVIEWS), labels), false};

  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape rows = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value text = tdm_input(graph, "text", TDM_INT64, tdm_shape_of(1, TDM_DIM("words")));
  const tdm_embedding_bag_options bags = {.struct_size = sizeof bags,
                                          .offsets = tdm_input(graph, "offsets", TDM_INT64, rows)};
  const tdm_value bag = tdm_embedding_bag(graph, "embedding", text, word_count, 8, &bags);
  const tdm_value scores = tdm_linear(graph, "fc", bag, 2);
  tdm_output(graph, "label", tdm_argmax(graph, "label", scores, 1, false));
  const tdm_value wanted = tdm_input(graph, "labels", TDM_INT64, rows);
  const tdm_optimizer adam = tdm_adam(0.05);
  const tdm_session_options options = {.struct_size = sizeof options,
                                       .loss = tdm_cross_entropy(graph, "loss", scores, wanted),
                                       .optimizer = &adam,
                                       .seed = 1};
  tdm_session *model = tdm_session_create(graph, &options);
  for (int step = 1; step <= 50; step++) {
    double loss;
    check(tdm_train_step(model, feeds, 3, NULL, 0, &loss) == TDM_OK);
    if (step % 10 == 0) printf("step %d: loss %.3f\n", step, loss);
  }
  static const char *const asked[] = {"a warm and funny script", "a dull cast"};
  for (int i = 0; i < 2; i++) {
    tdm_feed question[2];
    tdm_fetch label = {"label", NULL};
    encode(context, &asked[i], 1, question);
    check(tdm_run(model, question, 2, &label, 1) == TDM_OK);
    const bool good = *(const int64_t *)tdm_tensor_data(label.tensor);
    printf("%s: %s\n", asked[i], good ? "good" : "bad");
    tdm_tensor_release(label.tensor);
    tdm_tensor_release(question[0].tensor);
    tdm_tensor_release(question[1].tensor);
  }
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(feeds[i].tensor);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
