/* Prints the summary for a human reader: shares of the time between the first command and the
 * last. */
#include "graph/report/timeline.h"

#define NONE TDM_TIMELINE_NONE
/* Copies that end some nanoseconds late do not justify a line. */
#define LEAST_PERCENT 0.05

static double percent(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_devices(const tdm_timeline *timeline, const tdm_timeline_summary *summary,
                          FILE *out) {
  const uint64_t span_ns = summary->end_ns - summary->begin_ns;
  fprintf(out, "  %-10s %-9s %8s %12s %12s\n", "device", "queue", "busy", "waiting", "commands");
  for (uint32_t d = 0; d < timeline->device_count; d++) {
    const char *name = NULL;
    for (uint32_t r = 0; r < timeline->row_count; r++) {
      const tdm_timeline_row *row = &timeline->rows[r];
      if (row->process != d) continue;
      if (!name)
        fprintf(out, "  %-10s %-9s %6.1f %%\n", row->device, "",
                percent(summary->device_busy[d], span_ns));
      name = row->device;
      fprintf(out, "  %-10s %-9s %6.1f %% %10.1f %% %12u\n", "", row->queue,
              percent(summary->row_busy[r], span_ns), percent(summary->row_wait[r], span_ns),
              summary->row_events[r]);
    }
  }
  fprintf(out, "  some device is busy %.1f %% of the time, two or more are %.1f %%\n",
          percent(summary->any_busy, span_ns), percent(summary->overlap, span_ns));
}

static void print_shared_cores(const tdm_timeline *timeline, FILE *out) {
  for (uint32_t d = 0; d < timeline->device_count; d++)
    for (uint32_t r = 0; r < timeline->row_count; r++) {
      const tdm_timeline_row *row = &timeline->rows[r];
      if (row->process != d || !row->shares || !row->shares[0]) continue;
      fprintf(out, "  %s shares its cores with %s: its times include waiting for them\n",
              row->device, row->shares);
      break;
    }
}

static uint64_t path_ns(const tdm_timeline_path *path) {
  return path->busy_ns + path->core_ns + path->handing_ns + path->caller_ns;
}

static void print_path(const tdm_timeline *timeline, const tdm_timeline_summary *summary,
                       FILE *out) {
  const tdm_timeline_path *path = &summary->path;
  const uint64_t whole_ns = path_ns(path);
  fprintf(out, "critical path: %u commands, %.3f ms\n", path->count, (double)whole_ns / 1e6);
  for (uint32_t r = 0; r < timeline->row_count; r++)
    if (summary->row_path[r])
      fprintf(out, "  %-10s %-9s %6.1f %%\n", timeline->rows[r].device, timeline->rows[r].queue,
              percent(summary->row_path[r], whole_ns));
  if (percent(path->core_ns, whole_ns) >= LEAST_PERCENT)
    fprintf(out, "  %-20s %6.1f %%\n", "waiting for a core", percent(path->core_ns, whole_ns));
  fprintf(out, "  %-20s %6.1f %%\n", "handing over", percent(path->handing_ns, whole_ns));
  fprintf(out, "  %-20s %6.1f %%\n", "the caller", percent(path->caller_ns, whole_ns));
}

static void print_bound(const tdm_timeline *timeline, const tdm_timeline_summary *summary,
                        FILE *out) {
  const tdm_timeline_path *path = &summary->path;
  const uint64_t whole_ns = path_ns(path);
  if (summary->bound_row == NONE) return;
  const uint64_t bound_ns = summary->row_path[summary->bound_row];
  if (path->caller_ns > bound_ns && path->caller_ns > path->handing_ns)
    fprintf(out, "bound by the caller, who requests runs late; among the queues ");
  else if (path->core_ns > bound_ns && path->core_ns > path->handing_ns)
    fprintf(out, "bound by copies that wait for a core; among the queues ");
  else if (path->handing_ns > bound_ns)
    fprintf(out, "bound by handing over between commands; among the queues ");
  else
    fprintf(out, "bound by ");
  const tdm_timeline_row *row = &timeline->rows[summary->bound_row];
  const tdm_timeline_node *node = &timeline->plans[summary->bound_plan].nodes[summary->bound_node];
  fprintf(out, "%s %s: %.1f %% of the critical path, most of it %s (%s) with %.1f %%\n",
          row->device, row->queue, percent(bound_ns, whole_ns), node->name, node->action,
          percent(summary->bound_node_ns, whole_ns));
}

tdm_status tdm_timeline_text(tdm_timeline *timeline, FILE *out) {
  tdm_timeline_summary summary;
  TDM_TRY(tdm_timeline_summarize(timeline, &summary));
  const double span_ms = (double)(summary.end_ns - summary.begin_ns) / 1e6;
  fprintf(out, "%u run%s in %.3f ms, %.3f ms each", timeline->run_count,
          timeline->run_count == 1 ? "" : "s", span_ms,
          timeline->run_count ? span_ms / timeline->run_count : 0);
  if (summary.failed_runs) fprintf(out, "; %u failed", summary.failed_runs);
  fputc('\n', out);
  print_devices(timeline, &summary, out);
  print_shared_cores(timeline, out);
  print_path(timeline, &summary, out);
  print_bound(timeline, &summary, out);
  return tdm_timeline_print_shares(timeline, out);
}
