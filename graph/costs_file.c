/* Measured kernel times as a file:
 *
 *   {"format": "tandem costs", "version": 1, "kernels": [
 *     {"device": "cpu/1", "kernel": "relu#0(...) -> (...)", "alone_ns": 9, "crowded_ns": 12}, ...]}
 *
 * Invariant: a file is taken as a whole or not at all; what is wrong with it is named. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/costs.h"

enum { VERSION = 1 };
static const char format_name[] = "tandem costs";
static const double most_ns = 1e15;

/* ---- Writing ---- */

static json_t *kernel_to_json(const tdm_cost_entry *entry) {
  const char *space = strchr(entry->key, ' ');
  json_t *object = json_pack("{s:s%, s:s}", "device", entry->key, (size_t)(space - entry->key),
                             "kernel", space + 1);
  if (object && entry->cost.alone_ns > 0)
    json_object_set_new(object, "alone_ns", json_real(entry->cost.alone_ns));
  if (object && entry->cost.crowded_ns > 0)
    json_object_set_new(object, "crowded_ns", json_real(entry->cost.crowded_ns));
  return object;
}

tdm_status tdm_costs_save(const tdm_costs *costs, const char *path) {
  if (!costs || !path) return tdm_fail(TDM_INVALID_ARGUMENT, "no costs or no path");
  json_t *kernels = json_array();
  for (const tdm_cost_entry *entry = costs->first; entry; entry = entry->next)
    json_array_append_new(kernels, kernel_to_json(entry));
  json_t *root = json_pack("{s:s, s:i, s:o}", "format", format_name, "version", (int)VERSION,
                           "kernels", kernels);
  if (!root) return tdm_fail(TDM_OUT_OF_MEMORY, "costs as JSON");
  const int failed = json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(root);
  return failed ? tdm_fail(TDM_IO, "%s: costs could not be written", path) : TDM_OK;
}

/* ---- Reading ---- */

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
  if (!device || !device[0] || strchr(device, ' ') || !kernel || !kernel[0] ||
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
  FILE *file = fopen(path, "rb");
  if (!file) return tdm_fail(TDM_IO, "%s: costs cannot be read", path);
  json_error_t error;
  json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
  (void)fclose(file);
  if (!root)
    return tdm_fail(TDM_CORRUPT_DATA, "%s:%d: is no JSON: %s", path, error.line, error.text);
  const tdm_status status = read_file(costs, path, root);
  json_decref(root);
  return status;
}
