/* What sums over k take of links, as counts of messages: the pass predicts by them, and forecasts
 * of ranks simulate them. Invariant: nowhere else is said what an algorithm sends. */
#ifndef TANDEM_GRAPH_COLLECTIVES_FORMULAS_H
#define TANDEM_GRAPH_COLLECTIVES_FORMULAS_H

#include <math.h>
#include <stdbool.h>
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

/* What each of k sends of a value, or of what is its own to be had by all. */
typedef struct tdm_sum_messages {
  double bytes;     /* out of each, one message after the other */
  double latencies; /* messages that wait for one another */
  double additions; /* of bytes / k each, which do so as well */
} tdm_sum_messages;

static inline tdm_sum_messages tdm_ring_sends(uint32_t k, double bytes) {
  const double messages = tdm_ring_messages(k);
  return (tdm_sum_messages){messages / k * bytes, messages, k - 1.0};
}

/* The engine's all-reduce: as many bytes as in a ring, as many latencies as up and down a tree. Its
 * additions are part of these. */
static inline tdm_sum_messages tdm_all_reduce_sends(uint32_t k, double bytes) {
  return (tdm_sum_messages){tdm_ring_messages(k) / k * bytes, 2 * tdm_tree_rounds(k), 0};
}

/* bytes of each go to all others: around a ring, or in as many rounds as a tree has. */
static inline tdm_sum_messages tdm_gather_sends(uint32_t k, double bytes, bool around) {
  return (tdm_sum_messages){(k - 1.0) * bytes, around ? k - 1.0 : tdm_tree_rounds(k), 0};
}

/* n bytes in buckets of b: n / b latencies, and at the end the last bucket, which nothing hides.
 * Their sum is least where both are equal: so large a part of all bytes a bucket is. latency_ns of
 * one sum; stream_ns of all bytes. */
static inline double tdm_bucket_share(double latency_ns, double stream_ns) {
  return stream_ns > 0 ? fmin(1, sqrt(latency_ns / stream_ns)) : 1;
}

#endif
