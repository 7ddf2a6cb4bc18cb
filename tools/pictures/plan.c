/* The model of the README's drawing, trained for some steps: its plan as JSON on stdout, with times
 * that were measured. */
#include <stdio.h>
#include <stdlib.h>

#include "tandem/tandem.h"

enum { WORDS = 10000, WIDTH = 64, CLASSES = 8, BATCH = 256, STEPS = 200 };

static tdm_session *make_session(tdm_graph *graph) {
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value classes = tdm_input(graph, "class", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "cpu:0");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, WORDS, WIDTH);
  tdm_place(graph, "sim:0");
  const tdm_value scores = tdm_linear(graph, "linear", words, CLASSES);
  const tdm_optimizer adam = tdm_adam(0.001);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_cross_entropy(graph, "loss", scores, classes);
  options.optimizer = &adam;
  options.profile = true;
  return tdm_session_create(graph, &options);
}

/* (BATCH) numbers below `below`, on cpu:0. */
static tdm_tensor *draw(tdm_context *context, int64_t below) {
  int64_t numbers[BATCH];
  for (int i = 0; i < BATCH; i++)
    numbers[i] = (int64_t)i * 7919 % below;
  return tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, BATCH), numbers);
}

int main(void) {
  tdm_context_options wanted = tdm_context_options_default();
  wanted.cpu_devices = 1;
  wanted.sim_devices = 1;
  tdm_context *context = tdm_context_create(&wanted);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_session *session = make_session(graph);
  tdm_tensor *ids = draw(context, WORDS), *classes = draw(context, CLASSES);
  const tdm_feed feeds[] = {{"ids", ids, false}, {"class", classes, false}};
  tdm_status status = session && ids && classes ? TDM_OK : TDM_UNAVAILABLE;
  for (int i = 0; i < STEPS && status == TDM_OK; i++)
    status = tdm_train_step(session, feeds, 2, NULL, 0, NULL);
  if (status == TDM_OK) status = tdm_session_explain(session, TDM_PLAN_JSON, stdout);
  if (status != TDM_OK) fprintf(stderr, "plan: %s\n", tdm_last_message());
  tdm_tensor_release(ids);
  tdm_tensor_release(classes);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return status == TDM_OK ? 0 : 1;
}
