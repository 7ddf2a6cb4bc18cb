/* Checks and helpers that layers share. Invariant: a failed check only sets the thread's message. A
 * failed helper sets the graph's error unless it has one already. */
#include "layers/common.h"

#include <stdio.h>
#include <string.h>

#include "core/dtype_numbers.h"
#include "graph/describe/layer_parameters.h"

/* ---- Shape rules ----------------------------------------------------------------------------- */

static tdm_status expect_present(const tdm_infer *infer, size_t index, const char *what) {
  return tdm_infer_has(infer, index) ? TDM_OK
                                     : tdm_fail(TDM_INVALID_ARGUMENT, "%s is missing", what);
}

tdm_status tdm_expect_floating(const tdm_infer *infer, size_t index, const char *what) {
  TDM_TRY(expect_present(infer, index, what));
  const tdm_dtype dtype = infer->inputs[index].dtype;
  if (tdm_dtype_is_floating(dtype)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s, and must be floating", what,
                  tdm_dtype_name(dtype));
}

tdm_status tdm_expect_ids(const tdm_infer *infer, size_t index, const char *what) {
  TDM_TRY(expect_present(infer, index, what));
  const tdm_dtype dtype = infer->inputs[index].dtype;
  if (dtype == TDM_INT32 || dtype == TDM_INT64) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s, and must be int32 or int64", what,
                  tdm_dtype_name(dtype));
}

tdm_status tdm_expect_dtype_of_first(const tdm_infer *infer, size_t index, const char *first,
                                     const char *what) {
  TDM_TRY(expect_present(infer, index, what));
  const tdm_dtype wanted = infer->inputs[0].dtype;
  const tdm_dtype dtype = infer->inputs[index].dtype;
  if (dtype == wanted) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s, %s is %s: they must have one dtype", first,
                  tdm_dtype_name(wanted), what, tdm_dtype_name(dtype));
}

tdm_status tdm_expect_rank(const tdm_infer *infer, size_t index, const char *what, int least,
                           int most) {
  const tdm_shape *shape = tdm_infer_shape(infer, index);
  if (shape->rank >= least && shape->rank <= most) return TDM_OK;
  char text[TDM_SHAPE_TEXT];
  tdm_shape_text(shape, text, sizeof text);
  if (least == most)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s must have %d dimensions, has %s", what, least, text);
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s must have %d to %d dimensions, has %s", what, least,
                  most, text);
}

static bool shapes_agree(const tdm_shape *a, const tdm_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (!tdm_dim_agree(a->dims[i], b->dims[i])) return false;
  return true;
}

tdm_status tdm_expect_shape(const tdm_infer *infer, size_t index, const char *what,
                            const tdm_shape *expected) {
  const tdm_shape *shape = tdm_infer_shape(infer, index);
  if (shapes_agree(shape, expected)) return TDM_OK;
  char has[TDM_SHAPE_TEXT];
  char wants[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s must be %s, is %s", what,
                  tdm_shape_text(expected, wants, sizeof wants),
                  tdm_shape_text(shape, has, sizeof has));
}

tdm_status tdm_expect_one_shape(const tdm_infer *infer, size_t a, const char *a_name, size_t b,
                                const char *b_name, tdm_shape *out_shape) {
  const tdm_shape *left = tdm_infer_shape(infer, a);
  const tdm_shape *right = tdm_infer_shape(infer, b);
  if (!shapes_agree(left, right)) {
    char left_text[TDM_SHAPE_TEXT];
    char right_text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s, %s is %s: they must have one shape", a_name,
                    tdm_shape_text(left, left_text, sizeof left_text), b_name,
                    tdm_shape_text(right, right_text, sizeof right_text));
  }
  *out_shape = *left;
  for (int i = 0; i < left->rank; i++)
    out_shape->dims[i] = tdm_dim_merge(left->dims[i], right->dims[i]);
  return TDM_OK;
}

tdm_status tdm_infer_like_first(tdm_infer *infer) {
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, tdm_infer_shape(infer, 0));
  return TDM_OK;
}

tdm_status tdm_infer_like_second(tdm_infer *infer) {
  tdm_infer_set(infer, 0, infer->inputs[1].dtype, tdm_infer_shape(infer, 1));
  return TDM_OK;
}

tdm_status tdm_infer_floating_like_first(tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, 0, "x"));
  return tdm_infer_like_first(infer);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static double product_flops(const tdm_spec *y, const tdm_spec *weight) {
  const double outputs = (double)weight->shape.dims[0];
  return outputs > 0 ? 2 * tdm_work_count(y) * tdm_work_count(weight) / outputs : 0;
}

void tdm_work_products(const tdm_infer *node, tdm_work *work) {
  work->flops = product_flops(&node->outputs[0], &node->inputs[1]);
}

void tdm_work_products_input(const tdm_infer *node, tdm_work *work) {
  work->flops = product_flops(&node->inputs[0], &node->inputs[1]);
}

