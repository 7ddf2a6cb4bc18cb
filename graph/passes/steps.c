/* Converts nodes to the combinatorial form (schedule.h) of one rank: one step per command, with its
 * queue, its phase, and the storages that it reads and writes. Views and joined concatenations have
 * no step: a view is its root's storage, or those of its parts that it covers. A joined part is a
 * storage inside its whole. Each rank has its own end of a message. */
#include <string.h>

#include "devices/context/route.h"
#include "devices/contract/red_zones.h"
#include "graph/passes/passes.h"

#define NONE UINT32_MAX

typedef struct steps_state {
  const tdm_graph *graph;
  int rank; /* rank of the steps */
  tdm_lowered *out;
  uint32_t *queue_numbers; /* per queue of the context: its number here, or NONE if unused */
  uint32_t *arena_numbers; /* per device: its arena, or NONE before its first use */
} steps_state;

void tdm_lowered_deinit(tdm_lowered *lowered) {
  const tdm_allocator *allocator = lowered->schedule.allocator;
  if (!allocator) return;
  tdm_release(allocator, lowered->sources, (lowered->source_count + 1) * sizeof *lowered->sources);
  tdm_release(allocator, lowered->storage_of, lowered->value_count * sizeof(uint32_t));
  tdm_release(allocator, (void *)lowered->queues, lowered->queue_capacity * sizeof(tdm_queue *));
  tdm_schedule_deinit(&lowered->schedule);
}

static tdm_status add_storage(tdm_schedule *schedule, tdm_storage_plan storage,
                              uint32_t *out_index) {
  TDM_TRY(tdm_array_reserve(schedule->allocator, (void **)&schedule->storages,
                            &schedule->storage_capacity, schedule->storage_count + 1,
                            sizeof *schedule->storages, "plan"));
  if (storage.bytes == 0) storage.bytes = 1; /* an empty tensor has an address too */
  *out_index = (uint32_t)schedule->storage_count;
  schedule->storages[schedule->storage_count++] = storage;
  return TDM_OK;
}

/* Returns the arena of a device. With red zones, each value has its own arena. */
static uint32_t arena_of(steps_state *state, int16_t device) {
  if (tdm_context_red_zones(state->graph->context)) return state->out->schedule.arena_count++;
  if (state->arena_numbers[device] == NONE)
    state->arena_numbers[device] = state->out->schedule.arena_count++;
  return state->arena_numbers[device];
}

/* Adds the parts of a joined concatenation as storages of their own after that of the whole. */
static tdm_status add_parts(steps_state *state, const tdm_ir_node *joined, uint32_t whole) {
  const tdm_graph *graph = state->graph;
  tdm_schedule *schedule = &state->out->schedule;
  for (uint32_t k = 0; k < joined->input_count; k++) {
    const tdm_ir_value *part = tdm_ir_value_at(graph, joined->inputs[k]);
    const tdm_ir_node *maker = tdm_ir_node_at(graph, part->producer);
    while (maker->operation && maker->operation->is_view) {
      part = tdm_ir_value_at(graph, maker->inputs[0]);
      maker = tdm_ir_node_at(graph, part->producer);
    }
    if (maker->joined) {
      TDM_TRY(add_parts(state, maker, whole));
      continue;
    }
    tdm_storage_plan storage = schedule->storages[whole];
    storage.bytes = part->bytes;
    storage.part_count = 0;
    storage.whole = whole + 1;
    storage.within = part->offset;
    uint32_t index;
    TDM_TRY(add_storage(schedule, storage, &index));
    schedule->storages[whole].part_count++;
  }
  return TDM_OK;
}

/* Adds the storage of a root and those of its parts. */
static tdm_status add_root(steps_state *state, uint32_t root, tdm_storage_plan storage) {
  tdm_lowered *out = state->out;
  const tdm_ir_node *maker =
      tdm_ir_node_at(state->graph, tdm_ir_value_at(state->graph, root)->producer);
  TDM_TRY(add_storage(&out->schedule, storage, &out->storage_of[root]));
  return maker->joined ? add_parts(state, maker, out->storage_of[root]) : TDM_OK;
}

