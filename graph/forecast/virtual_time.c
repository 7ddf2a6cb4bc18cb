/* The event loop of virtual time. Invariant: between two events every running task has a constant
 * rate. All tasks that end at one time end in one event, in the order of their numbers. */
#include "graph/forecast/virtual_time.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/forecast/virtual_links.h"

#define NONE TDM_VIRTUAL_NONE

/* Ends that differ by less than this fraction of the time are one event, because the difference is
 * rounding. */
static const double same_time = 1e-12;

typedef struct simulation {
  tdm_virtual_schedule *schedule;
  tdm_region region;
  uint32_t *pending;         /* per task: open waits, including the queue's preceding task */
  uint32_t *first_dependent; /* per task: index in dependents; (task_count + 1) */
  uint32_t *dependents;      /* tasks that wait for it */
  uint32_t *next_on_queue;   /* per task */
  uint32_t *ready;           /* tasks that may begin now */
  size_t ready_count;
  uint32_t *running; /* executing tasks, in the order in which they began */
  size_t running_count;
  double *left;         /* per task: remaining ns or bytes */
  double *due_ns;       /* per task: end of its latency */
  double *rate;         /* per task: work per ns */
  uint32_t *group_size; /* per group, indexed by the queues' `group` */
  uint32_t *group_busy;
  size_t group_count;
  tdm_virtual_flows flows;
  bool changed; /* the set of running tasks has changed since rates were computed */
  double now_ns;
  size_t ended_count;
} simulation;

static void *take(simulation *state, size_t count, size_t bytes) {
  return tdm_region_take(&state->region, (count + 1) * bytes, "virtual time");
}

/* ---- Before it starts ------------------------------------------------------------------------ */

/* Merge sort of tasks by (queue, order, number): stable, and without a comparison function that
 * would need the schedule. */
static bool comes_before(const tdm_virtual_task *tasks, uint32_t a, uint32_t b) {
  if (tasks[a].queue != tasks[b].queue) return tasks[a].queue < tasks[b].queue;
  return tasks[a].order != tasks[b].order ? tasks[a].order < tasks[b].order : a < b;
}

static void sort(const tdm_virtual_task *tasks, uint32_t *items, uint32_t *scratch, size_t count) {
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t begin = 0; begin < count; begin += 2 * width) {
      const size_t middle = begin + width < count ? begin + width : count;
      const size_t end = begin + 2 * width < count ? begin + 2 * width : count;
      size_t left = begin;
      size_t right = middle;
      for (size_t i = begin; i < end; i++) {
        const bool from_left =
            left < middle && (right == end || comes_before(tasks, items[left], items[right]));
        scratch[i] = from_left ? items[left++] : items[right++];
      }
    }
    memcpy(items, scratch, count * sizeof *items);
  }
}

static tdm_status line_up(simulation *state) {
  const tdm_virtual_schedule *schedule = state->schedule;
  const size_t count = schedule->task_count;
  uint32_t *items = take(state, count, sizeof *items);
  uint32_t *scratch = take(state, count, sizeof *scratch);
  if (!items || !scratch) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++)
    items[i] = (uint32_t)i;
  sort(schedule->tasks, items, scratch, count);
  for (size_t i = 0; i < count; i++) {
    const bool last =
        i + 1 == count || schedule->tasks[items[i + 1]].queue != schedule->tasks[items[i]].queue;
    state->next_on_queue[items[i]] = last ? NONE : items[i + 1];
    if (!last) state->pending[items[i + 1]]++;
  }
  return TDM_OK;
}

static void find_dependents(simulation *state) {
  const tdm_virtual_schedule *schedule = state->schedule;
  for (size_t i = 0; i < schedule->wait_count; i++)
    state->first_dependent[schedule->waits[i].other + 1]++;
  for (size_t i = 0; i < schedule->task_count; i++)
    state->first_dependent[i + 1] += state->first_dependent[i];
  uint32_t *used = state->pending + schedule->task_count + 1; /* per task, of its list */
  for (size_t i = 0; i < schedule->wait_count; i++) {
    const tdm_virtual_wait *wait = &schedule->waits[i];
    state->dependents[state->first_dependent[wait->other] + used[wait->other]++] = wait->task;
    state->pending[wait->task]++;
  }
}

static void count_groups(simulation *state) {
  for (size_t q = 0; q < state->schedule->queue_count; q++)
    if (state->schedule->queues[q].group != NONE)
      state->group_size[state->schedule->queues[q].group]++;
}

