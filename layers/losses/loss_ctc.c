/* Connectionist temporal classification (A. Graves, S. Fernandez, F. Gomez, J. Schmidhuber, ICML
 * 2006): the likelihood of all alignments of a target, with blanks and repeats, to the steps.
 * Invariant: the kernel computes paths over places only. Log-probabilities of labels are gathered
 * into places before it, and each sequence's ends are selected from its result. So gradients are
 * those of the gathers, and targets and lengths are checked before the kernel runs. */
#include "layers/arguments.h"
#include "layers/losses/loss.h"
#include "tandem/layers/layers.h"

/* ---- Records --------------------------------------------------------------------------------- */

/* emissions (steps, batch, places), bars (batch, places) */
static tdm_status infer_paths(tdm_infer *infer) {
  TDM_TRY(tdm_expect_floating(infer, 0, "emissions"));
  TDM_TRY(tdm_expect_rank(infer, 0, "emissions", 3, 3));
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "emissions", "bars"));
  const tdm_shape *emissions = tdm_infer_shape(infer, 0);
  const tdm_shape rows = tdm_shape_of(2, emissions->dims[1], emissions->dims[2]);
  TDM_TRY(tdm_expect_shape(infer, 1, "bars", &rows));
  tdm_infer_set(infer, 0, infer->inputs[0].dtype, emissions);
  return TDM_OK;
}

/* d_paths, bars, paths -> d_emissions. */
static const tdm_operation paths_gradient = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CTC_PATHS_GRADIENT,
    .min_inputs = 3,
    .max_inputs = 3,
    .output_count = 1,
    .infer = tdm_infer_like_first,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

static tdm_status append_paths_gradient(tdm_gradient *gradient) {
  TDM_TRY(tdm_gradient_refuse(gradient, 1, "bars"));
  if (!tdm_gradient_wanted(gradient, 0)) return TDM_OK;
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 1), tdm_gradient_output(gradient, 0)};
  tdm_gradient_set(
      gradient, 0,
      tdm_append(graph, &paths_gradient, tdm_gradient_name(gradient), NULL, operands, 3, NULL));
  return tdm_graph_status(graph);
}

static const tdm_operation paths_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CTC_PATHS,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_paths,
    .gradient = append_paths_gradient,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(loss_ctc, {.operation = &paths_operation, .functions = "tdm_ctc"},
            {.operation = &paths_gradient});

/* ---- Labels and places ----------------------------------------------------------------------- */

/* Returns the integer as a value with the shape and the integer dtype of like. */
static tdm_value integer(tdm_graph *graph, const char *name, tdm_value like, double number) {
  const tdm_value everywhere = tdm_compare(graph, name, like, TDM_EQUAL, like);
  return tdm_masked_fill(graph, name, like, everywhere, number);
}

/* targets (n, labels), lengths (n), int64, x (steps, n, classes) -> (n, 2 labels + 1): a blank
 * before each label and after the last one. All places after a target's length are blanks. */
static tdm_value spread_out(tdm_graph *graph, const char *name, tdm_value targets,
                            tdm_value lengths, double blank, tdm_value x) {
  const tdm_value over = tdm_compare(graph, name, tdm_arange_like(graph, name, targets, 1),
                                     TDM_GREATER_EQUAL, tdm_unsqueeze(graph, name, lengths, 1));
  const tdm_argument labels_of = {
      .layer = "ctc", .name = name, .what = "targets", .most = -1, .like = x, .dimension = 2};
  const tdm_value labels =
      tdm_argument_check(graph, &labels_of, tdm_masked_fill(graph, name, targets, over, blank));
  const tdm_pad_attributes between = {
      .rank = 2, .before = {0, 1}, .after = {0, 1}, .steps = {1, 2}, .value = blank};
  return tdm_pad_with(graph, name, labels, &between);
}

/* places (n, places) -> 0 where a path may skip the previous place, TDM_NO_PATH where it may not:
 * from blank to blank, and between equal labels. */
static tdm_value bars_of(tdm_graph *graph, const char *name, tdm_value places, double blank,
                         tdm_dtype dtype) {
  const tdm_value before =
      tdm_pad(graph, name, places, (const int64_t[]){2, -2}, 2, TDM_PAD_CONSTANT, blank);
  const tdm_value same = tdm_compare(graph, name, places, TDM_EQUAL, before);
  return tdm_mul_scalar(graph, name, tdm_cast(graph, name, same, dtype), TDM_NO_PATH);
}

