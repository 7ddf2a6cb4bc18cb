/* Routes: the hops that bytes take from one device to another, each carried by one queue.
 * Invariant: only route.c determines which devices are between two devices without a common queue.
 * New rules or longer routes change only that file.
 *
 *   one kind                      from -> to            the destination's peer queue
 *   host and a discrete device    from -> to            the discrete one's upload or download queue
 *   two discrete kinds            from -> cpu:0 -> to   the source's download, then the
 *                                                       destination's upload queue
 *   hosts of two ranks            from -> to            a message: the source's network sends it
 *                                                       and the destination's receives it
 *   devices of two ranks that     from -> to            the peer queues of both
 *   exchange
 *   other devices of two ranks    from -> its rank's cpu:0 -> the other's -> to, as far as either
 *                                 end is not the host's
 *
 * A kind that has no such queue copies by its compute queue. */
#ifndef TANDEM_DEVICES_CONTEXT_ROUTE_H
#define TANDEM_DEVICES_CONTEXT_ROUTE_H

#include "devices/context/context.h"

enum { TDM_ROUTE_MOST_HOPS = 3 };

typedef struct tdm_hop {
  tdm_device *from;
  tdm_device *to;
  tdm_queue *queue; /* the queue that carries it; between ranks the receiving one */
} tdm_hop;

typedef struct tdm_route {
  tdm_hop hops[TDM_ROUTE_MOST_HOPS];
  uint32_t count; /* number of hops, at least 1 */
} tdm_route;

/* Returns the route between two devices of one context. */
tdm_route tdm_route_between(tdm_device *from, tdm_device *to);
/* Returns the queue of a route of one hop, or NULL if the route has more hops. */
tdm_queue *tdm_direct_queue(const tdm_device *from, const tdm_device *to);
/* Returns true if routes between other devices pass through this one. */
bool tdm_is_waypoint(const tdm_device *device);

#endif
