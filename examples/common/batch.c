/* See examples/common/batch.h. */
#include "examples/common/batch.h"

void batch_release(batch *released) {
  for (int i = 0; i < TDM_DATASET_MAX_FIELDS; i++)
    tdm_tensor_release(released->fields[i]);
  *released = (batch){.rows = 0};
}
