/* PyTorch's MultiheadAttention: projections, attention, a projection. Invariant: if query, key and
 * value have equal numbers of features, the three projections share one weight with PyTorch's name
 * and shape, as one product or through views. Otherwise each has its own weight. */
#include <math.h>

#include "layers/attention/attention.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { QUERY, KEY, VALUE, PROJECTIONS };

/* The arguments of one call. Inputs are converted to (batch, length, features). */
typedef struct attention_layer {
  tdm_graph *graph;
  const char *name;
  int64_t heads;
  int64_t features;        /* features of the query */
  int64_t in[PROJECTIONS]; /* features of the inputs */
  tdm_value inputs[PROJECTIONS];
  tdm_multi_head_attention_options options;
  bool single; /* the input is one sequence without a batch dimension */
} attention_layer;

static const char *part_name(const attention_layer *self, const char *suffix, char *text) {
  return tdm_layer_name(self->graph, self->name, suffix, text);
}

/* ---- Projections ----------------------------------------------------------------------------- */

static tdm_value project(const attention_layer *self, const char *suffix, tdm_value x,
                         tdm_value weight, tdm_value bias) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!part_name(self, suffix, text)) return TDM_NO_VALUE;
  return tdm_linear_of(self->graph, text, x, weight, bias);
}

/* Initializes as in Glorot and Bengio, "Understanding the difficulty of training deep feedforward
 * neural networks", 2010. */
static tdm_value make_weight(const attention_layer *self, const char *suffix, int64_t rows,
                             int64_t columns) {
  const double bound = sqrt(6.0 / ((double)rows + (double)columns));
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  return tdm_layer_parameter(self->graph, self->name, suffix, tdm_shape_of(2, rows, columns),
                             &uniform);
}

static tdm_value make_bias(const attention_layer *self) {
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0.0, 0.0, -1};
  if (self->options.without_bias) return TDM_NO_VALUE;
  return tdm_layer_parameter(self->graph, self->name, ".in_proj_bias",
                             tdm_shape_of(1, 3 * self->features), &zeros);
}

/* Projects the three inputs in place: as one product if they are the same value, otherwise as one
 * product each, with its own weight or a view of the common one. */
static void project_inputs(attention_layer *self) {
  static const char *const suffixes[] = {"/query", "/key", "/value"};
  static const char *const own[] = {".q_proj_weight", ".k_proj_weight", ".v_proj_weight"};
  const int64_t features = self->features;
  const tdm_dim sizes[PROJECTIONS] = {features, features, features};
  tdm_value weights[PROJECTIONS] = {{0, 0}}, biases[PROJECTIONS] = {{0, 0}};
  tdm_value *inputs = self->inputs, weight = TDM_NO_VALUE;
  char text[TDM_LAYER_NAME_BYTES];
  if (!part_name(self, "/parts", text)) return;
  const bool alike = self->in[KEY] == features && self->in[VALUE] == features;
  if (alike) weight = make_weight(self, ".in_proj_weight", 3 * features, features);
  for (int i = 0; !alike && i < PROJECTIONS; i++)
    weights[i] = make_weight(self, own[i], features, self->in[i]);
  const tdm_value bias = make_bias(self);
  if (alike && inputs[QUERY].index == inputs[KEY].index &&
      inputs[KEY].index == inputs[VALUE].index) {
    const tdm_value all = project(self, "/in_proj", inputs[QUERY], weight, bias);
    tdm_split(self->graph, text, all, -1, sizes, PROJECTIONS, inputs);
    return;
  }
  if (alike) tdm_split(self->graph, text, weight, 0, sizes, PROJECTIONS, weights);
  if (!self->options.without_bias)
    tdm_split(self->graph, text, bias, 0, sizes, PROJECTIONS, biases);
  for (int i = 0; i < PROJECTIONS; i++)
    inputs[i] = project(self, suffixes[i], inputs[i], weights[i], biases[i]);
}

static tdm_value project_output(const attention_layer *self, tdm_value y) {
  const int64_t features = self->features;
  const double bound = 1 / sqrt((double)features);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0.0, 0.0, -1};
  const tdm_value weight = tdm_layer_parameter(self->graph, self->name, ".out_proj.weight",
                                               tdm_shape_of(2, features, features), &uniform);
  tdm_value bias = TDM_NO_VALUE;
  if (!self->options.without_bias)
    bias = tdm_layer_parameter(self->graph, self->name, ".out_proj.bias", tdm_shape_of(1, features),
                               &zeros);
  return project(self, "/out_proj", y, weight, bias);
}

