/* Summarizes a timeline: busy shares, overlap, and the bound. Invariant: everything is computed
 * from the recorded times, and nothing is estimated. */
#include <stdlib.h>
#include <string.h>

#include "core/map.h"
#include "graph/report/timeline.h"

#define NONE TDM_TIMELINE_NONE

/* ---- Busy time and overlap ------------------------------------------------------------------- */

typedef struct busy_edge {
  uint64_t at_ns;
  uint32_t device;
  bool begins;
} busy_edge;

static int compare_edges(const void *a, const void *b) {
  const uint64_t x = ((const busy_edge *)a)->at_ns;
  const uint64_t y = ((const busy_edge *)b)->at_ns;
  return (x > y) - (x < y);
}

/* Between two edges nothing changes: counts[d] events of device d are in progress. */
static tdm_status sweep(tdm_timeline *timeline, tdm_timeline_summary *summary) {
  const size_t count = 2 * (size_t)timeline->event_count;
  tdm_region *region = &timeline->region;
  busy_edge *edges = tdm_region_take(region, (count + 1) * sizeof *edges, "a timeline");
  uint32_t *counts =
      tdm_region_take(region, (timeline->device_count + 1) * sizeof *counts, "a timeline");
  if (!edges || !counts) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    const uint32_t device = timeline->rows[event->row].process;
    edges[2 * (size_t)i] = (busy_edge){event->begin_ns, device, true};
    edges[2 * (size_t)i + 1] =
        (busy_edge){event->begin_ns + tdm_timeline_busy_ns(event), device, false};
  }
  qsort(edges, count, sizeof *edges, compare_edges);
  /* Edges at one time have any order, so a count may briefly be negative, for a duration of 0. */
  for (size_t i = 0; i < count; i++) {
    counts[edges[i].device] += edges[i].begins ? 1u : UINT32_MAX;
    const uint64_t span_ns = i + 1 < count ? edges[i + 1].at_ns - edges[i].at_ns : 0;
    if (span_ns == 0) continue;
    uint32_t busy = 0;
    for (uint32_t d = 0; d < timeline->device_count; d++) {
      if (counts[d] == 0) continue;
      summary->device_busy[d] += span_ns;
      busy++;
    }
    summary->any_busy += busy > 0 ? span_ns : 0;
    summary->overlap += busy > 1 ? span_ns : 0;
  }
  return TDM_OK;
}

static void add_up_rows(const tdm_timeline *timeline, tdm_timeline_summary *summary) {
  summary->begin_ns = UINT64_MAX;
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    summary->row_busy[event->row] += tdm_timeline_busy_ns(event);
    if (event->wait_ns) summary->row_wait[event->row] += event->begin_ns - event->wait_ns;
    summary->row_events[event->row]++;
    if (event->begin_ns < summary->begin_ns) summary->begin_ns = event->begin_ns;
    if (event->end_ns > summary->end_ns) summary->end_ns = event->end_ns;
  }
  if (timeline->event_count == 0) summary->begin_ns = 0;
  for (uint32_t i = 0; i < timeline->run_count; i++)
    summary->failed_runs += timeline->runs[i].status != TDM_OK;
}

/* ---- The bound ------------------------------------------------------------------------------- */

/* The part of the path of nodes with one name and action, in any plan. */
typedef struct node_share {
  uint32_t plan; /* plan of the first one */
  uint32_t node;
  uint64_t sum_ns;
} node_share;

static tdm_status share_of(tdm_timeline *timeline, tdm_map *shares, const tdm_timeline_event *event,
                           node_share **out_share) {
  const tdm_timeline_node *node = tdm_timeline_node_of(timeline, event);
  char *key = tdm_region_format(&timeline->region, "%s (%s)", node->name, node->action);
  if (!key) return TDM_OUT_OF_MEMORY;
  *out_share = tdm_map_get(shares, key);
  if (*out_share) return TDM_OK;
  *out_share = tdm_region_take(&timeline->region, sizeof **out_share, "a timeline");
  if (!*out_share) return TDM_OUT_OF_MEMORY;
  (*out_share)->plan = timeline->runs[event->run].plan;
  (*out_share)->node = event->node;
  return tdm_map_put(shares, key, *out_share);
}

static tdm_status add_shares(tdm_timeline *timeline, tdm_map *shares,
                             tdm_timeline_summary *summary) {
  for (uint32_t i = 0; i < summary->path.count; i++) {
    const tdm_timeline_event *event = &timeline->events[summary->path.events[i]];
    if (event->row != summary->bound_row) continue;
    node_share *share = NULL;
    TDM_TRY(share_of(timeline, shares, event, &share));
    share->sum_ns += tdm_timeline_busy_ns(event);
    if (share->sum_ns < summary->bound_node_ns) continue;
    summary->bound_node_ns = share->sum_ns;
    summary->bound_node = share->node;
    summary->bound_plan = share->plan;
  }
  return TDM_OK;
}

/* Finds the node with the largest part of the bounding row's path. */
static tdm_status find_bound_node(tdm_timeline *timeline, tdm_timeline_summary *summary) {
  tdm_map shares;
  tdm_map_init(&shares, timeline->region.allocator);
  const tdm_status status = add_shares(timeline, &shares, summary);
  tdm_map_deinit(&shares);
  return status;
}

static tdm_status find_bound(tdm_timeline *timeline, tdm_timeline_summary *summary) {
  TDM_TRY(tdm_timeline_find_path(timeline, &summary->path));
  for (uint32_t i = 0; i < summary->path.count; i++) {
    const tdm_timeline_event *event = &timeline->events[summary->path.events[i]];
    summary->row_path[event->row] += tdm_timeline_busy_ns(event);
  }
  summary->bound_row = summary->bound_node = NONE;
  for (uint32_t r = 0; r < timeline->row_count; r++)
    if (summary->row_path[r] > 0 && (summary->bound_row == NONE ||
                                     summary->row_path[r] > summary->row_path[summary->bound_row]))
      summary->bound_row = r;
  return summary->bound_row == NONE ? TDM_OK : find_bound_node(timeline, summary);
}

tdm_status tdm_timeline_summarize(tdm_timeline *timeline, tdm_timeline_summary *out_summary) {
  memset(out_summary, 0, sizeof *out_summary);
  tdm_region *region = &timeline->region;
  const size_t rows = timeline->row_count + 1u;
  const size_t devices = timeline->device_count + 1u;
  out_summary->row_busy = tdm_region_take(region, rows * sizeof(uint64_t), "a timeline");
  out_summary->row_wait = tdm_region_take(region, rows * sizeof(uint64_t), "a timeline");
  out_summary->row_path = tdm_region_take(region, rows * sizeof(uint64_t), "a timeline");
  out_summary->row_events = tdm_region_take(region, rows * sizeof(uint32_t), "a timeline");
  out_summary->device_busy = tdm_region_take(region, devices * sizeof(uint64_t), "a timeline");
  if (!out_summary->row_busy || !out_summary->row_wait || !out_summary->row_path ||
      !out_summary->row_events || !out_summary->device_busy)
    return TDM_OUT_OF_MEMORY;
  add_up_rows(timeline, out_summary);
  TDM_TRY(sweep(timeline, out_summary));
  return find_bound(timeline, out_summary);
}
