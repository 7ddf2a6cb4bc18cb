/* Classification losses: cross-entropy of logits, and negative log-likelihood. Invariants: with
 * weights or smoothed labels, the cross-entropy is the negative log-likelihood of a log-softmax;
 * otherwise it is one operation. The operations take (n, classes); inputs with more dimensions are
 * reshaped to that. */
#include "layers/arguments.h"
#include "layers/losses/loss.h"
#include "tandem/layers/layers.h"

static const tdm_shape scalar = {.rank = 0};

/* ---- In micro-batches ------------------------------------------------------------------------ */

static tdm_status infer_count(tdm_infer *infer) {
  const tdm_loss_attributes *attributes = infer->attributes;
  tdm_infer_set(infer, 0, (tdm_dtype)attributes->dtype, &scalar);
  return TDM_OK;
}

/* targets, [weight] -> the number of targets that count, or the sum of their weights. */
static const tdm_operation count_targets = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_COUNT_TARGETS,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 1,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_count,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

/* Returns the divisor of the whole batch. It depends only on targets and weights, so no part waits
 * for another's loss. */
static tdm_value count_all_targets(tdm_chunked *chunked) {
  tdm_graph *graph = tdm_chunked_graph(chunked);
  const char *name = tdm_chunked_name(chunked);
  tdm_loss_attributes attributes = *(const tdm_loss_attributes *)tdm_chunked_attributes(chunked);
  attributes.dtype = (int32_t)tdm_value_dtype(graph, tdm_chunked_output(chunked, 0, 0));
  tdm_value operands[2] = {tdm_chunked_whole(chunked, 1), tdm_chunked_whole(chunked, 2)};
  const size_t count = tdm_value_is_valid(operands[1]) ? 2 : 1;
  if (tdm_value_is_valid(operands[0]))
    return tdm_append(graph, &count_targets, name, &attributes, operands, count, NULL);
  tdm_value counts[TDM_MAX_PARTS];
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++) {
    operands[0] = tdm_chunked_input(chunked, 1, i);
    counts[i] = tdm_append(graph, &count_targets, name, &attributes, operands, count, NULL);
  }
  return tdm_chunked_sum(chunked, counts);
}

/* Requires the classes of a row to stay in one part, because a target selects one of all
 * classes. */
static tdm_status chunk_classes(tdm_chunked *chunked) {
  const int rows = tdm_chunked_cut(chunked, 0).dimension;
  return rows > 0 ? tdm_chunked_rows(chunked, rows, 0) : tdm_loss_chunk(chunked, count_all_targets);
}

/* ---- Cross-entropy --------------------------------------------------------------------------- */

/* Checks operand 0, called what, (n, classes), operand 1 (n) of class indices, and operand 2, if
 * present, (classes). */
static tdm_status infer_rows(const tdm_infer *infer, const char *what, tdm_shape *out_rows,
                             tdm_shape *out_judged) {
  TDM_TRY(tdm_expect_floating(infer, 0, what));
  TDM_TRY(tdm_expect_ids(infer, 1, "targets"));
  TDM_TRY(tdm_expect_rank(infer, 0, what, 2, 2));
  tdm_shape judged = *tdm_infer_shape(infer, 0);
  tdm_shape rows = {.rank = 1, .dims = {judged.dims[0]}};
  if (tdm_infer_shape(infer, 1)->rank != 1 ||
      !tdm_dim_agree(rows.dims[0], tdm_infer_shape(infer, 1)->dims[0])) {
    char judged_text[TDM_SHAPE_TEXT];
    char targets_text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s are %s, targets %s: one target a row is needed", what,
                    tdm_shape_text(&judged, judged_text, sizeof judged_text),
                    tdm_shape_text(tdm_infer_shape(infer, 1), targets_text, sizeof targets_text));
  }
  if (tdm_infer_has(infer, 2)) {
    const tdm_shape classes = {.rank = 1, .dims = {judged.dims[1]}};
    TDM_TRY(tdm_expect_dtype_of_first(infer, 2, what, "weight"));
    TDM_TRY(tdm_expect_shape(infer, 2, "weight", &classes));
  }
  rows.dims[0] = tdm_dim_merge(rows.dims[0], tdm_infer_shape(infer, 1)->dims[0]);
  judged.dims[0] = rows.dims[0];
  *out_rows = rows;
  *out_judged = judged;
  return TDM_OK;
}

