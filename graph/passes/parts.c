/* Splits a value along a dimension and concatenates parts, for scatter and gather. Invariant: parts
 * that are contiguous in the whole's memory are views of it. Each operation is the other's
 * gradient. */
#include "graph/passes/parts.h"

#include <string.h>

#include "devices/kernels.h"
#include "graph/ir/records.h"
#include "graph/ir/rewriter.h"

static size_t count_parts(const void *attributes) {
  return (size_t)((const tdm_parts_attributes *)attributes)->count;
}

static tdm_status check_dimension(const tdm_shape *shape, int64_t dimension) {
  char text[TDM_SHAPE_TEXT];
  if (dimension >= 0 && dimension < shape->rank) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s has no dimension %lld",
                  tdm_shape_text(shape, text, sizeof text), (long long)dimension);
}

/* Infers parts of equal sizes, except that the last may be smaller. */
static tdm_status infer_even(tdm_infer *infer) {
  const tdm_parts_attributes *attributes = infer->attributes;
  const tdm_shape *whole = &infer->inputs[0].shape;
  const tdm_dim size = whole->dims[attributes->dimension];
  const int64_t count = attributes->count;
  const bool known = tdm_dim_is_size(size);
  const int64_t part = known ? size / count + (size % count != 0) : TDM_DIM_UNKNOWN;
  if (known && size > 0 && (count - 1) * part >= size)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%lld even parts of dimension %lld of x, which has %lld: fewer parts of %lld "
                    "are all of it",
                    (long long)count, (long long)attributes->dimension, (long long)size,
                    (long long)part);
  for (int64_t i = 0; i < count; i++) {
    infer->outputs[i].dtype = infer->inputs[0].dtype;
    infer->outputs[i].shape = *whole;
    infer->outputs[i].shape.dims[attributes->dimension] =
        known && i + 1 == count ? size - (count - 1) * part : part;
  }
  return TDM_OK;
}

/* Gives named parts the sizes that inputs give the names. */
static void bind_parts(void *attributes, const tdm_bound_names *names) {
  tdm_parts_attributes *parts = attributes;
  for (int64_t i = 0; i < parts->count; i++)
    if (tdm_dim_is_named(parts->sizes[i]))
      parts->sizes[i] = names->size_of(names->user, parts->sizes[i]);
}

static tdm_status infer_split(tdm_infer *infer) {
  const tdm_parts_attributes *attributes = infer->attributes;
  const tdm_shape *whole = &infer->inputs[0].shape;
  TDM_TRY(check_dimension(whole, attributes->dimension));
  if (attributes->even != 0) return infer_even(infer);
  const tdm_dim size = whole->dims[attributes->dimension];
  bool known = tdm_dim_is_size(size);
  int64_t rest = known ? size : INT64_MAX; /* size that earlier parts leave for the rest; no sum can
                                            * overflow */
  for (int64_t i = 0; i < attributes->count; i++) {
    const tdm_dim part = attributes->sizes[i];
    infer->outputs[i].dtype = infer->inputs[0].dtype;
    infer->outputs[i].shape = *whole;
    infer->outputs[i].shape.dims[attributes->dimension] = part;
    if (part == TDM_INFER)
      return tdm_fail(TDM_INVALID_ARGUMENT, "part %lld has no size", (long long)i);
    known = known && tdm_dim_is_size(part);
    if (!tdm_dim_is_size(part)) continue;
    if (part > rest)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "part %lld is %lld, and the parts before it leave %lld of dimension %lld of "
                      "x",
                      (long long)i, (long long)part, (long long)rest,
                      (long long)attributes->dimension);
    rest -= part;
  }
  if (!known || rest == 0) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "its parts have %lld of dimension %lld together, x has %lld",
                  (long long)(size - rest), (long long)attributes->dimension, (long long)size);
}

