/* Slices, permutations and repetitions, which are strided copies, and padding, the inverse of
 * slices. Invariant: each element of a copy is an element of x, so the gradient sums over
 * repetitions, restores the order and pads slices. */
#include "devices/kernels/moves/strided.h"

#include "layers/common.h"
#include "tandem/layers/layers.h"

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Returns true if dimension i of the result covers all of its source, in order. */
static bool is_whole(const tdm_strided_attributes *attributes, int64_t i) {
  return attributes->begins[i] == 0 && attributes->ends[i] == TDM_TO_THE_END &&
         attributes->steps[i] == 1;
}

/* Returns true if dimension i of the result covers all of its source, in reverse order. */
static bool is_flipped(const tdm_strided_attributes *attributes, int64_t i) {
  return attributes->begins[i] == -1 && attributes->ends[i] == TDM_TO_THE_BEGINNING &&
         attributes->steps[i] == -1;
}

/* Encodes a size for the attribute `repeats`, in which 0 means none: size 0 has its own
 * constant. */
static int64_t repeats_of(int64_t size) {
  return size == 0 ? TDM_STRIDED_NONE : size;
}

static int64_t size_of(int64_t repeats) {
  return repeats == TDM_STRIDED_NONE ? 0 : repeats;
}

static tdm_dim dimension_of(const tdm_infer *infer, const tdm_strided_attributes *attributes,
                            int i) {
  const int64_t source = attributes->sources[i];
  if (source < 0)
    return attributes->repeats[i] != 0 ? size_of(attributes->repeats[i])
                                       : tdm_infer_shape(infer, 1)->dims[i];
  const tdm_dim size = tdm_infer_shape(infer, 0)->dims[source];
  int64_t first;
  if (is_whole(attributes, i) || is_flipped(attributes, i)) return size;
  return tdm_dim_is_size(size) ? tdm_slice_count(size, attributes->begins[i], attributes->ends[i],
                                                 attributes->steps[i], &first)
                               : TDM_DIM_UNKNOWN;
}

/* Fails unless the source of dimension i has the required size. A size that is still open is
 * checked again when it is fixed. */
static tdm_status expect_size(const tdm_infer *infer, const tdm_strided_attributes *attributes,
                              int i) {
  const int64_t source = attributes->sources[i], repeats = attributes->repeats[i];
  if (source < 0 || repeats == 0) return TDM_OK;
  const tdm_shape *x = tdm_infer_shape(infer, 0);
  const tdm_dim wanted =
      repeats == TDM_STRIDED_AS_LIKE ? tdm_infer_shape(infer, 1)->dims[i] : size_of(repeats);
  if (tdm_dim_agree(x->dims[source], wanted)) return TDM_OK;
  char text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "dimension %d of x, which is %s, must have the size %lld",
                  (int)source, tdm_shape_text(x, text, sizeof text), (long long)wanted);
}

static tdm_status infer_strided(tdm_infer *infer) {
  const tdm_strided_attributes *attributes = infer->attributes;
  tdm_shape y = {.rank = (int32_t)attributes->rank};
  for (int i = 0; i < y.rank; i++) {
    TDM_TRY(expect_size(infer, attributes, i));
    y.dims[i] = dimension_of(infer, attributes, i);
  }
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  return TDM_OK;
}

static tdm_status infer_pad(tdm_infer *infer) {
  const tdm_pad_attributes *attributes = infer->attributes;
  tdm_shape y = *tdm_infer_shape(infer, 0);
  for (int i = 0; i < y.rank; i++) {
    if (attributes->before[i] == 0 && attributes->after[i] == 0 && attributes->steps[i] == 1)
      continue;
    const int64_t step = attributes->steps[i] > 0 ? attributes->steps[i] : -attributes->steps[i];
    const tdm_dim n = y.dims[i];
    if (!tdm_dim_is_size(n) || attributes->before[i] == TDM_PAD_UNKNOWN) {
      y.dims[i] = TDM_DIM_UNKNOWN;
      continue;
    }
    tdm_dim size = n > 0 ? n - 1 : 0;
    if (__builtin_mul_overflow(size, step, &size) ||
        __builtin_add_overflow(size, (tdm_dim)(n > 0), &size) ||
        __builtin_add_overflow(size, attributes->before[i], &size) ||
        __builtin_add_overflow(size, attributes->after[i], &size))
      return tdm_fail(TDM_INVALID_ARGUMENT, "dimension %d is too large once it is padded", i);
    y.dims[i] = size;
  }
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &y);
  return TDM_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Returns d summed over the dimensions that repeat x. The sources of the remaining dimensions are
 * written to sources (count). */