/* x (steps, n, classes), places (n, places) -> (steps, n, places). */
static tdm_value emissions_of(tdm_graph *graph, const char *name, tdm_value x, tdm_value places) {
  const tdm_value steps = tdm_arange_like(graph, name, x, 0);
  const tdm_value zeros = tdm_unsqueeze(
      graph, name, tdm_unsqueeze(graph, name, integer(graph, name, steps, 0.0), 1), 2);
  const tdm_value index = tdm_add(graph, name, zeros, tdm_unsqueeze(graph, name, places, 0));
  return tdm_gather(graph, name, x, 2, index);
}

/* paths (steps, n, places) -> (n, places): the last step of each sequence, or the first one if a
 * sequence has no steps. */
static tdm_value last_steps(tdm_graph *graph, const char *name, tdm_value paths,
                            tdm_value input_lengths, tdm_value places) {
  const tdm_value one = integer(graph, name, input_lengths, 1.0);
  const tdm_value none = tdm_compare_scalar(graph, name, input_lengths, TDM_EQUAL, 0.0);
  const tdm_value last =
      tdm_masked_fill(graph, name, tdm_sub(graph, name, input_lengths, one), none, 0.0);
  const tdm_value index =
      tdm_add(graph, name, tdm_unsqueeze(graph, name, last, 1), integer(graph, name, places, 0.0));
  return tdm_squeeze(graph, name,
                     tdm_gather(graph, name, paths, 0, tdm_unsqueeze(graph, name, index, 0)), 0);
}

/* ends (n, places) -> (n): the logarithm of the total likelihood of paths that end in the last
 * label or in the blank after it. It is computed as the larger one plus a correction for the
 * smaller one. */
static tdm_value both_ends(tdm_graph *graph, const char *name, tdm_value ends, tdm_value lengths) {
  const tdm_value column = tdm_unsqueeze(graph, name, lengths, 1);
  const tdm_value blank = tdm_add(graph, name, column, column);
  const tdm_value label = tdm_sub(graph, name, blank, integer(graph, name, blank, 1.0));
  const tdm_value none = tdm_compare_scalar(graph, name, label, TDM_LESS, 0.0);
  const tdm_value in_label =
      tdm_gather(graph, name, ends, 1, tdm_masked_fill(graph, name, label, none, 0.0));
  const tdm_value a = tdm_gather(graph, name, ends, 1, blank);
  const tdm_value b = tdm_masked_fill(graph, name, in_label, none, TDM_NO_PATH);
  const tdm_value more = tdm_maximum(graph, name, a, b);
  const tdm_value apart = tdm_sub(graph, name, tdm_minimum(graph, name, a, b), more);
  const tdm_value sum = tdm_add(graph, name, more, tdm_softplus(graph, name, apart, 1.0, INFINITY));
  return tdm_squeeze(graph, name, sum, 1);
}

/* ---- The loss -------------------------------------------------------------------------------- */

typedef struct sequences {
  tdm_value x; /* (steps, n, classes) */
  tdm_value targets;
  tdm_value input_lengths;
  tdm_value target_lengths;
  bool alone; /* the arguments had no batch dimension */
} sequences;

/* Returns true if targets and lengths are integers; otherwise false, and the graph's error names
 * the argument. */
static bool has_integers(tdm_graph *graph, const char *name, const tdm_value integers[3]) {
  static const char *const called[] = {"targets", "input_lengths", "target_lengths"};
  for (size_t i = 0; i < 3; i++) {
    const tdm_dtype dtype = tdm_value_dtype(graph, integers[i]);
    if (dtype == TDM_INT32 || dtype == TDM_INT64) continue;
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "ctc %s: %s is %s, and must be int32 or int64",
                   name, called[i], tdm_dtype_name(dtype));
    return false;
  }
  return true;
}

static bool read_sequences(tdm_graph *graph, const char *name, sequences *of) {
  const tdm_shape x = tdm_value_shape(graph, of->x);
  const int ranks[] = {tdm_value_shape(graph, of->targets).rank,
                       tdm_value_shape(graph, of->input_lengths).rank,
                       tdm_value_shape(graph, of->target_lengths).rank};
  const tdm_value all[] = {of->x, of->targets, of->input_lengths, of->target_lengths};
  for (size_t i = 0; i < 4; i++)
    if (!tdm_layer_accepts(graph, "ctc", name, all[i])) return false;
  if (!has_integers(graph, name, all + 1)) return false;
  of->alone = x.rank == 2;
  if ((x.rank != 2 && x.rank != 3) || ranks[0] != x.rank - 1 || ranks[1] != x.rank - 2 ||
      ranks[2] != x.rank - 2) {
    char text[TDM_SHAPE_TEXT];
    tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                   "ctc %s: log-probabilities are %s, targets and lengths have %d, %d and %d "
                   "dimensions: they must be (steps, n, classes), (n, labels), (n) and (n), or "
                   "without n",
                   name, tdm_shape_text(&x, text, sizeof text), ranks[0], ranks[1], ranks[2]);
    return false;
  }
  if (of->alone) {
    of->x = tdm_unsqueeze(graph, name, of->x, 1);
    of->targets = tdm_unsqueeze(graph, name, of->targets, 0);
    of->input_lengths = tdm_unsqueeze(graph, name, of->input_lengths, 0);
    of->target_lengths = tdm_unsqueeze(graph, name, of->target_lengths, 0);
  }
  const tdm_argument steps = {
      .layer = "ctc", .name = name, .what = "input_lengths", .like = of->x, .dimension = 0};
  const tdm_argument labels = {
      .layer = "ctc", .name = name, .what = "target_lengths", .like = of->targets, .dimension = 1};
  of->input_lengths = tdm_argument_check(graph, &steps, of->input_lengths);
  of->target_lengths = tdm_argument_check(graph, &labels, of->target_lengths);
  of->targets = tdm_cast(graph, name, of->targets, TDM_INT64);
  of->input_lengths = tdm_cast(graph, name, of->input_lengths, TDM_INT64);
  of->target_lengths = tdm_cast(graph, name, of->target_lengths, TDM_INT64);
  return true;
}