/* Writes the storage of a value's root, which is added at its first use. */
static tdm_status storage_of(steps_state *state, uint32_t value, uint32_t *out_storage) {
  tdm_lowered *out = state->out;
  *out_storage = out->storage_of[value];
  if (*out_storage != NONE) return TDM_OK;
  const uint32_t root = tdm_ir_value_at(state->graph, value)->root;
  if (out->storage_of[root] == NONE) {
    const tdm_ir_value *owner = tdm_ir_value_at(state->graph, root);
    tdm_storage_plan storage = {.bytes = owner->bytes};
    if (owner->kind == TDM_VALUE_INPUT)
      storage.kind = TDM_STORAGE_EXTERNAL;
    else if (owner->kind == TDM_VALUE_NODE)
      storage = (tdm_storage_plan){.kind = TDM_STORAGE_ARENA,
                                   .arena = arena_of(state, owner->device),
                                   .bytes = owner->bytes};
    else
      storage.kind = TDM_STORAGE_PERSISTENT;
    TDM_TRY(add_root(state, root, storage));
  }
  *out_storage = out->storage_of[value] = out->storage_of[root];
  return TDM_OK;
}

static tdm_status add_access(tdm_schedule *schedule, tdm_access access) {
  TDM_TRY(tdm_array_reserve(schedule->allocator, (void **)&schedule->accesses,
                            &schedule->access_capacity, schedule->access_count + 1,
                            sizeof *schedule->accesses, "plan"));
  schedule->accesses[schedule->access_count++] = access;
  return TDM_OK;
}

/* Adds accesses to the bytes from begin to end of a storage that consists of parts, part by part.
 * Bytes beyond the storage are attributed to the last part, so that verify reports them. */
static tdm_status add_part_accesses(tdm_schedule *schedule, uint32_t storage, uint64_t begin,
                                    uint64_t end, bool writes) {
  const uint32_t part_count = schedule->storages[storage].part_count;
  for (uint32_t p = 1; p <= part_count; p++) {
    const tdm_storage_plan *part = &schedule->storages[storage + p];
    const uint64_t part_end = p == part_count ? UINT64_MAX : part->within + part->bytes;
    if (part->within >= end || part_end <= begin) continue;
    const uint64_t first = begin > part->within ? begin - part->within : 0;
    const uint64_t last = (end < part_end ? end : part_end) - part->within;
    TDM_TRY(add_access(schedule, (tdm_access){storage + p, writes, first, last - first}));
  }
  return TDM_OK;
}

/* Adds accesses to a joined concatenation: to all of it, or to the parts that the value covers. A
 * writer of the value (rewrites: one that overwrites it) accesses its parts. */
static tdm_status add_value_access(steps_state *state, uint32_t value, bool writes, bool rewrites) {
  tdm_schedule *schedule = &state->out->schedule;
  const tdm_ir_value *shown = tdm_ir_value_at(state->graph, value);
  uint32_t storage;
  TDM_TRY(storage_of(state, value, &storage));
  const tdm_storage_plan *root = &schedule->storages[storage];
  const bool all = shown->offset == 0 && shown->bytes == root->bytes;
  if (root->part_count == 0 || (all && !writes && !rewrites))
    return add_access(schedule, (tdm_access){storage, writes, shown->offset, shown->bytes});
  uint64_t end;
  if (__builtin_add_overflow(shown->offset, shown->bytes, &end)) end = UINT64_MAX;
  return add_part_accesses(schedule, storage, shown->offset, end, writes);
}

/* Returns true if the rank of these steps is the sender of the node, which is a message. */
static bool is_sent(const steps_state *state, const tdm_ir_node *node) {
  return tdm_ir_is_message(state->graph, node) &&
         tdm_rank_of(state->graph, tdm_ir_value_at(state->graph, node->inputs[0])->device) ==
             state->rank;
}

static bool is_received(const steps_state *state, const tdm_ir_node *node) {
  return tdm_ir_is_message(state->graph, node) &&
         tdm_rank_of(state->graph, node->device) == state->rank;
}

