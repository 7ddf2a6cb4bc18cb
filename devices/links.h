/* What a copy between two devices costs. Invariant: an estimate says where it comes from: from the
 * device's own model until this machine was calibrated, then from measured copies, with how sure
 * they make it. */
#ifndef TANDEM_DEVICES_LINKS_H
#define TANDEM_DEVICES_LINKS_H

#include "devices/device.h"

typedef enum tdm_link_origin {
  TDM_LINK_MODELLED,   /* device->ops->link says so; nothing was measured */
  TDM_LINK_CALIBRATED, /* fitted to copies of this machine's */
} tdm_link_origin;

/* At this size copies take `ratio` times what the line says: caches, page by page staging. */
typedef struct tdm_link_knot {
  double bytes;
  double ratio;
} tdm_link_knot;

#define TDM_LINK_MOST_KNOTS 24

typedef struct tdm_link_estimate {
  tdm_link link; /* the line: latency_ns + bytes / bytes_per_ns (0: no limit) */
  /* The line's parameters are this close to what endless measuring would give, 98 times of 100 by
   * resampling; 0 of a modelled one. */
  double latency_error_ns;
  double ns_per_byte_error;
  double deviation; /* median of |measured / line - 1| over the sizes: how straight the link is */
  tdm_link_origin origin;
  uint32_t knot_count;
  tdm_link_knot knots[TDM_LINK_MOST_KNOTS]; /* (knot_count), by size */
} tdm_link_estimate;

/* The estimate for copies on the direct route from one device to another; pinned: of the host's
 * end, where one end is the host. Any thread. */
void tdm_context_link(tdm_context *context, const tdm_device *from, const tdm_device *to,
                      bool pinned, tdm_link_estimate *out_estimate);
/* The line, corrected between and beyond the sizes that were measured. */
double tdm_link_predict_ns(const tdm_link_estimate *estimate, double bytes);
const char *tdm_link_origin_name(tdm_link_origin origin); /* "modelled", "calibrated" */

#endif
