/* The links of a machine as a file:
 *
 *   {"format": "tandem links", "version": 3, "key": "0123456789abcdef", "links": [
 *     {"from": "cpu:0", "to": "cuda:0", "pinned": true, "latency_ns": 9000, "bytes_per_ns": 25,
 *      "both_ways": 0, "far_bytes": 33554432, "knots": [[1024, 1.0, 2.3, 2.9], ...]}, ...]}
 *
 * A job's file also has an all-reduce over its ranks, from and to "all ranks".
 *
 * Invariant: a file is accepted as a whole or not at all. All fields are required and have to be of
 * their types and within bounds. Unknown fields and duplicate links are errors. */
#include <errno.h>
#include <stddef.h>
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

enum { VERSION = 3, LINK_FIELDS = 8, FILE_FIELDS = 4, KEY_BYTES = 17, FOLDER_MODE = 0755 };
static const char format_name[] = "tandem links";
static const char all_ranks[] = "all ranks";
static const size_t most_file_bytes = (size_t)16 << 20;

/* The numbers of an estimate: 0 to most. */
typedef struct figure {
  const char *name;
  size_t offset;
  double most;
} figure;

static const figure figures[] = {
    {"latency_ns", offsetof(tdm_link_estimate, link.latency_ns), TDM_LINK_MOST_NS},
    {"bytes_per_ns", offsetof(tdm_link_estimate, link.bytes_per_ns), TDM_LINK_MOST_BYTES},
    {"both_ways", offsetof(tdm_link_estimate, both_ways), TDM_LINK_MOST_RATIO},
    {"far_bytes", offsetof(tdm_link_estimate, far_bytes), TDM_LINK_MOST_BYTES},
};

/* ---- Names ----------------------------------------------------------------------------------- */

tdm_status tdm_links_path(tdm_context *context, char *path, size_t capacity) {
  const struct {
    const char *variable, *below;
    bool is_absolute; /* others are ignored (XDG Base Directory Specification) */
  } folders[] = {{"TANDEM_CACHE", "", false},
                 {"XDG_CACHE_HOME", "/tandem", true},
                 {"HOME", "/.cache/tandem", false}};
  const char *named = getenv("TANDEM_LINKS");
  int length = 0;
  if (named && strcmp(named, "off") == 0)
    return tdm_fail(TDM_UNAVAILABLE, "no file keeps the links: TANDEM_LINKS is off");
  if (named && named[0] != '\0') length = snprintf(path, capacity, "%s", named);
  for (size_t i = 0; i < TDM_COUNT_OF(folders) && length == 0; i++) {
    const char *folder = getenv(folders[i].variable);
    if (!folder || folder[0] == '\0' || (folders[i].is_absolute && folder[0] != '/')) continue;
    length = snprintf(path, capacity, "%s%s/links-%016llx.json", folder, folders[i].below,
                      (unsigned long long)tdm_links_key(context));
  }
  if (length == 0)
    return tdm_fail(TDM_UNAVAILABLE,
                    "no folder for caches: TANDEM_CACHE, XDG_CACHE_HOME and HOME are not set");
  if (length > 0 && (size_t)length < capacity) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the file for links has too long a name: %.100s", path);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_link(tdm_json_writer *json, const char *from, const char *to, bool pinned,
                     const tdm_link_estimate *estimate) {
  tdm_json_open(json, NULL, '{');
  tdm_json_put_string(json, "from", from);
  tdm_json_put_string(json, "to", to);
  tdm_json_put_bool(json, "pinned", pinned);
  for (size_t i = 0; i < TDM_COUNT_OF(figures); i++)
    tdm_json_put_real(json, figures[i].name,
                      *(const double *)((const char *)estimate + figures[i].offset));
  tdm_json_open(json, "knots", '[');
  for (uint32_t i = 0; i < estimate->knot_count; i++) {
    tdm_json_open(json, NULL, '[');
    tdm_json_put_real(json, NULL, estimate->knots[i].bytes);
    for (size_t k = 0; k < TDM_LINK_STATES; k++)
      tdm_json_put_real(json, NULL, estimate->knots[i].ratios[k]);
    tdm_json_close(json, ']');
  }
  tdm_json_close(json, ']');
  tdm_json_close(json, '}');
}

static tdm_status write_bytes(void *file, const char *bytes, size_t size) {
  return tdm_whole_file_write(file, bytes, size);
}

static void key_text(tdm_context *context, char *text) {
  (void)snprintf(text, KEY_BYTES, "%016llx", (unsigned long long)tdm_links_key(context));
}

static tdm_status write_links(tdm_context *context, tdm_whole_file *file) {
  char key[KEY_BYTES];
  key_text(context, key);
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
  tdm_link_estimate estimate;
  for (size_t i = 0; i < 2 * count * count; i++) {
    const tdm_device *from = tdm_context_device(context, i / 2 / count);
    const tdm_device *to = tdm_context_device(context, i / 2 % count);
    const bool pinned = i % 2 == 1;
    if (!tdm_links_at(tdm_context_links(context), from, to, pinned)) continue;
    tdm_context_link(context, from, to, pinned, &estimate);
    if (estimate.origin == TDM_LINK_CALIBRATED)
      put_link(&json, from->name, to->name, pinned, &estimate);
  }
  if (tdm_context_all_reduce(context, &estimate))
    put_link(&json, all_ranks, all_ranks, false, &estimate);
  tdm_json_close(&json, ']');
  tdm_json_close(&json, '}');
  return tdm_json_writer_finish(&json);
}

