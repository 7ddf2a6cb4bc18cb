/* Selects a device by what it should be: a GPU, or a simulated accelerator. Invariant: a device on
 * the host that is selected before the start has separate cores, and the links are those measured
 * with this division of cores. */
#include "devices/context/context_state.h"
#include "devices/links/table.h"

const char *tdm_accelerator(const tdm_context *context) {
  if (!context) return NULL;
  const size_t on_host = context->own_begin + context->primary_count + context->secondary_count;
  for (size_t i = on_host; i < context->device_count; i++) {
    const tdm_device *device = context->devices[i];
    /* Described devices are selected by name only. */
    if (device->rank == context->rank && !device->described)
      return tdm_device_plain_name(context, device);
  }
  return tdm_device_plain_name(context, context->devices[context->own_begin]);
}

const char *tdm_simulator(tdm_context *context) {
  if (!context) return NULL;
  if (!tdm_context_is_inherited(context) && tdm_context_divide_cores(context, true))
    tdm_links_read_again(context->links);
  return "sim:0"; /* placing a node on sim:0 is an error if the options disable it */
}
