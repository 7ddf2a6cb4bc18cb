/* Losses: cross-entropy of logits, mean-squared error. Invariant: a loss has the dtype of what it
 * judges, and is a scalar unless nothing is reduced. */
#include "layers/common.h"
#include "layers/layers.h"

_Static_assert((int)TDM_LOSS_MEAN == (int)TDM_REDUCTION_MEAN &&
                   (int)TDM_LOSS_SUM == (int)TDM_REDUCTION_SUM &&
                   (int)TDM_LOSS_NONE == (int)TDM_REDUCTION_NONE,
               "the public reductions are the kernels'");

static const tdm_shape scalar = {.rank = 0};

static bool reduces(const tdm_infer *infer) {
  const tdm_loss_attributes *attributes = infer->attributes;
  return attributes->reduction != TDM_REDUCTION_NONE;
}

/* ---- In micro-batches: sums of the parts, divided by a count of the whole ---------------------
 */

static tdm_status append_divide_gradient(tdm_gradient *gradient);

/* x, s () -> x / s; the count s is no one's parameter. */
static const tdm_operation divide_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DIVIDE,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .gradient = append_divide_gradient,
};

static tdm_status append_divide_gradient(tdm_gradient *gradient) {
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 1)};
  tdm_gradient_set(
      gradient, 0,
      tdm_append(graph, &divide_operation, tdm_gradient_name(gradient), NULL, operands, 2, NULL));
  return tdm_graph_status(graph);
}

/* Computes every part's sum; the loss is their sum divided by count (invalid: by nothing). */
typedef tdm_value (*target_count)(tdm_chunked *chunked);

static tdm_status chunk_loss(tdm_chunked *chunked, target_count count) {
  tdm_loss_attributes attributes = *(const tdm_loss_attributes *)tdm_chunked_attributes(chunked);
  if (attributes.reduction == TDM_REDUCTION_NONE) return tdm_chunked_each(chunked, NULL);
  const bool divides = attributes.reduction == TDM_REDUCTION_MEAN;
  attributes.reduction = TDM_REDUCTION_SUM;
  TDM_TRY(tdm_chunked_each(chunked, &attributes));
  tdm_value parts[TDM_MAX_PARTS];
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++)
    parts[i] = tdm_chunked_output(chunked, 0, i);
  tdm_value operands[2] = {tdm_chunked_sum(chunked, parts)};
  if (divides) {
    operands[1] = count(chunked);
    operands[0] = tdm_append(tdm_chunked_graph(chunked), &divide_operation,
                             tdm_chunked_name(chunked), NULL, operands, 2, NULL);
  }
  tdm_chunked_set_whole(chunked, 0, operands[0]);
  return TDM_OK;
}

/* ---- Cross-entropy --------------------------------------------------------------------------- */

static tdm_status infer_cross_entropy(tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, 0, "logits"));
  TDM_TRY(tdm_expect_ids(infer, 1, "targets"));
  TDM_TRY(tdm_expect_rank(infer, 0, "logits", 2, 2));
  tdm_shape logits = *tdm_infer_shape(infer, 0);
  tdm_shape rows = {.rank = 1, .dims = {logits.dims[0]}};
  if (tdm_infer_shape(infer, 1)->rank != 1 ||
      !tdm_dim_agree(rows.dims[0], tdm_infer_shape(infer, 1)->dims[0])) {
    char logits_text[TDM_SHAPE_TEXT];
    char targets_text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "logits are %s, targets %s: one target a row is needed",
                    tdm_shape_text(&logits, logits_text, sizeof logits_text),
                    tdm_shape_text(tdm_infer_shape(infer, 1), targets_text, sizeof targets_text));
  }
  rows.dims[0] = tdm_dim_merge(rows.dims[0], tdm_infer_shape(infer, 1)->dims[0]);
  logits.dims[0] = rows.dims[0];
  const tdm_dtype dtype = infer->inputs[0].dtype;
  tdm_infer_set(infer, 0, dtype, reduces(infer) ? &scalar : &rows);
  tdm_infer_set(infer, 1, dtype, &logits);
  tdm_infer_set(infer, 2, dtype, &scalar);
  return TDM_OK;
}

/* d_loss, log_probabilities (n, classes), targets, divisor -> d_logits (n, classes). */
static const tdm_operation cross_entropy_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CROSS_ENTROPY_GRADIENT,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 4,
    .max_inputs = 4,
    .output_count = 1,
    .infer = tdm_infer_like_second,
};

static tdm_status append_cross_entropy_gradient(tdm_gradient *gradient) {
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_output(gradient, 1), tdm_gradient_input(gradient, 1),
                                tdm_gradient_output(gradient, 2)};
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &cross_entropy_gradient, tdm_gradient_name(gradient),
                              tdm_gradient_attributes(gradient), operands, 4, NULL));
  return tdm_graph_status(graph);
}

static tdm_status infer_count(tdm_infer *infer) {
  const tdm_loss_attributes *attributes = infer->attributes;
  tdm_infer_set(infer, 0, (tdm_dtype)attributes->dtype, &scalar);
  return TDM_OK;
}

