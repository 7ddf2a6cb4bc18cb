/* Ranks of a job, in virtual time: each has its own steps, queues and times, and waits for the
 * others in three ways:
 *
 *   message      its bytes flow on the sender's queue, and the receiving task ends after that; a
 *                direct exchange between devices begins when both have reached it
 *   all-reduce   begins when all ranks have reached it, and ends for all at once
 *   vote         between the phases: the same, for all tasks of the ranks
 *
 * Invariant: every rank simulates all ranks with the same numbers, so all get the same result. The
 * time of a step is given by the rank that executes it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "devices/network/network.h"
#include "graph/forecast/forecast.h"
#include "graph/passes/device_sums.h"

#define NONE TDM_VIRTUAL_NONE

static void *take(tdm_forecasting *state, size_t count, size_t bytes) {
  return tdm_region_take(&state->region, (count + 1) * bytes, "forecast");
}

static tdm_context *context_of(const tdm_forecasting *state) {
  return state->plan->graph.context;
}

/* ---- The ranks' steps and their times -------------------------------------------------------- */

tdm_status tdm_job_find(tdm_forecasting *state) {
  const tdm_plan *plan = state->plan;
  const uint32_t ranks = (uint32_t)tdm_context_rank_count(context_of(state));
  state->ranks = take(state, ranks, sizeof *state->ranks);
  state->lowered = take(state, ranks, sizeof *state->lowered);
  if (!state->ranks || !state->lowered) return TDM_OUT_OF_MEMORY;
  state->rank_count = ranks;
  for (uint32_t r = 0; r < ranks; r++) {
    const bool own = (int)r == tdm_context_rank(context_of(state));
    if (!own) TDM_TRY(tdm_plan_lower_rank(plan, (int)r, &state->lowered[r]));
    state->ranks[r].lowered = own ? &plan->lowered : &state->lowered[r];
  }
  return TDM_OK;
}

/* A rank's plan and kernels, sent to the others. */
typedef struct rank_word {
  uint64_t digest;
  uint32_t measured_kernels;
  uint32_t modelled_kernels;
} rank_word;

/* Checks that all ranks forecast the same plan; otherwise all fail. Counts the kernels of all
 * ranks. */
static tdm_status compare_plans(tdm_forecasting *state, rank_word *words) {
  const rank_word own = {state->plan->digest, state->measured_kernels, state->modelled_kernels};
  TDM_TRY(tdm_network_gather(tdm_context_network(context_of(state)), &own, sizeof own, words));
  state->measured_kernels = state->modelled_kernels = 0;
  for (uint32_t r = 0; r < state->rank_count; r++) {
    state->measured_kernels += words[r].measured_kernels;
    state->modelled_kernels += words[r].modelled_kernels;
    if (words[r].digest != words[0].digest)
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "forecast: the latest plan of rank %u is another than that of rank 0: all "
                      "ranks run the same",
                      r);
  }
  return TDM_OK;
}

tdm_status tdm_job_tell_prices(tdm_forecasting *state, tdm_status priced) {
  tdm_network *network = tdm_context_network(context_of(state));
  rank_word *words = NULL;
  if (priced == TDM_OK) words = take(state, state->rank_count, sizeof *words);
  if (priced == TDM_OK && !words) priced = TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_network_agree(network, priced));
  TDM_TRY(compare_plans(state, words));
  for (uint32_t r = 0; r < state->rank_count; r++) {
    const tdm_forecast_rank *rank = &state->ranks[r];
    const size_t bytes = rank->lowered->schedule.step_count * sizeof(double);
    if (bytes == 0) continue;
    TDM_TRY(tdm_network_pass(network, (int)r, -1, rank->step_ns, bytes));
    TDM_TRY(tdm_network_pass(network, (int)r, -1, rank->crowded, bytes));
  }
  return TDM_OK;
}

