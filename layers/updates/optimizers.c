/* Optimizers with the options, defaults and numerics of torch.optim. Records of operations, checks
 * of settings, states and public functions are generated from the macros of each update
 * (devices/kernels/updates/optimizers.h). Invariant: one node updates a parameter. It overwrites
 * the parameter and its states; with a sparse gradient it changes only the rows that the gradient
 * names. */
#include <float.h>
#include <stdio.h>

#include "graph/describe/layer_parameters.h"
#include "layers/common.h"
#include "layers/updates/clip.h"
#include "tandem/layers/layers.h"

enum { MOST_STATES = 4, MOST_SETTINGS = TDM_COUNT_OF(((tdm_optimizer *)NULL)->settings) };

/* ---- Settings -------------------------------------------------------------------------------- */

typedef struct setting_range {
  double least, most;
  const char *text;
} setting_range;

static const setting_range FINITE = {-DBL_MAX, DBL_MAX, "a finite number"};
static const setting_range NOT_NEGATIVE = {0, DBL_MAX, "a finite number of at least 0"};
static const setting_range NOT_POSITIVE = {-DBL_MAX, 0, "a finite number of at most 0"};
static const setting_range AT_LEAST_1 = {1, DBL_MAX, "a finite number of at least 1"};
static const setting_range FRACTION = {0, 1, "0 to 1"};
static const setting_range DECAY_RATE = {0, 1 - DBL_EPSILON / 2, "at least 0 and less than 1"};
static const setting_range FLAG = {0, 1, "false or true"};
static const setting_range ZERO = {0, 0, "0, because this optimizer ignores it"};
/* TDM_DEFAULT selects the machine epsilon of the parameter's dtype. */
static const setting_range DTYPE_EPSILON = {0, DBL_MAX, "TDM_DEFAULT or a number of at least 0"};
/* Set by the parameter: 1 if it has at least two dimensions, otherwise 0. */
static const setting_range IS_MATRIX = {0, 0, ""};

typedef struct setting {
  const char *name;
  const setting_range *range;
} setting;

/* ---- Rules ----------------------------------------------------------------------------------- */

typedef enum state_shape { ELEMENTS, NUMBER, ROWS, COLUMNS } state_shape;

typedef struct state {
  const char *name;
  state_shape shape;
  double initial;
} state;

/* The rule of an optimizer, with what is generated from its update. */
typedef struct update_rule {
  tdm_optimizer_rule rule;
  const tdm_operation *dense;  /* NULL: all gradients must be sparse */
  const tdm_operation *sparse; /* NULL: no gradient may be sparse */
  const setting *settings;     /* at most MOST_SETTINGS settings; the last one has no name */
  /* Sets the states that exist for these attributes and returns their number. */
  size_t (*states)(const void *attributes, state *out_states);
  tdm_status (*check)(const tdm_optimizer *optimizer); /* checks the settings together; or NULL */
} update_rule;

/* ---- Records --------------------------------------------------------------------------------- */

/* Output 0 overwrites the parameter, the others overwrite the states, which begin at input
 * `first`. */
static tdm_status infer_outputs(tdm_infer *infer, size_t first) {
  TDM_TRY(tdm_expect_dtype_of_first(infer, 1, "parameter", "its gradient"));
  for (size_t i = 0; i < infer->output_count; i++) {
    const size_t input = i == 0 ? 0 : first + i - 1;
    tdm_infer_set(infer, i, infer->inputs[input].dtype, tdm_infer_shape(infer, input));
  }
  return TDM_OK;
}

static tdm_status infer_dense(tdm_infer *infer) {
  TDM_TRY(infer_outputs(infer, 2));
  return tdm_expect_shape(infer, 1, "gradient", tdm_infer_shape(infer, 0));
}

static tdm_status infer_sparse(tdm_infer *infer) {
  return infer_outputs(infer, 4);
}

/* An operation with states: inputs before them, then the shape rule and the work. */
#define OPERATION(operation, update, inputs, infer_rule, work_rule)                                \
  static const tdm_operation operation##_operation = {                                             \
      .struct_size = sizeof(tdm_operation),                                                        \
      .name = #operation,                                                                          \
      .attribute_bytes = sizeof(tdm_##update##_attributes),                                        \
      .min_inputs = (inputs),                                                                      \
      .max_inputs = (inputs) + MOST_STATES,                                                        \
      .takes_list = true,                                                                          \
      .count_outputs = update##_outputs,                                                           \
      .overwrites = {1, (inputs) + 1, (inputs) + 2, (inputs) + 3, (inputs) + 4},                   \
      .infer = (infer_rule),                                                                       \
      .work = (work_rule),                                                                         \
      .precision = TDM_PRECISION_FLOAT32,                                                          \
  };

