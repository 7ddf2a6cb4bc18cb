/* Uses of each struct of options, as small as shows what its numbers do. Everything is float64 on
 * one CPU device. */
#include "tests/public/option_probes.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "devices/kernels/updates/optimizers.h"
#include "tests/options.h"

static const tdm_value none = {0, 0};

/* Eight numbers, which every layer gets in one shape or another. */
static const double X[] = {0.01, 0.02, -0.03, 0.04, 3, 1, 2, 5};

typedef struct probe {
  tdm_context *context;
  tdm_graph *graph;
  tdm_tensor *fed; /* "x" */
  tdm_value x;
  probe_result *result;
} probe;

static void refuse(probe_result *result) {
  result->refused = true;
  (void)snprintf(result->message, sizeof result->message, "%s", tdm_last_message());
}

static void begin(probe *self, probe_result *result, tdm_dtype dtype, const void *values,
                  tdm_shape shape) {
  memset(result, 0, sizeof *result);
  *self = (probe){.result = result};
  self->context =
      tdm_context_create(WITH(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 0));
  self->graph = tdm_graph_create(self->context);
  tdm_scope_dtype(self->graph, TDM_FLOAT64);
  self->fed = tdm_tensor_from(self->context, dtype, shape, values);
  self->x = tdm_input(self->graph, "x", dtype, shape);
}

static void begin_floats(probe *self, probe_result *result, tdm_shape shape) {
  begin(self, result, TDM_FLOAT64, X, shape);
}

static void add_number(probe_result *result, double number) {
  if (result->count < PROBE_NUMBERS) result->numbers[result->count++] = number;
}

static void add_tensor(probe_result *result, tdm_tensor *tensor) {
  const tdm_shape shape = tdm_tensor_shape(tensor);
  for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
    add_number(result, tdm_tensor_item(tensor, i));
}

static void end(probe *self) {
  tdm_tensor_release(self->fed);
  tdm_graph_release(self->graph);
  tdm_context_release(self->context);
}

/* Evaluates y. */
static void evaluate(probe *self, tdm_session *session) {
  const tdm_feed feed = {"x", self->fed, false};
  tdm_tensor *y = session ? tdm_run_output(session, &feed, 1, "y") : NULL;
  if (!y) refuse(self->result);
  if (y) add_tensor(self->result, y);
  tdm_tensor_release(y);
}

static void end_with(probe *self, tdm_value y) {
  tdm_output(self->graph, "y", y);
  tdm_session *session = tdm_session_create(self->graph, NULL);
  evaluate(self, session);
  tdm_session_release(session);
  end(self);
}

/* Adds the tensor of the store with a name. */
static void add_stored(probe *self, tdm_session *session, const char *name) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), true);
  tdm_tensor *tensor = tdm_tensor_list_find(list, name);
  if (tensor) add_tensor(self->result, tensor);
  tdm_tensor_list_release(list);
}

/* A step of training with the sum of e^y and of a parameter of zeros as loss, by an optimizer that
 * changes nothing. Probes the running statistics, y in evaluation before, and the difference of the
 * two losses. */
static void end_trained(probe *self, tdm_value y) {
  const tdm_optimizer still = tdm_sgd(0.0);
  const tdm_value sums =
      tdm_sum(self->graph, "sums", tdm_exp(self->graph, "exp", y), NULL, 0, false);
  const tdm_value loss =
      tdm_add(self->graph, "loss", sums,
              tdm_parameter(self->graph, "zero", TDM_FLOAT64, tdm_shape_scalar(),
                            &(tdm_initializer){.kind = TDM_INIT_ZEROS, .zero_row = -1}));
  tdm_output(self->graph, "y", y);
  tdm_output(self->graph, "sum", loss);
  tdm_session *session = tdm_session_create(
      self->graph, WITH(tdm_session_options, o.loss = loss, o.optimizer = &still, o.seed = 3));
  const tdm_feed feed = {"x", self->fed, false};
  tdm_tensor *sum = session ? tdm_run_output(session, &feed, 1, "sum") : NULL;
  if (sum) evaluate(self, session);
  double trained = 0;
  if (!sum || tdm_train_step(session, &feed, 1, NULL, 0, &trained) != TDM_OK) refuse(self->result);
  if (sum) add_number(self->result, trained - tdm_tensor_item(sum, 0));
  if (sum) add_stored(self, session, "it.running_mean");
  if (sum) add_stored(self, session, "it.running_var");
  tdm_tensor_release(sum);
  tdm_session_release(session);
  end(self);
}

