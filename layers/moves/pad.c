/* Padding in PyTorch's format: amounts from the last dimension on, filled with a number or with
 * elements of x. The elements are slices that are concatenated with x. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

typedef struct padding {
  tdm_graph *graph;
  const char *name;
  tdm_pad_mode mode;
  double value;
} padding;

static tdm_value fail(const padding *pad, tdm_value x, int dimension, int64_t before, int64_t after,
                      const char *why) {
  const tdm_shape shape = tdm_value_shape(pad->graph, x);
  char text[TDM_SHAPE_TEXT];
  return tdm_graph_fail(pad->graph, TDM_INVALID_ARGUMENT,
                        "pad %s: x is %s, dimension %d by %lld and %lld: %s",
                        pad->name ? pad->name : "?", tdm_shape_text(&shape, text, sizeof text),
                        dimension, (long long)before, (long long)after, why);
}

/* Returns `count` copies of the single element of x along dimension. */
static tdm_value copies(const padding *pad, tdm_value x, int dimension, int64_t count) {
  tdm_shape shape = tdm_value_shape(pad->graph, x);
  for (int i = 0; i < shape.rank; i++)
    shape.dims[i] = i == dimension ? count : TDM_INFER;
  return shape.rank < 0 ? x : tdm_expand(pad->graph, pad->name, x, shape);
}

/* Returns the padding before the n elements of x along dimension, or after them if `behind`. */
static tdm_value border(const padding *pad, tdm_value x, int dimension, int64_t n, int64_t amount,
                        bool behind) {
  tdm_graph *graph = pad->graph;
  if (pad->mode == TDM_PAD_REPLICATE) {
    const int64_t at = behind ? n - 1 : 0;
    return copies(pad, tdm_slice(graph, pad->name, x, dimension, at, at + 1, 1), dimension, amount);
  }
  if (pad->mode == TDM_PAD_CIRCULAR)
    return behind ? tdm_slice(graph, pad->name, x, dimension, 0, amount, 1)
                  : tdm_slice(graph, pad->name, x, dimension, n - amount, n, 1);
  const int64_t begin = behind ? n - 2 : amount, end = begin - amount;
  return tdm_slice(graph, pad->name, x, dimension, begin, end < 0 ? TDM_TO_THE_BEGINNING : end, -1);
}

static tdm_value pad_by_elements(const padding *pad, tdm_value x, int dimension, int64_t before,
                                 int64_t after) {
  const tdm_shape shape = tdm_value_shape(pad->graph, x);
  if (shape.rank < 0) return x;
  const int64_t n = shape.dims[dimension];
  if (!tdm_dim_is_size(n)) return fail(pad, x, dimension, before, after, "it must be a size");
  const int64_t most = pad->mode == TDM_PAD_REFLECT    ? n - 1
                       : pad->mode == TDM_PAD_CIRCULAR ? n
                       : n > 0                         ? TDM_LAYER_WINDOW_MAX
                                                       : 0;
  if (before < 0 || after < 0 || before > most || after > most)
    return fail(pad, x, dimension, before, after, "there are not as many elements to take");
  tdm_value parts[3];
  size_t count = 0;
  if (before > 0) parts[count++] = border(pad, x, dimension, n, before, false);
  parts[count++] = x;
  if (after > 0) parts[count++] = border(pad, x, dimension, n, after, true);
  return tdm_concat(pad->graph, pad->name, parts, count, dimension);
}

/* The amounts for each dimension of x on one side. */
typedef struct sides {
  int64_t before[TDM_MAX_RANK];
  int64_t after[TDM_MAX_RANK];
} sides;

static bool pads_any(const sides *amounts, int rank) {
  for (int i = 0; i < rank; i++)
    if (amounts->before[i] != 0 || amounts->after[i] != 0) return true;
  return false;
}

static tdm_value pad_by_number(const padding *pad, tdm_value x, sides *amounts) {
  const tdm_shape shape = tdm_value_shape(pad->graph, x);
  tdm_pad_attributes attributes = {.rank = shape.rank, .value = pad->value};
  for (int i = 0; i < shape.rank; i++) {
    const int64_t before = amounts->before[i], after = amounts->after[i];
    const bool is_size = tdm_dim_is_size(shape.dims[i]);
    const int64_t gone = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
    if (is_size && gone > shape.dims[i])
      return fail(pad, x, i, before, after, "there are not as many elements to take away");
    if (gone > 0)
      x = tdm_slice(pad->graph, pad->name, x, i, before < 0 ? -before : 0,
                    after < 0 ? after : TDM_TO_THE_END, 1);
    amounts->before[i] = attributes.before[i] = before > 0 ? before : 0;
    amounts->after[i] = attributes.after[i] = after > 0 ? after : 0;
    attributes.steps[i] = 1;
  }
  return pads_any(amounts, shape.rank) ? tdm_pad_with(pad->graph, pad->name, x, &attributes) : x;
}

tdm_value tdm_pad(tdm_graph *graph, const char *name, tdm_value x, const int64_t *amounts,
                  size_t count, tdm_pad_mode mode, double value) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "pad", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (count % 2 != 0 || count / 2 > (size_t)shape.rank || (count > 0 && !amounts))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "pad %s: %zu amounts of x, which is %s: two a dimension, the last first",
                          name, count, tdm_shape_text(&shape, text, sizeof text));
  if ((int)mode < TDM_PAD_CONSTANT || mode > TDM_PAD_CIRCULAR)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "pad %s: there is no mode %d", name,
                          (int)mode);
  const padding pad = {graph, name, mode, value};
  sides both = {.before = {0}};
  for (size_t i = 0; i < count / 2; i++) {
    const int dimension = shape.rank - 1 - (int)i;
    both.before[dimension] = amounts[2 * i];
    both.after[dimension] = amounts[2 * i + 1];
    if (!tdm_layer_is_window(amounts[2 * i], -TDM_LAYER_WINDOW_MAX) ||
        !tdm_layer_is_window(amounts[2 * i + 1], -TDM_LAYER_WINDOW_MAX))
      return fail(&pad, x, dimension, amounts[2 * i], amounts[2 * i + 1], "no pad is as large");
  }
  if (mode == TDM_PAD_CONSTANT)
    return tdm_layer_holds(graph, "pad", name, tdm_value_dtype(graph, x), "value", value)
               ? pad_by_number(&pad, x, &both)
               : TDM_NO_VALUE;
  for (int i = shape.rank - 1; i >= 0; i--)
    if (both.before[i] != 0 || both.after[i] != 0)
      x = pad_by_elements(&pad, x, i, both.before[i], both.after[i]);
  return x;
}