/* ---- Keys besides those that are given ------------------------------------------------------- */

/* Appends a parameter (1, 1, features) to each sequence as an additional key or value. */
static tdm_value append_bias(const attention_layer *self, const char *suffix, tdm_value keys) {
  tdm_graph *graph = self->graph;
  char text[TDM_LAYER_NAME_BYTES];
  if (!part_name(self, "/more_keys", text) || !tdm_value_is_valid(keys)) return TDM_NO_VALUE;
  const tdm_initializer normal = {TDM_INIT_NORMAL, 0.0, 1 / sqrt((double)self->features), -1};
  const tdm_value bias = tdm_layer_parameter(graph, self->name, suffix,
                                             tdm_shape_of(3, 1, 1, self->features), &normal);
  const tdm_value first = tdm_slice(graph, text, keys, 1, 0, 1, 1);
  if (!tdm_value_is_valid(first)) return TDM_NO_VALUE;
  const tdm_value both[] = {keys, tdm_expand_as(graph, text, bias, first)};
  return tdm_concat(graph, text, both, 2, 1);
}

/* Returns x padded with `more` zeros at the end of a dimension, which is counted from the end. */
static tdm_value pad_behind(const attention_layer *self, tdm_value x, int from_end, int64_t more) {
  char text[TDM_LAYER_NAME_BYTES];
  int64_t amounts[4] = {0};
  amounts[2 * from_end + 1] = more;
  if (!tdm_value_is_valid(x) || more == 0 || !part_name(self, "/more_keys", text)) return x;
  return tdm_pad(self->graph, text, x, amounts, 2 * (size_t)(from_end + 1), TDM_PAD_CONSTANT, 0);
}

/* Returns a mask of the keys after the query's position. Unlike the option `causal` it can be
 * padded for additional keys. */
static tdm_value causal_mask(const attention_layer *self) {
  tdm_graph *graph = self->graph;
  char text[TDM_LAYER_NAME_BYTES];
  if (!part_name(self, "/causal", text)) return TDM_NO_VALUE;
  const tdm_value queries = tdm_arange_like(graph, text, self->inputs[QUERY], 1);
  const tdm_value keys = tdm_arange_like(graph, text, self->inputs[KEY], 1);
  if (!tdm_value_is_valid(queries) || !tdm_value_is_valid(keys)) return TDM_NO_VALUE;
  return tdm_compare(graph, text, keys, TDM_GREATER, tdm_unsqueeze(graph, text, queries, 1));
}

/* Appends the additional keys and values that all queries may attend to; no mask applies to them.
 * Returns false with the graph's error. */
static bool append_keys(attention_layer *self) {
  tdm_multi_head_attention_options *options = &self->options;
  const int64_t more = (options->add_bias_kv ? 1 : 0) + (options->add_zero_attn ? 1 : 0);
  if (more == 0) return true;
  if (options->causal && tdm_value_is_valid(options->mask)) {
    tdm_graph_fail(self->graph, TDM_INVALID_ARGUMENT,
                   "multi_head_attention %s: causal and a mask, with add_bias_kv or add_zero_attn: "
                   "let the mask be causal",
                   self->name);
    return false;
  }
  if (options->causal) options->mask = causal_mask(self);
  options->causal = false;
  if (options->add_bias_kv) {
    self->inputs[KEY] = append_bias(self, ".bias_k", self->inputs[KEY]);
    self->inputs[VALUE] = append_bias(self, ".bias_v", self->inputs[VALUE]);
  }
  if (options->add_zero_attn) {
    self->inputs[KEY] = pad_behind(self, self->inputs[KEY], 1, 1);
    self->inputs[VALUE] = pad_behind(self, self->inputs[VALUE], 1, 1);
  }
  options->mask = pad_behind(self, options->mask, 0, more);
  options->padding = pad_behind(self, options->padding, 0, more);
  return tdm_graph_status(self->graph) == TDM_OK;
}

/* ---- What is asked for ----------------------------------------------------------------------- */

