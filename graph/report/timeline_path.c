/* The critical path through a timeline. Invariant: every step back leads to an event that ended, by
 * the recorded times, no later than this one began, so the walk ends. */
#include <stdlib.h>

#include "graph/report/timeline.h"

#define NONE TDM_TIMELINE_NONE

typedef struct ended_run {
  uint64_t ended_ns;
  uint32_t last; /* the event that ends last */
  uint32_t run;
} ended_run;

typedef struct path_walk {
  const tdm_timeline *timeline;
  ended_run *ended; /* (ended_count) runs with events, in the order of their ends */
  uint32_t ended_count;
  uint32_t *last_of_run; /* per run: the event that ends last; NONE: there is none */
  uint32_t *last_before; /* per run: the same without its last phase */
} path_walk;

static bool ends_later(const tdm_timeline *timeline, uint32_t event, uint32_t than) {
  return than == NONE || timeline->events[event].end_ns > timeline->events[than].end_ns;
}

static int compare_ends(const void *a, const void *b) {
  const ended_run *first = a;
  const ended_run *second = b;
  if (first->ended_ns != second->ended_ns) return first->ended_ns < second->ended_ns ? -1 : 1;
  return (first->run > second->run) - (first->run < second->run);
}

static tdm_status sort_ends(path_walk *walk, tdm_region *region) {
  const tdm_timeline *timeline = walk->timeline;
  walk->ended =
      tdm_region_take(region, (timeline->run_count + 1) * sizeof *walk->ended, "a timeline");
  if (!walk->ended) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < timeline->run_count; i++)
    if (walk->last_of_run[i] != NONE)
      walk->ended[walk->ended_count++] =
          (ended_run){timeline->runs[i].ended_ns, walk->last_of_run[i], i};
  qsort(walk->ended, walk->ended_count, sizeof *walk->ended, compare_ends);
  return TDM_OK;
}

static tdm_status find_last_events(path_walk *walk, tdm_region *region) {
  const tdm_timeline *timeline = walk->timeline;
  const size_t bytes = (timeline->run_count + 1) * sizeof(uint32_t);
  walk->last_of_run = tdm_region_take(region, bytes, "a timeline");
  walk->last_before = tdm_region_take(region, bytes, "a timeline");
  if (!walk->last_of_run || !walk->last_before) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < timeline->run_count; i++)
    walk->last_of_run[i] = walk->last_before[i] = NONE;
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    uint32_t *last = &walk->last_of_run[event->run];
    if (ends_later(timeline, i, *last)) *last = i;
    if (tdm_timeline_node_of(timeline, event)->last_phase) continue;
    last = &walk->last_before[event->run];
    if (ends_later(timeline, i, *last)) *last = i;
  }
  return sort_ends(walk, region);
}

/* Uses candidate if it ended later than *best, and before event began. */
static void offer(const path_walk *walk, uint32_t event, uint32_t candidate, uint32_t *best) {
  if (candidate == NONE || candidate == event) return;
  const tdm_timeline_event *events = walk->timeline->events;
  if (events[candidate].end_ns > events[event].begin_ns) return;
  if (events[candidate].begin_ns >= events[event].begin_ns &&
      events[candidate].end_ns >= events[event].end_ns)
    return; /* two events without duration, at one time */
  if (ends_later(walk->timeline, candidate, *best)) *best = candidate;
}

/* Offers the events of the nodes in run. */
static void offer_nodes(const path_walk *walk, uint32_t event, uint32_t run, const uint32_t *nodes,
                        uint32_t count, uint32_t *best) {
  for (uint32_t k = 0; k < count; k++)
    offer(walk, event, walk->timeline->runs[run].event_of[nodes[k]], best);
}

/* Offers events of the preceding run, if it is of the same plan. */
static void offer_previous(const path_walk *walk, uint32_t event, uint32_t *best) {
  const tdm_timeline_event *mine = &walk->timeline->events[event];
  if (mine->run == 0) return;
  const tdm_timeline_run *runs = walk->timeline->runs;
  const tdm_timeline_run *before = &runs[mine->run - 1];
  if (before->plan != runs[mine->run].plan || before->number + 1 != runs[mine->run].number) return;
  const tdm_timeline_node *node = tdm_timeline_node_of(walk->timeline, mine);
  offer_nodes(walk, event, mine->run - 1, node->previous_waits, node->previous_wait_count, best);
}

