/* Enqueuing on a lane. Invariant: no code of CUDA's leaves this file untranslated. */
#include "devices/cuda/lane.h"

#include <stdio.h>

#include "devices/cuda/errors.h"

tdm_status tdm_cuda_lane_launch(tdm_cuda_lane *lane, tdm_cuda_launch *launch) {
  launch->stream = lane->stream;
  const tdm_cuda_code code = lane->api->launch(launch);
  if (TDM_UNLIKELY(code != TDM_CUDA_SUCCESS)) {
    char what[96];
    (void)snprintf(what, sizeof(what), "a launch of %.60s", launch->name);
    return tdm_cuda_fail(lane->api, code, what);
  }
  return TDM_OK;
}

tdm_status tdm_cuda_lane_fill(tdm_cuda_lane *lane, void *to, int byte, size_t bytes) {
  if (bytes == 0) return TDM_OK;
  return tdm_cuda_check(lane->api, lane->api->fill_async(to, byte, bytes, lane->stream), "a fill");
}

tdm_status tdm_cuda_lane_copy(tdm_cuda_lane *lane, void *to, const void *from, size_t bytes) {
  if (bytes == 0 || to == from) return TDM_OK;
  const tdm_cuda_code code =
      lane->api->copy_async(to, from, bytes, TDM_CUDA_ON_DEVICE, lane->stream);
  return tdm_cuda_check(lane->api, code, "a copy on the device");
}

/* With less free than that, it is memory that cuBLAS lacks: its kernels and workspace take more. */
static const size_t least_blas_bytes = (size_t)256 << 20;

/* cuBLAS has one code for whatever ended its work, and one for whatever kept it from beginning: a
 * lost device is known by its stream, a full one by what is free. */
static tdm_status fail_blas(const tdm_cuda_lane *lane, tdm_cuda_code code, const char *what) {
  const tdm_cuda_api *api = lane->api;
  size_t bytes = 0;
  const tdm_cuda_code stream_code = api->stream_query(lane->stream);
  if (tdm_cuda_is_lost(stream_code)) return tdm_cuda_fail(api, stream_code, what);
  if (code == TDM_CUDA_BLAS_NOT_INITIALIZED && api->memory_free(&bytes) == TDM_CUDA_SUCCESS &&
      bytes < least_blas_bytes) {
    return tdm_fail(TDM_OUT_OF_MEMORY, "%s: out of memory (%zu bytes are free on the GPU)", what,
                    bytes);
  }
  return tdm_cuda_fail(api, code, what);
}

static tdm_status open_blas(tdm_cuda_lane *lane) {
  const char *reason = NULL;
  const tdm_cuda_code code = lane->api->blas_create(lane->blas, lane->tf32, &reason);
  if (code == TDM_CUDA_SUCCESS) return TDM_OK;
  *lane->blas = NULL;
  if (reason) return tdm_fail(TDM_UNAVAILABLE, "there is no cuBLAS: %s", reason);
  return fail_blas(lane, code, "opening cuBLAS");
}

tdm_status tdm_cuda_lane_product(tdm_cuda_lane *lane, const tdm_cuda_product *product) {
  if (product->m == 0 || product->n == 0) return TDM_OK;
  if (!*lane->blas) TDM_TRY(open_blas(lane));
  tdm_cuda_code code = lane->api->blas_set_stream(*lane->blas, lane->stream);
  if (code == TDM_CUDA_SUCCESS) code = lane->api->blas_product(*lane->blas, product);
  return code == TDM_CUDA_SUCCESS ? TDM_OK : fail_blas(lane, code, "a product by cuBLAS");
}

tdm_cuda_report *tdm_cuda_lane_report(tdm_cuda_lane *lane, tdm_cuda_report_kind kind,
                                      int64_t bound) {
  *lane->report = (tdm_cuda_report){.position = -1, .bound = bound, .kind = (int32_t)kind};
  return lane->report;
}