/* targets -> how many count. */
static const tdm_operation count_targets = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_COUNT_TARGETS,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_count,
};

/* Known before any loss is: no part waits for another's. */
static tdm_value count_all_targets(tdm_chunked *chunked) {
  tdm_graph *graph = tdm_chunked_graph(chunked);
  tdm_loss_attributes attributes = *(const tdm_loss_attributes *)tdm_chunked_attributes(chunked);
  attributes.dtype = (int32_t)tdm_value_dtype(graph, tdm_chunked_output(chunked, 0, 0));
  const tdm_value whole = tdm_chunked_whole(chunked, 1);
  if (tdm_value_is_valid(whole))
    return tdm_append(graph, &count_targets, tdm_chunked_name(chunked), &attributes, &whole, 1,
                      NULL);
  tdm_value counts[TDM_MAX_PARTS];
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++) {
    const tdm_value targets = tdm_chunked_input(chunked, 1, i);
    counts[i] = tdm_append(graph, &count_targets, tdm_chunked_name(chunked), &attributes, &targets,
                           1, NULL);
  }
  return tdm_chunked_sum(chunked, counts);
}

static tdm_status chunk_cross_entropy(tdm_chunked *chunked) {
  return chunk_loss(chunked, count_all_targets);
}

static const tdm_operation cross_entropy_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CROSS_ENTROPY,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 3,
    .infer = infer_cross_entropy,
    .gradient = append_cross_entropy_gradient,
    .chunk = chunk_cross_entropy,
};

/* ---- Mean-squared error ---------------------------------------------------------------------- */

static tdm_status infer_mse(tdm_infer *infer) {
  tdm_shape shape;
  TDM_TRY(tdm_expect_floating(infer, 0, "a"));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "a", "b"));
  TDM_TRY(tdm_expect_one_shape(infer, 0, "a", 1, "b", &shape));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, reduces(infer) ? &scalar : &shape);
  return TDM_OK;
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
};

static tdm_status append_mse_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  for (size_t i = 0; i < 2; i++) {
    if (!tdm_gradient_wanted(gradient, i)) continue;
    const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                  tdm_gradient_input(gradient, i),
                                  tdm_gradient_input(gradient, 1 - i)};
    tdm_gradient_set(gradient, i,
                     tdm_append(graph, &mse_gradient, tdm_gradient_name(gradient),
                                tdm_gradient_attributes(gradient), operands, 3, NULL));
  }
  return tdm_graph_status(graph);
}

/* like () -> the value in the attributes. */
static const tdm_operation constant = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_FILL,
    .attribute_bytes = sizeof(tdm_fill_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = tdm_infer_like_first,
};

static tdm_value count_elements(tdm_chunked *chunked) {
  const tdm_shape whole = tdm_chunked_shape(chunked, 0);
  const tdm_fill_attributes attributes = {.value = (double)tdm_shape_count(&whole)};
  const tdm_value like = tdm_chunked_output(chunked, 0, 0);
  return tdm_append(tdm_chunked_graph(chunked), &constant, tdm_chunked_name(chunked), &attributes,
                    &like, 1, NULL);
}

static tdm_status chunk_mse(tdm_chunked *chunked) {
  return chunk_loss(chunked, count_elements);
}

static const tdm_operation mse_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_MSE,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_mse,
    .gradient = append_mse_gradient,
    .chunk = chunk_mse,
};

/* ---- Functions ------------------------------------------------------------------------------- */

static tdm_value make_loss(tdm_graph *graph, const tdm_operation *operation, const char *name,
                           tdm_value judged, tdm_value wanted, const tdm_loss_options *options) {
  tdm_loss_options chosen;
  if (!tdm_layer_options(graph, operation->name, name, options, sizeof chosen, &chosen))
    return (tdm_value){0, 0};
  if ((int)chosen.reduction < TDM_LOSS_MEAN || (int)chosen.reduction > TDM_LOSS_NONE)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: no reduction %d", operation->name,
                          name ? name : "?", (int)chosen.reduction);
  const tdm_loss_attributes attributes = {.reduction = (int32_t)chosen.reduction,
                                          .ignore_index =
                                              chosen.has_ignore_index ? chosen.ignore_index : -100};
  const tdm_value operands[] = {judged, wanted};
  return tdm_append(graph, operation, name, &attributes, operands, 2, NULL);
}

tdm_value tdm_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                            tdm_value targets) {
  return make_loss(graph, &cross_entropy_operation, name, logits, targets, NULL);
}

tdm_value tdm_cross_entropy_with(tdm_graph *graph, const char *name, tdm_value logits,
                                 tdm_value targets, const tdm_loss_options *options) {
  return make_loss(graph, &cross_entropy_operation, name, logits, targets, options);
}

tdm_value tdm_mse(tdm_graph *graph, const char *name, tdm_value a, tdm_value b) {
  return make_loss(graph, &mse_operation, name, a, b, NULL);
}

tdm_value tdm_mse_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                       const tdm_loss_options *options) {
  return make_loss(graph, &mse_operation, name, a, b, options);
}
