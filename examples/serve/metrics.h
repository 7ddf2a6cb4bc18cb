/* What the server counts, and the page that tells it, in the text format that Prometheus reads. One
 * thread. */
#ifndef EXAMPLES_SERVE_METRICS_H
#define EXAMPLES_SERVE_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum { METRICS_STATUSES = 600, METRICS_SPANS = 256 };

typedef struct metrics {
  uint64_t answers[METRICS_STATUSES]; /* by status */
  uint64_t batches;
  uint64_t batched_words;
  uint64_t padded_rows; /* of batches, filled up to a size that has a plan */
  uint64_t largest_batch;
  uint64_t timed;                /* answers whose time counts, with status 200 */
  uint64_t spans[METRICS_SPANS]; /* of their times: each an eighth of a doubling, from 1 us on */
  uint64_t time_sum_ns;
} metrics;

/* What is so now, not counted. */
typedef struct metrics_state {
  int connections;
  int queued;
  int in_flight;
} metrics_state;

void metrics_add_answer(metrics *counted, int status, uint64_t took_ns);
void metrics_add_batch(metrics *counted, int words, int rows);
/* The time that a share of the answers took at most, to a tenth of itself. */
double metrics_quantile_seconds(const metrics *counted, double share);
/* Writes the page; at most size - 1 bytes. */
void metrics_print(const metrics *counted, const metrics_state *state, char *out, size_t size);

#endif
