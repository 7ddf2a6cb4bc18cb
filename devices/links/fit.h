/* Fitting latency + bytes / bandwidth to measured copies. Invariant: a pure function of its
 * samples: the resampling that gives the uncertainty draws from a fixed seed.
 *
 * A size's copies are reduced to their median, after those are rejected that lie further from it
 * than three times the median absolute deviation, scaled to a normal's (the rule of F. R. Hampel).
 * The line has least absolute relative deviations from these medians, so that small copies count as
 * much as large ones and a size measured in a bad moment does not bend it; such a line goes through
 * two of the points (P. Bloomfield and W. L. Steiger, Least Absolute Deviations, 1983), here also
 * through one and the origin, or one and level, since neither parameter is negative. The
 * uncertainty is the spread of the fits to samples drawn anew from each size's (B. Efron's
 * bootstrap). */
#ifndef TANDEM_DEVICES_LINKS_FIT_H
#define TANDEM_DEVICES_LINKS_FIT_H

#include "devices/links/links.h"

typedef struct tdm_link_sample {
  double bytes; /* above 0 */
  double ns;    /* above 0 */
} tdm_link_sample;

enum { TDM_LINK_MOST_SAMPLES_OF_SIZE = 64 };

/* samples (count) in any order; of at least 2 and at most TDM_LINK_MOST_KNOTS sizes, else
 * INVALID_ARGUMENT, as for a size with more than TDM_LINK_MOST_SAMPLES_OF_SIZE. Sorts them. What
 * comes of them is within the bounds of an estimate, however wild they are. About a millisecond or
 * two for 17 sizes. */
tdm_status tdm_link_fit(tdm_link_sample *samples, size_t count,
                        tdm_link_estimate *out_estimate) TDM_WARN_UNUSED;
/* What a message takes by itself. */
typedef struct tdm_link_latency {
  double ns; /* 0: no flight was noted yet */
  double error_ns;
} tdm_link_latency;

/* Notes the trips of one flight (count), which it sorts. What else runs on two machines only makes
 * messages slower, so the quickest third counts, of which the middle and the spread are taken; and
 * a flight in which a rank has just lost its core is slow from its first trip to its last, so the
 * quickest flight counts of those noted in latency. */
void tdm_link_note_flight(double *ns, size_t count, tdm_link_latency *latency);
/* Of an estimate fitted to what each message takes of a train of them: the line's latency becomes
 * that of a message by itself, which it takes longer by, and the ratios go on saying what its bytes
 * take. */
void tdm_link_set_latency(tdm_link_estimate *estimate, tdm_link_latency latency);
/* Sets what bytes take while as many go the other way, by what a train takes alone and beside one
 * that goes the other way, both above 0. Less than 1.6 times as long counts as not any longer. */
void tdm_link_set_both_ways(tdm_link_estimate *estimate, double alone_ns, double both_ns);
/* Sets what the estimate, which was fitted, says of one state (1 to TDM_LINK_STATES - 1), by copies
 * of the same sizes made in it. Its line stays. */
tdm_status tdm_link_fit_state(tdm_link_sample *samples, size_t count, size_t state,
                              tdm_link_estimate *estimate) TDM_WARN_UNUSED;

#endif
