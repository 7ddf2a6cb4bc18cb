/* The last pass: converts a verified schedule to one program of commands for each queue.
 * Invariant: each step has one command, after its waits. An operand is a base and an offset; a run
 * only fills the table of bases. */
#include <assert.h>
#include <string.h>

#include "devices/groups/groups.h"
#include "graph/ir/rewriter.h"
#include "graph/passes/device_sums.h"
#include "graph/plan/plan.h"

#define NONE UINT32_MAX

typedef struct emit_state {
  tdm_plan *plan;
  const tdm_schedule *schedule;
  uint32_t *program_of;    /* per (part, queue): program index, NONE if empty */
  bool *early;             /* per step: may be submitted before the previous run ends */
  uint32_t *position_of;   /* per step: its command's position in its program */
  uint32_t *step_of;       /* per value: the step that produces it, or NONE */
  tdm_operand *operand_of; /* per storage */
  bool *waited;            /* per step: another step waits for it */
  tdm_group *exchange;     /* devices that send to each other directly; NULL: none */
  uint32_t *order_of;      /* per node: its position among the operations of groups */
} emit_state;

static void *take(tdm_plan *plan, size_t bytes) {
  return tdm_region_take(&plan->region, bytes ? bytes : 1, "plan");
}

static void *take_room(tdm_plan *plan, size_t bytes) {
  return tdm_region_take_room(&plan->region, bytes ? bytes : 1, "plan");
}

/* The parts of a run, in the order of their submission. */
enum { PART_EARLY, PART_MAIN, PART_UPDATE, PARTS };

static uint32_t *slot_of(emit_state *state, uint32_t index) {
  const tdm_schedule *schedule = state->schedule;
  const tdm_step *step = &schedule->steps[index];
  uint32_t part = state->early[index] ? PART_EARLY : PART_MAIN;
  if (schedule->two_phase && step->phase == TDM_PHASE_UPDATE) part = PART_UPDATE;
  return &state->program_of[part * schedule->queue_count + step->queue];
}

/* Returns true if the step shares no memory with other runs and waits only for such steps. */
static bool is_own(const emit_state *state, const tdm_step *step) {
  const tdm_schedule *schedule = state->schedule;
  for (uint32_t k = 0; k < step->access_count; k++) {
    const uint32_t storage = schedule->accesses[step->first_access + k].storage;
    if (schedule->storages[storage].kind == TDM_STORAGE_PERSISTENT) return false;
  }
  for (uint32_t k = 0; k < step->wait_count; k++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
    if (wait->previous || !state->early[wait->step]) return false;
  }
  return true;
}

/* Marks the copies that queues without updates begin with, as far as they are the run's own.
 * Kernels are never early, because the values of tdm_run_scalars that they read are not known
 * yet. */
static tdm_status find_early(emit_state *state) {
  const tdm_schedule *schedule = state->schedule;
  if (!state->plan->chained) return TDM_OK;
  bool *over = take(state->plan, schedule->queue_count * sizeof *over);
  if (!over) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < schedule->step_count; i++)
    if (schedule->steps[i].phase == TDM_PHASE_UPDATE) over[schedule->steps[i].queue] = true;
  for (size_t i = 0; i < schedule->step_count; i++) {
    const tdm_step *step = &schedule->steps[i];
    const tdm_ir_node *node =
        tdm_ir_node_at(&state->plan->graph, state->plan->lowered.sources[i].node);
    /* Messages keep their order, which is that of the other ranks too. */
    over[step->queue] |=
        node->operation || tdm_ir_is_message(&state->plan->graph, node) || !is_own(state, step);
    state->early[i] = !over[step->queue];
  }
  return TDM_OK;
}

static bool needs_gate(const emit_state *state, size_t step) {
  return !state->schedule->two_phase && step == state->plan->lowered.first_update;
}

/* Returns the program of the main phase that ends with the ranks' vote, or NONE. */
static uint32_t voting_program(const tdm_plan *plan, uint32_t end) {
  for (uint32_t p = plan->early_program_count; p < end; p++)
    if (plan->programs[p].queue->role >= TDM_QUEUE_OWN_ROLES) return p;
  return NONE;
}