static tdm_value sum_repeats(tdm_graph *graph, const char *name, tdm_value d,
                             const tdm_strided_attributes *attributes, int *sources,
                             int *out_count) {
  int repeated[TDM_MAX_RANK];
  size_t repeated_count = 0;
  *out_count = 0;
  for (int i = 0; i < attributes->rank; i++) {
    if (attributes->sources[i] < 0)
      repeated[repeated_count++] = i;
    else
      sources[(*out_count)++] = (int)attributes->sources[i];
  }
  return repeated_count > 0 ? tdm_sum(graph, name, d, repeated, repeated_count, false) : d;
}

/* Pads what slices selected to x's shape, with zeros elsewhere. */
static tdm_value put_back(tdm_graph *graph, const char *name, tdm_value d,
                          const tdm_strided_attributes *attributes, const tdm_shape *x) {
  tdm_pad_attributes pad = {.rank = x->rank};
  bool pads = false;
  for (int i = 0; i < x->rank; i++)
    pad.steps[i] = 1;
  for (int i = 0; i < attributes->rank; i++) {
    const int64_t source = attributes->sources[i];
    if (source < 0 || is_whole(attributes, i)) continue;
    const int64_t size = x->dims[source], step = attributes->steps[i];
    pads = true;
    if (!tdm_dim_is_size(size)) {
      pad.before[source] = TDM_PAD_UNKNOWN;
      continue;
    }
    int64_t first;
    const int64_t count =
        tdm_slice_count(size, attributes->begins[i], attributes->ends[i], step, &first);
    const int64_t last = count > 0 ? first + (count - 1) * step : 0;
    pad.steps[source] = count > 1 ? step : 1;
    pad.before[source] = step > 0 ? first : last;
    pad.after[source] = count > 0 ? size - 1 - (step > 0 ? last : first) : size - first;
  }
  return pads ? tdm_pad_with(graph, name, d, &pad) : d;
}

static tdm_status append_strided_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  const tdm_strided_attributes *attributes = tdm_gradient_attributes(gradient);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  int sources[TDM_MAX_RANK], order[TDM_MAX_RANK], count;
  tdm_value d =
      sum_repeats(graph, name, tdm_gradient_of_output(gradient, 0), attributes, sources, &count);
  bool ordered = true;
  int found = 0;
  tdm_shape taken = x; /* x's shape after the slices */
  const tdm_shape left = tdm_value_shape(graph, d);
  for (int s = 0; s < x.rank; s++) {
    for (int k = 0; k < count; k++) {
      if (sources[k] != s) continue;
      ordered = ordered && k == found;
      order[found++] = k;
      if (k < left.rank) taken.dims[s] = left.dims[k];
    }
  }
  if (!ordered) d = tdm_permute(graph, name, d, order, (size_t)count);
  if (count < x.rank) d = tdm_reshape(graph, name, d, taken);
  tdm_gradient_set(gradient, 0, put_back(graph, name, d, attributes, &x));
  return tdm_graph_status(graph);
}

/* The gradient of padding is a slice. */
static tdm_status append_pad_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const char *name = tdm_gradient_name(gradient);
  const tdm_pad_attributes *attributes = tdm_gradient_attributes(gradient);
  const tdm_shape x = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  tdm_value d = tdm_gradient_of_output(gradient, 0);
  for (int i = 0; i < x.rank; i++) {
    const int64_t step = attributes->steps[i], before = attributes->before[i];
    if (before == 0 && attributes->after[i] == 0 && step == 1) continue;
    const int64_t extent = x.dims[i] > 0 ? (x.dims[i] - 1) * (step > 0 ? step : -step) : -1;
    d = step > 0 ? tdm_slice(graph, name, d, i, before, before + extent + 1, step)
                 : tdm_slice(graph, name, d, i, before + extent,
                             before > 0 ? before - 1 : TDM_TO_THE_BEGINNING, step);
  }
  tdm_gradient_set(gradient, 0, d);
  return tdm_graph_status(graph);
}

/* ---- Micro-batches --------------------------------------------------------------------------- */