/* The run continued at at_ns, when another one had ended. */
static void offer_other_runs(const path_walk *walk, uint32_t event, uint64_t at_ns,
                             uint32_t *best) {
  uint32_t begin = 0;
  uint32_t end = walk->ended_count;
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (walk->ended[middle].ended_ns <= at_ns)
      begin = middle + 1;
    else
      end = middle;
  }
  if (begin > 0) offer(walk, event, walk->ended[begin - 1].last, best);
}

static uint32_t step_back(const path_walk *walk, uint32_t event) {
  const tdm_timeline *timeline = walk->timeline;
  const tdm_timeline_event *mine = &timeline->events[event];
  const tdm_timeline_node *node = tdm_timeline_node_of(timeline, mine);
  const tdm_timeline_run *run = &timeline->runs[mine->run];
  uint32_t best = NONE;
  if (event > 0 && timeline->events[event - 1].row == mine->row)
    offer(walk, event, event - 1, &best);
  offer_nodes(walk, event, mine->run, node->dependencies, node->dependency_count, &best);
  offer_nodes(walk, event, mine->run, node->waits, node->wait_count, &best);
  offer_previous(walk, event, &best);
  if (node->last_phase && run->updating_ns) offer(walk, event, walk->last_before[mine->run], &best);
  const uint64_t begun_ns =
      node->last_phase && run->updating_ns ? run->updating_ns : run->launched_ns;
  if (best == NONE || timeline->events[best].end_ns < begun_ns)
    offer_other_runs(walk, event, begun_ns, &best);
  return best;
}

static void reverse(uint32_t *events, uint32_t count) {
  for (uint32_t i = 0; i < count / 2; i++) {
    const uint32_t event = events[i];
    events[i] = events[count - 1 - i];
    events[count - 1 - i] = event;
  }
}

/* Attributes the gap between two events of the path to the caller and to the library. */
static void add_gap(const tdm_timeline *timeline, uint32_t before, uint32_t after,
                    tdm_timeline_path *path) {
  const uint64_t end_ns = timeline->events[before].end_ns;
  const uint64_t begin_ns = timeline->events[after].begin_ns;
  if (begin_ns <= end_ns) return;
  const uint64_t asked_ns = timeline->runs[timeline->events[after].run].asked_ns;
  uint64_t caller_ns = asked_ns > end_ns ? asked_ns - end_ns : 0;
  if (caller_ns > begin_ns - end_ns) caller_ns = begin_ns - end_ns;
  path->caller_ns += caller_ns;
  path->handing_ns += begin_ns - end_ns - caller_ns;
}

tdm_status tdm_timeline_find_path(tdm_timeline *timeline, tdm_timeline_path *out_path) {
  *out_path = (tdm_timeline_path){0};
  path_walk walk = {.timeline = timeline};
  TDM_TRY(find_last_events(&walk, &timeline->region));
  out_path->events = tdm_region_take(&timeline->region,
                                     (timeline->event_count + 1) * sizeof(uint32_t), "a timeline");
  if (!out_path->events) return TDM_OUT_OF_MEMORY;
  uint32_t event = NONE;
  for (uint32_t i = 0; i < timeline->run_count; i++)
    if (walk.last_of_run[i] != NONE && ends_later(timeline, walk.last_of_run[i], event))
      event = walk.last_of_run[i];
  while (event != NONE && out_path->count < timeline->event_count) {
    out_path->events[out_path->count++] = event;
    out_path->busy_ns += tdm_timeline_busy_ns(&timeline->events[event]);
    out_path->core_ns += timeline->events[event].core_wait_ns;
    const uint32_t before = step_back(&walk, event);
    if (before != NONE) add_gap(timeline, before, event, out_path);
    event = before;
  }
  reverse(out_path->events, out_path->count);
  return TDM_OK;
}
