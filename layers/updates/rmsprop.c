/* RMSprop (T. Tieleman, G. Hinton, "Lecture 6.5: rmsprop", 2012; centered: A. Graves, 2013), as
 * torch.optim.RMSprop. Invariant: one node updates a parameter. It overwrites the parameter and
 * those of the states square_avg, grad_avg, momentum_buffer that the settings require, in this
 * order. */
#include "layers/updates/clip.h"
#include "layers/common.h"
#include "tandem/layers/optimizers.h"

/* Indices into tdm_optimizer.settings. */
enum { ALPHA, EPSILON, WEIGHT_DECAY, MOMENTUM, CENTERED };

#define OPERATION(states)                                                                          \
  .struct_size = sizeof(tdm_operation), .name = TDM_OP_RMSPROP,                                    \
  .attribute_bytes = sizeof(tdm_rmsprop_attributes), .min_inputs = 2 + (states),                   \
  .max_inputs = 2 + (states), .output_count = 1 + (states), .infer = tdm_infer_update,             \
  .work = tdm_work_streams, .precision = TDM_PRECISION_FLOAT32

/* Inputs: parameter, d_parameter, states... The outputs overwrite the parameter and the states. The
 * index is the number of states less one. */
static const tdm_operation rmsprop[] = {
    {OPERATION(1), .overwrites = {1, 3}},
    {OPERATION(2), .overwrites = {1, 3, 4}},
    {OPERATION(3), .overwrites = {1, 3, 4, 5}},
};

TDM_RECORDS(rmsprop, {.operation = &rmsprop[0], .functions = "tdm_rmsprop"},
            {.operation = &rmsprop[1]}, {.operation = &rmsprop[2]});

static tdm_status check_settings(const tdm_optimizer *optimizer) {
  const double *settings = optimizer->settings;
  if (!tdm_is_setting(optimizer->learning_rate) || !tdm_is_setting(settings[EPSILON]) ||
      !tdm_is_setting(settings[ALPHA]))
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "rmsprop: learning rate %g, epsilon %g and alpha %g must be finite and not negative",
        optimizer->learning_rate, settings[EPSILON], settings[ALPHA]);
  if (!tdm_is_setting(settings[MOMENTUM]) || !tdm_is_setting(settings[WEIGHT_DECAY]))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "rmsprop: momentum %g and weight decay %g must be finite and not negative",
                    settings[MOMENTUM], settings[WEIGHT_DECAY]);
  return TDM_OK;
}

static void append_update(tdm_update *update, const tdm_clip *clip, size_t index) {
  const double *settings = tdm_update_optimizer(update)->settings;
  const tdm_rmsprop_attributes attributes = {.alpha = settings[ALPHA],
                                             .epsilon = settings[EPSILON],
                                             .weight_decay = settings[WEIGHT_DECAY],
                                             .momentum = settings[MOMENTUM],
                                             .centered = settings[CENTERED] != 0.0};
  tdm_value operands[5];
  size_t count = 0;
  operands[count++] = tdm_update_parameter(update, index);
  operands[count++] = tdm_clip_gradient(update, clip, index);
  operands[count++] = tdm_optimizer_state(update, index, "square_avg", false);
  if (attributes.centered)
    operands[count++] = tdm_optimizer_state(update, index, "grad_avg", false);
  if (attributes.momentum != 0.0)
    operands[count++] = tdm_optimizer_state(update, index, "momentum_buffer", false);
  tdm_append_update(update, index, &rmsprop[count - 3], &attributes, operands, count);
}

static tdm_status append_updates(tdm_update *update) {
  TDM_TRY(check_settings(tdm_update_optimizer(update)));
  return tdm_clip_updates(update, append_update);
}

static const tdm_optimizer_rule rule = {
    .name = "rmsprop", .append = append_updates, .momentum = 1 + MOMENTUM, .is_by_element = true};

tdm_optimizer tdm_rmsprop_with(const tdm_rmsprop_options *options) {
  TDM_READ_OPTIMIZER(rmsprop, options);
  optimizer.rule = &rule;
  optimizer.settings[ALPHA] = chosen.alpha;
  optimizer.settings[EPSILON] = chosen.epsilon;
  optimizer.settings[WEIGHT_DECAY] = chosen.weight_decay;
  optimizer.settings[MOMENTUM] = chosen.momentum;
  optimizer.settings[CENTERED] = chosen.centered;
  return optimizer;
}

tdm_optimizer tdm_rmsprop(double learning_rate) {
  tdm_optimizer optimizer = tdm_rmsprop_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}