/* Creates every folder above the file. */
static tdm_status make_folders(const char *path) {
  char folder[4096];
  if (strlen(path) >= sizeof folder) return tdm_fail(TDM_INVALID_ARGUMENT, "too long a name");
  for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (mkdir(folder, FOLDER_MODE) != 0 && errno != EEXIST)
      return tdm_fail(TDM_IO, "%s cannot be made: %s", folder, strerror(errno));
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

/* ---- Reading --------------------------------------------------------------------------------- */

static tdm_status fail_field(const char *field) {
  return tdm_fail(TDM_CORRUPT_DATA, "\"%s\" is missing or cannot be", field);
}

static bool read_number(const json_t *value, double least, double most, double *out_number) {
  *out_number = json_number_value(value);
  return json_is_number(value) && *out_number >= least && *out_number <= most;
}

static bool is_text(const json_t *object, const char *field, const char *wanted) {
  const char *text = json_string_value(json_object_get(object, field));
  return text && strcmp(text, wanted) == 0;
}

static tdm_device *read_device(tdm_context *context, const json_t *object, const char *field) {
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    tdm_device *device = tdm_context_device(context, i);
    if (is_text(object, field, device->name)) return device;
  }
  return NULL;
}

static tdm_status read_knot(const json_t *list, double after_bytes, tdm_link_knot *knot) {
  bool is_valid = json_array_size(list) == 1 + TDM_LINK_STATES && /* 0 if it is not an array */
                  read_number(json_array_get(list, 0), 0, TDM_LINK_MOST_BYTES, &knot->bytes) &&
                  knot->bytes > after_bytes;
  for (size_t k = 0; k < TDM_LINK_STATES && is_valid; k++)
    is_valid = read_number(json_array_get(list, 1 + k), TDM_LINK_LEAST_RATIO, TDM_LINK_MOST_RATIO,
                           &knot->ratios[k]);
  return is_valid ? TDM_OK : fail_field("knots");
}

static tdm_status read_estimate(const json_t *object, tdm_link_estimate *estimate) {
  for (size_t i = 0; i < TDM_COUNT_OF(figures); i++) {
    double *number = (double *)((char *)estimate + figures[i].offset);
    if (!read_number(json_object_get(object, figures[i].name), 0, figures[i].most, number))
      return fail_field(figures[i].name);
  }
  const double rate = estimate->link.bytes_per_ns;
  if (rate > 0 && rate < TDM_LEAST_BYTES_PER_NS) return fail_field("bytes_per_ns");
  const json_t *knots = json_object_get(object, "knots");
  const size_t count = json_array_size(knots);
  if (count < 2 || count > TDM_LINK_MOST_KNOTS) return fail_field("knots");
  for (size_t i = 0; i < count; i++)
    TDM_TRY(read_knot(json_array_get(knots, i), i > 0 ? estimate->knots[i - 1].bytes : 0,
                      &estimate->knots[i]));
  estimate->knot_count = (uint32_t)count;
  return TDM_OK;
}

static tdm_status read_link(tdm_context *context, const json_t *object, tdm_links *links) {
  const json_t *pinned = json_object_get(object, "pinned");
  tdm_link_estimate estimate = {.origin = TDM_LINK_CALIBRATED};
  tdm_link_estimate *place = NULL;
  if (json_object_size(object) != LINK_FIELDS) return fail_field("links");
  if (!json_is_boolean(pinned)) return fail_field("pinned");
  if (is_text(object, "from", all_ranks) && is_text(object, "to", all_ranks)) {
    if (tdm_context_rank_count(context) > 1) place = tdm_links_all_reduce(links);
  } else {
    const tdm_device *from = read_device(context, object, "from");
    const tdm_device *to = read_device(context, object, "to");
    if (!from || !to) return fail_field(from ? "to" : "from");
    place = tdm_links_at(links, from, to, json_is_true(pinned));
  }
  if (!place || place->origin == TDM_LINK_CALIBRATED) return fail_field("links");
  TDM_TRY(read_estimate(object, &estimate));
  *place = estimate;
  return TDM_OK;
}

static tdm_status read_file(tdm_context *context, const json_t *root, tdm_links *links) {
  const json_t *version = json_object_get(root, "version");
  const char *key = json_string_value(json_object_get(root, "key"));
  const json_t *list = json_object_get(root, "links");
  char own_key[KEY_BYTES];
  if (json_object_size(root) != FILE_FIELDS) return fail_field("format");
  if (!is_text(root, "format", format_name)) return fail_field("format");
  if (!json_is_integer(version) || json_integer_value(version) != VERSION)
    return fail_field("version");
  if (!key || strlen(key) != KEY_BYTES - 1) return fail_field("key");
  if (!json_is_array(list)) return fail_field("links");
  key_text(context, own_key);
  if (strcmp(key, own_key) != 0)
    return tdm_fail(TDM_UNAVAILABLE, "of another machine or other devices (%s, not %s)", key,
                    own_key);
  for (size_t i = 0; i < json_array_size(list); i++)
    TDM_TRY(read_link(context, json_array_get(list, i), links));
  return TDM_OK;
}

tdm_status tdm_links_load(tdm_context *context, const char *path) {
  json_t *root;
  TDM_TRY(
      tdm_json_load_file(tdm_context_allocator(context), "links", path, most_file_bytes, &root));
  tdm_links *read;
  tdm_status status = tdm_links_create(context, &read);
  if (status == TDM_OK) status = read_file(context, root, read);
  if (status == TDM_OK)
    tdm_links_adopt(tdm_context_links(context), read);
  else
    status = tdm_fail_within(status, "%s", path);
  tdm_links_destroy(read);
  json_decref(root);
  return status;
}
