/* Divides rows among devices. Invariant: chunks are consecutive and contain all rows. */
#ifndef TANDEM_DEVICES_TENSORS_CHUNKS_H
#define TANDEM_DEVICES_TENSORS_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

/* Computes the rows of each device's chunk, as torch.chunk does, or in proportion to weights (NULL:
 * none); 0 for devices without rows. Returns the number of chunks, at least 1. */
size_t tdm_chunk_sizes(int64_t rows, size_t device_count, const double *weights,
                       int64_t *out_sizes);

#endif
