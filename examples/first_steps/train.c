/* Second step: a session with a loss and an optimizer trains. */
#include "examples/first_steps/training.h"

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_session_options options = tdm_session_options_default();
  tdm_graph *graph = describe_training(context, &options);
  tdm_session *session = tdm_session_create(graph, &options);
  check(session != NULL);
  tdm_loader *loader = make_loader(context);
  train(session, loader, 1, 3);
  check(tdm_state_dict_save(session, "baskets.safetensors", NULL) == TDM_OK);

  tdm_loader_release(loader);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