/* Reads the features of all three inputs. Returns false with the graph's error. */
static bool read_features(attention_layer *self) {
  const tdm_attended given = {
      .layer = "multi_head_attention",
      .name = self->name,
      .names = {"query", "key", "value"},
      .inputs = {self->inputs[QUERY], self->inputs[KEY], self->inputs[VALUE]},
      .heads = self->heads,
      .batch_first = self->options.batch_first,
      .mask_name = "mask",
      .mask = self->options.mask,
      .padding_name = "padding",
      .padding = self->options.padding,
      .dropout = self->options.dropout,
  };
  if (!tdm_attended_check(self->graph, &given)) return false;
  for (int i = 0; i < PROJECTIONS; i++) {
    tdm_shape shape = tdm_value_shape(self->graph, self->inputs[i]);
    self->in[i] = *tdm_shape_last(&shape);
    self->single = shape.rank == 2;
  }
  self->features = self->in[QUERY];
  return true;
}

/* Converts all inputs to (batch, length, features). A value that is used twice is converted
 * once. */
static void put_batch_first(attention_layer *self) {
  static const char *const suffixes[] = {"/queries_first", "/keys_first", "/values_first"};
  tdm_value done[PROJECTIONS];
  for (int i = 0; i < PROJECTIONS; i++) {
    char text[TDM_LAYER_NAME_BYTES];
    int same = 0;
    while (same < i && self->inputs[same].index != self->inputs[i].index)
      same++;
    if (!part_name(self, suffixes[i], text)) return;
    if (same < i)
      done[i] = done[same];
    else
      done[i] = self->single ? tdm_unsqueeze(self->graph, text, self->inputs[i], 0)
                             : tdm_swap_first_dimensions(self->graph, text, self->inputs[i]);
  }
  for (int i = 0; i < PROJECTIONS; i++)
    self->inputs[i] = done[i];
}

/* Converts the padding of one sequence, (keys), to that of a batch of one. */
static void read_padding(attention_layer *self) {
  char text[TDM_LAYER_NAME_BYTES];
  const tdm_value padding = self->options.padding;
  if (!self->single || tdm_value_shape(self->graph, padding).rank != 1) return;
  if (part_name(self, "/padding", text))
    self->options.padding = tdm_unsqueeze(self->graph, text, padding, 0);
}

static tdm_value attend(const attention_layer *self) {
  const tdm_multi_head_attention_options *options = &self->options;
  tdm_attention_options attention = tdm_attention_options_default();
  attention.heads = self->heads;
  attention.causal = options->causal;
  attention.padding = options->padding;
  attention.mask = options->mask;
  attention.dropout = options->dropout;
  char text[TDM_LAYER_NAME_BYTES];
  if (!part_name(self, "/attention", text)) return TDM_NO_VALUE;
  const tdm_value *inputs = self->inputs;
  if (!options->out_weights)
    return tdm_attention(self->graph, text, inputs[QUERY], inputs[KEY], inputs[VALUE], &attention);
  tdm_value weights;
  const tdm_value y = tdm_attention_with_weights(self->graph, text, inputs[QUERY], inputs[KEY],
                                                 inputs[VALUE], &attention, &weights);
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  if (!options->weights_by_head)
    weights = tdm_mean(self->graph, text, weights, (const int[]){1}, 1, false);
  if (self->single) weights = tdm_squeeze(self->graph, text, weights, 0);
  *options->out_weights = weights;
  return y;
}

tdm_value tdm_multi_head_attention(tdm_graph *graph, const char *name, tdm_value query,
                                   tdm_value key, tdm_value value, int64_t heads,
                                   const tdm_multi_head_attention_options *options) {
  name = tdm_graph_name(graph, name);
  attention_layer self = {
      .graph = graph, .name = name, .heads = heads, .inputs = {query, key, value}};
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_options(graph, "multi_head_attention", name, multi_head_attention, options,
                         &self.options))
    return TDM_NO_VALUE;
  if (self.options.out_weights) *self.options.out_weights = TDM_NO_VALUE;
  if (!read_features(&self) || !part_name(&self, "/length_first", text)) return TDM_NO_VALUE;
  if (self.single || !self.options.batch_first) put_batch_first(&self);
  read_padding(&self);
  project_inputs(&self);
  if (!append_keys(&self)) return TDM_NO_VALUE;
  tdm_value y = attend(&self);
  y = tdm_value_is_valid(y) ? project_output(&self, y) : TDM_NO_VALUE;
  if (!tdm_value_is_valid(y)) return TDM_NO_VALUE;
  if (self.single) return tdm_squeeze(graph, text, y, 0);
  return self.options.batch_first ? y : tdm_swap_first_dimensions(graph, text, y);
}
