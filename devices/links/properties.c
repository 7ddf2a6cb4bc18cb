/* Properties of devices and links for programs. Invariant: nothing is changed, and no device is
 * started. */
#include "tandem/devices/properties.h"

#include <stdio.h>

#include "devices/context/context.h"
#include "devices/context/route.h"
#include "devices/links/links.h"
#include "devices/topology/topology.h"

/* Finds the device of that name. All failures, including this one, are INVALID_ARGUMENT. */
static tdm_status find_device(tdm_context *context, const char *name, tdm_device **out_device) {
  *out_device = tdm_context_find_device(context, name);
  return *out_device ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "%s", tdm_last_message());
}

tdm_status tdm_device_get_properties(tdm_context *context, const char *name,
                                     tdm_device_properties *out_properties) {
  TDM_TRY(tdm_context_check(context));
  if (!out_properties || out_properties->struct_size != sizeof *out_properties)
    return tdm_fail(TDM_INVALID_ARGUMENT, "device properties: no place for them, or its "
                                          "struct_size is not sizeof(tdm_device_properties)");
  tdm_device *device;
  TDM_TRY(find_device(context, name, &device));
  const tdm_core_range *cores = tdm_context_cores(context, device);
  *out_properties = (tdm_device_properties){.struct_size = sizeof *out_properties,
                                            .kind = device->ops->kind,
                                            .rank = device->rank,
                                            .index = device->index,
                                            .numa_node = device->node,
                                            .is_here = !device->described,
                                            .threads = cores ? cores->count : 0};
  const char *model = cores ? tdm_topology_processor(tdm_context_topology(context)) : "";
  (void)snprintf(out_properties->model, sizeof out_properties->model, "%s%s%s", model,
                 *model && *device->identity ? ", " : "", device->identity);
  return device->ops->memory(device, &out_properties->memory_bytes, &out_properties->free_bytes);
}

static tdm_status find_link(tdm_context *context, const char *from, const char *to, bool pinned,
                            tdm_link_estimate *out_estimate) {
  TDM_TRY(tdm_context_check(context));
  tdm_device *source, *destination;
  TDM_TRY(find_device(context, from, &source));
  TDM_TRY(find_device(context, to, &destination));
  const tdm_route route = tdm_route_between(source, destination);
  if (route.count > 1)
    return tdm_fail(TDM_UNSUPPORTED, "copies from %s to %s go by way of %s, link by link",
                    source->name, destination->name, route.hops[0].to->name);
  tdm_context_link(context, source, destination, pinned, out_estimate);
  return TDM_OK;
}

tdm_status tdm_link_get_properties(tdm_context *context, const char *from, const char *to,
                                   bool pinned, tdm_link_properties *out_properties) {
  if (!out_properties || out_properties->struct_size != sizeof *out_properties)
    return tdm_fail(TDM_INVALID_ARGUMENT, "link properties: no place for them, or its struct_size "
                                          "is not sizeof(tdm_link_properties)");
  tdm_link_estimate estimate;
  TDM_TRY(find_link(context, from, to, pinned, &estimate));
  *out_properties = (tdm_link_properties){.struct_size = sizeof *out_properties,
                                          .measured = estimate.origin == TDM_LINK_CALIBRATED,
                                          .latency_us = estimate.link.latency_ns / 1e3,
                                          .gigabytes_per_second = estimate.link.bytes_per_ns};
  return TDM_OK;
}

tdm_status tdm_link_predict(tdm_context *context, const char *from, const char *to, bool pinned,
                            uint64_t bytes, double *out_us) {
  if (!out_us) return tdm_fail(TDM_INVALID_ARGUMENT, "link: no place for the prediction");
  tdm_link_estimate estimate;
  TDM_TRY(find_link(context, from, to, pinned, &estimate));
  *out_us = tdm_link_predict_ns(&estimate, (double)bytes) / 1e3;
  return TDM_OK;
}
