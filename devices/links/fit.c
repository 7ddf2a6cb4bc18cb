/* The line of least absolute relative deviations, ratios to it, and predictions. Invariant: see
 * fit.h. */
#include "devices/links/fit.h"

#include <math.h>
#include <stdlib.h>

#include "devices/least_rate.h"

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

double tdm_link_quantile(double *values, size_t count, double share) {
  qsort(values, count, sizeof(double), compare_doubles);
  return values[(size_t)(share * (double)(count - 1) + 0.5)];
}

/* ---- The line -------------------------------------------------------------------------------- */

/* The limits are round numbers, so that rounding, as in files, never exceeds them. */
static double bounded_ratio(double ratio) {
  return fmin(fmax(ratio, TDM_LINK_LEAST_RATIO), TDM_LINK_MOST_RATIO);
}

double tdm_link_line_ns(const tdm_link *link, double bytes) {
  return link->latency_ns + (link->bytes_per_ns > 0 ? bytes / link->bytes_per_ns : 0);
}

/* Makes the line *best if it is legal and has the least cost so far. A line that hardly rises has
 * no limit of bandwidth. */
static void consider(const tdm_link_point *points, uint32_t count, double latency_ns,
                     double ns_per_byte, tdm_link *best, double *best_cost) {
  if (!(latency_ns >= 0 && ns_per_byte >= 0)) return;
  const double rate = ns_per_byte > 0 ? 1 / ns_per_byte : 0;
  const tdm_link line = {.latency_ns = fmin(latency_ns, TDM_LINK_MOST_NS),
                         .bytes_per_ns = rate == 0 || rate > TDM_LINK_MOST_BYTES
                                             ? 0
                                             : fmax(rate, TDM_LEAST_BYTES_PER_NS)};
  double cost = 0;
  for (uint32_t i = 0; i < count; i++)
    cost += fabs(tdm_link_line_ns(&line, points[i].bytes) / points[i].ns - 1);
  if (cost >= *best_cost) return;
  *best_cost = cost;
  *best = line;
}

static tdm_link best_line(const tdm_link_point *points, uint32_t count) {
  tdm_link best = {0};
  double best_cost = INFINITY;
  for (uint32_t i = 0; i < count; i++) {
    const tdm_link_point a = points[i];
    consider(points, count, 0, a.ns / a.bytes, &best, &best_cost);
    consider(points, count, a.ns, 0, &best, &best_cost);
    for (uint32_t k = 0; k < i; k++) {
      const double slope = (a.ns - points[k].ns) / (a.bytes - points[k].bytes);
      consider(points, count, points[k].ns - slope * points[k].bytes, slope, &best, &best_cost);
    }
  }
  return best;
}

/* ---- Ratios to the line ---------------------------------------------------------------------- */

static double middle(double a, double b, double c) {
  return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* Ratios are smoothed by running medians of three (J. W. Tukey): a disturbed size is not a property
 * of the link. */
void tdm_link_fit_state(const tdm_link_point *points, size_t state, tdm_link_estimate *estimate) {
  const uint32_t count = estimate->knot_count;
  double ratios[TDM_LINK_MOST_KNOTS] = {0};
  for (uint32_t i = 0; i < count; i++)
    ratios[i] = points[i].ns / tdm_link_line_ns(&estimate->link, points[i].bytes);
  for (uint32_t i = 0; i < count; i++) {
    const bool inner = i > 0 && i + 1 < count;
    estimate->knots[i].ratios[state] =
        bounded_ratio(inner ? middle(ratios[i - 1], ratios[i], ratios[i + 1]) : ratios[i]);
  }
}

void tdm_link_fit(const tdm_link_point *points, uint32_t count, tdm_link_estimate *out_estimate) {
  *out_estimate = (tdm_link_estimate){
      .link = best_line(points, count), .origin = TDM_LINK_CALIBRATED, .knot_count = count};
  for (uint32_t i = 0; i < count; i++)
    out_estimate->knots[i].bytes = points[i].bytes;
  for (size_t state = 0; state < TDM_LINK_STATES; state++)
    tdm_link_fit_state(points, state, out_estimate);
}

/* ---- Predicting ------------------------------------------------------------------------------ */

/* Returns the position of `at` between low and high, by logarithm: 0 to 1. */
static double share_between(double low, double high, double at) {
  if (at <= low) return 0;
  return at >= high ? 1 : log(at / low) / log(high / low);
}

/* Interpolates the ratio between two sizes by the logarithm of the size. */
static double ratio_at(const tdm_link_estimate *estimate, double bytes, size_t state) {
  const tdm_link_knot *knots = estimate->knots;
  const uint32_t count = estimate->knot_count;
  if (count == 0) return 1;
  uint32_t i = 1;
  while (i + 1 < count && bytes > knots[i].bytes)
    i++;
  if (i >= count) return knots[0].ratios[state];
  const double share = share_between(knots[i - 1].bytes, knots[i].bytes, bytes);
  const double before = knots[i - 1].ratios[state];
  return before + share * (knots[i].ratios[state] - before);
}

double tdm_link_predict_ns(const tdm_link_estimate *estimate, double bytes) {
  return tdm_link_line_ns(&estimate->link, bytes) * ratio_at(estimate, bytes, TDM_LINK_NEAR);
}

/* The target leaves its core's own caches first. A stale source costs more only after it has left
 * the last cache. */
double tdm_link_predict_after_ns(const tdm_link_estimate *estimate, double bytes,
                                 double touched_bytes, bool stale) {
  const double far = estimate->far_bytes;
  if (far <= 0) return tdm_link_predict_ns(estimate, bytes);
  const double share = share_between(far / (stale ? 4 : 32), far, touched_bytes);
  const double near = ratio_at(estimate, bytes, TDM_LINK_NEAR);
  const double after = ratio_at(estimate, bytes, stale ? TDM_LINK_STALE : TDM_LINK_FAR);
  return tdm_link_line_ns(&estimate->link, bytes) * (near + share * (after - near));
}

double tdm_link_predict_both_ns(const tdm_link_estimate *estimate, double bytes) {
  const double ns = tdm_link_predict_ns(estimate, bytes);
  const double bytes_ns = fmax(0, ns - estimate->link.latency_ns);
  return ns + fmax(0, estimate->both_ways - 1) * bytes_ns;
}

const char *tdm_link_origin_name(tdm_link_origin origin) {
  return origin == TDM_LINK_CALIBRATED ? "calibrated" : "modelled";
}
