/* What a kernel of this kind is launched with: tdm_kernel_call.stream points to one of these.
 * Invariant: a stream is used by its device's thread alone. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_KERNEL_STREAM_H
#define TANDEM_DEVICES_CUDA_LIBRARY_KERNEL_STREAM_H

#include "devices/cuda/library/api.h"
#include "tandem/devices/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel finds wrong while it runs. It writes `position`, then `value`, into pinned memory;
 * the host reads them once the point after the kernel is reached, and only then is the command
 * known to have failed. */
typedef enum tdm_cuda_report_kind {
  TDM_CUDA_REPORT_NONE,
  TDM_CUDA_REPORT_ID,     /* outside a table of `bound` rows */
  TDM_CUDA_REPORT_TARGET, /* outside `bound` classes */
  TDM_CUDA_REPORT_LENGTH, /* outside 0 to `bound` - 1 steps */
  TDM_CUDA_REPORT_FINITE, /* of `bound` elements one is not */
  TDM_CUDA_REPORT_INDEX,  /* outside 0 to `bound` - 1 */
  TDM_CUDA_REPORT_RANGE,  /* outside `least` to `least` + `bound` - 1 */
  TDM_CUDA_REPORT_BAG,    /* as ID; a wrong offset i of bags has position -2 - i, and a range */
} tdm_cuda_report_kind;

typedef struct tdm_cuda_report {
  int64_t position; /* of the first offender; -1: there is none */
  int64_t value;    /* of it; of FINITE the bits of a double */
  int64_t bound;
  int32_t kind;  /* tdm_cuda_report_kind */
  int64_t least; /* of RANGE and of offsets; else 0 */
} tdm_cuda_report;

typedef struct tdm_cuda_kernel_stream {
  tdm_cuda_stream stream; /* first: a kernel of a user's reads no more */
  const tdm_cuda_api *api;
  tdm_cuda_blas *blas;     /* the device's, created at first use */
  bool tf32;               /* ...so */
  tdm_cuda_report *report; /* of the command that is being executed; free */
} tdm_cuda_kernel_stream;

/* Enqueues; errors are translated. */
tdm_status tdm_cuda_kernel_stream_launch(tdm_cuda_kernel_stream *stream,
                                         tdm_cuda_launch *launch) TDM_WARN_UNUSED;
tdm_status tdm_cuda_kernel_stream_fill(tdm_cuda_kernel_stream *stream, void *to, int byte,
                                       size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_cuda_kernel_stream_copy(tdm_cuda_kernel_stream *stream, void *to, const void *from,
                                       size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_cuda_kernel_stream_product(tdm_cuda_kernel_stream *stream,
                                          const tdm_cuda_product *product) TDM_WARN_UNUSED;
/* The report of this command, cleared; a pointer that kernels may write through. */
tdm_cuda_report *tdm_cuda_kernel_stream_report(tdm_cuda_kernel_stream *stream,
                                               tdm_cuda_report_kind kind, int64_t bound);

#ifdef __cplusplus
}
#endif
#endif
