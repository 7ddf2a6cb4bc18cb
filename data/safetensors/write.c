/* Saves tensors as a safetensors file. Invariant: the path refers to the old file until the new one
 * is complete and on the disk. A failure leaves no other file there. */
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"
#include "core/whole_file.h"
#include "data/safetensors/parts.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

typedef struct text_buffer {
  const tdm_allocator *allocator;
  char *bytes;
  size_t size;
  size_t capacity;
} text_buffer;

static tdm_status append(text_buffer *text, const char *bytes, size_t size) {
  TDM_TRY(tdm_array_reserve(text->allocator, (void **)&text->bytes, &text->capacity,
                            text->size + size, 1, "a header"));
  memcpy(text->bytes + text->size, bytes, size);
  text->size += size;
  return TDM_OK;
}

static tdm_status append_text(text_buffer *text, const char *more) {
  return append(text, more, strlen(more));
}

/* Appends a JSON string; string is valid UTF-8. */
static tdm_status append_string(text_buffer *text, const char *string) {
  TDM_TRY(append_text(text, "\""));
  for (const char *next = string; *next != '\0'; next++) {
    char escape[8] = {*next};
    if (*next == '"' || *next == '\\') (void)snprintf(escape, sizeof escape, "\\%c", *next);
    if ((unsigned char)*next < ' ')
      (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*next);
    TDM_TRY(append_text(text, escape));
  }
  return append_text(text, "\"");
}

/* ---- Places ---------------------------------------------------------------------------------- */

static tdm_status check_tensor(const char *name, const tdm_tensor *tensor) {
  if (strcmp(name, TDM_SAFETENSORS_METADATA) == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "no tensor can be named %s", name);
  if (!tdm_utf8_is_valid(name, strlen(name)))
    return tdm_fail(TDM_INVALID_ARGUMENT, "the name of a tensor is not UTF-8");
  if (!tdm_safetensors_dtype_name(tdm_tensor_dtype(tensor))) {
    return tdm_fail(TDM_UNSUPPORTED, "tensor \"%.80s\": dtype %s has no name in the format", name,
                    tdm_dtype_name(tdm_tensor_dtype(tensor)));
  }
  return TDM_OK;
}

/* Assigns each tensor its offset in data: those with wide elements first, so that all are
 * aligned. */
static int64_t place_tensors(const tdm_tensor_list *list, int64_t *begins) {
  const size_t count = tdm_tensor_list_count(list);
  int64_t reached = 0;
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t i = 0; i < count; i++) {
      const tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
      if (tdm_dtype_bytes(tdm_tensor_dtype(tensor)) != width) continue;
      begins[i] = reached;
      reached += (int64_t)tdm_tensor_bytes(tensor);
    }
  }
  return reached;
}

static tdm_status append_entry(text_buffer *text, const char *name, const tdm_tensor *tensor,
                               int64_t begin) {
  TDM_TRY(append_string(text, name));
  char part[96];
  (void)snprintf(part, sizeof(part), ":{\"dtype\":\"%s\",\"shape\":[",
                 tdm_safetensors_dtype_name(tdm_tensor_dtype(tensor)));
  TDM_TRY(append_text(text, part));
  const tdm_shape shape = tdm_tensor_shape(tensor);
  for (int32_t i = 0; i < shape.rank; i++) {
    (void)snprintf(part, sizeof(part), "%s%lld", i == 0 ? "" : ",", (long long)shape.dims[i]);
    TDM_TRY(append_text(text, part));
  }
  const int64_t end = begin + (int64_t)tdm_tensor_bytes(tensor);
  (void)snprintf(part, sizeof(part), "],\"data_offsets\":[%lld,%lld]}", (long long)begin,
                 (long long)end);
  return append_text(text, part);
}

/* Builds the size and the header, padded so that data begins at a multiple of 8. */
static tdm_status build_header(text_buffer *text, const tdm_tensor_list *list,
                               const int64_t *begins) {
  static const char spaces[] = "       ";
  const size_t count = tdm_tensor_list_count(list);
  TDM_TRY(append(text, "\0\0\0\0\0\0\0\0{", TDM_SAFETENSORS_SIZE_BYTES + 1));
  for (size_t i = 0; i < count; i++) {
    if (i > 0) TDM_TRY(append_text(text, ","));
    TDM_TRY(append_entry(text, tdm_tensor_list_name(list, i), tdm_tensor_list_tensor(list, i),
                         begins[i]));
  }
  TDM_TRY(append_text(text, "}"));
  TDM_TRY(append(text, spaces, (8 - text->size % 8) % 8));
  const uint64_t header_bytes = text->size - TDM_SAFETENSORS_SIZE_BYTES;
  if (header_bytes > TDM_SAFETENSORS_HEADER_LIMIT_BYTES) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a header of %llu bytes is over %zu",
                    (unsigned long long)header_bytes, TDM_SAFETENSORS_HEADER_LIMIT_BYTES);
  }
  for (size_t i = 0; i < TDM_SAFETENSORS_SIZE_BYTES; i++)
    text->bytes[i] = (char)(header_bytes >> 8 * i & 0xFF);
  return TDM_OK;
}