#define PROBE(kind)                                                                                \
  static void probe_##kind(const void *given, const char *field, probe_result *result)
/* The probe of a layer: x's shape, and the layer's result for x. */
#define LAYER_PROBE(kind, shape, finish, expression)                                               \
  PROBE(kind) {                                                                                    \
    (void)field;                                                                                   \
    const tdm_##kind##_options *options = given;                                                   \
    probe self;                                                                                    \
    begin_floats(&self, result, shape);                                                            \
    tdm_graph *graph = self.graph;                                                                 \
    const tdm_value x = self.x;                                                                    \
    finish(&self, expression);                                                                     \
  }
#define KERNEL(...) ((const int64_t[]){__VA_ARGS__})

/* ---- Layers ---------------------------------------------------------------------------------- */

LAYER_PROBE(layer_norm, tdm_shape_of(2, 2, 4), end_with,
            tdm_layer_norm_with(graph, "it", x, 1, options))
LAYER_PROBE(rms_norm, tdm_shape_of(2, 2, 4), end_with,
            tdm_rms_norm_with(graph, "it", x, 1, options))
LAYER_PROBE(group_norm, tdm_shape_of(3, 2, 2, 2), end_with,
            tdm_group_norm_with(graph, "it", x, 2, options))
LAYER_PROBE(batch_norm, tdm_shape_of(2, 4, 2), end_trained,
            tdm_batch_norm_with(graph, "it", x, options))
LAYER_PROBE(conv, tdm_shape_of(4, 1, 1, 2, 4), end_with,
            tdm_conv2d(graph, "it", x, 1, 1, 1, options))
LAYER_PROBE(conv_transpose, tdm_shape_of(4, 1, 1, 2, 4), end_with,
            tdm_conv_transpose2d(graph, "it", x, 1, 1, 1, options))
LAYER_PROBE(conv3d, tdm_shape_of(5, 1, 1, 2, 2, 2), end_with,
            tdm_conv3d(graph, "it", x, 1, KERNEL(1, 1, 1), options))
LAYER_PROBE(conv_transpose3d, tdm_shape_of(5, 1, 1, 2, 2, 2), end_with,
            tdm_conv_transpose3d(graph, "it", x, 1, KERNEL(1, 1, 1), options))
LAYER_PROBE(pool, tdm_shape_of(4, 1, 1, 2, 4), end_with,
            tdm_add(graph, "sum", tdm_max_pool2d(graph, "max", x, 2, 2, options),
                    tdm_avg_pool2d(graph, "it", x, 2, 2, options)))
LAYER_PROBE(pool3d, tdm_shape_of(5, 1, 1, 2, 2, 2), end_with,
            tdm_add(graph, "sum", tdm_max_pool3d(graph, "max", x, KERNEL(2, 2, 2), options),
                    tdm_avg_pool3d(graph, "it", x, KERNEL(2, 2, 2), options)))
LAYER_PROBE(cell, tdm_shape_of(2, 2, 4), end_with, tdm_rnn_cell(graph, "it", x, none, 3, options))
LAYER_PROBE(rnn, tdm_shape_of(3, 2, 1, 4), end_with,
            tdm_lstm(graph, "it", x, 3, options, NULL, NULL))
LAYER_PROBE(transformer, tdm_shape_of(3, 2, 1, 4), end_trained,
            tdm_transformer_encoder_layer(graph, "it", x, 2, options))
LAYER_PROBE(attention, tdm_shape_of(3, 1, 2, 4), end_with,
            tdm_attention(graph, "it", x, x, x, options))
