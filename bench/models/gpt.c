/* A decoder of texts, as a description. */
#include <stdio.h>

#include "bench/models/models.h"

enum { LAYERS = 4, GPT_WIDTH = 512, HEADS = 8, TOKENS = 1000, LENGTH = 256 };

static tdm_value attend(tdm_graph *graph, tdm_value x) {
  tdm_attention_options options = tdm_attention_options_default();
  options.heads = HEADS;
  options.causal = true;
  const tdm_value q = tdm_linear(graph, "query", x, GPT_WIDTH);
  const tdm_value k = tdm_linear(graph, "key", x, GPT_WIDTH);
  const tdm_value v = tdm_linear(graph, "value", x, GPT_WIDTH);
  return tdm_linear(graph, "out", tdm_attention(graph, "attention", q, k, v, &options), GPT_WIDTH);
}

static tdm_value block(tdm_graph *graph, tdm_value x) {
  const tdm_value seen = attend(graph, tdm_layer_norm(graph, "norm1", x, 1));
  x = tdm_add(graph, "seen", x, seen);
  const tdm_value wide =
      tdm_linear(graph, "up", tdm_layer_norm(graph, "norm2", x, 1), 4 * GPT_WIDTH);
  const tdm_value thought = tdm_linear(graph, "down", tdm_gelu(graph, "gelu", wide), GPT_WIDTH);
  return tdm_add(graph, "thought", x, thought);
}

model model_gpt(tdm_context *context, int64_t rows) {
  model made = model_begin(context, "scores");
  tdm_graph *graph = made.graph;
  const tdm_shape texts = tdm_shape_of(2, TDM_DIM("batch"), LENGTH);
  const tdm_value tokens = tdm_input(graph, "tokens", TDM_INT64, texts);
  const tdm_value next = tdm_input(graph, "next", TDM_INT64, texts);
  tdm_value x =
      tdm_add(graph, "x", tdm_embedding(graph, "tokens", tokens, TOKENS, GPT_WIDTH),
              tdm_embedding(graph, "positions", tdm_arange_like(graph, "places", tokens, 1), LENGTH,
                            GPT_WIDTH));
  for (int i = 0; i < LAYERS; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "block%d", i);
    tdm_scope_push(graph, name);
    x = block(graph, x);
    tdm_scope_pop(graph);
  }
  const tdm_value scores = tdm_linear(graph, "scores", tdm_layer_norm(graph, "norm", x, 1), TOKENS);
  tdm_output(graph, "scores", scores);
  const tdm_value flat = tdm_reshape(graph, "flat", scores, tdm_shape_of(2, TDM_INFER, TOKENS));
  const tdm_value wanted = tdm_reshape(graph, "wanted", next, tdm_shape_of(1, TDM_INFER));
  model_finish(&made, tdm_cross_entropy(graph, "loss", flat, wanted), tdm_sgd(0.01));
  tdm_tensor *ids = model_ids(context, 0, rows * LENGTH, 7919, TOKENS);
  tdm_tensor *following = model_ids(context, 1, rows * LENGTH, 7919, TOKENS);
  model_feed(&made, "tokens", tdm_tensor_view(ids, tdm_shape_of(2, rows, LENGTH)));
  made.forward_feed_count = made.feed_count;
  model_feed(&made, "next", tdm_tensor_view(following, tdm_shape_of(2, rows, LENGTH)));
  tdm_tensor_release(ids);
  tdm_tensor_release(following);
  return made;
}
