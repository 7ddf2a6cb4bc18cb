/* Datasets: a caller's source of items, or the rows of tensors. Invariant: what a dataset passes to
 * a loader was checked when it was created, so that items need no checks. */
#include "data/dataset.h"

#include <string.h>

#include "core/allocate.h"
#include "devices/context/context.h"
#include "devices/tensors/tensor.h"

static tdm_status check_field(const tdm_field *field, size_t index) {
  if (!field->name || field->name[0] == '\0')
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: field %zu has no name", index);
  if (tdm_dtype_bytes(field->dtype) == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: field %s has no dtype", field->name);
  if (!tdm_shape_is_valid(&field->shape) || field->shape.rank >= TDM_MAX_RANK ||
      tdm_shape_bytes(&field->shape, field->dtype) < 0) {
    char text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: field %s has shape %s, which no item can have",
                    field->name, tdm_shape_text(&field->shape, text, sizeof(text)));
  }
  return TDM_OK;
}

static tdm_status check_source(const tdm_dataset_source *source) {
  if (source->struct_size != sizeof *source)
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset source: struct_size is %zu, expected %zu",
                    source->struct_size, sizeof *source);
  if (!source->item) return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: item is NULL");
  if (source->length < 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: length is %lld", (long long)source->length);
  if (source->field_count < 1 || source->field_count > TDM_DATASET_MAX_FIELDS || !source->fields) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: field_count is %zu, not 1 to %d",
                    source->field_count, TDM_DATASET_MAX_FIELDS);
  }
  for (size_t i = 0; i < source->field_count; i++) {
    TDM_TRY(check_field(&source->fields[i], i));
    for (size_t j = 0; j < i; j++) {
      if (strcmp(source->fields[i].name, source->fields[j].name) == 0) {
        return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: two fields are named %s",
                        source->fields[i].name);
      }
    }
  }
  return TDM_OK;
}

/* Frees everything except the user's own part. */
static void free_dataset(tdm_dataset *dataset) {
  tdm_context *context = dataset->context;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  for (size_t i = 0; i < dataset->field_count; i++)
    tdm_string_release(allocator, (char *)dataset->fields[i].name);
  tdm_release(allocator, dataset, sizeof *dataset);
  tdm_context_release(context);
}

/* If NULL is returned, the caller still owns `user`: destroy has not been called. */
tdm_dataset *tdm_dataset_create(tdm_context *context, const tdm_dataset_source *given) {
  if (!context || !given) {
    (void)tdm_fail_null("dataset: %s", given ? "context" : "source");
    return NULL;
  }
  if (check_source(given) != TDM_OK) return NULL;
  const tdm_dataset_source source = *given;
  const tdm_allocator *allocator = tdm_context_allocator(context);
  tdm_dataset *dataset = tdm_allocate(allocator, sizeof *dataset, "a dataset");
  if (!dataset) return NULL;
  atomic_init(&dataset->references, 1);
  dataset->context = tdm_context_retain(context);
  dataset->length = source.length;
  dataset->item = source.item;
  dataset->destroy = source.destroy;
  dataset->user = source.user;
  dataset->skips_fields = source.skips_fields;
  for (size_t i = 0; i < source.field_count; i++) {
    dataset->fields[i] = source.fields[i];
    dataset->field_bytes[i] =
        (size_t)tdm_shape_bytes(&source.fields[i].shape, source.fields[i].dtype);
    dataset->fields[i].name = tdm_string_copy(allocator, source.fields[i].name);
    if (!dataset->fields[i].name) {
      free_dataset(dataset);
      return NULL;
    }
    dataset->field_count = i + 1;
  }
  return dataset;
}

tdm_dataset *tdm_dataset_retain(tdm_dataset *dataset) {
  if (dataset) atomic_fetch_add_explicit(&dataset->references, 1, memory_order_relaxed);
  return dataset;
}

void tdm_dataset_release(tdm_dataset *dataset) {
  if (!dataset || tdm_context_is_inherited(dataset->context)) return;
  if (atomic_fetch_sub_explicit(&dataset->references, 1, memory_order_acq_rel) != 1) return;
  if (dataset->destroy) dataset->destroy(dataset->user);
  free_dataset(dataset);
}