/* Adds a program for the vote if devices exchange all bytes directly. */
static void give_voice(const emit_state *state) {
  tdm_plan *plan = state->plan;
  tdm_context *context = plan->graph.context;
  if (voting_program(plan, plan->program_count) != NONE) return;
  plan->programs[plan->program_count++] = (tdm_program){
      .queue = tdm_context_host_of(context, tdm_context_rank(context))->queues[TDM_QUEUE_SEND]};
}

/* Numbers the programs, counts their commands, and sets the position of each command. */
static tdm_status size_programs(emit_state *state) {
  const tdm_schedule *schedule = state->schedule;
  tdm_plan *plan = state->plan;
  const uint32_t queues = schedule->queue_count, slots = PARTS * queues;
  assert(queues > 0);
  uint32_t *counts = take(plan, slots * sizeof *counts);
  plan->programs = take(plan, (slots + 1) * sizeof *plan->programs);
  if (!counts || !plan->programs) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < schedule->step_count; i++) {
    const tdm_step *step = &schedule->steps[i];
    uint32_t *count = &counts[slot_of(state, (uint32_t)i) - state->program_of];
    *count += step->wait_count + needs_gate(state, i);
    state->position_of[i] = (*count)++;
    for (uint32_t k = 0; k < step->wait_count; k++)
      state->waited[schedule->waits[step->first_wait + k].step] = true;
  }
  for (uint32_t s = 0; s < slots; s++) {
    state->program_of[s] = NONE;
    if (s == PART_MAIN * queues) plan->early_program_count = plan->program_count;
    if (s == PART_UPDATE * queues) {
      if (state->exchange) give_voice(state);
      plan->main_program_count = plan->program_count;
    }
    if (counts[s] == 0) continue;
    tdm_program *program = &plan->programs[plan->program_count];
    program->queue = plan->lowered.queues[s % queues];
    program->commands = take_room(plan, counts[s] * sizeof *program->commands);
    if (!program->commands) return TDM_OUT_OF_MEMORY;
    state->program_of[s] = plan->program_count++;
  }
  if (plan->early_program_count == plan->main_program_count) plan->early_program_count = 0;
  return TDM_OK;
}

static void lay_out_bases(tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  tdm_base_layout *layout = &plan->layout;
  layout->arenas = 0;
  layout->inputs = plan->lowered.schedule.arena_count;
  layout->deliveries = layout->inputs + (uint32_t)graph->inputs.count;
  layout->persistents = layout->deliveries + (uint32_t)plan->delivery_count;
  layout->deriveds = layout->persistents + (uint32_t)graph->persistents.count;
  layout->logs = layout->deriveds + (uint32_t)graph->planned->deriveds.count;
  layout->count = layout->logs + (uint32_t)graph->planned->logs.count;
}

/* Gives the memory of a value, if the plan uses it, a base of its own. */
static void set_base(emit_state *state, uint32_t value, size_t base) {
  const uint32_t storage = state->plan->lowered.storage_of[value];
  if (storage != NONE) state->operand_of[storage] = (tdm_operand){(uint32_t)base, 0};
}

/* Sets base and offset of each storage: arenas by the memory pass, others by owner. */
static void find_operands(emit_state *state) {
  const tdm_plan *plan = state->plan;
  const tdm_graph *graph = &plan->graph;
  const tdm_schedule *schedule = state->schedule;
  for (size_t i = 0; i < schedule->storage_count; i++)
    state->operand_of[i] = (tdm_operand){schedule->storages[i].arena, schedule->storages[i].offset};
  for (size_t i = 0; i < graph->inputs.count; i++)
    set_base(state, graph->inputs.items[i], plan->layout.inputs + i);
  for (size_t i = 0; i < graph->persistents.count; i++)
    set_base(state, graph->persistents.items[i].value, plan->layout.persistents + i);
  for (size_t i = 0; i < graph->planned->deriveds.count; i++)
    set_base(state, graph->planned->deriveds.items[i].value, plan->layout.deriveds + i);
  for (size_t i = 0; i < graph->planned->logs.count; i++)
    set_base(state, graph->planned->logs.items[i].value, plan->layout.logs + i);
  for (size_t i = 0; i < plan->delivery_count; i++)
    set_base(state, tdm_ir_value_at(graph, tdm_plan_delivery(plan, i))->root,
             plan->layout.deliveries + i);
}

