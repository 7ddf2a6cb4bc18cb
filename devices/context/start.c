/* Starts and stops a context's devices. Invariant: they start once, before the first submission,
 * and a stopped context does not start again. Cores are not divided again after the start. */
#include "devices/context/context_state.h"

static tdm_status start_devices(tdm_context *context) {
  for (size_t i = 0; i < context->device_count; i++) {
    tdm_device *device = context->devices[i];
    const tdm_status status = device->ops->start(device);
    if (status == TDM_OK) continue;
    for (size_t k = i + 1; k-- > 0;)
      context->devices[k]->ops->stop(context->devices[k]);
    return status;
  }
  return TDM_OK;
}

tdm_status tdm_context_start(tdm_context *context) {
  TDM_TRY(tdm_context_check(context));
  if (atomic_load_explicit(&context->started, memory_order_acquire)) return TDM_OK;
  (void)pthread_mutex_lock(&context->start_mutex);
  tdm_status status = TDM_OK;
  if (context->stopped) {
    status = tdm_fail(TDM_CANCELLED, "the context is closed");
  } else if (!atomic_load_explicit(&context->started, memory_order_relaxed)) {
    status = start_devices(context);
    if (status == TDM_OK) atomic_store_explicit(&context->started, true, memory_order_release);
  }
  (void)pthread_mutex_unlock(&context->start_mutex);
  return status;
}

bool tdm_context_divide_cores(tdm_context *context, bool secondary_cores) {
  if (context->secondary_count == 0) return false;
  (void)pthread_mutex_lock(&context->start_mutex);
  const bool divides = !atomic_load_explicit(&context->started, memory_order_relaxed) &&
                       context->secondary_cores != secondary_cores;
  if (divides) {
    context->secondary_cores = secondary_cores;
    tdm_topology_divide(context->topology, context->primary_count, context->secondary_count,
                        secondary_cores, context->cores);
  }
  (void)pthread_mutex_unlock(&context->start_mutex);
  return divides;
}

void tdm_context_stop(tdm_context *context) {
  (void)pthread_mutex_lock(&context->start_mutex);
  context->stopped = true;
  (void)pthread_mutex_unlock(&context->start_mutex);
  for (size_t i = 0; i < context->device_count; i++)
    context->devices[i]->ops->stop(context->devices[i]);
}
