/* Loads a safetensors file as a mapping: its tensors use one private mapping of the file as their
 * memory. Invariant: the mapping has one reference for each tensor in it and one for the load
 * itself. The last one unmaps it, on any thread. This file accesses no mapped byte, and writing to
 * such a tensor never changes the file. */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "data/safetensors/parts.h"
#include "devices/context/context.h"

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
  tdm_release(&allocator, map, sizeof *map);
}

static tdm_status map_file(const tdm_safetensors_file *file, mapping **out_map) {
  *out_map = NULL;
  const size_t size = file->file.bytes;
  mapping *map = tdm_allocate(file->allocator, sizeof *map, "a mapping");
  if (!map) return TDM_OUT_OF_MEMORY;
  void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                     file->file.descriptor, 0);
  if (bytes == MAP_FAILED) {
    tdm_release(file->allocator, map, sizeof *map);
    return tdm_fail(TDM_IO, "cannot map %zu bytes: %s", size, strerror(errno));
  }
  atomic_init(&map->references, 1);
  map->allocator = *file->allocator;
  map->bytes = bytes;
  map->size = size;
  *out_map = map;
  return TDM_OK;
}

/* Creates a tensor in the mapping. If it is not aligned for its dtype, has no bytes, or has values
 * that must be checked, reads a copy instead. */
static tdm_status make_tensor(tdm_context *context, const tdm_safetensors_file *file,
                              const tdm_safetensors_entry *entry, void *user,
                              tdm_tensor **out_tensor) {
  mapping *map = user;
  const tdm_dtype dtype = entry->type->dtype;
  char *data = map->bytes + file->data_begin + entry->begin;
  const bool is_aligned = (uintptr_t)data % tdm_dtype_bytes(dtype) == 0;
  if (!is_aligned || entry->begin == entry->end || dtype == TDM_BOOL)
    return tdm_safetensors_read_tensor(context, file, entry, out_tensor);
  (void)atomic_fetch_add_explicit(&map->references, 1, memory_order_relaxed);
  *out_tensor = tdm_tensor_wrap(context, dtype, entry->shape, data, release_mapping, map);
  if (*out_tensor) return TDM_OK;
  release_mapping(map);
  return TDM_OUT_OF_MEMORY; /* everything else was checked */
}

static tdm_status load_mapped(tdm_context *context, const tdm_safetensors_file *file,
                              const char *path, tdm_tensor_list **out_list) {
  mapping *map = NULL;
  const tdm_status mapped = map_file(file, &map);
  if (mapped != TDM_OK) return tdm_fail_within(mapped, "%s", path);
  const tdm_status status = tdm_safetensors_list(context, file, path, make_tensor, map, out_list);
  release_mapping(map);
  return status;
}

static tdm_status map_whole_file(tdm_context *context, const char *path,
                                 tdm_tensor_list **out_list) {
  *out_list = NULL;
  if (!context) return tdm_fail_null("safetensors: the context");
  tdm_safetensors_file file;
  tdm_status status = tdm_safetensors_open(tdm_context_allocator(context), path, &file);
  if (status == TDM_OK) status = load_mapped(context, &file, path, out_list);
  tdm_safetensors_close(&file);
  return status;
}

tdm_tensor_list *tdm_safetensors_map(tdm_context *context, const char *path) {
  tdm_tensor_list *list;
  const tdm_status status = tdm_safetensors_is_index(path)
                                ? tdm_safetensors_read_index(context, path, map_whole_file, &list)
                                : map_whole_file(context, path, &list);
  return status == TDM_OK ? list : NULL;
}
