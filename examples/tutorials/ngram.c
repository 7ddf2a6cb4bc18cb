/* The next word from the two before it. */
#include "examples/tutorials/vocabulary.h"

enum { CONTEXT = 2, EMBEDDING = 10 };

static const char *const text = "the tide comes in and the tide goes out and the boats "
                                "rise and fall with it while the gulls above the boats call out "
                                "to the gulls on the shore and the shore keeps still";

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  const vocabulary known = vocabulary_of_words(&text, 1);
  tdm_tensor *words = vocabulary_encode(context, &known, &text, 1, NULL);
  check(words != NULL);
  const int64_t count = known.count;
  const int64_t rows = tdm_tensor_shape(words).dims[0] - CONTEXT;
  const int64_t *numbers = tdm_tensor_data(words);
  tdm_tensor *contexts =
      tdm_tensor_zeros(context, "cpu", TDM_INT64, tdm_shape_of(2, rows, CONTEXT));
  for (int64_t i = 0; i < rows * CONTEXT; i++)
    ((int64_t *)tdm_tensor_data(contexts))[i] = numbers[i / CONTEXT + i % CONTEXT];
  tdm_tensor *targets = tdm_tensor_slice(words, CONTEXT, CONTEXT + rows);

  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value given = tdm_input(graph, "contexts", TDM_INT64, tdm_shape_of(2, batch, CONTEXT));
  const tdm_value wanted = tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, batch));
  tdm_value x = tdm_embedding(graph, "embeddings", given, count, EMBEDDING);
  x = tdm_linear(graph, "linear1", tdm_flatten(graph, NULL, x, 1, 2), 64);
  x = tdm_linear(graph, "linear2", tdm_relu(graph, NULL, x), count);
  x = tdm_log_softmax(graph, NULL, x, 1);
  tdm_output(graph, "next", tdm_argmax(graph, NULL, x, 1, false));
  const tdm_optimizer adam = tdm_adam(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.optimizer = &adam;
  options.loss = tdm_nll(graph, "loss", x, wanted);
  tdm_session *model = tdm_session_create(graph, &options);
  const tdm_feed feeds[] = {{"contexts", contexts, false}, {"targets", targets, false}};
  for (int step = 1; step <= 100; step++) {
    double loss;
    check(tdm_train_step(model, feeds, 2, NULL, 0, &loss) == TDM_OK);
    if (step % 25 == 0) printf("step %d: loss %.3f\n", step, loss);
  }

  const char *const asked = "boats rise";
  tdm_tensor *two = vocabulary_encode(context, &known, &asked, 1, NULL);
  tdm_tensor *row = tdm_tensor_view(two, tdm_shape_of(2, 1, CONTEXT));
  tdm_tensor *next = tdm_run_output(model, &(tdm_feed){"contexts", row, false}, 1, "next");
  check(next != NULL);
  const int64_t found = (int64_t)tdm_tensor_item(next, 0);
  printf("%s ... %s\n", asked, known.tokens[found]);
  tdm_tensor *const tensors[] = {words, contexts, targets, two, row, next};
  for (int i = 0; i < 6; i++)
    tdm_tensor_release(tensors[i]);
  tdm_session_release(model);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
