/* The links of a machine as a file:
 *
 *   {"format": "tandem links", "version": 2, "key": "0123456789abcdef", "links": [
 *     {"from": "cpu:0", "to": "cuda:0", "pinned": true, "latency_ns": 9000, "bytes_per_ns": 25,
 *      "latency_error_ns": 80, "ns_per_byte_error": 0.0001, "deviation": 0.02,
 *      "distances": [1048576, 8388608, 33554432],
 *      "knots": [[1024, 1.0, 1.1, 2.3, 2.9], [2048, 0.98, 1.1, 2.2, 2.7], ...]}, ...]}
 *
 * A job's file also has an all-reduce over its ranks, from and to "all ranks". Its links between
 * ranks have "both_ways": 1.6, unless the file was written before that was measured.
 *
 * Invariant: a file is accepted as a whole or not at all. All other fields are required and have to
 * be of their types and within bounds. Unknown fields and duplicate links are errors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/json_load.h"
#include "core/json_writer.h"
#include "core/whole_file.h"
#include "devices/context/context.h"
#include "devices/least_rate.h"
#include "devices/links/table.h"

enum { VERSION = 2, LINK_FIELDS = 10, FILE_FIELDS = 4, KEY_DIGITS = 16, FOLDER_MODE = 0755 };
static const char format_name[] = "tandem links";
static const char all_ranks[] = "all ranks";
static const size_t most_file_bytes = (size_t)16 << 20;
static const double most_ns = TDM_LINK_MOST_NS;
static const double most_bytes = TDM_LINK_MOST_BYTES;

/* ---- Names --------------------------------------------------------------------------------- */

static bool is_set(const char *text) {
  return text && text[0] != '\0';
}

static tdm_status put_path(char *path, size_t capacity, const char *folder, const char *below,
                           uint64_t key) {
  const int length =
      snprintf(path, capacity, "%s%s/links-%016llx.json", folder, below, (unsigned long long)key);
  if (length > 0 && (size_t)length < capacity) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the folder for caches has too long a name: %.100s",
                  folder);
}

tdm_status tdm_links_path(tdm_context *context, char *path, size_t capacity) {
  const char *const asked = getenv("TANDEM_LINKS");
  if (is_set(asked)) {
    if (strcmp(asked, "off") == 0) {
      return tdm_fail(TDM_UNAVAILABLE, "no file keeps the links: TANDEM_LINKS is off");
    }
    if (strlen(asked) >= capacity) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "TANDEM_LINKS is too long a name: %.100s", asked);
    }
    (void)snprintf(path, capacity, "%s", asked);
    return TDM_OK;
  }
  const uint64_t key = tdm_links_key(context);
  const char *const own = getenv("TANDEM_CACHE");
  const char *const shared = getenv("XDG_CACHE_HOME");
  const char *const home = getenv("HOME");
  if (is_set(own)) return put_path(path, capacity, own, "", key);
  /* A path that is not absolute has to be ignored (XDG Base Directory Specification). */
  if (is_set(shared) && shared[0] == '/') return put_path(path, capacity, shared, "/tandem", key);
  if (is_set(home)) return put_path(path, capacity, home, "/.cache/tandem", key);
  return tdm_fail(TDM_UNAVAILABLE,
                  "no folder for caches: TANDEM_CACHE, XDG_CACHE_HOME and HOME are not set");
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void put_link(tdm_json_writer *json, const char *from, const char *to, bool pinned,
                     const tdm_link_estimate *estimate) {
  tdm_json_open(json, NULL, '{');
  tdm_json_put_string(json, "from", from);
  tdm_json_put_string(json, "to", to);
  tdm_json_put_bool(json, "pinned", pinned);
  tdm_json_put_real(json, "latency_ns", estimate->link.latency_ns);
  tdm_json_put_real(json, "bytes_per_ns", estimate->link.bytes_per_ns);
  tdm_json_put_real(json, "latency_error_ns", estimate->latency_error_ns);
  tdm_json_put_real(json, "ns_per_byte_error", estimate->ns_per_byte_error);
  tdm_json_put_real(json, "deviation", estimate->deviation);
  if (estimate->both_ways > 0) tdm_json_put_real(json, "both_ways", estimate->both_ways);
  tdm_json_open(json, "distances", '[');
  for (size_t i = 0; i < TDM_LINK_DISTANCES; i++)
    tdm_json_put_real(json, NULL, estimate->distances[i]);
  tdm_json_close(json, ']');
  tdm_json_open(json, "knots", '[');
  for (uint32_t i = 0; i < estimate->knot_count; i++) {
    const tdm_link_knot *knot = &estimate->knots[i];
    tdm_json_open(json, NULL, '[');
    tdm_json_put_real(json, NULL, knot->bytes);
    for (size_t k = 0; k < TDM_LINK_STATES; k++)
      tdm_json_put_real(json, NULL, knot->ratios[k]);
    tdm_json_close(json, ']');
  }
  tdm_json_close(json, ']');
  tdm_json_close(json, '}');
}