static tdm_status infer_concat(tdm_infer *infer) {
  const tdm_parts_attributes *attributes = infer->attributes;
  const int64_t dimension = attributes->dimension;
  tdm_spec *out = &infer->outputs[0];
  *out = infer->inputs[0];
  TDM_TRY(check_dimension(&out->shape, dimension));
  for (size_t i = 1; i < infer->input_count; i++) {
    const tdm_spec *part = &infer->inputs[i];
    bool fits = part->dtype == out->dtype && part->shape.rank == out->shape.rank;
    for (int d = 0; fits && d < out->shape.rank; d++)
      fits = d == dimension || tdm_dim_agree(part->shape.dims[d], out->shape.dims[d]);
    if (!fits) {
      char a[TDM_SHAPE_TEXT];
      char b[TDM_SHAPE_TEXT];
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s %s and %s %s do not fit along dimension %lld",
                      tdm_dtype_name(out->dtype), tdm_shape_text(&out->shape, a, sizeof a),
                      tdm_dtype_name(part->dtype), tdm_shape_text(&part->shape, b, sizeof b),
                      (long long)dimension);
    }
    tdm_dim *sum = &out->shape.dims[dimension];
    const tdm_dim more = part->shape.dims[dimension];
    if (!tdm_dim_is_size(*sum) || !tdm_dim_is_size(more))
      *sum = TDM_DIM_UNKNOWN;
    else if (__builtin_add_overflow(*sum, more, sum))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%zu parts have more than 2^63 of dimension %lld",
                      i + 1, (long long)dimension);
  }
  return TDM_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Returns the adjoint of an output, or zeros if it has none. */
static tdm_value adjoint_or_zeros(tdm_gradient *gradient, size_t index) {
  tdm_value adjoint = tdm_gradient_of_output(gradient, index);
  if (tdm_value_is_valid(adjoint)) return adjoint;
  tdm_fill_attributes zero;
  memset(&zero, 0, sizeof zero);
  const tdm_value like = tdm_gradient_output(gradient, index);
  return tdm_append(tdm_gradient_graph(gradient), &tdm_operation_fill, tdm_gradient_name(gradient),
                    &zero, &like, 1, NULL);
}

static tdm_status append_split_gradient(tdm_gradient *gradient) {
  const tdm_parts_attributes *attributes = tdm_gradient_attributes(gradient);
  tdm_value d_parts[TDM_MAX_PARTS];
  for (int64_t i = 0; i < attributes->count; i++)
    d_parts[i] = adjoint_or_zeros(gradient, (size_t)i);
  const tdm_value d_whole =
      tdm_append_concat(tdm_gradient_graph(gradient), tdm_gradient_name(gradient), d_parts,
                        (size_t)attributes->count, (int)attributes->dimension);
  tdm_gradient_set(gradient, 0, d_whole);
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static tdm_status append_concat_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_parts_attributes *attributes = tdm_gradient_attributes(gradient);
  tdm_dim sizes[TDM_MAX_PARTS];
  tdm_value d_parts[TDM_MAX_PARTS];
  for (int64_t i = 0; i < attributes->count; i++)
    sizes[i] =
        tdm_value_shape(graph, tdm_gradient_input(gradient, (size_t)i)).dims[attributes->dimension];
  tdm_append_split(graph, tdm_gradient_name(gradient), tdm_gradient_of_output(gradient, 0),
                   (int)attributes->dimension, sizes, (size_t)attributes->count, d_parts);
  for (int64_t i = 0; i < attributes->count; i++)
    tdm_gradient_set(gradient, (size_t)i, d_parts[i]);
  return tdm_graph_status(graph);
}

/* Splits the parts of a split. Rows of the batch cannot be split along their own dimension. But if
 * they are in several stretches, as after a reshape or a concatenation, each part may have some of
 * the stretches. */
static tdm_status chunk_split(tdm_chunked *chunked) {
  tdm_parts_attributes attributes = *(const tdm_parts_attributes *)tdm_chunked_attributes(chunked);
  const int dimension = (int)attributes.dimension;
  const tdm_cut cut = tdm_chunked_cut(chunked, 0);
  const int64_t rows = tdm_chunked_shape(chunked, 0).dims[dimension];
  if (cut.dimension != dimension) return tdm_chunked_each(chunked, NULL);
  bool alike = cut.outer % attributes.count == 0;
  for (size_t i = 0; i < (size_t)attributes.count; i++)
    alike &= tdm_chunked_output_shape(chunked, i).dims[dimension] == rows / attributes.count;
  if (!alike) return tdm_chunked_rows(chunked, dimension, 0); /* fails with a message */
  attributes.even = 1;
  TDM_TRY(tdm_chunked_each(chunked, &attributes));
  for (size_t i = 0; i < (size_t)attributes.count; i++)
    tdm_chunked_set_cut(chunked, i, (tdm_cut){dimension, cut.outer / attributes.count});
  return TDM_OK;
}

