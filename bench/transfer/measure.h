/* Times copies through the library's queues, by nvbandwidth's method. Queues are held until
 * everything is submitted. 4 copies warm up, and the next 16 are timed together; small copies are
 * more, so that start and end weigh little. The median of several such samples counts. Invariant:
 * measured copies were correct; contents are compared after the samples. */
#ifndef BENCH_TRANSFER_MEASURE_H
#define BENCH_TRANSFER_MEASURE_H

#include "bench/transfer/buffers.h"
#include "bench/transfer/cases.h"
#include "bench/transfer/results.h"

enum { WARM_UP_COPIES = 4, TIMED_COPIES = 16, TIMED_SMALL_COPIES = 256, SMALL_BYTES = 1 << 20 };
enum { LATENCY_BYTES = 64, LATENCY_SAMPLES = 400 };

typedef struct measurement {
  tdm_context *context;
  const transfer_case *subject;
  host_memory memory; /* kind of host memory; ignored if both sides are devices */
  const size_t *sizes;
  size_t size_count;
  int samples; /* 0: by size */
} measurement;

/* Measures one group in every size, and appends a result for each counted hop and size. A group
 * for which this machine has no memory or route becomes a result with a problem. Other failures,
 * such as different contents, are returned. The calling thread spins while it waits. */
tdm_status measure_group(const measurement *wanted, const group *one,
                         results *out_results) TDM_WARN_UNUSED;

/* Returns an estimate of the time for measuring concurrent copies of these bytes between pairs. */
double copies_weight_ns(size_t pairs, size_t bytes, int samples, int copies);
/* How many copies are timed together. */
int timed_copies_of(size_t bytes);
/* Returns the number of samples of a figure: `asked`, or if that is 0, more for small sizes. */
int samples_of(int asked, size_t bytes);

#endif
