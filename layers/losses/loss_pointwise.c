/* Losses of elements. Their records are generated from devices/kernels/losses/losses.h, as are the
 * public functions of those with no option other than the reduction. The others: L1, smooth L1,
 * Huber (P. J. Huber, "Robust estimation of a location parameter", 1964), binary cross-entropy, the
 * Kullback-Leibler divergence and the cross-entropy whose targets are probabilities. Invariant: L1,
 * smooth L1 and Huber are one operation: with beta 0, with beta, and with beta and a factor. The
 * last two are one operation, too. */
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

/* ---- Records --------------------------------------------------------------------------------- */

static const char *const weight_names[] = {"weight", "pos_weight"};

/* x and t: the names of the operands in messages. */
static tdm_status infer_elements(tdm_infer *infer, const char *x, const char *t, size_t weights) {
  tdm_shape shape;
  TDM_TRY(tdm_expect_floating(infer, 0, x));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, x, t));
  TDM_TRY(tdm_expect_one_shape(infer, 0, x, 1, t, &shape));
  for (size_t i = 0; i < weights; i++)
    TDM_TRY(tdm_loss_expect_last(infer, 2 + i, x, weight_names[i], &shape));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, tdm_loss_reduces(infer) ? &scalar : &shape);
  return TDM_OK;
}

/* Appends both gradients; one is the negative of the other, so x and t are swapped. */
static tdm_status append_PAIR(tdm_gradient *gradient, const tdm_operation *operation,
                              size_t weights) {
  (void)weights;
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

/* Appends the gradient of x. Targets and weights have none. */
static tdm_status append_TARGETS(tdm_gradient *gradient, const tdm_operation *operation,
                                 size_t weights) {
  TDM_TRY(tdm_gradient_refuse(gradient, 1, "targets"));
  for (size_t i = 0; i < weights; i++)
    TDM_TRY(tdm_gradient_refuse(gradient, 2 + i, weight_names[i]));
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  tdm_graph *graph = tdm_gradient_graph(gradient);
  tdm_value operands[5] = {tdm_gradient_of_output(gradient, 0)};
  for (size_t i = 0; i < 2 + weights; i++)
    operands[i + 1] = tdm_gradient_input(gradient, i);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, operation, tdm_gradient_name(gradient),
                              tdm_gradient_attributes(gradient), operands, 3 + weights, NULL));
  return tdm_graph_status(graph);
}

#define LOSS(loss, weights, called)                                                                \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = #loss,                                           \
    .attribute_bytes = sizeof(tdm_loss_attributes), .min_inputs = 2, .max_inputs = 2 + (weights),  \
    .output_count = 1, .infer = infer_##loss, .gradient = append_##loss##_gradient,                \
    .chunk = tdm_loss_chunk_elements, .work = tdm_work_streams,                                    \
    .precision = TDM_PRECISION_FLOAT32, .layer = (called),                                         \
  }
#define RECORDS(loss, operands, x, t, weights)                                                     \
  static const tdm_operation loss##_gradient = {                                                   \
      .struct_size = sizeof(tdm_operation),                                                        \
      .name = #loss "_gradient",                                                                   \
      .attribute_bytes = sizeof(tdm_loss_attributes),                                              \
      .min_inputs = 3,                                                                             \
      .max_inputs = 3 + (weights),                                                                 \
      .output_count = 1,                                                                           \
      .infer = tdm_infer_like_second,                                                              \
      .work = tdm_work_streams,                                                                    \
      .precision = TDM_PRECISION_GIVEN,                                                            \
  };                                                                                               \
  static tdm_status infer_##loss(tdm_infer *infer) {                                               \
    return infer_elements(infer, x, t, weights);                                                   \
  }                                                                                                \
  static tdm_status append_##loss##_gradient(tdm_gradient *gradient) {                             \
    return append_##operands(gradient, &loss##_gradient, weights);                                 \
  }                                                                                                \
  static const tdm_operation loss##_operation = LOSS(loss, weights, NULL);
TDM_ELEMENT_LOSSES(RECORDS)

const tdm_operation tdm_operation_multilabel_soft_margin =
    LOSS(binary_cross_entropy, 2, "multilabel_soft_margin");

