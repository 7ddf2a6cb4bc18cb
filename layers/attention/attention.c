/* Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017). Invariant: the
 * gradient recomputes the weights, with the same dropout, from the outputs of the forward node: its
 * result and the logarithms of the sums. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "layers/arguments.h"
#include "layers/attention/attention.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

enum { Q, K, V, PADDING, MASK };

/* ---- Shapes ---------------------------------------------------------------------------------- */

static tdm_status expect_heads(const tdm_infer *infer, size_t index, const char *what) {
  const tdm_attention_attributes *attributes = infer->attributes;
  const tdm_shape *shape = tdm_infer_shape(infer, index);
  if (shape->dims[2] > 0 && shape->dims[2] % attributes->heads == 0) return TDM_OK;
  char text[TDM_SHAPE_TEXT];
  return tdm_fail(TDM_INVALID_ARGUMENT, "%s is %s: %lld heads cannot share its last dimension",
                  what, tdm_shape_text(shape, text, sizeof text), (long long)attributes->heads);
}

/* Checks a mask of (batch heads, queries, keys) or of one matrix for all of these. Its dtype is
 * bool, or floating for a mask that is added. */
static tdm_status expect_mask(const tdm_infer *infer, tdm_dim batch) {
  const tdm_attention_attributes *attributes = infer->attributes;
  const tdm_dim queries = tdm_infer_shape(infer, Q)->dims[1];
  const tdm_dim keys = tdm_infer_shape(infer, K)->dims[1];
  const bool each = tdm_infer_shape(infer, MASK)->rank == 4;
  const tdm_shape one = {.rank = 2, .dims = {queries, keys}};
  const tdm_shape all = {.rank = 4, .dims = {batch, attributes->heads, queries, keys}};
  if (infer->inputs[MASK].dtype != TDM_BOOL)
    TDM_TRY(tdm_expect_dtype_of_first(infer, MASK, "q", "a mask that is not bool"));
  return tdm_expect_shape(infer, MASK, "mask", each ? &all : &one);
}

static tdm_status infer_attention(tdm_infer *infer) {
  static const char *const names[] = {"q", "k", "v"};
  const tdm_attention_attributes *attributes = infer->attributes;
  for (size_t i = Q; i <= V; i++) {
    TDM_TRY(tdm_expect_floating(infer, i, names[i]));
    if (i > Q) TDM_TRY(tdm_expect_dtype_of_first(infer, i, "q", names[i]));
    TDM_TRY(tdm_expect_rank(infer, i, names[i], 3, 3));
    TDM_TRY(expect_heads(infer, i, names[i]));
  }
  const tdm_shape *q = tdm_infer_shape(infer, Q), *k = tdm_infer_shape(infer, K);
  const tdm_shape *v = tdm_infer_shape(infer, V);
  const tdm_shape keys = {.rank = 3, .dims = {q->dims[0], k->dims[1], q->dims[2]}};
  const tdm_shape values = {.rank = 3, .dims = {q->dims[0], k->dims[1], v->dims[2]}};
  TDM_TRY(tdm_expect_shape(infer, K, "k", &keys));
  TDM_TRY(tdm_expect_shape(infer, V, "v", &values));
  if (tdm_infer_has(infer, PADDING)) {
    const tdm_shape padding = {.rank = 2, .dims = {q->dims[0], k->dims[1]}};
    if (infer->inputs[PADDING].dtype != TDM_BOOL)
      return tdm_fail(TDM_INVALID_ARGUMENT, "padding is %s, and must be bool",
                      tdm_dtype_name(infer->inputs[PADDING].dtype));
    TDM_TRY(tdm_expect_shape(infer, PADDING, "padding", &padding));
  }
  const tdm_dim batch = tdm_dim_merge(q->dims[0], k->dims[0]);
  if (tdm_infer_has(infer, MASK)) TDM_TRY(expect_mask(infer, batch));
  const tdm_shape y = {.rank = 3, .dims = {batch, q->dims[1], v->dims[2]}};
  const tdm_shape sums = {.rank = 3, .dims = {batch, attributes->heads, q->dims[1]}};
  tdm_infer_set(infer, 0, infer->inputs[Q].dtype, &y);
  tdm_infer_set(infer, 1, infer->inputs[Q].dtype, &sums);
  return TDM_OK;
}