/* Splits the batch, if each row of the result is a whole row of x. */
static tdm_status chunk_strided(tdm_chunked *chunked) {
  const tdm_strided_attributes *attributes = tdm_chunked_attributes(chunked);
  const int rows = tdm_chunked_cut(chunked, 0).dimension;
  for (int i = 0; rows >= 0 && i < attributes->rank; i++)
    if (attributes->sources[i] == rows && !is_whole(attributes, i))
      return tdm_chunked_rows(chunked, rows, 0);
  return tdm_chunked_each(chunked, NULL);
}

static tdm_status chunk_pad(tdm_chunked *chunked) {
  const tdm_pad_attributes *attributes = tdm_chunked_attributes(chunked);
  const int rows = tdm_chunked_cut(chunked, 0).dimension;
  const bool whole = rows < 0 || (attributes->before[rows] == 0 && attributes->after[rows] == 0 &&
                                  attributes->steps[rows] == 1);
  return whole ? tdm_chunked_each(chunked, NULL) : tdm_chunked_rows(chunked, rows, 0);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static const tdm_operation strided_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_STRIDED,
    .attribute_bytes = sizeof(tdm_strided_attributes),
    .min_inputs = 1,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_strided,
    .gradient = append_strided_gradient,
    .chunk = chunk_strided,
    .work = tdm_work_moves,
    .precision = TDM_PRECISION_GIVEN,
    .shape_inputs = 1u << 1,
};

static const tdm_operation pad_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_PAD,
    .attribute_bytes = sizeof(tdm_pad_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_pad,
    .gradient = append_pad_gradient,
    .chunk = chunk_pad,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(strided,
            {.operation = &strided_operation,
             .functions = "tdm_slice tdm_permute tdm_flip tdm_roll tdm_expand tdm_expand_as "
                          "tdm_repeat tdm_diagonal tdm_meshgrid"},
            {.operation = &pad_operation, .functions = "tdm_pad"});

tdm_value tdm_pad_with(tdm_graph *graph, const char *name, tdm_value x,
                       const tdm_pad_attributes *attributes) {
  return tdm_append(graph, &pad_operation, name, attributes, &x, 1, NULL);
}

/* Returns attributes that copy all of x unchanged. */
static tdm_strided_attributes all_of(const tdm_shape *x) {
  tdm_strided_attributes attributes = {.rank = x->rank};
  for (int i = 0; i < x->rank; i++) {
    attributes.sources[i] = i;
    attributes.ends[i] = TDM_TO_THE_END;
    attributes.steps[i] = 1;
  }
  return attributes;
}

static tdm_value append_strided(tdm_graph *graph, const char *name, tdm_value x, tdm_value like,
                                const tdm_strided_attributes *attributes) {
  const tdm_value operands[] = {x, like};
  const size_t count = tdm_value_is_valid(like) ? 2 : 1;
  return tdm_append(graph, &strided_operation, name, attributes, operands, count, NULL);
}

/* ---- Slices and orders ----------------------------------------------------------------------- */

tdm_value tdm_slice(tdm_graph *graph, const char *name, tdm_value x, int dimension, int64_t begin,
                    int64_t end, int64_t step) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "slice", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "slice", name, &shape, dimension);
  if (counted < 0) return TDM_NO_VALUE;
  if (step == 0 || step == INT64_MIN)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "slice %s: its step is %lld, and must not be 0 or less than -2^63 + 1",
                          name, (long long)step);
  tdm_strided_attributes attributes = all_of(&shape);
  attributes.begins[counted] = begin;
  attributes.ends[counted] = end;
  attributes.steps[counted] = step;
  return append_strided(graph, name, x, TDM_NO_VALUE, &attributes);
}

/* Reads dimensions of x, each of which may occur once. Returns false with the graph's error. */
static bool read_dimensions(tdm_graph *graph, const char *function, const char *name,
                            const tdm_shape *shape, const int *dimensions, size_t count,
                            int *out_dimensions) {
  unsigned seen = 0;
  for (size_t i = 0; i < count; i++) {
    const int counted = tdm_layer_dimension(graph, function, name, shape, dimensions[i]);
    if (counted < 0) return false;
    if ((seen >> counted & 1) != 0) {
      tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: dimension %d is given twice", function,
                     name, dimensions[i]);
      return false;
    }
    seen |= 1U << counted;
    out_dimensions[i] = counted;
  }
  return true;
}

