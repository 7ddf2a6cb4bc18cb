/* Models and optimizers of the cases of golden training data. Shapes are symbolic. */
#include "tests/layers/cases/training.h"

#include "devices/kernels/updates/optimizers.h"
#include "tests/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Models ---------------------------------------------------------------------------------- */

static tdm_value build_dense(tdm_graph *graph, tdm_dtype dtype) {
  const tdm_value x = tdm_input(graph, "x", dtype, tdm_shape_of(2, TDM_DIM("batch"), 6));
  const tdm_value target = tdm_input(graph, "target", dtype, tdm_shape_of(2, TDM_DIM("batch"), 3));
  const tdm_value hidden = tdm_tanh(graph, "tanh", tdm_linear(graph, "first", x, 5));
  return tdm_mse(graph, "loss", tdm_linear(graph, "second", hidden, 3), target);
}

static tdm_value build_table(tdm_graph *graph, tdm_dtype dtype) {
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value target = tdm_input(graph, "target", dtype, tdm_shape_of(2, TDM_DIM("batch"), 4));
  const tdm_embedding_options sparse =
      OPTIONS(tdm_embedding_options, o.padding_index = 0, o.sparse = true);
  const tdm_loss_options sum = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_SUM);
  const tdm_value rows = tdm_embedding_with(graph, "table", ids, 9, 4, &sparse);
  return tdm_mse_with(graph, "loss", rows, target, &sum);
}

static tdm_value build_main(tdm_graph *graph, tdm_dtype dtype) {
  (void)dtype;
  const tdm_value characters = tdm_input(graph, "characters", TDM_INT64,
                                         tdm_shape_of(2, TDM_DIM("length"), TDM_DIM("batch")));
  const tdm_value class = tdm_input(graph, "class", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value x = tdm_embedding(graph, "embedding", characters, 40, 8);
  const tdm_value y = tdm_rnn(graph, "rnn", x, 16, NULL, NULL);
  const tdm_value scores = tdm_linear(graph, "scores", tdm_last_step(graph, "last", y), 8);
  return tdm_cross_entropy(graph, "loss", scores, class);
}

static const training_model dense = {build_dense, {"x", "target"}};
static const training_model table = {build_table, {"ids", "target"}};
static const training_model main_model = {build_main, {"characters", "class"}};

/* ---- Cases ----------------------------------------------------------------------------------- */

#define STEPS_TOLERANCE                                                                            \
  { 1e-5, 1e-12 }
static training_case make_case(const char *name, tdm_optimizer optimizer) {
  training_case made = {.model = &dense, .tolerance = STEPS_TOLERANCE, .optimizer = optimizer};
  assert_true(strlen(name) < sizeof made.name);
  (void)snprintf(made.name, sizeof made.name, "%s", name);
  return made;
}

static tdm_optimizer clipped(tdm_optimizer optimizer, double norm) {
  optimizer.clip_norm = norm;
  return optimizer;
}

static tdm_optimizer clipped_by_value(tdm_optimizer optimizer, double value) {
  optimizer.clip_value = value;
  return optimizer;
}

static tdm_optimizer maximizing(tdm_optimizer optimizer) {
  optimizer.maximize = true;
  return optimizer;
}

static tdm_optimizer averaging(tdm_optimizer optimizer, double decay) {
  optimizer.average_decay = decay;
  return optimizer;
}

static size_t sgd_cases(training_case *cases) {
  const tdm_sgd_options momentum =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9);
  const tdm_sgd_options dampening =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9, o.dampening = 0.3);
  const tdm_sgd_options nesterov =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.8, o.nesterov = true);
  const tdm_sgd_options decay =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.weight_decay = 0.05);
  const tdm_sgd_options everything =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.8, o.weight_decay = 0.05,
              o.nesterov = true);
  size_t count = 0;
  cases[count++] = make_case("sgd", tdm_sgd(0.1));
  cases[count++] = make_case("sgd_momentum", tdm_sgd_with(&momentum));
  cases[count++] = make_case("sgd_dampening", tdm_sgd_with(&dampening));
  cases[count++] = make_case("sgd_nesterov", tdm_sgd_with(&nesterov));
  cases[count++] = make_case("sgd_decay", tdm_sgd_with(&decay));
  cases[count++] = make_case("sgd_everything", tdm_sgd_with(&everything));
  cases[count++] = make_case("sgd_clip", clipped(tdm_sgd(0.1), 0.05));
  cases[count++] = make_case("sgd_clip_loose", clipped(tdm_sgd(0.1), 100.0));
  cases[count++] = make_case("sgd_average", averaging(tdm_sgd_with(&momentum), 0.9));
  cases[count++] = make_case("sgd_average_quick", averaging(clipped(tdm_sgd(0.1), 0.05), 0.3));
  cases[count++] = make_case("sgd_value", clipped_by_value(tdm_sgd(0.1), 0.003));
  cases[count++] =
      make_case("sgd_maximize_value", clipped_by_value(maximizing(tdm_sgd(0.1)), 0.003));
  const tdm_sgd_options upwards =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.02, o.momentum = 0.9);
  cases[count++] = make_case("sgd_maximize", maximizing(tdm_sgd_with(&upwards)));
  return count;
}

