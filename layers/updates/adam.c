/* Adam (D. P. Kingma, J. Ba, 2015) and its variants: AdamW (I. Loshchilov, F. Hutter, 2019),
 * AMSGrad (S. J. Reddi et al., 2018), NAdam (T. Dozat, 2016), RAdam (L. Liu et al., 2020), Adamax,
 * PyTorch's SparseAdam. Invariant: one node updates a parameter. It overwrites the parameter and
 * its states: both moving averages, the variant's own state and the step count. */
#include "layers/updates/clip.h"
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* Indices into tdm_optimizer.settings. */
enum { BETA1, BETA2, EPSILON, WEIGHT_DECAY, DECOUPLED, AMSGRAD, MOMENTUM_DECAY };

#define OPERATION(operation, states)                                                               \
  .struct_size = sizeof(tdm_operation), .name = operation,                                         \
  .attribute_bytes = sizeof(tdm_adam_attributes), .min_inputs = 2 + (states),                      \
  .max_inputs = 2 + (states), .output_count = 1 + (states), .infer = tdm_infer_update,             \
  .work = tdm_work_streams, .precision = TDM_PRECISION_FLOAT32

/* Inputs: parameter, d_parameter, exp_avg, exp_avg_sq or exp_inf, [another state], step. The
 * outputs overwrite the parameter and the states. */
static const tdm_operation adam = {OPERATION(TDM_OP_ADAM, 3), .overwrites = {1, 3, 4, 5}};
static const tdm_operation amsgrad = {OPERATION(TDM_OP_ADAM, 4), .overwrites = {1, 3, 4, 5, 6}};
static const tdm_operation nadam = {OPERATION(TDM_OP_NADAM, 4), .overwrites = {1, 3, 4, 5, 6}};
static const tdm_operation radam = {OPERATION(TDM_OP_RADAM, 3), .overwrites = {1, 3, 4, 5}};
static const tdm_operation adamax = {OPERATION(TDM_OP_ADAMAX, 3), .overwrites = {1, 3, 4, 5}};

/* Inputs: parameter, rows, indices, count, exp_avg, exp_avg_sq, step. The outputs overwrite the
 * parameter and the states. */
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

TDM_RECORDS(adam, {.operation = &adam, .functions = "tdm_adam tdm_adamw"}, {.operation = &amsgrad},
            {.operation = &nadam, .functions = "tdm_nadam"},
            {.operation = &radam, .functions = "tdm_radam"},
            {.operation = &adamax, .functions = "tdm_adamax"},
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
  if (!tdm_is_setting(settings[MOMENTUM_DECAY]))
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: momentum decay %g must be finite and not negative",
                    name, settings[MOMENTUM_DECAY]);
  return TDM_OK;
}

/* A variant of Adam: PyTorch's names of its states, and its operation. */
typedef struct moments_rule {
  tdm_optimizer_rule rule; /* first */
  const tdm_operation *operation;
  const char *second;    /* name of the state next to exp_avg */
  const char *product;   /* name of a scalar state that starts at 1, or NULL */
  double learning_rate;  /* default */
  double momentum_decay; /* default */
} moments_rule;

static void append_update(tdm_update *update, const tdm_clip *clip, size_t index) {
  const tdm_optimizer *optimizer = tdm_update_optimizer(update);
  const moments_rule *member = (const moments_rule *)optimizer->rule;
  const double *settings = optimizer->settings;
  const bool sparse = tdm_update_is_sparse(update, index);
  const tdm_adam_attributes attributes = {.beta1 = settings[BETA1],
                                          .beta2 = settings[BETA2],
                                          .epsilon = settings[EPSILON],
                                          .weight_decay = settings[WEIGHT_DECAY],
                                          .momentum_decay = settings[MOMENTUM_DECAY],
                                          .decoupled = settings[DECOUPLED] != 0.0,
                                          .amsgrad = settings[AMSGRAD] != 0.0};
  tdm_value operands[7];
  size_t count = 0;
  operands[count++] = tdm_update_parameter(update, index);
  operands[count++] = tdm_clip_gradient(update, clip, index);
  if (sparse) {
    operands[count++] = tdm_update_indices(update, index);
    operands[count++] = tdm_update_rows_count(update, index);
  }
  operands[count++] = tdm_optimizer_state(update, index, "exp_avg", false);
  operands[count++] = tdm_optimizer_state(update, index, member->second, false);
  if (attributes.amsgrad)
    operands[count++] = tdm_optimizer_state(update, index, "max_exp_avg_sq", false);
  if (member->product)
    operands[count++] = tdm_optimizer_state_of(update, index, member->product, true, 1.0);
  operands[count++] = tdm_optimizer_state(update, index, "step", true);
  tdm_append_update(update, index, attributes.amsgrad ? &amsgrad : member->operation, &attributes,
                    operands, count);
}

/* Appends the updates. Fails unless all gradients are sparse or all are dense, as `sparse`
 * states. */
