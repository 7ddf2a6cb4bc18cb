/* The first model: an embedding on the CPU, a linear layer on the accelerator, and the transfer
 * between them, which appears by itself. README.md shows this program. */
#include <stdio.h>

#include <tandem/tandem.h>

int main(int argc, char **argv) {
  if (argc > 1) return printf("usage: %s\nScores three words on two devices.\n", argv[0]) < 0;

  tdm_context *context = tdm_context_create(NULL); /* finds the devices */
  tdm_graph *graph = tdm_graph_create(context);

  tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "cpu:0");
  tdm_value words = tdm_embedding(graph, "embedding", ids, 1000, 10);
  tdm_place(graph, tdm_accelerator(context));             /* cuda:0 if there is one, else cpu:0 */
  tdm_value scores = tdm_linear(graph, "rnn", words, 10); /* the transfer appears by itself */
  tdm_output(graph, "scores", scores);

  tdm_session *session = tdm_session_create(graph, NULL);
  const int64_t batch[3] = {1, 42, 999};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 3), batch);
  const tdm_feed feed = {"ids", fed, false};
  tdm_fetch fetch = {"scores", NULL};
  const bool done = session && tdm_run(session, &feed, 1, &fetch, 1) == TDM_OK;
  if (!done) fprintf(stderr, "%s\n", tdm_last_message()); /* names the layer and the reason */
  const float *values = (const float *)tdm_tensor_data(fetch.tensor); /* (3, 10) */
  for (int i = 0; done && i < 3; i++)
    printf("word %d: %g %g ...\n", (int)batch[i], values[10 * i], values[10 * i + 1]);

  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return done ? 0 : 1;
}