static tdm_status infer_cross_entropy(tdm_infer *infer) {
  tdm_shape rows, logits;
  TDM_TRY(infer_rows(infer, "logits", &rows, &logits));
  const tdm_dtype dtype = infer->inputs[0].dtype;
  tdm_infer_set(infer, 0, dtype, tdm_loss_reduces(infer) ? &scalar : &rows);
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
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
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

static const tdm_operation cross_entropy_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CROSS_ENTROPY,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 3,
    .infer = infer_cross_entropy,
    .gradient = append_cross_entropy_gradient,
    .chunk = chunk_classes,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

/* ---- Negative log-likelihood ----------------------------------------------------------------- */

static tdm_status infer_nll(tdm_infer *infer) {
  tdm_shape rows, judged;
  TDM_TRY(infer_rows(infer, "log-probabilities", &rows, &judged));
  const tdm_dtype dtype = infer->inputs[0].dtype;
  tdm_infer_set(infer, 0, dtype, tdm_loss_reduces(infer) ? &scalar : &rows);
  tdm_infer_set(infer, 1, dtype, &scalar);
  return TDM_OK;
}

static tdm_status infer_nll_gradient(tdm_infer *infer) {
  const tdm_loss_attributes *attributes = infer->attributes;
  const tdm_shape shape = {.rank = 2,
                           .dims = {tdm_infer_shape(infer, 1)->dims[0], attributes->classes}};
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, &shape);
  return TDM_OK;
}

/* d_loss, targets, divisor, [weight] -> d_log_probabilities (n, classes). */
static const tdm_operation nll_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_NLL_GRADIENT,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 3,
    .max_inputs = 4,
    .output_count = 1,
    .infer = infer_nll_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

static tdm_status append_nll_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value judged = tdm_gradient_input(gradient, 0);
  TDM_TRY(tdm_gradient_refuse(gradient, 2, "weight"));
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  tdm_loss_attributes attributes = *(const tdm_loss_attributes *)tdm_gradient_attributes(gradient);
  attributes.classes = tdm_value_shape(graph, judged).dims[1];
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 1), tdm_gradient_output(gradient, 1),
                                tdm_gradient_input(gradient, 2)};
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &nll_gradient, tdm_gradient_name(gradient), &attributes,
                              operands, 4, NULL));
  return tdm_graph_status(graph);
}

static const tdm_operation nll_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_NLL,
    .attribute_bytes = sizeof(tdm_loss_attributes),
    .min_inputs = 2,
    .max_inputs = 3,
    .output_count = 2,
    .infer = infer_nll,
    .gradient = append_nll_gradient,
    .chunk = chunk_classes,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(loss_classes, {.operation = &cross_entropy_operation, .functions = "tdm_cross_entropy"},
            {.operation = &cross_entropy_gradient},
            {.operation = &nll_operation, .functions = "tdm_nll"}, {.operation = &nll_gradient},
            {.operation = &count_targets, .no_golden = TDM_LOSS_IN_PARTS});

/* ---- Functions ------------------------------------------------------------------------------- */

/* Inputs of a loss, with the classes last and all other dimensions merged into one. Targets have
 * the same rows. */
typedef struct class_rows {
  tdm_value judged;  /* (n, classes) */
  tdm_value targets; /* (n), or (n, classes) of probabilities */
  tdm_shape shape;   /* shape of the loss without reduction */
  bool probable;     /* targets are probabilities */
  bool reshaped;     /* the argument was not (n, classes) */
} class_rows;

