/* Builders of the golden cases of tests/golden/loss_cases.py. The golden file lists
 * the cases and their options: CASE/option.BUILDER is a list of numbers. */
#include "devices/kernels/losses/losses.h"
#include "tests/layers/layer_cases.h"
#include "tests/options.h"

/* A scalar loss is itself the loss; one value an element is judged. */
static void finish(layer_test *test, tdm_value loss) {
  if (tdm_value_shape(test->graph, loss).rank > 0) {
    layer_judge(test, "y", loss);
  } else {
    layer_output(test, "y", loss);
    layer_add_loss(test, loss);
  }
}

/* Numbers of the case: kind, reduction, weighted, ignored, smoothing. */
static void classes(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)numbers[1],
                                    o.label_smoothing = numbers[4]);
  if (numbers[3] >= 0) chosen.ignore_index = (int64_t)numbers[3];
  const tdm_value judged = layer_parameter(test, "judged");
  const tdm_value targets = layer_input(test, "targets");
  if (numbers[2] != 0) chosen.weight = layer_input(test, "weight");
  finish(test, numbers[0] == 0
                   ? tdm_nll_with(test->graph, "f", judged, targets, &chosen)
                   : tdm_cross_entropy_with(test->graph, "f", judged, targets, &chosen));
}

/* Numbers of the case: reduction, weighted, smoothing. */
static void probabilities(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)numbers[0],
                                    o.label_smoothing = numbers[2]);
  const tdm_value judged = layer_parameter(test, "judged");
  const tdm_value targets = layer_input(test, "targets");
  if (numbers[1] != 0) chosen.weight = layer_input(test, "weight");
  finish(test, tdm_cross_entropy_with(test->graph, "f", judged, targets, &chosen));
}

/* Numbers of the case: reduction, logarithms. */
static void divergence(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_loss_options chosen =
      OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)numbers[0],
              o.log_target = numbers[1] != 0);
  const tdm_value judged = layer_parameter(test, "judged");
  finish(test, tdm_kl_div_with(test->graph, "f", judged, layer_input(test, "targets"), &chosen));
}

/* Numbers of the case: reduction, rank of weight, rank of pos_weight; -1: none. */
static void binary(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)numbers[0]);
  const tdm_value x = layer_parameter(test, "x");
  const tdm_value targets = layer_input(test, "targets");
  if (numbers[1] >= 0) chosen.weight = layer_input(test, "weight");
  if (numbers[2] >= 0) chosen.pos_weight = layer_input(test, "pos_weight");
  finish(test, tdm_binary_cross_entropy_with(test->graph, "f", x, targets, &chosen));
}

/* Numbers of the case: kind, reduction, beta. */
static void difference(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)numbers[1]);
  if (numbers[0] == 1 || numbers[0] == 2) chosen.beta = numbers[2];
  const tdm_value a = layer_parameter(test, "a");
  const tdm_value b = layer_parameter(test, "b");
  finish(test, numbers[0] == 0   ? tdm_l1_with(test->graph, "f", a, b, &chosen)
               : numbers[0] == 3 ? tdm_mse_with(test->graph, "f", a, b, &chosen)
               : numbers[0] == 1 ? tdm_smooth_l1_with(test->graph, "f", a, b, &chosen)
                                 : tdm_huber_with(test->graph, "f", a, b, &chosen));
}

/* The place in MARGINS, reduction, whether there is a margin, margin, p, epsilon, swap, full,
 * linear input, weighted, dimension, keep. */