static tdm_operand operand_for(const emit_state *state, uint32_t value) {
  if (!value) return (tdm_operand){TDM_OPERAND_ABSENT, 0};
  tdm_operand operand = state->operand_of[state->plan->lowered.storage_of[value]];
  operand.offset += tdm_ir_value_at(&state->plan->graph, value)->offset;
  return operand;
}

/* Returns the number of steps that produced a value, and writes them unless steps is NULL. For a
 * view these are its source's, for a joined concatenation those of all parts. */
static uint32_t steps_behind(const emit_state *state, uint32_t value, uint32_t *steps) {
  const tdm_graph *graph = &state->plan->graph;
  const tdm_ir_node *node = tdm_producer(graph, value);
  for (; state->step_of[value] == NONE && node && !node->joined; node = tdm_producer(graph, value))
    value = node->inputs[0];
  if (state->step_of[value] != NONE) {
    if (steps) *steps = state->step_of[value];
    return 1;
  }
  uint32_t count = 0;
  for (uint32_t k = 0; node && k < node->input_count; k++)
    count += steps_behind(state, node->inputs[k], steps ? steps + count : NULL);
  return count;
}

/* Lists the steps whose failure makes this step's result invalid. */
static tdm_status emit_dependencies(emit_state *state, const tdm_ir_node *node,
                                    tdm_command *command) {
  const uint32_t *inputs = node->inputs;
  uint32_t count = 0;
  for (uint32_t k = 0; k < node->input_count; k++)
    count += steps_behind(state, inputs[k], NULL);
  uint32_t *dependencies = take(state->plan, count * sizeof *dependencies);
  if (!dependencies) return TDM_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < node->input_count; k++)
    command->dependency_count +=
        steps_behind(state, inputs[k], dependencies + command->dependency_count);
  command->dependencies = dependencies;
  return TDM_OK;
}

static tdm_status emit_execute(emit_state *state, const tdm_ir_node *node,
                               const tdm_step_source *source, tdm_command *command) {
  const tdm_prepared *prepared = node->prepared;
  const uint32_t *inputs = node->inputs;
  tdm_operand *operands =
      take(state->plan, (size_t)(node->input_count + node->output_count) * sizeof *operands);
  if (!operands) return TDM_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < node->input_count; k++)
    operands[k] = operand_for(state, inputs[k]);
  for (uint32_t k = 0; k < node->output_count; k++)
    operands[node->input_count + k] = operand_for(state, node->first_output + k);
  command->kind = TDM_COMMAND_EXECUTE;
  command->execute = (tdm_execute){
      .kernel = prepared->kernel,
      .attributes = node->attributes,
      .state = prepared->answer.state,
      .specs = prepared->specs,
      .operands = operands,
      .input_count = node->input_count,
      .output_count = node->output_count,
      .scalars = node->update_group,
      .is_empty = tdm_outputs_are_empty(prepared->specs + node->input_count, node->output_count),
      .workspace = {TDM_OPERAND_ABSENT, 0}};
  if (source->workspace == NONE) return TDM_OK;
  command->execute.workspace = state->operand_of[source->workspace];
  command->execute.workspace_bytes = prepared->answer.workspace_bytes;
  return TDM_OK;
}

static void emit_copy(const emit_state *state, const tdm_ir_node *node, tdm_command *command) {
  const tdm_graph *graph = &state->plan->graph;
  const uint32_t from = node->inputs[0];
  const tdm_ir_value *to = tdm_ir_value_at(graph, node->first_output);
  const int16_t from_device = tdm_ir_value_at(graph, from)->device;
  command->kind = TDM_COMMAND_COPY;
  command->copy = (tdm_copy){.from_device = tdm_context_device(graph->context, (size_t)from_device),
                             .to_device = tdm_context_device(graph->context, (size_t)node->device),
                             .from = operand_for(state, from),
                             .to = operand_for(state, node->first_output),
                             .bytes = to->bytes};
}

