/* What a copy between two devices costs. Invariant: an estimate says where it comes from: from the
 * device's own model until this machine was calibrated, then from measured copies, with how sure
 * they make it. */
#ifndef TANDEM_DEVICES_LINKS_LINKS_H
#define TANDEM_DEVICES_LINKS_LINKS_H

#include "devices/contract/device.h"

typedef enum tdm_link_origin {
  TDM_LINK_MODELLED,   /* device->ops->link says so; nothing was measured */
  TDM_LINK_CALIBRATED, /* fitted to copies of this machine's */
} tdm_link_origin;

/* What a copy between two devices of the host costs depends on the caches: on how much other memory
 * was touched since the target was used last. So it is measured at three such distances with a
 * source just written, and at the last distance with a source that was not used since either. */
#define TDM_LINK_DISTANCES 3
#define TDM_LINK_STALE TDM_LINK_DISTANCES
#define TDM_LINK_STATES (TDM_LINK_DISTANCES + 1)

/* At this size copies take `ratios` times what the line says, in each state: caches, page by page
 * staging. */
typedef struct tdm_link_knot {
  double bytes;
  double ratios[TDM_LINK_STATES];
} tdm_link_knot;

#define TDM_LINK_MOST_KNOTS 24

/* What an estimate says lies within these, whatever was measured: a file is not believed more. */
#define TDM_LINK_LEAST_RATIO 1e-6
#define TDM_LINK_MOST_RATIO 1e6 /* of a deviation as well */
#define TDM_LINK_MOST_NS 1e13
#define TDM_LINK_MOST_BYTES 1e15 /* a ns as well */

typedef struct tdm_link_estimate {
  tdm_link link; /* the line: latency_ns + bytes / bytes_per_ns (0: no limit) */
  /* The line's parameters are this close to what endless measuring would give, 98 times of 100 by
   * resampling; 0 of a modelled one. */
  double latency_error_ns;
  double ns_per_byte_error;
  double deviation; /* median of |measured / line - 1| over the sizes: how straight the link is */
  tdm_link_origin origin;
  /* Between two ranks: bytes take so many times as long while as many go the other way. 1: each
   * direction has what it has alone; 2: they take turns; 0: not measured, taken to be 1. */
  double both_ways;
  /* Bytes touched in between, rising; the first and less: none. All 0: the link has no caches to
   * speak of. */
  double distances[TDM_LINK_DISTANCES];
  uint32_t knot_count;
  tdm_link_knot knots[TDM_LINK_MOST_KNOTS]; /* (knot_count), by size */
} tdm_link_estimate;

/* The estimate for copies on the direct route from one device to another; pinned: of the host's
 * end, where one end is the host. Any thread. */
void tdm_context_link(tdm_context *context, const tdm_device *from, const tdm_device *to,
                      bool pinned, tdm_link_estimate *out_estimate);
/* In a job of several ranks: an all-reduce over all of them of so many bytes, by the network's
 * engine. False: it was not measured, and out_estimate is left alone. Any thread. */
bool tdm_context_all_reduce(tdm_context *context, tdm_link_estimate *out_estimate);
/* The line, corrected between and beyond the sizes that were measured: where the source was just
 * written and the destination just read. */
double tdm_link_predict_ns(const tdm_link_estimate *estimate, double bytes);
/* The same where touched_bytes of other memory were used since the target was; stale: and since the
 * source was. */
double tdm_link_predict_after_ns(const tdm_link_estimate *estimate, double bytes,
                                 double touched_bytes, bool stale);
/* The line, likewise corrected, while as many bytes go the other way. */
double tdm_link_predict_both_ns(const tdm_link_estimate *estimate, double bytes);
typedef double (*tdm_link_predictor)(const tdm_link_estimate *estimate, double bytes);
/* What a copy takes by all links of its way, host memory being pinned; 0 on one device. */
double tdm_context_route_ns(tdm_context *context, tdm_device *from, tdm_device *to, double bytes,
                            tdm_link_predictor predict);
const char *tdm_link_origin_name(tdm_link_origin origin); /* "modelled", "calibrated" */

#endif
