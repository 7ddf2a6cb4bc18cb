/* Results as tables: a matrix of sources and destinations for each case, all sizes below it, and at
 * the end one line for each link. */
#include <string.h>

#include "bench/transfer/report.h"

enum { MOST_NAMES = 64 };

void text_machine(FILE *out, const machine *told) {
  fprintf(out, "%s, %d processing units\ndevices: %s\n", told->processor, told->processing_units,
          told->devices);
  if (told->gpu[0] != '\0') fprintf(out, "GPU: %s\n", told->gpu);
  fprintf(out, "measured %s\n", told->utc);
}

/* ---- A case ---------------------------------------------------------------------------------- */

typedef struct names {
  const char *items[MOST_NAMES];
  size_t count;
} names;

static void add_name(names *list, const char *name) {
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i], name) == 0) return;
  if (list->count < MOST_NAMES) list->items[list->count++] = name;
}

static const result *find(const results *list, size_t first, const char *from, const char *to,
                          size_t bytes) {
  for (size_t i = first; i < list->count; i++) {
    const result *item = &list->items[i];
    if (item->bytes == bytes && strcmp(item->from, from) == 0 && strcmp(item->to, to) == 0)
      return item;
  }
  return NULL;
}

static double spread_percent(const result *item) {
  return item->median > 0 ? 100 * (item->high - item->low) / item->median : 0;
}

static size_t largest_measured(const results *list, size_t first) {
  size_t bytes = 0;
  for (size_t i = first; i < list->count; i++)
    if (list->items[i].problem[0] == '\0' && list->items[i].bytes > bytes)
      bytes = list->items[i].bytes;
  return bytes;
}

static void print_row(FILE *out, const results *list, size_t first, const char *from,
                      const names *columns, size_t bytes) {
  fprintf(out, "  %-10s", from);
  for (size_t i = 0; i < columns->count; i++) {
    const result *item = find(list, first, from, columns->items[i], bytes);
    if (item && item->problem[0] == '\0') {
      char figure[32];
      (void)snprintf(figure, sizeof figure, "%.*f", item->median < 10 ? 3 : 2, item->median);
      fprintf(out, " %9s (%4.1f%%)", figure, spread_percent(item));
    } else {
      fprintf(out, " %9s        ", item ? "failed" : "-");
    }
  }
  fputc('\n', out);
}

static void print_matrix(FILE *out, const results *list, size_t first, size_t bytes) {
  names rows = {.count = 0};
  names columns = {.count = 0};
  double sum = 0;
  for (size_t i = first; i < list->count; i++) {
    add_name(&rows, list->items[i].from);
    add_name(&columns, list->items[i].to);
    if (list->items[i].bytes == bytes && list->items[i].problem[0] == '\0')
      sum += list->items[i].median;
  }
  fprintf(out, "  %-10s", "from \\ to");
  for (size_t i = 0; i < columns.count; i++)
    fprintf(out, " %9s        ", columns.items[i]);
  fputc('\n', out);
  for (size_t i = 0; i < rows.count; i++)
    print_row(out, list, first, rows.items[i], &columns, bytes);
  if (rows.count * columns.count > 1) fprintf(out, "  %-10s %9.2f\n", "sum", sum);
}

/* Prints a line for each size, with a column for each link. */
static void print_sizes(FILE *out, const results *list, size_t first) {
  names sizes_seen = {.count = 0};
  char texts[MOST_NAMES][16];
  fprintf(out, "\n  %10s", "bytes");
  for (size_t i = first; i < list->count; i++)
    if (list->items[i].bytes == list->items[first].bytes)
      fprintf(out, "  %8s > %-8s", list->items[i].from, list->items[i].to);
  fputc('\n', out);
  for (size_t i = first; i < list->count && sizes_seen.count < MOST_NAMES; i++) {
    const size_t bytes = list->items[i].bytes;
    const size_t before = sizes_seen.count;
    add_name(&sizes_seen, bytes_text(bytes, texts[before], sizeof texts[before]));
    if (sizes_seen.count == before) continue;
    fprintf(out, "  %10s", texts[before]);
    for (size_t k = first; k < list->count; k++) {
      const result *item = &list->items[k];
      if (item->bytes != bytes) continue;
      if (item->problem[0] == '\0') {
        fprintf(out, "  %12.3f (%4.1f%%)", item->median, spread_percent(item));
      } else {
        fprintf(out, "  %12s        ", "failed");
      }
    }
    fputc('\n', out);
  }
}

static void print_problems(FILE *out, const results *list, size_t first) {
  for (size_t i = first; i < list->count; i++) {
    const result *item = &list->items[i];
    char size[32];
    if (item->problem[0] != '\0')
      fprintf(out, "  not measured: %s > %s, %s: %s\n", item->from, item->to,
              bytes_text(item->bytes, size, sizeof size), item->problem);
  }
}

