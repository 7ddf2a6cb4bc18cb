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
  size_t bytes; /* of each copy */
  int warm_ups;
  int timed;
  bool held;
} copy_counts;

/* For each queue of the group: warm_ups copies of every hop of it in turn, then timed ones; twice
 * as many where no hop is counted, so that it stays busy for as long as the others are measured.
 * held: cpu:0 holds all queues back until everything is submitted; else nothing is added. one and
 * ends (hop_count) are borrowed for the flight's life. */
tdm_status copy_flight_create(tdm_context *context, const group *one, const hop_ends *ends,
                              const copy_counts *counts, copy_flight **out_flight) TDM_WARN_UNUSED;
void copy_flight_destroy(copy_flight *flight);
/* Runs it once. out_ns[i] (hop_count) is the time of all timed copies of hop i's queue; 0 for
 * hops that are not counted. A queue of the host notes when its warm-ups and when its timed copies
 * are done. Of others only the end is seen by this thread, spinning, since points on the way may be
 * published late: there is no warm-up in their programs (run it once before), and the time counts
 * from when the queues were let go. */
tdm_status copy_flight_run(copy_flight *flight, double *out_ns) TDM_WARN_UNUSED;
/* Runs it once; the time from submitting to the end as this thread saw it. */
tdm_status copy_flight_run_whole(copy_flight *flight, double *out_ns) TDM_WARN_UNUSED;

#endif
