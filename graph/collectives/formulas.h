/* What sums over k take of links, as counts of messages: for the pass, which predicts by them, and
 * for forecasts of ranks. */
#ifndef TANDEM_GRAPH_COLLECTIVES_FORMULAS_H
#define TANDEM_GRAPH_COLLECTIVES_FORMULAS_H

#include <math.h>
#include <stdint.h>

/* A ring's messages out of each of k, of 1 / k of the bytes each: k - 1 while it adds, k - 1 that
 * go around finished (Patarasuk and Yuan, 2009). */
static inline double tdm_ring_messages(double k) {
  return 2 * (k - 1);
}

/* Rounds of a binomial tree, one way: ceil(log2 k) (as in Thakur, Rabenseifner, Gropp, 2005). */
static inline uint32_t tdm_tree_rounds(uint32_t k) {
  uint32_t rounds = 0;
  while ((uint64_t)1 << rounds < k)
    rounds++;
  return rounds;
}

/* n bytes in buckets of b: n / b latencies, and at the end the last bucket, which nothing hides.
 * Their sum is least where both are equal: so large a part of all bytes a bucket is. latency_ns of
 * one sum; stream_ns of all bytes. */
static inline double tdm_bucket_share(double latency_ns, double stream_ns) {
  return stream_ns > 0 ? fmin(1, sqrt(latency_ns / stream_ns)) : 1;
}

#endif
