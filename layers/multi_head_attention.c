/* PyTorch's MultiheadAttention: projections, attention, a projection. Invariant: the three
 * projections are one product, or have views of one weight, which has PyTorch's name and shape. */
#include <math.h>

#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { QUERY, KEY, VALUE, PROJECTIONS };

static tdm_value project(tdm_graph *graph, const char *name, const char *suffix, tdm_value x,
                         tdm_value weight, tdm_value bias) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_name(graph, name, suffix, text)) return (tdm_value){0, 0};
  return tdm_linear_of(graph, text, x, weight, bias);
}

static tdm_value exchange(tdm_graph *graph, const char *name, const char *suffix, tdm_value x) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_name(graph, name, suffix, text)) return (tdm_value){0, 0};
  return tdm_swap_first_dimensions(graph, text, x);
}

/* The parameters of the three projections, one after the other. */
static tdm_value make_weight(tdm_graph *graph, const char *name, int64_t features) {
  const double bound = sqrt(6.0 / (4.0 * (double)features)); /* Glorot and Bengio, 2010 */
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  return tdm_layer_parameter(graph, name, ".in_proj_weight",
                             tdm_shape_of(2, 3 * features, features), &uniform);
}

static tdm_value make_bias(tdm_graph *graph, const char *name, int64_t features) {
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0.0, 0.0, -1};
  return tdm_layer_parameter(graph, name, ".in_proj_bias", tdm_shape_of(1, 3 * features), &zeros);
}

/* The three projections of inputs, in place: one product where they are one value, else one each
 * with a part of the weight. */
static void project_inputs(tdm_graph *graph, const char *name, int64_t features, bool without_bias,
                           tdm_value inputs[PROJECTIONS]) {
  static const char *const suffixes[] = {"/query", "/key", "/value"};
  const tdm_dim sizes[PROJECTIONS] = {features, features, features};
  tdm_value weights[PROJECTIONS] = {{0, 0}}, biases[PROJECTIONS] = {{0, 0}}, bias = {0, 0};
  char text[TDM_LAYER_NAME_BYTES];
  const tdm_value weight = make_weight(graph, name, features);
  if (!without_bias) bias = make_bias(graph, name, features);
  if (!tdm_layer_name(graph, name, "/parts", text)) return;
  if (inputs[QUERY].index == inputs[KEY].index && inputs[KEY].index == inputs[VALUE].index) {
    const tdm_value all = project(graph, name, "/in_proj", inputs[QUERY], weight, bias);
    tdm_split(graph, text, all, -1, sizes, PROJECTIONS, inputs);
    return;
  }
  tdm_split(graph, text, weight, 0, sizes, PROJECTIONS, weights);
  if (!without_bias) tdm_split(graph, text, bias, 0, sizes, PROJECTIONS, biases);
  for (int i = 0; i < PROJECTIONS; i++)
    inputs[i] = project(graph, name, suffixes[i], inputs[i], weights[i], biases[i]);
}

static tdm_value project_output(tdm_graph *graph, const char *name, int64_t features,
                                bool without_bias, tdm_value y) {
  const double bound = 1 / sqrt((double)features);
  const tdm_initializer uniform = {TDM_INIT_UNIFORM, -bound, bound, -1};
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0.0, 0.0, -1};
  const tdm_value weight = tdm_layer_parameter(graph, name, ".out_proj.weight",
                                               tdm_shape_of(2, features, features), &uniform);
  tdm_value bias = {0, 0};
  if (!without_bias)
    bias = tdm_layer_parameter(graph, name, ".out_proj.bias", tdm_shape_of(1, features), &zeros);
  return project(graph, name, "/out_proj", y, weight, bias);
}

/* (length, batch, features) -> (batch, length, features), a value that stands twice once. */
static void put_batch_first(tdm_graph *graph, const char *name, tdm_value inputs[PROJECTIONS]) {
  static const char *const suffixes[] = {"/queries_first", "/keys_first", "/values_first"};
  tdm_value done[PROJECTIONS];
  for (int i = 0; i < PROJECTIONS; i++) {
    int same = 0;
    while (same < i && inputs[same].index != inputs[i].index)
      same++;
    done[i] = same < i ? done[same] : exchange(graph, name, suffixes[i], inputs[i]);
  }
  for (int i = 0; i < PROJECTIONS; i++)
    inputs[i] = done[i];
}

/* The last dimension of query, which all three share; 0 with the graph's error. */
static int64_t features_of(tdm_graph *graph, const char *name, const tdm_value inputs[PROJECTIONS],
                           int64_t heads) {
  static const char *const names[] = {"query", "key", "value"};
  int64_t features = 0;
  for (int i = 0; i < PROJECTIONS; i++) {
    if (!tdm_layer_accepts(graph, "multi_head_attention", name, inputs[i])) return 0;
    tdm_shape shape = tdm_value_shape(graph, inputs[i]);
    const int64_t last = shape.rank == 3 ? *tdm_shape_last(&shape) : 0;
    if (i == 0) features = last;
    if (last > 0 && last <= INT64_MAX / PROJECTIONS && last == features && heads > 0 &&
        last % heads == 0)
      continue;
    char text[TDM_SHAPE_TEXT];
    tdm_graph_fail(
        graph, TDM_INVALID_ARGUMENT,
        "multi_head_attention %s: %s is %s, and must have three dimensions, the last one "
        "query's and shared by %lld heads",
        name ? name : "?", names[i], tdm_shape_text(&shape, text, sizeof text), (long long)heads);
    return 0;
  }
  return features;
}

tdm_value tdm_multi_head_attention(tdm_graph *graph, const char *name, tdm_value query,
                                   tdm_value key, tdm_value value, int64_t heads,
                                   const tdm_multi_head_attention_options *options) {
  tdm_multi_head_attention_options chosen;
  tdm_value inputs[PROJECTIONS] = {query, key, value};
  if (!tdm_layer_options(graph, "multi_head_attention", name, options, sizeof chosen, &chosen))
    return (tdm_value){0, 0};
  const int64_t features = features_of(graph, name, inputs, heads);
  if (features == 0) return (tdm_value){0, 0};
  if (!chosen.batch_first) put_batch_first(graph, name, inputs);
  project_inputs(graph, name, features, chosen.without_bias, inputs);
  const tdm_attention_options attention = {.struct_size = sizeof attention,
                                           .heads = heads,
                                           .causal = chosen.causal,
                                           .padding = chosen.padding,
                                           .mask = chosen.mask,
                                           .dropout = chosen.dropout};
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_name(graph, name, "/attention", text)) return (tdm_value){0, 0};
  tdm_value y = tdm_attention(graph, text, inputs[QUERY], inputs[KEY], inputs[VALUE], &attention);
  y = project_output(graph, name, features, chosen.without_bias, y);
  return chosen.batch_first ? y : exchange(graph, name, "/length_first", y);
}
