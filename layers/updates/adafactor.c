/* Adafactor (N. Shazeer, M. Stern, ICML 2018), as torch.optim.Adafactor. Invariant: one node
 * updates a parameter. It overwrites the parameter, its step count and its means of squared
 * gradients. The means are per row and per column of the last two dimensions, or per element if the
 * parameter has fewer than two dimensions. */
#include <float.h>

#include "layers/common.h"
#include "layers/updates/clip.h"
#include "tandem/layers/optimizers.h"

/* Indices into tdm_optimizer.settings. */
enum { BETA2_DECAY, EPSILON1, EPSILON2, CLIP, WEIGHT_DECAY };

#define OPERATION(states)                                                                          \
  .struct_size = sizeof(tdm_operation), .name = TDM_OP_ADAFACTOR,                                  \
  .attribute_bytes = sizeof(tdm_adafactor_attributes), .min_inputs = 2 + (states),                 \
  .max_inputs = 2 + (states), .output_count = 1 + (states), .infer = tdm_infer_update,             \
  .work = tdm_work_streams, .precision = TDM_PRECISION_FLOAT32

/* Inputs: parameter, d_parameter, then row_var, col_var, step or variance, step. The outputs
 * overwrite the parameter and the states. */
static const tdm_operation factored = {OPERATION(3), .overwrites = {1, 3, 4, 5}};
static const tdm_operation whole = {OPERATION(2), .overwrites = {1, 3, 4}};

TDM_RECORDS(adafactor, {.operation = &factored, .functions = "tdm_adafactor"},
            {.operation = &whole});

static tdm_status check_settings(const tdm_optimizer *optimizer) {
  const double *settings = optimizer->settings;
  if (!(settings[BETA2_DECAY] <= 0.0) || !isfinite(settings[BETA2_DECAY]))
    return tdm_fail(TDM_INVALID_ARGUMENT, "adafactor: beta2_decay %g must not be positive",
                    settings[BETA2_DECAY]);
  if (!(settings[CLIP] >= 1.0) || !isfinite(settings[CLIP]))
    return tdm_fail(TDM_INVALID_ARGUMENT, "adafactor: d %g must be 1 at least", settings[CLIP]);
  const double epsilon1 = tdm_or_default(settings[EPSILON1], 0.0);
  if (!tdm_is_setting(epsilon1) || !tdm_is_setting(settings[EPSILON2]))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "adafactor: epsilons %g and %g must be finite and not negative",
                    settings[EPSILON1], settings[EPSILON2]);
  if (!tdm_is_setting(optimizer->learning_rate) || !tdm_is_setting(settings[WEIGHT_DECAY]))
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "adafactor: learning rate %g and weight decay %g must be finite and not negative",
        optimizer->learning_rate, settings[WEIGHT_DECAY]);
  return TDM_OK;
}

static void append_update(tdm_update *update, const tdm_clip *clip, size_t index) {
  tdm_graph *graph = tdm_update_graph(update);
  const double *settings = tdm_update_optimizer(update)->settings;
  const tdm_value parameter = tdm_update_parameter(update, index);
  const double rounds_by =
      tdm_value_dtype(graph, parameter) == TDM_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
  const tdm_adafactor_attributes attributes = {.beta2_decay = settings[BETA2_DECAY],
                                               .epsilon1 =
                                                   tdm_or_default(settings[EPSILON1], rounds_by),
                                               .epsilon2 = settings[EPSILON2],
                                               .clip = settings[CLIP],
                                               .weight_decay = settings[WEIGHT_DECAY]};
  const tdm_shape shape = tdm_value_shape(graph, parameter);
  const bool is_matrix = shape.rank >= 2;
  tdm_value operands[5] = {parameter, tdm_clip_gradient(update, clip, index)};
  size_t count = 2;
  if (is_matrix) {
    tdm_shape rows = shape, columns = shape;
    rows.dims[shape.rank - 1] = 1;
    columns.dims[shape.rank - 2] = 1;
    operands[count++] = tdm_optimizer_state_shaped(update, index, "row_var", rows, false);
    operands[count++] = tdm_optimizer_state_shaped(update, index, "col_var", columns, true);
  } else {
    operands[count++] = tdm_optimizer_state(update, index, "variance", false);
  }
  operands[count++] = tdm_optimizer_state(update, index, "step", true);
  tdm_append_update(update, index, is_matrix ? &factored : &whole, &attributes, operands, count);
}

static tdm_status append_updates(tdm_update *update) {
  TDM_TRY(check_settings(tdm_update_optimizer(update)));
  return tdm_clip_updates(update, append_update);
}

static const tdm_optimizer_rule rule = {.name = "adafactor", .append = append_updates};

tdm_optimizer tdm_adafactor_with(const tdm_adafactor_options *options) {
  TDM_READ_OPTIMIZER(adafactor, options);
  optimizer.rule = &rule;
  optimizer.settings[BETA2_DECAY] = chosen.beta2_decay;
  optimizer.settings[EPSILON1] = chosen.epsilon1;
  optimizer.settings[EPSILON2] = chosen.epsilon2;
  optimizer.settings[CLIP] = chosen.d;
  optimizer.settings[WEIGHT_DECAY] = chosen.weight_decay;
  return optimizer;
}

tdm_optimizer tdm_adafactor(double learning_rate) {
  tdm_optimizer optimizer = tdm_adafactor_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}
