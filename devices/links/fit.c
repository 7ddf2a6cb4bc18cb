/* Medians, the line of least absolute relative deviations, and its spread. Invariant: see fit.h. */
#include "devices/links/fit.h"

#include <math.h>
#include <stdlib.h>

#include "core/status.h"
#include "devices/least_rate.h"

enum { RESAMPLES = 200, SPREAD_LEAST = 2, SPREAD_MOST = 197 /* the central 98 of 100 */ };

static const double normal_scale = 1.4826; /* a normal's standard deviation over its MAD */
static const double outlier_deviations = 3;

/* The samples of one size, and the median of those that are not outliers. */
typedef struct size_group {
  double bytes;
  double median_ns;
  double kept[TDM_LINK_MOST_SAMPLES_OF_SIZE]; /* (kept_count), sorted */
  size_t kept_count;
} size_group;

typedef struct line {
  double latency_ns;
  double ns_per_byte;
} line;

typedef struct fitting {
  size_group groups[TDM_LINK_MOST_KNOTS]; /* (count), by size */
  size_t count;
  uint64_t random;
  double latencies[RESAMPLES];
  double slopes[RESAMPLES];
} fitting;

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

static int compare_samples(const void *a, const void *b) {
  const tdm_link_sample *x = a;
  const tdm_link_sample *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? 1 : -1;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

static double median_of_sorted(const double *values, size_t count) {
  return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- Sizes --------------------------------------------------------------------------------- */

static void reduce(size_group *group, const tdm_link_sample *samples, size_t count) {
  double sorted[TDM_LINK_MOST_SAMPLES_OF_SIZE] = {0};
  double deviations[TDM_LINK_MOST_SAMPLES_OF_SIZE];
  for (size_t i = 0; i < count; i++)
    sorted[i] = samples[i].ns;
  const double median = median_of_sorted(sorted, count);
  for (size_t i = 0; i < count; i++)
    deviations[i] = fabs(sorted[i] - median);
  qsort(deviations, count, sizeof(double), compare_doubles);
  const double limit = outlier_deviations * normal_scale * median_of_sorted(deviations, count);
  group->bytes = samples[0].bytes;
  group->kept_count = 0;
  for (size_t i = 0; i < count; i++) {
    if (fabs(sorted[i] - median) <= limit) group->kept[group->kept_count++] = sorted[i];
  }
  group->median_ns = median_of_sorted(group->kept, group->kept_count);
}

static tdm_status group_by_size(fitting *fit, tdm_link_sample *samples, size_t count) {
  qsort(samples, count, sizeof(*samples), compare_samples);
  for (size_t first = 0, end; first < count; first = end) {
    for (end = first; end < count && samples[end].bytes == samples[first].bytes;)
      end++;
    const bool positive = samples[first].bytes > 0 && samples[first].ns > 0;
    if (!positive || !isfinite(samples[end - 1].bytes + samples[end - 1].ns)) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "a link cannot be fitted to copies that took no time");
    }
    if (fit->count == TDM_LINK_MOST_KNOTS || end - first > TDM_LINK_MOST_SAMPLES_OF_SIZE) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "a link is fitted to %d sizes of %d copies at most",
                      TDM_LINK_MOST_KNOTS, TDM_LINK_MOST_SAMPLES_OF_SIZE);
    }
    reduce(&fit->groups[fit->count++], &samples[first], end - first);
  }
  if (fit->count >= 2) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "a link cannot be fitted to copies of %zu size%s",
                  fit->count, fit->count == 1 ? "" : "s");
}

/* ---- Bounds -------------------------------------------------------------------------------- */

/* The limits are round numbers, so that rounding, as in files, never exceeds them. */

static double bounded_ratio(double ratio) {
  return fmin(fmax(ratio, TDM_LINK_LEAST_RATIO), TDM_LINK_MOST_RATIO);
}

static double bounded_ns(double ns) {
  return fmin(ns, TDM_LINK_MOST_NS);
}

/* Returns 0, no limit, for a line that hardly rises. */
static double rate_of(double ns_per_byte) {
  const double rate = ns_per_byte > 0 ? 1 / ns_per_byte : 0;
  if (rate == 0 || rate > TDM_LINK_MOST_BYTES) return 0;
  return fmax(rate, TDM_LEAST_BYTES_PER_NS);
}

/* ---- The line ------------------------------------------------------------------------------ */

static double line_ns(line at, double bytes) {
  return at.latency_ns + at.ns_per_byte * bytes;
}

static double cost(const fitting *fit, line candidate) {
  double sum = 0;
  for (size_t i = 0; i < fit->count; i++) {
    const size_group *group = &fit->groups[i];
    sum += fabs(line_ns(candidate, group->bytes) / group->median_ns - 1);
  }
  return sum;
}

