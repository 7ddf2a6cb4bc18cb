/* Margin losses, composed of operations. Invariant: targets are used only in comparisons, or as
 * factors after a cast or a computation. So the rules for means in micro-batches and parallel
 * regions also apply to these losses. */
#include "layers/arguments.h"
#include "layers/losses/loss.h"
#include "tandem/layers/layers.h"

/* Returns x with 0 wherever the targets have the given relation to the number. */
static tdm_value except_where(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets,
                              tdm_relation relation, double number) {
  const tdm_value there = tdm_compare_scalar(graph, name, targets, relation, number);
  return tdm_masked_fill(graph, name, x, there, 0.0);
}

tdm_value tdm_margin_ranking_with(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                                  tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "margin_ranking", name, options, TDM_LOSS_USES_MARGIN, &chosen))
    return TDM_NO_VALUE;
  const tdm_operand operands[] = {{"a", a, false}, {"b", b, false}, {"targets", targets, true}};
  if (!tdm_arguments_broadcast(graph, "margin_ranking", name, operands, 3)) return TDM_NO_VALUE;
  const tdm_value signs = tdm_loss_cast_like(graph, name, targets, a);
  const tdm_value wanted = tdm_mul(graph, name, signs, tdm_sub(graph, name, a, b));
  const tdm_value lacking = tdm_affine(graph, name, wanted, -1.0, tdm_loss_margin(&chosen, 0.0));
  return tdm_loss_reduce(graph, name, tdm_loss_above_zero(graph, name, lacking), chosen.reduction);
}

tdm_value tdm_margin_ranking(tdm_graph *graph, const char *name, tdm_value a, tdm_value b,
                             tdm_value targets) {
  return tdm_margin_ranking_with(graph, name, a, b, targets, NULL);
}

tdm_value tdm_hinge_embedding_with(tdm_graph *graph, const char *name, tdm_value x,
                                   tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "hinge_embedding", name, options, TDM_LOSS_USES_MARGIN,
                             &chosen))
    return TDM_NO_VALUE;
  const tdm_operand operands[] = {{"x", x, false}, {"targets", targets, true}};
  if (!tdm_arguments_broadcast(graph, "hinge_embedding", name, operands, 2)) return TDM_NO_VALUE;
  const tdm_value lacking = tdm_loss_above_zero(
      graph, name, tdm_affine(graph, name, x, -1.0, tdm_loss_margin(&chosen, 1.0)));
  const tdm_value elements =
      tdm_add(graph, name, except_where(graph, name, lacking, targets, TDM_EQUAL, 1.0),
              except_where(graph, name, x, targets, TDM_EQUAL, -1.0));
  return tdm_loss_reduce(graph, name, elements, chosen.reduction);
}

tdm_value tdm_hinge_embedding(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets) {
  return tdm_hinge_embedding_with(graph, name, x, targets, NULL);
}

tdm_value tdm_soft_margin_with(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets,
                               const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "soft_margin", name, options, 0, &chosen)) return TDM_NO_VALUE;
  const tdm_operand operands[] = {{"x", x, false}, {"targets", targets, true}};
  if (!tdm_arguments_broadcast(graph, "soft_margin", name, operands, 2)) return TDM_NO_VALUE;
  const tdm_value signs = tdm_loss_cast_like(graph, name, targets, x);
  const tdm_value lacking = tdm_neg(graph, name, tdm_mul(graph, name, signs, x));
  return tdm_loss_reduce(graph, name, tdm_softplus(graph, name, lacking, 1.0, INFINITY),
                         chosen.reduction);
}

tdm_value tdm_soft_margin(tdm_graph *graph, const char *name, tdm_value x, tdm_value targets) {
  return tdm_soft_margin_with(graph, name, x, targets, NULL);
}

/* ---- Losses of classes ----------------------------------------------------------------------- */

/* Scores and targets of a class loss. Without a batch they become a batch of one, and the loss
 * becomes a scalar again. */
typedef struct scored {
  tdm_value scores;  /* (n, classes) */
  tdm_value targets; /* (n), or like scores */
  bool alone;
} scored;

