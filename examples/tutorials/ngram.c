/* The next word from the two before it. */
#include <string.h>

#include "examples/tutorials/tutorial.h"

enum { CONTEXT = 2, EMBEDDING = 10, MOST = 64 };

static const char text[] = "the tide comes in and the tide goes out and the boats "
                           "rise and fall with it while the gulls above the boats call out "
                           "to the gulls on the shore and the shore keeps still";

static char vocabulary[MOST][8];
static int word_count;

static int64_t number_of(const char *word) {
  int i = 0;
  while (i < word_count && strcmp(vocabulary[i], word) != 0)
    i++;
  if (i == word_count) strcpy(vocabulary[word_count++], word);
  return i;
}

int main(void) {
  int64_t words[MOST], contexts[MOST * CONTEXT], length = 0;
  char word[8];
  for (int at = 0, used = 0; sscanf(text + at, "%7s%n", word, &used) == 1; at += used)
    words[length++] = number_of(word);
  const int64_t rows = length - CONTEXT;
  for (int64_t i = 0; i < rows * CONTEXT; i++)
    contexts[i] = words[i / CONTEXT + i % CONTEXT];

  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value given =
      tdm_input(graph, "contexts", TDM_INT64, tdm_shape_of(2, TDM_DIM("batch"), CONTEXT));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_value x = tdm_embedding(graph, "embeddings", given, word_count, EMBEDDING);
  x = tdm_linear(graph, "linear1", tdm_flatten(graph, "flat", x, 1, 2), 64);
  x = tdm_linear(graph, "linear2", tdm_relu(graph, "hidden", x), word_count);
  x = tdm_log_softmax(graph, "logarithms", x, 1);
  tdm_output(graph, "next", tdm_argmax(graph, "next", x, 1, false));
  const tdm_optimizer adam = tdm_adam(0.01);
  tdm_session_options options = {.struct_size = sizeof options, .optimizer = &adam};
  options.loss = tdm_nll(graph, "loss", x, targets);
  tdm_session *model = tdm_session_create(graph, &options);
  check(model != NULL);
  const tdm_feed feeds[] = {
      {"contexts", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, rows, CONTEXT), contexts),
       false},
      {"targets", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, rows), words + CONTEXT),
       false},
  };
  for (int step = 1; step <= 100; step++) {
    double loss;
    check(tdm_train_step(model, feeds, 2, NULL, 0, &loss) == TDM_OK);
    if (step % 25 == 0) printf("step %d: loss %.3f\n", step, loss);
  }

  const int64_t pair[] = {number_of("boats"), number_of("rise")};
  const tdm_feed asked = {
      "contexts", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, 1, CONTEXT), pair), false};
  tdm_fetch found = {"next", NULL};
  check(tdm_run(model, &asked, 1, &found, 1) == TDM_OK);
  printf("boats rise ... %s\n", vocabulary[*(const int64_t *)tdm_tensor_data(found.tensor)]);
  tdm_tensor *const tensors[] = {feeds[0].tensor, feeds[1].tensor, asked.tensor, found.tensor};
  for (int i = 0; i < 4; i++)
    tdm_tensor_release(tensors[i]);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
