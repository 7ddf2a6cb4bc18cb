/* How rows are shared out over devices. Invariant: chunks follow one another and lose nothing. */
#ifndef TANDEM_DEVICES_TENSORS_CHUNKS_H
#define TANDEM_DEVICES_TENSORS_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

/* Rows of each device's chunk: torch.chunk's, or in proportion to weights (NULL: none); 0 for those
 * that get none. Answers how many chunks there are: at least 1. */
size_t tdm_chunk_sizes(int64_t rows, size_t device_count, const double *weights,
                       int64_t *out_sizes);

#endif
