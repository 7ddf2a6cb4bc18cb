/* Results as JSON and CSV, and what machine they are of. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/transfer/measure.h"
#include "bench/transfer/report.h"
#include "tools/options/output_file.h"

/* ---- The machine ----------------------------------------------------------------------------- */

static void read_processor(char *out, size_t capacity) {
  (void)snprintf(out, capacity, "unknown processor");
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    (void)snprintf(out, capacity, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  (void)fclose(file);
}

void machine_describe(tdm_context *context, machine *out_machine) {
  *out_machine = (machine){.processing_units = (int)sysconf(_SC_NPROCESSORS_ONLN)};
  read_processor(out_machine->processor, sizeof out_machine->processor);
  size_t length = 0;
  for (size_t i = 0; i < tdm_device_count(context) && length < sizeof out_machine->devices; i++)
    length += (size_t)snprintf(out_machine->devices + length, sizeof out_machine->devices - length,
                               "%s%s", i ? " " : "", tdm_device_name_at(context, i));
  tdm_device_properties gpu = {.struct_size = sizeof gpu};
  if (tdm_device_count_of(context, "cuda") > 0 &&
      tdm_device_get_properties(context, "cuda:0", &gpu) == TDM_OK)
    (void)snprintf(out_machine->gpu, sizeof out_machine->gpu, "%s", gpu.model);
  const time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc))
    strftime(out_machine->utc, sizeof out_machine->utc, "%Y-%m-%d %H:%M UTC", &utc);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *machine_json(const machine *told) {
  return json_pack("{s:s, s:i, s:s, s:s, s:s}", "processor", told->processor, "processing_units",
                   told->processing_units, "devices", told->devices, "gpu", told->gpu, "measured",
                   told->utc);
}

static json_t *result_json(const result *item) {
  json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:s}", "case", item->case_name,
                             "memory", item->memory, "from", item->from, "to", item->to, "node",
                             item->node, "bytes", (json_int_t)item->bytes, "unit", item->unit);
  if (item->problem[0] != '\0') {
    json_object_set_new(object, "status", json_string("not measured"));
    json_object_set_new(object, "problem", json_string(item->problem));
    return object;
  }
  json_object_set_new(object, "status", json_string("verified"));
  json_object_set_new(object, "samples", json_integer(item->samples));
  json_object_set_new(object, "median", json_real(item->median));
  json_object_set_new(object, "low", json_real(item->low));
  json_object_set_new(object, "high", json_real(item->high));
  json_object_set_new(object, "p99", json_real(item->p99));
  json_object_set_new(object, "copy_ns", json_real(item->copy_ns));
  return object;
}

static size_t index_of(json_t *list, const char *name) {
  for (size_t i = 0; i < json_array_size(list); i++)
    if (strcmp(json_string_value(json_array_get(list, i)), name) == 0) return i;
  json_array_append_new(list, json_string(name));
  return json_array_size(list) - 1;
}

static bool same_matrix(const result *a, const result *b) {
  return a->bytes == b->bytes && strcmp(a->case_name, b->case_name) == 0 &&
         strcmp(a->memory, b->memory) == 0;
}

/* Returns the matrix of the case, memory and size of items[first]: rows, columns, medians (null
 * without a measurement), and their sum. */
static json_t *matrix_json(const results *list, size_t first) {
  const result *like = &list->items[first];
  json_t *rows = json_array();
  json_t *columns = json_array();
  json_t *cells = json_array();
  double sum = 0;
  bool complete = true;
  for (size_t i = first; i < list->count; i++) {
    if (!same_matrix(&list->items[i], like)) continue;
    (void)index_of(rows, list->items[i].from);
    (void)index_of(columns, list->items[i].to);
  }
  for (size_t i = 0; i < json_array_size(rows); i++) {
    json_t *row = json_array();
    for (size_t k = 0; k < json_array_size(columns); k++)
      json_array_append_new(row, json_null());
    json_array_append_new(cells, row);
  }
  for (size_t i = first; i < list->count; i++) {
    const result *item = &list->items[i];
    if (!same_matrix(item, like)) continue;
    complete &= item->problem[0] == '\0';
    if (item->problem[0] != '\0') continue;
    json_t *row = json_array_get(cells, index_of(rows, item->from));
    json_array_set_new(row, index_of(columns, item->to), json_real(item->median));
    sum += item->median;
  }
  return json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:f, s:s}", "case", like->case_name,
                   "memory", like->memory, "bytes", (json_int_t)like->bytes, "unit", like->unit,
                   "from", rows, "to", columns, "median", cells, "sum", sum, "status",
                   complete ? "verified" : "not measured in part");
}

