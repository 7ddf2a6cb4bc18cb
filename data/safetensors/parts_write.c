/* Saves tensors in several files with an index. Invariant: files that the old index names stay
 * unchanged until the new index has replaced it. So `path` always refers to the whole old set or
 * the whole new one. Afterwards, files that only the old index named are removed. A failing save
 * removes what it has written, unless the new index is already in place. */
#define _GNU_SOURCE /* O_CLOEXEC */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/json_load.h"
#include "core/json_writer.h"
#include "core/last_failure.h"
#include "core/whole_file.h"
#include "data/safetensors/parts.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

enum { MOST_PARTS = 99999, MOST_SETS = 10000, SUFFIX_BYTES = 48 };

typedef struct part_writer {
  tdm_context *context;
  const tdm_allocator *allocator;
  const tdm_tensor_list *list;
  const char *path;
  size_t *ends; /* (count) tensors before the end of each part */
  size_t capacity;
  size_t count;
  unsigned set;      /* number of the set of names in use */
  char *name;        /* a part's name with its folder: the stem, then the suffix */
  size_t name_bytes; /* capacity of name */
  size_t stem;       /* bytes of name before the suffix */
  size_t folder;     /* bytes of the folder within the stem */
} part_writer;

/* ---- Distributing tensors to parts ----------------------------------------------------------- */

/* Distributes the tensors, in the list's order, to parts of at most part_bytes or one tensor. */
static tdm_status cut(part_writer *self, int64_t part_bytes) {
  const size_t count = tdm_tensor_list_count(self->list);
  self->capacity = count + 1;
  self->ends = tdm_allocate(self->allocator, self->capacity * sizeof *self->ends, "parts");
  if (!self->ends) return TDM_OUT_OF_MEMORY;
  int64_t filled = 0;
  for (size_t i = 0; i < count; i++) {
    const int64_t bytes = (int64_t)tdm_tensor_bytes(tdm_tensor_list_tensor(self->list, i));
    if (i == 0 || bytes > part_bytes - filled) {
      self->count++;
      filled = 0;
    }
    filled += bytes;
    self->ends[self->count - 1] = i + 1;
  }
  if (self->count <= MOST_PARTS) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%zu files of %lld bytes each are over %d", self->count,
                  (long long)part_bytes, (int)MOST_PARTS);
}

static size_t first_of(const part_writer *self, size_t part) {
  return part == 0 ? 0 : self->ends[part - 1];
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Returns a part's name with the folder: "model-00001-of-00002.safetensors", or
 * "model-s1-00001-of-..." for later sets. */
static const char *name_part(const part_writer *self, size_t part) {
  char set[16] = "";
  if (self->set > 0) (void)snprintf(set, sizeof set, "-s%u", self->set);
  (void)snprintf(self->name + self->stem, self->name_bytes - self->stem,
                 "%s-%05zu-of-%05zu.safetensors", set, part + 1, self->count);
  return self->name;
}

static tdm_status make_stem(part_writer *self) {
  const size_t length = strlen(self->path);
  const char *slash = strrchr(self->path, '/');
  self->stem = length - strlen(TDM_SAFETENSORS_INDEX);
  self->folder = slash ? (size_t)(slash - self->path) + 1 : 0;
  self->name_bytes = length + SUFFIX_BYTES;
  self->name = tdm_allocate(self->allocator, self->name_bytes, "a path");
  if (!self->name) return TDM_OUT_OF_MEMORY;
  memcpy(self->name, self->path, self->stem);
  if (self->stem > self->folder && self->name[self->folder] != '.') return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "an index is called NAME%s", TDM_SAFETENSORS_INDEX);
}

/* Creates the set's first file, which reserves the set. *out_taken is false if another save was
 * first. */
static tdm_status take_set(part_writer *self, bool *out_taken) {
  const char *name = name_part(self, 0);
  const int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  *out_taken = descriptor >= 0;
  if (*out_taken) (void)close(descriptor);
  if (*out_taken || errno == EEXIST || errno == EINTR) return TDM_OK;
  return tdm_fail(TDM_IO, "cannot create %s: %s", name, strerror(errno));
}

