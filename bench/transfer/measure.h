/* Timing copies that go through the library's queues, after nvbandwidth's method: queues are held
 * back until everything is submitted, 4 copies warm up, the next 16 (more of small ones, so that
 * beginning and ending weigh little) are timed together, and the median of several such samples
 * counts. Invariant: what was measured was copied right; contents are compared after the samples.
 */
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
  host_memory memory; /* of host sides; ignored where there are none */
  const size_t *sizes;
  size_t size_count;
  int samples; /* 0: by size */
} measurement;

/* Measures one group in every size, and appends a result for each counted hop and size. What this
 * machine has no memory or no way for becomes a result with a problem; other failures are failures,
 * contents that differ among them. The calling thread spins while it waits. */
tdm_status measure_group(const measurement *wanted, const group *one,
                         results *out_results) TDM_WARN_UNUSED;

/* About how long it takes to measure copies of so many bytes between so many pairs at once. */
double copies_weight_ns(size_t pairs, size_t bytes, int samples, int copies);
/* How many copies are timed together. */
int timed_copies_of(size_t bytes);
/* How many samples a figure has unless it was said: cheap ones get more. */
int samples_of(int asked, size_t bytes);

#endif
