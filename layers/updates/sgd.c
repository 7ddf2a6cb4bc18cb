/* Stochastic gradient descent with momentum, dampening, weight decay and Nesterov's momentum, as
 * torch.optim.SGD. Invariant: one node updates a parameter. It overwrites the parameter and its
 * states. Sparse gradients allow only plain descent. */
#include "layers/updates/clip.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* Indices into tdm_optimizer.settings. */
enum { MOMENTUM, DAMPENING, WEIGHT_DECAY, NESTEROV };

static tdm_status infer_sgd(tdm_infer *infer) {
  TDM_TRY(tdm_infer_update(infer));
  return tdm_expect_shape(infer, 1, "gradient", tdm_infer_shape(infer, 0));
}

/* Inputs: parameter, d_parameter. The output overwrites the parameter. */
static const tdm_operation sgd = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SGD,
    .attribute_bytes = sizeof(tdm_sgd_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .overwrites = {1},
    .infer = infer_sgd,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

/* Inputs: parameter, d_parameter, momentum_buffer, initialized. The outputs overwrite the parameter
 * and both states. */
static const tdm_operation sgd_momentum = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SGD,
    .attribute_bytes = sizeof(tdm_sgd_attributes),
    .min_inputs = 4,
    .max_inputs = 4,
    .output_count = 3,
    .overwrites = {1, 3, 4},
    .infer = infer_sgd,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_FLOAT32,
};

/* Inputs: parameter (rows, dim), rows (n, dim), indices (n), count (). The output overwrites the
 * parameter. */
static const tdm_operation sgd_sparse = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_SGD_SPARSE,
    .min_inputs = 4,
    .max_inputs = 4,
    .output_count = 1,
    .overwrites = {1},
    .infer = tdm_infer_like_first,
    .work = tdm_work_updates_rows,
    .precision = TDM_PRECISION_FLOAT32,
};

TDM_RECORDS(sgd, {.operation = &sgd, .functions = "tdm_sgd"}, {.operation = &sgd_momentum},
            {.operation = &sgd_sparse});

static tdm_status append_sparse(tdm_update *update, const tdm_clip *clip, size_t index) {
  const double *settings = tdm_update_optimizer(update)->settings;
  const char *name = tdm_update_name(update, index);
  if (settings[MOMENTUM] != 0.0 || settings[WEIGHT_DECAY] != 0.0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "sgd: %s has a sparse gradient, which takes neither momentum nor weight decay",
                    name);
  const tdm_value operands[] = {
      tdm_update_parameter(update, index), tdm_clip_gradient(update, clip, index),
      tdm_update_indices(update, index), tdm_update_rows_count(update, index)};
  tdm_append_update(update, index, &sgd_sparse, NULL, operands, 4);
  return TDM_OK;
}

static tdm_status append_dense(tdm_update *update, const tdm_clip *clip, size_t index) {
  const double *settings = tdm_update_optimizer(update)->settings;
  const tdm_sgd_attributes attributes = {.momentum = settings[MOMENTUM],
                                         .dampening = settings[DAMPENING],
                                         .weight_decay = settings[WEIGHT_DECAY],
                                         .nesterov = settings[NESTEROV] != 0.0};
  const tdm_value parameter = tdm_update_parameter(update, index);
  tdm_value operands[4] = {parameter, tdm_clip_gradient(update, clip, index)};
  if (settings[MOMENTUM] == 0.0) {
    tdm_append_update(update, index, &sgd, &attributes, operands, 2);
    return TDM_OK;
  }
  operands[2] = tdm_optimizer_state(update, index, "momentum_buffer", false);
  operands[3] = tdm_optimizer_state(update, index, "initialized", true);
  tdm_append_update(update, index, &sgd_momentum, &attributes, operands, 4);
  return TDM_OK;
}

static tdm_status check_settings(const tdm_optimizer *optimizer) {
  const double *settings = optimizer->settings;
  if (!tdm_is_setting(optimizer->learning_rate) || !tdm_is_setting(settings[MOMENTUM]) ||
      !tdm_is_setting(settings[WEIGHT_DECAY]))
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "sgd: learning rate %g, momentum %g and weight decay %g must be finite and not negative",
        optimizer->learning_rate, settings[MOMENTUM], settings[WEIGHT_DECAY]);
  if (settings[NESTEROV] != 0.0 && (settings[MOMENTUM] == 0.0 || settings[DAMPENING] != 0.0))
    return tdm_fail(TDM_INVALID_ARGUMENT, "sgd: nesterov needs momentum and no dampening");
  return TDM_OK;
}

static tdm_status append_updates(tdm_update *update) {
  tdm_clip clip;
  TDM_TRY(check_settings(tdm_update_optimizer(update)));
  TDM_TRY(tdm_clip_begin(update, &clip));
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    if (tdm_update_is_sparse(update, i))
      TDM_TRY(append_sparse(update, &clip, i));
    else
      TDM_TRY(append_dense(update, &clip, i));
  }
  return tdm_graph_status(tdm_update_graph(update));
}

static const tdm_optimizer_rule plain_rule = {
    .name = "sgd", .accepts_sparse = true, .append = append_updates, .is_by_element = true};
static const tdm_optimizer_rule stateful_rule = {.name = "sgd with momentum or weight decay",
                                                 .accepts_sparse = false,
                                                 .append = append_updates,
                                                 .momentum = 1 + MOMENTUM,
                                                 .is_by_element = true};

tdm_optimizer tdm_sgd_with(const tdm_sgd_options *options) {
  TDM_READ_OPTIMIZER(sgd, options);
  const bool plain = chosen.momentum == 0.0 && chosen.weight_decay == 0.0;
  optimizer.rule = plain ? &plain_rule : &stateful_rule;
  optimizer.settings[MOMENTUM] = chosen.momentum;
  optimizer.settings[DAMPENING] = chosen.dampening;
  optimizer.settings[WEIGHT_DECAY] = chosen.weight_decay;
  optimizer.settings[NESTEROV] = chosen.nesterov;
  return optimizer;
}

tdm_optimizer tdm_sgd(double learning_rate) {
  tdm_sgd_options options = tdm_sgd_options_default();
  options.learning_rate = learning_rate;
  return tdm_sgd_with(&options);
}
