/* Operations shared by identical ranks, in virtual time. Every simulated rank has the plan's tasks.
 * A shared operation (tdm_operation_share) begins when all ranks have reached it, and ends for all
 * at once:
 *
 *   gradients are summed by the engine's all-reduce, with a ring's bytes and a tree's latencies,
 *   several in one bucket;
 *   rows of tables go from each rank to all others.
 *
 * Invariant: ranks that are not simulated always do the same as those that are. So links carry the
 * same traffic, and the simulated ranks' links represent the others'. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/collectives/formulas.h"
#include "graph/forecast/forecast.h"
#include "graph/passes/device_sums.h"

#define NONE TDM_VIRTUAL_NONE

/* ---- Finding ranks --------------------------------------------------------------------------- */

static const tdm_ir_node *node_of(const tdm_forecasting *state, size_t step) {
  return tdm_ir_node_at(&state->plan->graph, state->plan->lowered.sources[step].node);
}

/* Returns the shared operation of a step, or NULL if it shares nothing. */
static const tdm_share_attributes *share_of(const tdm_forecasting *state, size_t step) {
  const tdm_ir_node *node = node_of(state, step);
  return tdm_ir_is_share(node) ? node->attributes : NULL;
}

static double bytes_of(const tdm_forecasting *state, size_t step) {
  return (double)tdm_ir_value_at(&state->plan->graph, node_of(state, step)->inputs[0])->bytes;
}

static void count_ranks(tdm_forecasting *state) {
  tdm_alike *alike = &state->alike;
  alike->ranks = alike->width = alike->simulated = 1;
  for (size_t i = 0; i < state->plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = node_of(state, i);
    const tdm_device *device = tdm_context_device(state->plan->graph.context, (size_t)node->device);
    if (device->described && (uint32_t)device->index >= alike->width)
      alike->width = (uint32_t)device->index + 1;
    if (share_of(state, i)) alike->ranks = (uint32_t)share_of(state, i)->ranks;
  }
}

/* Checks that ranks fill hosts, or hosts ranks, and that all of them exist. */
static tdm_status check_fit(const tdm_forecasting *state) {
  const tdm_alike *alike = &state->alike;
  const uint32_t per_host = state->machine->devices_per_host;
  const uint64_t devices = (uint64_t)state->machine->all_hosts * per_host;
  if ((uint64_t)alike->ranks * alike->width > devices)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%u ranks of %u devices: %s has %llu", alike->ranks,
                    alike->width, state->machine->title, (unsigned long long)devices);
  const bool even =
      alike->width < per_host ? per_host % alike->width == 0 : alike->width % per_host == 0;
  const uint32_t ranks_per_host = alike->width < per_host ? per_host / alike->width : 1;
  if (even && (alike->ranks <= ranks_per_host || alike->ranks % ranks_per_host == 0)) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "%u ranks of %u devices do not fill hosts of %u evenly, so that they are not "
                  "alike",
                  alike->ranks, alike->width, per_host);
}

tdm_status tdm_alike_find(tdm_forecasting *state) {
  tdm_alike *alike = &state->alike;
  count_ranks(state);
  if (alike->ranks == 1) return TDM_OK;
  TDM_TRY(check_fit(state));
  const uint32_t per_host = state->machine->devices_per_host;
  const uint32_t ranks_per_host = alike->width < per_host ? per_host / alike->width : 1;
  const bool each = state->options->each_rank;
  alike->simulated = each || alike->ranks < ranks_per_host ? alike->ranks : ranks_per_host;
  alike->machine = *state->machine;
  alike->machine.host_count = (alike->simulated * alike->width + per_host - 1) / per_host;
  state->machine = &alike->machine;
  return TDM_OK;
}

/* ---- Routes between ranks -------------------------------------------------------------------- */

static uint32_t next_of(const tdm_alike *alike, uint32_t rank) {
  return rank + 1 == alike->ranks ? 0 : rank + 1;
}

/* Returns the route between the devices of two ranks that have the same index. */
static tdm_machine_route route_of(const tdm_forecasting *state, uint32_t from, uint32_t to,
                                  size_t step) {
  const tdm_ir_node *node = node_of(state, step);
  const tdm_alike *alike = &state->alike;
  const tdm_device *device = tdm_context_device(state->plan->graph.context, (size_t)node->device);
  tdm_machine_route route;
  tdm_machine_find_route(&alike->machine, (int)(from * alike->width) + device->index,
                         (int)(to * alike->width) + device->index, &route);
  return route;
}

