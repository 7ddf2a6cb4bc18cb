/* See homes_model.h. */
#include "tests/graph/collectives/homes_model.h"
#include "tests/options.h"

tdm_context *homes_context;

int homes_begin_group(void **unused) {
  (void)unused;
  homes_context = graph_context_of(3, 4);
  return 0;
}

int homes_end_group(void **unused) {
  (void)unused;
  tdm_context_release(homes_context);
  return 0;
}

tdm_session *homes_session(const homes_case *of) {
  tdm_graph *graph = tdm_graph_create(homes_context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "model");
  tdm_value y = x;
  for (int i = 0; i < (of->layers ? of->layers : LAYERS); i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    y = tdm_tanh(graph, "tanh", tdm_linear(graph, name, y, WIDTH));
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = of->devices, o.sharding = of->sharding);
  tdm_data_parallel(graph, "model", &options);
  tdm_output(graph, "y", y);
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  if (of->hands_out) {
    tdm_output(graph, "weight", tdm_get_parameter(graph, "model/l0.weight"));
    const tdm_value weight = tdm_get_parameter(graph, "model/l1.weight");
    tdm_output(graph, "gradient", tdm_gradient_of(graph, "asked", loss, weight));
  }
  tdm_optimizer optimizer = of->factored ? tdm_adafactor(0.01) : tdm_adam(0.01);
  if (of->clip_norm > 0) optimizer.clip_norm = of->clip_norm;
  if (of->clip_value > 0) optimizer.clip_value = of->clip_value;
  return train_session(
      graph, loss, optimizer,
      WITH(tdm_session_options, o.seed = 7, o.micro_batches = OR_ONE(of->micro_batches),
           o.depth = OR_ONE(of->depth), o.deterministic = of->deterministic, o.store = of->store,
           o.collective = of->sharding ? TDM_COLLECTIVE_AUTO : TDM_COLLECTIVE_HOME));
}

void homes_train(tdm_session *session, int steps) {
  for (int i = 0; i < steps; i++) {
    tdm_tensor *x = tdm_tensor_uniform(homes_context, "cpu:0", TDM_FLOAT32,
                                       tdm_shape_of(2, ROWS, WIDTH), (uint64_t)i + 1, -1, 1);
    const tdm_feed feed = {.name = "x", .tensor = x};
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
    tdm_tensor_release(x);
  }
}

tdm_tensor_list *homes_trained_state(const homes_case *of) {
  tdm_session *session = homes_session(of);
  homes_train(session, STEPS);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

bool homes_have_one_arithmetic(const homes_case *of) {
  return strcmp(TEST_KIND, "sim") == 0 || !strstr(of->devices, "cpu") ||
         !strstr(of->devices, TEST_KIND);
}

const char *homes_device_of(const tdm_session *session, const char *name) {
  const tdm_plan *plan = session->newest;
  for (size_t i = 0; i < plan->graph.persistents.count; i++)
    if (strcmp(plan->graph.persistents.items[i].name, name) == 0)
      return plan->entries[i]->storage->memory.device->name;
  fail_msg("there is no %s", name);
  return NULL;
}

uint64_t homes_refreshed_bytes(tdm_session *session) {
  uint64_t transfers, bytes;
  assert_ok(tdm_session_refreshed(session, &transfers, &bytes));
  return bytes;
}

bool homes_is_added(const tdm_ir_node *node) {
  return tdm_ir_collective(node) == TDM_COLLECTIVE_HOME && tdm_ir_has_kernel(node);
}

bool homes_is_computed(const tdm_ir_node *node) {
  return tdm_ir_has_kernel(node) && node->role == TDM_ROLE_GRADIENT && !tdm_ir_collective(node) &&
         strstr(node->operation->name, "linear");
}

static const tdm_ir_node *node_of_step(const tdm_plan *plan, size_t step) {
  return tdm_ir_node_at(&plan->graph, plan->lowered.sources[step].node);
}

int homes_additions_beside(const tdm_plan *plan) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  int count = 0;
  for (size_t i = 0; i < schedule->step_count; i++) {
    const tdm_step *step = &schedule->steps[i];
    const bool beside = plan->lowered.queues[step->queue]->role == TDM_QUEUE_SUM;
    count += beside && homes_is_added(node_of_step(plan, i));
    if (!homes_is_computed(node_of_step(plan, i))) continue;
    assert_false(beside);
    for (uint32_t k = 0; k < step->wait_count; k++) {
      const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
      if (!wait->previous) assert_false(homes_is_added(node_of_step(plan, wait->step)));
    }
  }
  return count;
}