static tdm_status prepare(simulation *state) {
  tdm_virtual_schedule *schedule = state->schedule;
  const size_t count = schedule->task_count;
  for (size_t q = 0; q < schedule->queue_count; q++)
    if (schedule->queues[q].group != NONE && schedule->queues[q].group >= state->group_count)
      state->group_count = schedule->queues[q].group + 1u;
  state->pending = take(state, 2 * count + 2, sizeof *state->pending);
  state->first_dependent = take(state, count + 1, sizeof *state->first_dependent);
  state->dependents = take(state, schedule->wait_count, sizeof *state->dependents);
  state->next_on_queue = take(state, count, sizeof *state->next_on_queue);
  state->ready = take(state, count, sizeof *state->ready);
  state->running = take(state, schedule->queue_count, sizeof *state->running);
  state->left = take(state, count, sizeof *state->left);
  state->due_ns = take(state, count, sizeof *state->due_ns);
  state->rate = take(state, count, sizeof *state->rate);
  state->group_size = take(state, state->group_count, sizeof *state->group_size);
  state->group_busy = take(state, state->group_count, sizeof *state->group_busy);
  if (!state->pending || !state->first_dependent || !state->dependents || !state->next_on_queue ||
      !state->ready || !state->running || !state->left || !state->due_ns || !state->rate ||
      !state->group_size || !state->group_busy)
    return TDM_OUT_OF_MEMORY;
  TDM_TRY(tdm_virtual_flows_init(&state->flows, schedule, &state->region));
  TDM_TRY(line_up(state));
  find_dependents(state);
  count_groups(state);
  for (size_t t = 0; t < count; t++) {
    schedule->tasks[t].cause = NONE;
    if (state->pending[t] == 0) state->ready[state->ready_count++] = (uint32_t)t;
  }
  return TDM_OK;
}

/* ---- Begin and end of tasks ------------------------------------------------------------------ */

static uint32_t group_of(const simulation *state, const tdm_virtual_task *task) {
  return task->copies ? NONE : state->schedule->queues[task->queue].group;
}

static void begin_ready(simulation *state) {
  for (size_t i = 0; i < state->ready_count; i++) {
    const uint32_t index = state->ready[i];
    tdm_virtual_task *task = &state->schedule->tasks[index];
    task->begin_ns = state->now_ns;
    state->left[index] = task->work;
    state->due_ns[index] = state->now_ns + task->latency_ns;
    state->running[state->running_count++] = index;
    if (group_of(state, task) != NONE) state->group_busy[group_of(state, task)]++;
    state->changed = true;
  }
  state->ready_count = 0;
}

static void release(simulation *state, uint32_t waiting, uint32_t ended) {
  if (--state->pending[waiting] > 0) return;
  state->schedule->tasks[waiting].cause = ended;
  state->ready[state->ready_count++] = waiting;
}

static void end_task(simulation *state, uint32_t index) {
  tdm_virtual_schedule *schedule = state->schedule;
  tdm_virtual_task *task = &schedule->tasks[index];
  tdm_virtual_queue *queue = &schedule->queues[task->queue];
  task->end_ns = state->now_ns;
  queue->busy_ns += task->end_ns - task->begin_ns;
  queue->task_count++;
  if (group_of(state, task) != NONE) state->group_busy[group_of(state, task)]--;
  if (task->copies) tdm_virtual_flows_count(&state->flows, task);
  schedule->last_task = index;
  state->ended_count++;
  state->changed = true;
  for (uint32_t k = state->first_dependent[index]; k < state->first_dependent[index + 1]; k++)
    release(state, state->dependents[k], index);
  if (state->next_on_queue[index] != NONE) release(state, state->next_on_queue[index], index);
}

/* ---- Rates and events ------------------------------------------------------------------------ */

static bool is_flowing(const simulation *state, uint32_t index) {
  return state->schedule->tasks[index].copies && state->due_ns[index] <= state->now_ns;
}

static double rate_of_computing(const simulation *state, const tdm_virtual_task *task) {
  const uint32_t group = group_of(state, task);
  if (group == NONE || state->group_size[group] < 2) return 1;
  const double others = state->group_busy[group] - 1.0;
  return 1 / (1 + (task->crowded - 1) * others / (state->group_size[group] - 1.0));
}

static void find_rates(simulation *state) {
  if (!state->changed) return;
  state->changed = false;
  tdm_virtual_flows_clear(&state->flows);
  for (size_t i = 0; i < state->running_count; i++) {
    const uint32_t index = state->running[i];
    const tdm_virtual_task *task = &state->schedule->tasks[index];
    if (!task->copies)
      state->rate[index] = rate_of_computing(state, task);
    else
      tdm_virtual_flows_add(&state->flows, index, is_flowing(state, index));
  }
  tdm_virtual_flows_share(&state->flows, state->rate);
}

