/* Lists of named tensors. Invariants: names are distinct. The list owns a copy of each name, one
 * reference to each tensor and one to its context. An entry's index never changes. An entry has
 * either a tensor or the description of an unsupported one. */
#include <string.h>

#include "core/allocate.h"
#include "core/map.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

/* A tensor without values. Its dims and the name of its dtype follow in the same block. */
typedef struct unsupported_tensor {
  size_t block_bytes;
  tdm_dtype dtype;
  int32_t rank;
  uint64_t bytes;
  tdm_dim dims[];
} unsupported_tensor;

typedef struct list_entry {
  char *name;
  tdm_tensor *tensor;
  unsupported_tensor *unsupported; /* NULL if there is a tensor */
} list_entry;

struct tdm_tensor_list {
  tdm_context *context; /* retained */
  list_entry *entries;  /* (count of capacity) */
  size_t count;
  size_t capacity;
  tdm_map places; /* maps a name to index + 1, as a pointer */
};

static void release_unsupported(const tdm_allocator *allocator, unsupported_tensor *tensor) {
  if (tensor) tdm_release(allocator, tensor, tensor->block_bytes);
}

tdm_tensor_list *tdm_tensor_list_create(tdm_context *context) {
  if (!context) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "a list of tensors needs a context");
    return NULL;
  }
  if (tdm_context_check(context) != TDM_OK) return NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_tensor_list *list = tdm_allocate(allocator, sizeof *list, "a list of tensors");
  if (!list) return NULL;
  list->context = tdm_context_retain(context);
  tdm_map_init(&list->places, allocator);
  return list;
}

void tdm_tensor_list_release(tdm_tensor_list *list) {
  if (!list || tdm_context_is_inherited(list->context)) return;
  tdm_context *context = list->context;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_map_deinit(&list->places);
  for (size_t i = 0; i < list->count; i++) {
    tdm_tensor_release(list->entries[i].tensor);
    release_unsupported(allocator, list->entries[i].unsupported);
    tdm_string_release(allocator, list->entries[i].name);
  }
  tdm_release(allocator, list->entries, list->capacity * sizeof *list->entries);
  tdm_release(allocator, list, sizeof *list);
  tdm_context_release(context);
}

/* Appends either tensor, which is retained, or unsupported, which is taken over on success. */
static tdm_status add_entry(tdm_tensor_list *list, const char *name, tdm_tensor *tensor,
                            unsupported_tensor *unsupported) {
  if (tdm_map_get(&list->places, name))
    return tdm_fail(TDM_INVALID_ARGUMENT, "the list holds a tensor %s already", name);
  const tdm_allocator *allocator = tdm_context_allocator(list->context);
  TDM_TRY(tdm_array_reserve(allocator, (void **)&list->entries, &list->capacity, list->count + 1,
                            sizeof *list->entries, "a list of tensors"));
  char *copy = tdm_string_copy(allocator, name);
  if (!copy) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_map_put(&list->places, copy, (void *)(uintptr_t)(list->count + 1));
  if (status != TDM_OK) {
    tdm_string_release(allocator, copy);
    return status;
  }
  list->entries[list->count++] = (list_entry){copy, tdm_tensor_retain(tensor), unsupported};
  return TDM_OK;
}

tdm_status tdm_tensor_list_add(tdm_tensor_list *list, const char *name, tdm_tensor *tensor) {
  if (!list || !name || !tensor) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a list of tensors: the %s is NULL",
                    !list   ? "list"
                    : !name ? "name"
                            : "tensor");
  }
  return add_entry(list, name, tensor, NULL);
}

tdm_status tdm_tensor_list_add_unsupported(tdm_tensor_list *list, const tdm_listed_tensor *tensor) {
  const tdm_allocator *allocator = tdm_context_allocator(list->context);
  const size_t dims_bytes = (size_t)tensor->rank * sizeof(tdm_dim);
  const size_t name_bytes = strlen(tensor->dtype_name) + 1;
  const size_t block_bytes = sizeof(unsupported_tensor) + dims_bytes + name_bytes;
  unsupported_tensor *copy = tdm_allocate(allocator, block_bytes, "a list of tensors");
  if (!copy) return TDM_OUT_OF_MEMORY;
  *copy = (unsupported_tensor){block_bytes, tensor->dtype, tensor->rank, tensor->bytes};
  if (dims_bytes > 0) memcpy(copy->dims, tensor->dims, dims_bytes);
  memcpy((char *)copy->dims + dims_bytes, tensor->dtype_name, name_bytes);
  const tdm_status status = add_entry(list, tensor->name, NULL, copy);
  if (status != TDM_OK) release_unsupported(allocator, copy);
  return status;
}

