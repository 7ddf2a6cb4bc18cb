/* The layers of a transformer (Vaswani et al., "Attention is all you need", 2017), and bilinear
 * forms. Invariant: each part is a layer of its own, with PyTorch's name. */
#include <math.h>

#include "layers/arguments.h"
#include "layers/attention/attention.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Transformers ---------------------------------------------------------------------------- */

/* The arguments of one call. */
typedef struct transformer_layer {
  tdm_graph *graph;
  const char *name;
  int64_t heads;
  int64_t features;
  tdm_transformer_options options;
} transformer_layer;

static tdm_value norm(const transformer_layer *self, const char *suffix, tdm_value x) {
  char text[TDM_LAYER_NAME_BYTES];
  tdm_layer_norm_options options = tdm_layer_norm_options_default();
  options.epsilon = self->options.epsilon;
  options.without_bias = self->options.without_bias;
  if (!tdm_value_is_valid(x) || !tdm_layer_name(self->graph, self->name, suffix, text))
    return TDM_NO_VALUE;
  return tdm_layer_norm_with(self->graph, text, x, 1, &options);
}

static tdm_value drop(const transformer_layer *self, const char *suffix, tdm_value x) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_value_is_valid(x) || self->options.dropout == 0) return x;
  if (!tdm_layer_name(self->graph, self->name, suffix, text)) return TDM_NO_VALUE;
  return tdm_dropout(self->graph, text, x, self->options.dropout);
}

static tdm_value linear(const transformer_layer *self, const char *suffix, tdm_value x,
                        int64_t out_features) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_value_is_valid(x) || !tdm_layer_name(self->graph, self->name, suffix, text))
    return TDM_NO_VALUE;
  return (self->options.without_bias ? tdm_linear_without_bias : tdm_linear)(self->graph, text, x,
                                                                             out_features);
}

/* Appends the attention of x to memory, which may be x itself. */
static tdm_value attend(const transformer_layer *self, const char *suffix, tdm_value x,
                        tdm_value memory, bool causal, tdm_value mask, tdm_value padding) {
  char text[TDM_LAYER_NAME_BYTES];
  tdm_multi_head_attention_options options = tdm_multi_head_attention_options_default();
  options.batch_first = self->options.batch_first;
  options.without_bias = self->options.without_bias;
  options.causal = causal;
  options.mask = mask;
  options.padding = padding;
  options.dropout = self->options.dropout;
  if (!tdm_value_is_valid(x) || !tdm_layer_name(self->graph, self->name, suffix, text))
    return TDM_NO_VALUE;
  return tdm_multi_head_attention(self->graph, text, x, memory, memory, self->heads, &options);
}

static tdm_value attend_itself(const transformer_layer *self, tdm_value x) {
  const tdm_transformer_options *options = &self->options;
  return drop(self, ".dropout1",
              attend(self, ".self_attn", x, x, options->causal, options->mask, options->padding));
}

/* Appends the feed-forward part. inner_drop and outer_drop: names of the dropouts, which PyTorch
 * numbers consecutively. */
static tdm_value feed_forward(const transformer_layer *self, const char *outer_drop, tdm_value x) {
  char text[TDM_LAYER_NAME_BYTES];
  tdm_value y = linear(self, ".linear1", x, self->options.feedforward);
  if (!tdm_value_is_valid(y) || !tdm_layer_name(self->graph, self->name, ".activation", text))
    return TDM_NO_VALUE;
  y = (self->options.gelu ? tdm_gelu : tdm_relu)(self->graph, text, y);
  y = linear(self, ".linear2", drop(self, ".dropout", y), self->features);
  return drop(self, outer_drop, y);
}

static tdm_value add(const transformer_layer *self, tdm_value x, tdm_value y) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_value_is_valid(y) || !tdm_layer_name(self->graph, self->name, ".residual", text))
    return TDM_NO_VALUE;
  return tdm_add(self->graph, text, x, y);
}

/* Returns true if x can attend to memory, or to itself, with the masks for that. */
static bool can_attend(const transformer_layer *self, const char *layer, tdm_value x,
                       tdm_value memory, bool itself) {
  const tdm_transformer_options *options = &self->options;
  const char *name = itself ? "x" : "memory";
  const tdm_attended given = {
      .layer = layer,
      .name = self->name,
      .names = {"x", name, name},
      .inputs = {x, memory, memory},
      .heads = self->heads,
      .batch_first = options->batch_first,
      .mask_name = itself ? "mask" : "memory_mask",
      .mask = itself ? options->mask : options->memory_mask,
      .padding_name = itself ? "padding" : "memory_padding",
      .padding = itself ? options->padding : options->memory_padding,
      .dropout = options->dropout,
  };
  return tdm_attended_check(self->graph, &given);
}

static bool read_layer(transformer_layer *self, const char *layer, tdm_value x,
                       const tdm_transformer_options *options) {
  if (!tdm_layer_options(self->graph, layer, self->name, transformer, options, &self->options) ||
      !can_attend(self, layer, x, x, true) ||
      !tdm_layer_is_at_least(self->graph, layer, self->name, "feedforward",
                             self->options.feedforward, 1))
    return false;
  tdm_shape shape = tdm_value_shape(self->graph, x);
  self->features = *tdm_shape_last(&shape);
  return tdm_layer_epsilon(self->graph, layer, self->name, self->options.epsilon);
}

