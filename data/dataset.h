/* Internal side of datasets and batches. Invariant: a dataset's fields never change. Any holder of
 * a reference may read items, from one thread at a time. */
#ifndef TANDEM_DATA_DATASET_H
#define TANDEM_DATA_DATASET_H

#include <stdatomic.h>

#include "core/status.h"
#include "tandem/data/data.h"

struct tdm_dataset {
  _Atomic uint32_t references;
  tdm_context *context; /* retained */
  int64_t length;
  size_t field_count;
  tdm_field fields[TDM_DATASET_MAX_FIELDS];
  size_t field_bytes[TDM_DATASET_MAX_FIELDS]; /* size of one item's field */
  tdm_status (*item)(void *user, int64_t index, void *const *out_fields);
  void (*destroy)(void *user);
  void *user;
  bool skips_fields;
};

/* The rows of a batch. In a loader for the devices of a parallel region, a rank reads only the rows
 * of its own devices. The other rows hold placeholders that cannot be mistaken for items: bytes of
 * 0xFF (-1, NaN), and 0 for bool. */
typedef struct tdm_batch_rows {
  const int64_t *items; /* (count) */
  int64_t count;
  size_t part_count; /* 0: all rows are read */
  int64_t part_sizes[TDM_MAX_DEVICES];
  const bool *part_is_own; /* (part_count) */
  uint32_t whole;          /* bit set of fields that contain all rows, one bit per field; 0: none */
} tdm_batch_rows;

/* Creates one tensor per field of the rows, near that device: items stacked along a new dimension
 * 0. Returns CANCELLED soon after abandon is set. On failure every out_fields is NULL. */
tdm_status tdm_batch_stack(tdm_dataset *dataset, tdm_device *near, const tdm_batch_rows *rows,
                           const atomic_bool *abandon, tdm_tensor **out_fields) TDM_WARN_UNUSED;
void tdm_batch_release(tdm_tensor **fields, size_t count); /* sets them to NULL */

#endif