static tdm_device *source_of(const tdm_graph *graph, const tdm_ir_node *node) {
  return tdm_context_device(graph->context,
                            (size_t)tdm_ir_value_at(graph, node->inputs[0])->device);
}

static tdm_queue *queue_of(const steps_state *state, const tdm_ir_node *node) {
  const tdm_graph *graph = state->graph;
  if (is_sent(state, node) && tdm_ir_is_exchange(graph, node))
    return source_of(graph, node)->queues[TDM_QUEUE_PEER];
  if (is_sent(state, node))
    return tdm_context_host_of(graph->context, state->rank)->queues[TDM_QUEUE_SEND];
  tdm_device *device = tdm_context_device(graph->context, (size_t)node->device);
  if (tdm_ir_is_all_reduce(node))
    return device->queues[device->queues[TDM_QUEUE_SEND] ? TDM_QUEUE_SEND : TDM_QUEUE_PEER];
  if (tdm_ir_is_share(node)) return device->queues[TDM_QUEUE_DOWNLOAD];
  if (node->operation && node->sum.beside && device->queues[TDM_QUEUE_SUM])
    return device->queues[TDM_QUEUE_SUM];
  if (node->operation) return device->queues[TDM_QUEUE_COMPUTE];
  tdm_device *origin = source_of(graph, node);
  if (origin == device || node->transfer.pushed) return origin->queues[TDM_QUEUE_COMPUTE];
  return tdm_direct_queue(origin, device);
}

static tdm_status number_queue(steps_state *state, tdm_queue *queue, uint32_t *out_number) {
  tdm_schedule *schedule = &state->out->schedule;
  uint32_t *number = &state->queue_numbers[queue->index];
  if (*number == NONE) {
    TDM_TRY(tdm_array_reserve(schedule->allocator, (void **)&state->out->queues,
                              &state->out->queue_capacity, schedule->queue_count + 1u,
                              sizeof(tdm_queue *), "plan"));
    state->out->queues[schedule->queue_count] = queue;
    *number = schedule->queue_count++;
  }
  *out_number = *number;
  return TDM_OK;
}

static tdm_status add_accesses(steps_state *state, const tdm_ir_node *node,
                               tdm_step_source *source) {
  const uint32_t *inputs = node->inputs;
  source->workspace = NONE;
  if (is_sent(state, node)) return add_value_access(state, inputs[0], false, false);
  if (is_received(state, node)) return add_value_access(state, node->first_output, true, false);
  bool rewrites = false;
  for (uint32_t k = 0; k < node->output_count; k++)
    rewrites |= node->operation && node->operation->overwrites[k];
  for (uint32_t k = 0; k < node->input_count; k++)
    if (inputs[k]) TDM_TRY(add_value_access(state, inputs[k], false, rewrites));
  for (uint32_t k = 0; k < node->output_count; k++)
    TDM_TRY(add_value_access(state, node->first_output + k, true, rewrites));
  if (!node->prepared || node->prepared->answer.workspace_bytes == 0) return TDM_OK;
  const tdm_storage_plan workspace = {.kind = TDM_STORAGE_ARENA,
                                      .arena = arena_of(state, node->device),
                                      .bytes = node->prepared->answer.workspace_bytes};
  TDM_TRY(add_storage(&state->out->schedule, workspace, &source->workspace));
  return add_access(&state->out->schedule,
                    (tdm_access){source->workspace, true, 0, workspace.bytes});
}

static tdm_status add_step(steps_state *state, const tdm_ir_node *node) {
  tdm_lowered *out = state->out;
  tdm_schedule *schedule = &out->schedule;
  tdm_queue *queue = queue_of(state, node);
  if (!queue) return tdm_fail(TDM_INTERNAL, "%s: a copy without a route", node->name);
  tdm_step step = {.phase = node->role == TDM_ROLE_UPDATE ? TDM_PHASE_UPDATE : TDM_PHASE_MAIN,
                   .refresh = node->role == TDM_ROLE_REFRESH,
                   .first_access = (uint32_t)schedule->access_count};
  TDM_TRY(number_queue(state, queue, &step.queue));
  tdm_step_source *source = &out->sources[schedule->step_count];
  source->node = node->index;
  TDM_TRY(add_accesses(state, node, source));
  step.access_count = (uint32_t)schedule->access_count - step.first_access;
  if (step.phase == TDM_PHASE_UPDATE && out->first_update == NONE)
    out->first_update = (uint32_t)schedule->step_count;
  schedule->steps[schedule->step_count++] = step;
  return TDM_OK;
}