static json_t *matrices_json(const results *list) {
  json_t *matrices = json_array();
  for (size_t i = 0; i < list->count; i++) {
    bool seen = false;
    for (size_t k = 0; k < i && !seen; k++)
      seen = same_matrix(&list->items[k], &list->items[i]);
    if (!seen) json_array_append_new(matrices, matrix_json(list, i));
  }
  return matrices;
}

static json_t *fits_json(const results *list) {
  json_t *fits = json_array();
  for (size_t i = 0; i < list->count; i++) {
    const result *item = &list->items[i];
    tdm_link link;
    double deviation;
    if (strcmp(item->unit, "GB/s") != 0 || !results_first_of_link(list, i)) continue;
    if (!results_fit(list, i, &link, &deviation)) continue;
    json_array_append_new(fits,
                          json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f}", "case", item->case_name,
                                    "memory", item->memory, "from", item->from, "to", item->to,
                                    "latency_ns", link.latency_ns, "bytes_per_ns",
                                    link.bytes_per_ns, "deviation", deviation));
  }
  return fits;
}

tdm_status json_print(FILE *out, const machine *told, const results *list, bool is_complete) {
  json_t *measurements = json_array();
  for (size_t i = 0; i < list->count; i++)
    json_array_append_new(measurements, result_json(&list->items[i]));
  json_t *root = json_pack(
      "{s:s, s:o, s:b, s:{s:i, s:i, s:i}, s:o, s:o, s:o}", "version", tdm_version(), "machine",
      machine_json(told), "complete", is_complete, "method", "warm_up_copies", WARM_UP_COPIES,
      "timed_copies", TIMED_COPIES, "timed_copies_below_1_MiB", TIMED_SMALL_COPIES, "matrices",
      matrices_json(list), "measurements", measurements, "links", fits_json(list));
  if (!root) return tdm_fail(TDM_OUT_OF_MEMORY, "the results as JSON");
  const int failed = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
  fputc('\n', out);
  json_decref(root);
  return failed == 0 ? TDM_OK : tdm_fail(TDM_IO, "the results could not be written as JSON");
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* Prints the text of a problem in quotes, with quotes inside doubled (RFC 4180). */
static void print_quoted(FILE *out, const char *text) {
  fputc('"', out);
  for (; *text != '\0'; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

static void csv_print(FILE *out, const results *list) {
  fputs("case,memory,from,to,node,bytes,unit,samples,median,low,high,p99,copy_ns,problem\n", out);
  for (size_t i = 0; i < list->count; i++) {
    const result *item = &list->items[i];
    fprintf(out, "%s,%s,%s,%s,%d,%zu,%s,%d,", item->case_name, item->memory, item->from, item->to,
            item->node, item->bytes, item->unit, item->samples);
    if (item->problem[0] == '\0') {
      fprintf(out, "%.6g,%.6g,%.6g,%.6g,%.6g,\n", item->median, item->low, item->high, item->p99,
              item->copy_ns);
    } else {
      fputs(",,,,,", out);
      print_quoted(out, item->problem);
      fputc('\n', out);
    }
  }
}

/* ---- Files ----------------------------------------------------------------------------------- */

tdm_status files_write(const transfer_options *given, const machine *told, const results *list,
                       bool is_complete) {
  output_file file;
  if (given->json_path) {
    TDM_TRY(output_begin("--save", given->json_path, &file));
    TDM_TRY(output_end(&file, json_print(file.stream, told, list, is_complete)));
  }
  if (!given->csv_path) return TDM_OK;
  TDM_TRY(output_begin("--save", given->csv_path, &file));
  csv_print(file.stream, list);
  return output_end(&file, TDM_OK);
}
