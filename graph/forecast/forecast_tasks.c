/* A plan's steps as tasks: their times, queues, links and predecessors. Invariant: tasks have the
 * plan's order on each queue and the plan's waits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/forecast/forecast.h"
#include "graph/report/explain.h"

#define NONE TDM_VIRTUAL_NONE

static const tdm_ir_node *node_of(const tdm_forecasting *state, size_t step) {
  return tdm_forecast_node(state, state->rank, step);
}

static const tdm_device *device_at(const tdm_forecasting *state, int16_t device) {
  return tdm_context_device(state->plan->graph.context, (size_t)device);
}

/* Returns the device that a copy comes from. */
static int16_t origin_of(const tdm_forecasting *state, const tdm_ir_node *node) {
  const tdm_graph *graph = &state->plan->graph;
  return tdm_ir_value_at(graph, node->inputs[0])->device;
}

static bool moves(const tdm_forecasting *state, const tdm_ir_node *node) {
  return !node->operation && origin_of(state, node) != node->device;
}

/* Returns true for a device of the described machine. Devices of other ranks are real. */
static bool is_described(const tdm_forecasting *state, int16_t device) {
  return state->machine && device_at(state, device)->described;
}

/* Returns true if both ends of the copy are real devices. */
static bool is_real_copy(const tdm_forecasting *state, const tdm_ir_node *node) {
  return !is_described(state, origin_of(state, node)) && !is_described(state, node->device);
}

static bool is_received(const tdm_forecasting *state, const tdm_ir_node *node) {
  const tdm_graph *graph = &state->plan->graph;
  return tdm_ir_is_message(graph, node) && tdm_rank_of(graph, node->device) == (int)state->rank;
}

/* Returns true if a run skips the step after another run of the same plan. Copies that updates have
 * written themselves are current; those that lack the rows of one update get only these. */
static bool is_spared(const tdm_forecasting *state, const tdm_ir_node *node) {
  return !tdm_plan_is_usual(state->plan, node);
}

/* ---- Prices ---------------------------------------------------------------------------------- */

/* Returns the description of the device's processor; NULL: it is not described. */
static const tdm_machine_processor *processor_of(const tdm_forecasting *state,
                                                 const tdm_device *device) {
  if (!state->machine) return NULL;
  if (device->described) return &state->machine->device;
  const bool stands_for_host =
      device->context_index == 0 && state->machine->host.memory_bytes_per_ns > 0;
  return stands_for_host ? &state->machine->host : NULL;
}

static tdm_status price(tdm_forecasting *state, size_t step) {
  const tdm_ir_node *node = node_of(state, step);
  const tdm_graph *graph = &state->plan->graph;
  const tdm_device *device = device_at(state, node->device);
  char class_name[TDM_COST_CLASS];
  char kernel[TDM_COST_KEY];
  tdm_cost_class(device, class_name);
  tdm_cost_kernel(graph, node, kernel, sizeof kernel);
  const tdm_cost cost = tdm_costs_find(state->options->costs, class_name, kernel);
  const tdm_forecast_rank *rank = &state->ranks[state->rank];
  rank->crowded[step] = 1;
  if (cost.alone_ns > 0) {
    rank->step_ns[step] = cost.alone_ns;
    if (cost.crowded_ns > cost.alone_ns) rank->crowded[step] = cost.crowded_ns / cost.alone_ns;
    state->measured_kernels++;
    return TDM_OK;
  }
  const tdm_machine_processor *processor = processor_of(state, device);
  if (!processor)
    return tdm_fail(TDM_UNSUPPORTED, "%s: what it takes on %s was not measured: %s %s", node->name,
                    device->name, class_name, kernel);
  state->modelled_kernels++;
  return tdm_roofline_ns(processor, graph, node, &rank->step_ns[step]);
}

/* Returns true if the step has no kernel and is not a copy. */
static bool is_exchange(const tdm_ir_node *node) {
  return tdm_ir_is_share(node) || tdm_ir_is_all_reduce(node);
}

/* The plan records which host memory of copies is pinned. */
tdm_status tdm_forecast_price(tdm_forecasting *state) {
  const tdm_forecast_rank *rank = &state->ranks[state->rank];
  for (size_t i = 0; i < rank->lowered->schedule.step_count; i++) {
    const tdm_ir_node *node = node_of(state, i);
    if (is_exchange(node) || is_spared(state, node)) continue;
    if (!moves(state, node)) {
      TDM_TRY(price(state, i));
    } else if (is_real_copy(state, node)) {
      rank->step_ns[i] = tdm_plan_predict_ns(state->plan, node);
    }
  }
  return TDM_OK;
}

/* ---- Queues and links ------------------------------------------------------------------------ */

/* Kernels of a host's cpu devices share a memory. */
static uint32_t group_of(const tdm_forecasting *state, const tdm_queue *queue) {
  const tdm_device *device = queue->device;
  const bool computes = queue->role == TDM_QUEUE_COMPUTE || queue->role == TDM_QUEUE_SUM;
  const bool shares = device->host_addressable && computes;
  if (!shares) return NONE;
  return state->is_job ? tdm_job_host(state, state->rank) : state->rank;
}

