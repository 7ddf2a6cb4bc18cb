/* Reads safetensors files. Invariant: no file is mapped here. If another process changes or
 * truncates a file meanwhile, the result is a status and a message that names file and tensor. */
#include "data/safetensors/safetensors.h"

#include <string.h>

#include "data/safetensors/parts.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

/* ---- The header ------------------------------------------------------------------------------ */

/* Finds where the data begins, and checks the header's size against the file's. */
static tdm_status find_data(tdm_safetensors_file *file) {
  unsigned char size[TDM_SAFETENSORS_SIZE_BYTES];
  uint64_t header_bytes = 0;
  if (file->file.bytes < sizeof size)
    return tdm_fail(TDM_CORRUPT_DATA, "truncated: %zu bytes hold no header", file->file.bytes);
  TDM_TRY(tdm_file_read_at(&file->file, 0, size, sizeof size));
  for (int i = TDM_SAFETENSORS_SIZE_BYTES - 1; i >= 0; i--)
    header_bytes = header_bytes << 8 | size[i];
  if (header_bytes > TDM_SAFETENSORS_HEADER_LIMIT_BYTES) {
    return tdm_fail(TDM_CORRUPT_DATA, "header size: %llu bytes, over %zu",
                    (unsigned long long)header_bytes, TDM_SAFETENSORS_HEADER_LIMIT_BYTES);
  }
  if (header_bytes > file->file.bytes - sizeof size) {
    return tdm_fail(TDM_CORRUPT_DATA,
                    "header size: %llu bytes, but the file ends after %zu: truncated",
                    (unsigned long long)header_bytes, file->file.bytes - sizeof size);
  }
  file->data_begin = sizeof size + header_bytes;
  return TDM_OK;
}

static tdm_status read_header(tdm_safetensors_file *file) {
  TDM_TRY(find_data(file));
  const size_t bytes = (size_t)file->data_begin - TDM_SAFETENSORS_SIZE_BYTES;
  file->text_bytes = bytes + 1;
  file->text = tdm_allocate(file->allocator, file->text_bytes, "a header");
  if (!file->text) return TDM_OUT_OF_MEMORY;
  const tdm_status status =
      tdm_file_read_at(&file->file, TDM_SAFETENSORS_SIZE_BYTES, file->text, bytes);
  if (status != TDM_OK) return tdm_fail_within(status, "the header");
  return tdm_safetensors_parse(&file->header, file->allocator, file->text, bytes,
                               (int64_t)(file->file.bytes - file->data_begin));
}

tdm_status tdm_safetensors_open(const tdm_allocator *allocator, const char *path,
                                tdm_safetensors_file *out_file) {
  *out_file = (tdm_safetensors_file){.allocator = allocator, .file = {.descriptor = -1}};
  TDM_TRY(tdm_file_open("safetensors", path, &out_file->file));
  const tdm_status status = read_header(out_file);
  return status == TDM_OK ? TDM_OK : tdm_fail_within(status, "%s", path);
}

