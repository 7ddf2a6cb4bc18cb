/* What every layer needs: checks for shape rules, names of parameters, options structs.
 * Checks answer INVALID_ARGUMENT with a message that names operands and shapes; the graph puts
 * operation and path before it. */
#ifndef TANDEM_LAYERS_COMMON_H
#define TANDEM_LAYERS_COMMON_H

#include <math.h>

#include "core/options.h"
#include "core/status.h"
#include "devices/kernels.h"
#include "graph/ir/records.h"
#include "tandem/graph/graph.h"

/* ---- Shape rules ----------------------------------------------------------------------------- */

/* The operand at index must be there and be floating, or int32 or int64. */
tdm_status tdm_expect_floating(const tdm_infer *infer, size_t index,
                               const char *what) TDM_WARN_UNUSED;
tdm_status tdm_expect_ids(const tdm_infer *infer, size_t index, const char *what) TDM_WARN_UNUSED;
/* Floating, and of the dtype of operand 0, which is called first. */
tdm_status tdm_expect_dtype_of_first(const tdm_infer *infer, size_t index, const char *first,
                                     const char *what) TDM_WARN_UNUSED;
tdm_status tdm_expect_rank(const tdm_infer *infer, size_t index, const char *what, int least,
                           int most) TDM_WARN_UNUSED;
/* The operand's shape must agree with expected: "h0 expects [batch, 16], has [batch, 8]". */
tdm_status tdm_expect_shape(const tdm_infer *infer, size_t index, const char *what,
                            const tdm_shape *expected) TDM_WARN_UNUSED;
/* Operands a and b have one shape: the more certain dimensions of both are left in *out_shape. */
tdm_status tdm_expect_one_shape(const tdm_infer *infer, size_t a, const char *a_name, size_t b,
                                const char *b_name, tdm_shape *out_shape) TDM_WARN_UNUSED;

static inline bool tdm_infer_has(const tdm_infer *infer, size_t index) {
  return index < infer->input_count && infer->inputs[index].dtype != TDM_DTYPE_NONE;
}
static inline const tdm_shape *tdm_infer_shape(const tdm_infer *infer, size_t index) {
  return &infer->inputs[index].shape;
}
static inline void tdm_infer_set(tdm_infer *infer, size_t index, tdm_dtype dtype,
                                 const tdm_shape *shape) {
  infer->outputs[index].dtype = dtype;
  infer->outputs[index].shape = *shape;
}
/* The last dimension of a shape of rank 1 or more. */
static inline tdm_dim *tdm_shape_last(tdm_shape *shape) {
  return &shape->dims[shape->rank - 1];
}

/* A rule for one output that is like operand 0, and one that is like operand 1. */
tdm_status tdm_infer_like_first(tdm_infer *infer) TDM_WARN_UNUSED;
tdm_status tdm_infer_like_second(tdm_infer *infer) TDM_WARN_UNUSED;
/* Like operand 0, "x", which must be floating. */
tdm_status tdm_infer_floating_like_first(tdm_infer *infer) TDM_WARN_UNUSED;

/* ---- Work ------------------------------------------------------------------------------------ */

/* Of a layer with a weight, whose dimension 0 is its output's: as many products for each element of
 * y as the weight has for one of them. x, weight, ... -> y; d_y, weight -> d_x; d_y, x -> d_weight,
 * ... */
void tdm_work_products(const tdm_infer *node, tdm_work *work);
void tdm_work_products_input(const tdm_infer *node, tdm_work *work);
void tdm_work_products_parameter(const tdm_infer *node, tdm_work *work);

/* d_y, weight -> d_x of a convolution, which is a transposed convolution of d_y. */
extern const tdm_operation tdm_operation_convolution_input_gradient;
/* A convolution of x with a weight that is there, without bias; attributes are checked. */
tdm_value tdm_convolution_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                             const tdm_convolution_attributes *attributes);
/* a, b -> a b and a / b, broadcast: what gradients are made of. */
extern const tdm_operation tdm_operation_mul;
extern const tdm_operation tdm_operation_div;

/* ---- Broadcasting ---------------------------------------------------------------------------- */

/* The shape that a and b are broadcast to; out_shape may be either. INVALID_ARGUMENT, naming both,
 * where they cannot be. */
tdm_status tdm_shape_broadcast(const tdm_shape *a, const char *a_name, const tdm_shape *b,
                               const char *b_name, tdm_shape *out_shape) TDM_WARN_UNUSED;
tdm_status tdm_expect_broadcast(const tdm_infer *infer, size_t a, const char *a_name, size_t b,
                                const char *b_name, tdm_shape *out_shape) TDM_WARN_UNUSED;