/* Returns losses (n), with sequences without steps set to 0 if their target is empty, otherwise to
 * infinity. */
static tdm_value without_steps(tdm_graph *graph, const char *name, const sequences *of,
                               tdm_value losses) {
  const tdm_value both = tdm_add(graph, name, of->input_lengths, of->target_lengths);
  const tdm_value stepless = tdm_compare_scalar(graph, name, of->input_lengths, TDM_EQUAL, 0.0);
  const tdm_value empty = tdm_compare_scalar(graph, name, both, TDM_EQUAL, 0.0);
  losses = tdm_masked_fill(graph, name, losses, stepless, -TDM_NO_PATH);
  return tdm_masked_fill(graph, name, losses, empty, 0.0);
}

/* Returns the loss of each sequence, (n). */
static tdm_value losses_of(tdm_graph *graph, const char *name, const sequences *of,
                           const tdm_loss_options *chosen) {
  const double blank = (double)chosen->blank;
  const tdm_dtype dtype = tdm_value_dtype(graph, of->x);
  const tdm_value places = spread_out(graph, name, of->targets, of->target_lengths, blank, of->x);
  const tdm_value operands[] = {emissions_of(graph, name, of->x, places),
                                bars_of(graph, name, places, blank, dtype)};
  const tdm_value paths = tdm_append(graph, &paths_operation, name, NULL, operands, 2, NULL);
  const tdm_value ends = last_steps(graph, name, paths, of->input_lengths, places);
  const tdm_value loss = without_steps(
      graph, name, of, tdm_neg(graph, name, both_ends(graph, name, ends, of->target_lengths)));
  const tdm_value hopeless = tdm_compare_scalar(graph, name, loss, TDM_GREATER, -0.1 * TDM_NO_PATH);
  return tdm_masked_fill(graph, name, loss, hopeless, chosen->zero_infinity ? 0.0 : INFINITY);
}

tdm_value tdm_ctc_with(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                       tdm_value targets, tdm_value input_lengths, tdm_value target_lengths,
                       const tdm_loss_options *options) {
  tdm_loss_options chosen;
  name = tdm_graph_name(graph, name);
  sequences of = {log_probabilities, targets, input_lengths, target_lengths, false};
  if (!tdm_loss_options_read(graph, "ctc", name, options, TDM_LOSS_USES_BLANK, &chosen) ||
      !read_sequences(graph, name, &of))
    return TDM_NO_VALUE;
  const tdm_dim classes = tdm_value_shape(graph, of.x).dims[2];
  if (chosen.blank < 0 || (tdm_dim_is_size(classes) && chosen.blank >= classes))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT,
                          "ctc %s: blank is %lld, and must be one of the %lld classes", name,
                          (long long)chosen.blank, (long long)classes);
  tdm_value losses = losses_of(graph, name, &of, &chosen);
  if (chosen.reduction == TDM_LOSS_MEAN) {
    const tdm_value lengths = tdm_loss_cast_like(graph, name, of.target_lengths, losses);
    losses = tdm_div(graph, name, losses, tdm_clamp(graph, name, lengths, 1.0, INFINITY));
  }
  return of.alone ? tdm_squeeze(graph, name, losses, 0)
                  : tdm_loss_reduce(graph, name, losses, chosen.reduction);
}

tdm_value tdm_ctc(tdm_graph *graph, const char *name, tdm_value log_probabilities,
                  tdm_value targets, tdm_value input_lengths, tdm_value target_lengths) {
  return tdm_ctc_with(graph, name, log_probabilities, targets, input_lengths, target_lengths, NULL);
}