/* ---- Contents -------------------------------------------------------------------------------- */

static tdm_status write_bytes(tdm_whole_file *file, const char *name, const tdm_tensor *tensor,
                              const char *data) {
  const size_t bytes = tdm_tensor_bytes(tensor);
  for (size_t i = 0; i < bytes && tdm_tensor_dtype(tensor) == TDM_BOOL; i++) {
    if ((data[i] & ~1) != 0) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "tensor \"%.80s\": bool %zu is %u, not 0 or 1", name, i,
                      (unsigned)(unsigned char)data[i]);
    }
  }
  return tdm_whole_file_write(file, data, bytes);
}

static tdm_status write_tensor(tdm_whole_file *file, const char *name, const tdm_tensor *tensor,
                               const tdm_allocator *allocator) {
  const size_t bytes = tdm_tensor_bytes(tensor);
  if (bytes == 0) return TDM_OK;
  const char *data = tdm_tensor_data(tensor);
  if (data) return write_bytes(file, name, tensor, data);
  char *copy = tdm_allocate(allocator, bytes, "a tensor to save");
  if (!copy) return TDM_OUT_OF_MEMORY;
  tdm_status status = tdm_tensor_read(tensor, copy, bytes);
  if (status == TDM_OK) status = write_bytes(file, name, tensor, copy);
  tdm_release(allocator, copy, bytes);
  return status;
}

/* Writes the header and the tensors, in the order of their offsets. */
static tdm_status write_contents(tdm_whole_file *file, const tdm_tensor_list *list,
                                 const text_buffer *header, const tdm_allocator *allocator) {
  TDM_TRY(tdm_whole_file_write(file, header->bytes, header->size));
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
      const tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
      if (tdm_dtype_bytes(tdm_tensor_dtype(tensor)) != width) continue;
      TDM_TRY(write_tensor(file, tdm_tensor_list_name(list, i), tensor, allocator));
    }
  }
  return TDM_OK;
}

static tdm_status save(const tdm_tensor_list *list, const char *path,
                       const tdm_allocator *allocator) {
  const size_t count = tdm_tensor_list_count(list);
  for (size_t i = 0; i < count; i++)
    TDM_TRY(check_tensor(tdm_tensor_list_name(list, i), tdm_tensor_list_tensor(list, i)));
  text_buffer header = {.allocator = allocator};
  tdm_whole_file *file = NULL;
  const size_t begins_bytes = count * sizeof(int64_t);
  int64_t *begins = tdm_allocate(allocator, begins_bytes, "the places of tensors");
  tdm_status status = !begins ? TDM_OUT_OF_MEMORY : TDM_OK;
  if (status == TDM_OK) {
    (void)place_tensors(list, begins);
    status = build_header(&header, list, begins);
  }
  if (status == TDM_OK) status = tdm_whole_file_create(allocator, path, &file);
  if (status == TDM_OK) status = write_contents(file, list, &header, allocator);
  if (status == TDM_OK) status = tdm_whole_file_commit(file);
  tdm_whole_file_destroy(file);
  tdm_release(allocator, begins, begins_bytes);
  tdm_release(allocator, header.bytes, header.capacity);
  return status;
}

tdm_status tdm_safetensors_save(const tdm_tensor_list *list, const char *path) {
  if (!list || !path || path[0] == '\0')
    return tdm_fail(TDM_INVALID_ARGUMENT, "safetensors: %s", list ? "no path" : "the list is NULL");
  if (tdm_safetensors_is_index(path))
    return tdm_safetensors_save_parts(list, path, TDM_SAFETENSORS_PART_BYTES);
  const tdm_status supported = tdm_tensor_list_check_supported(list);
  if (supported != TDM_OK) return tdm_fail_within(supported, "%s", path);
  /* The list's tensors provide the context; an empty list needs no allocator. */
  const tdm_tensor *first = tdm_tensor_list_tensor(list, 0);
  const tdm_allocator allocator =
      !first ? tdm_allocator_default() : *tdm_context_allocator(first->storage->context);
  const tdm_status status = save(list, path, &allocator);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", path);
}
