/* Gradients summed without going through one device.
 *
 * Ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * J. Parallel Distrib. Comput. 69, 2009): k devices cut a gradient of n bytes into k pieces. In
 * k - 1 rounds each receives a piece from the one before it and adds its own; then in k - 1 rounds
 * the finished pieces go around. 2 (k - 1) messages of n / k bytes arrive at every device.
 *
 * Tree: a binomial tree (as in Thakur, Rabenseifner, Gropp, "Optimization of collective
 * communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19, 2005): whole
 * gradients go up in ceil(log2 k) rounds, the sum goes down in as many; 2 (k - 1) messages of n
 * bytes in all.
 *
 * Invariant: on every queue messages and additions stand in the order of their sum, then of their
 * rounds, so that no two devices wait for each other. */
#include <stdio.h>

#include "graph/forecast/forecast.h"

#define NONE TDM_VIRTUAL_NONE

typedef struct message {
  uint32_t from; /* numbers of the sum's devices */
  uint32_t to;
  double bytes;
  uint32_t round;
  uint32_t after; /* what the sender must have done */
} message;

static const tdm_device *device_of(const tdm_forecasting *state, int16_t device) {
  return tdm_context_device(state->plan->graph.context, (size_t)device);
}

/* The virtual queue that a device computes on. */
static uint32_t compute_queue_of(const tdm_forecasting *state, int16_t device) {
  const tdm_lowered *lowered = &state->plan->lowered;
  const tdm_queue *queue = device_of(state, device)->queues[TDM_QUEUE_COMPUTE];
  for (uint32_t q = 0; q < lowered->schedule.queue_count; q++)
    if (lowered->queues[q] == queue) return state->queue_of[q];
  return NONE;
}

/* What carries a device's part of the sums: a queue of its own, where copies have queues of their
 * own, else the one that it computes on. */
static tdm_status sum_queue(tdm_forecasting *state, int16_t device, uint32_t *out_queue) {
  uint32_t *queue = &state->sum_queue_of[device];
  if (*queue == NONE && !device_of(state, device)->queues[TDM_QUEUE_PEER])
    *queue = compute_queue_of(state, device);
  if (*queue == NONE) {
    TDM_TRY(tdm_virtual_add_queue(&state->schedule, NONE, queue));
    (void)snprintf(state->queue_names[*queue], sizeof *state->queue_names, "%s sums",
                   device_of(state, device)->name);
  }
  *out_queue = *queue;
  return TDM_OK;
}

static uint64_t order_of(const tdm_forecast_sum *sum, uint32_t round, bool adds) {
  return tdm_forecast_order(sum->last_step) + 2 * round + 2 + adds;
}

static tdm_status send(tdm_forecasting *state, const tdm_forecast_sum *sum, const message *sent,
                       uint32_t *out_task) {
  uint32_t queue;
  TDM_TRY(sum_queue(state, sum->devices[sent->to], &queue));
  TDM_TRY(tdm_forecast_add_copy(state, sum->devices[sent->from], sum->devices[sent->to],
                                sent->bytes, queue, order_of(sum, sent->round, false), out_task));
  return tdm_virtual_add_wait(&state->schedule, *out_task, sent->after);
}

/* Adds what has arrived to the receiver's own. */
static tdm_status add(tdm_forecasting *state, const tdm_forecast_sum *sum, const message *sent,
                      uint32_t arrived, uint32_t *out_task) {
  const tdm_virtual_task addition = {.queue = state->schedule.tasks[arrived].queue,
                                     .order = order_of(sum, sent->round, true),
                                     .work = sum->add_ns * sent->bytes / sum->bytes,
                                     .crowded = 1};
  TDM_TRY(tdm_virtual_add(&state->schedule, &addition, out_task));
  TDM_TRY(tdm_virtual_add_wait(&state->schedule, *out_task, arrived));
  return tdm_virtual_add_wait(&state->schedule, *out_task, state->task_of[sum->ready[sent->to]]);
}

