/* Tables of a forecast. */
#include "tools/forecast/report.h"

#include <stdio.h>

enum { MOST_LINES = 12 };

const char *summing_name(int algorithm) {
  return algorithm == TDM_COLLECTIVE_AUTO ? "plan" : tdm_collective_name((tdm_collective)algorithm);
}

static void print_queues(const tdm_forecast *forecast) {
  printf("\n  %-30s %12s %8s %22s\n", "queue", "busy us", "of step", "of the longest chain");
  size_t printed = 0;
  for (size_t i = 0; i < forecast->queue_count; i++) {
    const tdm_forecast_queue *queue = &forecast->queues[i];
    if (printed++ >= MOST_LINES && queue->critical_ns <= 0) continue;
    printf("  %-30s %12.1f %7.1f%% %21.1f%%\n", queue->name, queue->busy_ns / 1e3,
           100 * queue->busy_ns / forecast->step_ns, 100 * queue->critical_ns / forecast->step_ns);
  }
  if (forecast->queue_count > MOST_LINES)
    printf("  (%zu queues; of those after the first %d, those on the longest chain)\n",
           forecast->queue_count, (int)MOST_LINES);
}

static void print_links(const tdm_forecast *forecast) {
  printf("\n  %-36s %14s %8s %12s %8s %22s\n", "link", "bytes", "copies", "busy us", "of step",
         "of the longest chain");
  for (size_t i = 0; i < forecast->link_count; i++) {
    const tdm_forecast_link *link = &forecast->links[i];
    printf("  %-36s %14.0f %8u %12.1f %7.1f%% %21.1f%%\n", link->name, link->bytes, link->copies,
           link->busy_ns / 1e3, 100 * link->busy_ns / forecast->step_ns,
           100 * link->critical_ns / forecast->step_ns);
  }
}

/* The queue or link that most of the longest chain is spent on. */
static void print_bound(const tdm_forecast *forecast) {
  const char *name = "nothing";
  double most_ns = 0;
  for (size_t i = 0; i < forecast->queue_count; i++)
    if (forecast->queues[i].critical_ns > most_ns) {
      most_ns = forecast->queues[i].critical_ns;
      name = forecast->queues[i].name;
    }
  printf("bound by %s: %.1f%% of the longest chain", name, 100 * most_ns / forecast->step_ns);
  double copying_ns = 0;
  for (size_t i = 0; i < forecast->link_count; i++)
    copying_ns += forecast->links[i].critical_ns;
  printf("; copies are %.1f%% of it\n", 100 * copying_ns / forecast->step_ns);
}

void report_step(const tdm_forecast *forecast, const tdm_traffic *traffic) {
  printf("step: %.1f us\n", forecast->step_ns / 1e3);
  print_bound(forecast);
  printf("kernels: %u priced by measurement, %u by the description\n", forecast->measured_kernels,
         forecast->modelled_kernels);
  printf(
      "the plan moves %llu bytes between nodes, %llu of inputs and outputs, %llu of parameters\n",
      (unsigned long long)traffic->edge_bytes, (unsigned long long)traffic->boundary_bytes,
      (unsigned long long)traffic->refresh_bytes);
  print_queues(forecast);
  print_links(forecast);
}

void report_scaling(const scaling_row *rows, size_t count) {
  printf("\n  %-8s %10s", "devices", "rows");
  for (int s = 0; s < SUMMING_ALGORITHMS; s++)
    printf("  %10s %-9s", summing_name(s), "us   x");
  printf("\n");
  for (size_t i = 0; i < count; i++) {
    printf("  %-8d %10lld", rows[i].devices, (long long)rows[i].batch);
    for (int s = 0; s < SUMMING_ALGORITHMS; s++) {
      /* Rows a second, against one device's. */
      const double faster =
          rows[0].step_ns[s] / rows[i].step_ns[s] * (double)rows[i].batch / (double)rows[0].batch;
      printf("  %10.1f %9.2f", rows[i].step_ns[s] / 1e3, faster);
    }
    printf("\n");
  }
  printf(
      "\n  plan: gradients are summed as the plan chooses; home: on the first device; chain: from\n"
      "  device to device; ring, tree: by all devices, each updating its own copy.\n"
      "  x: rows a second against one device.\n");
}

/* ---- As JSON --------------------------------------------------------------------------------- */

void report_step_json(const tdm_forecast *forecast, const tdm_traffic *traffic,
                      tdm_json_writer *json) {
  tdm_json_put_real(json, "step_ns", forecast->step_ns);
  tdm_json_put_integer(json, "measured_kernels", forecast->measured_kernels);
  tdm_json_put_integer(json, "modelled_kernels", forecast->modelled_kernels);
  tdm_json_put_integer(json, "edge_bytes", (int64_t)traffic->edge_bytes);
  tdm_json_put_integer(json, "boundary_bytes", (int64_t)traffic->boundary_bytes);
  tdm_json_put_integer(json, "refresh_bytes", (int64_t)traffic->refresh_bytes);
  tdm_json_open(json, "queues", '[');
  for (size_t i = 0; i < forecast->queue_count; i++) {
    tdm_json_open(json, NULL, '{');
    tdm_json_put_string(json, "name", forecast->queues[i].name);
    tdm_json_put_real(json, "busy_ns", forecast->queues[i].busy_ns);
    tdm_json_put_real(json, "critical_ns", forecast->queues[i].critical_ns);
    tdm_json_close(json, '}');
  }
  tdm_json_close(json, ']');
  tdm_json_open(json, "links", '[');
  for (size_t i = 0; i < forecast->link_count; i++) {
    tdm_json_open(json, NULL, '{');
    tdm_json_put_string(json, "name", forecast->links[i].name);
    tdm_json_put_real(json, "bytes", forecast->links[i].bytes);
    tdm_json_put_integer(json, "copies", forecast->links[i].copies);
    tdm_json_put_real(json, "busy_ns", forecast->links[i].busy_ns);
    tdm_json_put_real(json, "critical_ns", forecast->links[i].critical_ns);
    tdm_json_close(json, '}');
  }
  tdm_json_close(json, ']');
}

void report_scaling_json(const scaling_row *rows, size_t count, tdm_json_writer *json) {
  tdm_json_open(json, "scaling", '[');
  for (size_t i = 0; i < count; i++) {
    tdm_json_open(json, NULL, '{');
    tdm_json_put_integer(json, "devices", rows[i].devices);
    tdm_json_put_integer(json, "rows", rows[i].batch);
    tdm_json_open(json, "step_ns", '{');
    for (int algorithm = 0; algorithm < SUMMING_ALGORITHMS; algorithm++)
      tdm_json_put_real(json, summing_name(algorithm), rows[i].step_ns[algorithm]);
    tdm_json_close(json, '}');
    tdm_json_close(json, '}');
  }
  tdm_json_close(json, ']');
}