LAYER_PROBE(multi_head_attention, tdm_shape_of(3, 2, 1, 4), end_trained,
            tdm_multi_head_attention(graph, "it", x, x, x, 2, options))

PROBE(instance_norm) {
  tdm_instance_norm_options tracked;
  if (*field) {
    tracked = *(const tdm_instance_norm_options *)given;
    tracked.track_statistics = true;
    given = &tracked;
  }
  probe self;
  begin_floats(&self, result, tdm_shape_of(3, 2, 2, 2));
  end_trained(&self, tdm_instance_norm_with(self.graph, "it", self.x, given));
}

/* Rows 0 and 1 of a table. */
PROBE(embedding) {
  (void)field;
  probe self;
  begin(&self, result, TDM_INT64, KERNEL(0, 1), tdm_shape_of(1, 2));
  end_with(&self, tdm_embedding_with(self.graph, "it", self.x, 3, 2, given));
}

/* Bags of row 0 and of row 1. */
PROBE(embedding_bag) {
  (void)field;
  probe self;
  begin(&self, result, TDM_INT64, KERNEL(0, 1), tdm_shape_of(2, 2, 1));
  end_with(&self, tdm_embedding_bag(self.graph, "it", self.x, 3, 2, given));
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* Returns the loss of x (2, 4) that uses the field. */
static tdm_value loss_of(tdm_graph *graph, tdm_value x, const char *field,
                         const tdm_loss_options *options) {
  const tdm_value flipped = tdm_flip(graph, "flipped", x, (const int[]){1}, 1);
  if (strcmp(field, "beta") == 0) return tdm_smooth_l1_with(graph, "it", x, flipped, options);
  if (strcmp(field, "p") == 0 || strcmp(field, "margin") == 0)
    return tdm_triplet_margin_with(graph, "it", x, flipped, x, options);
  if (strcmp(field, "epsilon") == 0) {
    const tdm_value variance = tdm_mul_scalar(graph, "v", tdm_square(graph, "s", x), 1e-6);
    return tdm_gaussian_nll_with(graph, "it", x, flipped, variance, options);
  }
  const tdm_value last = tdm_argmax(graph, "last", x, 1, false); /* class 3 of both rows */
  const tdm_value either =
      tdm_mul(graph, "either", tdm_arange(graph, "rows", TDM_INT64, 0, 2, 1), last);
  return tdm_cross_entropy_with(graph, "it", x, either, options);
}

PROBE(loss) {
  probe self;
  begin_floats(&self, result, tdm_shape_of(2, 2, 4));
  end_with(&self, loss_of(self.graph, self.x, field, given));
}

/* ---- Optimizers ------------------------------------------------------------------------------ */

/* w (1, -2) after three steps with the gradients (0.5, -0.25), (0, 1), (-1.5, 0.75). */
static void train(tdm_optimizer optimizer, probe_result *result) {
  static const double gradients[3][2] = {{0.5, -0.25}, {0, 1}, {-1.5, 0.75}};
  const double begin_with[2] = {1, -2};
  probe self;
  begin(&self, result, TDM_FLOAT64, begin_with, tdm_shape_of(1, 2));
  const tdm_value w = tdm_parameter(self.graph, "w", TDM_FLOAT64, tdm_shape_of(1, 2), NULL);
  const tdm_value loss =
      tdm_sum(self.graph, "loss", tdm_mul(self.graph, "g", w, self.x), NULL, 0, false);
  tdm_session *session = tdm_session_create(
      self.graph, WITH(tdm_session_options, o.loss = loss, o.optimizer = &optimizer));
  tdm_tensor_list *list = session ? tdm_store_save(tdm_session_store(session), false) : NULL;
  bool trains =
      list &&
      tdm_tensor_write(tdm_tensor_list_find(list, "w"), begin_with, sizeof begin_with) == TDM_OK &&
      tdm_store_load(tdm_session_store(session), list) == TDM_OK;
  for (int i = 0; trains && i < 3; i++) {
    const tdm_feed feed = {
        "x", tdm_tensor_from(self.context, TDM_FLOAT64, tdm_shape_of(1, 2), gradients[i]), false};
    trains = tdm_train_step(session, &feed, 1, NULL, 0, NULL) == TDM_OK;
    tdm_tensor_release(feed.tensor);
  }
  if (!trains) refuse(result);
  if (trains) add_stored(&self, session, "w");
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  end(&self);
}

#define OPTIMIZER_PROBE(kind, ...)                                                                 \
  PROBE(kind) {                                                                                    \
    (void)field;                                                                                   \
    train(tdm_##kind##_with(given), result);                                                       \
  }
TDM_OPTIMIZERS(OPTIMIZER_PROBE)
OPTIMIZER_PROBE(sgd)
OPTIMIZER_PROBE(adam)
OPTIMIZER_PROBE(adafactor)
OPTIMIZER_PROBE(adagrad)

/* ---- Schedules ------------------------------------------------------------------------------- */

/* Rate and momentum of six steps. */
PROBE(one_cycle) {
  (void)field;
  memset(result, 0, sizeof *result);
  tdm_rate_schedule schedule;
  if (tdm_rate_schedule_one_cycle(1.0, 6, given, &schedule) != TDM_OK) {
    refuse(result);
    return;
  }
  for (int64_t step = 0; step < 6; step++) {
    add_number(result, tdm_rate_schedule_at(&schedule, step));
    add_number(result, tdm_rate_schedule_momentum_at(&schedule, step));
  }
}

/* The rates of seven metrics; with a patience of 1 where the test is about another number. */
PROBE(plateau) {
  static const double metrics[] = {1, 0.99995, 1, 1, 0.5, 0.5, 0.6};
  memset(result, 0, sizeof *result);
  tdm_plateau_options options = tdm_plateau_options_default();
  if (*field && strcmp(field, "patience") != 0) {
    options = *(const tdm_plateau_options *)given;
    options.patience = 1;
    given = &options;
  }
  tdm_plateau plateau;
  if (tdm_rate_plateau_begin(1.0, given, &plateau) != TDM_OK) refuse(result);
  for (size_t i = 0; !result->refused && i < TDM_COUNT_OF(metrics); i++)
    add_number(result, tdm_rate_plateau_next(&plateau, metrics[i]));
}

/* ---- Sessions, graphs ------------------------------------------------------------------------ */

PROBE(session) {
  (void)field;
  probe self;
  begin_floats(&self, result, tdm_shape_of(2, 2, 4));
  tdm_output(self.graph, "y", tdm_tanh(self.graph, "it", self.x));
  tdm_session *session = tdm_session_create(self.graph, given);
  evaluate(&self, session);
  tdm_session_release(session);
  end(&self);
}

static void ignore_run(void *user, tdm_run_result *run) {
  (void)user;
  for (size_t i = 0; i < run->fetch_count; i++)
    tdm_tensor_release(run->fetches[i].tensor);
}

PROBE(submit) {
  (void)field;
  probe self;
  begin_floats(&self, result, tdm_shape_of(2, 2, 4));
  tdm_output(self.graph, "y", tdm_tanh(self.graph, "it", self.x));
  tdm_session *session = tdm_session_create(self.graph, NULL);
  const tdm_feed feed = {"x", self.fed, false};
  const tdm_fetch fetch = {.name = "y"};
  tdm_submit_options called_back;
  if (*field) {
    called_back = *(const tdm_submit_options *)given;
    called_back.callback = ignore_run;
    given = &called_back;
  }
  if (tdm_submit_with(session, given, &feed, 1, &fetch, 1, NULL) != TDM_OK) refuse(result);
  tdm_session_release(session);
  end(&self);
}

PROBE(forecast) {
  (void)field;
  probe self;
  begin_floats(&self, result, tdm_shape_of(2, 2, 4));
  tdm_output(self.graph, "y", tdm_tanh(self.graph, "it", self.x));
  tdm_session *session = tdm_session_create(self.graph, NULL);
  tdm_forecast *forecast;
  if (tdm_session_forecast(session, given, &forecast) != TDM_OK) refuse(result);
  tdm_forecast_release(forecast);
  tdm_session_release(session);
  end(&self);
}

PROBE(state_dict) {
  (void)field;
  probe self;
  begin_floats(&self, result, tdm_shape_of(2, 2, 4));
  tdm_output(self.graph, "y", tdm_linear(self.graph, "it", self.x, 2));
  tdm_session *session = tdm_session_create(self.graph, NULL);
  tdm_tensor_list *list;
  if (tdm_session_state_dict(session, given, &list) != TDM_OK) refuse(result);
  add_number(result, (double)tdm_tensor_list_count(list));
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  end(&self);
}

PROBE(parallel) {
  (void)field;
  probe self;
  begin_floats(&self, result, tdm_shape_of(2, 2, 4));
  const tdm_value y = tdm_tanh(self.graph, "it", self.x);
  tdm_data_parallel(self.graph, "it", given);
  end_with(&self, y);
}

PROBE(shard) {
  (void)field;
  probe self;
  begin(&self, result, TDM_INT64, KERNEL(0, 1), tdm_shape_of(1, 2));
  const tdm_value y = tdm_embedding(self.graph, "it", self.x, 3, 2);
  tdm_shard(self.graph, "it", given);
  end_with(&self, y);
}

/* ---- Contexts and data ----------------------------------------------------------------------- */

/* Returns the number of devices of the kind. */
static int devices_of(const tdm_context *context, const char *kind) {
  int count = 0;
  for (size_t i = 0; tdm_device_name_at(context, i); i++)
    count += strncmp(tdm_device_name_at(context, i), kind, strlen(kind)) == 0;
  return count;
}

PROBE(context) {
  (void)field;
  memset(result, 0, sizeof *result);
  tdm_context *context = tdm_context_create(given);
  if (!context) refuse(result);
  if (context) add_number(result, devices_of(context, "sim"));
  if (context) add_number(result, devices_of(context, "cpu"));
  tdm_context_release(context);
}

PROBE(loader) {
  (void)field;
  probe self;
  begin_floats(&self, result, tdm_shape_of(2, 4, 2));
  const char *const names[] = {"rows"};
  tdm_dataset *dataset = tdm_dataset_from_tensors(self.context, names, &self.fed, 1);
  tdm_loader *loader = tdm_loader_create(dataset, given);
  if (!loader) refuse(result);
  if (loader) add_number(result, (double)tdm_loader_batch_count(loader));
  tdm_loader_release(loader);
  tdm_dataset_release(dataset);
  end(&self);
}

/* ---- All of them ----------------------------------------------------------------------------- */

#define ROW(kind)                                                                                  \
  { #kind, probe_##kind }
#define ROW_OF_TABLE(kind, momentum) ROW(kind),
const option_probe option_probes[] = {
    TDM_OPTIMIZERS(ROW_OF_TABLE) /* devices/kernels/updates/optimizers.h */
    ROW(adafactor),
    ROW(adagrad),
    ROW(adam),
    ROW(attention),
    ROW(batch_norm),
    ROW(cell),
    ROW(context),
    ROW(conv),
    ROW(conv3d),
    ROW(conv_transpose),
    ROW(conv_transpose3d),
    ROW(embedding),
    ROW(embedding_bag),
    ROW(forecast),
    ROW(group_norm),
    ROW(instance_norm),
    ROW(layer_norm),
    ROW(loader),
    ROW(loss),
    ROW(multi_head_attention),
    ROW(one_cycle),
    ROW(parallel),
    ROW(plateau),
    ROW(pool),
    ROW(pool3d),
    ROW(rms_norm),
    ROW(rnn),
    ROW(session),
    ROW(sgd),
    ROW(shard),
    ROW(state_dict),
    ROW(submit),
    ROW(transformer),
};
const size_t option_probe_count = TDM_COUNT_OF(option_probes);