void tdm_work_products_parameter(const tdm_infer *node, tdm_work *work) {
  work->flops = product_flops(&node->inputs[0], &node->outputs[0]);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

const char *tdm_layer_name(tdm_graph *graph, const char *name, const char *suffix, char *text) {
  const int length = name && *name ? snprintf(text, TDM_LAYER_NAME_BYTES, "%s%s", name, suffix) : 0;
  if (length > 0 && length < TDM_LAYER_NAME_BYTES) return text;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 length <= 0 ? "a layer's name is missing; NULL leaves it out, and not \"\""
                             : "a layer's name is too long");
  return NULL;
}

tdm_value tdm_layer_parameter(tdm_graph *graph, const char *name, const char *suffix,
                              tdm_shape shape, const tdm_initializer *initializer) {
  char text[TDM_LAYER_NAME_BYTES];
  if (!tdm_layer_name(graph, name, suffix, text)) return TDM_NO_VALUE;
  return tdm_declare_for_layer(graph, name, suffix, tdm_graph_dtype(graph), &shape, initializer);
}

bool tdm_layer_is_size(tdm_graph *graph, const char *layer, const char *name, const char *what,
                       int64_t size) {
  if (size >= 0) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %lld, and must be a size", layer, name,
                 what, (long long)size);
  return false;
}

bool tdm_layer_holds(tdm_graph *graph, const char *layer, const char *name, tdm_dtype dtype,
                     const char *what, double number) {
  if (dtype == TDM_DTYPE_NONE) return true;
  const bool is_short = dtype == TDM_FLOAT16 || dtype == TDM_BFLOAT16;
  if (is_short && number != 0) {
    tdm_graph_fail(graph, TDM_UNSUPPORTED, "%s %s: %s is %.15g, and %s is filled with 0 alone yet",
                   layer, name, what, number, tdm_dtype_name(dtype));
    return false;
  }
  if (tdm_dtype_check(dtype, what, number) == TDM_OK) return true;
  tdm_graph_fail_message(graph, tdm_fail_within(TDM_INVALID_ARGUMENT, "%s %s", layer, name));
  return false;
}

bool tdm_layer_options_read(tdm_graph *graph, const char *layer, const char *name,
                            const char *initializer, const void *options, size_t bytes,
                            void *defaults) {
  char where[TDM_LAYER_NAME_BYTES];
  (void)snprintf(where, sizeof where, "%s %s", layer, name ? name : "?");
  const tdm_status status = tdm_options_read(where, initializer, options, bytes, defaults);
  if (status != TDM_OK) tdm_graph_fail_message(graph, status);
  return status == TDM_OK;
}

bool tdm_layer_is_at_least(tdm_graph *graph, const char *layer, const char *name,
                           const char *option, int64_t value, int64_t least) {
  if (value >= least) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: %s is %lld, expected %lld or more", layer,
                 name, option, (long long)value, (long long)least);
  return false;
}

tdm_status tdm_gradient_refuse(const tdm_gradient *gradient, size_t input, const char *what) {
  if (!tdm_gradient_wanted(gradient, input)) return TDM_OK;
  return tdm_fail(TDM_UNSUPPORTED,
                  "no gradient flows into its %s: expected a value that depends on no trained "
                  "parameter. tdm_detach makes one, which is read as a constant",
                  what);
}

bool tdm_layer_accepts(tdm_graph *graph, const char *layer, const char *name, tdm_value x) {
  if (tdm_value_shape(graph, x).rank >= 0) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: its input is not a value of this graph",
                 layer, name);
  return false;
}

int tdm_layer_dimension(tdm_graph *graph, const char *layer, const char *name,
                        const tdm_shape *shape, int dimension) {
  const int counted = dimension < 0 ? dimension + shape->rank : dimension;
  if (counted >= 0 && counted < shape->rank) return counted;
  char text[TDM_SHAPE_TEXT];
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: there is no dimension %d in %s", layer, name,
                 dimension, tdm_shape_text(shape, text, sizeof text));
  return -1;
}

bool tdm_layer_epsilon(tdm_graph *graph, const char *layer, const char *name, double epsilon) {
  if (tdm_is_setting(epsilon)) return true;
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: epsilon is %g, expected a finite number of at least 0", layer, name,
                 epsilon);
  return false;
}

bool tdm_gradient_rows_pay(tdm_gradient *gradient, size_t ids, int64_t rows) {
  const tdm_shape shape =
      tdm_value_shape(tdm_gradient_graph(gradient), tdm_gradient_input(gradient, ids));
  const int64_t count = tdm_shape_count(&shape);
  return tdm_gradient_micro_batch(gradient) > 1 && count >= 0 && rows / 4 > count;
}

tdm_status tdm_chunk_windows(tdm_chunked *chunked, const bool is_alone[2]) {
  const int rows = tdm_chunked_cut(chunked, 0).dimension;
  const int axis = rows - (tdm_chunked_shape(chunked, 0).rank - 2);
  if (rows < 2 || is_alone[axis]) return tdm_chunked_each(chunked, NULL);
  return tdm_chunked_rows(chunked, rows, 0);
}