#define LISTED(loss, ...) {.operation = &loss##_operation, .functions = "tdm_" #loss},
#define LISTED_GRADIENT(loss, ...) {.operation = &loss##_gradient},
TDM_RECORDS(loss_pointwise,
            TDM_LOSSES(LISTED) TDM_ELEMENT_LOSSES(LISTED_GRADIENT){
                .operation = &smooth_l1_operation, .functions = "tdm_smooth_l1 tdm_huber tdm_l1"},
            {.operation = &binary_cross_entropy_operation, .functions = "tdm_binary_cross_entropy"},
            {.operation = &tdm_operation_multilabel_soft_margin},
            {.operation = &divergence_operation, .functions = "tdm_kl_div"});

/* ---- With the reduction as the only option --------------------------------------------------- */

static tdm_value append_loss(tdm_graph *graph, const tdm_operation *operation, const char *loss,
                             const char *name, tdm_value a, tdm_value b,
                             const tdm_loss_attributes *attributes) {
  tdm_value operands[] = {a, b};
  if (!tdm_loss_broadcast(graph, loss, name, operands)) return TDM_NO_VALUE;
  return tdm_append(graph, operation, name, attributes, operands, 2, NULL);
}

static tdm_value append_plain(tdm_graph *graph, const tdm_operation *operation, const char *name,
                              tdm_value a, tdm_value b, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, operation->name, name, options, 0, &chosen))
    return TDM_NO_VALUE;
  const tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  return append_loss(graph, operation, operation->name, name, a, b, &attributes);
}

#define PUBLIC(loss, ...)                                                                          \
  tdm_value tdm_##loss##_with(tdm_graph *graph, const char *name, tdm_value x, tdm_value t,        \
                              const tdm_loss_options *options) {                                   \
    return append_plain(graph, &loss##_operation, name, x, t, options);                            \
  }                                                                                                \
  tdm_value tdm_##loss(tdm_graph *graph, const char *name, tdm_value x, tdm_value t) {             \
    return append_plain(graph, &loss##_operation, name, x, t, NULL);                               \
  }
TDM_LOSSES(PUBLIC)

/* ---- L1, smooth L1, Huber -------------------------------------------------------------------- */

tdm_value tdm_l1_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                      const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "l1", name, options, 0, &chosen)) return TDM_NO_VALUE;
  tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  attributes.scale = 1.0;
  return append_loss(graph, &smooth_l1_operation, "l1", name, a, b, &attributes);
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
  return append_loss(graph, &smooth_l1_operation, loss, name, a, b, &attributes);
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

tdm_value tdm_binary_cross_entropy_with(tdm_graph *graph, const char *name, tdm_value logits,
                                        tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  const unsigned uses = TDM_LOSS_USES_WEIGHT | TDM_LOSS_USES_POS_WEIGHT;
  if (!tdm_loss_options_read(graph, "binary_cross_entropy", name, options, uses, &chosen))
    return TDM_NO_VALUE;
  const tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  const tdm_value operands[] = {logits, targets, chosen.weight, chosen.pos_weight};
  return tdm_append(graph, &binary_cross_entropy_operation, name, &attributes, operands, 4, NULL);
}

tdm_value tdm_binary_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                   tdm_value targets) {
  return tdm_binary_cross_entropy_with(graph, name, logits, targets, NULL);
}

/* ---- Divergence ------------------------------------------------------------------------------ */

tdm_value tdm_loss_of_probabilities(tdm_graph *graph, const char *name, tdm_value logits,
                                    tdm_value targets, const tdm_loss_options *chosen) {
  const int classes = 1;
  tdm_loss_attributes attributes = tdm_loss_attributes_of(chosen);
  attributes.ignore_index = 0; /* unused */
  if (chosen->reduction == TDM_LOSS_MEAN) attributes.reduction = TDM_REDUCTION_BATCH_MEAN;
  const tdm_value operands[] = {tdm_log_softmax(graph, name, logits, 1), targets, chosen->weight};
  const tdm_value loss =
      tdm_append(graph, &divergence_operation, name, &attributes, operands, 3, NULL);
  return chosen->reduction == TDM_LOSS_NONE ? tdm_sum(graph, name, loss, &classes, 1, false) : loss;
}

tdm_value tdm_kl_div_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                          tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "kl_div", name, options, TDM_LOSS_USES_LOG_TARGET, &chosen))
    return TDM_NO_VALUE;
  tdm_loss_attributes attributes = tdm_loss_attributes_of(&chosen);
  attributes.logarithms = chosen.log_target;
  attributes.entropy = true;
  return append_loss(graph, &divergence_operation, "kl_div", name, log_probabilities, targets,
                     &attributes);
}

tdm_value tdm_kl_div(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                     tdm_value targets) {
  return tdm_kl_div_with(graph, name, log_probabilities, targets, NULL);
}