/* d_y, q, k, v, y, log_sums, [padding], [mask] -> d_q, d_k, d_v. */
static tdm_status infer_gradient(tdm_infer *infer) {
  for (size_t i = Q; i <= V; i++)
    tdm_infer_set(infer, i, infer->inputs[0].dtype, tdm_infer_shape(infer, 1 + i));
  return TDM_OK;
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* Returns the number of pairs of a query and a key that it may attend to, over all heads of the
 * batch. Masks are ignored. */
static double count_pairs(const void *attributes, const tdm_spec *q, const tdm_spec *k) {
  const tdm_attention_attributes *of = attributes;
  const double queries = (double)q->shape.dims[1], keys = (double)k->shape.dims[1];
  const double early = fmin(queries, keys); /* queries that attend to 1, 2, ... keys */
  const double seen =
      of->causal ? early * (early + 1) / 2 + (queries - early) * keys : queries * keys;
  return seen * (double)q->shape.dims[0] * (double)of->heads;
}

/* Counts the products of q and k, and of the weights and v. */
static void attention_work(const tdm_infer *node, tdm_work *work) {
  const tdm_attention_attributes *attributes = node->attributes;
  const double dim = tdm_work_width(&node->inputs[Q]) / (double)attributes->heads;
  const double width = tdm_work_width(&node->inputs[V]) / (double)attributes->heads;
  work->flops = 2 * count_pairs(attributes, &node->inputs[Q], &node->inputs[K]) * (dim + width);
}

/* Counts the products of the gradient: the recomputed weights, the gradients of the weights and of
 * v, and the gradients of q and k. */
static void gradient_work(const tdm_infer *node, tdm_work *work) {
  const tdm_attention_attributes *attributes = node->attributes;
  const tdm_spec *q = &node->inputs[1 + Q], *k = &node->inputs[1 + K];
  const double dim = tdm_work_width(q) / (double)attributes->heads;
  const double width = tdm_work_width(&node->inputs[1 + V]) / (double)attributes->heads;
  work->flops = 2 * count_pairs(attributes, q, k) * (3 * dim + 2 * width);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static const tdm_operation attention_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ATTENTION_GRADIENT,
    .attribute_bytes = sizeof(tdm_attention_attributes),
    .min_inputs = 6,
    .max_inputs = 8,
    .output_count = 3,
    .infer = infer_gradient,
    .work = gradient_work,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  TDM_TRY(tdm_gradient_refuse(gradient, MASK, "mask"));
  const tdm_value operands[] = {
      tdm_gradient_of_output(gradient, 0),   tdm_gradient_input(gradient, Q),
      tdm_gradient_input(gradient, K),       tdm_gradient_input(gradient, V),
      tdm_gradient_output(gradient, 0),      tdm_gradient_output(gradient, 1),
      tdm_gradient_input(gradient, PADDING), tdm_gradient_input(gradient, MASK)};
  tdm_value slopes[3];
  tdm_append(graph, &attention_gradient, tdm_gradient_name(gradient),
             tdm_gradient_attributes(gradient), operands, 8, slopes);
  for (size_t i = Q; i <= V; i++)
    if (tdm_gradient_wanted(gradient, i)) tdm_gradient_set(gradient, i, slopes[i]);
  return tdm_graph_status(graph);
}

/* Splits along the batch. Queries and keys of a batch must stay in one part. */
static tdm_status chunk_attention(tdm_chunked *chunked) {
  for (size_t i = Q; i <= MASK; i++) {
    const int dimension = tdm_chunked_cut(chunked, i).dimension;
    const bool by_rows = i < MASK || tdm_chunked_shape(chunked, i).rank == 4;
    if (dimension > 0 || (dimension == 0 && !by_rows))
      return tdm_chunked_rows(chunked, dimension, i); /* fails with a message */
  }
  return tdm_chunked_each(chunked, NULL);
}

#define ATTENTION(variable, kernel, training)                                                      \
  static const tdm_operation variable = {                                                          \
      .struct_size = sizeof(tdm_operation),                                                        \
      .name = kernel,                                                                              \
      .attribute_bytes = sizeof(tdm_attention_attributes),                                         \
      .min_inputs = 3,                                                                             \
      .max_inputs = 5,                                                                             \
      .output_count = 2,                                                                           \
      .infer = infer_attention,                                                                    \
      .gradient = append_gradient,                                                                 \
      .when_training = training,                                                                   \
      .chunk_at = 1 + offsetof(tdm_attention_attributes, chunk),                                   \
      .chunk = chunk_attention,                                                                    \
      .work = attention_work,                                                                      \
      .precision = TDM_PRECISION_LOWER,                                                            \
      .layer = TDM_OP_ATTENTION,                                                                   \
  }

ATTENTION(attention, TDM_OP_ATTENTION, NULL);
ATTENTION(attention_that_drops, TDM_OP_ATTENTION_DROPOUT, NULL);
ATTENTION(attention_with_dropout, TDM_OP_ATTENTION, &attention_that_drops);

#define DRAWN "PyTorch draws other numbers; tests/devices/kernels has them from a reference"
TDM_RECORDS(attention,
            {.operation = &attention,
             .functions = "tdm_attention tdm_multi_head_attention tdm_transformer_encoder_layer "
                          "tdm_transformer_decoder_layer"},
            {.operation = &attention_with_dropout},
            {.operation = &attention_that_drops, .no_golden = DRAWN, .no_differences = DRAWN},
            {.operation = &attention_gradient});

/* Returns true unless a mask (batch heads, queries, keys) has another number of batch heads. */
static bool has_heads(tdm_graph *graph, const char *name, tdm_value mask, tdm_value q,
                      int64_t heads) {
  const tdm_shape shape = tdm_value_shape(graph, mask), queries = tdm_value_shape(graph, q);
  if (!tdm_value_is_valid(mask) || shape.rank != 3 || queries.rank != 3) return true;
  tdm_shape expected = shape;
  const tdm_dim batch = queries.dims[0];
  expected.dims[0] = tdm_dim_is_size(batch) ? batch * heads : TDM_DIM_UNKNOWN;
  return tdm_argument_has_shape(graph, "attention", name, "mask", mask, &expected);
}

tdm_value tdm_mask_by_heads(tdm_graph *graph, const char *name, tdm_value mask, int64_t heads) {
  const tdm_shape shape = tdm_value_shape(graph, mask);
  if (!tdm_value_is_valid(mask) || shape.rank != 3) return mask;
  return tdm_reshape(graph, name, mask,
                     tdm_shape_of(4, TDM_INFER, heads, shape.dims[1], shape.dims[2]));
}

tdm_value tdm_attention(tdm_graph *graph, const char *name, tdm_value q, tdm_value k, tdm_value v,
                        const tdm_attention_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_attention_options chosen;
  if (!tdm_layer_options(graph, "attention", name, attention, options, &chosen) ||
      !tdm_argument_is_value(graph, "attention", name, "q", q) ||
      !tdm_argument_is_value(graph, "attention", name, "k", k) ||
      !tdm_argument_is_value(graph, "attention", name, "v", v))
    return TDM_NO_VALUE;
  if (!tdm_layer_is_at_least(graph, "attention", name, "heads", chosen.heads, 1))
    return TDM_NO_VALUE;
  if (!isfinite(chosen.scale))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "attention %s: scale is %g, expected a finite number", name,
                          chosen.scale);
  if (!(chosen.dropout >= 0 && chosen.dropout <= 1))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "attention %s: dropout is %g, expected a probability, 0 to 1", name,
                          chosen.dropout);
  tdm_attention_attributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.heads = chosen.heads;
  attributes.causal = chosen.causal;
  attributes.p = chosen.dropout;
  attributes.scale = chosen.scale;
  if (chosen.scale == TDM_DEFAULT) {
    tdm_shape shape = tdm_value_shape(graph, q);
    const int64_t size = shape.rank > 0 ? *tdm_shape_last(&shape) / attributes.heads : 0;
    attributes.scale = size > 0 ? 1 / sqrt((double)size) : 1; /* size 0 fails in the shape rule */
  }
  if (chosen.dropout > 0) attributes.stream = tdm_graph_stream(graph, name);
  if (!has_heads(graph, name, chosen.mask, q, attributes.heads)) return TDM_NO_VALUE;
  const tdm_value mask = tdm_mask_by_heads(graph, name, chosen.mask, attributes.heads);
  const tdm_value operands[] = {q, k, v, chosen.padding, mask};
  return tdm_append(graph, chosen.dropout > 0 ? &attention_with_dropout : &attention, name,
                    &attributes, operands, 5, NULL);
}