uint32_t tdm_job_host(const tdm_forecasting *state, uint32_t rank) {
  const tdm_network *network = tdm_context_network(context_of(state));
  const char *host = tdm_network_host(network, (int)rank);
  uint32_t first = 0;
  while (strcmp(tdm_network_host(network, (int)first), host) != 0)
    first++;
  return first;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Returns the rate of the link between the hosts of two ranks; INFINITY: no limit. */
static double rate_between(const tdm_forecasting *state, uint32_t from, uint32_t to) {
  tdm_link_estimate link;
  tdm_context_link(context_of(state), tdm_context_host_of(context_of(state), (int)from),
                   tdm_context_host_of(context_of(state), (int)to), false, &link);
  return link.link.bytes_per_ns > 0 ? link.link.bytes_per_ns : INFINITY;
}

/* Returns the combined rate of both directions; INFINITY: no limit, or the directions are
 * independent. */
static double both_ways_between(const tdm_forecasting *state, uint32_t a, uint32_t b) {
  tdm_link_estimate link;
  tdm_context_link(context_of(state), tdm_context_host_of(context_of(state), (int)a),
                   tdm_context_host_of(context_of(state), (int)b), false, &link);
  return link.both_ways > 1 ? 2 * rate_between(state, a, b) / link.both_ways : INFINITY;
}

/* Returns the rate of the widest link from the ranks of a host to those of others. */
static double widest_of(const tdm_forecasting *state, uint32_t host,
                        double (*rate_of)(const tdm_forecasting *, uint32_t, uint32_t)) {
  double widest = 0;
  for (uint32_t a = 0; a < state->rank_count; a++)
    for (uint32_t b = 0; b < state->rank_count; b++)
      if (tdm_job_host(state, a) == host && tdm_job_host(state, b) != host)
        widest = fmax(widest, rate_of(state, a, b));
  return widest;
}

/* Adds a link of that many bytes per ns to the task. All tasks at the same place share it. No link
 * is added if the rate is unlimited. */
static tdm_status flow_over(tdm_forecasting *state, double rate, uint32_t *link, const char *name,
                            tdm_virtual_task *task) {
  if (isinf(rate) && *link == NONE) return TDM_OK;
  if (*link == NONE) {
    TDM_TRY(tdm_virtual_add_link(&state->schedule, rate, link));
    (void)snprintf(state->link_names[*link], sizeof *state->link_names, "%s", name);
  }
  task->hops[task->hop_count++] = *link;
  return TDM_OK;
}

/* Everything that leaves or enters a host passes through a port as wide as the widest of its links.
 * Both directions together pass through a link with the combined rate. The port is named after the
 * first rank on the host. */
static tdm_status flow_through(tdm_forecasting *state, uint32_t host, bool receives,
                               tdm_virtual_task *task) {
  char name[56];
  uint32_t *ports = &state->port_of[3 * host];
  (void)snprintf(name, sizeof name, "host:%u %s", host, receives ? "receives" : "sends");
  TDM_TRY(
      flow_over(state, widest_of(state, host, rate_between), &ports[receives ? 1 : 0], name, task));
  (void)snprintf(name, sizeof name, "host:%u both ways", host);
  return flow_over(state, widest_of(state, host, both_ways_between), &ports[2], name, task);
}

static tdm_status find_pair(tdm_forecasting *state, const tdm_device *from, const tdm_device *to,
                            uint32_t *out_link) {
  const size_t devices = tdm_device_count(context_of(state));
  uint32_t *link =
      &state->pair_link_of[(size_t)from->context_index * devices + (size_t)to->context_index];
  if (*link == NONE) {
    TDM_TRY(tdm_virtual_add_link(
        &state->schedule, rate_between(state, (uint32_t)from->rank, (uint32_t)to->rank), link));
    (void)snprintf(state->link_names[*link], sizeof *state->link_names, "host:%d -> host:%d",
                   from->rank, to->rank);
  }
  *out_link = *link;
  return TDM_OK;
}

/* Messages in both directions between two ranks share the link's combined rate. */
static tdm_status flow_both_ways(tdm_forecasting *state, uint32_t from, uint32_t to,
                                 tdm_virtual_task *task) {
  char name[56];
  const uint32_t low = from < to ? from : to, high = from < to ? to : from;
  (void)snprintf(name, sizeof name, "host:%u <-> host:%u", low, high);
  return flow_over(state, both_ways_between(state, low, high),
                   &state->both_ways_of[(size_t)low * state->rank_count + high], name, task);
}

/* A message takes ns if nothing else flows. Time that its bytes do not need is latency. If it takes
 * less than by the link's rate, it flows as fewer bytes. */
tdm_status tdm_job_send(tdm_forecasting *state, const tdm_ir_node *node, double ns,
                        tdm_virtual_task *task) {
  const tdm_graph *graph = &state->plan->graph;
  const tdm_device *from =
      tdm_context_device(graph->context, (size_t)tdm_ir_value_at(graph, node->inputs[0])->device);
  const tdm_device *to = tdm_context_device(graph->context, (size_t)node->device);
  const double rate = rate_between(state, (uint32_t)from->rank, (uint32_t)to->rank);
  task->carried = task->work;
  task->work = fmin(task->work, ns * rate);
  task->latency_ns = ns - task->work / rate;
  TDM_TRY(find_pair(state, from, to, &task->hops[task->hop_count++]));
  TDM_TRY(flow_both_ways(state, (uint32_t)from->rank, (uint32_t)to->rank, task));
  const uint32_t sender = tdm_job_host(state, (uint32_t)from->rank);
  const uint32_t receiver = tdm_job_host(state, (uint32_t)to->rank);
  if (state->rank_count == 2 || sender == receiver) return TDM_OK;
  TDM_TRY(flow_through(state, sender, false, task));
  return flow_through(state, receiver, true, task);
}

/* Adds the dependencies of received messages. sent: per node, the task that sends its input. */
static tdm_status join_messages(tdm_forecasting *state, const uint32_t *sent) {
  const tdm_graph *graph = &state->plan->graph;
  for (uint32_t r = 0; r < state->rank_count; r++) {
    const tdm_forecast_rank *rank = &state->ranks[r];
    for (size_t i = 0; i < rank->lowered->schedule.step_count; i++) {
      const tdm_ir_node *node = tdm_forecast_node(state, r, i);
      if (!tdm_ir_is_message(graph, node) || tdm_rank_of(graph, node->device) != (int)r) continue;
      if (sent[node->index] == NONE)
        return tdm_fail(TDM_INTERNAL, "forecast: %s is received and not sent", node->name);
      TDM_TRY(tdm_virtual_add_wait(&state->schedule, rank->task_of[i], sent[node->index]));
      if (tdm_ir_is_exchange(graph, node))
        TDM_TRY(tdm_virtual_add_wait(&state->schedule, sent[node->index], rank->task_of[i] - 1));
    }
  }
  return TDM_OK;
}

static tdm_status find_sent(tdm_forecasting *state, uint32_t **out_sent) {
  const tdm_graph *graph = &state->plan->graph;
  uint32_t *sent = take(state, graph->nodes.count, sizeof *sent);
  if (!sent) return TDM_OUT_OF_MEMORY;
  memset(sent, 0xff, (graph->nodes.count + 1) * sizeof *sent);
  for (uint32_t r = 0; r < state->rank_count; r++) {
    const tdm_forecast_rank *rank = &state->ranks[r];
    for (size_t i = 0; i < rank->lowered->schedule.step_count; i++) {
      const tdm_ir_node *node = tdm_forecast_node(state, r, i);
      if (tdm_ir_is_message(graph, node) && tdm_rank_of(graph, node->device) != (int)r)
        sent[node->index] = rank->task_of[i];
    }
  }
  *out_sent = sent;
  return TDM_OK;
}

/* ---- Operations of all ranks ----------------------------------------------------------------- */

static double all_reduce_ns(const tdm_graph *graph, const tdm_ir_node *node, double bytes) {
  int16_t devices[TDM_MAX_PARTS];
  const size_t count = tdm_all_reduce_group(graph, node, devices);
  return tdm_all_reduce_of_devices_ns(graph, devices, (uint32_t)count, bytes);
}

/* Adds a meeting task between the two tasks of a rank's step: the rank reaches it with the first
 * and continues with the second. */
static tdm_status meet(tdm_forecasting *state, const tdm_forecast_rank *rank, size_t step,
                       const tdm_ir_node *node, uint32_t queue, uint32_t *meetings) {
  const tdm_all_reduce_attributes *attributes = node->attributes;
  uint32_t *meeting = &meetings[attributes->number];
  if (*meeting == NONE) {
    const double bytes = (double)tdm_ir_value_at(&state->plan->graph, node->first_output)->bytes;
    const tdm_virtual_task task = {.queue = queue,
                                   .order = (uint64_t)attributes->number,
                                   .crowded = 1,
                                   .work = all_reduce_ns(&state->plan->graph, node, bytes)};
    TDM_TRY(tdm_virtual_add(&state->schedule, &task, meeting));
  }
  const uint32_t end = rank->task_of[step];
  TDM_TRY(tdm_virtual_add_wait(&state->schedule, *meeting, end - 1));
  return tdm_virtual_add_wait(&state->schedule, end, *meeting);
}

/* In a job the network's queue always exists, so this checks whether anything is summed. */
static bool has_all_reduces(const tdm_forecasting *state) {
  if (state->is_job) return true;
  TDM_EACH_NODE(&state->plan->graph, node)
    if (tdm_ir_is_all_reduce(node)) return true;
  return false;
}

tdm_status tdm_job_join_sums(tdm_forecasting *state) {
  if (!has_all_reduces(state)) return TDM_OK;
  const size_t most = state->ranks[0].lowered->schedule.step_count; /* the same on all */
  uint32_t *meetings = take(state, most, sizeof *meetings);
  if (!meetings) return TDM_OUT_OF_MEMORY;
  memset(meetings, 0xff, (most + 1) * sizeof *meetings);
  uint32_t queue;
  TDM_TRY(tdm_virtual_add_queue(&state->schedule, NONE, &queue));
  (void)snprintf(state->queue_names[queue], sizeof *state->queue_names, "%s",
                 state->is_job ? "all ranks" : "all devices");
  for (uint32_t r = 0; r < state->rank_count; r++) {
    const tdm_forecast_rank *rank = &state->ranks[r];
    for (size_t i = 0; i < rank->lowered->schedule.step_count; i++) {
      const tdm_ir_node *node = tdm_forecast_node(state, r, i);
      if (tdm_ir_is_all_reduce(node)) TDM_TRY(meet(state, rank, i, node, queue, meetings));
    }
  }
  return TDM_OK;
}

tdm_status tdm_job_join(tdm_forecasting *state) {
  uint32_t *sent;
  TDM_TRY(find_sent(state, &sent));
  TDM_TRY(join_messages(state, sent));
  return tdm_job_join_sums(state);
}

double tdm_job_vote_ns(const tdm_forecasting *state) {
  return tdm_all_reduce_of_ranks_ns(&state->plan->graph, 0);
}
