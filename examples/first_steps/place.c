/* Third step: the table is in host memory, and the other layers are on an accelerator, here a
 * simulated one. */
#include "examples/first_steps/training.h"

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_session_options options = tdm_session_options_default();
  options.device_map = "items=cpu:0,*=sim:0";
  tdm_graph *graph = describe_training(context, &options);
  tdm_session *session = tdm_session_create(graph, &options);
  check(session != NULL);
  tdm_loader *loader = make_loader(context);
  train(session, loader, 1, 3);

  /* Prints the transfers of a step with these shapes, and the placement of layers. */
  tdm_tensor *baskets[2];
  make_baskets(context, BATCH, 3, baskets);
  const tdm_feed feeds[] = {{"items", baskets[0], false}, {"kinds", baskets[1], false}};
  check(tdm_session_prepare(session, feeds, 2, NULL, 0, true) == TDM_OK);
  tdm_traffic traffic;
  check(tdm_session_traffic(session, &traffic) == TDM_OK);
  printf("a step: %d transfers of %d bytes between layers, %d of inputs and the loss\n",
         (int)traffic.edge_transfers, (int)traffic.edge_bytes, (int)traffic.boundary_transfers);
  check(tdm_session_print_summary(session, stdout) == TDM_OK);

  tdm_tensor_release(baskets[0]);
  tdm_tensor_release(baskets[1]);
  tdm_loader_release(loader);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