static uint32_t member_of(const tdm_group *group, int16_t device) {
  uint32_t member = 0;
  while (group->devices[member]->context_index != device)
    member++;
  return member;
}

/* Emits this rank's end of a direct transfer between devices. */
static void emit_exchange(const emit_state *state, const tdm_ir_node *node, tdm_command *command) {
  tdm_plan *plan = state->plan;
  const int16_t from = tdm_ir_value_at(&plan->graph, node->inputs[0])->device;
  const bool sends = command->kind == TDM_COMMAND_SEND;
  tdm_message *message = &command->message;
  message->group = state->exchange;
  message->peer = member_of(state->exchange, sends ? from : node->device);
  message->partner = member_of(state->exchange, sends ? node->device : from);
  message->order = state->order_of[node->index];
  if (node->condition && !tdm_plan_is_usual(plan, node)) return;
  plan->network.exchanges++;
  plan->network.exchanged_bytes += message->bytes;
}

/* Emits this rank's end of a message. */
static void emit_message(const emit_state *state, const tdm_ir_node *node, tdm_command *command) {
  tdm_plan *plan = state->plan;
  const tdm_graph *graph = &plan->graph;
  const int from = tdm_rank_of(graph, tdm_ir_value_at(graph, node->inputs[0])->device);
  const int to = tdm_rank_of(graph, node->device);
  const bool sends = from == tdm_context_rank(graph->context);
  const uint64_t bytes = tdm_ir_value_at(graph, node->first_output)->bytes;
  command->kind = sends ? TDM_COMMAND_SEND : TDM_COMMAND_RECEIVE;
  command->message =
      (tdm_message){.plan = plan->digest,
                    .number = node->index,
                    .peer = (uint32_t)(sends ? to : from),
                    .at = operand_for(state, sends ? node->inputs[0] : node->first_output),
                    .bytes = bytes};
  if (tdm_ir_is_exchange(graph, node)) {
    emit_exchange(state, node, command);
    return;
  }
  if (node->condition && !tdm_plan_is_usual(plan, node)) return;
  *(sends ? &plan->network.sent_messages : &plan->network.received_messages) += 1;
  *(sends ? &plan->network.sent_bytes : &plan->network.received_bytes) += bytes;
}

static tdm_status note_group(tdm_plan *plan, tdm_group *group) {
  for (size_t i = 0; i < plan->group_count; i++)
    if (plan->groups[i] == group) return TDM_OK;
  tdm_group **groups = take(plan, (plan->group_count + 1) * sizeof *groups);
  if (!groups) return TDM_OUT_OF_MEMORY;
  if (plan->group_count > 0) memcpy(groups, plan->groups, plan->group_count * sizeof *groups);
  groups[plan->group_count++] = group;
  plan->groups = groups;
  return TDM_OK;
}

/* Returns the group of devices that compute a sum, or NULL if hosts compute it. */
static tdm_status find_group(const tdm_plan *plan, const tdm_ir_node *node, tdm_group **out_group) {
  int16_t devices[TDM_MAX_PARTS];
  const size_t count = tdm_all_reduce_group(&plan->graph, node, devices);
  *out_group = count == 0 ? NULL : tdm_group_find(plan->graph.context, devices, count);
  return count > 0 && !*out_group ? TDM_OUT_OF_MEMORY : TDM_OK;
}

/* Finds the group of all devices that send to or receive from devices of other ranks. */
static tdm_status find_exchange(emit_state *state) {
  tdm_plan *plan = state->plan;
  int16_t *devices = take(plan, tdm_device_count(plan->graph.context) * sizeof *devices);
  if (!devices) return TDM_OUT_OF_MEMORY;
  const size_t count = tdm_exchange_group(&plan->graph, devices);
  if (count == 0) return TDM_OK;
  state->exchange = tdm_group_find(plan->graph.context, devices, count);
  return state->exchange ? note_group(plan, state->exchange) : TDM_OUT_OF_MEMORY;
}

/* Numbers the group operations of all ranks, so that all join groups in the same order. The nodes
 * of one sum are adjacent and have one number. */