/* Splits a concatenation. Parts that are concatenated along the rows become stretches of rows, as
 * in a reshape, if they have equal lengths and their rows are stored alike. */
static tdm_status chunk_concat(tdm_chunked *chunked) {
  const tdm_parts_attributes *attributes = tdm_chunked_attributes(chunked);
  const int dimension = (int)attributes->dimension;
  const tdm_cut first = tdm_chunked_cut(chunked, 0);
  const int64_t rows = tdm_chunked_shape(chunked, 0).dims[dimension];
  bool along = false, alike = true;
  for (size_t i = 0; i < (size_t)attributes->count; i++) {
    const tdm_cut cut = tdm_chunked_cut(chunked, i);
    along |= cut.dimension == dimension;
    alike &= cut.dimension == first.dimension && cut.outer == first.outer &&
             tdm_chunked_shape(chunked, i).dims[dimension] == rows;
  }
  if (along && !alike)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "it puts rows of the batch behind others along dimension %d, and not equally "
                    "many of each part",
                    dimension);
  TDM_TRY(tdm_chunked_each(chunked, NULL));
  if (along) tdm_chunked_set_cut(chunked, 0, (tdm_cut){dimension, first.outer * attributes->count});
  return TDM_OK;
}

#define SPLIT(lies_there)                                                                          \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = TDM_OP_SPLIT,                                    \
    .attribute_bytes = sizeof(tdm_parts_attributes), .min_inputs = 1, .max_inputs = 1,             \
    .is_view = lies_there, .infer = infer_split, .bind = bind_parts,                               \
    .gradient = append_split_gradient, .chunk = chunk_split, .count_outputs = count_parts,         \
    .work = tdm_work_streams, .precision = TDM_PRECISION_GIVEN                                     \
  }
const tdm_operation tdm_operation_split = SPLIT(false);
const tdm_operation tdm_operation_split_view = SPLIT(true);
const tdm_operation tdm_operation_concat = {.struct_size = sizeof(tdm_operation),
                                            .name = TDM_OP_CONCAT,
                                            .attribute_bytes = sizeof(tdm_parts_attributes),
                                            .min_inputs = 1,
                                            .max_inputs = TDM_MAX_PARTS,
                                            .takes_list = true,
                                            .output_count = 1,
                                            .infer = infer_concat,
                                            .gradient = append_concat_gradient,
                                            .chunk = chunk_concat,
                                            .work = tdm_work_streams,
                                            .precision = TDM_PRECISION_WIDEST};

/* ---- Another shape for the same elements, which the attributes (tdm_shape) are: of one dimension
 * it may say TDM_INFER ---- */

/* Returns true if all parts have their share of dimension d, in `stretches`, and otherwise the
 * whole's dimensions. The rows of a part have `elements` in each stretch of x, of which the
 * dimensions after d take `rest`. */
static bool lie_along(tdm_chunked *chunked, int d, int64_t stretches, int64_t rest) {
  const tdm_cut cut = tdm_chunked_cut(chunked, 0);
  tdm_shape wanted = tdm_chunked_output_shape(chunked, 0);
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++) {
    const tdm_shape x =
        tdm_value_shape(tdm_chunked_graph(chunked), tdm_chunked_input(chunked, 0, i));
    const tdm_shape y =
        tdm_value_shape(tdm_chunked_graph(chunked), tdm_chunked_output(chunked, 0, i));
    int64_t elements = x.dims[cut.dimension] / cut.outer;
    for (int k = cut.dimension + 1; k < x.rank; k++)
      elements *= x.dims[k];
    wanted.dims[d] = elements / rest * stretches;
    if (elements % rest != 0 || !tdm_shape_equal(&y, &wanted)) return false;
  }
  return true;
}

/* Splits a view. Elements before the rows stay before them. So the rows become a dimension with as
 * many elements before it, or a dimension that begins earlier and contains them several times. */
