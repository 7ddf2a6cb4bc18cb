/* The kernels of the device kind: those of all sources. Each source ends with its own list. The
 * build defines the list of sources: TDM_SOURCES(X) expands to X(name) for each. */
#include "devices/cuda/library/kernels.h"

#include "core/status.h"

#define DECLARED(name) tdm_status tdm_cuda_##name##_kernels(tdm_kernel_visitor visit, void *user);
#define VISITED(name) TDM_TRY(tdm_cuda_##name##_kernels(visit, user));

TDM_SOURCES(DECLARED)

tdm_status tdm_cuda_each_kernel(tdm_kernel_visitor visit, void *user) {
  TDM_SOURCES(VISITED)
  return TDM_OK;
}
