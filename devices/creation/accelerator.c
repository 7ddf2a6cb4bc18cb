/* Devices that are asked for by what they are to be: a GPU, a simulated accelerator. Invariant: one
 * on the host that is asked for before the start has cores of its own, and then the links are those
 * that were measured with the cores divided like this. */
#include "devices/context/context_state.h"
#include "devices/links/table.h"

const char *tdm_accelerator(const tdm_context *context) {
  if (!context) return NULL;
  const size_t on_host = context->own_begin + context->primary_count + context->secondary_count;
  for (size_t i = on_host; i < context->device_count; i++) {
    const tdm_device *device = context->devices[i];
    /* Described devices are chosen by name alone. */
    if (device->rank == context->rank && !device->described)
      return tdm_device_plain_name(context, device);
  }
  return tdm_device_plain_name(context, context->devices[context->own_begin]);
}

const char *tdm_simulator(tdm_context *context) {
  if (!context) return NULL;
  if (!tdm_context_is_inherited(context) && tdm_context_divide_cores(context, true))
    tdm_links_read_again(context->links);
  return "sim:0"; /* where the options asked for none, placing a node there is an error */
}