tdm_status tdm_chunk_view(tdm_chunked *chunked) {
  const tdm_cut cut = tdm_chunked_cut(chunked, 0);
  const tdm_shape x = tdm_chunked_shape(chunked, 0);
  const tdm_shape out = tdm_chunked_output_shape(chunked, 0);
  int64_t before = cut.outer, begin = 1, rest = tdm_shape_count(&out);
  for (int d = 0; d < cut.dimension; d++)
    before *= x.dims[d];
  TDM_TRY(tdm_chunked_each(chunked, NULL));
  if (rest == 0) return TDM_OK; /* no elements */
  for (int d = 0; d < out.rank; begin *= out.dims[d++]) {
    rest /= out.dims[d];
    if (before % begin != 0 || !lie_along(chunked, d, before / begin, rest)) continue;
    tdm_chunked_set_cut(chunked, 0, (tdm_cut){d, before / begin});
    return TDM_OK;
  }
  return tdm_fail(TDM_INVALID_ARGUMENT, "it tears the rows of the batch apart");
}

static tdm_status append_view_gradient(tdm_gradient *gradient);

static tdm_status infer_view(tdm_infer *infer) {
  const int64_t count = tdm_shape_count(&infer->inputs[0].shape);
  tdm_shape shape = *(const tdm_shape *)infer->attributes;
  for (int d = 0; d < shape.rank; d++) {
    if (shape.dims[d] != TDM_INFER) continue;
    shape.dims[d] = 1;
    const int64_t others = tdm_shape_count(&shape);
    shape.dims[d] = others > 0 ? count / others : 0;
  }
  if (tdm_shape_count(&shape) != count)
    return tdm_fail(TDM_INVALID_ARGUMENT, "it is a view of other elements than there are");
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = shape;
  return TDM_OK;
}

static const tdm_operation view_operation = {.struct_size = sizeof(tdm_operation),
                                             .name = TDM_OP_RESHAPE,
                                             .attribute_bytes = sizeof(tdm_shape),
                                             .min_inputs = 1,
                                             .max_inputs = 1,
                                             .output_count = 1,
                                             .is_view = true,
                                             .infer = infer_view,
                                             .gradient = append_view_gradient,
                                             .chunk = tdm_chunk_view,
                                             .work = tdm_work_streams,
                                             .precision = TDM_PRECISION_GIVEN};

static tdm_status append_view_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value d = tdm_gradient_of_output(gradient, 0);
  const tdm_shape shape = tdm_value_shape(graph, tdm_gradient_input(gradient, 0));
  tdm_gradient_set(
      gradient, 0,
      tdm_append(graph, &view_operation, tdm_gradient_name(gradient), &shape, &d, 1, NULL));
  return tdm_graph_status(graph);
}

TDM_RECORDS(parts, {.operation = &tdm_operation_split, .functions = "tdm_split tdm_split_evenly"},
            {.operation = &tdm_operation_split_view},
            {.operation = &tdm_operation_concat, .functions = "tdm_concat"},
            {.operation = &view_operation});

/* ---- Appending ------------------------------------------------------------------------------- */

const tdm_operation *tdm_split_operation(const tdm_shape *whole, int64_t dimension) {
  for (int64_t d = 0; d < dimension && d < whole->rank; d++)
    if (whole->dims[d] != 1) return &tdm_operation_split;
  return &tdm_operation_split_view;
}

void tdm_append_split(tdm_graph *graph, const char *name, tdm_value x, int dimension,
                      const tdm_dim *sizes, size_t count, tdm_value *outputs) {
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.dimension = dimension;
  attributes.count = (int64_t)count;
  memcpy(attributes.sizes, sizes, count * sizeof *sizes);
  const tdm_shape whole = tdm_value_shape(graph, x);
  tdm_append(graph, tdm_split_operation(&whole, dimension), name, &attributes, &x, 1, outputs);
}

tdm_value tdm_append_concat(tdm_graph *graph, const char *name, const tdm_value *parts,
                            size_t count, int dimension) {
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.dimension = dimension;
  attributes.count = (int64_t)count;
  return tdm_append(graph, &tdm_operation_concat, name, &attributes, parts, count, NULL);
}

uint32_t tdm_insert_view(tdm_graph *graph, const tdm_insertion *at, uint32_t value,
                         const tdm_shape *shape) {
  return tdm_insert(graph, at, &view_operation, shape, &value, 1);
}