static tdm_status find_buckets(tdm_forecasting *state) {
  tdm_alike *alike = &state->alike;
  alike->latency_ns = 0;
  alike->bytes_per_ns = INFINITY;
  for (size_t i = 0; i < state->plan->lowered.schedule.step_count; i++) {
    if (!share_of(state, i)) continue;
    for (uint32_t r = 0; r < alike->simulated; r++) {
      const tdm_machine_route route = route_of(state, r, next_of(alike, r), i);
      alike->latency_ns = fmax(alike->latency_ns, route.latency_ns);
      alike->bytes_per_ns = fmin(alike->bytes_per_ns, route.bytes_per_ns);
    }
    if (!share_of(state, i)->gathers)
      alike->buckets[node_of(state, i)->device].left += bytes_of(state, i);
  }
  for (size_t d = 0; d < alike->device_count; d++) {
    tdm_alike_bucket *bucket = &alike->buckets[d];
    const tdm_sum_messages all = tdm_all_reduce_sends(alike->ranks, bucket->left);
    bucket->enough = bucket->left * tdm_bucket_share(all.latencies * alike->latency_ns,
                                                     all.bytes / alike->bytes_per_ns);
    bucket->first = NONE;
    bucket->meeting = NONE;
  }
  return TDM_OK;
}

tdm_status tdm_alike_begin(tdm_forecasting *state) {
  tdm_alike *alike = &state->alike;
  if (alike->ranks == 1) return TDM_OK;
  const size_t steps = state->plan->lowered.schedule.step_count;
  alike->device_count = tdm_device_count(state->plan->graph.context);
  const size_t edges = alike->device_count * alike->simulated;
  alike->buckets =
      tdm_region_take(&state->region, alike->device_count * sizeof *alike->buckets, "forecast");
  alike->next = tdm_region_take(&state->region, (steps + 1) * sizeof *alike->next, "forecast");
  alike->edges = tdm_region_take(&state->region, edges * sizeof *alike->edges, "forecast");
  if (!alike->buckets || !alike->next || !alike->edges) return TDM_OUT_OF_MEMORY;
  memset(alike->edges, 0xff, edges * sizeof *alike->edges);
  return find_buckets(state);
}

double tdm_alike_vote_ns(const tdm_forecasting *state) {
  return tdm_all_reduce_sends(state->alike.ranks, 0).latencies * state->alike.latency_ns;
}

/* ---- Shared operations ----------------------------------------------------------------------- */

/* A shared operation. When all ranks have reached it, `latest` is the task with which they end. */
typedef struct exchange {
  tdm_forecasting *state;
  size_t step;
  double bytes; /* bytes of each rank */
  bool gathers;
  uint32_t latest; /* task with which everything so far ends */
  uint32_t meeting;
  size_t device;
} exchange;

/* Finds the queue for what a simulated rank's device sends to others. */
static tdm_status edge_queue(const exchange *self, uint32_t rank, uint32_t *out_queue) {
  tdm_forecasting *state = self->state;
  uint32_t *queue = &state->alike.edges[self->device * state->alike.simulated + rank];
  if (*queue == NONE) {
    TDM_TRY(tdm_virtual_add_queue(&state->schedule, NONE, queue));
    const tdm_device *device = tdm_context_device(state->plan->graph.context, self->device);
    (void)snprintf(state->queue_names[*queue], sizeof *state->queue_names, "paper:%u network",
                   rank * state->alike.width + (uint32_t)device->index);
  }
  *out_queue = *queue;
  return TDM_OK;
}

