/* A batch of a loader. Invariant: a batch without rows holds no tensors. */
#ifndef EXAMPLES_COMMON_BATCH_H
#define EXAMPLES_COMMON_BATCH_H

#include <tandem/tandem.h>

typedef struct batch {
  tdm_tensor *fields[TDM_DATASET_MAX_FIELDS]; /* tensors in the order of the dataset's fields */
  int64_t rows;                               /* 0: the epoch is over */
} batch;

void batch_release(batch *released);

#endif
