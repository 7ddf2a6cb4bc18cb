/* Records, their statistics, and the line fitted through the copies of a link. */
#include "bench/transfer/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "devices/links/fit.h"

enum { LEAST_SIZES = 3 };

bool results_begin(const results *list, const result *next, double weight_ns) {
  return !list->watch || list->watch->begins(list->watch->user, next, weight_ns);
}

tdm_status results_add(results *list, const result *item) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? 2 * list->capacity : 64;
    result *items = realloc(list->items, capacity * sizeof *items);
    if (!items) return tdm_fail(TDM_OUT_OF_MEMORY, "%zu results", capacity);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = *item;
  return TDM_OK;
}

void results_deinit(results *list) {
  free(list->items);
  *list = (results){.items = NULL};
}

static int compare(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

static double median_of(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void result_summarize(result *out, double *values, int count, bool higher_is_better) {
  out->samples = count;
  out->median = median_of(values, count);
  out->low = values[0];
  out->high = values[count - 1];
  const int rank = (int)ceil(0.99 * count) - 1;
  out->p99 = values[higher_is_better ? count - 1 - rank : rank];
}

/* ---- Fits ------------------------------------------------------------------------------------ */

bool results_same_link(const result *a, const result *b) {
  return strcmp(a->case_name, b->case_name) == 0 && strcmp(a->memory, b->memory) == 0 &&
         strcmp(a->from, b->from) == 0 && strcmp(a->to, b->to) == 0;
}

bool results_first_of_link(const results *list, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (results_same_link(&list->items[i], &list->items[index])) return false;
  return true;
}

bool results_fit(const results *list, size_t like, tdm_link *out_link, double *out_deviation) {
  tdm_link_point points[TDM_LINK_MOST_KNOTS];
  double deviations[TDM_LINK_MOST_KNOTS];
  uint32_t count = 0;
  for (size_t i = 0; i < list->count && count < TDM_COUNT_OF(points); i++) {
    const result *item = &list->items[i];
    if (item->problem[0] == '\0' && item->copy_ns > 0 &&
        results_same_link(item, &list->items[like]))
      points[count++] = (tdm_link_point){.bytes = (double)item->bytes, .ns = item->copy_ns};
  }
  if (count < LEAST_SIZES) return false;
  tdm_link_estimate fit;
  tdm_link_fit(points, count, &fit);
  for (uint32_t i = 0; i < count; i++)
    deviations[i] = fabs(points[i].ns / tdm_link_line_ns(&fit.link, points[i].bytes) - 1);
  *out_link = fit.link;
  *out_deviation = tdm_link_quantile(deviations, count, 0.5);
  return true;
}

const char *bytes_text(size_t bytes, char *text, size_t capacity) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (unit + 1 < TDM_COUNT_OF(units) && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  (void)snprintf(text, capacity, "%zu %s", bytes, units[unit]);
  return text;
}