/* Adds a rank's transfer to the next one, from the latest task to `end`. */
static tdm_status send(exchange *self, uint32_t rank, const tdm_sum_messages *sent, uint32_t end) {
  tdm_forecasting *state = self->state;
  const tdm_alike *alike = &state->alike;
  const tdm_machine_route route = route_of(state, rank, next_of(alike, rank), self->step);
  tdm_virtual_task task = {.copies = true,
                           .work = sent->bytes,
                           .latency_ns = sent->latencies * alike->latency_ns,
                           .crowded = 1};
  task.hop_count = route.hop_count;
  memcpy(task.hops, route.hops, sizeof route.hops);
  TDM_TRY(edge_queue(self, rank, &task.queue));
  uint32_t added;
  TDM_TRY(tdm_virtual_add(&state->schedule, &task, &added));
  TDM_TRY(tdm_virtual_add_wait(&state->schedule, added, self->latest));
  return tdm_virtual_add_wait(&state->schedule, end, added);
}

/* Adds a task without duration at which all ranks meet. */
static tdm_status meet(exchange *self, uint32_t *out_task) {
  const tdm_virtual_task task = {.queue = self->meeting, .crowded = 1};
  return tdm_virtual_add(&self->state->schedule, &task, out_task);
}

/* Adds the exchange, in which each rank sends to the next. */
static tdm_status exchange_all(exchange *self) {
  const tdm_alike *alike = &self->state->alike;
  const tdm_sum_messages sent = self->gathers ? tdm_gather_sends(alike->ranks, self->bytes)
                                              : tdm_all_reduce_sends(alike->ranks, self->bytes);
  uint32_t end;
  TDM_TRY(meet(self, &end));
  for (uint32_t r = 0; r < alike->simulated; r++)
    TDM_TRY(send(self, r, &sent, end));
  self->latest = end;
  return TDM_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static tdm_status find_meeting(tdm_forecasting *state, size_t device, uint32_t *out_queue) {
  uint32_t *queue = &state->alike.buckets[device].meeting;
  if (*queue == NONE) {
    TDM_TRY(tdm_virtual_add_queue(&state->schedule, NONE, queue));
    (void)snprintf(state->queue_names[*queue], sizeof *state->queue_names, "all ranks");
  }
  *out_queue = *queue;
  return TDM_OK;
}

static uint32_t *task_of(const tdm_forecasting *state, uint32_t rank, size_t step) {
  return &state->ranks[rank].task_of[step];
}

/* Shares everything in the bucket, after the ranks' tasks of this step. It ends for each rank on
 * the step's own queue. */
static tdm_status close_bucket(tdm_forecasting *state, size_t step, double bytes, bool gathers,
                               uint32_t first) {
  exchange self = {.state = state,
                   .step = step,
                   .bytes = bytes,
                   .gathers = gathers,
                   .device = (size_t)node_of(state, step)->device};
  TDM_TRY(find_meeting(state, self.device, &self.meeting));
  TDM_TRY(meet(&self, &self.latest));
  for (uint32_t r = 0; r < state->alike.simulated; r++)
    TDM_TRY(tdm_virtual_add_wait(&state->schedule, self.latest, *task_of(state, r, step)));
  TDM_TRY(exchange_all(&self));
  for (uint32_t r = 0; r < state->alike.simulated; r++) {
    tdm_virtual_task end = state->schedule.tasks[*task_of(state, r, step)];
    uint32_t ended;
    TDM_TRY(tdm_virtual_add(&state->schedule, &end, &ended));
    TDM_TRY(tdm_virtual_add_wait(&state->schedule, ended, self.latest));
    for (uint32_t s = first; s != NONE; s = state->alike.next[s])
      *task_of(state, r, s) = ended;
  }
  return TDM_OK;
}

tdm_status tdm_alike_share(tdm_forecasting *state, size_t step) {
  tdm_alike *alike = &state->alike;
  const bool gathers = share_of(state, step)->gathers != 0;
  const double bytes = bytes_of(state, step);
  alike->next[step] = NONE;
  if (gathers) return close_bucket(state, step, bytes, true, (uint32_t)step);
  tdm_alike_bucket *bucket = &alike->buckets[node_of(state, step)->device];
  if (bucket->first == NONE)
    bucket->first = (uint32_t)step;
  else
    alike->next[bucket->last] = (uint32_t)step;
  bucket->last = (uint32_t)step;
  bucket->bytes += bytes;
  bucket->left -= bytes;
  if (bucket->left > 0 && bucket->bytes < bucket->enough) return TDM_OK;
  const uint32_t first = bucket->first;
  const double all = bucket->bytes;
  bucket->first = NONE;
  bucket->bytes = 0;
  return close_bucket(state, step, all, false, first);
}