static void consider(const fitting *fit, line candidate, line *best, double *best_cost) {
  if (candidate.latency_ns < 0 || candidate.ns_per_byte < 0) return;
  const double candidate_cost = cost(fit, candidate);
  if (candidate_cost >= *best_cost) return;
  *best_cost = candidate_cost;
  *best = candidate;
}

static line best_line(const fitting *fit) {
  line best = {0};
  double best_cost = INFINITY;
  for (size_t i = 0; i < fit->count; i++) {
    const size_group *a = &fit->groups[i];
    consider(fit, (line){.ns_per_byte = a->median_ns / a->bytes}, &best, &best_cost);
    consider(fit, (line){.latency_ns = a->median_ns}, &best, &best_cost);
    for (size_t k = 0; k < i; k++) {
      const size_group *b = &fit->groups[k];
      const double slope = (a->median_ns - b->median_ns) / (a->bytes - b->bytes);
      consider(fit, (line){.latency_ns = b->median_ns - slope * b->bytes, .ns_per_byte = slope},
               &best, &best_cost);
    }
  }
  return best;
}

/* ---- Uncertainty --------------------------------------------------------------------------- */

static size_t draw(fitting *fit, size_t count) {
  fit->random = fit->random * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(fit->random >> 33) % count;
}

static void resample(fitting *fit, double *medians) {
  double drawn[TDM_LINK_MOST_SAMPLES_OF_SIZE];
  for (size_t i = 0; i < fit->count; i++) {
    size_group *group = &fit->groups[i];
    for (size_t k = 0; k < group->kept_count; k++)
      drawn[k] = group->kept[draw(fit, group->kept_count)];
    qsort(drawn, group->kept_count, sizeof(double), compare_doubles);
    medians[i] = median_of_sorted(drawn, group->kept_count);
  }
}

static double spread(double *values, double center) {
  qsort(values, RESAMPLES, sizeof(double), compare_doubles);
  return fmax(center - values[SPREAD_LEAST], values[SPREAD_MOST] - center);
}

static void add_uncertainty(fitting *fit, line fitted, tdm_link_estimate *estimate) {
  double medians[TDM_LINK_MOST_KNOTS];
  double saved[TDM_LINK_MOST_KNOTS];
  for (size_t i = 0; i < fit->count; i++)
    saved[i] = fit->groups[i].median_ns;
  for (size_t r = 0; r < RESAMPLES; r++) {
    resample(fit, medians);
    for (size_t i = 0; i < fit->count; i++)
      fit->groups[i].median_ns = medians[i];
    const line drawn = best_line(fit);
    fit->latencies[r] = drawn.latency_ns;
    fit->slopes[r] = drawn.ns_per_byte;
  }
  for (size_t i = 0; i < fit->count; i++)
    fit->groups[i].median_ns = saved[i];
  estimate->latency_error_ns = bounded_ns(spread(fit->latencies, fitted.latency_ns));
  estimate->ns_per_byte_error = bounded_ns(spread(fit->slopes, fitted.ns_per_byte));
}

/* ---- Ratios to the line -------------------------------------------------------------------- */

static double straight_ns(const tdm_link *link, double bytes) {
  return link->latency_ns + (link->bytes_per_ns > 0 ? bytes / link->bytes_per_ns : 0);
}