static tdm_status write_bytes(void *file, const char *bytes, size_t size) {
  return tdm_whole_file_write(file, bytes, size);
}

static tdm_status write_links(tdm_context *context, tdm_whole_file *file) {
  char key[KEY_DIGITS + 1];
  (void)snprintf(key, sizeof(key), "%016llx", (unsigned long long)tdm_links_key(context));
  tdm_json_writer json;
  tdm_json_writer_init(&json, write_bytes, file);
  json.indent = 1;
  json.lines_depth = 3;
  tdm_json_open(&json, NULL, '{');
  tdm_json_put_string(&json, "format", format_name);
  tdm_json_put_integer(&json, "version", VERSION);
  tdm_json_put_string(&json, "key", key);
  tdm_json_open(&json, "links", '[');
  const size_t count = tdm_device_count(context);
  for (size_t i = 0; i < 2 * count * count; i++) {
    const tdm_device *from = tdm_context_device(context, i / 2 / count);
    const tdm_device *to = tdm_context_device(context, i / 2 % count);
    const bool pinned = i % 2 == 1;
    if (pinned && from->host_addressable == to->host_addressable) continue;
    tdm_link_estimate estimate;
    tdm_links_get(tdm_context_links(context), from, to, pinned, &estimate);
    if (estimate.origin == TDM_LINK_CALIBRATED)
      put_link(&json, from->name, to->name, pinned, &estimate);
  }
  tdm_link_estimate all_reduce;
  if (tdm_context_all_reduce(context, &all_reduce))
    put_link(&json, all_ranks, all_ranks, false, &all_reduce);
  tdm_json_close(&json, ']');
  tdm_json_close(&json, '}');
  return tdm_json_writer_finish(&json);
}

static tdm_status fail_system(const char *what, const char *path) {
  return tdm_fail(TDM_IO, "%s cannot be %s: %s", path, what, strerror(errno));
}

/* Creates every folder above the file. */
static tdm_status make_folders(const char *path) {
  char folder[4096];
  if (strlen(path) >= sizeof(folder)) return tdm_fail(TDM_INVALID_ARGUMENT, "too long a name");
  for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    const size_t length = (size_t)(slash - path);
    memcpy(folder, path, length);
    folder[length] = '\0';
    if (mkdir(folder, FOLDER_MODE) != 0 && errno != EEXIST) return fail_system("made", folder);
  }
  return TDM_OK;
}

tdm_status tdm_links_save(tdm_context *context, const char *path, bool make_folder) {
  if (make_folder) TDM_TRY(make_folders(path));
  tdm_whole_file *file;
  tdm_status status = tdm_whole_file_create(tdm_context_allocator(context), path, &file);
  if (status == TDM_OK) status = write_links(context, file);
  if (status == TDM_OK) status = tdm_whole_file_commit(file);
  tdm_whole_file_destroy(file);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "links: %.1000s", path);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static tdm_status fail_field(const char *field) {
  return tdm_fail(TDM_CORRUPT_DATA, "\"%s\" is missing or cannot be", field);
}

static tdm_status read_number(const json_t *object, const char *field, double least, double most,
                              double *out_number) {
  const json_t *value = json_object_get(object, field);
  *out_number = json_number_value(value);
  if (json_is_number(value) && *out_number >= least && *out_number <= most) return TDM_OK;
  return fail_field(field);
}

