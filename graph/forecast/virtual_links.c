/* Max-min fair sharing by progressive filling: links that can give each of their flows the least
 * settle these flows, and the other flows share what is left. */
#include "graph/forecast/virtual_links.h"

#include <math.h>

/* Links whose shares differ by less than this fraction are filled together. */
static const double same_share = 1e-9;

tdm_status tdm_virtual_flows_init(tdm_virtual_flows *flows, tdm_virtual_schedule *schedule,
                                  tdm_region *region) {
  const size_t links = schedule->link_count + 1;
  const size_t queues = schedule->queue_count + 1;
  *flows = (tdm_virtual_flows){.schedule = schedule};
  flows->tasks = tdm_region_take(region, queues * sizeof *flows->tasks, "virtual time");
  flows->settled = tdm_region_take(region, queues * sizeof *flows->settled, "virtual time");
  flows->flows = tdm_region_take(region, links * sizeof *flows->flows, "virtual time");
  flows->left = tdm_region_take(region, links * sizeof *flows->left, "virtual time");
  flows->used = tdm_region_take(region, links * sizeof *flows->used, "virtual time");
  flows->is_used = tdm_region_take(region, links * sizeof *flows->is_used, "virtual time");
  const bool complete = flows->tasks && flows->settled && flows->flows && flows->left &&
                        flows->used && flows->is_used;
  return complete ? TDM_OK : TDM_OUT_OF_MEMORY;
}

void tdm_virtual_flows_clear(tdm_virtual_flows *flows) {
  for (size_t i = 0; i < flows->used_count; i++)
    flows->is_used[flows->used[i]] = false;
  flows->count = 0;
  flows->used_count = 0;
}

void tdm_virtual_flows_add(tdm_virtual_flows *flows, uint32_t task, bool flowing) {
  const tdm_virtual_task *added = &flows->schedule->tasks[task];
  for (uint32_t k = 0; k < added->hop_count; k++) {
    const uint32_t link = added->hops[k];
    if (!flows->is_used[link]) {
      flows->is_used[link] = true;
      flows->used[flows->used_count++] = link;
      flows->flows[link] = 0;
      flows->left[link] = flows->schedule->links[link].bytes_per_ns;
    }
    flows->flows[link] += flowing;
  }
  if (flowing) flows->tasks[flows->count++] = task;
}

static double least_share(const tdm_virtual_flows *flows) {
  double least = INFINITY;
  for (size_t i = 0; i < flows->used_count; i++) {
    const uint32_t link = flows->used[i];
    if (flows->flows[link] > 0) least = fmin(least, flows->left[link] / flows->flows[link]);
  }
  return least;
}

/* Returns true if a link of the task has at most `least` to give. Settling one flow of such a link
 * does not change the share of its others. */
static bool is_held(const tdm_virtual_flows *flows, const tdm_virtual_task *task, double least) {
  for (uint32_t k = 0; k < task->hop_count; k++) {
    const uint32_t link = task->hops[k];
    if (flows->left[link] / flows->flows[link] <= least * (1 + same_share)) return true;
  }
  return isinf(least);
}

static void settle(tdm_virtual_flows *flows, size_t flow, double rate) {
  const tdm_virtual_task *task = &flows->schedule->tasks[flows->tasks[flow]];
  flows->settled[flow] = true;
  for (uint32_t k = 0; k < task->hop_count; k++) {
    const uint32_t link = task->hops[k];
    if (isfinite(flows->left[link])) flows->left[link] = fmax(0, flows->left[link] - rate);
    flows->flows[link]--;
  }
}

void tdm_virtual_flows_share(tdm_virtual_flows *flows, double *rate) {
  const tdm_virtual_task *tasks = flows->schedule->tasks;
  for (size_t i = 0; i < flows->count; i++)
    flows->settled[i] = false;
  for (size_t open = flows->count; open > 0;) {
    const double least = least_share(flows);
    for (size_t i = 0; i < flows->count; i++) {
      if (flows->settled[i] || !is_held(flows, &tasks[flows->tasks[i]], least)) continue;
      rate[flows->tasks[i]] = least;
      settle(flows, i, least);
      open--;
    }
  }
}

void tdm_virtual_flows_pass(tdm_virtual_flows *flows, double ns) {
  for (size_t i = 0; i < flows->used_count; i++)
    flows->schedule->links[flows->used[i]].busy_ns += ns;
}

void tdm_virtual_flows_count(tdm_virtual_flows *flows, const tdm_virtual_task *task) {
  for (uint32_t k = 0; k < task->hop_count; k++) {
    tdm_virtual_link *link = &flows->schedule->links[task->hops[k]];
    link->bytes += fmax(task->work, task->carried);
    link->copy_count++;
  }
}