static size_t adam_cases(training_case *cases) {
  const tdm_adam_options options = OPTIONS(tdm_adam_options, o.learning_rate = 0.02, o.beta1 = 0.8,
                                           o.beta2 = 0.95, o.epsilon = 1e-3);
  const tdm_adam_options decay =
      OPTIONS(tdm_adam_options, o.learning_rate = 0.01, o.weight_decay = 0.1);
  const tdm_adam_options decoupled =
      OPTIONS(tdm_adam_options, o.learning_rate = 0.01, o.weight_decay = 0.2);
  size_t count = 0;
  cases[count++] = make_case("adam", tdm_adam(0.01));
  cases[count++] = make_case("adam_options", tdm_adam_with(&options));
  cases[count++] = make_case("adam_decay", tdm_adam_with(&decay));
  cases[count++] = make_case("adam_clip", clipped(tdm_adam(0.01), 0.05));
  cases[count++] = make_case("adamw", tdm_adamw(0.01));
  cases[count++] = make_case("adamw_decay", tdm_adamw_with(&decoupled));
  cases[count++] = make_case("adagrad_clip", clipped(tdm_adagrad(0.05), 0.05));
  cases[count++] = make_case("rmsprop_clip", clipped(tdm_rmsprop(0.01), 0.05));
  const tdm_adam_options largest =
      OPTIONS(tdm_adam_options, o.learning_rate = 0.03, o.amsgrad = true);
  const tdm_adam_options both =
      OPTIONS(tdm_adam_options, o.learning_rate = 0.01, o.weight_decay = 0.2, o.amsgrad = true);
  cases[count++] = make_case("adam_amsgrad", tdm_adam_with(&largest));
  cases[count++] = make_case("adamw_amsgrad", tdm_adamw_with(&both));
  cases[count++] = make_case("adam_average_mean", averaging(tdm_adam(0.01), TDM_AVERAGE_MEAN));
  cases[count++] = make_case("adam_maximize", maximizing(tdm_adam_with(&decay)));
  cases[count++] =
      make_case("adam_value_norm", clipped(clipped_by_value(tdm_adam(0.01), 0.003), 0.01));
  cases[count++] = make_case("adam_maximize_clip", clipped(maximizing(tdm_adam(0.01)), 0.05));
  return count;
}

