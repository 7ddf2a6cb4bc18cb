/* The commands with the most time, and the traffic of each link. */
#include <stdlib.h>
#include <string.h>

#include "core/map.h"
#include "graph/report/picture.h"
#include "graph/report/timeline.h"

enum { MOST_NODES = 8 };

typedef tdm_timeline_share share;

typedef struct shares {
  tdm_map map;
  share **list; /* (count) */
  uint32_t count;
} shares;

static tdm_status add(tdm_timeline *timeline, shares *all, const char *key,
                      const tdm_timeline_event *event) {
  if (!key) return TDM_OUT_OF_MEMORY;
  share *found = tdm_map_get(&all->map, key);
  if (!found) {
    found = tdm_region_take(&timeline->region, sizeof *found, "a timeline");
    if (!found) return TDM_OUT_OF_MEMORY;
    found->node = tdm_timeline_node_of(timeline, event);
    found->row = &timeline->rows[event->row];
    TDM_TRY(tdm_map_put(&all->map, key, found));
    all->list[all->count++] = found;
  }
  found->busy_ns += tdm_timeline_busy_ns(event);
  found->bytes += tdm_timeline_node_of(timeline, event)->bytes;
  found->count++;
  return TDM_OK;
}

static int compare(const void *a, const void *b) {
  const share *x = *(share *const *)a, *y = *(share *const *)b;
  if (x->busy_ns != y->busy_ns) return x->busy_ns > y->busy_ns ? -1 : 1;
  const int names = strcmp(x->node->name, y->node->name);
  return names ? names : strcmp(x->node->action, y->node->action);
}

/* Collects by name, action and queue; or, with links, transfers by source and destination. */
static tdm_status collect(tdm_timeline *timeline, bool links, shares *out) {
  tdm_region *region = &timeline->region;
  out->list =
      tdm_region_take(region, (timeline->event_count + 1) * sizeof *out->list, "a timeline");
  if (!out->list) return TDM_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    const tdm_timeline_node *node = tdm_timeline_node_of(timeline, event);
    if (links && !node->route) continue;
    const char *key =
        links ? tdm_region_format(region, "%s %s", node->from, node->to)
              : tdm_region_format(region, "%s (%s) %u", node->name, node->action, event->row);
    TDM_TRY(add(timeline, out, key, event));
  }
  qsort(out->list, out->count, sizeof *out->list, compare);
  return TDM_OK;
}

static void print_nodes(const share *const *list, uint32_t count, uint64_t whole_ns, FILE *out) {
  if (count == 0) return;
  fputs("most time went to\n", out);
  for (uint32_t i = 0; i < count && i < MOST_NODES; i++) {
    const share *of = list[i];
    fprintf(out, "  %5.1f %% %10.3f ms %7u times  %s (%s), %s %s\n",
            whole_ns ? 100 * (double)of->busy_ns / (double)whole_ns : 0, (double)of->busy_ns / 1e6,
            of->count, of->node->name, of->node->action, of->row->device, of->row->queue);
  }
}

static void print_links(const share *const *list, uint32_t count, FILE *out) {
  if (count == 0) return;
  fputs("what moved\n", out);
  for (uint32_t i = 0; i < count; i++) {
    const share *of = list[i];
    char bytes[TDM_BYTES_TEXT];
    fprintf(out, "  %-10s -> %-10s %12s in %u transfers, %.3f GB/s while they last\n",
            of->node->from, of->node->to, tdm_bytes_text(of->bytes, bytes), of->count,
            of->busy_ns ? (double)of->bytes / (double)of->busy_ns : 0);
  }
}

tdm_status tdm_timeline_share_out(tdm_timeline *timeline, bool links,
                                  const tdm_timeline_share *const **out_list, uint32_t *out_count) {
  shares all = {.count = 0};
  tdm_map_init(&all.map, timeline->region.allocator);
  const tdm_status status = collect(timeline, links, &all);
  tdm_map_deinit(&all.map);
  *out_list = (const share *const *)all.list;
  *out_count = all.count;
  return status;
}

tdm_status tdm_timeline_print_shares(tdm_timeline *timeline, FILE *out) {
  uint64_t whole_ns = 0;
  for (uint32_t i = 0; i < timeline->event_count; i++)
    whole_ns += tdm_timeline_busy_ns(&timeline->events[i]);
  const share *const *list;
  uint32_t count;
  TDM_TRY(tdm_timeline_share_out(timeline, false, &list, &count));
  print_nodes(list, count, whole_ns, out);
  TDM_TRY(tdm_timeline_share_out(timeline, true, &list, &count));
  print_links(list, count, out);
  return TDM_OK;
}
