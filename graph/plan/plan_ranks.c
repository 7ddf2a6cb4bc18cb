/* Verifies the programs of all ranks of a job, on each rank. Invariant: the programs of other ranks
 * are made from the same graph by the same passes as on those ranks. */
#include <string.h>

#include "graph/passes/device_sums.h"
#include "graph/plan/plan.h"
#include "graph/schedule/verify_ranks.h"

/* Returns the number of a group: that of its first sum. */
static uint32_t group_number(const tdm_graph *graph, const int16_t *devices, size_t count) {
  TDM_EACH_NODE(graph, node) {
    int16_t others[TDM_MAX_PARTS];
    if (!tdm_ir_is_all_reduce(node) || tdm_all_reduce_group(graph, node, others) != count) continue;
    const tdm_all_reduce_attributes *attributes = node->attributes;
    if (memcmp(others, devices, count * sizeof *devices) == 0)
      return (uint32_t)attributes->number + 1;
  }
  return 0;
}

static tdm_step_message all_reduce_of(const tdm_graph *graph, const tdm_ir_node *node) {
  const tdm_all_reduce_attributes *attributes = node->attributes;
  tdm_step_message message = {.end = TDM_MESSAGE_OF_ALL,
                              .number = (uint32_t)attributes->number,
                              .bytes = tdm_ir_value_at(graph, node->first_output)->bytes};
  int16_t devices[TDM_MAX_PARTS];
  const size_t count = tdm_all_reduce_group(graph, node, devices);
  if (count == 0) return message;
  message.device = (uint32_t)node->device + 1;
  message.group = group_number(graph, devices, count);
  message.members = (uint32_t)count;
  while (devices[message.peer] != node->device)
    message.peer++;
  return message;
}

static tdm_step_message message_of(const tdm_graph *graph, const tdm_ir_node *node, int rank) {
  const int16_t source = tdm_ir_value_at(graph, node->inputs[0])->device;
  const int from = tdm_rank_of(graph, source);
  const int to = tdm_rank_of(graph, node->device);
  const bool sends = from == rank;
  tdm_step_message message = {.end = (uint8_t)(sends ? TDM_MESSAGE_SEND : TDM_MESSAGE_RECEIVE),
                              .number = node->index,
                              .peer = (uint32_t)(sends ? to : from),
                              .bytes = tdm_ir_value_at(graph, node->first_output)->bytes};
  if (!tdm_ir_is_exchange(graph, node)) return message;
  message.device = (uint32_t)(sends ? source : node->device) + 1;
  message.partner = (uint32_t)(sends ? node->device : source) + 1;
  return message;
}

/* Lists the ends of messages among a rank's steps. */
static const tdm_step_message *list_messages(const tdm_graph *graph, const tdm_lowered *lowered,
                                             int rank, tdm_region *region) {
  const size_t count = lowered->schedule.step_count;
  tdm_step_message *messages =
      tdm_region_take(region, (count + 1) * sizeof *messages, "messages of ranks");
  for (size_t i = 0; messages && i < count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(graph, lowered->sources[i].node);
    if (tdm_ir_is_all_reduce(node)) {
      messages[i] = all_reduce_of(graph, node);
      continue;
    }
    if (tdm_ir_is_message(graph, node)) messages[i] = message_of(graph, node, rank);
  }
  return messages;
}

tdm_status tdm_plan_lower_rank(const tdm_plan *plan, int rank, tdm_lowered *out_lowered) {
  TDM_TRY(tdm_lower_to_steps(&plan->graph, rank, plan->lowered.schedule.depth, out_lowered));
  return tdm_pass_schedule(&out_lowered->schedule);
}

static tdm_status verify(const tdm_plan *plan, tdm_lowered *others, tdm_rank_steps *ranks,
                         tdm_region *region) {
  const tdm_context *context = plan->graph.context;
  const int rank_count = tdm_context_rank_count(context);
  for (int rank = 0; rank < rank_count; rank++) {
    const tdm_lowered *lowered = &plan->lowered;
    if (rank != tdm_context_rank(context)) {
      TDM_TRY(tdm_plan_lower_rank(plan, rank, &others[rank]));
      lowered = &others[rank];
    }
    ranks[rank].schedule = &lowered->schedule;
    ranks[rank].messages = list_messages(&plan->graph, lowered, rank, region);
    if (!ranks[rank].messages) return TDM_OUT_OF_MEMORY;
  }
  return tdm_verify_ranks(plan->graph.allocator, ranks, (uint32_t)rank_count);
}

tdm_status tdm_plan_verify_ranks(const tdm_plan *plan) {
  const size_t count = (size_t)tdm_context_rank_count(plan->graph.context);
  tdm_region region;
  tdm_region_init(&region, plan->graph.allocator);
  tdm_lowered *others = tdm_region_take(&region, count * sizeof *others, "steps of ranks");
  tdm_rank_steps *ranks = tdm_region_take(&region, count * sizeof *ranks, "steps of ranks");
  tdm_status status = TDM_OUT_OF_MEMORY;
  if (others && ranks) status = verify(plan, others, ranks, &region);
  for (size_t r = 0; others && r < count; r++)
    tdm_lowered_deinit(&others[r]);
  tdm_region_deinit(&region);
  return status;
}
