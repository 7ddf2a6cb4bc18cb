/* Code that all layers share: checks for shape rules, names of parameters, options structs. Checks
 * return INVALID_ARGUMENT with a message that names operands and shapes; the graph prepends the
 * operation and the path. */
#ifndef TANDEM_LAYERS_COMMON_H
#define TANDEM_LAYERS_COMMON_H

#include <math.h>

#include "core/options.h"
#include "core/status.h"
#include "devices/kernels.h"
#include "graph/ir/records.h"
#include "tandem/graph/graph.h"

/* ---- Shape rules ----------------------------------------------------------------------------- */

/* Fails unless the operand at index is present and has a floating dtype; the second function
 * requires int32 or int64. */
tdm_status tdm_expect_floating(const tdm_infer *infer, size_t index,
                               const char *what) TDM_WARN_UNUSED;
tdm_status tdm_expect_ids(const tdm_infer *infer, size_t index, const char *what) TDM_WARN_UNUSED;
/* Fails unless the operand is floating and has the dtype of operand 0, which the message calls
 * `first`. */
tdm_status tdm_expect_dtype_of_first(const tdm_infer *infer, size_t index, const char *first,
                                     const char *what) TDM_WARN_UNUSED;
tdm_status tdm_expect_rank(const tdm_infer *infer, size_t index, const char *what, int least,
                           int most) TDM_WARN_UNUSED;
/* Fails unless the operand's shape agrees with expected: "h0 expects [batch, 16], has [batch,
 * 8]". */
tdm_status tdm_expect_shape(const tdm_infer *infer, size_t index, const char *what,
                            const tdm_shape *expected) TDM_WARN_UNUSED;
/* Fails unless operands a and b have equal shapes. For each dimension, *out_shape receives the more
 * specific one of both. */
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
/* Returns the last dimension of a shape of rank 1 or more. */
static inline tdm_dim *tdm_shape_last(tdm_shape *shape) {
  return &shape->dims[shape->rank - 1];
}

/* Shape rules for one output like operand 0, and for one like operand 1. */
tdm_status tdm_infer_like_first(tdm_infer *infer) TDM_WARN_UNUSED;
tdm_status tdm_infer_like_second(tdm_infer *infer) TDM_WARN_UNUSED;
/* Shape rule for an output like operand 0, "x", which must be floating. */
tdm_status tdm_infer_floating_like_first(tdm_infer *infer) TDM_WARN_UNUSED;

/* ---- Work ------------------------------------------------------------------------------------ */

/* Counts the work of a layer with a weight, whose dimension 0 is that of its output. For each
 * element of y, it has as many products as the weight has elements for one output. The functions
 * are for x, weight, ... -> y; for d_y, weight -> d_x; and for d_y, x -> d_weight, ... */
void tdm_work_products(const tdm_infer *node, tdm_work *work);
void tdm_work_products_input(const tdm_infer *node, tdm_work *work);
void tdm_work_products_parameter(const tdm_infer *node, tdm_work *work);

/* d_y, weight -> d_x of a convolution; as a layer it is the transposed convolution of d_y. */
extern const tdm_operation tdm_operation_convolution_input_gradient;
/* Appends a convolution of x with an existing weight, without bias, with checked attributes. */
tdm_value tdm_convolution_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                             const tdm_convolution_attributes *attributes);
/* a, b -> a b and a / b, broadcast; gradients are composed of them. */
extern const tdm_operation tdm_operation_mul;
extern const tdm_operation tdm_operation_div;

/* ---- Broadcasting ---------------------------------------------------------------------------- */

/* Writes the shape that a and b are broadcast to; out_shape may be either of them. Fails with
 * INVALID_ARGUMENT, naming both, if they cannot be broadcast. */
tdm_status tdm_shape_broadcast(const tdm_shape *a, const char *a_name, const tdm_shape *b,
                               const char *b_name, tdm_shape *out_shape) TDM_WARN_UNUSED;
