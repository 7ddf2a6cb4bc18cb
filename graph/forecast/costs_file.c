/* Measured kernel times as a file:
 *
 *   {"format": "tandem costs", "version": 1, "kernels": [
 *     {"device": "cpu/1", "kernel": "relu#0(...) -> (...)", "alone_ns": 9, "crowded_ns": 12}, ...]}
 *
 * Invariant: a file is accepted as a whole or not at all; the message names the error. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/json_load.h"
#include "core/json_writer.h"
#include "core/whole_file.h"
#include "graph/forecast/costs.h"

enum { VERSION = 1 };
static const char format_name[] = "tandem costs";
static const double most_ns = 1e15;
static const size_t most_file_bytes = (size_t)1 << 28;

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_kernel(tdm_json_writer *json, const tdm_cost_entry *entry) {
  char device[TDM_COST_KEY];
  (void)snprintf(device, sizeof device, "%.*s", (int)entry->class_bytes, entry->key);
  tdm_json_open(json, NULL, '{');
  tdm_json_put_string(json, "device", device);
  tdm_json_put_string(json, "kernel", entry->key + entry->class_bytes + 1);
  if (entry->cost.alone_ns > 0) tdm_json_put_real(json, "alone_ns", entry->cost.alone_ns);
  if (entry->cost.crowded_ns > 0) tdm_json_put_real(json, "crowded_ns", entry->cost.crowded_ns);
  tdm_json_close(json, '}');
}

static tdm_status write_bytes(void *file, const char *bytes, size_t size) {
  return tdm_whole_file_write(file, bytes, size);
}

static tdm_status write_costs(const tdm_costs *costs, tdm_whole_file *file) {
  tdm_json_writer json;
  tdm_json_writer_init(&json, write_bytes, file);
  json.indent = 1;
  tdm_json_open(&json, NULL, '{');
  tdm_json_put_string(&json, "format", format_name);
  tdm_json_put_integer(&json, "version", VERSION);
  tdm_json_open(&json, "kernels", '[');
  for (const tdm_cost_entry *entry = costs->first; entry; entry = entry->next)
    put_kernel(&json, entry);
  tdm_json_close(&json, ']');
  tdm_json_close(&json, '}');
  return tdm_json_writer_finish(&json);
}

tdm_status tdm_costs_save(const tdm_costs *costs, const char *path) {
  if (!costs || !path) return tdm_fail(TDM_INVALID_ARGUMENT, "no costs or no path");
  tdm_whole_file *file;
  tdm_status status = tdm_whole_file_create(costs->allocator, path, &file);
  if (status == TDM_OK) status = write_costs(costs, file);
  if (status == TDM_OK) status = tdm_whole_file_commit(file);
  tdm_whole_file_destroy(file);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s: costs", path);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static tdm_status read_ns(const char *path, size_t index, json_t *object, const char *field,
                          double *ns) {
  json_t *value = json_object_get(object, field);
  if (!value) return TDM_OK;
  const double found = json_number_value(value);
  if (!json_is_number(value) || !(found > 0 && found < most_ns))
    return tdm_fail(TDM_CORRUPT_DATA, "%s: kernel %zu: %s is no time", path, index, field);
  *ns = found;
  return TDM_OK;
}

static tdm_status read_kernel(tdm_costs *costs, const char *path, size_t index, json_t *object) {
  const char *device = json_string_value(json_object_get(object, "device"));
  const char *kernel = json_string_value(json_object_get(object, "kernel"));
  if (!device || !device[0] || strchr(device, '\n') || !kernel || !kernel[0] ||
      strlen(device) + strlen(kernel) + 2 > TDM_COST_KEY)
    return tdm_fail(TDM_CORRUPT_DATA, "%s: kernel %zu: no device or no kernel", path, index);
  tdm_cost cost = {0};
  TDM_TRY(read_ns(path, index, object, "alone_ns", &cost.alone_ns));
  TDM_TRY(read_ns(path, index, object, "crowded_ns", &cost.crowded_ns));
  return costs ? tdm_costs_put(costs, device, kernel, cost) : TDM_OK;
}

/* costs NULL: only checks. */
static tdm_status read_kernels(tdm_costs *costs, const char *path, json_t *kernels) {
  size_t index;
  json_t *object;
  json_array_foreach(kernels, index, object) {
    TDM_TRY(read_kernel(costs, path, index, object));
  }
  return TDM_OK;
}

static tdm_status read_file(tdm_costs *costs, const char *path, json_t *root) {
  const char *format = json_string_value(json_object_get(root, "format"));
  json_t *kernels = json_object_get(root, "kernels");
  if (!format || strcmp(format, format_name) != 0 || !json_is_array(kernels))
    return tdm_fail(TDM_CORRUPT_DATA, "%s: is no file of \"%s\"", path, format_name);
  if (json_integer_value(json_object_get(root, "version")) != VERSION)
    return tdm_fail(TDM_CORRUPT_DATA, "%s: is of another version than %d", path, (int)VERSION);
  TDM_TRY(read_kernels(NULL, path, kernels));
  return read_kernels(costs, path, kernels);
}

tdm_status tdm_costs_load(tdm_costs *costs, const char *path) {
  if (!costs || !path) return tdm_fail(TDM_INVALID_ARGUMENT, "no costs or no path");
  json_t *root;
  TDM_TRY(tdm_json_load_file(costs->allocator, "costs", path, most_file_bytes, &root));
  const tdm_status status = read_file(costs, path, root);
  json_decref(root);
  return status;
}