static size_t cycle_cases(training_case *cases) {
  const tdm_sgd_options momentum =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9);
  const tdm_sgd_options nesterov =
      OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9, o.nesterov = true);
  const tdm_rmsprop_options rmsprop =
      OPTIONS(tdm_rmsprop_options, o.learning_rate = 0.01, o.momentum = 0.9);
  const tdm_adam_options largest =
      OPTIONS(tdm_adam_options, o.learning_rate = 0.1, o.weight_decay = 0.01, o.amsgrad = true);
  size_t count = 0;
  cases[count++] = make_case("cycle_sgd", tdm_sgd_with(&momentum));
  cases[count++] = make_case("cycle_sgd_nesterov", tdm_sgd_with(&nesterov));
  cases[count++] = make_case("cycle_rmsprop", tdm_rmsprop_with(&rmsprop));
  cases[count++] = make_case("cycle_adam", tdm_adam(0.1));
  cases[count++] = make_case("cycle_adamw_amsgrad", tdm_adamw_with(&largest));
  cases[count++] = make_case("cycle_nadam", tdm_nadam(0.1));
  cases[count++] = make_case("cycle_radam", tdm_radam(0.1));
  cases[count++] = make_case("cycle_adamax", tdm_adamax(0.1));
  cases[count++] = make_case("table_cycle", tdm_sparse_adam(0.1));
  cases[count - 1].model = &table;
  for (size_t i = 0; i < count; i++)
    cases[i].cycles = true;
  return count;
}

/* Adds the cases of Adam's variants, each with the options of MOMENTS in training_cases.py. */
static size_t moments_cases(training_case *cases) {
  size_t count = 0;
  tdm_nadam_options nadam = OPTIONS(tdm_nadam_options, o.learning_rate = 0.02, o.beta1 = 0.8,
                                    o.beta2 = 0.95, o.epsilon = 1e-3, o.momentum_decay = 0.05);
  cases[count++] = make_case("nadam_0", tdm_nadam_with(NULL));
  cases[count++] = make_case("nadam_1", tdm_nadam_with(&nadam));
  nadam = OPTIONS(tdm_nadam_options, o.learning_rate = 0.02, o.weight_decay = 0.1,
                  o.momentum_decay = 0.05);
  cases[count++] = make_case("nadam_2", tdm_nadam_with(&nadam));
  nadam.decoupled_weight_decay = true;
  cases[count++] = make_case("nadam_3", tdm_nadam_with(&nadam));
  cases[count++] = make_case("nadam_maximize", clipped(maximizing(tdm_nadam(0.02)), 0.05));
  tdm_radam_options radam = OPTIONS(tdm_radam_options, o.learning_rate = 0.02, o.beta1 = 0.8,
                                    o.beta2 = 0.95, o.epsilon = 1e-3);
  cases[count++] = make_case("radam_0", tdm_radam_with(NULL));
  cases[count++] = make_case("radam_1", tdm_radam_with(&radam));
  radam = OPTIONS(tdm_radam_options, o.learning_rate = 0.02, o.weight_decay = 0.1);
  cases[count++] = make_case("radam_2", tdm_radam_with(&radam));
  radam.decoupled_weight_decay = true;
  cases[count++] = make_case("radam_3", tdm_radam_with(&radam));
  cases[count++] = make_case("radam_maximize", clipped(maximizing(tdm_radam(0.02)), 0.05));
  tdm_adamax_options adamax = OPTIONS(tdm_adamax_options, o.learning_rate = 0.02, o.beta1 = 0.8,
                                      o.beta2 = 0.95, o.epsilon = 1e-3);
  cases[count++] = make_case("adamax_0", tdm_adamax_with(NULL));
  cases[count++] = make_case("adamax_1", tdm_adamax_with(&adamax));
  adamax = OPTIONS(tdm_adamax_options, o.learning_rate = 0.02, o.weight_decay = 0.1);
  cases[count++] = make_case("adamax_2", tdm_adamax_with(&adamax));
  cases[count++] = make_case("adamax_maximize", clipped(maximizing(tdm_adamax(0.02)), 0.05));
  return count;
}

