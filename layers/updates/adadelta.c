/* Adadelta (M. D. Zeiler, arXiv:1212.5701, 2012), as torch.optim.Adadelta. Invariant: one node
 * updates a parameter. It overwrites the parameter and both states: the running mean of squared
 * gradients and the running mean of squared changes. */
#include "layers/updates/clip.h"
#include "layers/common.h"
#include "tandem/layers/optimizers.h"

/* Indices into tdm_optimizer.settings. */
enum { RHO, EPSILON, WEIGHT_DECAY };

/* Inputs: parameter, d_parameter, square_avg, acc_delta. The outputs overwrite the parameter and
 * both states. */
static const tdm_operation adadelta = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ADADELTA,
    .attribute_bytes = sizeof(tdm_adadelta_attributes),
    .min_inputs = 4,
    .max_inputs = 4,
    .output_count = 3,
    .overwrites = {1, 3, 4},
    .infer = tdm_infer_update,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(adadelta, {.operation = &adadelta, .functions = "tdm_adadelta"});

static tdm_status check_settings(const tdm_optimizer *optimizer) {
  const double *settings = optimizer->settings;
  if (!(settings[RHO] >= 0.0 && settings[RHO] <= 1.0))
    return tdm_fail(TDM_INVALID_ARGUMENT, "adadelta: rho %g must lie in [0, 1]", settings[RHO]);
  if (!tdm_is_setting(optimizer->learning_rate) || !tdm_is_setting(settings[EPSILON]) ||
      !tdm_is_setting(settings[WEIGHT_DECAY]))
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "adadelta: learning rate %g, epsilon %g and weight decay %g must be finite and not "
        "negative",
        optimizer->learning_rate, settings[EPSILON], settings[WEIGHT_DECAY]);
  return TDM_OK;
}

static tdm_status append_updates(tdm_update *update) {
  const double *settings = tdm_update_optimizer(update)->settings;
  const tdm_adadelta_attributes attributes = {
      .rho = settings[RHO], .epsilon = settings[EPSILON], .weight_decay = settings[WEIGHT_DECAY]};
  tdm_clip clip;
  TDM_TRY(check_settings(tdm_update_optimizer(update)));
  TDM_TRY(tdm_clip_begin(update, &clip));
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    const tdm_value operands[] = {
        tdm_update_parameter(update, i),
        tdm_clip_gradient(update, &clip, i),
        tdm_optimizer_state(update, i, "square_avg", false),
        tdm_optimizer_state(update, i, "acc_delta", false),
    };
    tdm_append_update(update, i, &adadelta, &attributes, operands, 4);
  }
  return tdm_graph_status(tdm_update_graph(update));
}

static const tdm_optimizer_rule rule = {
    .name = "adadelta", .append = append_updates, .is_by_element = true};

tdm_optimizer tdm_adadelta_with(const tdm_adadelta_options *options) {
  TDM_READ_OPTIMIZER(adadelta, options);
  optimizer.rule = &rule;
  optimizer.settings[RHO] = chosen.rho;
  optimizer.settings[EPSILON] = chosen.epsilon;
  optimizer.settings[WEIGHT_DECAY] = chosen.weight_decay;
  return optimizer;
}

tdm_optimizer tdm_adadelta(double learning_rate) {
  tdm_optimizer optimizer = tdm_adadelta_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}