/* Returns, for the rank, its number among the machine's devices, or the host that it represents. */
static int machine_end(const tdm_forecasting *state, const tdm_device *device) {
  const uint32_t first = state->rank * state->alike.width;
  if (device->described) return (int)first + device->index;
  return state->machine ? tdm_machine_host(first / state->machine->devices_per_host)
                        : TDM_MACHINE_HOST;
}

enum { NAME_BYTES = 28 };

/* Returns a name that is the same on all ranks of a job. */
static const char *name_of(const tdm_forecasting *state, const tdm_device *device, char *text) {
  if (state->is_job)
    (void)snprintf(text, NAME_BYTES, "host:%d/%.8s:%d", device->rank, device->ops->kind,
                   device->index);
  else
    (void)snprintf(text, NAME_BYTES, "%.24s", device->name);
  return text;
}

static void name_queue(const tdm_forecasting *state, const tdm_queue *queue, char *name) {
  const size_t capacity = sizeof *state->queue_names;
  const char *role = tdm_explain_role(queue->role);
  char text[NAME_BYTES];
  if (state->is_job)
    (void)snprintf(name, capacity, "%s %s", name_of(state, queue->device, text), role);
  else if (state->rank == 0)
    (void)snprintf(name, capacity, "%.24s %s", queue->device->name, role);
  else if (queue->device->described)
    (void)snprintf(name, capacity, "paper:%d %s", machine_end(state, queue->device), role);
  else
    (void)snprintf(name, capacity, "rank %u %.16s %s", state->rank, queue->device->name, role);
}

static uint32_t task_of(const tdm_forecasting *state, size_t step) {
  return state->ranks[state->rank].task_of[step];
}

static tdm_status add_queues(tdm_forecasting *state) {
  const tdm_forecast_rank *rank = &state->ranks[state->rank];
  for (uint32_t q = 0; q < rank->lowered->schedule.queue_count; q++) {
    const tdm_queue *queue = rank->lowered->queues[q];
    uint32_t *number = &rank->queue_of[q];
    TDM_TRY(tdm_virtual_add_queue(&state->schedule, group_of(state, queue), number));
    name_queue(state, queue, state->queue_names[*number]);
  }
  return TDM_OK;
}

static tdm_status add_machine_links(tdm_forecasting *state) {
  const uint32_t count = state->machine ? tdm_machine_link_count(state->machine) : 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t link; /* the machine's own numbers come first */
    TDM_TRY(tdm_virtual_add_link(&state->schedule, tdm_machine_link_bytes_per_ns(state->machine, i),
                                 &link));
    (void)tdm_machine_link_name(state->machine, i, state->link_names[link],
                                sizeof *state->link_names);
  }
  return TDM_OK;
}

/* The estimate between real devices includes the whole time of a copy with caches. So the link
 * itself has no limit; it only counts traffic. */
static tdm_status pair_link(tdm_forecasting *state, int16_t from, int16_t to, uint32_t *out_link) {
  const size_t devices = tdm_device_count(state->plan->graph.context);
  uint32_t *link = &state->pair_link_of[(size_t)from * devices + (size_t)to];
  if (*link == NONE) {
    TDM_TRY(tdm_virtual_add_link(&state->schedule, INFINITY, link));
    char texts[2][NAME_BYTES];
    (void)snprintf(state->link_names[*link], sizeof *state->link_names, "%.25s -> %.25s",
                   name_of(state, device_at(state, from), texts[0]),
                   name_of(state, device_at(state, to), texts[1]));
  }
  *out_link = *link;
  return TDM_OK;
}

