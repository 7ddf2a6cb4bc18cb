/* Reads tensors from the files that an index names. Invariant: see parts.h. Either all tensors of
 * the index are read or none. */
#include "data/safetensors/parts.h"

#include <stdio.h>
#include <string.h>

#include "core/json_load.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

enum { MOST_NAME = 255 }; /* limit of a file's name in file systems */

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

bool tdm_safetensors_is_index(const char *path) {
  return path && ends_with(path, TDM_SAFETENSORS_INDEX);
}

bool tdm_safetensors_is_part_name(const char *name) {
  return name[0] != '.' && !strchr(name, '/') && strlen(name) <= MOST_NAME &&
         ends_with(name, ".safetensors");
}

/* ---- The index ------------------------------------------------------------------------------- */

/* *out_map is the object from names to files; root owns it. */
static tdm_status check_index(json_t *root, json_t **out_map) {
  *out_map = json_object_get(root, "weight_map");
  if (!json_is_object(*out_map))
    return tdm_fail(TDM_CORRUPT_DATA, "no index: weight_map, an object of names and files, is "
                                      "missing");
  const char *name;
  json_t *file;
  json_object_foreach(*out_map, name, file) {
    const char *text = json_string_value(file);
    if (!text)
      return tdm_fail(TDM_CORRUPT_DATA, "weight_map: the file of \"%.80s\" is no text", name);
    if (!tdm_safetensors_is_part_name(text))
      return tdm_fail(
          TDM_CORRUPT_DATA,
          "weight_map: \"%.80s\" of \"%.80s\" is not the name of a .safetensors file next to "
          "the index",
          text, name);
  }
  return TDM_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct parts {
  tdm_context *context;
  const char *folder;
  tdm_safetensors_reader reader;
  json_t *map;
  json_t *taken; /* names of the files that were read, as keys */
  tdm_tensor_list *list;
} parts;

/* Adds all tensors of a file, which must be those that the index lists for it. */
static tdm_status add_part(parts *self, const char *file, const tdm_tensor_list *part) {
  for (size_t i = 0; i < tdm_tensor_list_count(part); i++) {
    const char *name = tdm_tensor_list_name(part, i);
    const char *mapped = json_string_value(json_object_get(self->map, name));
    if (!mapped || strcmp(mapped, file) != 0)
      return tdm_fail(TDM_CORRUPT_DATA, "tensor \"%.80s\" is in %.80s, and by the index in %.80s",
                      name, file, mapped ? mapped : "no file");
    const tdm_listed_tensor listed = tdm_tensor_list_entry(part, i);
    TDM_TRY(tdm_tensor_list_add_listed(self->list, &listed));
  }
  return TDM_OK;
}

static tdm_status read_part(parts *self, const char *file) {
  if (json_object_get(self->taken, file)) return TDM_OK;
  if (json_object_set_new(self->taken, file, json_true()) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no memory for the names of files");
  const tdm_allocator *allocator = tdm_context_allocator(self->context);
  const size_t bytes = strlen(self->folder) + strlen(file) + 1;
  char *path = tdm_allocate(allocator, bytes, "a path");
  if (!path) return TDM_OUT_OF_MEMORY;
  (void)snprintf(path, bytes, "%s%s", self->folder, file);
  tdm_tensor_list *part;
  tdm_status status = self->reader(self->context, path, &part);
  tdm_release(allocator, path, bytes);
  if (status == TDM_OK) status = add_part(self, file, part);
  tdm_tensor_list_release(part);
  return status;
}

static tdm_status read_all(parts *self) {
  const char *name;
  json_t *file;
  json_object_foreach(self->map, name, file) {
    TDM_TRY(read_part(self, json_string_value(file)));
  }
  json_object_foreach(self->map, name, file) {
    if (!tdm_tensor_list_has(self->list, name))
      return tdm_fail(TDM_CORRUPT_DATA, "tensor \"%.80s\" is not in %.80s", name,
                      json_string_value(file));
  }
  return TDM_OK;
}

tdm_status tdm_safetensors_read_parts(tdm_context *context, const char *index, const char *folder,
                                      tdm_safetensors_reader reader, tdm_tensor_list **out_list) {
  *out_list = NULL;
  if (!context) return tdm_fail_null("safetensors: the context");
  parts self = {.context = context, .folder = folder, .reader = reader};
  json_t *root;
  TDM_TRY(tdm_json_load_file(tdm_context_allocator(context), "the index of safetensors files",
                             index, TDM_SAFETENSORS_HEADER_LIMIT_BYTES, &root));
  tdm_status status = check_index(root, &self.map);
  if (status == TDM_OK) {
    self.taken = json_object();
    self.list = tdm_tensor_list_create(context);
    if (!self.taken) (void)tdm_fail(TDM_OUT_OF_MEMORY, "no memory for the names of files");
    status = self.taken && self.list ? read_all(&self) : TDM_OUT_OF_MEMORY;
  }
  json_decref(self.taken);
  json_decref(root);
  if (status == TDM_OK) {
    *out_list = self.list;
    return TDM_OK;
  }
  tdm_tensor_list_release(self.list);
  return tdm_fail_within(status, "%s", index);
}

tdm_status tdm_safetensors_read_index(tdm_context *context, const char *index,
                                      tdm_safetensors_reader reader, tdm_tensor_list **out_list) {
  *out_list = NULL;
  if (!context) return tdm_fail_null("safetensors: the context");
  const char *slash = strrchr(index, '/');
  const size_t length = slash ? (size_t)(slash - index) + 1 : 0;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  char *folder = tdm_allocate(allocator, length + 1, "a path");
  if (!folder) return TDM_OUT_OF_MEMORY;
  memcpy(folder, index, length);
  folder[length] = '\0';
  const tdm_status status = tdm_safetensors_read_parts(context, index, folder, reader, out_list);
  tdm_release(allocator, folder, length + 1);
  return status;
}