static bool read_scores(tdm_graph *graph, const char *loss, const char *name, tdm_value scores,
                        tdm_value targets, int targets_rank, scored *out) {
  const tdm_shape shape = tdm_value_shape(graph, scores), given = tdm_value_shape(graph, targets);
  if (shape.rank < 0 || given.rank < 0) {
    (void)(tdm_layer_accepts(graph, loss, name, scores) &&
           tdm_layer_accepts(graph, loss, name, targets));
    return false;
  }
  char text[TDM_SHAPE_TEXT], other[TDM_SHAPE_TEXT];
  if ((shape.rank != 1 && shape.rank != 2) || given.rank != shape.rank - 2 + targets_rank) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "%s %s: scores are %s, targets %s: they must be (n, classes) and %s, or one row "
                   "of these",
                   loss, name, tdm_shape_text(&shape, text, sizeof text),
                   tdm_shape_text(&given, other, sizeof other),
                   targets_rank == 1 ? "(n)" : "(n, classes)");
    return false;
  }
  const tdm_dtype dtype = tdm_value_dtype(graph, targets);
  if (dtype != TDM_INT32 && dtype != TDM_INT64) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: targets are %s, and must be int32 or int64",
                   loss, name, tdm_dtype_name(dtype));
    return false;
  }
  out->alone = shape.rank == 1;
  out->scores = out->alone ? tdm_unsqueeze(graph, name, scores, 0) : scores;
  out->targets = out->alone ? tdm_unsqueeze(graph, name, targets, 0) : targets;
  return true;
}

/* Reduces elements (n). */
static tdm_value reduce_rows(tdm_graph *graph, const char *name, const scored *of,
                             tdm_value elements, tdm_loss_reduction reduction) {
  return of->alone ? tdm_squeeze(graph, name, elements, 0)
                   : tdm_loss_reduce(graph, name, elements, reduction);
}

/* Returns targets after a check, in each run, that each is a class index. */
static tdm_value check_targets(tdm_graph *graph, const char *layer, const char *name,
                               const scored *of, tdm_value targets) {
  const tdm_argument classes = {.layer = layer,
                                .name = name,
                                .what = "targets",
                                .most = -1,
                                .like = of->scores,
                                .dimension = 1};
  return tdm_argument_check(graph, &classes, targets);
}

tdm_value tdm_multi_margin_with(tdm_graph *graph, const char *name, tdm_value scores,
                                tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  scored of;
  const unsigned uses = TDM_LOSS_USES_MARGIN | TDM_LOSS_USES_P | TDM_LOSS_USES_WEIGHT;
  if (!tdm_loss_options_read(graph, "multi_margin", name, options, uses, &chosen))
    return TDM_NO_VALUE;
  const double p = tdm_or_default(chosen.p, 1.0);
  if (p != 1.0 && p != 2.0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "multi_margin %s: p is %g, and must be 1 or 2", name, p);
  if (!read_scores(graph, "multi_margin", name, scores, targets, 1, &of)) return TDM_NO_VALUE;
  const int classes = 1;
  of.targets = check_targets(graph, "multi_margin", name, &of, of.targets);
  const tdm_value column = tdm_unsqueeze(graph, name, of.targets, 1); /* (n, 1) */
  const tdm_value right = tdm_gather(graph, name, of.scores, 1, column);
  const tdm_value ahead = tdm_sub(graph, name, of.scores, right);
  tdm_value lacking = tdm_loss_above_zero(
      graph, name, tdm_add_scalar(graph, name, ahead, tdm_loss_margin(&chosen, 1.0)));
  if (p == 2.0) lacking = tdm_square(graph, name, lacking);
  const tdm_value wide = tdm_cast(graph, name, column, TDM_INT64);
  const tdm_value own =
      tdm_compare(graph, name, wide, TDM_EQUAL, tdm_arange_like(graph, name, of.scores, 1));
  tdm_value rows =
      tdm_mean(graph, name, tdm_masked_fill(graph, name, lacking, own, 0.0), &classes, 1, false);
  if (tdm_value_is_valid(chosen.weight))
    rows = tdm_mul(graph, name, rows, tdm_index_select(graph, name, chosen.weight, 0, of.targets));
  return reduce_rows(graph, name, &of, rows, chosen.reduction);
}

tdm_value tdm_multi_margin(tdm_graph *graph, const char *name, tdm_value scores,
                           tdm_value targets) {
  return tdm_multi_margin_with(graph, name, scores, targets, NULL);
}

/* targets (n, classes), wide -> bool (n, classes): whether a negative target comes at or before
 * this place. */
