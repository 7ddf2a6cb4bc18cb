/* Fourth step: stopped training continues with the bits of uninterrupted training. */
#include <string.h>

#include "examples/first_steps/training.h"

/* Returns true if both parameters are equal, bit for bit. */
static bool agree(tdm_session *one, tdm_session *other, const char *name) {
  tdm_tensor_list *first = tdm_store_save(tdm_session_store(one), false);
  tdm_tensor_list *second = tdm_store_save(tdm_session_store(other), false);
  check(first && second);
  const tdm_tensor *a = tdm_tensor_list_find(first, name), *b = tdm_tensor_list_find(second, name);
  check(a && b);
  const bool same = memcmp(tdm_tensor_data(a), tdm_tensor_data(b), tdm_tensor_bytes(a)) == 0;
  tdm_tensor_list_release(first);
  tdm_tensor_list_release(second);
  return same;
}

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_session_options options = tdm_session_options_default();
  tdm_graph *graph = describe_training(context, &options);
  tdm_loader *loader = make_loader(context);

  tdm_session *whole = tdm_session_create(graph, &options);
  check(whole != NULL);
  train(whole, loader, 1, 2);

  tdm_session *begun = tdm_session_create(graph, &options);
  check(begun != NULL);
  train(begun, loader, 1, 1);
  check(tdm_checkpoint_save(begun, loader, "baskets.checkpoint") == TDM_OK);
  tdm_session *resumed = tdm_session_create(graph, &options);
  check(resumed && tdm_checkpoint_load(resumed, loader, "baskets.checkpoint") == TDM_OK);
  printf("resumed at step %d\n", (int)tdm_session_step(resumed));
  train(resumed, loader, 2, 2);
  printf("the same bits: %s\n", agree(whole, resumed, "items.weight") ? "yes" : "no");

  tdm_session_release(resumed);
  tdm_session_release(begun);
  tdm_session_release(whole);
  tdm_loader_release(loader);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
