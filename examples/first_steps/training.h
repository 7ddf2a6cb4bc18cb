/* The model with a loss, for the steps that train it: what differs from step to step are the
 * options, and what is done to the graph before the session freezes it. */
#ifndef EXAMPLES_FIRST_STEPS_TRAINING_H
#define EXAMPLES_FIRST_STEPS_TRAINING_H

#include "examples/first_steps/baskets.h"

/* Describes the inputs, the model and an output "accuracy". Sets the loss and Adam in the
 * initialized options. */
static inline tdm_graph *describe_training(tdm_context *context, tdm_session_options *options) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value items = tdm_input(graph, "items", TDM_INT64, tdm_shape_of(2, batch, BASKET));
  const tdm_value kinds = tdm_input(graph, "kinds", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value scores = describe_model(graph, items);
  tdm_output(graph, "accuracy", tdm_accuracy(graph, "accuracy", scores, kinds));
  static tdm_optimizer adam;
  adam = tdm_adam(0.01);
  options->loss = tdm_cross_entropy(graph, "loss", scores, kinds);
  options->optimizer = &adam;
  options->seed = 1;
  return graph;
}

/* Returns the share of 1,000 other baskets that the model classifies correctly. */
static inline double accuracy(tdm_session *session) {
  tdm_tensor *baskets[2];
  make_baskets(tdm_session_context(session), 1000, 2, baskets);
  const tdm_feed feeds[] = {{"items", baskets[0], false}, {"kinds", baskets[1], false}};
  tdm_tensor *found = tdm_run_output(session, feeds, 2, "accuracy");
  check(found != NULL);
  const double share = tdm_tensor_item(found, 0);
  tdm_tensor_release(found);
  tdm_tensor_release(baskets[0]);
  tdm_tensor_release(baskets[1]);
  return share;
}

/* Epochs first to last. */
static inline void train(tdm_session *session, tdm_loader *loader, uint64_t first, uint64_t last) {
  static const char *const inputs[] = {"items", "kinds"};
  for (uint64_t epoch = first; epoch <= last; epoch++) {
    double loss;
    check(tdm_train_epoch(session, loader, inputs, 2, epoch, &loss) == TDM_OK);
    printf("epoch %d: loss %.3f, accuracy %.3f\n", (int)epoch, loss, accuracy(session));
  }
}

#endif
