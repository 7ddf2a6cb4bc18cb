/* Lists of named tensors. Invariants: names are distinct; the list owns a copy of each name, one
 * reference to each tensor and one to its context; an entry's place never changes. */
#include "core/allocate.h"
#include "core/map.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

typedef struct list_entry {
  char *name;
  tdm_tensor *tensor;
} list_entry;

struct tdm_tensor_list {
  tdm_context *context; /* retained */
  list_entry *entries;  /* (count of capacity) */
  size_t count;
  size_t capacity;
  tdm_map places; /* name -> place + 1, as a pointer */
};

tdm_tensor_list *tdm_tensor_list_create(tdm_context *context) {
  if (!context) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "a list of tensors needs a context");
    return NULL;
  }
  if (tdm_context_check(context) != TDM_OK) return NULL;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_tensor_list *list = tdm_allocate(allocator, sizeof(*list), "a list of tensors");
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
    tdm_string_release(allocator, list->entries[i].name);
  }
  tdm_release(allocator, list->entries, list->capacity * sizeof(*list->entries));
  tdm_release(allocator, list, sizeof(*list));
  tdm_context_release(context);
}

tdm_status tdm_tensor_list_add(tdm_tensor_list *list, const char *name, tdm_tensor *tensor) {
  if (!list || !name || !tensor) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "a list of tensors: the %s is NULL",
                    !list   ? "list"
                    : !name ? "name"
                            : "tensor");
  }
  if (tdm_map_get(&list->places, name)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "the list holds a tensor %s already", name);
  }
  const tdm_allocator *allocator = tdm_context_allocator(list->context);
  TDM_TRY(tdm_array_reserve(allocator, (void **)&list->entries, &list->capacity, list->count + 1,
                            sizeof(*list->entries), "a list of tensors"));
  char *copy = tdm_string_copy(allocator, name);
  if (!copy) return TDM_OUT_OF_MEMORY;
  const tdm_status status = tdm_map_put(&list->places, copy, (void *)(uintptr_t)(list->count + 1));
  if (status != TDM_OK) {
    tdm_string_release(allocator, copy);
    return status;
  }
  list->entries[list->count++] = (list_entry){copy, tdm_tensor_retain(tensor)};
  return TDM_OK;
}

size_t tdm_tensor_list_count(const tdm_tensor_list *list) {
  return list ? list->count : 0;
}

const char *tdm_tensor_list_name(const tdm_tensor_list *list, size_t index) {
  return index < tdm_tensor_list_count(list) ? list->entries[index].name : NULL;
}

tdm_tensor *tdm_tensor_list_tensor(const tdm_tensor_list *list, size_t index) {
  return index < tdm_tensor_list_count(list) ? list->entries[index].tensor : NULL;
}

tdm_tensor *tdm_tensor_list_find(const tdm_tensor_list *list, const char *name) {
  if (!list || !name) return NULL;
  const uintptr_t place = (uintptr_t)tdm_map_get(&list->places, name);
  return place != 0 ? list->entries[place - 1].tensor : NULL;
}