/* Reads 0 or a rate within bounds. */
static tdm_status read_rate(const json_t *object, const char *field, double *out_rate) {
  TDM_TRY(read_number(object, field, 0, most_bytes, out_rate));
  return *out_rate == 0 || *out_rate >= TDM_LEAST_BYTES_PER_NS ? TDM_OK : fail_field(field);
}

static tdm_device *read_device(tdm_context *context, const json_t *object, const char *field) {
  const char *name = json_string_value(json_object_get(object, field));
  for (size_t i = 0; name && i < tdm_device_count(context); i++) {
    tdm_device *device = tdm_context_device(context, i);
    if (strcmp(device->name, name) == 0) return device;
  }
  return NULL;
}

/* Reads exactly `count` numbers within bounds. */
static bool read_numbers(const json_t *list, size_t count, double least, double most,
                         double *out_numbers) {
  if (json_array_size(list) != count) return false; /* 0 if it is not an array */
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(list, i);
    out_numbers[i] = json_number_value(value);
    if (!json_is_number(value) || !(out_numbers[i] >= least && out_numbers[i] <= most))
      return false;
  }
  return true;
}

static tdm_status read_distances(const json_t *list, tdm_link_estimate *estimate) {
  double *distances = estimate->distances;
  if (!read_numbers(list, TDM_LINK_DISTANCES, 0, most_bytes, distances)) {
    return fail_field("distances");
  }
  bool none = distances[0] == 0;
  bool rising = distances[0] > 0;
  for (size_t i = 1; i < TDM_LINK_DISTANCES; i++) {
    none = none && distances[i] == 0;
    rising = rising && distances[i] > distances[i - 1];
  }
  if (!none && !rising) return fail_field("distances");
  return TDM_OK;
}

static tdm_status read_knots(const json_t *list, tdm_link_estimate *estimate) {
  const size_t count = json_array_size(list);
  if (count < 2 || count > TDM_LINK_MOST_KNOTS) return fail_field("knots");
  double last_bytes = 0;
  for (size_t i = 0; i < count; i++) {
    double values[1 + TDM_LINK_STATES];
    if (!read_numbers(json_array_get(list, i), TDM_COUNT_OF(values), TDM_LINK_LEAST_RATIO,
                      most_bytes, values) ||
        !(values[0] > last_bytes)) {
      return fail_field("knots");
    }
    last_bytes = values[0];
    estimate->knots[i].bytes = values[0];
    for (size_t k = 0; k < TDM_LINK_STATES; k++) {
      if (values[1 + k] > TDM_LINK_MOST_RATIO) return fail_field("knots");
      estimate->knots[i].ratios[k] = values[1 + k];
    }
  }
  estimate->knot_count = (uint32_t)count;
  return TDM_OK;
}

static bool is_all_ranks(const json_t *object, const char *field) {
  const char *name = json_string_value(json_object_get(object, field));
  return name && strcmp(name, all_ranks) == 0;
}

/* Finds the estimate for a link of the file, between two devices or over all ranks of a job. */
static tdm_status find_place(tdm_context *context, const json_t *object, tdm_link_set *set,
                             tdm_link_estimate **out_place) {
  const json_t *pinned = json_object_get(object, "pinned");
  *out_place = NULL;
  if (!json_is_boolean(pinned)) return fail_field("pinned");
  if (is_all_ranks(object, "from") && is_all_ranks(object, "to")) {
    if (tdm_context_rank_count(context) > 1) *out_place = &set->all_reduce;
    return TDM_OK;
  }
  const tdm_device *from = read_device(context, object, "from");
  const tdm_device *to = read_device(context, object, "to");
  if (!from) return fail_field("from");
  if (!to) return fail_field("to");
  *out_place = tdm_link_set_at(set, from, to, json_is_true(pinned));
  return TDM_OK;
}