static tdm_value are_over(tdm_graph *graph, const char *name, tdm_value targets, tdm_value like) {
  const tdm_value ends = tdm_compare_scalar(graph, name, targets, TDM_LESS, 0.0);
  const tdm_value numbers = tdm_cast(graph, name, ends, tdm_value_dtype(graph, like));
  return tdm_compare_scalar(graph, name, tdm_cumsum(graph, name, numbers, 1), TDM_GREATER, 0.5);
}

tdm_value tdm_multilabel_margin_with(tdm_graph *graph, const char *name, tdm_value scores,
                                     tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  scored of;
  if (!tdm_loss_options_read(graph, "multilabel_margin", name, options, 0, &chosen) ||
      !read_scores(graph, "multilabel_margin", name, scores, targets, 2, &of))
    return TDM_NO_VALUE;
  const int of_targets = 1, of_classes = 2;
  const tdm_value wide = tdm_cast(graph, name, of.targets, TDM_INT64);
  const tdm_value over = are_over(graph, name, wide, of.scores); /* (n, targets) */
  const tdm_value there = check_targets(graph, "multilabel_margin", name, &of,
                                        tdm_masked_fill(graph, name, wide, over, 0.0));
  const tdm_value right = tdm_gather(graph, name, of.scores, 1, there);
  /* (n, targets, classes): whether the target is that class and counts */
  const tdm_value same = tdm_compare(graph, name, tdm_unsqueeze(graph, name, there, 2), TDM_EQUAL,
                                     tdm_arange_like(graph, name, of.scores, 1));
  const tdm_value uncounted = tdm_unsqueeze(graph, name, over, 2);
  const tdm_value counted = tdm_masked_fill(
      graph, name, tdm_cast(graph, name, same, tdm_value_dtype(graph, of.scores)), uncounted, 0.0);
  const tdm_value labels =
      tdm_compare_scalar(graph, name, tdm_sum(graph, name, counted, &of_targets, 1, true),
                         TDM_GREATER, 0.5); /* (n, 1, classes) */
  const tdm_value ahead = tdm_sub(graph, name, tdm_unsqueeze(graph, name, of.scores, 1),
                                  tdm_unsqueeze(graph, name, right, 2));
  tdm_value lacking = tdm_loss_above_zero(graph, name, tdm_add_scalar(graph, name, ahead, 1.0));
  lacking = tdm_masked_fill(graph, name, lacking, labels, 0.0);
  lacking = tdm_masked_fill(graph, name, lacking, uncounted, 0.0);
  const tdm_value means = tdm_mean(graph, name, lacking, &of_classes, 1, false);
  return reduce_rows(graph, name, &of, tdm_sum(graph, name, means, &of_targets, 1, false),
                     chosen.reduction);
}

tdm_value tdm_multilabel_margin(tdm_graph *graph, const char *name, tdm_value scores,
                                tdm_value targets) {
  return tdm_multilabel_margin_with(graph, name, scores, targets, NULL);
}

tdm_value tdm_multilabel_soft_margin_with(tdm_graph *graph, const char *name, tdm_value logits,
                                          tdm_value targets, const tdm_loss_options *options) {
  name = tdm_graph_name(graph, name);
  tdm_loss_options chosen;
  if (!tdm_loss_options_read(graph, "multilabel_soft_margin", name, options, TDM_LOSS_USES_WEIGHT,
                             &chosen))
    return TDM_NO_VALUE;
  const int classes = -1;
  if (!tdm_argument_has_rank(graph, "multilabel_soft_margin", name, "logits", logits, 1,
                             TDM_MAX_RANK) ||
      !tdm_argument_is_value(graph, "multilabel_soft_margin", name, "targets", targets))
    return TDM_NO_VALUE;
  const tdm_loss_attributes attributes = {.reduction = TDM_REDUCTION_NONE};
  const tdm_value operands[] = {logits, targets, chosen.weight};
  const tdm_value elements = tdm_append(graph, &tdm_operation_multilabel_soft_margin, name,
                                        &attributes, operands, 3, NULL);
  if (!tdm_value_is_valid(elements)) return TDM_NO_VALUE;
  return tdm_loss_reduce(graph, name, tdm_mean(graph, name, elements, &classes, 1, false),
                         chosen.reduction);
}

tdm_value tdm_multilabel_soft_margin(tdm_graph *graph, const char *name, tdm_value logits,
                                     tdm_value targets) {
  return tdm_multilabel_soft_margin_with(graph, name, logits, targets, NULL);
}