static tdm_status list_groups(emit_state *state) {
  tdm_plan *plan = state->plan;
  int64_t number = -1;
  uint32_t order = 0;
  TDM_EACH_NODE(&plan->graph, node) {
    tdm_group *group = NULL;
    const bool sums = tdm_ir_is_all_reduce(node);
    const tdm_all_reduce_attributes *attributes = node->attributes;
    if (sums) TDM_TRY(find_group(plan, node, &group));
    if (group) TDM_TRY(note_group(plan, group));
    if (sums ? attributes->number != number : tdm_ir_is_exchange(&plan->graph, node)) order++;
    if (sums) number = attributes->number;
    state->order_of[node->index] = order;
  }
  return TDM_OK;
}

/* Emits this rank's part of a sum over all ranks. */
static tdm_status emit_all_reduce(const emit_state *state, const tdm_ir_node *node,
                                  tdm_command *command) {
  tdm_plan *plan = state->plan;
  const tdm_all_reduce_attributes *attributes = node->attributes;
  const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, node->first_output);
  command->kind = TDM_COMMAND_ALL_REDUCE;
  command->message = (tdm_message){.plan = plan->digest,
                                   .number = (uint32_t)attributes->number,
                                   .dtype = value->spec->dtype,
                                   .at = operand_for(state, node->first_output),
                                   .bytes = value->bytes};
  tdm_group *group;
  TDM_TRY(find_group(plan, node, &group));
  command->message.group = group;
  if (group) command->message.peer = member_of(group, node->device);
  command->message.order = state->order_of[node->index];
  const bool on_device = group != NULL;
  *(on_device ? &plan->network.device_sums : &plan->network.reduced_sums) += 1;
  *(on_device ? &plan->network.device_bytes : &plan->network.reduced_bytes) += value->bytes;
  return TDM_OK;
}

static void emit_waits(emit_state *state, size_t index, tdm_program *program) {
  const tdm_step *step = &state->schedule->steps[index];
  for (uint32_t k = 0; k < step->wait_count; k++) {
    const tdm_step_wait *wait = &state->schedule->waits[step->first_wait + k];
    program->commands[program->count++] =
        (tdm_command){.kind = TDM_COMMAND_WAIT,
                      .id = (uint32_t)index, /* id of the command that follows the wait */
                      .wait = {.program = *slot_of(state, wait->step),
                               .position = state->position_of[wait->step],
                               .previous = wait->previous}};
  }
  if (needs_gate(state, index))
    program->commands[program->count++] = (tdm_command){.kind = TDM_COMMAND_GATE};
}

static tdm_status emit_step(emit_state *state, size_t index) {
  tdm_plan *plan = state->plan;
  const int own = tdm_context_rank(plan->graph.context);
  const tdm_step_source *source = &plan->lowered.sources[index];
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, source->node);
  tdm_program *program = &plan->programs[*slot_of(state, (uint32_t)index)];
  emit_waits(state, index, program);
  tdm_command *command = &program->commands[program->count++];
  *command = (tdm_command){.id = (uint32_t)index,
                           .name = node->name,
                           .signals = state->waited[index],
                           .condition = node->condition};
  const bool received = !node->operation && tdm_rank_of(&plan->graph, node->device) == own &&
                        tdm_ir_is_message(&plan->graph, node);
  if (!received) TDM_TRY(emit_dependencies(state, node, command));
  for (uint32_t k = 0; k < node->output_count; k++)
    state->step_of[node->first_output + k] = (uint32_t)index;
  if (!node->operation) {
    (tdm_ir_is_message(&plan->graph, node) ? emit_message : emit_copy)(state, node, command);
    return TDM_OK;
  }
  if (tdm_ir_is_all_reduce(node)) return emit_all_reduce(state, node, command);
  if (tdm_ir_is_share(node)) {
    command->kind = TDM_COMMAND_NOTHING; /* described devices execute nothing */
    return TDM_OK;
  }
  program->splits |= node->prepared->answer.splits;
  return emit_execute(state, node, source, command);
}

