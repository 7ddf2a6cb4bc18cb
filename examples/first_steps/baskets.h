/* Shared by the steps of docs/tutorial.md: baskets of five of 900 items, each item of one of three
 * kinds, and a model that finds the most frequent kind of a basket. */
#ifndef EXAMPLES_FIRST_STEPS_BASKETS_H
#define EXAMPLES_FIRST_STEPS_BASKETS_H

#include <stdio.h>
#include <stdlib.h>

#include <tandem/tandem.h>

enum { ITEMS = 900, BASKET = 5, KINDS = 3, BATCH = 64 };

/* Ends the program with the library's message unless done. */
static inline void check(bool done) {
  if (done) return;
  fprintf(stderr, "%s\n", tdm_last_message());
  exit(1);
}

/* items (batch, 5) -> scores (batch, 3). */
static inline tdm_value describe_model(tdm_graph *graph, tdm_value items) {
  tdm_value x = tdm_embedding_bag(graph, "items", items, ITEMS, 16, NULL);
  x = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", x, 32));
  return tdm_linear(graph, "scores", x, KINDS);
}

/* out[0]: items int64 (count, 5); out[1]: kinds int64 (count). The caller releases both. */
static inline void make_baskets(tdm_context *context, int64_t count, uint64_t seed,
                                tdm_tensor *out[2]) {
  const tdm_shape shape = tdm_shape_of(2, count, BASKET);
  out[0] = tdm_tensor_uniform(context, "cpu:0", TDM_INT64, shape, seed, 0, ITEMS);
  out[1] = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, count));
  const int64_t *items = tdm_tensor_data(out[0]);
  int64_t *kinds = tdm_tensor_data(out[1]);
  for (int64_t i = 0; i < count; i++) {
    int found[KINDS] = {0};
    for (int k = 0; k < BASKET; k++)
      found[items[i * BASKET + k] % KINDS]++;
    for (int kind = 1; kind < KINDS; kind++)
      if (found[kind] > found[kinds[i]]) kinds[i] = kind;
  }
}

/* Batches of 6,400 baskets, shuffled. The caller releases it. */
static inline tdm_loader *make_loader(tdm_context *context) {
  tdm_tensor *baskets[2];
  make_baskets(context, 6400, 1, baskets);
  static const char *const fields[] = {"items", "kinds"};
  tdm_dataset *dataset = tdm_dataset_from_tensors(context, fields, baskets, 2);
  tdm_loader_options options = tdm_loader_options_default();
  options.batch_size = BATCH;
  options.shuffle = true;
  options.seed = 1;
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  tdm_dataset_release(dataset);
  tdm_tensor_release(baskets[0]);
  tdm_tensor_release(baskets[1]);
  check(loader != NULL);
  return loader;
}

#endif
