/* Fits latency + bytes / bandwidth to measured copies. Invariant: a pure function of its points,
 * with results within the bounds of an estimate.
 *
 * The line has least absolute relative deviations from the points. So small copies count as much as
 * large ones, and a size measured during a disturbance does not bend the line. Such a line passes
 * through two of the points (P. Bloomfield and W. L. Steiger, Least Absolute Deviations, 1983).
 * Here it may also pass through one point and the origin, or be level through one point, because
 * neither parameter is negative. */
#ifndef TANDEM_DEVICES_LINKS_FIT_H
#define TANDEM_DEVICES_LINKS_FIT_H

#include "devices/links/links.h"

/* The median time of copies of one size. Both are above 0 and finite. */
typedef struct tdm_link_point {
  double bytes;
  double ns;
} tdm_link_point;

/* Sorts values (count >= 1) and returns the value at that share of them: 0.5 for the median. */
double tdm_link_quantile(double *values, size_t count, double share);
/* Returns the line's time. */
double tdm_link_line_ns(const tdm_link *link, double bytes);
/* Fits an estimate to points (2 to TDM_LINK_MOST_KNOTS), by size. All states get the same ratios.
 */
void tdm_link_fit(const tdm_link_point *points, uint32_t count, tdm_link_estimate *out_estimate);
/* Sets one state of a fitted estimate from points of the same sizes. Its line is unchanged. */
void tdm_link_fit_state(const tdm_link_point *points, size_t state, tdm_link_estimate *estimate);

#endif
