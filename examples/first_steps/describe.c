/* First step: a graph is described, and run. */
#include "examples/first_steps/baskets.h"

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), BASKET);
  const tdm_value items = tdm_input(graph, "items", TDM_INT64, shape);
  tdm_output(graph, "scores", describe_model(graph, items));
  check(tdm_graph_print(graph, stdout) == TDM_OK);

  tdm_session *session = tdm_session_create(graph, NULL);
  check(session != NULL);
  tdm_tensor *baskets[2];
  make_baskets(context, 2, 7, baskets);
  tdm_tensor *scores =
      tdm_run_output(session, &(tdm_feed){"items", baskets[0], false}, 1, "scores");
  check(scores && tdm_tensor_print(scores, stdout) == TDM_OK);

  tdm_tensor_release(scores);
  tdm_tensor_release(baskets[0]);
  tdm_tensor_release(baskets[1]);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