static tdm_status append_updates(tdm_update *update, bool sparse) {
  const tdm_optimizer *optimizer = tdm_update_optimizer(update);
  TDM_TRY(check_settings(optimizer));
  if (sparse && optimizer->settings[AMSGRAD] != 0.0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s has no amsgrad", optimizer->rule->name);
  for (size_t i = 0; i < tdm_update_count(update); i++)
    if (tdm_update_is_sparse(update, i) != sparse)
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s takes no %s gradients, and %s has one",
                      optimizer->rule->name, sparse ? "dense" : "sparse",
                      tdm_update_name(update, i));
  return tdm_clip_updates(update, append_update);
}

static tdm_status append_dense_updates(tdm_update *update) {
  return append_updates(update, false);
}

static tdm_status append_sparse_updates(tdm_update *update) {
  return append_updates(update, true);
}

#define DENSE(optimizer)                                                                           \
  .rule = {.name = optimizer,                                                                      \
           .append = append_dense_updates,                                                         \
           .momentum = 1 + BETA1,                                                                  \
           .is_by_element = true}
#define SPARSE(optimizer)                                                                          \
  .rule = {.name = optimizer,                                                                      \
           .accepts_sparse = true,                                                                 \
           .append = append_sparse_updates,                                                        \
           .momentum = 1 + BETA1,                                                                  \
           .is_by_element = true}

static const moments_rule adam_rule = {DENSE("adam"), &adam, "exp_avg_sq", NULL, 1e-3, 0};
static const moments_rule adamw_rule = {DENSE("adamw"), &adam, "exp_avg_sq", NULL, 1e-3, 0};
static const moments_rule nadam_rule = {DENSE("nadam"), &nadam, "exp_avg_sq",
                                        "mu_product",   2e-3,   4e-3};
static const moments_rule radam_rule = {DENSE("radam"), &radam, "exp_avg_sq", NULL, 1e-3, 0};
static const moments_rule adamax_rule = {DENSE("adamax"), &adamax, "exp_inf", NULL, 2e-3, 0};
static const moments_rule sparse_adam_rule = {
    SPARSE("sparse_adam"), &adam_sparse, "exp_avg_sq", NULL, 1e-3, 0};

/* Sets the settings that all variants share, except the learning rate. */
static void set(tdm_optimizer *optimizer, const moments_rule *member, double beta1, double beta2,
                double epsilon, double weight_decay) {
  optimizer->rule = &member->rule;
  optimizer->settings[BETA1] = beta1;
  optimizer->settings[BETA2] = beta2;
  optimizer->settings[EPSILON] = epsilon;
  optimizer->settings[WEIGHT_DECAY] = weight_decay;
  optimizer->settings[DECOUPLED] = member == &adamw_rule;
}

static tdm_optimizer make_adam(const moments_rule *member, const tdm_adam_options *options) {
  TDM_READ_OPTIMIZER(adam, options);
  set(&optimizer, member, chosen.beta1, chosen.beta2, chosen.epsilon, chosen.weight_decay);
  optimizer.settings[AMSGRAD] = chosen.amsgrad;
  return optimizer;
}

tdm_optimizer tdm_adam(double learning_rate) {
  tdm_optimizer optimizer = tdm_adam_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

tdm_optimizer tdm_adam_with(const tdm_adam_options *options) {
  return make_adam(&adam_rule, options);
}

tdm_optimizer tdm_adamw(double learning_rate) {
  tdm_optimizer optimizer = tdm_adamw_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

tdm_optimizer tdm_adamw_with(const tdm_adam_options *options) {
  const tdm_adam_options defaults = tdm_adamw_options_default();
  return make_adam(&adamw_rule, options ? options : &defaults);
}

tdm_optimizer tdm_nadam_with(const tdm_nadam_options *options) {
  TDM_READ_OPTIMIZER(nadam, options);
  set(&optimizer, &nadam_rule, chosen.beta1, chosen.beta2, chosen.epsilon, chosen.weight_decay);
  optimizer.settings[DECOUPLED] = chosen.decoupled_weight_decay;
  optimizer.settings[MOMENTUM_DECAY] = chosen.momentum_decay;
  return optimizer;
}

tdm_optimizer tdm_nadam(double learning_rate) {
  tdm_optimizer optimizer = tdm_nadam_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

tdm_optimizer tdm_radam_with(const tdm_radam_options *options) {
  TDM_READ_OPTIMIZER(radam, options);
  set(&optimizer, &radam_rule, chosen.beta1, chosen.beta2, chosen.epsilon, chosen.weight_decay);
  optimizer.settings[DECOUPLED] = chosen.decoupled_weight_decay;
  return optimizer;
}

tdm_optimizer tdm_radam(double learning_rate) {
  tdm_optimizer optimizer = tdm_radam_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

tdm_optimizer tdm_adamax_with(const tdm_adamax_options *options) {
  TDM_READ_OPTIMIZER(adamax, options);
  set(&optimizer, &adamax_rule, chosen.beta1, chosen.beta2, chosen.epsilon, chosen.weight_decay);
  return optimizer;
}

tdm_optimizer tdm_adamax(double learning_rate) {
  tdm_optimizer optimizer = tdm_adamax_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}

tdm_optimizer tdm_sparse_adam_with(const tdm_adam_options *options) {
  return make_adam(&sparse_adam_rule, options);
}

tdm_optimizer tdm_sparse_adam(double learning_rate) {
  tdm_optimizer optimizer = tdm_sparse_adam_with(NULL);
  optimizer.learning_rate = learning_rate;
  return optimizer;
}