static bool has_several_sizes(const results *list, size_t first) {
  for (size_t i = first; i < list->count; i++)
    if (list->items[i].bytes != list->items[first].bytes) return true;
  return false;
}

static void print_latencies(FILE *out, const results *list, size_t first) {
  fprintf(out, "  %-10s %-10s %10s %10s %10s %10s\n", "from", "to", "median", "p99", "least",
          "most");
  for (size_t i = first; i < list->count; i++) {
    const result *item = &list->items[i];
    if (item->problem[0] == '\0')
      fprintf(out, "  %-10s %-10s %10.2f %10.2f %10.2f %10.2f\n", item->from, item->to,
              item->median, item->p99, item->low, item->high);
  }
}

/* Bold on a terminal. */
static void print_heading(FILE *out, const result *example, const char *title, const char *place) {
  const bool bold = out == stdout && tool_colours();
  fprintf(out, "\n%s%s%s", bold ? "\033[1m" : "", example->case_name, bold ? "\033[0m" : "");
  if (strcmp(example->memory, "-") != 0) fprintf(out, ", %s memory", example->memory);
  if (example->node >= 0) fprintf(out, " on node %d", example->node);
  fprintf(out, ": %s (%s)\n", title, place);
}

void text_case(FILE *out, const results *list, size_t first, const char *title, const char *place) {
  if (first >= list->count) return;
  const result *example = &list->items[first];
  const size_t bytes = largest_measured(list, first);
  char size[32];
  print_heading(out, example, title, place);
  if (bytes > 0 && strcmp(example->unit, "us") == 0) {
    fprintf(out, "us, %s\n", bytes_text(bytes, size, sizeof size));
    print_latencies(out, list, first);
  } else if (bytes > 0) {
    fprintf(out, "%s, copies of %s, medians (with the range of the samples)\n", example->unit,
            bytes_text(bytes, size, sizeof size));
    print_matrix(out, list, first, bytes);
    if (has_several_sizes(list, first)) print_sizes(out, list, first);
  }
  print_problems(out, list, first);
  fflush(out);
}

/* ---- The end --------------------------------------------------------------------------------- */

void text_fits(FILE *out, const results *list) {
  bool titled = false;
  for (size_t i = 0; i < list->count; i++) {
    const result *item = &list->items[i];
    tdm_link link;
    double deviation;
    if (strcmp(item->unit, "GB/s") != 0 || !results_first_of_link(list, i)) continue;
    if (!results_fit(list, i, &link, &deviation)) continue;
    if (!titled)
      fprintf(out,
              "\nlinks: time of a copy = latency + bytes / bandwidth\n  %-30s %-10s %-10s "
              "%-10s %10s %10s %9s\n",
              "case", "memory", "from", "to", "us", "GB/s", "error");
    titled = true;
    fprintf(out, "  %-30s %-10s %-10s %-10s %10.2f %10.2f %8.1f%%\n", item->case_name, item->memory,
            item->from, item->to, link.latency_ns / 1e3, link.bytes_per_ns, 100 * deviation);
  }
}

static bool is_plain(const result *item, const char *name, const result *ours) {
  return strcmp(item->case_name, name) == 0 && item->problem[0] == '\0' &&
         item->bytes == ours->bytes && strcmp(item->memory, ours->memory) == 0 &&
         strcmp(item->from, ours->from) == 0 && strcmp(item->to, ours->to) == 0;
}

/* The fastest of the plain cases that do the same as ours; NULL: there is none. */
static const result *plain_of(const results *list, const result *ours) {
  char name[64];
  (void)snprintf(name, sizeof name, "plain_%s", ours->case_name);
  const bool inside_host = strcmp(ours->case_name, "host_to_host") == 0;
  const result *best = NULL;
  for (size_t i = 0; i < list->count; i++) {
    const result *item = &list->items[i];
    const bool fits = inside_host ? is_plain(item, "plain_memcpy", ours) ||
                                        is_plain(item, "plain_nontemporal", ours)
                                  : is_plain(item, name, ours);
    if (fits && (!best || item->median > best->median)) best = item;
  }
  return best;
}

void text_against_plain(FILE *out, const results *list) {
  bool titled = false;
  for (size_t i = 0; i < list->count; i++) {
    const result *ours = &list->items[i];
    const result *plain = plain_of(list, ours);
    char size[32];
    if (!plain || ours->problem[0] != '\0') continue;
    if (!titled)
      fprintf(out,
              "\nagainst a plain loop in this run, GB/s\n  %-30s %-10s %-10s %-10s %8s %10s "
              "%10s %7s\n",
              "case", "memory", "from", "to", "bytes", "Tandem", "plain", "ratio");
    titled = true;
    fprintf(out, "  %-30s %-10s %-10s %-10s %8s %10.3f %10.3f %7.3f\n", ours->case_name,
            ours->memory, ours->from, ours->to, bytes_text(ours->bytes, size, sizeof size),
            ours->median, plain->median, ours->median / plain->median);
  }
}