static tdm_status read_link(tdm_context *context, const json_t *object, tdm_link_set *set) {
  const size_t has_both_ways = json_object_get(object, "both_ways") ? 1 : 0;
  if (json_object_size(object) != LINK_FIELDS + has_both_ways) return fail_field("links");
  tdm_link_estimate *found;
  TDM_TRY(find_place(context, object, set, &found));
  if (!found || found->origin == TDM_LINK_CALIBRATED) return fail_field("links");
  tdm_link_estimate estimate = {.origin = TDM_LINK_CALIBRATED};
  TDM_TRY(read_number(object, "latency_ns", 0, most_ns, &estimate.link.latency_ns));
  TDM_TRY(read_rate(object, "bytes_per_ns", &estimate.link.bytes_per_ns));
  TDM_TRY(read_number(object, "latency_error_ns", 0, most_ns, &estimate.latency_error_ns));
  TDM_TRY(read_number(object, "ns_per_byte_error", 0, most_ns, &estimate.ns_per_byte_error));
  TDM_TRY(read_number(object, "deviation", 0, TDM_LINK_MOST_RATIO, &estimate.deviation));
  if (has_both_ways)
    TDM_TRY(read_number(object, "both_ways", 1, TDM_LINK_MOST_RATIO, &estimate.both_ways));
  TDM_TRY(read_distances(json_object_get(object, "distances"), &estimate));
  TDM_TRY(read_knots(json_object_get(object, "knots"), &estimate));
  *found = estimate;
  set->known_count++;
  return TDM_OK;
}

/* Checks the frame of a file of links of any machine, and returns its key and its list, both
 * borrowed. */
static tdm_status read_frame(const json_t *root, const char **out_key, const json_t **out_list) {
  const char *format = json_string_value(json_object_get(root, "format"));
  const json_t *version = json_object_get(root, "version");
  *out_key = json_string_value(json_object_get(root, "key"));
  *out_list = json_object_get(root, "links");
  if (json_object_size(root) != FILE_FIELDS) return fail_field("format");
  if (!format || strcmp(format, format_name) != 0) return fail_field("format");
  if (!json_is_integer(version) || json_integer_value(version) != VERSION) {
    return fail_field("version");
  }
  if (!*out_key || strlen(*out_key) != KEY_DIGITS) return fail_field("key");
  return json_is_array(*out_list) ? TDM_OK : fail_field("links");
}

static tdm_status read_file(tdm_context *context, const json_t *root, tdm_link_set *set) {
  const char *key;
  const json_t *list;
  TDM_TRY(read_frame(root, &key, &list));
  char own_key[KEY_DIGITS + 1];
  (void)snprintf(own_key, sizeof(own_key), "%016llx", (unsigned long long)tdm_links_key(context));
  if (strcmp(key, own_key) != 0) {
    return tdm_fail(TDM_UNAVAILABLE, "of another machine or other devices (%.16s, not %s)", key,
                    own_key);
  }
  for (size_t i = 0; i < json_array_size(list); i++)
    TDM_TRY(read_link(context, json_array_get(list, i), set));
  return TDM_OK;
}

tdm_status tdm_links_load(tdm_context *context, const char *path) {
  json_t *root;
  TDM_TRY(
      tdm_json_load_file(tdm_context_allocator(context), "links", path, most_file_bytes, &root));
  tdm_link_set set;
  tdm_status status = tdm_link_set_init(&set, tdm_context_links(context));
  if (status == TDM_OK) status = read_file(context, root, &set);
  if (status == TDM_OK) {
    tdm_link_set_publish(&set);
  } else {
    status = tdm_fail_within(status, "%s", path);
  }
  tdm_link_set_deinit(&set);
  json_decref(root);
  return status;
}

bool tdm_links_file_has_key(tdm_context *context, const char *path, uint64_t key) {
  json_t *root;
  if (tdm_json_load_file(tdm_context_allocator(context), "links", path, most_file_bytes, &root) !=
      TDM_OK)
    return false;
  const char *text;
  const json_t *list;
  char wanted[KEY_DIGITS + 1];
  (void)snprintf(wanted, sizeof(wanted), "%016llx", (unsigned long long)key);
  const bool has = read_frame(root, &text, &list) == TDM_OK && strcmp(text, wanted) == 0;
  json_decref(root);
  return has;
}