/* Returns when the task ends, or its latency does, if nothing else changes. */
static double next_event_of(const simulation *state, uint32_t index) {
  const tdm_virtual_task *task = &state->schedule->tasks[index];
  if (task->copies && !is_flowing(state, index)) return state->due_ns[index];
  if (state->left[index] <= 0) return state->now_ns;
  return state->now_ns + state->left[index] / state->rate[index];
}

/* Advances to the next event and marks the tasks that end then. */
static void advance(simulation *state) {
  double next_ns = DBL_MAX;
  for (size_t i = 0; i < state->running_count; i++)
    next_ns = fmin(next_ns, next_event_of(state, state->running[i]));
  const double until_ns = next_ns + next_ns * same_time;
  size_t kept = 0;
  tdm_virtual_flows_pass(&state->flows, next_ns - state->now_ns);
  const double before_ns = state->now_ns;
  const size_t count = state->running_count;
  for (size_t i = 0; i < count; i++) {
    const uint32_t index = state->running[i];
    const bool flowing = is_flowing(state, index);
    const bool works = flowing || !state->schedule->tasks[index].copies;
    const bool ends = works && next_event_of(state, index) <= until_ns;
    if (works && !ends) state->left[index] -= (next_ns - before_ns) * state->rate[index];
    /* Marked by NaN, and ended below after the time was updated. */
    if (ends) state->left[index] = NAN;
  }
  state->now_ns = next_ns;
  for (size_t i = 0; i < count; i++) {
    const uint32_t index = state->running[i];
    if (isnan(state->left[index])) {
      end_task(state, index);
      continue;
    }
    if (state->schedule->tasks[index].copies && state->due_ns[index] > before_ns &&
        state->due_ns[index] <= until_ns) {
      state->due_ns[index] = next_ns;
      state->changed = true;
    }
    state->running[kept++] = index;
  }
  state->running_count = kept;
}

/* ---- The critical chain ---------------------------------------------------------------------- */

/* Follows the chain of causes from the task that ended last. Each task accounts for the time from
 * its begin to its end. */
static void follow_critical(tdm_virtual_schedule *schedule) {
  if (schedule->task_count == 0) return;
  for (uint32_t t = schedule->last_task; t != NONE; t = schedule->tasks[t].cause) {
    const tdm_virtual_task *task = &schedule->tasks[t];
    const double took_ns = task->end_ns - task->begin_ns;
    schedule->queues[task->queue].critical_ns += took_ns;
    uint32_t narrowest = NONE;
    for (uint32_t k = 0; k < task->hop_count; k++)
      if (narrowest == NONE ||
          schedule->links[task->hops[k]].bytes_per_ns < schedule->links[narrowest].bytes_per_ns)
        narrowest = task->hops[k];
    if (narrowest != NONE) schedule->links[narrowest].critical_ns += took_ns;
  }
}

static void clear_results(tdm_virtual_schedule *schedule) {
  for (size_t q = 0; q < schedule->queue_count; q++)
    schedule->queues[q] = (tdm_virtual_queue){.group = schedule->queues[q].group};
  for (size_t l = 0; l < schedule->link_count; l++)
    schedule->links[l] = (tdm_virtual_link){.bytes_per_ns = schedule->links[l].bytes_per_ns};
  schedule->end_ns = 0;
  schedule->last_task = NONE;
}

static tdm_status simulate(simulation *state) {
  tdm_virtual_schedule *schedule = state->schedule;
  TDM_TRY(prepare(state));
  for (;;) {
    begin_ready(state);
    if (state->running_count == 0) break;
    find_rates(state);
    advance(state);
  }
  if (state->ended_count < schedule->task_count)
    return tdm_fail(TDM_INTERNAL, "virtual time: %zu of %zu tasks wait for each other",
                    schedule->task_count - state->ended_count, schedule->task_count);
  schedule->end_ns = state->now_ns;
  follow_critical(schedule);
  return TDM_OK;
}

tdm_status tdm_virtual_run(tdm_virtual_schedule *schedule) {
  simulation state = {.schedule = schedule};
  clear_results(schedule);
  tdm_region_init(&state.region, schedule->allocator);
  const tdm_status status = simulate(&state);
  tdm_region_deinit(&state.region);
  return status;
}