/* x (n, classes, d1, ...) or (classes) -> (n d1 ..., classes). */
static tdm_value classes_last(tdm_graph *graph, const char *name, tdm_value x) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  const tdm_dim classes = shape.dims[shape.rank > 1];
  if (shape.rank > 3)
    x = tdm_reshape(graph, name, x, tdm_shape_of(3, shape.dims[0], classes, TDM_INFER));
  if (shape.rank > 2) x = tdm_transpose(graph, name, x, 1, 2);
  return tdm_reshape(graph, name, x, tdm_shape_of(2, TDM_INFER, classes));
}

/* Returns a shape (n, classes, d1, ...) without its classes. */
static tdm_shape without_classes(const tdm_shape *judged) {
  tdm_shape shape = {.rank = judged->rank - 1};
  for (int i = 0; i < shape.rank; i++)
    shape.dims[i] = judged->dims[i + (i > 0)];
  return shape;
}

static bool agree(const tdm_shape *a, const tdm_shape *b) {
  bool same = a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++)
    same = tdm_dim_agree(a->dims[i], b->dims[i]);
  return same;
}

static bool refuse_shapes(tdm_graph *graph, const char *loss, const char *name,
                          const tdm_shape *judged, const tdm_shape *targets) {
  char judged_text[TDM_SHAPE_TEXT];
  char targets_text[TDM_SHAPE_TEXT];
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                 "%s %s: it judges %s by targets %s: one target for each, classes apart, is needed",
                 loss, name, tdm_shape_text(judged, judged_text, sizeof judged_text),
                 tdm_shape_text(targets, targets_text, sizeof targets_text));
  return false;
}

/* Returns true if there is no weight, or if it has one value per class and the dtype of the
 * input. */
static bool fits_weight(tdm_graph *graph, const char *loss, const char *name, tdm_value judged,
                        tdm_value weight) {
  const tdm_shape shape = tdm_value_shape(graph, judged);
  if (!tdm_value_is_valid(weight) || shape.rank == 0) return true;
  const tdm_shape classes = {.rank = 1, .dims = {shape.dims[shape.rank > 1]}};
  return tdm_argument_has_dtype(graph, loss, name, "weight", weight,
                                tdm_value_dtype(graph, judged)) &&
         tdm_argument_has_shape(graph, loss, name, "weight", weight, &classes);
}

/* Checks the shapes and fills the rows. Returns false with the graph's error if shapes do not fit.
 * An input (n, classes) stays unchanged, and the operation's shape rule checks it. may_be_probable:
 * targets may be probabilities. */
static bool class_rows_of(tdm_graph *graph, const char *loss, const char *name, tdm_value judged,
                          tdm_value targets, tdm_value weight, bool may_be_probable,
                          class_rows *out_rows) {
  *out_rows = (class_rows){.judged = judged, .targets = targets};
  if (!tdm_argument_is_floating(graph, loss, name, may_be_probable ? "logits" : "log_probabilities",
                                judged) ||
      !tdm_argument_is_value(graph, loss, name, "targets", targets) ||
      !fits_weight(graph, loss, name, judged, weight))
    return false;
  const tdm_shape shape = tdm_value_shape(graph, judged);
  const tdm_shape target_shape = tdm_value_shape(graph, targets);
  out_rows->probable = may_be_probable && target_shape.rank == shape.rank &&
                       tdm_dtype_is_floating(tdm_value_dtype(graph, targets));
  if (shape.rank == 0) return true;
  out_rows->shape = without_classes(&shape);
  if (!agree(out_rows->probable ? &shape : &out_rows->shape, &target_shape))
    return refuse_shapes(graph, loss, name, &shape, &target_shape);
  if (shape.rank == 2) return true;
  out_rows->reshaped = true;
  out_rows->judged = classes_last(graph, name, judged);
  out_rows->targets = out_rows->probable
                          ? classes_last(graph, name, targets)
                          : tdm_reshape(graph, name, targets, tdm_shape_of(1, TDM_INFER));
  return true;
}