#define STATE(state_name, shape, condition, initial)                                               \
  if (condition) states[count++] = (state){#state_name, shape, initial};
#define SETTING(setting, range) {#setting, &range},
#define PARTS(name, replaced)                                                                      \
  static const setting name##_settings[]                                                           \
      __attribute__((unused)) = {TDM_SETTINGS_##name(SETTING){NULL, NULL}};                        \
  static size_t name##_states(const void *attributes, state *states) {                             \
    const tdm_##name##_attributes *a = attributes;                                                 \
    size_t count = 0;                                                                              \
    (void)a;                                                                                       \
    TDM_STATES_##name(STATE) return count;                                                         \
  }                                                                                                \
  static size_t name##_outputs(const void *attributes) {                                           \
    state states[MOST_STATES];                                                                     \
    return 1 + name##_states(attributes, states);                                                  \
  }
#define DENSE(name, replaced)                                                                      \
  PARTS(name, replaced) OPERATION(name, name, 2, infer_dense, tdm_work_streams)
#define SPARSE(operation, name) OPERATION(operation, name, 4, infer_sparse, tdm_work_updates_rows)
TDM_UPDATES(DENSE)
DENSE(adafactor, none)
PARTS(adam_sparse, beta1)
TDM_ROW_UPDATES(SPARSE)

#define RECORD(update, replaced) {.operation = &update##_operation, .functions = "tdm_" #update},
TDM_RECORDS(optimizers,
            TDM_OPTIMIZERS(RECORD) RECORD(adafactor, none) RECORD(adagrad, none)
                RECORD(sgd, momentum){.operation = &adam_operation,
                                      .functions = "tdm_adam tdm_adamw"},
            {.operation = &adam_sparse_operation, .functions = "tdm_sparse_adam"},
            {.operation = &adagrad_sparse_operation}, {.operation = &average_operation},
            {.operation = &sgd_sparse_operation});

/* ---- Appending ------------------------------------------------------------------------------- */

static tdm_status check_settings(const update_rule *self, const tdm_optimizer *optimizer) {
  for (size_t i = 0; self->settings[i].name; i++) {
    const setting_range *range = self->settings[i].range;
    const double value = optimizer->settings[i];
    if (value >= range->least && value <= range->most) continue;
    if (range == &DTYPE_EPSILON && value == TDM_DEFAULT) continue;
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s: %s is %g, expected %s", self->rule.name,
                    self->settings[i].name, value, range->text);
  }
  return self->check ? self->check(optimizer) : TDM_OK;
}

/* Returns the state "optimizer/PARAMETER/name" of a parameter, on its device and of its dtype. If
 * the parameter is a table in shards, a state with rows has those of the shard, and each shard has
 * a whole state of its columns. */
static tdm_value declare_state(tdm_update *update, size_t index, const state *declared) {
  tdm_graph *graph = tdm_update_graph(update);
  const tdm_value parameter = tdm_update_parameter(update, index);
  const char *name = tdm_update_name(update, index);
  char text[TDM_LAYER_NAME_BYTES + 32];
  const int length = snprintf(text, sizeof text, "optimizer/%s/%s", name, declared->name);
  if (length < 0 || length >= (int)sizeof text)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "a parameter's name is too long: %s", name);
  tdm_shape shape = tdm_value_shape(graph, parameter);
  if (declared->shape == NUMBER) shape = tdm_shape_scalar();
  if (declared->shape == ROWS) shape.dims[shape.rank - 1] = 1;
  if (declared->shape == COLUMNS) shape.dims[shape.rank - 2] = 1;
  const double initial = declared->initial;
  const tdm_initializer filled = {initial == 0.0 ? TDM_INIT_ZEROS : TDM_INIT_CONSTANT, initial, 0.0,
                                  -1};
  return (declared->shape == COLUMNS ? tdm_declare_state_of_each : tdm_state)(
      graph, text, tdm_value_dtype(graph, parameter), shape, &filled, parameter);
}

/* Appends the moving average of an updated parameter (B. T. Polyak, A. B. Juditsky, "Acceleration
 * of stochastic approximation by averaging", 1992), as torch.optim.swa_utils. It is a state,
 * written in the update phase, so a step counts for both or for neither. */
static void append_average(tdm_update *update, size_t index, tdm_value updated) {
  const tdm_average_attributes averaging = {tdm_update_optimizer(update)->average_decay};
  if (averaging.decay == TDM_AVERAGE_NONE) return;
  const state states[] = {{TDM_AVERAGE_STATE, ELEMENTS, 0}, {"n_averaged", NUMBER, 0}};
  const tdm_value operands[] = {declare_state(update, index, &states[0]), updated,
                                declare_state(update, index, &states[1])};
  tdm_append(tdm_update_graph(update), &average_operation, tdm_update_name(update, index),
             &averaging, operands, 3, NULL);
}