void tdm_safetensors_close(tdm_safetensors_file *file) {
  tdm_safetensors_header_deinit(&file->header);
  tdm_release(file->allocator, file->text, file->text_bytes);
  tdm_file_close(&file->file);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static tdm_status check_bools(const tdm_safetensors_entry *entry, const char *data) {
  for (int64_t i = 0; i < entry->end - entry->begin; i++) {
    if ((data[i] & ~1) != 0) {
      return tdm_fail(TDM_CORRUPT_DATA, "tensor \"%.80s\": byte %lld is %u, not 0 or 1: no BOOL",
                      entry->name, (long long)i, (unsigned)(unsigned char)data[i]);
    }
  }
  return TDM_OK;
}

/* Describes a tensor of the file, except for its dimensions. */
static tdm_listed_tensor describe(const tdm_safetensors_entry *entry) {
  const tdm_safetensors_type *type = entry->type;
  const bool has_dtype = type->dtype != TDM_DTYPE_NONE;
  return (tdm_listed_tensor){.name = entry->name,
                             .dtype = type->dtype,
                             .dtype_name = has_dtype ? tdm_dtype_name(type->dtype) : type->name,
                             .rank = entry->rank,
                             .bytes = (uint64_t)(entry->end - entry->begin)};
}

tdm_status tdm_safetensors_read_tensor(tdm_context *context, const tdm_safetensors_file *file,
                                       const tdm_safetensors_entry *entry,
                                       tdm_tensor **out_tensor) {
  const size_t bytes = (size_t)(entry->end - entry->begin);
  const tdm_dtype dtype = entry->type->dtype;
  const tdm_listed_tensor described = describe(entry);
  if (!tdm_safetensors_is_supported(entry)) return tdm_listed_tensor_refuse(&described);
  TDM_TRY(tdm_host_tensor_create(context, NULL, dtype, &entry->shape, out_tensor));
  char *data = tdm_tensor_data(*out_tensor);
  tdm_status status =
      tdm_file_read_at(&file->file, file->data_begin + (uint64_t)entry->begin, data, bytes);
  if (status != TDM_OK) (void)tdm_fail_within(status, "tensor \"%.80s\"", entry->name);
  if (status == TDM_OK && dtype == TDM_BOOL) status = check_bools(entry, data);
  if (status == TDM_OK) return TDM_OK;
  tdm_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

/* ---- All tensors of a file ------------------------------------------------------------------- */

/* Lists a tensor that is not supported, without its values. */
static tdm_status add_unsupported(tdm_context *context, const tdm_safetensors_entry *entry,
                                  tdm_tensor_list *list) {
  const tdm_allocator *allocator = tdm_context_allocator(context);
  const size_t dims_bytes = (size_t)entry->rank * sizeof(tdm_dim);
  tdm_dim *dims = tdm_allocate(allocator, dims_bytes, "a shape");
  if (!dims) return TDM_OUT_OF_MEMORY;
  tdm_safetensors_dims(entry, dims);
  tdm_listed_tensor listed = describe(entry);
  listed.dims = dims;
  const tdm_status status = tdm_tensor_list_add_unsupported(list, &listed);
  tdm_release(allocator, dims, dims_bytes);
  return status;
}

static tdm_status add_tensor(tdm_context *context, const tdm_safetensors_file *file,
                             const tdm_safetensors_entry *entry, tdm_safetensors_maker maker,
                             void *user, tdm_tensor_list *list) {
  if (!tdm_safetensors_is_supported(entry)) return add_unsupported(context, entry, list);
  tdm_tensor *tensor = NULL;
  TDM_TRY(maker(context, file, entry, user, &tensor));
  const tdm_status status = tdm_tensor_list_add(list, entry->name, tensor);
  tdm_tensor_release(tensor);
  return status;
}

static tdm_status add_tensors(tdm_context *context, const tdm_safetensors_file *file,
                              tdm_safetensors_maker maker, void *user, tdm_tensor_list *list) {
  for (size_t i = 0; i < file->header.count; i++)
    TDM_TRY(add_tensor(context, file, &file->header.entries[i], maker, user, list));
  return tdm_file_check_unchanged(&file->file);
}

tdm_status tdm_safetensors_list(tdm_context *context, const tdm_safetensors_file *file,
                                const char *path, tdm_safetensors_maker maker, void *user,
                                tdm_tensor_list **out_list) {
  *out_list = NULL;
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  if (!list) return TDM_OUT_OF_MEMORY;
  const tdm_status status = add_tensors(context, file, maker, user, list);
  if (status == TDM_OK) {
    *out_list = list;
    return TDM_OK;
  }
  tdm_tensor_list_release(list);
  return tdm_fail_within(status, "%s", path);
}

static tdm_status make_tensor(tdm_context *context, const tdm_safetensors_file *file,
                              const tdm_safetensors_entry *entry, void *user,
                              tdm_tensor **out_tensor) {
  (void)user;
  return tdm_safetensors_read_tensor(context, file, entry, out_tensor);
}

tdm_status tdm_safetensors_read_file(tdm_context *context, const char *path,
                                     tdm_tensor_list **out_list) {
  *out_list = NULL;
  if (!context) return tdm_fail_null("safetensors: the context");
  tdm_safetensors_file file;
  tdm_status status = tdm_safetensors_open(tdm_context_allocator(context), path, &file);
  if (status == TDM_OK)
    status = tdm_safetensors_list(context, &file, path, make_tensor, NULL, out_list);
  tdm_safetensors_close(&file);
  return status;
}

tdm_status tdm_safetensors_read(tdm_context *context, const char *path,
                                tdm_tensor_list **out_list) {
  if (!tdm_safetensors_is_index(path)) return tdm_safetensors_read_file(context, path, out_list);
  return tdm_safetensors_read_index(context, path, tdm_safetensors_read_file, out_list);
}

tdm_tensor_list *tdm_safetensors_load(tdm_context *context, const char *path) {
  tdm_tensor_list *list = NULL;
  return tdm_safetensors_read(context, path, &list) == TDM_OK ? list : NULL;
}