int64_t tdm_dataset_length(const tdm_dataset *dataset) {
  return !dataset ? 0 : dataset->length;
}

/* ---- Rows of tensors ------------------------------------------------------------------------- */

typedef struct rows {
  tdm_allocator allocator;
  size_t count;
  tdm_tensor *tensors[TDM_DATASET_MAX_FIELDS]; /* retained */
  size_t row_bytes[TDM_DATASET_MAX_FIELDS];
} rows;

static tdm_status copy_row(void *user, int64_t index, void *const *out_fields) {
  const rows *from = user;
  for (size_t i = 0; i < from->count; i++) {
    const size_t bytes = from->row_bytes[i];
    const char *data = tdm_tensor_data(from->tensors[i]);
    if (bytes > 0 && out_fields[i]) memcpy(out_fields[i], data + (size_t)index * bytes, bytes);
  }
  return TDM_OK;
}

static void release_rows(void *user) {
  rows *from = user;
  const tdm_allocator allocator = from->allocator;
  for (size_t i = 0; i < from->count; i++)
    tdm_tensor_release(from->tensors[i]);
  tdm_release(&allocator, from, sizeof *from);
}

/* Describes the field of a tensor's rows. row_count is -1 before the first tensor. */
static tdm_status field_of_tensor(const char *name, const tdm_tensor *tensor, int64_t row_count,
                                  tdm_field *out_field) {
  if (!name || !tensor) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: tensor %s is NULL",
                    name ? name : "without name");
  }
  const tdm_shape shape = tdm_tensor_shape(tensor);
  if (shape.rank < 1)
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: %s is a scalar and has no rows", name);
  if (tdm_tensor_bytes(tensor) > 0 && !tdm_tensor_data(tensor)) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: %s lies on %s, where the host cannot read it",
                    name, tdm_tensor_device(tensor));
  }
  if (row_count >= 0 && shape.dims[0] != row_count) {
    return tdm_fail(TDM_INVALID_ARGUMENT, "dataset: %s has %lld rows, those before it have %lld",
                    name, (long long)shape.dims[0], (long long)row_count);
  }
  *out_field = (tdm_field){.name = name, .dtype = tdm_tensor_dtype(tensor)};
  out_field->shape = tdm_shape_make(shape.rank - 1, shape.dims + 1);
  return TDM_OK;
}

tdm_dataset *tdm_dataset_from_tensors(tdm_context *context, const char *const *names,
                                      tdm_tensor *const *tensors, size_t count) {
  tdm_field fields[TDM_DATASET_MAX_FIELDS] = {{0}};
  if (!context || !names || !tensors || count < 1 || count > TDM_DATASET_MAX_FIELDS) {
    (void)tdm_fail(TDM_INVALID_ARGUMENT, "dataset: needs a context and 1 to %d named tensors",
                   TDM_DATASET_MAX_FIELDS);
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    const int64_t row_count = i == 0 ? -1 : tdm_tensor_shape(tensors[0]).dims[0];
    if (field_of_tensor(names[i], tensors[i], row_count, &fields[i]) != TDM_OK) return NULL;
  }
  const tdm_allocator *allocator = tdm_context_allocator(context);
  rows *from = tdm_allocate(allocator, sizeof *from, "a dataset of tensors");
  if (!from) return NULL;
  from->allocator = *allocator;
  from->count = count;
  for (size_t i = 0; i < count; i++) {
    from->tensors[i] = tdm_tensor_retain(tensors[i]);
    const int64_t row_bytes = tdm_shape_bytes(&fields[i].shape, fields[i].dtype);
    from->row_bytes[i] = row_bytes < 0 ? 0 : (size_t)row_bytes;
  }
  const tdm_dataset_source source = {
      .struct_size = sizeof(source),
      .user = from,
      .length = tdm_tensor_shape(tensors[0]).dims[0],
      .fields = fields,
      .field_count = count,
      .item = copy_row,
      .destroy = release_rows,
      .skips_fields = true,
  };
  tdm_dataset *dataset = tdm_dataset_create(context, &source);
  if (!dataset) release_rows(from);
  return dataset;
}