/* Writes the attributes for a parameter (MOST_SETTINGS numbers). */
static void set_attributes(const update_rule *self, const tdm_optimizer *optimizer, tdm_dtype dtype,
                           int rank, double *out_attributes) {
  const double rounds_by = dtype == TDM_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
  for (size_t i = 0; i < MOST_SETTINGS; i++)
    out_attributes[i] = optimizer->settings[i];
  for (size_t i = 0; self->settings[i].name; i++) {
    if (self->settings[i].range == &IS_MATRIX) out_attributes[i] = rank >= 2;
    if (self->settings[i].range == &DTYPE_EPSILON)
      out_attributes[i] = tdm_or_default(out_attributes[i], rounds_by);
  }
}

static void append_update(tdm_update *update, const update_rule *self, const tdm_clip *clip,
                          size_t index) {
  tdm_graph *graph = tdm_update_graph(update);
  const tdm_value parameter = tdm_update_parameter(update, index);
  const bool is_sparse = tdm_update_is_sparse(update, index);
  double attributes[MOST_SETTINGS];
  set_attributes(self, tdm_update_optimizer(update), tdm_value_dtype(graph, parameter),
                 tdm_value_shape(graph, parameter).rank, attributes);
  tdm_value operands[4 + MOST_STATES];
  size_t count = 0;
  operands[count++] = parameter;
  operands[count++] = tdm_clip_gradient(update, clip, index);
  if (is_sparse) {
    operands[count++] = tdm_update_indices(update, index);
    operands[count++] = tdm_update_rows_count(update, index);
  }
  state states[MOST_STATES];
  const size_t state_count = self->states(attributes, states);
  for (size_t i = 0; i < state_count; i++)
    operands[count++] = declare_state(update, index, &states[i]);
  append_average(update, index,
                 tdm_append(graph, is_sparse ? self->sparse : self->dense,
                            tdm_update_name(update, index), attributes, operands, count, NULL));
}

/* The optimizer may have another rule, which calls `append` of self. */
static tdm_status append_updates(tdm_update *update, const update_rule *self) {
  tdm_clip clip;
  TDM_TRY(check_settings(self, tdm_update_optimizer(update)));
  for (size_t i = 0; i < tdm_update_count(update) && !self->dense; i++)
    if (!tdm_update_is_sparse(update, i))
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s: the gradient of %s is dense, expected a sparse one", self->rule.name,
                      tdm_update_name(update, i));
  TDM_TRY(tdm_clip_begin(update, &clip));
  for (size_t i = 0; i < tdm_update_count(update); i++)
    append_update(update, self, &clip, i);
  return tdm_graph_status(tdm_update_graph(update));
}

/* ---- Public functions ------------------------------------------------------------------------ */

/* The rule of an optimizer whose options were not initialized by rule->name. */
static tdm_status append_refused(tdm_update *update) {
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "its options were not made by %s, whose defaults they need. Call it, and change "
                  "fields of what it returns",
                  tdm_update_optimizer(update)->rule->name);
}

/* Declares `tdm_KIND_options chosen`, the completed options (may be NULL), and `tdm_optimizer
 * optimizer` with that rule and rate. Returns from the optimizer's constructor if the options were
 * not initialized by their initializer. */
#define READ_OPTIONS(kind, options)                                                                \
  static const tdm_optimizer_rule refused = {.name = "tdm_" #kind "_options_default()",            \
                                             .accepts_sparse = true,                               \
                                             .append = append_refused};                            \
  tdm_optimizer optimizer = tdm_optimizer_default();                                               \
  tdm_##kind##_options chosen;                                                                     \
  optimizer.rule = &refused;                                                                       \
  if (TDM_OPTIONS_READ("optimizer", kind, options, &chosen) != TDM_OK) return optimizer;           \
  optimizer.learning_rate = chosen.learning_rate

/* Defines NAME_rule, a rule for an update; its operations follow. `replaced`: the setting that a
 * run's momentum replaces. */
#define RULE(name_of, update, text, replaced, by_element, sparse_too, ...)                         \
  static tdm_status name_of##_append(tdm_update *updates);                                         \
  static const update_rule name_of##_rule = {                                                      \
      .rule = {.name = (text),                                                                     \
               .accepts_sparse = (sparse_too),                                                     \
               .append = name_of##_append,                                                         \
               .momentum = TDM_SETTING_PLACE(update, replaced),                                    \
               .is_by_element = (by_element)},                                                     \
      .settings = update##_settings,                                                               \
      .states = update##_states,                                                                   \
      __VA_ARGS__};                                                                                \
  static tdm_status name_of##_append(tdm_update *updates) {                                        \
    return append_updates(updates, &name_of##_rule);                                               \
  }

