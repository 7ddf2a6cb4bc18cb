/* The library's side: operations, kernels, the graph. The oracle is in counter_oracle.c. */
#include "tests/graph/run/counters/counter_model.h"

#include <stdlib.h>
#include <time.h>

#include "graph/store/store.h"
#include "tests/graph/run/counters/counter_rules.h"
#include "tests/graph/run/counters/held_plan.h"
#include "tests/options.h"

/* ---- Kernels --------------------------------------------------------------------------------- */

static _Atomic uint64_t draws; /* each pause is drawn anew */
static _Atomic bool never;

void counter_pause_at_random(bool pauses) {
  atomic_store(&never, !pauses);
}

/* One call in eight sleeps up to 400 us, one in 64 up to 3 ms. */
static void pause_at_random(void) {
  held_plan_moved();
  if (atomic_load(&never)) return;
  const tdm_random random = {17, 0, 0};
  const uint32_t drawn = tdm_random_uint32(&random, atomic_fetch_add(&draws, 1));
  if (drawn % 8 != 0) return;
  const uint32_t longest_us = drawn % 64 == 0 ? 3000 : 400;
  const struct timespec pause = {.tv_nsec = (long)(drawn / 64 % longest_us) * 1000};
  (void)nanosleep(&pause, NULL);
}

static int64_t length_of(const tdm_spec *spec) {
  return tdm_shape_count(&spec->shape);
}

static tdm_status execute_mix(const tdm_kernel_call *call) {
  const counter_attributes *attributes = call->attributes;
  double *out = call->outputs[0];
  double mixed[COUNTER_MOST_LENGTH];
  pause_at_random();
  const int64_t length = attributes->length ? attributes->length : 1;
  const int count = (int)attributes->operand;
  for (int64_t i = 0; i < length; i++) {
    uint64_t sum = 0;
    for (int k = 0; k < count; k++)
      sum +=
          counter_take(call->inputs[k], length_of(&call->input_specs[k]), attributes->length, i, k);
    mixed[i] = counter_mix(sum, attributes->multiplier, attributes->addend);
  }
  memcpy(out, mixed, (size_t)length * sizeof *out);
  return TDM_OK;
}

static tdm_status execute_back(const tdm_kernel_call *call) {
  const counter_attributes *attributes = call->attributes;
  const double *d_out = call->inputs[0];
  const double *in = call->inputs[1];
  double *d_in = call->outputs[0];
  pause_at_random();
  const int64_t length = length_of(&call->input_specs[0]);
  for (int64_t j = 0; j < attributes->length; j++)
    d_in[j] =
        counter_back(d_out[j % length], in[j], attributes->multiplier, attributes->operand, j);
  return TDM_OK;
}

static tdm_status execute_update(const tdm_kernel_call *call) {
  double *parameter = call->outputs[0];
  const double *gradient = call->inputs[1];
  pause_at_random();
  for (int64_t j = 0; j < length_of(&call->input_specs[0]); j++)
    parameter[j] = counter_update(parameter[j], gradient[j]);
  return TDM_OK;
}

#define COUNTER_KERNEL(name, function)                                                             \
  {                                                                                                \
    .struct_size = sizeof(tdm_kernel), .operation = (name), .executes = "cpu",                     \
    .dtype = TDM_FLOAT64, .execute = (function)                                                    \
  }

static const tdm_kernel kernels[] = {COUNTER_KERNEL("counter_mix", execute_mix),
                                     COUNTER_KERNEL("counter_back", execute_back),
                                     COUNTER_KERNEL("counter_update", execute_update)};

/* ---- Operations ------------------------------------------------------------------------------ */

static tdm_status infer_length(tdm_infer *infer) {
  const counter_attributes *attributes = infer->attributes;
  infer->outputs[0].dtype = TDM_FLOAT64;
  infer->outputs[0].shape =
      attributes->length ? tdm_shape_of(1, attributes->length) : tdm_shape_scalar();
  return TDM_OK;
}

static tdm_status infer_update(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static const tdm_operation back_operation = {.struct_size = sizeof(tdm_operation),
                                             .name = "counter_back",
                                             .attribute_bytes = sizeof(counter_attributes),
                                             .min_inputs = 2,
                                             .max_inputs = 2,
                                             .output_count = 1,
                                             .infer = infer_length};

static tdm_status mix_gradient(tdm_gradient *gradient) {
  const counter_attributes *mine = tdm_gradient_attributes(gradient);
  tdm_graph *graph = tdm_gradient_graph(gradient);
  for (int64_t k = 0; k < mine->operand; k++) {
    if (!tdm_gradient_wanted(gradient, (size_t)k)) continue;
    const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                  tdm_gradient_input(gradient, (size_t)k)};
    const counter_attributes back = {.length = tdm_value_shape(graph, operands[1]).dims[0],
                                     .multiplier = mine->multiplier,
                                     .operand = k};
    tdm_gradient_set(
        gradient, (size_t)k,
        tdm_append(graph, &back_operation, tdm_gradient_name(gradient), &back, operands, 2, NULL));
  }
  return tdm_graph_status(graph);
}

