/* A group's hops as programs of one flight, which can be run any number of times. Invariant: no
 * queue of a held flight begins before all of it is submitted. */
#ifndef BENCH_TRANSFER_FLIGHT_H
#define BENCH_TRANSFER_FLIGHT_H

#include "bench/transfer/buffers.h"
#include "bench/transfer/cases.h"

typedef struct copy_flight copy_flight;

typedef struct hop_ends {
  buffer from;
  buffer to;
} hop_ends;

typedef struct copy_counts {
  size_t bytes; /* size of each copy */
  int warm_ups;
  int timed;
  bool held;
} copy_counts;

/* Creates a flight for the group. Each queue makes warm_ups copies of every hop in turn, then timed
 * copies. A queue without a counted hop makes twice as many, so that it is busy while the others
 * are measured. held: cpu:0 holds all queues until everything is submitted. one and ends
 * (hop_count) are borrowed for the flight's life. */
tdm_status copy_flight_create(tdm_context *context, const group *one, const hop_ends *ends,
                              const copy_counts *counts, copy_flight **out_flight) TDM_WARN_UNUSED;
void copy_flight_destroy(copy_flight *flight);
/* Runs it once. out_ns[i] (hop_count) is the time of all timed copies of hop i's queue; 0 for
 * hops that are not counted. A queue of the host records the end of its warm-ups and of its timed
 * copies. The end of another queue is observed by this thread, which spins, since points on the way
 * may be published late. The programs of such queues have no warm-up (run the flight once before),
 * and their time starts at the release of the queues. */
tdm_status copy_flight_run(copy_flight *flight, double *out_ns) TDM_WARN_UNUSED;
/* Runs it once; the time from submitting to the end as this thread saw it. */
tdm_status copy_flight_run_whole(copy_flight *flight, double *out_ns) TDM_WARN_UNUSED;

#endif
