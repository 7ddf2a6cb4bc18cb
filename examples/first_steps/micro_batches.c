/* Sixth step: each batch in four parts, so that both devices have work at the same time. */
#include "examples/first_steps/training.h"

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_session_options options = tdm_session_options_default();
  options.device_map = "items=cpu:0,*=sim:0";
  options.micro_batches = 4;
  options.trace_runs = 20;
  tdm_graph *graph = describe_training(context, &options);
  tdm_session *session = tdm_session_create(graph, &options);
  check(session != NULL);
  tdm_loader *loader = make_loader(context);
  train(session, loader, 1, 3);

  /* The plan and the last steps on one page, for a browser; a timeline for Perfetto. */
  FILE *page = fopen("baskets.html", "w"), *timeline = fopen("baskets.json", "w");
  check(page && tdm_session_report(session, page) == TDM_OK);
  check(timeline && tdm_session_trace(session, TDM_TRACE_CHROME, timeline) == TDM_OK);
  (void)fclose(page);
  (void)fclose(timeline);

  tdm_loader_release(loader);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
