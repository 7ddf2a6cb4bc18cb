/* Activations composed of others: PReLU and GLU. Invariant: their parts are elementwise, so each is
 * computed as one fused kernel. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

tdm_value tdm_prelu(tdm_graph *graph, const char *name, tdm_value x, int64_t slopes) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "prelu", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  const bool fits = slopes == 1 || (shape.rank >= 2 && shape.dims[1] == slopes);
  if (slopes < 1 || !fits)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "prelu %s: %lld slopes of x, which is %s: 1, or one a channel (dimension "
                          "1)",
                          name, (long long)slopes, tdm_shape_text(&shape, text, sizeof text));
  const tdm_initializer quarter = {TDM_INIT_CONSTANT, 0.25, 0.0, -1};
  tdm_value slope = tdm_layer_parameter(graph, name, ".weight", tdm_shape_of(1, slopes), &quarter);
  tdm_shape aligned = {.rank = slopes > 1 ? shape.rank - 1 : shape.rank > 0};
  for (int i = 0; i < aligned.rank; i++)
    aligned.dims[i] = i == 0 ? slopes : 1;
  if (aligned.rank != 1) slope = tdm_reshape(graph, name, slope, aligned);
  const tdm_value above = tdm_compare_scalar(graph, name, x, TDM_GREATER, 0);
  const tdm_value below = tdm_mul(graph, name, tdm_masked_fill(graph, name, x, above, 0), slope);
  return tdm_where(graph, name, above, x, below);
}

tdm_value tdm_glu(tdm_graph *graph, const char *name, tdm_value x, int dimension) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "glu", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "glu", name, &shape, dimension);
  if (counted < 0) return TDM_NO_VALUE;
  char text[TDM_SHAPE_TEXT];
  const tdm_dim size = shape.dims[counted];
  if (!tdm_dim_is_size(size) || size % 2 != 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "glu %s: x is %s, and dimension %d must be an even size", name,
                          tdm_shape_text(&shape, text, sizeof text), counted);
  const tdm_dim halves[] = {size / 2, size / 2};
  tdm_value parts[2];
  tdm_split(graph, name, x, counted, halves, 2, parts);
  if (!tdm_value_is_valid(parts[0])) return TDM_NO_VALUE;
  return tdm_mul(graph, name, parts[0], tdm_sigmoid(graph, name, parts[1]));
}