#define READ_SETTING(setting, range) optimizer.settings[count++] = chosen.setting;
/* Returns the optimizer with these settings from tdm_NAME_with; `selected` may read `chosen`. */
#define OPTIMIZER_WITH(name, settings_of, selected)                                                \
  tdm_optimizer tdm_##name##_with(const tdm_##name##_options *options) {                           \
    READ_OPTIONS(name, options);                                                                   \
    size_t count = 0;                                                                              \
    settings_of(READ_SETTING) optimizer.rule = &(selected)->rule;                                  \
    return optimizer;                                                                              \
  }                                                                                                \
  OPTIMIZER(name)
#define OPTIMIZER(name)                                                                            \
  tdm_optimizer tdm_##name(double learning_rate) {                                                 \
    tdm_optimizer optimizer = tdm_##name##_with(NULL);                                             \
    optimizer.learning_rate = learning_rate;                                                       \
    return optimizer;                                                                              \
  }

#define DENSE_OPTIMIZER(name, replaced)                                                            \
  RULE(name, name, #name, replaced, true, false, .dense = &name##_operation)                       \
  OPTIMIZER_WITH(name, TDM_SETTINGS_##name, &name##_rule)
TDM_OPTIMIZERS(DENSE_OPTIMIZER)

/* The update of an element depends on the others of its tensor. */
RULE(adafactor, adafactor, "adafactor", none, false, false, .dense = &adafactor_operation)
OPTIMIZER_WITH(adafactor, TDM_OPTIONS_adafactor, &adafactor_rule)

/* Sparse gradients allow no weight decay, which would change all rows. */
RULE(adagrad, adagrad, "adagrad", none, true, true, .dense = &adagrad_operation,
     .sparse = &adagrad_sparse_operation)
RULE(adagrad_decay, adagrad, "adagrad with weight decay", none, true, false,
     .dense = &adagrad_operation)
OPTIMIZER_WITH(adagrad, TDM_SETTINGS_adagrad,
               chosen.weight_decay == 0.0 ? &adagrad_rule : &adagrad_decay_rule)

static tdm_status check_nesterov(const tdm_optimizer *optimizer) {
  const double *settings = optimizer->settings;
  const tdm_sgd_attributes sgd = {settings[0], settings[1], settings[2], settings[3]};
  if (sgd.nesterov == 0.0 || (sgd.momentum != 0.0 && sgd.dampening == 0.0)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "sgd: nesterov is true, momentum %g and dampening %g, expected a positive "
                  "momentum and no dampening",
                  sgd.momentum, sgd.dampening);
}

/* Sparse gradients allow neither weight decay nor momentum, which would change all rows. */
RULE(sgd, sgd, "sgd", none, true, true, .dense = &sgd_operation, .sparse = &sgd_sparse_operation,
     .check = check_nesterov)
RULE(sgd_stateful, sgd, "sgd with momentum or weight decay", momentum, true, false,
     .dense = &sgd_operation, .check = check_nesterov)
OPTIMIZER_WITH(sgd, TDM_SETTINGS_sgd,
               chosen.momentum == 0.0 && chosen.weight_decay == 0.0 ? &sgd_rule
                                                                    : &sgd_stateful_rule)

RULE(adam, adam, "adam", beta1, true, false, .dense = &adam_operation)
RULE(adamw, adam, "adamw", beta1, true, false, .dense = &adam_operation)
RULE(sparse_adam, adam_sparse, "sparse_adam", beta1, true, true, .sparse = &adam_sparse_operation)

static tdm_optimizer make_adam(const update_rule *self, const tdm_adam_options *options) {
  READ_OPTIONS(adam, options);
  size_t count = 0;
  TDM_OPTIONS_adam(READ_SETTING);
  optimizer.settings[count] = self == &adamw_rule; /* decoupled_weight_decay */
  optimizer.rule = &self->rule;
  return optimizer;
}

tdm_optimizer tdm_adam_with(const tdm_adam_options *options) {
  return make_adam(&adam_rule, options);
}

tdm_optimizer tdm_adamw_with(const tdm_adam_options *options) {
  const tdm_adam_options defaults = tdm_adamw_options_default();
  return make_adam(&adamw_rule, options ? options : &defaults);
}

tdm_optimizer tdm_sparse_adam_with(const tdm_adam_options *options) {
  return make_adam(&sparse_adam_rule, options);
}

OPTIMIZER(adam)
OPTIMIZER(adamw)
OPTIMIZER(sparse_adam)