tdm_status tdm_expect_broadcast(const tdm_infer *infer, size_t a, const char *a_name, size_t b,
                                const char *b_name, tdm_shape *out_shape) TDM_WARN_UNUSED;
/* Fails with UNSUPPORTED if a gradient is required for an input that has none. what: the input's
 * name, "targets". */
tdm_status tdm_gradient_refuse(const tdm_gradient *gradient, size_t input,
                               const char *what) TDM_WARN_UNUSED;
/* Returns d summed over the dimensions in which an operand of that shape was broadcast. d has the
 * result's shape except in the last `trailing` dimensions, which equal the operand's. */
tdm_value tdm_sum_repeated(tdm_gradient *gradient, tdm_value d, const tdm_shape *operand,
                           int trailing);
/* Calls tdm_gradient_set with d, of the result's shape, summed over the dimensions in which the
 * input was broadcast. */
void tdm_gradient_set_summed(tdm_gradient *gradient, size_t index, tdm_value d);
/* The rule `chunk` of an operation whose operands are all broadcast. It may have at most this
 * many. */
#define TDM_BROADCAST_INPUTS 3
tdm_status tdm_chunk_broadcast(tdm_chunked *chunked) TDM_WARN_UNUSED;
/* The rule `chunk` of an operation whose windows move over the dimensions of x, operand 0, from
 * dimension 2 on; the last two are axis 0 and 1. is_alone: each window along the axis is one
 * element. */
tdm_status tdm_chunk_windows(tdm_chunked *chunked, const bool is_alone[2]) TDM_WARN_UNUSED;

/* ---- Layers ---------------------------------------------------------------------------------- */

#define TDM_LAYER_NAME_BYTES 256

/* Creates the parameter "name" "suffix" with tdm_parameter, in the scope's dtype. */
tdm_value tdm_layer_parameter(tdm_graph *graph, const char *name, const char *suffix,
                              tdm_shape shape, const tdm_initializer *initializer);
/* Writes "name" "suffix" into text (TDM_LAYER_NAME_BYTES). Returns NULL with the graph's error if
 * name is missing or too long. */
const char *tdm_layer_name(tdm_graph *graph, const char *name, const char *suffix, char *text);
/* Calls tdm_options_read; a failure becomes the graph's error. */
bool tdm_layer_options_read(tdm_graph *graph, const char *layer, const char *name,
                            const char *initializer, const void *options, size_t bytes,
                            void *defaults);
/* TDM_OPTIONS_READ for a layer: false with the graph's error, which names the layer. */
#define tdm_layer_options(graph, layer, name, kind, options, out_options)                          \
  (*(out_options) = tdm_##kind##_options_default(),                                                \
   tdm_layer_options_read(graph, layer, name, "tdm_" #kind "_options_default()",                   \
                          TDM_OPTIONS_OF(kind, options), sizeof *(out_options), out_options))
/* Returns true if value >= least; otherwise the graph's error names the option, its value and the
 * legal values. */
bool tdm_layer_is_at_least(tdm_graph *graph, const char *layer, const char *name,
                           const char *option, int64_t value, int64_t least);
/* Maximum of a kernel size, stride, padding or dilation: products of two of them, added to a
 * dimension, do not overflow. */
#define TDM_LAYER_WINDOW_MAX INT64_C(0x7fffffff)
static inline bool tdm_layer_is_window(int64_t number, int64_t least) {
  return number >= least && number <= TDM_LAYER_WINDOW_MAX;
}
/* Returns true if the size is 0 or more; otherwise the graph's error names it. */
bool tdm_layer_is_size(tdm_graph *graph, const char *layer, const char *name, const char *what,
                       int64_t size);
/* Returns true if x is a value of the graph; otherwise the graph has an error. */
bool tdm_layer_accepts(tdm_graph *graph, const char *layer, const char *name, tdm_value x);
/* Returns true if dtype can represent the number; otherwise the graph's error names layer, number
 * and range. what: "its value". Returns true for no dtype, which was reported before. */