/* Finds the links of a copy's bytes, and the latency before them. */
static tdm_status find_links(tdm_forecasting *state, const tdm_ir_node *node, double ns,
                             tdm_virtual_task *task) {
  const int16_t from = origin_of(state, node);
  if (tdm_ir_is_message(&state->plan->graph, node)) return tdm_job_send(state, node, ns, task);
  if (is_real_copy(state, node)) {
    task->latency_ns = ns;
    task->hop_count = 1;
    return pair_link(state, from, node->device, &task->hops[0]);
  }
  tdm_machine_route route;
  tdm_machine_find_route(state->machine, machine_end(state, device_at(state, from)),
                         machine_end(state, device_at(state, node->device)), &route);
  task->latency_ns = route.latency_ns;
  task->hop_count = route.hop_count;
  memcpy(task->hops, route.hops, sizeof route.hops);
  return TDM_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Returns true if the step waits for other ranks before any of them continues. */
static bool meets(const tdm_forecasting *state, const tdm_ir_node *node) {
  return tdm_ir_is_all_reduce(node) ||
         (is_received(state, node) && tdm_ir_is_exchange(&state->plan->graph, node));
}

/* Adds the tasks of a step of state->rank. A step of all ranks of a job is two tasks: the first
 * ends when the rank has reached it, and the second begins when all ranks have. The same holds for
 * what a device receives from another directly, whose sending begins after the first. Receiving
 * takes no time after the task that sends. */
static tdm_status add_task(tdm_forecasting *state, size_t step, uint32_t queue, uint64_t order) {
  const tdm_ir_node *node = node_of(state, step);
  const tdm_forecast_rank *rank = &state->ranks[state->rank];
  tdm_virtual_task task = {.queue = queue, .order = order, .crowded = 1};
  if (meets(state, node)) {
    uint32_t come;
    TDM_TRY(tdm_virtual_add(&state->schedule, &task, &come));
  } else if (!is_spared(state, node) && !is_exchange(node) && !is_received(state, node)) {
    task.copies = moves(state, node);
    if (task.copies) {
      task.work = (double)tdm_ir_value_at(&state->plan->graph, node->first_output)->bytes;
      TDM_TRY(find_links(state, node, rank->step_ns[step], &task));
    } else {
      task.work = rank->step_ns[step];
      task.crowded = rank->crowded[step];
    }
  }
  return tdm_virtual_add(&state->schedule, &task, &rank->task_of[step]);
}

static tdm_status add_waits(tdm_forecasting *state, size_t index) {
  const tdm_schedule *schedule = &state->ranks[state->rank].lowered->schedule;
  const tdm_step *step = &schedule->steps[index];
  const uint32_t first = task_of(state, index) - (meets(state, node_of(state, index)) ? 1 : 0);
  for (uint32_t k = 0; k < step->wait_count; k++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
    if (!wait->previous) /* runs follow each other */
      TDM_TRY(tdm_virtual_add_wait(&state->schedule, first, task_of(state, wait->step)));
  }
  if (step->phase == TDM_PHASE_UPDATE && state->barrier != NONE)
    TDM_TRY(tdm_virtual_add_wait(&state->schedule, first, state->barrier));
  return TDM_OK;
}

/* Adds the barrier: a separate update phase begins when all of the main phase has ended; in a job,
 * when all ranks have voted. */
static tdm_status add_barrier(tdm_forecasting *state) {
  const tdm_plan *plan = state->plan;
  const uint32_t before = (uint32_t)state->schedule.task_count;
  state->barrier = NONE;
  if (!(state->is_job ? plan->writes_persistent : plan->lowered.schedule.two_phase)) return TDM_OK;
  uint32_t queue;
  TDM_TRY(tdm_virtual_add_queue(&state->schedule, NONE, &queue));
  (void)snprintf(state->queue_names[queue], sizeof *state->queue_names, "between the phases");
  const tdm_virtual_task barrier = {.queue = queue,
                                    .crowded = 1,
                                    .work = state->is_job ? tdm_job_vote_ns(state)
                                                          : tdm_alike_vote_ns(state)};
  TDM_TRY(tdm_virtual_add(&state->schedule, &barrier, &state->barrier));
  for (uint32_t task = 0; task < before; task++)
    TDM_TRY(tdm_virtual_add_wait(&state->schedule, state->barrier, task));
  return TDM_OK;
}

static tdm_status add_step(tdm_forecasting *state, size_t index, tdm_phase phase) {
  const tdm_forecast_rank *rank = &state->ranks[state->rank];
  const tdm_step *step = &rank->lowered->schedule.steps[index];
  if (step->phase != phase) return TDM_OK;
  TDM_TRY(add_task(state, index, rank->queue_of[step->queue], (uint64_t)index + 1));
  return add_waits(state, index);
}

/* Identical ranks reach shared operations together, step by step. */
static tdm_status add_alike_phase(tdm_forecasting *state, tdm_phase phase) {
  for (size_t i = 0; i < state->plan->lowered.schedule.step_count; i++) {
    for (state->rank = 0; state->rank < state->rank_count; state->rank++)
      TDM_TRY(add_step(state, i, phase));
    state->rank = 0;
    if (state->plan->lowered.schedule.steps[i].phase == phase && tdm_ir_is_share(node_of(state, i)))
      TDM_TRY(tdm_alike_share(state, i));
  }
  return TDM_OK;
}

static tdm_status add_phase(tdm_forecasting *state, tdm_phase phase) {
  if (!state->is_job) return add_alike_phase(state, phase);
  for (state->rank = 0; state->rank < state->rank_count; state->rank++)
    for (size_t i = 0; i < state->ranks[state->rank].lowered->schedule.step_count; i++)
      TDM_TRY(add_step(state, i, phase));
  return TDM_OK;
}

tdm_status tdm_forecast_add_main(tdm_forecasting *state) {
  state->barrier = NONE;
  for (state->rank = 0; state->rank < state->rank_count; state->rank++)
    TDM_TRY(add_queues(state));
  TDM_TRY(add_machine_links(state));
  return add_phase(state, TDM_PHASE_MAIN);
}

tdm_status tdm_forecast_add_update(tdm_forecasting *state) {
  TDM_TRY(add_barrier(state));
  return add_phase(state, TDM_PHASE_UPDATE);
}
