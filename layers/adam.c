/* Adam (D. P. Kingma, J. Ba, 2015), AdamW (I. Loshchilov, F. Hutter, 2019) and PyTorch's
 * SparseAdam. Invariant: an update is one node that overwrites the parameter, both averages and
 * the step count, which are states beside the parameter. */
#include "layers/clip.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* Places in tdm_optimizer.settings. */
enum { BETA1, BETA2, EPSILON, WEIGHT_DECAY, DECOUPLED };

/* parameter, d_parameter, exp_avg, exp_avg_sq, step -> =parameter and the three states. */
static const tdm_operation adam = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ADAM,
    .attribute_bytes = sizeof(tdm_adam_attributes),
    .min_inputs = 5,
    .max_inputs = 5,
    .output_count = 4,
    .overwrites = {1, 3, 4, 5},
    .infer = tdm_infer_update,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

/* parameter, rows, indices, count, exp_avg, exp_avg_sq, step -> =parameter and the states. */
static const tdm_operation adam_sparse = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ADAM_SPARSE,
    .attribute_bytes = sizeof(tdm_adam_attributes),
    .min_inputs = 7,
    .max_inputs = 7,
    .output_count = 4,
    .overwrites = {1, 5, 6, 7},
    .infer = tdm_infer_update,
    .work = tdm_work_updates_rows,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(adam, {.operation = &adam, .functions = "tdm_adam tdm_adamw"},
            {.operation = &adam_sparse, .functions = "tdm_sparse_adam"});

static bool is_decay_rate(double beta) {
  return beta >= 0.0 && beta < 1.0;
}

static tdm_status check_settings(const tdm_optimizer *optimizer) {
  const double *settings = optimizer->settings;
  const char *name = optimizer->rule->name;
  if (!is_decay_rate(settings[BETA1]) || !is_decay_rate(settings[BETA2]))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: betas %g and %g must lie in [0, 1)", name,
                    settings[BETA1], settings[BETA2]);
  if (!tdm_is_setting(optimizer->learning_rate) || !tdm_is_setting(settings[EPSILON]) ||
      !tdm_is_setting(settings[WEIGHT_DECAY]))
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "%s: learning rate %g, epsilon %g and weight decay %g must be finite and not negative",
        name, optimizer->learning_rate, settings[EPSILON], settings[WEIGHT_DECAY]);
  return TDM_OK;
}

static void append_update(tdm_update *update, const tdm_clip *clip, size_t index) {
  const double *settings = tdm_update_optimizer(update)->settings;
  const bool sparse = tdm_update_is_sparse(update, index);
  const tdm_adam_attributes attributes = {.beta1 = settings[BETA1],
                                          .beta2 = settings[BETA2],
                                          .epsilon = settings[EPSILON],
                                          .weight_decay = settings[WEIGHT_DECAY],
                                          .decoupled = settings[DECOUPLED] != 0.0};
  tdm_value operands[7];
  size_t count = 0;
  operands[count++] = tdm_update_parameter(update, index);
  operands[count++] = tdm_clip_gradient(update, clip, index);
  if (sparse) {
    operands[count++] = tdm_update_indices(update, index);
    operands[count++] = tdm_update_rows_count(update, index);
  }
  operands[count++] = tdm_optimizer_state(update, index, "exp_avg", false);
  operands[count++] = tdm_optimizer_state(update, index, "exp_avg_sq", false);
  operands[count++] = tdm_optimizer_state(update, index, "step", true);
  tdm_append(tdm_update_graph(update), sparse ? &adam_sparse : &adam,
             tdm_update_name(update, index), &attributes, operands, count, NULL);
}

/* Every gradient must be sparse, or every one dense. */
static tdm_status append_updates(tdm_update *update, bool sparse) {
  const tdm_optimizer *optimizer = tdm_update_optimizer(update);
  TDM_TRY(check_settings(optimizer));
  for (size_t i = 0; i < tdm_update_count(update); i++)
    if (tdm_update_is_sparse(update, i) != sparse)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes no %s gradients, and %s has one",
                      optimizer->rule->name, sparse ? "dense" : "sparse",
                      tdm_update_name(update, i));
  tdm_clip clip;
  TDM_TRY(tdm_clip_begin(update, &clip));
  for (size_t i = 0; i < tdm_update_count(update); i++)
    append_update(update, &clip, i);
  return tdm_graph_status(tdm_update_graph(update));
}

static tdm_status append_dense_updates(tdm_update *update) {
  return append_updates(update, false);
}

static tdm_status append_sparse_updates(tdm_update *update) {
  return append_updates(update, true);
}

static const tdm_optimizer_rule adam_rule = {
    .name = "adam", .accepts_sparse = false, .append = append_dense_updates};
static const tdm_optimizer_rule adamw_rule = {
    .name = "adamw", .accepts_sparse = false, .append = append_dense_updates};
static const tdm_optimizer_rule sparse_adam_rule = {
    .name = "sparse_adam", .accepts_sparse = true, .append = append_sparse_updates};

static tdm_optimizer make(const tdm_optimizer_rule *rule, const tdm_adam_options *options) {
  const tdm_adam_options none = {0};
  if (!options) options = &none;
  tdm_optimizer optimizer = {.rule = rule,
                             .learning_rate = tdm_or_default(options->learning_rate, 1e-3)};
  optimizer.settings[BETA1] = tdm_or_default(options->beta1, 0.9);
  optimizer.settings[BETA2] = tdm_or_default(options->beta2, 0.999);
  optimizer.settings[EPSILON] = tdm_or_default(options->epsilon, 1e-8);
  optimizer.settings[WEIGHT_DECAY] = options->weight_decay;
  optimizer.settings[DECOUPLED] = rule == &adamw_rule;
  return optimizer;
}

static tdm_optimizer make_with_rate(const tdm_optimizer_rule *rule, double learning_rate,
                                    double weight_decay) {
  const tdm_adam_options options = {.weight_decay = weight_decay};
  tdm_optimizer optimizer = make(rule, &options);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

tdm_optimizer tdm_adam(double learning_rate) {
  return make_with_rate(&adam_rule, learning_rate, 0.0);
}

tdm_optimizer tdm_adam_with(const tdm_adam_options *options) {
  return make(&adam_rule, options);
}

tdm_optimizer tdm_adamw(double learning_rate) {
  return make_with_rate(&adamw_rule, learning_rate, 1e-2);
}

tdm_optimizer tdm_adamw_with(const tdm_adam_options *options) {
  return make(&adamw_rule, options);
}

tdm_optimizer tdm_sparse_adam(double learning_rate) {
  return make_with_rate(&sparse_adam_rule, learning_rate, 0.0);
}

tdm_optimizer tdm_sparse_adam_with(const tdm_adam_options *options) {
  return make(&sparse_adam_rule, options);
}
