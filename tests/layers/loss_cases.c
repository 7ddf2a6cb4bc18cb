/* Builders of the golden cases of tests/golden/loss_cases.py. Which cases there are, and their
 * options, the golden file itself tells: CASE/option.BUILDER is a list of numbers. */
#include "tests/layers/layer_cases.h"

/* A scalar loss is itself the loss; one value an element is judged. */
static void finish(layer_test *test, tdm_value loss) {
  if (tdm_value_shape(test->graph, loss).rank > 0) {
    layer_judge(test, "y", loss);
  } else {
    layer_output(test, "y", loss);
    layer_add_loss(test, loss);
  }
}

/* kind, reduction, weighted, ignored, smoothing */
static void classes(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = {.struct_size = sizeof chosen,
                             .reduction = (tdm_loss_reduction)numbers[1],
                             .has_ignore_index = numbers[3] >= 0,
                             .ignore_index = (int64_t)numbers[3],
                             .label_smoothing = numbers[4]};
  const tdm_value judged = layer_parameter(test, "judged");
  const tdm_value targets = layer_input(test, "targets");
  if (numbers[2] != 0) chosen.weight = layer_input(test, "weight");
  finish(test, numbers[0] == 0
                   ? tdm_nll_with(test->graph, "f", judged, targets, &chosen)
                   : tdm_cross_entropy_with(test->graph, "f", judged, targets, &chosen));
}

/* reduction, weighted, smoothing */
static void probabilities(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = {.struct_size = sizeof chosen,
                             .reduction = (tdm_loss_reduction)numbers[0],
                             .label_smoothing = numbers[2]};
  const tdm_value judged = layer_parameter(test, "judged");
  const tdm_value targets = layer_input(test, "targets");
  if (numbers[1] != 0) chosen.weight = layer_input(test, "weight");
  finish(test, tdm_cross_entropy_with(test->graph, "f", judged, targets, &chosen));
}

/* reduction, logarithms */
static void divergence(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_loss_options chosen = {.struct_size = sizeof chosen,
                                   .reduction = (tdm_loss_reduction)numbers[0],
                                   .log_target = numbers[1] != 0};
  const tdm_value judged = layer_parameter(test, "judged");
  finish(test, tdm_kl_div_with(test->graph, "f", judged, layer_input(test, "targets"), &chosen));
}

/* reduction, rank of weight, rank of pos_weight; -1: none */
static void binary(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = {.struct_size = sizeof chosen,
                             .reduction = (tdm_loss_reduction)numbers[0]};
  const tdm_value x = layer_parameter(test, "x");
  const tdm_value targets = layer_input(test, "targets");
  if (numbers[1] >= 0) chosen.weight = layer_input(test, "weight");
  if (numbers[2] >= 0) chosen.pos_weight = layer_input(test, "pos_weight");
  finish(test, tdm_binary_cross_entropy_with(test->graph, "f", x, targets, &chosen));
}

/* kind, reduction, beta */
static void difference(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_loss_options chosen = {.struct_size = sizeof chosen,
                             .reduction = (tdm_loss_reduction)numbers[1],
                             .beta = numbers[0] == 0 ? 0 : numbers[2]};
  const tdm_value a = layer_parameter(test, "a");
  const tdm_value b = layer_parameter(test, "b");
  finish(test, numbers[0] == 0   ? tdm_l1_with(test->graph, "f", a, b, &chosen)
               : numbers[0] == 1 ? tdm_smooth_l1_with(test->graph, "f", a, b, &chosen)
                                 : tdm_huber_with(test->graph, "f", a, b, &chosen));
}

const layer_builder loss_builders[] = {
    {"classes", {.build = classes}},       {"probabilities", {.build = probabilities}},
    {"divergence", {.build = divergence}}, {"binary", {.build = binary}},
    {"difference", {.build = difference}}, {.layer = NULL},
};
