/* ViT (Dosovitskiy et al., "An image is worth 16x16 words", 2021), small; vit.py is the same in
 * PyTorch. */
#include "examples/zoo/zoo.h"

enum { SIZE = 16, PATCH = 4, WIDTH = 32, HEADS = 4, LAYERS = 2, CLASSES = 10 };

static tdm_value norm(tdm_graph *graph, const char *name, tdm_value x) {
  tdm_layer_norm_options options = tdm_layer_norm_options_default();
  options.epsilon = 1e-6;
  return tdm_layer_norm_with(graph, name, x, 1, &options);
}

static tdm_value block(tdm_graph *graph, int i, tdm_value x) {
  tdm_multi_head_attention_options options = tdm_multi_head_attention_options_default();
  options.batch_first = true;
  tdm_scope_push_index(graph, "layers", i);
  tdm_value y = norm(graph, "ln_1", x);
  y = tdm_multi_head_attention(graph, "self_attention", y, y, y, HEADS, &options);
  x = tdm_add(graph, "attended", x, y);
  y = norm(graph, "ln_2", x);
  tdm_scope_push(graph, "mlp");
  y = tdm_linear(graph, NULL, tdm_gelu(graph, NULL, tdm_linear(graph, NULL, y, 4 * WIDTH)), WIDTH);
  tdm_scope_pop(graph);
  x = tdm_add(graph, "thought", x, y);
  tdm_scope_pop(graph);
  return x;
}

static tdm_value embed(tdm_graph *graph, tdm_value images) {
  tdm_conv_options apart = tdm_conv_options_default();
  apart.stride[0] = apart.stride[1] = PATCH;
  const tdm_initializer small = {.kind = TDM_INIT_NORMAL, .b = 0.02, .zero_row = -1};
  const tdm_value token =
      tdm_parameter(graph, "class_token", TDM_FLOAT32, tdm_shape_of(3, 1, 1, WIDTH), &small);
  const tdm_shape all = tdm_shape_of(3, 1, 1 + (SIZE / PATCH) * (SIZE / PATCH), WIDTH);
  const tdm_value places = tdm_parameter(graph, "pos_embedding", TDM_FLOAT32, all, &small);
  tdm_value x = tdm_conv2d(graph, "conv_proj", images, WIDTH, PATCH, PATCH, &apart);
  x = tdm_transpose(graph, "rows", tdm_flatten(graph, "flat", x, 2, 3), 1, 2);
  const tdm_value first = tdm_slice(graph, "first", x, 1, 0, 1, 1);
  const tdm_value parts[] = {tdm_expand_as(graph, "tokens", token, first), x};
  return tdm_add(graph, "placed", tdm_concat(graph, "patches", parts, 2, 1), places);
}

zoo_training zoo_vit(tdm_graph *graph) {
  const tdm_dim batch = TDM_DIM("batch");
  tdm_value x = tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, batch, 3, SIZE, SIZE));
  const tdm_value y = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));
  x = embed(graph, x);
  for (int i = 0; i < LAYERS; i++)
    x = block(graph, i, x);
  x = tdm_linear(graph, "head", tdm_select(graph, "first", norm(graph, "ln", x), 1, 0), CLASSES);
  tdm_output(graph, "output", x);
  tdm_loss_options smooth = tdm_loss_options_default();
  smooth.label_smoothing = 0.1;
  tdm_adam_options adam = tdm_adam_options_default();
  adam.weight_decay = 0.05;
  return (zoo_training){tdm_cross_entropy_with(graph, "loss", x, y, &smooth),
                        tdm_adamw_with(&adam)};
}
