/* Fifth step: a part of the model is replicated, and its rows shared out over two devices. */
#include "examples/first_steps/training.h"

int main(void) {
  tdm_context_options two = tdm_context_options_default();
  two.sim_devices = 2;
  tdm_context *context = tdm_context_create(&two);
  tdm_session_options options = tdm_session_options_default();
  options.device_map = "items=cpu:0";
  tdm_graph *graph = describe_training(context, &options);
  tdm_parallel_options parallel = tdm_parallel_options_default();
  parallel.devices = "sim:0,sim:1";
  tdm_data_parallel(graph, "hidden,relu,scores", &parallel);
  tdm_session *session = tdm_session_create(graph, &options);
  check(session != NULL);
  tdm_loader *loader = make_loader(context);
  train(session, loader, 1, 3);
  check(tdm_session_print_summary(session, stdout) == TDM_OK);

  tdm_loader_release(loader);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