bool tdm_layer_holds(tdm_graph *graph, const char *layer, const char *name, tdm_dtype dtype,
                     const char *what, double number);
/* Appends x weight^T + bias for existing values; bias may be invalid. */
tdm_value tdm_linear_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value weight,
                        tdm_value bias);
/* Returns x reshaped. Dimension i of the shape is x's dimension sources[i]; if sources[i] is -1, it
 * is a size or, at most once, TDM_INFER. */
tdm_value tdm_reshape_from(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape,
                           const int8_t *sources);
/* Like tdm_reshape_from, but dimension i merges x's dimension sources[i] and the merged[i]
 * dimensions after it. */
tdm_value tdm_reshape_merged(tdm_graph *graph, const char *name, tdm_value x, tdm_shape shape,
                             const int8_t *sources, const int8_t *merged);
/* Normalizes each channel of each image of x (n, channels, ...), without weight and bias. In
 * training it uses the image's statistics and updates the running statistics by momentum; otherwise
 * it uses the running statistics, which are on the device of `like`. */
tdm_value tdm_normalize_instances(tdm_graph *graph, const char *name, tdm_value x, double epsilon,
                                  double momentum, tdm_value like);
/* Writes the mask of the dimensions (bit i: dimension i; count 0: all). Returns false with the
 * graph's error if x lacks one or one is named twice. */
bool tdm_reduced_mask(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                      const int *dimensions, size_t count, int64_t *out_mask);
/* Returns the last groups of adjacent dimensions in mask, as many as one node supports. */
int64_t tdm_reduced_last_groups(int64_t mask, int rank);
/* Returns the root of the sum of squares of x over the dimensions, without overflow or underflow of
 * the squares. A root of 0 has the gradient 0. */
tdm_value tdm_root_of_squares(tdm_graph *graph, const char *layer, const char *name, tdm_value x,
                              const int *dimensions, size_t count, bool keep);
/* Normalizes x (n, groups, values) over its values, without weight and bias. Fails for one value
 * per group if n = 1. */
tdm_value tdm_normalize_groups(tdm_graph *graph, const char *name, tdm_value x, double epsilon);
/* Returns x padded according to the attributes, which are checked. */
tdm_value tdm_pad_with(tdm_graph *graph, const char *name, tdm_value x,
                       const tdm_pad_attributes *attributes);
/* Returns zeros of that shape, plus the elements of source, each added at its index (int64) along
 * dimension. */
tdm_value tdm_scatter_of(tdm_graph *graph, const char *name, int dimension, tdm_value index,
                         tdm_value source, const tdm_shape *shape);
/* Returns the dimension, which counts from the end if negative, of x with shape, or -1 with the
 * graph's error if x lacks it. */
int tdm_layer_dimension(tdm_graph *graph, const char *layer, const char *name,
                        const tdm_shape *shape, int dimension);

/* Returns true if adding the rows that the ids of input `ids` name to an earlier micro-batch's
 * gradient takes less time than computing a gradient of the whole table of `rows` rows. Sorting the
 * rows is included. */
bool tdm_gradient_rows_pay(tdm_gradient *gradient, size_t ids, int64_t rows);

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Returns false with the graph's error unless epsilon is finite and not negative. */
bool tdm_layer_epsilon(tdm_graph *graph, const char *layer, const char *name, double epsilon);
/* Returns true if the number is finite and not negative, the range of most settings. */
static inline bool tdm_is_setting(double number) {
  return number >= 0.0 && isfinite(number);
}

/* Returns value, or `otherwise` if it is TDM_DEFAULT. */
static inline double tdm_or_default(double value, double otherwise) {
  return value == TDM_DEFAULT ? otherwise : value;
}

/* ---- Tables in shards: what embeddings and bags share (embedding.c) -------------------------- */

/* Runs on a shard's device, with a dense and a sparse gradient (tdm_look_up.at_owner). */
extern const tdm_operation tdm_shard_rows;
extern const tdm_operation tdm_shard_rows_sparse;

#endif
