/* Sorts a timeline. Invariant: see timeline.h. */
#include "graph/report/timeline.h"

#include <stdlib.h>
#include <string.h>

void tdm_timeline_init(tdm_timeline *timeline, const tdm_allocator *allocator) {
  memset(timeline, 0, sizeof *timeline);
  tdm_region_init(&timeline->region, allocator);
}

void tdm_timeline_deinit(tdm_timeline *timeline) {
  tdm_region_deinit(&timeline->region);
}

typedef struct numbered_run {
  uint64_t number;
  uint32_t index;
} numbered_run;

static int compare_numbers(const void *a, const void *b) {
  const uint64_t x = ((const numbered_run *)a)->number;
  const uint64_t y = ((const numbered_run *)b)->number;
  return (x > y) - (x < y);
}

/* Sorts runs by number and updates the events' indices. */
static tdm_status sort_runs(tdm_timeline *timeline) {
  const size_t count = timeline->run_count;
  tdm_region *region = &timeline->region;
  numbered_run *order = tdm_region_take(region, (count + 1) * sizeof *order, "a timeline");
  uint32_t *moved = tdm_region_take(region, (count + 1) * sizeof *moved, "a timeline");
  tdm_timeline_run *runs = tdm_region_take(region, (count + 1) * sizeof *runs, "a timeline");
  if (!order || !moved || !runs) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++)
    order[i] = (numbered_run){timeline->runs[i].number, i};
  qsort(order, count, sizeof *order, compare_numbers);
  for (uint32_t i = 0; i < count; i++) {
    runs[i] = timeline->runs[order[i].index];
    moved[order[i].index] = i;
  }
  timeline->runs = runs;
  for (uint32_t i = 0; i < timeline->event_count; i++)
    timeline->events[i].run = moved[timeline->events[i].run];
  return TDM_OK;
}

static int compare_events(const void *a, const void *b) {
  const tdm_timeline_event *x = a;
  const tdm_timeline_event *y = b;
  if (x->row != y->row) return x->row < y->row ? -1 : 1;
  if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
  if (x->end_ns != y->end_ns) return x->end_ns < y->end_ns ? -1 : 1;
  if (x->run != y->run) return x->run < y->run ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

/* The wait of a stream may be recorded before the preceding commands of its queue have ended. */
static void clamp_waits(tdm_timeline *timeline) {
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    tdm_timeline_event *event = &timeline->events[i];
    if (event->wait_ns == 0) continue;
    const tdm_timeline_event *before = i > 0 ? &timeline->events[i - 1] : NULL;
    if (before && before->row == event->row && before->end_ns > event->wait_ns)
      event->wait_ns = before->end_ns;
    if (event->wait_ns >= event->begin_ns) event->wait_ns = 0;
  }
}

tdm_status tdm_timeline_sort(tdm_timeline *timeline) {
  TDM_TRY(sort_runs(timeline));
  qsort(timeline->events, timeline->event_count, sizeof *timeline->events, compare_events);
  clamp_waits(timeline);
  for (uint32_t i = 0; i < timeline->run_count; i++) {
    tdm_timeline_run *run = &timeline->runs[i];
    const uint32_t count = timeline->plans[run->plan].node_count;
    run->event_of =
        tdm_region_take(&timeline->region, (count + 1) * sizeof *run->event_of, "a timeline");
    if (!run->event_of) return TDM_OUT_OF_MEMORY;
    memset(run->event_of, 0xff, count * sizeof *run->event_of);
  }
  for (uint32_t i = 0; i < timeline->event_count; i++)
    timeline->runs[timeline->events[i].run].event_of[timeline->events[i].node] = i;
  return TDM_OK;
}
