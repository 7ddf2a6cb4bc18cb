/* The counters of the server, and their page in the text format of Prometheus. One thread. */
#ifndef EXAMPLES_SERVE_METRICS_H
#define EXAMPLES_SERVE_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum { METRICS_STATUSES = 600, METRICS_SPANS = 256 };

typedef struct metrics {
  uint64_t responses[METRICS_STATUSES]; /* number of responses by status */
  uint64_t batches;
  uint64_t batched_words;
  uint64_t padded_rows; /* rows of batches, filled up to a size that has a plan */
  uint64_t largest_batch;
  uint64_t timed;                /* responses with status 200, whose time counts */
  uint64_t spans[METRICS_SPANS]; /* histogram of times: 8 buckets per doubling, from 1 us */
  uint64_t time_sum_ns;
} metrics;

/* Current values that are not counters. */
typedef struct metrics_state {
  int connections;
  int queued;
  int in_flight;
} metrics_state;

void metrics_add_answer(metrics *counted, int status, uint64_t took_ns);
void metrics_add_batch(metrics *counted, int words, int rows);
/* Returns the longest time of a share of the responses, with an error of at most a tenth. */
double metrics_quantile_seconds(const metrics *counted, double share);
/* Writes the page; at most size - 1 bytes. */
void metrics_print(const metrics *counted, const metrics_state *state, char *out, size_t size);

#endif
