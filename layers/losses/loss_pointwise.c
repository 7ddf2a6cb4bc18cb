/* Elementwise losses of two broadcast values: mean squared error, L1, smooth L1, Huber (P. J.
 * Huber, "Robust estimation of a location parameter", 1964), binary cross-entropy. Invariant: L1,
 * smooth L1 and Huber are one operation: with beta 0, with beta, and with beta and a factor. */
#include "layers/losses/loss.h"
#include "tandem/layers/layers.h"

static const tdm_shape scalar = {.rank = 0};

/* ---- In micro-batches ------------------------------------------------------------------------ */

static tdm_value count_elements(tdm_chunked *chunked) {
  const tdm_shape whole = tdm_chunked_shape(chunked, 0);
  const tdm_loss_attributes *loss = tdm_chunked_attributes(chunked);
  const bool by_batch = loss->reduction == TDM_REDUCTION_BATCH_MEAN;
  const int64_t count = by_batch ? whole.dims[0] : tdm_shape_count(&whole);
  return tdm_full_like(tdm_chunked_graph(chunked), tdm_chunked_name(chunked),
                       tdm_chunked_output(chunked, 0, 0), (double)count);
}

tdm_status tdm_loss_chunk_elements(tdm_chunked *chunked) {
  return tdm_loss_chunk(chunked, count_elements);
}

/* ---- Differences ----------------------------------------------------------------------------- */

static tdm_status infer_difference(tdm_infer *infer) {
  tdm_shape shape;
  TDM_TRY(tdm_expect_floating(infer, 0, "a"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "a", "b"));
  TDM_TRY(tdm_expect_one_shape(infer, 0, "a", 1, "b", &shape));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, tdm_loss_reduces(infer) ? &scalar : &shape);
  return TDM_OK;
}

/* Appends both gradients; one is the negative of the other. */
static tdm_status append_difference_gradient(tdm_gradient *gradient,
                                             const tdm_operation *operation) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  for (size_t i = 0; i < 2; i++) {
    if (!tdm_gradient_wanted(gradient, i)) continue;
    const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                  tdm_gradient_input(gradient, i),
                                  tdm_gradient_input(gradient, 1 - i)};
    tdm_gradient_set(gradient, i,
                     tdm_append(graph, operation, tdm_gradient_name(gradient),
                                tdm_gradient_attributes(gradient), operands, 3, NULL));
  }
  return tdm_graph_status(graph);
}

/* d_loss, a, b -> d_a. */
static const tdm_operation mse_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_MSE_GRADIENT,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 3,
    .max_inputs = 3,
    .output_count = 1,
    .infer = tdm_infer_like_second,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_mse_gradient(tdm_gradient *gradient) {
  return append_difference_gradient(gradient, &mse_gradient);
}

static const tdm_operation mse_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_MSE,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_difference,
    .gradient = append_mse_gradient,
    .chunk = tdm_loss_chunk_elements,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

/* d_loss, a, b -> d_a. */
static const tdm_operation smooth_l1_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SMOOTH_L1_GRADIENT,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 3,
    .max_inputs = 3,
    .output_count = 1,
    .infer = tdm_infer_like_second,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_smooth_l1_gradient(tdm_gradient *gradient) {
  return append_difference_gradient(gradient, &smooth_l1_gradient);
}

static const tdm_operation smooth_l1_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SMOOTH_L1,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_difference,
    .gradient = append_smooth_l1_gradient,
    .chunk = tdm_loss_chunk_elements,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

static tdm_value append_difference(tdm_graph *graph, const tdm_operation *operation,
                                   const char *loss, const char *name, tdm_value a, tdm_value b,
                                   tdm_loss_attributes attributes) {
  tdm_value operands[] = {a, b};
  if (!tdm_loss_broadcast(graph, loss, name, operands)) return TDM_NO_VALUE;
  return tdm_append(graph, operation, name, &attributes, operands, 2, NULL);
}

tdm_value tdm_mse_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                       const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "mse", name, options, 0, &chosen)) return TDM_NO_VALUE;
  return append_difference(graph, &mse_operation, "mse", name, a, b,
                           tdm_loss_attributes_of(&chosen));
}

tdm_value tdm_mse(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return tdm_mse_with(graph, name, a, b, NULL);
}

tdm_value tdm_l1_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                      const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "l1", name, options, 0, &chosen)) return TDM_NO_VALUE;
  tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  attributes.scale = 1.0;
  return append_difference(graph, &smooth_l1_operation, "l1", name, a, b, attributes);
}

tdm_value tdm_l1(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return tdm_l1_with(graph, name, a, b, NULL);
}