static size_t table_cases(training_case *cases) {
  const tdm_adam_options options = OPTIONS(tdm_adam_options, o.learning_rate = 0.02, o.beta1 = 0.8,
                                           o.beta2 = 0.95, o.epsilon = 1e-3);
  const tdm_adagrad_options adagrad =
      OPTIONS(tdm_adagrad_options, o.learning_rate = 0.1, o.rate_decay = 0.2,
              o.initial_accumulator = 0.3, o.epsilon = 1e-3);
  size_t count = 0;
  cases[count++] = make_case("table_adagrad", tdm_adagrad(0.1));
  cases[count++] = make_case("table_adagrad_options", tdm_adagrad_with(&adagrad));
  cases[count++] =
      make_case("table_adagrad_value", clipped(clipped_by_value(tdm_adagrad(0.1), 0.01), 0.05));
  cases[count++] = make_case("table_sgd_value", clipped_by_value(tdm_sgd(0.1), 0.01));
  cases[count++] = make_case("table_adagrad_clip", clipped(tdm_adagrad(0.1), 0.5));
  cases[count++] = make_case("table_sgd", tdm_sgd(0.1));
  cases[count++] = make_case("table_sgd_average", averaging(tdm_sgd(0.1), 0.75));
  cases[count++] = make_case("table_sgd_maximize", maximizing(tdm_sgd(0.1)));
  cases[count++] = make_case("table_sgd_clip", clipped(tdm_sgd(0.1), 0.5));
  cases[count++] = make_case("table_sparse_adam", tdm_sparse_adam(0.01));
  cases[count++] = make_case("table_sparse_adam_options", tdm_sparse_adam_with(&options));
  for (size_t i = 0; i < count; i++)
    cases[i].model = &table;
  return count;
}

/* Makes an optimizer from the numbers of CASE/option.NAME in the golden file: the learning rate and
 * the settings in the order of their table. */
static tdm_optimizer told_optimizer(const char *name, const double *numbers) {
#define READ_SETTING(setting, range) options.setting = *numbers++;
#define MADE(name_of, settings_of)                                                                 \
  if (strcmp(name, #name_of) == 0) {                                                               \
    tdm_##name_of##_options options = tdm_##name_of##_options_default();                           \
    options.learning_rate = *numbers++;                                                            \
    settings_of(READ_SETTING) return tdm_##name_of##_with(&options);                               \
  }
#define MADE_OF_TABLE(name_of, momentum) MADE(name_of, TDM_SETTINGS_##name_of)
  TDM_OPTIMIZERS(MADE_OF_TABLE)
  MADE(adagrad, TDM_SETTINGS_adagrad)
  MADE(adafactor, TDM_OPTIONS_adafactor)
  fail_msg("no optimizer %s", name);
  return tdm_optimizer_default();
}

/* Adds the cases that the golden file lists. */
static size_t told_cases(const golden_file *golden, training_case *cases) {
  size_t count = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(golden->list); i++) {
    const char *full = tdm_tensor_list_name(golden->list, i);
    const char *option = strstr(full, "/option.");
    if (!option) continue;
    char name[sizeof cases->name];
    assert_true(count < TRAINING_CASES_MAX && option - full < (int)sizeof name);
    (void)snprintf(name, sizeof name, "%.*s", (int)(option - full), full);
    size_t number_count;
    double *numbers = tensor_values(tdm_tensor_list_tensor(golden->list, i), &number_count);
    cases[count] = make_case(name, told_optimizer(option + 8, numbers));
    free(numbers);
    count++;
  }
  return count;
}

static size_t main_cases(training_case *cases) {
  cases[0] = make_case("main_adam", clipped(tdm_adam(0.005), 1.0));
  cases[1] = make_case("main_sgd", tdm_sgd(0.1));
  for (size_t i = 0; i < 2; i++) {
    cases[i].model = &main_model;
    cases[i].tolerance[0] = 1e-4;
    cases[i].tolerance[1] = 1e-10;
    cases[i].placement = "embedding=cpu:0,*=sim:0";
  }
  return 2;
}

size_t training_cases_all(const golden_file *golden, training_case *cases) {
  size_t count = told_cases(golden, cases);
  count += sgd_cases(cases + count);
  count += adam_cases(cases + count);
  count += cycle_cases(cases + count);
  count += moments_cases(cases + count);
  count += table_cases(cases + count);
  return count + main_cases(cases + count);
}

tdm_session *training_session(const golden_file *golden, const training_case *training,
                              const char *placement) {
  tdm_graph *graph = tdm_graph_create(golden->context);
  tdm_scope_dtype(graph, golden->dtype);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = training->model->build(graph, golden->dtype),
              o.optimizer = &training->optimizer, o.device_map = placement);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s on %s: %s", training->name, placement, tdm_last_message());
  tdm_graph_release(graph);
  return session;
}
