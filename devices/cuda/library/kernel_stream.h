/* The context of a kernel launch of this kind; tdm_kernel_call.stream points to one of these.
 * Invariant: only its device's thread uses a stream. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_KERNEL_STREAM_H
#define TANDEM_DEVICES_CUDA_LIBRARY_KERNEL_STREAM_H

#include "devices/cuda/library/api.h"
#include "tandem/devices/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors that a kernel detects while it runs. It writes `position`, then `value`, to pinned memory.
 * The host reads them when the point after the kernel is reached, and only then the command is
 * known to have failed. */
typedef enum tdm_cuda_report_kind {
  TDM_CUDA_REPORT_NONE,
  TDM_CUDA_REPORT_ID,     /* outside a table of `bound` rows */
  TDM_CUDA_REPORT_TARGET, /* outside `bound` classes */
  TDM_CUDA_REPORT_LENGTH, /* outside 0 to `bound` - 1 steps */
  TDM_CUDA_REPORT_FINITE, /* one of `bound` elements is not finite */
  TDM_CUDA_REPORT_INDEX,  /* outside 0 to `bound` - 1 */
  TDM_CUDA_REPORT_RANGE,  /* outside `least` to `least` + `bound` - 1 */
  TDM_CUDA_REPORT_BAG,    /* like ID; offset i that is wrong has position -2 - i and a range */
} tdm_cuda_report_kind;

typedef struct tdm_cuda_report {
  int64_t position; /* index of the first wrong element; -1: none */
  int64_t value;    /* the wrong element; for FINITE the bits of a double */
  int64_t bound;
  int32_t kind;  /* tdm_cuda_report_kind */
  int64_t least; /* lowest legal value of RANGE and of offsets; otherwise 0 */
} tdm_cuda_report;

typedef struct tdm_cuda_kernel_stream {
  tdm_cuda_stream stream; /* must be the first field: a user's kernel reads only this */
  const tdm_cuda_api *api;
  tdm_cuda_blas *blas;     /* the device's handle, created at first use */
  bool tf32;               /* cuBLAS may round to TF32 */
  tdm_cuda_report *report; /* unused report for the command being executed */
} tdm_cuda_kernel_stream;

/* Enqueue work and translate errors. */
tdm_status tdm_cuda_kernel_stream_launch(tdm_cuda_kernel_stream *stream,
                                         tdm_cuda_launch *launch) TDM_WARN_UNUSED;
tdm_status tdm_cuda_kernel_stream_fill(tdm_cuda_kernel_stream *stream, void *to, int byte,
                                       size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_cuda_kernel_stream_copy(tdm_cuda_kernel_stream *stream, void *to, const void *from,
                                       size_t bytes) TDM_WARN_UNUSED;
tdm_status tdm_cuda_kernel_stream_product(tdm_cuda_kernel_stream *stream,
                                          const tdm_cuda_product *product) TDM_WARN_UNUSED;
/* Clears and returns the report of this command, through which kernels may write. */
tdm_cuda_report *tdm_cuda_kernel_stream_report(tdm_cuda_kernel_stream *stream,
                                               tdm_cuda_report_kind kind, int64_t bound);

#ifdef __cplusplus
}
#endif
#endif
