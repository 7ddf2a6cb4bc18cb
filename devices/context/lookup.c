/* Looks up what a context contains. Invariant: nothing here changes it, except for registering
 * kernels. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/context/context_state.h"

const tdm_allocator *tdm_context_allocator(const tdm_context *context) {
  return &context->allocator;
}

tdm_loop *tdm_context_loop(tdm_context *context) {
  return context->loop;
}

tdm_faults *tdm_context_faults(tdm_context *context) {
  return &context->faults;
}

void tdm_context_log(tdm_context *context, tdm_log_level level, const char *format, ...) {
  if (!context->log) return;
  char text[TDM_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  tdm_message_format(text, sizeof(text), format, arguments);
  va_end(arguments);
  char ranked[TDM_MESSAGE_BYTES + 16];
  (void)snprintf(ranked, sizeof ranked, "rank %d: %s", context->rank, text);
  context->log(context->log_user, level, context->rank_count > 1 ? ranked : text);
}

const tdm_topology *tdm_context_topology(const tdm_context *context) {
  return context->topology;
}

const tdm_core_range *tdm_context_cores(const tdm_context *context, const tdm_device *device) {
  const size_t index = (size_t)device->context_index;
  const size_t on_host = context->primary_count + context->secondary_count;
  if (index < context->own_begin || index - context->own_begin >= on_host) return NULL;
  return &context->cores[index - context->own_begin];
}

const tdm_machine *tdm_context_machine(const tdm_context *context) {
  return context->has_machine ? &context->machine : NULL;
}

struct tdm_pool *tdm_context_pool(tdm_context *context) {
  return context->pool;
}

struct tdm_groups *tdm_context_groups(const tdm_context *context) {
  return context->groups;
}

struct tdm_links *tdm_context_links(tdm_context *context) {
  return context->links;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

int tdm_context_rank(const tdm_context *context) {
  return !context ? 0 : context->rank;
}

int tdm_context_rank_count(const tdm_context *context) {
  return !context ? 0 : context->rank_count;
}

tdm_device *tdm_context_host_of(tdm_context *context, int rank) {
  return context->devices[!context->rank_begins ? 0 : context->rank_begins[rank]];
}

tdm_device *tdm_context_host(tdm_context *context) {
  return context->devices[context->own_begin];
}

tdm_device *tdm_context_counterpart(tdm_context *context, const tdm_device *device, int rank) {
  if (context->rank_count == 1) return context->devices[device->context_index];
  for (size_t i = context->rank_begins[rank]; i < context->rank_begins[rank + 1]; i++) {
    tdm_device *found = context->devices[i];
    if (found->index == device->index && strcmp(found->ops->kind, device->ops->kind) == 0)
      return found;
  }
  return NULL;
}

const char *tdm_context_instructions(const tdm_context *context) {
  (void)context;
  return tdm_device_kinds[0]->instructions();
}

struct tdm_network *tdm_context_network(const tdm_context *context) {
  return context->network;
}

tdm_messenger *tdm_context_messenger(const tdm_context *context) {
  return context->messenger;
}

/* ---- Devices --------------------------------------------------------------------------------- */

tdm_device *tdm_context_device(tdm_context *context, size_t index) {
  return index < context->device_count ? context->devices[index] : NULL;
}

size_t tdm_device_count(const tdm_context *context) {
  return !context ? 0 : context->device_count;
}

uint64_t tdm_context_count_run(tdm_context *context) {
  return 1 + atomic_fetch_add_explicit(&context->runs, 1, memory_order_relaxed);
}

tdm_red_zones tdm_context_red_zones(const tdm_context *context) {
  return context->red_zones;
}

size_t tdm_device_count_of(const tdm_context *context, const char *kind) {
  size_t count = 0;
  for (size_t i = 0; context && kind && i < context->device_count; i++) {
    const tdm_device *device = context->devices[i];
    count += device->rank == context->rank && strcmp(device->ops->kind, kind) == 0;
  }
  return count;
}

const char *tdm_device_name_at(const tdm_context *context, size_t index) {
  if (!context || index >= context->device_count) return NULL;
  return context->devices[index]->name;
}

size_t tdm_context_queue_count(const tdm_context *context) {
  return context->queue_count;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Checks members that only the library's kernels may set, and that only the host's kernels
 * support. */
static tdm_status check_own(const tdm_kernel *kernel) {
  if (kernel->element != 0)
    return tdm_fail(
        TDM_INVALID_ARGUMENT,
        "the kernel of %s has the element %u, which is for the library's own: leave it 0",
        kernel->operation, kernel->element);
  if (kernel->execute_part && strcmp(kernel->executes, "cpu") != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "the kernel of %s has execute_part, which %s cannot call: that is the host's",
                    kernel->operation, kernel->executes);
  return TDM_OK;
}

tdm_status tdm_kernel_register(tdm_context *context, const tdm_kernel *kernel) {
  TDM_TRY(tdm_context_check(context));
  TDM_TRY(tdm_kernel_check(kernel));
  TDM_TRY(check_own(kernel));
  return tdm_kernel_registry_add(&context->kernels, kernel);
}

const tdm_kernel *tdm_context_find_kernel(tdm_context *context, const char *operation,
                                          const char *executes, tdm_dtype dtype) {
  return tdm_kernel_registry_find(&context->kernels, operation, executes, dtype);
}
