/* GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019), small;
 * gpt2.py is the same in PyTorch. */
#include "examples/zoo/zoo.h"

enum { WINDOW = 12, VOCABULARY = 48, WIDTH = 32, HEADS = 4, LAYERS = 2 };

static tdm_value attention(tdm_graph *graph, tdm_value x) {
  const tdm_dim widths[] = {WIDTH, WIDTH, WIDTH};
  tdm_attention_options causal = tdm_attention_options_default();
  causal.heads = HEADS;
  causal.causal = true;
  tdm_value qkv[3];
  tdm_scope_push(graph, "attn");
  tdm_split(graph, "qkv", tdm_linear(graph, "c_attn", x, 3 * WIDTH), 2, widths, 3, qkv);
  x = tdm_attention(graph, "heads", qkv[0], qkv[1], qkv[2], &causal);
  x = tdm_linear(graph, "c_proj", x, WIDTH);
  tdm_scope_pop(graph);
  return x;
}

static tdm_value mlp(tdm_graph *graph, tdm_value x) {
  tdm_scope_push(graph, "mlp");
  x = tdm_gelu_tanh(graph, "gelu", tdm_linear(graph, "c_fc", x, 4 * WIDTH));
  x = tdm_linear(graph, "c_proj", x, WIDTH);
  tdm_scope_pop(graph);
  return x;
}

static tdm_value block(tdm_graph *graph, int i, tdm_value x) {
  tdm_scope_push_index(graph, "h", i);
  x = tdm_add(graph, "attended", x, attention(graph, tdm_layer_norm(graph, "ln_1", x, 1)));
  x = tdm_add(graph, "thought", x, mlp(graph, tdm_layer_norm(graph, "ln_2", x, 1)));
  tdm_scope_pop(graph);
  return x;
}

zoo_training zoo_gpt2(tdm_graph *graph) {
  const tdm_shape window = tdm_shape_of(2, TDM_DIM("batch"), TDM_DIM("length"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, window);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, window);
  const tdm_value places = tdm_arange_like(graph, "places", ids, 1);
  tdm_value x = tdm_add(graph, "x", tdm_embedding(graph, "wte", ids, VOCABULARY, WIDTH),
                        tdm_embedding(graph, "wpe", places, WINDOW, WIDTH));
  for (int i = 0; i < LAYERS; i++)
    x = block(graph, i, x);
  x = tdm_layer_norm(graph, "ln_f", x, 1);
  tdm_tie(graph, "lm_head", "wte");
  x = tdm_linear_without_bias(graph, "lm_head", x, VOCABULARY);
  tdm_output(graph, "output", x);
  x = tdm_cross_entropy(graph, "loss", tdm_flatten(graph, "scores", x, 0, 1),
                        tdm_flatten(graph, "targets", targets, 0, 1));
  tdm_adam_options adam = tdm_adam_options_default();
  adam.learning_rate = 1e-3;
  adam.weight_decay = 0.1;
  return (zoo_training){x, tdm_adamw_with(&adam)};
}