/* Appends smooth_l1; for Huber, its product with beta. */
static tdm_value append_smooth(tdm_graph *graph, const char *loss, bool huber, const char *name,
                               tdm_value a, tdm_value b, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, loss, name, options, TDM_LOSS_USES_BETA, &chosen))
    return TDM_NO_VALUE;
  tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  attributes.beta = chosen.beta;
  attributes.scale = huber ? attributes.beta : 1.0;
  if (!(attributes.beta > 0.0) && (huber || attributes.beta != 0.0))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: beta is %g, and must be positive%s",
                          loss, name, attributes.beta, huber ? "" : ", or 0");
  return append_difference(graph, &smooth_l1_operation, loss, name, a, b, attributes);
}

tdm_value tdm_smooth_l1_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                             const tdm_loss_options *options) {
  return append_smooth(graph, "smooth_l1", false, name, a, b, options);
}

tdm_value tdm_smooth_l1(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return append_smooth(graph, "smooth_l1", false, name, a, b, NULL);
}

tdm_value tdm_huber_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                         const tdm_loss_options *options) {
  return append_smooth(graph, "huber", true, name, a, b, options);
}

tdm_value tdm_huber(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return append_smooth(graph, "huber", true, name, a, b, NULL);
}

/* ---- Binary cross-entropy -------------------------------------------------------------------- */

static tdm_status infer_binary(tdm_infer *infer) {
  tdm_shape shape;
  TDM_TRY(tdm_expect_floating(infer, 0, "logits"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "logits", "targets"));
  TDM_TRY(tdm_expect_one_shape(infer, 0, "logits", 1, "targets", &shape));
  TDM_TRY(tdm_loss_expect_last(infer, 2, "logits", "weight", &shape));
  TDM_TRY(tdm_loss_expect_last(infer, 3, "logits", "pos_weight", &shape));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, tdm_loss_reduces(infer) ? &scalar : &shape);
  return TDM_OK;
}

/* d_loss, logits, targets, [weight], [pos_weight] -> d_logits. */
static const tdm_operation binary_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_BINARY_CROSS_ENTROPY_GRADIENT,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 3,
    .max_inputs = 5,
    .output_count = 1,
    .infer = tdm_infer_like_second,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_binary_gradient(tdm_gradient *gradient) {
  static const char *const others[] = {NULL, "targets", "weight", "pos_weight"};
  for (size_t i = 1; i < 4; i++)
    TDM_TRY(tdm_gradient_refuse(gradient, i, others[i]));
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_value operands[5] = {tdm_gradient_of_output(gradient, 0)};
  for (size_t i = 0; i < 4; i++)
    operands[i + 1] = tdm_gradient_input(gradient, i);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &binary_gradient, tdm_gradient_name(gradient),
                              tdm_gradient_attributes(gradient), operands, 5, NULL));
  return tdm_graph_status(graph);
}

#define BINARY(called)                                                                             \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = TDM_OP_BINARY_CROSS_ENTROPY,                     \
    .attribute_bytes = sizeof(tdm_loss_attributes), .min_inputs = 2, .max_inputs = 4,              \
    .output_count = 1, .infer = infer_binary, .gradient = append_binary_gradient,                  \
    .chunk = tdm_loss_chunk_elements, .work = tdm_work_streams,                                    \
    .precision = TDM_PRECISION_FLOAT32, .layer = (called),                                         \
  }

static const tdm_operation binary_operation = BINARY(NULL);
const tdm_operation tdm_operation_multilabel_soft_margin = BINARY("multilabel_soft_margin");

TDM_RECORDS(loss_pointwise, {.operation = &mse_operation, .functions = "tdm_mse"},
            {.operation = &mse_gradient},
            {.operation = &smooth_l1_operation, .functions = "tdm_smooth_l1 tdm_huber tdm_l1"},
            {.operation = &smooth_l1_gradient},
            {.operation = &binary_operation, .functions = "tdm_binary_cross_entropy"},
            {.operation = &tdm_operation_multilabel_soft_margin}, {.operation = &binary_gradient});

tdm_value tdm_binary_cross_entropy_with(tdm_graph *graph, const char *name, tdm_value logits,
                                        tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  const unsigned uses = TDM_LOSS_USES_WEIGHT | TDM_LOSS_USES_POS_WEIGHT;
  if (!tdm_loss_options_read(graph, TDM_OP_BINARY_CROSS_ENTROPY, name, options, uses, &chosen))
    return TDM_NO_VALUE;
  const tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  const tdm_value operands[] = {logits, targets, chosen.weight, chosen.pos_weight};
  return tdm_append(graph, &binary_operation, name, &attributes, operands, 4, NULL);
}

tdm_value tdm_binary_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                   tdm_value targets) {
  return tdm_binary_cross_entropy_with(graph, name, logits, targets, NULL);
}