static double middle(double a, double b, double c) {
  return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* Computes the ratios of measurement to line, smoothed by running medians of three (J. W. Tukey): a
 * disturbed size is not a property of the link. */
static void put_ratios(const fitting *fit, tdm_link_estimate *estimate, size_t state) {
  double ratios[TDM_LINK_MOST_KNOTS];
  for (size_t i = 0; i < fit->count; i++)
    ratios[i] = fit->groups[i].median_ns / straight_ns(&estimate->link, fit->groups[i].bytes);
  for (size_t i = 0; i < fit->count; i++) {
    const bool inner = i > 0 && i + 1 < fit->count;
    estimate->knots[i].ratios[state] =
        bounded_ratio(inner ? middle(ratios[i - 1], ratios[i], ratios[i + 1]) : ratios[i]);
  }
}

static void add_knots(const fitting *fit, tdm_link_estimate *estimate) {
  double deviations[TDM_LINK_MOST_KNOTS];
  for (size_t i = 0; i < fit->count; i++) {
    const size_group *group = &fit->groups[i];
    deviations[i] = fabs(group->median_ns / straight_ns(&estimate->link, group->bytes) - 1);
    estimate->knots[i].bytes = group->bytes;
  }
  qsort(deviations, fit->count, sizeof(double), compare_doubles);
  estimate->deviation = fmin(median_of_sorted(deviations, fit->count), TDM_LINK_MOST_RATIO);
  estimate->knot_count = (uint32_t)fit->count;
  for (size_t state = 0; state < TDM_LINK_STATES; state++)
    put_ratios(fit, estimate, state);
}

tdm_status tdm_link_fit(tdm_link_sample *samples, size_t count, tdm_link_estimate *out_estimate) {
  *out_estimate = (tdm_link_estimate){.origin = TDM_LINK_CALIBRATED};
  fitting fit = {.random = 1};
  TDM_TRY(group_by_size(&fit, samples, count));
  const line fitted = best_line(&fit);
  out_estimate->link = (tdm_link){.latency_ns = bounded_ns(fitted.latency_ns),
                                  .bytes_per_ns = rate_of(fitted.ns_per_byte)};
  add_uncertainty(&fit, fitted, out_estimate);
  add_knots(&fit, out_estimate);
  return TDM_OK;
}

tdm_status tdm_link_fit_state(tdm_link_sample *samples, size_t count, size_t state,
                              tdm_link_estimate *estimate) {
  fitting fit = {.random = 1};
  TDM_TRY(group_by_size(&fit, samples, count));
  bool same = fit.count == estimate->knot_count && state < TDM_LINK_STATES;
  for (size_t i = 0; same && i < fit.count; i++)
    same = fit.groups[i].bytes == estimate->knots[i].bytes;
  if (!same) return tdm_fail(TDM_INVALID_ARGUMENT, "copies in another state are of other sizes");
  put_ratios(&fit, estimate, state);
  return TDM_OK;
}

/* ---- Latency of single messages ------------------------------------------------------------- */

void tdm_link_note_flight(double *ns, size_t count, tdm_link_latency *latency) {
  const size_t kept = (count + 2) / 3;
  qsort(ns, count, sizeof(double), compare_doubles);
  if (latency->ns > 0 && ns[kept / 2] >= latency->ns) return;
  *latency = (tdm_link_latency){.ns = ns[kept / 2], .error_ns = ns[kept - 1] - ns[0]};
}

void tdm_link_set_latency(tdm_link_estimate *estimate, tdm_link_latency latency) {
  tdm_link *link = &estimate->link;
  const double each_ns = link->latency_ns;
  for (uint32_t i = 0; i < estimate->knot_count; i++) {
    tdm_link_knot *knot = &estimate->knots[i];
    const double each_line_ns = straight_ns(link, knot->bytes);
    const double line_ns = each_line_ns - each_ns + latency.ns;
    for (size_t state = 0; state < TDM_LINK_STATES; state++) {
      const double bytes_ns = fmax(0, each_line_ns * knot->ratios[state] - each_ns);
      knot->ratios[state] = bounded_ratio((latency.ns + bytes_ns) / line_ns);
    }
  }
  link->latency_ns = bounded_ns(latency.ns);
  estimate->latency_error_ns = bounded_ns(latency.error_ns);
}

/* ---- Both ways at once ----------------------------------------------------------------------- */

/* A shared link takes twice as long with traffic both ways. On a link that carries both directions
 * at once, short trains took 1.5 times as long at 50 Mbit/s (TCP may still have been finding its
 * rate). Messages of steps took hardly any longer. */
static const double shared_ratio = 1.6;

void tdm_link_set_both_ways(tdm_link_estimate *estimate, double alone_ns, double both_ns) {
  const double ratio = both_ns / alone_ns;
  estimate->both_ways = ratio < shared_ratio ? 1 : fmin(ratio, TDM_LINK_MOST_RATIO);
}

/* ---- Predicting ---------------------------------------------------------------------------- */

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
  return straight_ns(&estimate->link, bytes) * ratio_at(estimate, bytes, 0);
}

/* Interpolates between two distances in the same way. A stale source costs more only after it has
 * left the last cache, not when it has only left its core's own. */
double tdm_link_predict_after_ns(const tdm_link_estimate *estimate, double bytes,
                                 double touched_bytes, bool stale) {
  const double *distances = estimate->distances;
  const double last = distances[TDM_LINK_DISTANCES - 1];
  double ratio = ratio_at(estimate, bytes, 0);
  if (stale && distances[0] > 0) {
    const double share = share_between(distances[TDM_LINK_DISTANCES - 2], last, touched_bytes);
    ratio += share * (ratio_at(estimate, bytes, TDM_LINK_STALE) - ratio);
  }
  for (size_t i = 1; !stale && i < TDM_LINK_DISTANCES && touched_bytes > distances[i - 1]; i++) {
    if (distances[i - 1] <= 0) break;
    const double share = share_between(distances[i - 1], distances[i], touched_bytes);
    ratio += share * (ratio_at(estimate, bytes, i) - ratio);
  }
  return straight_ns(&estimate->link, bytes) * ratio;
}

double tdm_link_predict_both_ns(const tdm_link_estimate *estimate, double bytes) {
  const double ns = tdm_link_predict_ns(estimate, bytes);
  const double bytes_ns = fmax(0, ns - estimate->link.latency_ns);
  return ns + fmax(0, estimate->both_ways - 1) * bytes_ns;
}

const char *tdm_link_origin_name(tdm_link_origin origin) {
  return origin == TDM_LINK_CALIBRATED ? "calibrated" : "modelled";
}
