/* Bandwidth over size, drawn by gnuplot: one line for each case, memory and pair of kinds of
 * device, the median over the pairs where there are several. */
#include <stdlib.h>
#include <string.h>

#include "bench/transfer/report.h"
#include "tools/draw/draw.h"

enum { MOST_LINES = 64, MOST_PAIRS = 256 };

/* "cpu" of "cpu:1". */
static int kind_length(const char *device) {
  return (int)strcspn(device, ":");
}

static const char *line_title(const result *item, char *text, size_t capacity) {
  const char *memory = strcmp(item->memory, "-") == 0 ? "" : item->memory;
  (void)snprintf(text, capacity, "%s %s%s%.*s to %.*s", item->case_name, memory,
                 memory[0] ? " " : "", kind_length(item->from), item->from, kind_length(item->to),
                 item->to);
  return text;
}

static bool is_drawn(const result *item) {
  return strcmp(item->unit, "GB/s") == 0 && item->problem[0] == '\0';
}

static bool same_line(const result *a, const result *b) {
  char left[128];
  char right[128];
  return strcmp(line_title(a, left, sizeof left), line_title(b, right, sizeof right)) == 0;
}

static int compare(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

/* Returns the median of a line's pairs at one size. */
static double line_value(const results *list, const result *like, size_t bytes) {
  double values[MOST_PAIRS];
  size_t count = 0;
  for (size_t i = 0; i < list->count && count < MOST_PAIRS; i++) {
    const result *item = &list->items[i];
    if (is_drawn(item) && item->bytes == bytes && same_line(item, like))
      values[count++] = item->median;
  }
  qsort(values, count, sizeof *values, compare);
  return values[count / 2];
}

/* Prints a block of bytes and GB/s for each line, in the order measured. Collects the lines. */
static size_t print_blocks(FILE *out, const results *list, const result **lines) {
  size_t count = 0;
  for (size_t i = 0; i < list->count && count < MOST_LINES; i++) {
    const result *like = &list->items[i];
    bool seen = !is_drawn(like);
    for (size_t k = 0; k < count && !seen; k++)
      seen = same_line(lines[k], like);
    if (seen) continue;
    fprintf(out, "$line%zu << END\n", count);
    lines[count++] = like;
    size_t last = 0;
    for (size_t k = i; k < list->count; k++) {
      const result *item = &list->items[k];
      if (!is_drawn(item) || !same_line(item, like) || item->bytes <= last) continue;
      last = item->bytes;
      fprintf(out, "%zu %.6g\n", item->bytes, line_value(list, like, item->bytes));
    }
    fputs("END\n", out);
  }
  return count;
}

static void print_script(FILE *out, const machine *told, const results *list) {
  const result *lines[MOST_LINES];
  fputs("set title ", out);
  char title[512];
  (void)snprintf(title, sizeof title, "Copies between devices: %s%s%s", told->processor,
                 told->gpu[0] ? ", " : "", told->gpu);
  plot_string(out, title);
  fputs("\nset logscale x 2\nset logscale y 10\nset grid\nset key outside right\n"
        "set xlabel 'bytes of a copy'\nset ylabel 'GB/s'\nset format y '%g'\n"
        "set xtics ('1 KiB' 1024, '16 KiB' 16384, '256 KiB' 262144, '4 MiB' 4194304, "
        "'64 MiB' 67108864, '1 GiB' 1073741824)\n",
        out);
  const size_t count = print_blocks(out, list, lines);
  fputs("plot ", out);
  for (size_t i = 0; i < count; i++) {
    char text[128];
    fprintf(out, "%s$line%zu using 1:2 with linespoints title ", i ? ", " : "", i);
    plot_string(out, line_title(lines[i], text, sizeof text));
  }
  fputc('\n', out);
}

tdm_status plot_write(const char *path, const machine *told, const results *list) {
  bool any = false;
  for (size_t i = 0; i < list->count; i++)
    any |= is_drawn(&list->items[i]);
  if (!any) return tdm_fail(TDM_UNAVAILABLE, "--plot: no bandwidth was measured");
  plot_script script;
  TDM_TRY(plot_begin("--plot", path, 1400, 800, &script));
  print_script(script.stream, told, list);
  return plot_end(&script, TDM_OK);
}