/* Reserves the first set of which no file exists. */
static tdm_status find_set(part_writer *self) {
  for (self->set = 0; self->set < MOST_SETS; self->set++) {
    bool is_free = true;
    for (size_t p = 0; p < self->count && is_free; p++)
      is_free = access(name_part(self, p), F_OK) != 0;
    if (is_free) TDM_TRY(take_set(self, &is_free));
    if (is_free) return TDM_OK;
  }
  return tdm_fail(TDM_IO, "%d sets of parts are next to the index", (int)MOST_SETS);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static tdm_status write_part(part_writer *self, size_t part) {
  tdm_tensor_list *list = tdm_tensor_list_create(self->context);
  if (!list) return TDM_OUT_OF_MEMORY;
  tdm_status status = TDM_OK;
  for (size_t i = first_of(self, part); i < self->ends[part] && status == TDM_OK; i++)
    status = tdm_tensor_list_add(list, tdm_tensor_list_name(self->list, i),
                                 tdm_tensor_list_tensor(self->list, i));
  if (status == TDM_OK) status = tdm_safetensors_save(list, name_part(self, part));
  tdm_tensor_list_release(list);
  return status;
}

static tdm_status write_bytes(void *file, const char *bytes, size_t size) {
  return tdm_whole_file_write(file, bytes, size);
}

static tdm_status write_map(part_writer *self, tdm_whole_file *file) {
  int64_t total = 0;
  for (size_t i = 0; i < tdm_tensor_list_count(self->list); i++)
    total += (int64_t)tdm_tensor_bytes(tdm_tensor_list_tensor(self->list, i));
  tdm_json_writer json;
  tdm_json_writer_init(&json, write_bytes, file);
  json.indent = 2;
  json.lines_depth = 2;
  tdm_json_open(&json, NULL, '{');
  tdm_json_open(&json, "metadata", '{');
  tdm_json_put_integer(&json, "total_size", total);
  tdm_json_close(&json, '}');
  tdm_json_open(&json, "weight_map", '{');
  for (size_t p = 0; p < self->count; p++)
    for (size_t i = first_of(self, p); i < self->ends[p]; i++)
      tdm_json_put_string(&json, tdm_tensor_list_name(self->list, i),
                          name_part(self, p) + self->folder);
  tdm_json_close(&json, '}');
  tdm_json_close(&json, '}');
  return tdm_json_writer_finish(&json);
}

/* *out_in_place is true if path is the new index, which is possible even after a failure. */
static tdm_status write_index(part_writer *self, bool *out_in_place) {
  tdm_whole_file *file;
  TDM_TRY(tdm_whole_file_create(self->allocator, self->path, &file));
  tdm_status status = write_map(self, file);
  if (status == TDM_OK) status = tdm_whole_file_commit(file);
  *out_in_place = tdm_whole_file_is_in_place(file);
  tdm_whole_file_destroy(file);
  return status;
}

/* ---- The set of before, and all of it
 * ----------------------------------------------------------------------- */

/* Reads the index that is at path. Returns NULL if there is none or it cannot be read, which is no
 * failure. */
static json_t *read_old(const part_writer *self) {
  json_t *root = NULL;
  tdm_last_failure before;
  if (access(self->path, F_OK) != 0) return NULL;
  tdm_last_failure_keep(&before);
  if (tdm_json_load_file(self->allocator, "the index of before", self->path,
                         TDM_SAFETENSORS_HEADER_LIMIT_BYTES, &root) != TDM_OK)
    tdm_last_failure_restore(&before);
  return root;
}

/* Removes files of the old index, but only those that begin with this index's stem. */
static void remove_old(part_writer *self, json_t *old) {
  const char *stem = self->path + self->folder;
  const size_t length = self->stem - self->folder;
  const char *name;
  json_t *file;
  json_object_foreach(json_object_get(old, "weight_map"), name, file) {
    const char *part = json_string_value(file);
    if (!part || !tdm_safetensors_is_part_name(part)) continue;
    if (strncmp(part, stem, length) != 0 || part[length] != '-') continue;
    bool is_new = false;
    for (size_t p = 0; p < self->count && !is_new; p++)
      is_new = strcmp(name_part(self, p) + self->folder, part) == 0;
    char path[4096];
    const int bytes = snprintf(path, sizeof path, "%.*s%s", (int)self->folder, self->path, part);
    if (!is_new && bytes > 0 && (size_t)bytes < sizeof path) (void)unlink(path);
  }
}

/* Reads the old index as late as possible, because another save may have replaced it. */
static tdm_status write_all(part_writer *self) {
  size_t written = 0;
  bool in_place = false;
  json_t *old = NULL;
  tdm_status status = TDM_OK;
  while (written < self->count && status == TDM_OK)
    status = write_part(self, written++);
  if (status == TDM_OK) {
    old = read_old(self);
    status = write_index(self, &in_place);
  }
  if (status == TDM_OK) remove_old(self, old);
  for (size_t p = 0; p < written && status != TDM_OK && !in_place; p++)
    (void)unlink(name_part(self, p));
  json_decref(old);
  return status;
}

static tdm_status save_parts(part_writer *self, int64_t part_bytes) {
  TDM_TRY(make_stem(self));
  TDM_TRY(cut(self, part_bytes));
  TDM_TRY(find_set(self));
  return write_all(self);
}

tdm_status tdm_safetensors_save_parts(const tdm_tensor_list *list, const char *path,
                                      int64_t part_bytes) {
  if (!list) return tdm_fail_null("safetensors: the list");
  if (!tdm_safetensors_is_index(path) || part_bytes < 1)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "safetensors: parts of %lld bytes and the path %s: at least 1 byte, and a path "
                    "that ends in %s, are wanted",
                    (long long)part_bytes, path ? path : "NULL", TDM_SAFETENSORS_INDEX);
  const tdm_status supported = tdm_tensor_list_check_supported(list);
  if (supported != TDM_OK) return tdm_fail_within(supported, "%s", path);
  const tdm_tensor *first = tdm_tensor_list_tensor(list, 0);
  if (!first) return tdm_fail(TDM_INVALID_ARGUMENT, "%s: there is nothing to save in parts", path);
  part_writer self = {.context = first->storage->context,
                      .allocator = tdm_context_allocator(first->storage->context),
                      .list = list,
                      .path = path};
  const tdm_status status = save_parts(&self, part_bytes);
  tdm_release(self.allocator, self.ends, self.capacity * sizeof *self.ends);
  tdm_release(self.allocator, self.name, self.name_bytes);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", path);
}