/* Fails with UNSUPPORTED if a gradient is wanted of an input into which none flows. what: its name,
 * "targets". */
tdm_status tdm_gradient_refuse(const tdm_gradient *gradient, size_t input,
                               const char *what) TDM_WARN_UNUSED;
/* d, of the result's shape but for the last `trailing` dimensions, which it has in common with the
 * operand: summed over what an operand of that shape repeats. */
tdm_value tdm_sum_repeated(tdm_gradient *gradient, tdm_value d, const tdm_shape *operand,
                           int trailing);
/* tdm_gradient_set of d, of the result's shape, summed over what the input repeats. */
void tdm_gradient_set_summed(tdm_gradient *gradient, size_t index, tdm_value d);
/* The rule `chunk` of an operation all of whose operands, at most so many, are broadcast. */
#define TDM_BROADCAST_INPUTS 3
tdm_status tdm_chunk_broadcast(tdm_chunked *chunked) TDM_WARN_UNUSED;
/* The same of one whose windows go over the dimensions from 2 on of x, operand 0, of which the last
 * two are axis 0 and 1; is_alone: along the axis each element is a window by itself. */
tdm_status tdm_chunk_windows(tdm_chunked *chunked, const bool is_alone[2]) TDM_WARN_UNUSED;

/* ---- Layers ---------------------------------------------------------------------------------- */

#define TDM_LAYER_NAME_BYTES 256

/* tdm_parameter of "name" "suffix", in the scope's dtype. */
tdm_value tdm_layer_parameter(tdm_graph *graph, const char *name, const char *suffix,
                              tdm_shape shape, const tdm_initializer *initializer);
/* Writes "name" "suffix" into text (TDM_LAYER_NAME_BYTES); NULL, with the graph's error, when
 * name is missing or too long. */
const char *tdm_layer_name(tdm_graph *graph, const char *name, const char *suffix, char *text);
/* tdm_options_read, with the graph's error. */
bool tdm_layer_options_read(tdm_graph *graph, const char *layer, const char *name,
                            const char *initializer, const void *options, size_t bytes,
                            void *defaults);
/* TDM_OPTIONS_READ of a layer: false, with the graph's error that names it. */
#define tdm_layer_options(graph, layer, name, kind, options, out_options)                          \
  (*(out_options) = tdm_##kind##_options_default(),                                                \
   tdm_layer_options_read(graph, layer, name, "tdm_" #kind "_options_default()",                   \
                          TDM_OPTIONS_OF(kind, options), sizeof *(out_options), out_options))
/* True if value >= least; else the graph's error names the option, its value and what is legal. */
bool tdm_layer_is_at_least(tdm_graph *graph, const char *layer, const char *name,
                           const char *option, int64_t value, int64_t least);
/* What a kernel, a stride, a padding or a dilation may be at most: products of two of them, added
 * to a dimension, are still numbers. */
#define TDM_LAYER_WINDOW_MAX INT64_C(0x7fffffff)
static inline bool tdm_layer_is_window(int64_t number, int64_t least) {
  return number >= least && number <= TDM_LAYER_WINDOW_MAX;
}
/* Is it 0 or more? If not, the graph's error names it. */
bool tdm_layer_is_size(tdm_graph *graph, const char *layer, const char *name, const char *what,
                       int64_t size);
/* Is x a value of the graph? If not, the graph's error says so. */
bool tdm_layer_accepts(tdm_graph *graph, const char *layer, const char *name, tdm_value x);
/* Returns true if dtype holds the number; otherwise the graph's error names layer, number and
 * range. what: "its value". Of no dtype, which has an error already, true. */
bool tdm_layer_holds(tdm_graph *graph, const char *layer, const char *name, tdm_dtype dtype,
                     const char *what, double number);
/* x weight^T + bias of values that are there; bias may be invalid. */
tdm_value tdm_linear_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                        tdm_value bias);
/* x under another shape, of whose dimensions number i is x's dimension sources[i], or, where that
 * is -1, a size or, once, TDM_INFER. */
tdm_value tdm_reshape_from(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape,
                           const int8_t *sources);
/* The same, but dimension i is x's sources[i] and the merged[i] behind it. */
tdm_value tdm_reshape_merged(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape,
                             const int8_t *sources, const int8_t *merged);
/* x (n, channels, ...) by each channel of an image in runs that train, which move running
 * statistics by momentum; by these, placed like `like`, in others. Without weight and bias. */
tdm_value tdm_normalize_instances(tdm_graph *graph, const char *name, tdm_value x, double epsilon,
                                  double momentum, tdm_value like);
/* Writes the mask of the dimensions (bit i: dimension i; count 0: all). False, with the graph's
 * error, where one is not x's or is named twice. */
