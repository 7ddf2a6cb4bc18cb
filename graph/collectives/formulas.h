/* The number of messages of a sum over k participants. The pass uses it for predictions, and
 * forecasts of ranks simulate it. Invariant: these formulas are defined only here. */
#ifndef TANDEM_GRAPH_COLLECTIVES_FORMULAS_H
#define TANDEM_GRAPH_COLLECTIVES_FORMULAS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns how many messages, of 1 / k of the bytes, each of k participants of a ring sends: k - 1
 * while adding, then k - 1 with finished pieces (Patarasuk and Yuan, 2009). */
static inline double tdm_ring_messages(double k) {
  return 2 * (k - 1);
}

/* Returns the rounds of a binomial tree in one direction: ceil(log2 k) (as in Thakur, Rabenseifner,
 * Gropp, 2005). */
static inline uint32_t tdm_tree_rounds(uint32_t k) {
  uint32_t rounds = 0;
  while ((uint64_t)1 << rounds < k)
    rounds++;
  return rounds;
}

/* The traffic of each of k participants for one value, or for a part that all others get. */
typedef struct tdm_sum_messages {
  double bytes;     /* sent by each, one message after the other */
  double latencies; /* consecutive messages */
} tdm_sum_messages;

/* Returns the engine's all-reduce: the bytes of a ring, and the latencies of a tree in both
 * directions. Its additions are included. */
static inline tdm_sum_messages tdm_all_reduce_sends(uint32_t k, double bytes) {
  return (tdm_sum_messages){tdm_ring_messages(k) / k * bytes, 2 * tdm_tree_rounds(k)};
}

/* Returns the traffic if each participant's bytes go to all others, in the rounds of a tree. */
static inline tdm_sum_messages tdm_gather_sends(uint32_t k, double bytes) {
  return (tdm_sum_messages){(k - 1.0) * bytes, tdm_tree_rounds(k)};
}

/* Returns the best size of a bucket, as a share of all bytes. With n bytes in buckets of b there
 * are n / b latencies, and the last bucket's transfer is not hidden. The sum of both is minimal if
 * they are equal. latency_ns is for one sum, stream_ns for all bytes. */
static inline double tdm_bucket_share(double latency_ns, double stream_ns) {
  return stream_ns > 0 ? fmin(1, sqrt(latency_ns / stream_ns)) : 1;
}

#endif