/* ---- The ranks' vote ------------------------------------------------------------------------- */

/* Ends the main phase with a vote, if the plan has updates or if devices exchange bytes directly,
 * because these carry no notice of failures. After all programs of this rank have finished, the
 * vote sends whether any failed. The run continues only if none failed on any rank. */
static tdm_status emit_vote(emit_state *state) {
  tdm_plan *plan = state->plan;
  if (tdm_context_rank_count(plan->graph.context) == 1) return TDM_OK;
  if (!plan->writes_persistent && !state->exchange) return TDM_OK;
  const uint32_t voting = voting_program(plan, plan->main_program_count);
  if (voting == NONE)
    return tdm_fail(TDM_INTERNAL, "a rank that exchanges nothing cannot know of the others");
  tdm_program *program = &plan->programs[voting];
  const uint32_t count = program->count;
  tdm_command *commands = take(plan, (count + plan->main_program_count) * sizeof *commands);
  if (!commands) return TDM_OUT_OF_MEMORY;
  if (count > 0) memcpy(commands, program->commands, count * sizeof *commands);
  program->commands = commands;
  const uint32_t id = plan->command_count++;
  for (uint32_t p = 0; p < plan->main_program_count; p++) {
    if (p == voting) continue;
    commands[program->count++] =
        (tdm_command){.kind = TDM_COMMAND_WAIT,
                      .id = id,
                      .wait = {.program = p, .position = plan->programs[p].count - 1}};
  }
  commands[program->count++] =
      (tdm_command){.kind = TDM_COMMAND_VOTE, .id = id, .name = "the ranks' vote"};
  return TDM_OK;
}

static tdm_status find_arena_devices(tdm_plan *plan) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  const tdm_graph *graph = &plan->graph;
  size_t left = schedule->arena_count;
  plan->arena_devices = take(plan, schedule->arena_count * sizeof(tdm_device *));
  if (!plan->arena_devices) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < schedule->step_count && left > 0; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, plan->lowered.sources[i].node);
    const tdm_step *step = &schedule->steps[i];
    for (uint32_t k = 0; k < step->access_count; k++) {
      const tdm_access *access = &schedule->accesses[step->first_access + k];
      const tdm_storage_plan *storage = &schedule->storages[access->storage];
      if (!access->writes || storage->kind != TDM_STORAGE_ARENA) continue;
      tdm_device **device = &plan->arena_devices[storage->arena];
      left -= !*device;
      *device = tdm_context_device(graph->context, (size_t)node->device);
    }
  }
  return TDM_OK;
}

static tdm_status emit_all(emit_state *state) {
  TDM_TRY(find_early(state));
  TDM_TRY(find_exchange(state));
  TDM_TRY(size_programs(state));
  lay_out_bases(state->plan);
  find_operands(state);
  TDM_TRY(list_groups(state));
  for (size_t i = 0; i < state->schedule->step_count; i++)
    TDM_TRY(emit_step(state, i));
  state->plan->command_count = (uint32_t)state->schedule->step_count;
  TDM_TRY(emit_vote(state));
  return find_arena_devices(state->plan);
}

tdm_status tdm_pass_emit(tdm_plan *plan) {
  const tdm_schedule *schedule = &plan->lowered.schedule;
  const size_t steps = schedule->step_count + 1;
  emit_state state = {.plan = plan, .schedule = schedule};
  state.program_of = take(plan, PARTS * (size_t)schedule->queue_count * sizeof(uint32_t));
  state.position_of = take_room(plan, steps * sizeof(uint32_t));
  state.step_of = take_room(plan, plan->graph.values.count * sizeof(uint32_t));
  state.operand_of = take_room(plan, (schedule->storage_count + 1) * sizeof(tdm_operand));
  state.waited = take(plan, steps * sizeof(bool));
  state.early = take(plan, steps * sizeof(bool));
  state.order_of = take_room(plan, (plan->graph.nodes.count + 1) * sizeof(uint32_t));
  if (plan->region.failed) return TDM_OUT_OF_MEMORY;
  memset(state.step_of, 0xff, plan->graph.values.count * sizeof(uint32_t));
  return emit_all(&state);
}