static const tdm_operation mix_operation = {.struct_size = sizeof(tdm_operation),
                                            .name = "counter_mix",
                                            .attribute_bytes = sizeof(counter_attributes),
                                            .min_inputs = 1,
                                            .max_inputs = COUNTER_MOST_OPERANDS,
                                            .takes_list = true,
                                            .output_count = 1,
                                            .infer = infer_length,
                                            .gradient = mix_gradient};

static const tdm_operation update_operation = {.struct_size = sizeof(tdm_operation),
                                               .name = "counter_update",
                                               .min_inputs = 2,
                                               .max_inputs = 2,
                                               .output_count = 1,
                                               .overwrites = {1},
                                               .infer = infer_update};

static tdm_status append_updates(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    const tdm_value operands[] = {tdm_update_parameter(update, i), tdm_update_gradient(update, i)};
    tdm_append(graph, &update_operation, tdm_update_name(update, i), NULL, operands, 2, NULL);
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule counting_rule = {.name = "counting", .append = append_updates};

/* ---- Models ---------------------------------------------------------------------------------- */

tdm_context *counter_context(uint64_t delay_seed) {
  char sim[96];
  assert_true(snprintf(sim, sizeof sim, "latency_us=15,gigabytes_per_second=1,delay_seed=%llu",
                       (unsigned long long)delay_seed) > 0);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 3, o.sim_devices = 2, o.sim = sim);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  for (size_t i = 0; i < TDM_COUNT_OF(kernels); i++)
    assert_ok(tdm_kernel_register(context, &kernels[i]));
  return context;
}

typedef struct dice_state {
  tdm_random random;
  uint64_t index;
} dice_state;

static int64_t roll(dice_state *dice, int64_t below) {
  return tdm_random_uint32(&dice->random, dice->index++) % (uint32_t)below;
}

static void add_node(counter_model *model, dice_state *dice, const char *device,
                     const int *operands, int operand_count, int64_t length) {
  counter_node *node = &model->nodes[model->node_count];
  node->device = device;
  node->attributes = (counter_attributes){.length = length,
                                          .multiplier = 1 + roll(dice, 1000),
                                          .addend = roll(dice, 1000),
                                          .operand = operand_count};
  node->operand_count = operand_count;
  memcpy(node->operands, operands, (size_t)operand_count * sizeof *operands);
  model->lengths[COUNTER_FIRST_NODE + model->node_count++] = length ? length : 1;
}

/* Combines values without consumers, so that every value reaches the loss. */
static void add_loss(counter_model *model, dice_state *dice, const char *const *devices,
                     int device_count) {
  bool read[COUNTER_MOST_VALUES] = {false};
  for (int n = 0; n < model->node_count; n++)
    for (int k = 0; k < model->nodes[n].operand_count; k++)
      read[model->nodes[n].operands[k]] = true;
  int open[COUNTER_MOST_VALUES];
  int count = 0;
  for (int v = COUNTER_INPUTS; v < COUNTER_FIRST_NODE + model->node_count; v++)
    if (!read[v]) open[count++] = v;
  while (count > 4) {
    add_node(model, dice, devices[roll(dice, device_count)], open, 4, 1 + roll(dice, 20));
    memmove(open, open + 4, (size_t)(count - 4) * sizeof *open);
    count -= 4;
    open[count++] = COUNTER_FIRST_NODE + model->node_count - 1;
  }
  add_node(model, dice, devices[roll(dice, device_count)], open, count, 0);
}

void counter_model_draw(counter_model *model, uint64_t seed, int node_count, int device_count) {
  static const char *const all[] = {"sim:0", "cpu:0", "sim:1", "cpu:1"};
  dice_state dice = {{seed, tdm_random_stream("counters"), 0}, 0};
  const char *devices[4];
  const int64_t first = roll(&dice, 4);
  for (int d = 0; d < device_count; d++)
    devices[d] = all[(first + d) % 4];
  memset(model, 0, sizeof *model);
  for (int v = 0; v < COUNTER_FIRST_NODE; v++)
    model->lengths[v] = 1 + roll(&dice, COUNTER_MOST_LENGTH);
  for (int n = 0; n < node_count; n++) {
    int operands[3];
    const int count = 1 + (int)roll(&dice, 3);
    const int values = COUNTER_FIRST_NODE + n;
    for (int k = 0; k < count; k++) /* half of them recent, so that chains are long */
      operands[k] = roll(&dice, 2) && values > 6 ? values - 1 - (int)roll(&dice, 4)
                                                 : (int)roll(&dice, values);
    add_node(model, &dice, devices[roll(&dice, device_count)], operands, count,
             1 + roll(&dice, COUNTER_MOST_LENGTH));
  }
  add_loss(model, &dice, devices, device_count);
  for (int i = 0; i < COUNTER_OUTPUTS; i++)
    model->outputs[i] = COUNTER_FIRST_NODE + (int)roll(&dice, model->node_count - 1);
}

static const char *const output_names[COUNTER_OUTPUTS] = {"o0", "o1", "o2", "o3"};
static const char *const input_names[COUNTER_INPUTS] = {"x0", "x1"};
static const char *const parameter_names[COUNTER_PARAMETERS] = {"p0", "p1", "p2"};

