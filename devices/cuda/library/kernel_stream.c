/* Enqueues work on a stream. Invariant: every CUDA code is translated before it leaves this
 * file. */
#include "devices/cuda/library/kernel_stream.h"

#include <stdio.h>

#include "devices/cuda/library/errors.h"

tdm_status tdm_cuda_kernel_stream_launch(tdm_cuda_kernel_stream *stream, tdm_cuda_launch *launch) {
  launch->stream = stream->stream;
  const tdm_cuda_code code = stream->api->launch(launch);
  if (TDM_UNLIKELY(code != TDM_CUDA_SUCCESS)) {
    char what[96];
    (void)snprintf(what, sizeof what, "a launch of %.60s", launch->name);
    return tdm_cuda_fail(stream->api, code, what);
  }
  return TDM_OK;
}

tdm_status tdm_cuda_kernel_stream_fill(tdm_cuda_kernel_stream *stream, void *to, int byte,
                                       size_t bytes) {
  if (bytes == 0) return TDM_OK;
  return tdm_cuda_check(stream->api, stream->api->fill_async(to, byte, bytes, stream->stream),
                        "a fill");
}

tdm_status tdm_cuda_kernel_stream_copy(tdm_cuda_kernel_stream *stream, void *to, const void *from,
                                       size_t bytes) {
  if (bytes == 0 || to == from) return TDM_OK;
  const tdm_cuda_code code =
      stream->api->copy_async(to, from, bytes, TDM_CUDA_ON_DEVICE, stream->stream);
  return tdm_cuda_check(stream->api, code, "a copy on the device");
}

/* If less memory than this is free, a failure of cuBLAS is attributed to a lack of memory: its
 * kernels and workspace need more. */
static const size_t least_blas_bytes = (size_t)256 << 20;

/* cuBLAS has one code for any failure during its work, and one for any failure to start. So a lost
 * device is detected by its stream, and a lack of memory by the free memory. */
static tdm_status fail_blas(const tdm_cuda_kernel_stream *stream, tdm_cuda_code code,
                            const char *what) {
  const tdm_cuda_api *api = stream->api;
  size_t bytes = 0, free_bytes = 0;
  const tdm_cuda_code stream_code = api->stream_query(stream->stream);
  if (tdm_cuda_is_lost(stream_code)) return tdm_cuda_fail(api, stream_code, what);
  if (code == TDM_CUDA_BLAS_NOT_INITIALIZED &&
      api->memory(&bytes, &free_bytes) == TDM_CUDA_SUCCESS && free_bytes < least_blas_bytes) {
    return tdm_fail(TDM_OUT_OF_MEMORY, "%s: out of memory (%zu bytes are free on the GPU)", what,
                    free_bytes);
  }
  return tdm_cuda_fail(api, code, what);
}

static tdm_status open_blas(tdm_cuda_kernel_stream *stream) {
  const char *reason = NULL;
  const tdm_cuda_code code = stream->api->blas_create(stream->blas, stream->tf32, &reason);
  if (code == TDM_CUDA_SUCCESS) return TDM_OK;
  *stream->blas = NULL;
  if (reason) return tdm_fail(TDM_UNAVAILABLE, "there is no cuBLAS: %s", reason);
  return fail_blas(stream, code, "opening cuBLAS");
}

tdm_status tdm_cuda_kernel_stream_product(tdm_cuda_kernel_stream *stream,
                                          const tdm_cuda_product *product) {
  if (product->m == 0 || product->n == 0) return TDM_OK;
  if (!*stream->blas) TDM_TRY(open_blas(stream));
  tdm_cuda_code code = stream->api->blas_set_stream(*stream->blas, stream->stream);
  if (code == TDM_CUDA_SUCCESS) code = stream->api->blas_product(*stream->blas, product);
  return code == TDM_CUDA_SUCCESS ? TDM_OK : fail_blas(stream, code, "a product by cuBLAS");
}

tdm_cuda_report *tdm_cuda_kernel_stream_report(tdm_cuda_kernel_stream *stream,
                                               tdm_cuda_report_kind kind, int64_t bound) {
  *stream->report = (tdm_cuda_report){.position = -1, .bound = bound, .kind = (int32_t)kind};
  return stream->report;
}
