/* Converts return codes to statuses. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_ERRORS_H
#define TANDEM_DEVICES_CUDA_LIBRARY_ERRORS_H

#include "core/status.h"
#include "devices/cuda/library/api.h"

/* Returns true if the GPU's context is lost with this code, so that every later call fails as
 * well. */
bool tdm_cuda_is_lost(tdm_cuda_code code);
/* Fails with the status and text for code. what is, for example, "a launch of relu". */
tdm_status tdm_cuda_fail(const tdm_cuda_api *api, tdm_cuda_code code, const char *what);
/* Returns TDM_OK for success. */
static inline tdm_status tdm_cuda_check(const tdm_cuda_api *api, tdm_cuda_code code,
                                        const char *what) {
  return TDM_UNLIKELY(code != TDM_CUDA_SUCCESS) ? tdm_cuda_fail(api, code, what) : TDM_OK;
}
/* Returns why device_count found no devices. The text is valid on the calling thread until its next
 * call. */
const char *tdm_cuda_absence(const tdm_cuda_api *api, tdm_cuda_code code);
/* Returns the same for cuBLAS, which GPUs require, or NULL if it is available. */
const char *tdm_cuda_blas_absence(const tdm_cuda_api *api);

#endif
