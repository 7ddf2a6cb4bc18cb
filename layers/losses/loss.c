/* Code that losses share: options, attributes of kernels, and how means of parts become the mean of
 * the whole batch. */
#include "layers/losses/loss.h"

#include "devices/context/context.h"

#include "tandem/layers/layers.h"

_Static_assert((int)TDM_LOSS_MEAN == (int)TDM_REDUCTION_MEAN &&
                   (int)TDM_LOSS_SUM == (int)TDM_REDUCTION_SUM &&
                   (int)TDM_LOSS_NONE == (int)TDM_REDUCTION_NONE &&
                   (int)TDM_LOSS_BATCH_MEAN == (int)TDM_REDUCTION_BATCH_MEAN,
               "the public reductions are the kernels'");

/* ---- In micro-batches: sums of the parts, divided by a count of the whole ---------------------
 */

static tdm_status append_divide_gradient(tdm_gradient *gradient);

/* x, s () -> x / s; the count s has no gradient. */
static const tdm_operation divide_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_DIVIDE,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .gradient = append_divide_gradient,
    .elementwise = true,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(loss, {.operation = &divide_operation,
                   .no_golden = TDM_LOSS_IN_PARTS,
                   .no_differences = TDM_LOSS_IN_PARTS});

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

tdm_status tdm_loss_chunk(tdm_chunked *chunked, tdm_loss_divisor divisor) {
  tdm_loss_attributes attributes = *(const tdm_loss_attributes *)tdm_chunked_attributes(chunked);
  if (attributes.reduction == TDM_REDUCTION_NONE) return tdm_chunked_each(chunked, NULL);
  const bool divides = attributes.reduction != TDM_REDUCTION_SUM;
  attributes.reduction = TDM_REDUCTION_SUM;
  TDM_TRY(tdm_chunked_each(chunked, &attributes));
  tdm_value parts[TDM_MAX_PARTS];
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++)
    parts[i] = tdm_chunked_output(chunked, 0, i);
  tdm_value operands[2] = {tdm_chunked_sum(chunked, parts)};
  if (divides) {
    operands[1] = divisor(chunked);
    operands[0] = tdm_append(tdm_chunked_graph(chunked), &divide_operation,
                             tdm_chunked_name(chunked), NULL, operands, 2, NULL);
  }
  tdm_chunked_set_whole(chunked, 0, operands[0]);
  return TDM_OK;
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool refuse(tdm_graph *graph, const char *loss, const char *name, const char *option) {
  tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: it takes no %s", loss, name, option);
  return false;
}

bool tdm_loss_options_read(tdm_graph *graph, const char *loss, const char *name,
                           const tdm_loss_options *options, unsigned uses,
                           tdm_loss_options *out_options) {
  if (!tdm_layer_options(graph, loss, name, loss, options, out_options)) return false;
  const int last = uses & TDM_LOSS_USES_LOG_TARGET ? TDM_LOSS_BATCH_MEAN : TDM_LOSS_NONE;
  if ((int)out_options->reduction < TDM_LOSS_MEAN || (int)out_options->reduction > last) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: no reduction %d", loss, name,
                   (int)out_options->reduction);
    return false;
  }
  const struct {
    bool given;
    unsigned use;
    const char *name;
  } given[] = {
      {out_options->ignore_index != TDM_LOSS_IGNORE_INDEX, TDM_LOSS_USES_CLASSES, "ignore_index"},
      {tdm_value_is_valid(out_options->weight), TDM_LOSS_USES_WEIGHT, "weight"},
      {tdm_value_is_valid(out_options->pos_weight), TDM_LOSS_USES_POS_WEIGHT, "pos_weight"},
      {out_options->label_smoothing != 0.0, TDM_LOSS_USES_SMOOTHING, "label_smoothing"},
      {out_options->beta != 1.0, TDM_LOSS_USES_BETA, "beta"},
      {out_options->log_target, TDM_LOSS_USES_LOG_TARGET, "log_target"},
      {out_options->margin != TDM_DEFAULT, TDM_LOSS_USES_MARGIN, "margin"},
      {out_options->p != TDM_DEFAULT, TDM_LOSS_USES_P, "p"},
      {out_options->epsilon != TDM_DEFAULT, TDM_LOSS_USES_EPSILON, "epsilon"},
      {out_options->swap, TDM_LOSS_USES_SWAP, "swap"},
      {out_options->full, TDM_LOSS_USES_FULL, "full"},
      {out_options->linear_input, TDM_LOSS_USES_LINEAR_INPUT, "linear_input"},
      {out_options->blank != 0, TDM_LOSS_USES_BLANK, "blank"},
      {out_options->zero_infinity, TDM_LOSS_USES_BLANK, "zero_infinity"},
  };
  for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
    if (given[i].given && !(uses & given[i].use)) return refuse(graph, loss, name, given[i].name);
  if (!isfinite(out_options->margin)) {
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s %s: margin is %g, expected a finite number",
                   loss, name, out_options->margin);
    return false;
  }
  return out_options->epsilon == TDM_DEFAULT ||
         tdm_layer_epsilon(graph, loss, name, out_options->epsilon);
}

