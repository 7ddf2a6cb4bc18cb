/* Fits latency + bytes / bandwidth to measured copies. Invariant: a pure function of its samples:
 * the resampling for the uncertainty uses a fixed seed.
 *
 * A size's copies are reduced to their median without outliers. An outlier is further from the
 * median than three times the median absolute deviation, scaled to a normal's (the rule of F. R.
 * Hampel). The line has least absolute relative deviations from these medians. So small copies
 * count as much as large ones, and a size measured during a disturbance does not bend the line.
 * Such a line passes through two of the points (P. Bloomfield and W. L. Steiger, Least Absolute
 * Deviations, 1983). Here it may also pass through one point and the origin, or be level through
 * one point, because neither parameter is negative.
 *
 * The uncertainty is the spread of the fits to samples resampled from each size's (B. Efron's
 * bootstrap). */
#ifndef TANDEM_DEVICES_LINKS_FIT_H
#define TANDEM_DEVICES_LINKS_FIT_H

#include "devices/links/links.h"

typedef struct tdm_link_sample {
  double bytes; /* above 0 */
  double ns;    /* above 0 */
} tdm_link_sample;

enum { TDM_LINK_MOST_SAMPLES_OF_SIZE = 64 };

/* Fits a line to samples (count) in any order, which are sorted. Fails with INVALID_ARGUMENT unless
 * they have 2 to TDM_LINK_MOST_KNOTS sizes of at most TDM_LINK_MOST_SAMPLES_OF_SIZE samples each.
 * The results are within the bounds of an estimate, whatever the samples are. Takes about one or
 * two milliseconds for 17 sizes. */
tdm_status tdm_link_fit(tdm_link_sample *samples, size_t count,
                        tdm_link_estimate *out_estimate) TDM_WARN_UNUSED;
/* The time of a single message. */
typedef struct tdm_link_latency {
  double ns; /* 0: no flight was recorded yet */
  double error_ns;
} tdm_link_latency;

/* Adds the trips of one flight (count), which are sorted. Other activity on two machines only slows
 * messages down, so only the quickest third counts, of which the middle and the spread are used. If
 * a rank loses its core, all trips of a flight are slow, so latency keeps the quickest of its
 * flights. */
void tdm_link_note_flight(double *ns, size_t count, tdm_link_latency *latency);
/* Corrects an estimate that was fitted to messages of a train: the line's latency becomes that of a
 * single message, and the ratios keep describing the time of its bytes. */
void tdm_link_set_latency(tdm_link_estimate *estimate, tdm_link_latency latency);
/* Sets the effect of opposite traffic from the time of a train without it and with it, both above
 * 0. A factor below 1.6 counts as no effect. */
void tdm_link_set_both_ways(tdm_link_estimate *estimate, double alone_ns, double both_ns);
/* Sets one state (1 to TDM_LINK_STATES - 1) of a fitted estimate from copies of the same sizes in
 * that state. Its line is unchanged. */
tdm_status tdm_link_fit_state(tdm_link_sample *samples, size_t count, size_t state,
                              tdm_link_estimate *estimate) TDM_WARN_UNUSED;

#endif