static tdm_value describe(tdm_graph *graph, const counter_model *model) {
  tdm_value values[COUNTER_MOST_VALUES] = {0};
  for (int i = 0; i < COUNTER_INPUTS; i++)
    values[i] = tdm_input(graph, input_names[i], TDM_FLOAT64, tdm_shape_of(1, model->lengths[i]));
  for (int i = 0; i < COUNTER_PARAMETERS; i++) {
    const tdm_initializer start = {TDM_INIT_CONSTANT, COUNTER_START + i, 0, -1};
    values[COUNTER_INPUTS + i] =
        tdm_parameter(graph, parameter_names[i], TDM_FLOAT64,
                      tdm_shape_of(1, model->lengths[COUNTER_INPUTS + i]), &start);
  }
  for (int n = 0; n < model->node_count; n++) {
    const counter_node *node = &model->nodes[n];
    tdm_value operands[COUNTER_MOST_OPERANDS];
    for (int k = 0; k < node->operand_count; k++)
      operands[k] = values[node->operands[k]];
    char name[16];
    assert_true(snprintf(name, sizeof name, "n%d", n) > 0);
    tdm_place(graph, node->device);
    values[COUNTER_FIRST_NODE + n] = tdm_append(graph, &mix_operation, name, &node->attributes,
                                                operands, (size_t)node->operand_count, NULL);
  }
  for (int i = 0; i < COUNTER_OUTPUTS; i++)
    tdm_output(graph, output_names[i], values[model->outputs[i]]);
  return values[COUNTER_FIRST_NODE + model->node_count - 1];
}

tdm_session *counter_session(const counter_model *model, tdm_context *context, int depth,
                             bool trains) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value loss = describe(graph, model);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = depth);
  const tdm_optimizer optimizer =
      OPTIONS(tdm_optimizer, o.rule = &counting_rule, o.learning_rate = 1);
  return trains ? train_session(graph, loss, optimizer, &options) : run_session(graph, &options);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

void counter_run_begin(counter_run *run, tdm_context *context, const counter_model *model,
                       uint64_t seed) {
  memset(run, 0, sizeof *run);
  for (int i = 0; i < COUNTER_INPUTS; i++) {
    double values[COUNTER_MOST_LENGTH];
    counter_draw_input(seed, i, model->lengths[i], values);
    tdm_tensor *tensor =
        tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(1, model->lengths[i]), values);
    assert_non_null(tensor);
    run->feeds[i] = (tdm_feed){.name = input_names[i], .tensor = tensor};
  }
  for (int i = 0; i < COUNTER_OUTPUTS; i++)
    run->fetches[i].name = output_names[i];
}

void counter_run_end(counter_run *run) {
  for (int i = 0; i < COUNTER_INPUTS; i++)
    tdm_tensor_release(run->feeds[i].tensor);
  for (int i = 0; i < COUNTER_OUTPUTS; i++)
    tdm_tensor_release(run->fetches[i].tensor);
}

bool counter_run_agrees(const counter_run *run, const counter_model *model,
                        const counter_state *state, bool trained) {
  for (int i = 0; i < COUNTER_OUTPUTS; i++) {
    const int value = model->outputs[i];
    if (!run->fetches[i].tensor ||
        memcmp(tdm_tensor_data(run->fetches[i].tensor), state->values[value],
               (size_t)model->lengths[value] * sizeof(double)) != 0)
      return false;
  }
  return !trained || run->loss == state->values[COUNTER_FIRST_NODE + model->node_count - 1][0];
}

void counter_load(tdm_session *session, const counter_model *model, uint64_t seed,
                  counter_state *state) {
  tdm_store *store = tdm_session_store(session);
  tdm_tensor_list *list = tdm_tensor_list_create(store->context);
  assert_non_null(list);
  for (int i = 0; i < COUNTER_PARAMETERS; i++) {
    const int value = COUNTER_INPUTS + i;
    counter_draw_input(seed, value, model->lengths[value], state->values[value]);
    tdm_tensor *tensor = tdm_tensor_from(
        store->context, TDM_FLOAT64, tdm_shape_of(1, model->lengths[value]), state->values[value]);
    assert_non_null(tensor);
    assert_ok(tdm_tensor_list_add(list, parameter_names[i], tensor));
    tdm_tensor_release(tensor);
  }
  assert_ok(tdm_store_load(store, list));
  tdm_tensor_list_release(list);
}

bool counter_store_agrees(tdm_session *session, const counter_model *model,
                          const counter_state *state) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), false);
  assert_non_null(list);
  bool agrees = true;
  for (int i = 0; i < COUNTER_PARAMETERS; i++) {
    const tdm_tensor *tensor = tdm_tensor_list_find(list, parameter_names[i]);
    assert_non_null(tensor);
    const int value = COUNTER_INPUTS + i;
    agrees &= memcmp(tdm_tensor_data(tensor), state->values[value],
                     (size_t)model->lengths[value] * sizeof(double)) == 0;
  }
  tdm_tensor_list_release(list);
  return agrees;
}