tdm_status tdm_tensor_list_add_listed(tdm_tensor_list *list, const tdm_listed_tensor *tensor) {
  return tensor->tensor ? tdm_tensor_list_add(list, tensor->name, tensor->tensor)
                        : tdm_tensor_list_add_unsupported(list, tensor);
}

size_t tdm_tensor_list_count(const tdm_tensor_list *list) {
  return list ? list->count : 0;
}

const char *tdm_tensor_list_name(const tdm_tensor_list *list, size_t index) {
  return index < tdm_tensor_list_count(list) ? list->entries[index].name : NULL;
}

tdm_listed_tensor tdm_tensor_list_entry(const tdm_tensor_list *list, size_t index) {
  if (index >= tdm_tensor_list_count(list)) return (tdm_listed_tensor){0};
  const list_entry *entry = &list->entries[index];
  tdm_listed_tensor found = {.name = entry->name, .tensor = entry->tensor};
  if (entry->tensor) {
    found.dtype = entry->tensor->dtype;
    found.dtype_name = tdm_dtype_name(found.dtype);
    found.dims = entry->tensor->shape.dims;
    found.rank = entry->tensor->shape.rank;
    found.bytes = entry->tensor->bytes;
    return found;
  }
  found.dtype = entry->unsupported->dtype;
  found.dims = entry->unsupported->dims;
  found.rank = entry->unsupported->rank;
  found.bytes = entry->unsupported->bytes;
  found.dtype_name = (const char *)(found.dims + found.rank);
  return found;
}

tdm_status tdm_listed_tensor_refuse(const tdm_listed_tensor *tensor) {
  if (tensor->dtype == TDM_DTYPE_NONE)
    return tdm_fail(TDM_UNSUPPORTED, "tensor \"%.80s\": dtype %s is not supported", tensor->name,
                    tensor->dtype_name);
  return tdm_fail(TDM_UNSUPPORTED,
                  "tensor \"%.80s\": %s of %d dimensions is not supported, expected at most %d",
                  tensor->name, tensor->dtype_name, (int)tensor->rank, TDM_MAX_RANK);
}

tdm_status tdm_tensor_list_use(const tdm_tensor_list *list, size_t index, tdm_tensor **out_tensor) {
  const tdm_listed_tensor found = tdm_tensor_list_entry(list, index);
  *out_tensor = found.tensor;
  return found.tensor ? TDM_OK : tdm_listed_tensor_refuse(&found);
}

tdm_status tdm_tensor_list_check_supported(const tdm_tensor_list *list) {
  tdm_tensor *tensor;
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++)
    TDM_TRY(tdm_tensor_list_use(list, i, &tensor));
  return TDM_OK;
}

tdm_tensor *tdm_tensor_list_tensor(const tdm_tensor_list *list, size_t index) {
  tdm_tensor *tensor;
  if (index >= tdm_tensor_list_count(list)) return NULL;
  return tdm_tensor_list_use(list, index, &tensor) == TDM_OK ? tensor : NULL;
}

/* Returns 1 + the index of the tensor of that name, or 0 if there is none. */
static size_t place_of(const tdm_tensor_list *list, const char *name) {
  return list && name ? (uintptr_t)tdm_map_get(&list->places, name) : 0;
}

bool tdm_tensor_list_has(const tdm_tensor_list *list, const char *name) {
  return place_of(list, name) != 0;
}

tdm_tensor *tdm_tensor_list_find(const tdm_tensor_list *list, const char *name) {
  const size_t place = place_of(list, name);
  return place != 0 ? tdm_tensor_list_tensor(list, place - 1) : NULL;
}
