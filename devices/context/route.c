/* The rules of routes. Invariant: see route.h. */
#include "devices/context/route.h"

static tdm_queue *queue_or_compute(const tdm_device *device, tdm_queue_role role) {
  tdm_queue *queue = device->queues[role];
  return queue ? queue : device->queues[TDM_QUEUE_COMPUTE];
}

tdm_queue *tdm_direct_queue(const tdm_device *from, const tdm_device *to) {
  if (tdm_device_same_kind(from, to)) return queue_or_compute(to, TDM_QUEUE_PEER);
  if (from->host_addressable) return queue_or_compute(to, TDM_QUEUE_UPLOAD);
  if (to->host_addressable) return queue_or_compute(from, TDM_QUEUE_DOWNLOAD);
  return NULL;
}

static tdm_device *waypoint_of(tdm_context *context) {
  return tdm_context_device(context, 0); /* cpu:0, which has a queue in common with every device */
}

bool tdm_is_waypoint(const tdm_device *device) {
  return device == waypoint_of(device->context);
}

tdm_route tdm_route_between(tdm_device *from, tdm_device *to) {
  tdm_queue *direct = tdm_direct_queue(from, to);
  if (direct) return (tdm_route){.hops = {{from, to, direct}}, .count = 1};
  tdm_device *between = waypoint_of(from->context);
  return (tdm_route){.hops = {{from, between, tdm_direct_queue(from, between)},
                              {between, to, tdm_direct_queue(between, to)}},
                     .count = 2};
}