tdm_value tdm_permute(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                      size_t count) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "permute", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  if (count != (size_t)shape.rank || (count > 0 && !dimensions))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "permute %s: %zu dimensions of x, which is %s: name each of them once",
                          name, count, tdm_shape_text(&shape, text, sizeof text));
  int order[TDM_MAX_RANK];
  if (!read_dimensions(graph, "permute", name, &shape, dimensions, count, order))
    return TDM_NO_VALUE;
  tdm_strided_attributes attributes = all_of(&shape);
  bool same = true;
  for (int i = 0; i < shape.rank; i++) {
    attributes.sources[i] = order[i];
    same = same && order[i] == i;
  }
  return same ? x : append_strided(graph, name, x, TDM_NO_VALUE, &attributes);
}

tdm_value tdm_flip(tdm_graph *graph, const char *name, tdm_value x, const int *dimensions,
                   size_t count) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "flip", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  int flipped[TDM_MAX_RANK];
  if (count > TDM_MAX_RANK || (count > 0 && !dimensions))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "flip %s: %zu dimensions, 0 to %d can be",
                          name, dimensions ? count : 0, TDM_MAX_RANK);
  if (!read_dimensions(graph, "flip", name, &shape, dimensions, count, flipped))
    return TDM_NO_VALUE;
  tdm_strided_attributes attributes = all_of(&shape);
  for (size_t i = 0; i < count; i++) {
    attributes.begins[flipped[i]] = -1;
    attributes.ends[flipped[i]] = TDM_TO_THE_BEGINNING;
    attributes.steps[flipped[i]] = -1;
  }
  return append_strided(graph, name, x, TDM_NO_VALUE, &attributes);
}

tdm_value tdm_roll(tdm_graph *graph, const char *name, tdm_value x, int64_t shift, int dimension) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "roll", name, x)) return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int counted = tdm_layer_dimension(graph, "roll", name, &shape, dimension);
  if (counted < 0) return TDM_NO_VALUE;
  char text[TDM_SHAPE_TEXT];
  const tdm_dim size = shape.dims[counted];
  if (!tdm_dim_is_size(size))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "roll %s: x is %s, and dimension %d must be a size", name,
                          tdm_shape_text(&shape, text, sizeof text), counted);
  const int64_t ahead = size > 0 ? (shift % size + size) % size : 0;
  if (ahead == 0) return x;
  const tdm_value parts[] = {tdm_slice(graph, name, x, counted, size - ahead, TDM_TO_THE_END, 1),
                             tdm_slice(graph, name, x, counted, 0, size - ahead, 1)};
  return tdm_concat(graph, name, parts, 2, counted);
}

/* ---- Repetitions ----------------------------------------------------------------------------- */

/* Returns the size to check for a kept dimension once sizes are fixed, or 0 if no check is
 * required. */
static int64_t size_to_expect(tdm_dim from, tdm_dim to, bool has_like) {
  if (to == TDM_INFER || (from == to && from != TDM_DIM_UNKNOWN)) return 0;
  if (tdm_dim_is_size(to)) return repeats_of(to);
  return has_like ? TDM_STRIDED_AS_LIKE : 0;
}

/* Returns x repeated to the shape. Dimensions that are TDM_INFER are not repeated. If like is
 * valid, it has that shape, and sizes that are open are taken from it in a run. */
