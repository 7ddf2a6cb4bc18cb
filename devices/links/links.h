/* The cost of a copy between two devices. Invariant: an estimate contains its origin: the device's
 * own model before this machine was calibrated, and measured copies, with their uncertainty,
 * afterwards. */
#ifndef TANDEM_DEVICES_LINKS_LINKS_H
#define TANDEM_DEVICES_LINKS_LINKS_H

#include "devices/contract/device.h"

typedef enum tdm_link_origin {
  TDM_LINK_MODELLED,   /* taken from device->ops->link; nothing was measured */
  TDM_LINK_CALIBRATED, /* fitted to copies on this machine */
} tdm_link_origin;

/* The cost of a copy between two devices of the host depends on the caches. So it is measured in
 * three states. */
enum {
  TDM_LINK_NEAR,  /* source just written, target just read */
  TDM_LINK_FAR,   /* source just written; other memory was touched since the target was read */
  TDM_LINK_STALE, /* other memory was touched since both were used */
  TDM_LINK_STATES
};

/* At this size copies take `ratios` times the line's time: caches, page by page staging. */
typedef struct tdm_link_knot {
  double bytes;
  double ratios[TDM_LINK_STATES];
} tdm_link_knot;

#define TDM_LINK_MOST_KNOTS 24

/* Limits of an estimate's numbers, whatever was measured or is in a file. */
#define TDM_LINK_LEAST_RATIO 1e-6
#define TDM_LINK_MOST_RATIO 1e6
#define TDM_LINK_MOST_NS 1e13
#define TDM_LINK_MOST_BYTES 1e15 /* also the limit in bytes per ns */

typedef struct tdm_link_estimate {
  tdm_link link; /* the line: latency_ns + bytes / bytes_per_ns (0: no limit) */
  tdm_link_origin origin;
  /* Between two ranks: factor by which bytes take longer with as many in the opposite direction. 1:
   * the directions are independent; 2: they share the bandwidth; 0: not measured, treated as 1. */
  double both_ways;
  double far_bytes; /* bytes touched in the other states; 0: the link has no significant caches */
  uint32_t knot_count;
  tdm_link_knot knots[TDM_LINK_MOST_KNOTS]; /* (knot_count), by size */
} tdm_link_estimate;

/* Gets the estimate for copies on the direct route from one device to another. pinned refers to the
 * host's end, if one end is the host. Any thread. */
void tdm_context_link(tdm_context *context, const tdm_device *from, const tdm_device *to,
                      bool pinned, tdm_link_estimate *out_estimate);
/* Gets the estimate of an all-reduce over all ranks of a job, by the network's engine. Returns
 * false, and leaves out_estimate unchanged, if it was not measured. Any thread. */
bool tdm_context_all_reduce(tdm_context *context, tdm_link_estimate *out_estimate);
/* Returns the line's time, corrected between and beyond the measured sizes, in the near state. */
double tdm_link_predict_ns(const tdm_link_estimate *estimate, double bytes);
/* Returns the same if touched_bytes of other memory were used since the target was and, if stale,
 * since the source was. */
double tdm_link_predict_after_ns(const tdm_link_estimate *estimate, double bytes,
                                 double touched_bytes, bool stale);
/* Returns the line's time, also corrected, while as many bytes travel in the opposite direction. */
double tdm_link_predict_both_ns(const tdm_link_estimate *estimate, double bytes);
typedef double (*tdm_link_predictor)(const tdm_link_estimate *estimate, double bytes);
/* Returns the time of a copy over all links of its route, with pinned host memory; 0 on one
 * device. */
double tdm_context_route_ns(tdm_context *context, tdm_device *from, tdm_device *to, double bytes,
                            tdm_link_predictor predict);
const char *tdm_link_origin_name(tdm_link_origin origin); /* "modelled", "calibrated" */

#endif