tdm_shape tdm_stretches_of(const tdm_shape *shape, tdm_cut cut) {
  int64_t count = cut.outer, size = shape->dims[cut.dimension] / cut.outer;
  for (int d = 0; d < cut.dimension; d++)
    count *= shape->dims[d];
  for (int d = cut.dimension + 1; d < shape->rank; d++)
    size *= shape->dims[d];
  return tdm_shape_of(2, count, size);
}

uint32_t tdm_insert_joined(tdm_graph *graph, const tdm_insertion *at, const tdm_shape *whole,
                           tdm_cut cut, const uint32_t *parts, size_t count) {
  uint32_t stretches[TDM_MAX_PARTS];
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.dimension = cut.outer == 1 ? cut.dimension : 1;
  attributes.count = (int64_t)count;
  for (size_t i = 0; i < count && cut.outer != 1; i++) {
    const tdm_ir_value *part = tdm_ir_value_at(graph, parts[i]);
    const tdm_shape shape = tdm_stretches_of(&part->spec->shape, cut);
    tdm_insertion there = *at;
    there.device = part->device;
    stretches[i] = tdm_insert_view(graph, &there, parts[i], &shape);
    if (!stretches[i]) return 0;
  }
  const uint32_t joined = tdm_insert(graph, at, &tdm_operation_concat, &attributes,
                                     cut.outer == 1 ? parts : stretches, count);
  if (!joined || cut.outer == 1) return joined;
  return tdm_insert_view(graph, at, joined, whole);
}

/* ---- Public ---------------------------------------------------------------------------------- */

static bool check_count(tdm_graph *graph, const char *name, size_t count) {
  if (count >= 1 && count <= TDM_MAX_PARTS) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: %zu parts, and 1 to %d are possible", name,
                 count, TDM_MAX_PARTS);
  return false;
}

static bool check_array(tdm_graph *graph, const char *name, const char *argument,
                        const void *array) {
  if (array) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: %s is NULL", name, argument);
  return false;
}

/* Returns the dimension counted from the front. It is unchanged for an invalid value. */
static int counted_dimension(const tdm_graph *graph, tdm_value x, int dimension) {
  const int rank = tdm_value_shape(graph, x).rank;
  return dimension < 0 && rank > 0 ? dimension + rank : dimension;
}

void tdm_split(tdm_graph *graph, const char *name, tdm_value x, int dimension, const tdm_dim *sizes,
               size_t count, tdm_value *out_parts) {
  name = tdm_graph_name(graph, name);
  for (size_t i = 0; out_parts && i < count && i < TDM_MAX_PARTS; i++)
    out_parts[i] = TDM_NO_VALUE;
  if (!check_count(graph, name, count) || !check_array(graph, name, "sizes", sizes) ||
      !check_array(graph, name, "out_parts", out_parts))
    return;
  tdm_append_split(graph, name, x, counted_dimension(graph, x, dimension), sizes, count, out_parts);
}

void tdm_split_evenly(tdm_graph *graph, const char *name, tdm_value x, int dimension, size_t count,
                      tdm_value *out_parts) {
  name = tdm_graph_name(graph, name);
  for (size_t i = 0; out_parts && i < count && i < TDM_MAX_PARTS; i++)
    out_parts[i] = TDM_NO_VALUE;
  if (!check_count(graph, name, count) || !check_array(graph, name, "out_parts", out_parts)) return;
  tdm_parts_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.dimension = counted_dimension(graph, x, dimension);
  attributes.count = (int64_t)count;
  attributes.even = 1;
  const tdm_shape whole = tdm_value_shape(graph, x);
  tdm_append(graph, tdm_split_operation(&whole, attributes.dimension), name, &attributes, &x, 1,
             out_parts);
}

tdm_value tdm_concat(tdm_graph *graph, const char *name, const tdm_value *parts, size_t count,
                     int dimension) {
  name = tdm_graph_name(graph, name);
  if (!check_count(graph, name, count) || !check_array(graph, name, "parts", parts))
    return TDM_NO_VALUE;
  return tdm_append_concat(graph, name, parts, count,
                           counted_dimension(graph, parts[0], dimension));
}