static tdm_value expand(tdm_graph *graph, const char *function, const char *name, tdm_value x,
                        tdm_value like, const tdm_shape *shape) {
  const tdm_shape has = tdm_value_shape(graph, x);
  const int missing = shape->rank - has.rank;
  char text[TDM_SHAPE_TEXT], wanted_text[TDM_SHAPE_TEXT];
  tdm_shape_text(&has, text, sizeof text);
  tdm_shape_text(shape, wanted_text, sizeof wanted_text);
  if (missing < 0 || shape->rank > TDM_MAX_RANK)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "%s %s: x is %s, and cannot be repeated to %s, which lacks dimensions",
                          function, name, text, wanted_text);
  tdm_strided_attributes attributes = {.rank = shape->rank};
  bool of_like = false;
  for (int i = 0; i < shape->rank; i++) {
    const tdm_dim from = i < missing ? 1 : has.dims[i - missing], to = shape->dims[i];
    const bool stays = (i >= missing && to == TDM_INFER) || (from != 1 && tdm_dim_agree(from, to));
    attributes.sources[i] = stays || (from == 1 && to == 1 && i >= missing) ? i - missing : -1;
    attributes.ends[i] = TDM_TO_THE_END;
    attributes.steps[i] = 1;
    if (attributes.sources[i] >= 0) {
      attributes.repeats[i] = size_to_expect(from, to, tdm_value_is_valid(like));
      of_like = of_like || attributes.repeats[i] == TDM_STRIDED_AS_LIKE;
      continue;
    }
    const bool unknown = !tdm_dim_is_size(to);
    attributes.repeats[i] = unknown ? 0 : repeats_of(to);
    of_like = of_like || unknown;
    if (from != 1 || (unknown && !tdm_value_is_valid(like)))
      return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                            "%s %s: x is %s, and cannot be repeated to %s: only a dimension of 1 "
                            "can, and only to a size (tdm_expand_as: to another value's)",
                            function, name, text, wanted_text);
  }
  return append_strided(graph, name, x, of_like ? like : TDM_NO_VALUE, &attributes);
}

tdm_value tdm_expand(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "expand", name, x)) return TDM_NO_VALUE;
  if (!tdm_shape_is_valid(&shape))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "expand %s: its shape is not legal", name);
  return expand(graph, "expand", name, x, TDM_NO_VALUE, &shape);
}

tdm_value tdm_expand_as(tdm_graph *graph, const char *name, tdm_value x, tdm_value like) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "expand_as", name, x) ||
      !tdm_layer_accepts(graph, "expand_as", name, like))
    return TDM_NO_VALUE;
  const tdm_shape shape = tdm_value_shape(graph, like);
  return expand(graph, "expand_as", name, x, like, &shape);
}

/* Reshapes x to (1, d0, 1, d1, ...), repeats it, and reshapes it to (times[0] d0, times[1] d1,
 * ...). */
tdm_value tdm_repeat(tdm_graph *graph, const char *name, tdm_value x, const int64_t *times,
                     size_t count) {
  name = tdm_graph_name(graph, name);
  if (!tdm_layer_accepts(graph, "repeat", name, x)) return TDM_NO_VALUE;
  const tdm_shape has = tdm_value_shape(graph, x);
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(&has, text, sizeof text);
  if (count < (size_t)has.rank || count > TDM_MAX_RANK || !times)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "repeat %s: %zu numbers for x, which is %s: one a dimension, at most %d",
                          name, count, text, TDM_MAX_RANK);
  const int missing = (int)count - has.rank;
  tdm_strided_attributes attributes = {.rank = 0};
  tdm_shape whole = {.rank = (int32_t)count};
  int8_t sources[TDM_MAX_RANK], merged[TDM_MAX_RANK] = {0};
  for (int i = 0; i < (int)count; i++) {
    const bool repeats = times[i] != 1;
    if (times[i] < 0 || attributes.rank + repeats + (i >= missing) > TDM_MAX_RANK)
      return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                            "repeat %s: x is %s, number %d is %lld: each must be 0 or more, and x "
                            "with a dimension more for each but 1 of rank %d at most",
                            name, text, i, (long long)times[i], TDM_MAX_RANK);
    const tdm_dim size = i < missing ? 1 : has.dims[i - missing];
    merged[i] = repeats && i >= missing;
    sources[i] = (int8_t)(repeats || i >= missing ? attributes.rank : -1);
    if (repeats) {
      attributes.sources[attributes.rank] = -1;
      attributes.repeats[attributes.rank++] = repeats_of(times[i]);
    }
    if (i >= missing) {
      attributes.ends[attributes.rank] = TDM_TO_THE_END;
      attributes.steps[attributes.rank] = 1;
      attributes.sources[attributes.rank++] = i - missing;
    }
    whole.dims[i] = repeats ? TDM_DIM_UNKNOWN : size;
    if (times[i] == 0) whole.dims[i] = 0;
    if (times[i] > 1 && tdm_dim_is_size(size) &&
        __builtin_mul_overflow(size, times[i], &whole.dims[i]))
      return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "repeat %s: x is %s, %lld times too large",
                            name, text, (long long)times[i]);
  }
  const tdm_value repeated = append_strided(graph, name, x, TDM_NO_VALUE, &attributes);
  return tdm_reshape_merged(graph, name, repeated, whole, sources, merged);
}