static void margins(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_graph *graph = test->graph;
  tdm_loss_options chosen =
      OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)numbers[1],
              o.swap = numbers[6] != 0, o.full = numbers[7] != 0, o.linear_input = numbers[8] != 0);
  if (numbers[2] != 0) chosen.margin = numbers[3];
  if (numbers[4] != 0) chosen.p = numbers[4];
  if (numbers[5] != 0) chosen.epsilon = numbers[5];
  const int kind = (int)numbers[0];
  const tdm_value a = layer_parameter(test, "a");
  tdm_value b = {0, 0}, c = {0, 0}, targets = {0, 0}, y = {0, 0};
  if (numbers[9] != 0) chosen.weight = layer_input(test, "weight");
  if (kind == 0 || kind == 6 || kind == 7 || kind == 8 || kind > 9) b = layer_parameter(test, "b");
  if (kind == 7 || kind == 8) c = layer_parameter(test, "c");
  if (kind < 7 || kind == 9) targets = layer_input(test, "targets");
  switch (kind) {
  case 0:
    y = tdm_margin_ranking_with(graph, "f", a, b, targets, &chosen);
    break;
  case 1:
    y = tdm_hinge_embedding_with(graph, "f", a, targets, &chosen);
    break;
  case 2:
    y = tdm_soft_margin_with(graph, "f", a, targets, &chosen);
    break;
  case 3:
    y = tdm_multi_margin_with(graph, "f", a, targets, &chosen);
    break;
  case 4:
    y = tdm_multilabel_margin_with(graph, "f", a, targets, &chosen);
    break;
  case 5:
    y = tdm_multilabel_soft_margin_with(graph, "f", a, targets, &chosen);
    break;
  case 6:
    y = tdm_cosine_embedding_with(graph, "f", a, b, targets, &chosen);
    break;
  case 7:
    y = tdm_triplet_margin_with(graph, "f", a, b, c, &chosen);
    break;
  case 8:
    y = tdm_gaussian_nll_with(graph, "f", a, b, c, &chosen);
    break;
  case 9:
    y = tdm_poisson_nll_with(graph, "f", a, targets, &chosen);
    break;
  case 10:
    y = tdm_cosine_similarity(graph, "f", a, b, (int)numbers[10],
                              numbers[5] != 0 ? numbers[5] : 1e-8);
    break;
  default:
    y = tdm_pairwise_distance(graph, "f", a, b, numbers[4] != 0 ? numbers[4] : 2,
                              numbers[5] != 0 ? numbers[5] : 1e-6, numbers[11] != 0);
  }
  finish(test, y);
}

/* Numbers of the case: reduction, blank, zero_infinity. */
static void ctc(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_loss_options chosen =
      OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)numbers[0],
              o.blank = (int64_t)numbers[1], o.zero_infinity = numbers[2] != 0);
  const tdm_value x = tdm_log_softmax(test->graph, "log", layer_parameter(test, "x"), -1);
  const tdm_value targets = layer_input(test, "targets"), steps = layer_input(test, "steps");
  finish(test,
         tdm_ctc_with(test->graph, "f", x, targets, steps, layer_input(test, "counts"), &chosen));
}

/* Losses whose only option is the reduction: CASE/option.LOSS */
#define PLAIN(loss, operands, ...)                                                                 \
  static void build_##loss(layer_test *test, const layer_case *options) {                          \
    const tdm_loss_options chosen =                                                                \
        OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)options->numbers[0]);          \
    const tdm_value x = layer_parameter(test, "x");                                                \
    finish(test, tdm_##loss##_with(test->graph, "f", x, OPERAND_##operands, &chosen));             \
  }
#define OPERAND_PAIR layer_parameter(test, "t")
#define OPERAND_TARGETS layer_input(test, "targets")
TDM_LOSSES(PLAIN)

#define BUILDER(loss, ...) {#loss, {.build = build_##loss}},
const layer_builder loss_builders[] = {
    TDM_LOSSES(BUILDER){"classes", {.build = classes}},
    {"probabilities", {.build = probabilities}},
    {"divergence", {.build = divergence}},
    {"binary", {.build = binary}},
    {"difference", {.build = difference}},
    {"margins", {.build = margins}},
    {"ctc", {.build = ctc}},
    {.layer = NULL},
};