tdm_loss_attributes tdm_loss_attributes_of(const tdm_loss_options *options) {
  return (tdm_loss_attributes){.reduction = (int32_t)options->reduction,
                               .ignore_index = options->ignore_index,
                               .smoothing = options->label_smoothing};
}

/* ---- Put together of operations -------------------------------------------------------------- */

tdm_value tdm_loss_reduce(tdm_graph *graph, const char *name, tdm_value elements,
                          tdm_loss_reduction reduction) {
  if (reduction == TDM_LOSS_NONE || tdm_value_shape(graph, elements).rank <= 0) return elements;
  return reduction == TDM_LOSS_SUM ? tdm_sum(graph, name, elements, NULL, 0, false)
                                   : tdm_mean(graph, name, elements, NULL, 0, false);
}

tdm_value tdm_loss_above_zero(tdm_graph *graph, const char *name, tdm_value x) {
  return tdm_clamp(graph, name, x, 0.0, INFINITY);
}

tdm_value tdm_loss_cast_like(tdm_graph *graph, const char *name, tdm_value x, tdm_value like) {
  const tdm_dtype dtype = tdm_value_dtype(graph, like);
  return tdm_value_dtype(graph, x) == dtype || dtype == TDM_DTYPE_NONE
             ? x
             : tdm_cast(graph, name, x, dtype);
}

/* ---- Broadcasting ---------------------------------------------------------------------------- */

static bool has_shape(tdm_graph *graph, tdm_value x, const tdm_shape *wanted) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  bool same = shape.rank == wanted->rank;
  for (int i = 0; same && i < shape.rank; i++)
    same = tdm_dim_agree(shape.dims[i], wanted->dims[i]);
  return same;
}

static void warn_of_shapes(tdm_graph *graph, const char *loss, const char *name, const tdm_shape *a,
                           const tdm_shape *b, const tdm_shape *shape) {
  char texts[3][TDM_SHAPE_TEXT];
  if (a->rank == 0 || b->rank == 0) return;
  tdm_context_log(tdm_graph_context(graph), TDM_LOG_WARNING,
                  "%s %s: shapes %s and %s differ and are broadcast to %s", loss, name,
                  tdm_shape_text(a, texts[0], sizeof texts[0]),
                  tdm_shape_text(b, texts[1], sizeof texts[1]),
                  tdm_shape_text(shape, texts[2], sizeof texts[2]));
}

bool tdm_loss_broadcast(tdm_graph *graph, const char *loss, const char *name, tdm_value values[2]) {
  tdm_shape shape;
  const tdm_shape a = tdm_value_shape(graph, values[0]), b = tdm_value_shape(graph, values[1]);
  if (a.rank < 0 || b.rank < 0 || has_shape(graph, values[0], &b)) return true;
  const tdm_status status = tdm_shape_broadcast(&a, "a", &b, "b", &shape);
  if (status != TDM_OK) {
    (void)tdm_graph_fail_message(graph, tdm_fail_within(status, "%s %s", loss, name));
    return false;
  }
  warn_of_shapes(graph, loss, name, &a, &b, &shape);
  const bool like_a = has_shape(graph, values[0], &shape);
  const tdm_value like = like_a || has_shape(graph, values[1], &shape)
                             ? values[!like_a]
                             : tdm_add(graph, name, values[0], values[1]);
  for (size_t i = 0; i < 2; i++)
    if (!has_shape(graph, values[i], &shape))
      values[i] = tdm_expand_as(graph, name, values[i], like);
  return tdm_graph_status(graph) == TDM_OK;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

tdm_status tdm_loss_expect_last(const tdm_infer *infer, size_t index, const char *first,
                                const char *what, const tdm_shape *shape) {
  if (!tdm_infer_has(infer, index)) return TDM_OK;
  TDM_TRY(tdm_expect_dtype_of_first(infer, index, first, what));
  tdm_shape last = {.rank = tdm_infer_shape(infer, index)->rank};
  if (last.rank > shape->rank) last = *shape;
  for (int i = 0; i < last.rank; i++)
    last.dims[i] = shape->dims[shape->rank - last.rank + i];
  return tdm_expect_shape(infer, index, what, &last);
}
