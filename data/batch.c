/* Stacks items into batches. Invariant: a batch is either complete or not created at all. */
#include <string.h>

#include "core/allocate.h"
#include "core/untold.h"
#include "data/dataset.h"
#include "devices/tensors/tensor.h"

void tdm_batch_release(tdm_tensor **fields, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tdm_tensor_release(fields[i]);
    fields[i] = NULL;
  }
}

/* (...) -> (rows, ...) */
static tdm_shape shape_of_batch(const tdm_shape *item, int64_t rows) {
  tdm_shape shape = {.rank = item->rank + 1};
  shape.dims[0] = rows;
  for (int i = 0; i < item->rank; i++)
    shape.dims[i + 1] = item->dims[i];
  return shape;
}

typedef struct row_cursor {
  size_t part;
  int64_t passed; /* rows of that part */
} row_cursor;

/* Returns true if this rank makes the next row. *cursor is {0} before the first. */
static bool has_row(const tdm_batch_rows *rows, row_cursor *cursor) {
  if (rows->part_count == 0) return true;
  while (cursor->passed == rows->part_sizes[cursor->part]) {
    cursor->part++;
    cursor->passed = 0;
  }
  cursor->passed++;
  return rows->part_is_own[cursor->part];
}

/* Fills the row of another rank's item with placeholder values, and reads those fields that every
 * rank makes of all rows (`whole`). */
static tdm_status leave_row(const tdm_dataset *dataset, int64_t item, uint32_t whole,
                            void *const *cursors) {
  void *places[TDM_DATASET_MAX_FIELDS];
  for (size_t i = 0; i < dataset->field_count; i++) {
    const int nothing = dataset->fields[i].dtype == TDM_BOOL ? 0 : 0xFF;
    places[i] = whole >> i & 1 ? cursors[i] : NULL;
    if (!places[i]) memset(cursors[i], nothing, dataset->field_bytes[i]);
  }
  return whole == 0 ? TDM_OK : dataset->item(dataset->user, item, places);
}

tdm_status tdm_batch_stack(tdm_dataset *dataset, tdm_device *near, const tdm_batch_rows *rows,
                           const atomic_bool *abandon, tdm_tensor **out_fields) {
  void *cursors[TDM_DATASET_MAX_FIELDS] = {NULL};
  row_cursor reached = {0};
  tdm_status status = TDM_OK;
  for (size_t i = 0; i < dataset->field_count; i++)
    out_fields[i] = NULL;
  for (size_t i = 0; i < dataset->field_count; i++) {
    const tdm_field *field = &dataset->fields[i];
    const tdm_shape shape = shape_of_batch(&field->shape, rows->count);
    status = tdm_host_tensor_create(dataset->context, near, field->dtype, &shape, &out_fields[i]);
    if (status != TDM_OK) goto fail;
    cursors[i] = tdm_tensor_data(out_fields[i]);
  }
  for (int64_t row = 0; row < rows->count; row++) {
    if (atomic_load_explicit(abandon, memory_order_relaxed)) {
      status = tdm_fail(TDM_CANCELLED, "the batch was abandoned");
      goto fail;
    }
    const uint32_t told = tdm_told_count();
    if (has_row(rows, &reached))
      status = dataset->item(dataset->user, rows->items[row], cursors);
    else
      status = leave_row(dataset, rows->items[row], rows->whole, cursors);
    if (tdm_fail_untold(status, told) != TDM_OK) {
      (void)tdm_fail_within(status, "item %lld of the dataset", (long long)rows->items[row]);
      goto fail;
    }
    for (size_t i = 0; i < dataset->field_count; i++)
      cursors[i] = (char *)cursors[i] + dataset->field_bytes[i];
  }
  return TDM_OK;
fail:
  tdm_batch_release(out_fields, dataset->field_count);
  return status;
}
