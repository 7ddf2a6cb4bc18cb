/* Enters and leaves a GPU. Invariant: see gpu.h. */
#include "devices/cuda/gpu.h"

#include "devices/cuda/library/errors.h"

/* Two threads that call it first at the same time get the same context, because the device has only
 * one. */
static tdm_status find_context(tdm_cuda_gpu *gpu, tdm_cuda_context *out_context) {
  *out_context = atomic_load_explicit(&gpu->context, memory_order_acquire);
  if (*out_context) return TDM_OK;
  TDM_TRY(tdm_cuda_check(gpu->api, gpu->api->context_retain(out_context, gpu->ordinal),
                         "opening a GPU"));
  atomic_store_explicit(&gpu->context, *out_context, memory_order_release);
  return TDM_OK;
}

tdm_status tdm_cuda_gpu_enter(tdm_cuda_gpu *gpu) {
  tdm_cuda_context context;
  TDM_TRY(find_context(gpu, &context));
  return tdm_cuda_check(gpu->api, gpu->api->context_push(context), "choosing the thread's device");
}

void tdm_cuda_gpu_leave(const tdm_cuda_gpu *gpu) {
  (void)gpu->api->context_pop();
}