/* Allocates an empty array; its items are written before they are read. */
static tdm_status reserve(const tdm_schedule *schedule, void **items, size_t *capacity,
                          size_t count, size_t item_bytes) {
  *items = tdm_allocate_room(schedule->allocator, count * item_bytes, "plan");
  if (*items) *capacity = count;
  return *items ? TDM_OK : TDM_OUT_OF_MEMORY;
}

static tdm_status add_steps(steps_state *state) {
  const tdm_graph *graph = state->graph;
  tdm_schedule *schedule = &state->out->schedule;
  TDM_TRY(reserve(schedule, (void **)&schedule->steps, &schedule->step_capacity,
                  graph->order.count + 1, sizeof *schedule->steps));
  TDM_TRY(reserve(schedule, (void **)&schedule->accesses, &schedule->access_capacity,
                  3 * graph->values.count, sizeof *schedule->accesses));
  TDM_TRY(reserve(schedule, (void **)&schedule->storages, &schedule->storage_capacity,
                  graph->values.count, sizeof *schedule->storages));
  const size_t delivered = tdm_ir_delivery_count(graph);
  for (size_t i = 0; i < delivered; i++) {
    const uint32_t root = tdm_ir_value_at(graph, tdm_ir_delivery(graph, state->rank, i))->root;
    const tdm_storage_plan storage = {.kind = TDM_STORAGE_EXTERNAL,
                                      .bytes = tdm_ir_value_at(graph, root)->bytes};
    TDM_TRY(add_root(state, root, storage));
  }
  TDM_EACH_NODE(graph, node) {
    const bool here = tdm_rank_of(graph, node->device) == state->rank || is_sent(state, node);
    if (here && tdm_ir_has_step(node)) TDM_TRY(add_step(state, node));
  }
  if (state->out->first_update == NONE) state->out->first_update = (uint32_t)schedule->step_count;
  schedule->two_phase =
      schedule->queue_count > 1 && state->out->first_update < schedule->step_count;
  return TDM_OK;
}

static tdm_status fill_lowered(steps_state *state) {
  tdm_lowered *out = state->out;
  const tdm_allocator *allocator = out->schedule.allocator;
  out->source_count = state->graph->order.count;
  out->value_count = state->graph->values.count;
  out->first_update = NONE;
  out->sources = tdm_allocate(allocator, (out->source_count + 1) * sizeof *out->sources, "plan");
  out->storage_of = tdm_allocate(allocator, out->value_count * sizeof(uint32_t), "plan");
  if (!out->sources || !out->storage_of) return TDM_OUT_OF_MEMORY;
  memset(out->storage_of, 0xff, out->value_count * sizeof(uint32_t));
  return add_steps(state);
}

tdm_status tdm_lower_to_steps(const tdm_graph *graph, int rank, uint32_t depth,
                              tdm_lowered *out_lowered) {
  memset(out_lowered, 0, sizeof *out_lowered);
  tdm_schedule_init(&out_lowered->schedule, graph->allocator);
  out_lowered->schedule.depth = depth;
  const size_t queue_count = tdm_context_queue_count(graph->context);
  const size_t numbers = queue_count + tdm_device_count(graph->context);
  steps_state state = {.graph = graph, .rank = rank, .out = out_lowered};
  state.queue_numbers = tdm_allocate(graph->allocator, numbers * sizeof(uint32_t), "plan");
  if (!state.queue_numbers) return TDM_OUT_OF_MEMORY;
  memset(state.queue_numbers, 0xff, numbers * sizeof(uint32_t));
  state.arena_numbers = state.queue_numbers + queue_count;
  const tdm_status status = fill_lowered(&state);
  tdm_release(graph->allocator, state.queue_numbers, numbers * sizeof(uint32_t));
  return status;
}