bool tdm_reduced_mask(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                      const int *dimensions, size_t count, int64_t *out_mask);
/* The last groups of neighbouring dimensions in mask, as many as a node takes. */
int64_t tdm_reduced_last_groups(int64_t mask, int rank);
/* The root of the sum of the squares of x over the dimensions, also where squares leave the range
 * of the dtype. Nothing flows back through one that is 0. */
tdm_value tdm_root_of_squares(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                              const int *dimensions, size_t count, bool keep);
/* Normalizes x (n, groups, values) over its values, without weight and bias. One value per group at
 * n = 1 is refused. */
tdm_value tdm_normalize_groups(tdm_graph *graph, const char *name, tdm_value x, double epsilon);
/* x padded as its attributes, which are checked, say. */
tdm_value tdm_pad_with(tdm_graph *graph, const char *name, tdm_value x,
                       const tdm_pad_attributes *attributes);
/* Zeros of that shape, and at the element that index, int64, names along dimension the sum of what
 * source has for it. */
tdm_value tdm_scatter_of(tdm_graph *graph, const char *name, int dimension, tdm_value index,
                         tdm_value source, const tdm_shape *shape);
/* A dimension counted from the end when negative, of x with shape; -1, with the graph's error,
 * when there is none. */
int tdm_layer_dimension(tdm_graph *graph, const char *layer, const char *name,
                        const tdm_shape *shape, int dimension);

/* Is it less to add the rows that the ids of input `ids` name to an earlier micro-batch's gradient
 * than to make one as large as a table of that many rows? They have to be sorted first. */
bool tdm_gradient_rows_pay(tdm_gradient *gradient, size_t ids, int64_t rows);

/* ---- Optimizers ------------------------------------------------------------------------------ */

/* The state "optimizer/PARAMETER/name" of parameter index, beside it and of its dtype; a scalar or
 * of its shape; zeros at first. */
tdm_value tdm_optimizer_state(tdm_update *update, size_t index, const char *name, bool scalar);
/* The same with that value everywhere at first. */
tdm_value tdm_optimizer_state_of(tdm_update *update, size_t index, const char *name, bool scalar,
                                 double value);
/* The same of a shape of its own, zeros at first. Of a table in shards it has as many rows as the
 * shard, or (of_each) each shard has one of its own. */
tdm_value tdm_optimizer_state_shaped(tdm_update *update, size_t index, const char *name,
                                     tdm_shape shape, bool of_each);

/* Appends the update of parameter index, whose output 0 is the parameter, and the moving average of
 * that where the optimizer keeps one. */
void tdm_append_update(tdm_update *update, size_t index, const tdm_operation *operation,
                       const void *attributes, const tdm_value *operands, size_t count);

/* A rule for an update: operand 1 has the dtype of operand 0, the parameter, which output 0
 * overwrites; the other outputs overwrite the last operands. */
tdm_status tdm_infer_update(tdm_infer *infer) TDM_WARN_UNUSED;

/* An optimizer whose options its initializer, rule->name, did not make: creating a session with it
 * fails. */
tdm_status tdm_optimizer_refuse(tdm_update *update) TDM_WARN_UNUSED;
/* Declares `tdm_KIND_options chosen` and `tdm_optimizer optimizer`, the options (may be NULL)
 * completed and an optimizer of that rule and rate; returns from an optimizer's constructor where
 * the options' initializer did not make them. */
#define TDM_READ_OPTIMIZER(kind, options)                                                          \
  static const tdm_optimizer_rule refused = {.name = "tdm_" #kind "_options_default()",            \
                                             .accepts_sparse = true,                               \
                                             .append = tdm_optimizer_refuse};                      \
  tdm_optimizer optimizer = tdm_optimizer_default();                                               \
  tdm_##kind##_options chosen;                                                                     \
  optimizer.rule = &refused;                                                                       \
  if (TDM_OPTIONS_READ("optimizer", kind, options, &chosen) != TDM_OK) return optimizer;           \
  optimizer.learning_rate = chosen.learning_rate

/* Is it what most settings must be: finite, and not negative? */
static inline bool tdm_is_setting(double number) {
  return number >= 0.0 && isfinite(number);
}

/* value, or, where it is TDM_DEFAULT, what that stands for. */
static inline double tdm_or_default(double value, double otherwise) {
  return value == TDM_DEFAULT ? otherwise : value;
}

/* ---- Tables in shards: what embeddings and bags share (embedding.c) ---- */

/* At a shard's home, with a dense and a sparse gradient (tdm_look_up.at_owner). */
extern const tdm_operation tdm_shard_rows;
extern const tdm_operation tdm_shard_rows_sparse;

#endif
