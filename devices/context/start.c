/* Starting and stopping a context's devices. Invariant: they start once, before the first
 * submission, and a context that was stopped does not start again. */
#include "devices/context/context_state.h"

static tdm_status start_devices(tdm_context *context) {
  tdm_topology_divide(context->topology, context->primary_count, context->secondary_count,
                      context->secondary_cores, context->cores);
  for (size_t i = 0; i < context->device_count; i++) {
    tdm_device *device = context->devices[i];
    const tdm_status status = device->ops->start(device);
    if (status == TDM_OK) continue;
    for (size_t k = i + 1; k-- > 0;) {
      context->devices[k]->ops->stop(context->devices[k]);
    }
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

void tdm_context_stop(tdm_context *context) {
  (void)pthread_mutex_lock(&context->start_mutex);
  context->stopped = true;
  (void)pthread_mutex_unlock(&context->start_mutex);
  for (size_t i = 0; i < context->device_count; i++) {
    context->devices[i]->ops->stop(context->devices[i]);
  }
}

const char *tdm_accelerator(tdm_context *context) {
  if (!context) return NULL;
  const size_t on_host = context->own_begin + context->primary_count + context->secondary_count;
  for (size_t i = on_host; i < context->device_count; i++) {
    if (context->devices[i]->described) continue; /* described devices are chosen by name alone */
    return context->devices[i]->name;
  }
  if (!tdm_context_is_inherited(context)) {
    (void)pthread_mutex_lock(&context->start_mutex);
    if (!atomic_load(&context->started)) context->secondary_cores = true;
    (void)pthread_mutex_unlock(&context->start_mutex);
  }
  if (context->secondary_count > 0) {
    return context->devices[context->own_begin + context->primary_count]->name;
  }
  return "sim:0"; /* absent, as the options asked: placing a node there is an error that says so */
}
