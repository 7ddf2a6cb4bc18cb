/* The smallest table of CUDA's functions that kernels can run on: launches, fills, copies and
 * products, each completed before its call returns. Invariant: pointers that a kernel receives are
 * in allocated blocks, or the process ends. */
#ifndef TANDEM_TESTS_DEVICES_KERNELS_DIRECT_CUDA_STREAM_H
#define TANDEM_TESTS_DEVICES_KERNELS_DIRECT_CUDA_STREAM_H

#include "devices/cuda/library/kernel_stream.h"

enum { DIRECT_SENTINEL = 0xA5, DIRECT_POISON = 0xFF /* NaN in floats */ };

/* Memory whose end, to the byte, is a guard page's begin; before it are sentinels. */
typedef struct direct_block {
  unsigned char *pages;
  size_t page_bytes; /* bytes without the guard page */
  unsigned char *data;
  size_t bytes;
} direct_block;

direct_block *direct_block_create(size_t bytes);
/* False: something before data was written. */
bool direct_block_intact(const direct_block *block);
void direct_block_release(direct_block *block);

/* The one lane there is; its report is read as a queue does at a point. */
tdm_cuda_kernel_stream *direct_cuda_stream(void);
/* The first clears the report before a command. The second returns the reported status after it. */
void direct_cuda_report_clear(void);
tdm_status direct_cuda_report_status(void);

#endif