tdm_value tdm_transformer_encoder_layer(tdm_graph *graph, const char *name, tdm_value x,
                                        int64_t heads, const tdm_transformer_options *options) {
  name = tdm_graph_name(graph, name);
  transformer_layer self = {.graph = graph, .name = name, .heads = heads};
  if (!read_layer(&self, "transformer_encoder_layer", x, options)) return TDM_NO_VALUE;
  if (tdm_value_is_valid(self.options.memory_mask) ||
      tdm_value_is_valid(self.options.memory_padding))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "transformer_encoder_layer %s: it has no memory to be masked", name);
  if (self.options.norm_first) {
    x = add(&self, x, attend_itself(&self, norm(&self, ".norm1", x)));
    return add(&self, x, feed_forward(&self, ".dropout2", norm(&self, ".norm2", x)));
  }
  x = norm(&self, ".norm1", add(&self, x, attend_itself(&self, x)));
  return norm(&self, ".norm2", add(&self, x, feed_forward(&self, ".dropout2", x)));
}

static tdm_value attend_memory(const transformer_layer *self, tdm_value x, tdm_value memory) {
  return drop(self, ".dropout2",
              attend(self, ".multihead_attn", x, memory, false, self->options.memory_mask,
                     self->options.memory_padding));
}

tdm_value tdm_transformer_decoder_layer(tdm_graph *graph, const char *name, tdm_value x,
                                        tdm_value memory, int64_t heads,
                                        const tdm_transformer_options *options) {
  name = tdm_graph_name(graph, name);
  transformer_layer self = {.graph = graph, .name = name, .heads = heads};
  if (!read_layer(&self, "transformer_decoder_layer", x, options) ||
      !can_attend(&self, "transformer_decoder_layer", x, memory, false))
    return TDM_NO_VALUE;
  if (self.options.norm_first) {
    x = add(&self, x, attend_itself(&self, norm(&self, ".norm1", x)));
    x = add(&self, x, attend_memory(&self, norm(&self, ".norm2", x), memory));
    return add(&self, x, feed_forward(&self, ".dropout3", norm(&self, ".norm3", x)));
  }
  x = norm(&self, ".norm1", add(&self, x, attend_itself(&self, x)));
  x = norm(&self, ".norm2", add(&self, x, attend_memory(&self, x, memory)));
  return norm(&self, ".norm3", add(&self, x, feed_forward(&self, ".dropout3", x)));
}

/* ---- Bilinear forms -------------------------------------------------------------------------- */

static tdm_value bilinear(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                          int64_t out_features, bool with_bias) {
  name = tdm_graph_name(graph, name);
  if (!tdm_argument_is_value(graph, "bilinear", name, "a", a) ||
      !tdm_argument_is_value(graph, "bilinear", name, "b", b))
    return TDM_NO_VALUE;
  tdm_shape left = tdm_value_shape(graph, a), right = tdm_value_shape(graph, b);
  const tdm_dim n = left.rank > 0 ? *tdm_shape_last(&left) : -1;
  const tdm_dim m = right.rank > 0 ? *tdm_shape_last(&right) : -1;
  char a_text[TDM_SHAPE_TEXT], b_text[TDM_SHAPE_TEXT];
  if (left.rank != right.rank || !tdm_dim_is_size(n) || !tdm_dim_is_size(m) || n < 1 ||
      out_features < 1)
    return tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "bilinear %s: a is %s and b %s, for %lld features: they must have as "
        "many dimensions, the last one a size, and the result one feature or more",
        name, tdm_shape_text(&left, a_text, sizeof a_text),
        tdm_shape_text(&right, b_text, sizeof b_text), (long long)out_features);
  left.rank--, right.rank--;
  const tdm_status status = tdm_shape_broadcast(&left, "a without its last dimension", &right,
                                                "b without its last dimension", &left);
  if (status != TDM_OK)
    return tdm_graph_fail_message(graph, tdm_fail_within(status, "bilinear %s", name));
  const double bound = 1 / sqrt((double)n);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  const tdm_value weight =
      tdm_layer_parameter(graph, name, ".weight", tdm_shape_of(3, out_features, n, m), &uniform);
  if (!tdm_value_is_valid(weight)) return TDM_NO_VALUE;
  const tdm_dtype dtype = tdm_value_dtype(graph, weight);
  if (!tdm_argument_has_dtype(graph, "bilinear", name, "a", a, dtype) ||
      !tdm_argument_has_dtype(graph, "bilinear", name, "b", b, dtype))
    return TDM_NO_VALUE;
  const tdm_value operands[] = {a, weight, b};
  const tdm_value y = tdm_einsum(graph, name, "...i,oij,...j->...o", operands, 3);
  if (!with_bias || !tdm_value_is_valid(y)) return y;
  return tdm_add(
      graph, name, y,
      tdm_layer_parameter(graph, name, ".bias", tdm_shape_of(1, out_features), &uniform));
}

tdm_value tdm_bilinear(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                       int64_t out_features) {
  return bilinear(graph, name, a, b, out_features, true);
}

tdm_value tdm_bilinear_without_bias(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                    int64_t out_features) {
  return bilinear(graph, name, a, b, out_features, false);
}
