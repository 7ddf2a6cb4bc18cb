/* The rules of routes. Invariant: see route.h. */
#include "devices/context/route.h"

#include <string.h>

static tdm_queue *queue_or_compute(const tdm_device *device, tdm_queue_role role) {
  tdm_queue *queue = device->queues[role];
  return queue ? queue : device->queues[TDM_QUEUE_COMPUTE];
}

tdm_queue *tdm_direct_queue(const tdm_device *from, const tdm_device *to) {
  if (from->rank != to->rank) {
    if (from->exchanges && to->exchanges && strcmp(from->ops->kind, to->ops->kind) == 0)
      return to->queues[TDM_QUEUE_PEER];
    if (!from->host_addressable || !to->host_addressable) return NULL;
    return tdm_context_host_of(to->context, to->rank)->queues[TDM_QUEUE_RECEIVE];
  }
  if (tdm_device_same_kind(from, to)) return queue_or_compute(to, TDM_QUEUE_PEER);
  if (from->host_addressable) return queue_or_compute(to, TDM_QUEUE_UPLOAD);
  if (to->host_addressable) return queue_or_compute(from, TDM_QUEUE_DOWNLOAD);
  return NULL;
}

/* Routes to other ranks pass through the rank's cpu:0, which has a queue in common with every
 * device of the rank. */
static tdm_device *waypoint_of(const tdm_device *device) {
  return tdm_context_host_of(device->context, device->rank);
}

bool tdm_is_waypoint(const tdm_device *device) {
  return device == waypoint_of(device);
}

static void add_hop(tdm_route *route, tdm_device *to) {
  tdm_device *from = route->hops[route->count - 1].to;
  route->hops[route->count++] = (tdm_hop){from, to, tdm_direct_queue(from, to)};
}

tdm_route tdm_route_between(tdm_device *from, tdm_device *to) {
  tdm_queue *direct = tdm_direct_queue(from, to);
  if (direct) return (tdm_route){.hops = {{from, to, direct}}, .count = 1};
  tdm_device *near = from->host_addressable ? from : waypoint_of(from);
  tdm_device *far = to->host_addressable ? to : waypoint_of(to);
  tdm_device *first = near != from ? near : far;
  tdm_route route = {.hops = {{from, first, tdm_direct_queue(from, first)}}, .count = 1};
  if (far != first) add_hop(&route, far);
  if (to != far) add_hop(&route, to);
  return route;
}
