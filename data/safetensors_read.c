/* Loads a safetensors file: its tensors lie over one private mapping of the file. Invariant: the
 * mapping has one reference for each tensor over it and one for the load itself; the last one
 * unmaps, on whatever thread that is. Writing to such a tensor never reaches the file. */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "data/safetensors.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/dataset.h"
#include "core/file.h"
#include "devices/context.h"

typedef struct mapping {
  _Atomic uint32_t references;
  tdm_allocator allocator;
  char *bytes;
  size_t size;
} mapping;

static void release_mapping(void *user) {
  mapping *map = user;
  if (atomic_fetch_sub_explicit(&map->references, 1, memory_order_acq_rel) != 1) return;
  const tdm_allocator allocator = map->allocator;
  (void)munmap(map->bytes, map->size);
  tdm_release(&allocator, map, sizeof(*map));
}

/* Maps a file that has at least the header's size. */
static tdm_status map_file(const tdm_allocator *allocator, const char *path, mapping **out_map) {
  *out_map = NULL;
  int descriptor = -1;
  size_t size = 0;
  TDM_TRY(tdm_file_open("safetensors", path, &descriptor, &size));
  tdm_status status = TDM_OK;
  mapping *map = NULL;
  void *bytes = MAP_FAILED;
  if (size < TDM_SAFETENSORS_SIZE_BYTES) {
    status = tdm_fail(TDM_CORRUPT_DATA, "%s: truncated: %zu bytes hold no header", path, size);
    goto done;
  }
  map = tdm_allocate(allocator, sizeof(*map), "a mapping");
  if (map == NULL) {
    status = TDM_OUT_OF_MEMORY;
    goto done;
  }
  bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  if (bytes == MAP_FAILED) {
    status = tdm_fail(TDM_IO, "%s: cannot map %zu bytes: %s", path, size, strerror(errno));
    tdm_release(allocator, map, sizeof(*map));
    goto done;
  }
  atomic_init(&map->references, 1);
  map->allocator = *allocator;
  map->bytes = bytes;
  map->size = size;
  *out_map = map;
done:
  (void)close(descriptor);
  return status;
}

/* Where the data begins; the header's size is checked against the file's. */
static tdm_status find_data(const mapping *map, size_t *out_begin) {
  uint64_t header_bytes = 0;
  for (int i = TDM_SAFETENSORS_SIZE_BYTES - 1; i >= 0; i--)
    header_bytes = header_bytes << 8 | (unsigned char)map->bytes[i];
  if (header_bytes > TDM_SAFETENSORS_HEADER_LIMIT_BYTES) {
    return tdm_fail(TDM_CORRUPT_DATA, "header size: %llu bytes, over %zu",
                    (unsigned long long)header_bytes, TDM_SAFETENSORS_HEADER_LIMIT_BYTES);
  }
  if (header_bytes > map->size - TDM_SAFETENSORS_SIZE_BYTES) {
    return tdm_fail(TDM_CORRUPT_DATA,
                    "header size: %llu bytes, but the file ends after %zu: "
                    "truncated",
                    (unsigned long long)header_bytes, map->size - TDM_SAFETENSORS_SIZE_BYTES);
  }
  *out_begin = TDM_SAFETENSORS_SIZE_BYTES + (size_t)header_bytes;
  return TDM_OK;
}

static tdm_status check_bools(const tdm_safetensors_entry *entry, const char *data) {
  for (int64_t i = 0; i < entry->end - entry->begin; i++) {
    if ((data[i] & ~1) != 0) {
      return tdm_fail(TDM_CORRUPT_DATA, "tensor \"%.80s\": byte %lld is %u, not 0 or 1: no BOOL",
                      entry->name, (long long)i, (unsigned)(unsigned char)data[i]);
    }
  }
  return TDM_OK;
}

/* A tensor over the mapping, or, where data is not aligned for its dtype, a copy. */
static tdm_status make_tensor(tdm_context *context, const tdm_safetensors_entry *entry,
                              mapping *map, char *data, tdm_tensor **out_tensor) {
  *out_tensor = NULL;
  if (entry->dtype == TDM_BOOL) TDM_TRY(check_bools(entry, data));
  if ((uintptr_t)data % tdm_dtype_bytes(entry->dtype) != 0 || entry->begin == entry->end) {
    TDM_TRY(tdm_host_tensor_create(context, NULL, entry->dtype, &entry->shape, out_tensor));
    const size_t bytes = (size_t)(entry->end - entry->begin);
    if (bytes > 0) memcpy(tdm_tensor_data(*out_tensor), data, bytes);
    return TDM_OK;
  }
  (void)atomic_fetch_add_explicit(&map->references, 1, memory_order_relaxed);
  *out_tensor = tdm_tensor_wrap(context, entry->dtype, entry->shape, data, release_mapping, map);
  if (*out_tensor != NULL) return TDM_OK;
  release_mapping(map);
  return TDM_OUT_OF_MEMORY; /* all else was checked */
}

static tdm_status add_tensors(tdm_context *context, const tdm_safetensors_header *header,
                              mapping *map, size_t data_begin, tdm_tensor_list *list) {
  for (size_t i = 0; i < header->count; i++) {
    const tdm_safetensors_entry *entry = &header->entries[i];
    tdm_tensor *tensor = NULL;
    TDM_TRY(make_tensor(context, entry, map, map->bytes + data_begin + entry->begin, &tensor));
    const tdm_status status = tdm_tensor_list_add(list, entry->name, tensor);
    tdm_tensor_release(tensor);
    if (status != TDM_OK) return status;
  }
  return TDM_OK;
}

static tdm_status read_mapping(tdm_context *context, mapping *map, tdm_tensor_list *list) {
  size_t data_begin = 0;
  TDM_TRY(find_data(map, &data_begin));
  tdm_safetensors_header header;
  tdm_status status = tdm_safetensors_parse(
      &header, tdm_context_allocator(context), map->bytes + TDM_SAFETENSORS_SIZE_BYTES,
      data_begin - TDM_SAFETENSORS_SIZE_BYTES, (int64_t)(map->size - data_begin));
  if (status == TDM_OK) status = add_tensors(context, &header, map, data_begin, list);
  tdm_safetensors_header_deinit(&header);
  return status;
}

tdm_status tdm_safetensors_read(tdm_context *context, const char *path,
                                tdm_tensor_list **out_list) {
  *out_list = NULL;
  if (context == NULL) return tdm_fail(TDM_INVALID_ARGUMENT, "safetensors: the context is NULL");
  mapping *map = NULL;
  tdm_status status = map_file(tdm_context_allocator(context), path, &map);
  if (status != TDM_OK || map == NULL) return status;
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  status = list == NULL ? TDM_OUT_OF_MEMORY : read_mapping(context, map, list);
  release_mapping(map);
  if (status != TDM_OK) {
    tdm_tensor_list_release(list);
    return tdm_fail_within(status, "%s", path);
  }
  *out_list = list;
  return TDM_OK;
}

tdm_tensor_list *tdm_safetensors_load(tdm_context *context, const char *path) {
  tdm_tensor_list *list = NULL;
  return tdm_safetensors_read(context, path, &list) == TDM_OK ? list : NULL;
}
