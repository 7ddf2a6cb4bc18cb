/* Batches, taken and released. */
#include "examples/common/batch.h"

void batch_release(batch *released) {
  for (int i = 0; i < TDM_DATASET_MAX_FIELDS; i++)
    tdm_tensor_release(released->fields[i]);
  *released = (batch){.rows = 0};
}

tdm_status batch_next(tdm_loader *loader, batch *out_batch) {
  batch_release(out_batch);
  return tdm_loader_next(loader, out_batch->fields, TDM_DATASET_MAX_FIELDS, &out_batch->rows);
}