/* Returns the loss, reshaped to one element per target if it is not reduced. */
static tdm_value give_back(tdm_graph *graph, const char *name, const class_rows *rows,
                           const tdm_loss_options *chosen, tdm_value loss) {
  if (!rows->reshaped || chosen->reduction != TDM_LOSS_NONE) return loss;
  return tdm_reshape(graph, name, loss, rows->shape);
}

static tdm_value append_nll(tdm_graph *graph, const char *name, tdm_value judged, tdm_value targets,
                            const tdm_loss_options *chosen) {
  const tdm_loss_attributes attributes = tdm_loss_attributes_of(chosen);
  const tdm_value operands[] = {judged, targets, chosen->weight};
  return tdm_append(graph, &nll_operation, name, &attributes, operands, 3, NULL);
}

tdm_value tdm_nll_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                       tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  const unsigned uses = TDM_LOSS_USES_CLASSES | TDM_LOSS_USES_WEIGHT;
  class_rows rows;
  if (!tdm_loss_options_read(graph, "nll", name, options, uses, &chosen) ||
      !class_rows_of(graph, "nll", name, log_probabilities, targets, chosen.weight, false, &rows))
    return TDM_NO_VALUE;
  return give_back(graph, name, &rows, &chosen,
                   append_nll(graph, name, rows.judged, rows.targets, &chosen));
}

tdm_value tdm_nll(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                  tdm_value targets) {
  return tdm_nll_with(graph, name, log_probabilities, targets, NULL);
}

/* Appends the operation for logits (n, classes) and targets (n). */
static tdm_value append_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                                      tdm_value targets, const tdm_loss_options *chosen) {
  if (tdm_value_is_valid(chosen->weight) || chosen->label_smoothing != 0.0) {
    const tdm_argument classes = {.layer = TDM_OP_CROSS_ENTROPY,
                                  .name = name,
                                  .what = "targets",
                                  .most = -1,
                                  .like = logits,
                                  .dimension = 1,
                                  .has_ignored = true,
                                  .ignored = tdm_loss_attributes_of(chosen).ignore_index};
    targets = tdm_argument_check(graph, &classes, targets);
    return append_nll(graph, name, tdm_log_softmax(graph, name, logits, -1), targets, chosen);
  }
  const tdm_loss_attributes attributes = tdm_loss_attributes_of(chosen);
  const tdm_value operands[] = {logits, targets};
  return tdm_append(graph, &cross_entropy_operation, name, &attributes, operands, 2, NULL);
}

tdm_value tdm_cross_entropy_with(tdm_graph *graph, const char *name, tdm_value logits,
                                 tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  const unsigned uses = TDM_LOSS_USES_CLASSES | TDM_LOSS_USES_WEIGHT | TDM_LOSS_USES_SMOOTHING;
  if (!tdm_loss_options_read(graph, TDM_OP_CROSS_ENTROPY, name, options, uses, &chosen))
    return TDM_NO_VALUE;
  if (!(chosen.label_smoothing >= 0.0 && chosen.label_smoothing <= 1.0))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "cross_entropy %s: label_smoothing is %g, and must lie in [0, 1]", name,
                          chosen.label_smoothing);
  class_rows rows;
  if (!class_rows_of(graph, TDM_OP_CROSS_ENTROPY, name, logits, targets, chosen.weight, true,
                     &rows))
    return TDM_NO_VALUE;
  if (rows.probable && chosen.ignore_index != TDM_LOSS_IGNORE_INDEX)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "cross_entropy %s: targets that are probabilities have no ignore_index",
                          name);
  const tdm_value loss =
      rows.probable ? tdm_loss_of_probabilities(graph, name, rows.judged, rows.targets, &chosen)
                    : append_cross_entropy(graph, name, rows.judged, rows.targets, &chosen);
  return give_back(graph, name, &rows, &chosen, loss);
}

tdm_value tdm_cross_entropy(tdm_graph *graph, const char *name, tdm_value logits,
                            tdm_value targets) {
  return tdm_cross_entropy_with(graph, name, logits, targets, NULL);
}
