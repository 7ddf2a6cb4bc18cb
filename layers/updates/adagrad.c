/* Adagrad (J. Duchi, E. Hazan, Y. Singer, JMLR 12, 2011), as torch.optim.Adagrad. Invariant: one
 * node updates a parameter. It overwrites the parameter, its sum of squared gradients and its step
 * count. With a sparse gradient it changes only the rows that the gradient names. */
#include "layers/updates/clip.h"
#include "layers/common.h"
#include "tandem/layers/optimizers.h"

/* Indices into tdm_optimizer.settings. */
enum { RATE_DECAY, WEIGHT_DECAY, INITIAL, EPSILON };

/* Inputs: parameter, d_parameter, sum, step. The outputs overwrite the parameter and the states. */
static const tdm_operation adagrad = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ADAGRAD,
    .attribute_bytes = sizeof(tdm_adagrad_attributes),
    .min_inputs = 4,
    .max_inputs = 4,
    .output_count = 3,
    .overwrites = {1, 3, 4},
    .infer = tdm_infer_update,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

/* Inputs: parameter (rows, dim), rows (n, dim), indices (n), count (), sum, step. The outputs
 * overwrite the parameter and the states. */
static const tdm_operation adagrad_sparse = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_ADAGRAD_SPARSE,
    .attribute_bytes = sizeof(tdm_adagrad_attributes),
    .min_inputs = 6,
    .max_inputs = 6,
    .output_count = 3,
    .overwrites = {1, 5, 6},
    .infer = tdm_infer_update,
    .work = tdm_work_updates_rows,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(adagrad, {.operation = &adagrad, .functions = "tdm_adagrad"},
            {.operation = &adagrad_sparse});

static tdm_status check_settings(const tdm_optimizer *optimizer) {
  const double *settings = optimizer->settings;
  if (!tdm_is_setting(optimizer->learning_rate) || !tdm_is_setting(settings[RATE_DECAY]))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "adagrad: learning rate %g and its decay %g must be finite and not negative",
                    optimizer->learning_rate, settings[RATE_DECAY]);
  if (!tdm_is_setting(settings[WEIGHT_DECAY]) || !tdm_is_setting(settings[INITIAL]) ||
      !tdm_is_setting(settings[EPSILON]))
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "adagrad: weight decay %g, initial accumulator %g and epsilon %g must be "
                    "finite and not negative",
                    settings[WEIGHT_DECAY], settings[INITIAL], settings[EPSILON]);
  return TDM_OK;
}

static void append_update(tdm_update *update, const tdm_clip *clip, size_t index) {
  const double *settings = tdm_update_optimizer(update)->settings;
  const bool sparse = tdm_update_is_sparse(update, index);
  const tdm_adagrad_attributes attributes = {.rate_decay = settings[RATE_DECAY],
                                             .weight_decay = settings[WEIGHT_DECAY],
                                             .epsilon = settings[EPSILON]};
  tdm_value operands[6];
  size_t count = 0;
  operands[count++] = tdm_update_parameter(update, index);
  operands[count++] = tdm_clip_gradient(update, clip, index);
  if (sparse) {
    operands[count++] = tdm_update_indices(update, index);
    operands[count++] = tdm_update_rows_count(update, index);
  }
  operands[count++] = tdm_optimizer_state_of(update, index, "sum", false, settings[INITIAL]);
  operands[count++] = tdm_optimizer_state(update, index, "step", true);
  tdm_append_update(update, index, sparse ? &adagrad_sparse : &adagrad, &attributes, operands,
                    count);
}

static tdm_status append_updates(tdm_update *update) {
  TDM_TRY(check_settings(tdm_update_optimizer(update)));
  return tdm_clip_updates(update, append_update);
}

static const tdm_optimizer_rule plain_rule = {
    .name = "adagrad", .accepts_sparse = true, .append = append_updates, .is_by_element = true};
static const tdm_optimizer_rule decaying_rule = {.name = "adagrad with weight decay",
                                                 .accepts_sparse = false,
                                                 .append = append_updates,
                                                 .is_by_element = true};

tdm_optimizer tdm_adagrad_with(const tdm_adagrad_options *options) {
  TDM_READ_OPTIMIZER(adagrad, options);
  optimizer.rule = chosen.weight_decay == 0.0 ? &plain_rule : &decaying_rule;
  optimizer.settings[RATE_DECAY] = chosen.rate_decay;
  optimizer.settings[WEIGHT_DECAY] = chosen.weight_decay;
  optimizer.settings[INITIAL] = chosen.initial_accumulator;
  optimizer.settings[EPSILON] = chosen.epsilon;
  return optimizer;
}

tdm_optimizer tdm_adagrad(double learning_rate) {
  tdm_optimizer optimizer = tdm_adagrad_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}
