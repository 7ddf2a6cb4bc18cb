/* Return codes made into statuses. */
#ifndef TANDEM_DEVICES_CUDA_LIBRARY_ERRORS_H
#define TANDEM_DEVICES_CUDA_LIBRARY_ERRORS_H

#include "core/status.h"
#include "devices/cuda/library/api.h"

/* Has the GPU's context gone with this code, so that every later call fails as well? */
bool tdm_cuda_is_lost(tdm_cuda_code code);
/* Fails with the status and words for code; what: "a launch of relu". */
tdm_status tdm_cuda_fail(const tdm_cuda_api *api, tdm_cuda_code code, const char *what);
/* TDM_OK for success. */
static inline tdm_status tdm_cuda_check(const tdm_cuda_api *api, tdm_cuda_code code,
                                        const char *what) {
  return TDM_UNLIKELY(code != TDM_CUDA_SUCCESS) ? tdm_cuda_fail(api, code, what) : TDM_OK;
}
/* Why device_count gave no devices: words of the calling thread until it asks again. */
const char *tdm_cuda_absence(const tdm_cuda_api *api, tdm_cuda_code code);
/* The same for cuBLAS, without which GPUs are of no use; NULL: it is there. */
const char *tdm_cuda_blas_absence(const tdm_cuda_api *api);

#endif