static tdm_status add_ring(tdm_forecasting *state, tdm_forecast_sum *sum) {
  const uint32_t k = sum->count;
  uint32_t *done = sum->done; /* what each may send on now */
  uint32_t next[TDM_MACHINE_MOST_DEVICES];
  for (uint32_t i = 0; i < k; i++)
    done[i] = state->task_of[sum->ready[i]];
  for (uint32_t round = 0; round < 2 * (k - 1); round++) {
    for (uint32_t i = 0; i < k; i++) {
      const uint32_t from = (i + k - 1) % k;
      const message sent = {from, i, sum->bytes / k, round, done[from]};
      TDM_TRY(send(state, sum, &sent, &next[i]));
      if (round < k - 1) TDM_TRY(add(state, sum, &sent, next[i], &next[i]));
    }
    for (uint32_t i = 0; i < k; i++)
      done[i] = next[i];
  }
  return TDM_OK;
}

static tdm_status add_tree(tdm_forecasting *state, tdm_forecast_sum *sum) {
  const uint32_t k = sum->count;
  uint32_t *done = sum->done;
  for (uint32_t i = 0; i < k; i++)
    done[i] = state->task_of[sum->ready[i]];
  uint32_t round = 0;
  uint32_t distance = 1;
  for (; distance < k; distance *= 2, round++)
    for (uint32_t i = 0; i + distance < k; i += 2 * distance) {
      const message sent = {i + distance, i, sum->bytes, round, done[i + distance]};
      uint32_t arrived;
      TDM_TRY(send(state, sum, &sent, &arrived));
      TDM_TRY(add(state, sum, &sent, arrived, &done[i]));
    }
  for (distance /= 2; distance > 0; distance /= 2, round++)
    for (uint32_t i = 0; i + distance < k; i += 2 * distance) {
      const message sent = {i, i + distance, sum->bytes, round, done[i]};
      TDM_TRY(send(state, sum, &sent, &done[i + distance]));
    }
  return TDM_OK;
}

tdm_status tdm_forecast_add_sums(tdm_forecasting *state, tdm_forecast_sum *sums, size_t count) {
  for (size_t i = 0; i < count; i++) {
    TDM_TRY(state->options->summation == TDM_SUM_RING ? add_ring(state, &sums[i])
                                                      : add_tree(state, &sums[i]));
  }
  return TDM_OK;
}

/* A step of the home's, done on another device too. */
static tdm_status do_too(tdm_forecasting *state, size_t step, int16_t device, uint32_t *out_task) {
  const tdm_virtual_task task = {.queue = compute_queue_of(state, device),
                                 .order = tdm_forecast_order(step),
                                 .work = state->kernel_ns[step],
                                 .crowded = state->crowded[step]};
  return tdm_virtual_add(&state->schedule, &task, out_task);
}

tdm_status tdm_forecast_add_followers(tdm_forecasting *state, const tdm_forecast_sum *sums,
                                      size_t count) {
  const size_t steps = state->plan->lowered.schedule.step_count;
  for (size_t step = 0; step < steps; step++) {
    if (!state->follows[step]) continue;
    for (size_t i = 0; i < count; i++) /* the home's own */
      TDM_TRY(tdm_virtual_add_wait(&state->schedule, state->task_of[step], sums[i].done[0]));
    for (uint32_t d = 1; d < sums[0].count; d++) {
      uint32_t task;
      TDM_TRY(do_too(state, step, sums[0].devices[d], &task));
      for (size_t i = 0; i < count; i++)
        TDM_TRY(tdm_virtual_add_wait(&state->schedule, task, sums[i].done[d]));
    }
  }
  return TDM_OK;
}

tdm_status tdm_forecast_add_updates(tdm_forecasting *state, const tdm_forecast_sum *sums,
                                    size_t count) {
  for (size_t i = 0; i < count; i++) {
    for (uint32_t d = 1; d < sums[i].count; d++) { /* the home's is the plan's own */
      uint32_t task;
      TDM_TRY(do_too(state, sums[i].update_step, sums[i].devices[d], &task));
      if (state->barrier != NONE)
        TDM_TRY(tdm_virtual_add_wait(&state->schedule, task, state->barrier));
    }
  }
  return TDM_OK;
}
