/* Bags of words of different lengths distinguish good reviews from bad ones. */
#include "examples/tutorials/vocabulary.h"

enum { REVIEWS = 6 };

static const char *const reviews[REVIEWS] = {
    "a fine film with a warm heart",
    "what a dull and tired plot",
    "warm and funny from start to end",
    "a tired cast and a dull script",
    "the cast is funny and the script is fine",
    "the plot is a dull mess",
};
static const int64_t labels[REVIEWS] = {1, 0, 1, 0, 1, 0};

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  const vocabulary known = vocabulary_of_words(reviews, REVIEWS);
  tdm_feed feeds[] = {{"text", NULL, false}, {"offsets", NULL, false}, {"labels", NULL, false}};
  feeds[0].tensor = vocabulary_encode(context, &known, reviews, REVIEWS, &feeds[1].tensor);
  feeds[2].tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, REVIEWS), labels);

  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape rows = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value text = tdm_input(graph, "text", TDM_INT64, tdm_shape_of(1, TDM_DIM("words")));
  tdm_embedding_bag_options bags = tdm_embedding_bag_options_default();
  bags.offsets = tdm_input(graph, "offsets", TDM_INT64, rows);
  const tdm_value bag = tdm_embedding_bag(graph, "embedding", text, known.count, 8, &bags);
  const tdm_value scores = tdm_linear(graph, "fc", bag, 2);
  tdm_output(graph, "label", tdm_argmax(graph, NULL, scores, 1, false));
  const tdm_value wanted = tdm_input(graph, "labels", TDM_INT64, rows);
  const tdm_optimizer adam = tdm_adam(0.05);
  tdm_session_options options = tdm_session_options_default();
  options.optimizer = &adam;
  options.seed = 1;
  options.loss = tdm_cross_entropy(graph, "loss", scores, wanted);
  tdm_session *model = tdm_session_create(graph, &options);
  for (int step = 1; step <= 50; step++) {
    double loss;
    check(tdm_train_step(model, feeds, 3, NULL, 0, &loss) == TDM_OK);
    if (step % 10 == 0) printf("step %d: loss %.3f\n", step, loss);
  }
  static const char *const asked[] = {"a warm and funny script", "a dull cast"};
  for (int i = 0; i < 2; i++) {
    tdm_feed question[] = {{"text", NULL, false}, {"offsets", NULL, false}};
    question[0].tensor = vocabulary_encode(context, &known, &asked[i], 1, &question[1].tensor);
    tdm_tensor *label = tdm_run_output(model, question, 2, "label");
    check(label != NULL);
    printf("%s: %s\n", asked[i], tdm_tensor_item(label, 0) == 1 ? "good" : "bad");
    tdm_tensor_release(label);
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
