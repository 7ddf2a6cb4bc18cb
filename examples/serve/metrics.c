/* Counting. Invariant: the page is written from one moment's numbers. */
#include "examples/serve/metrics.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { SPANS_A_DOUBLING = 8 };

static int span_of(uint64_t took_ns) {
  const double microseconds = (double)took_ns / 1000;
  if (microseconds <= 1) return 0;
  const int span = (int)(log2(microseconds) * SPANS_A_DOUBLING);
  return span < METRICS_SPANS ? span : METRICS_SPANS - 1;
}

void metrics_add_answer(metrics *counted, int status, uint64_t took_ns) {
  if (status >= 0 && status < METRICS_STATUSES) counted->responses[status]++;
  if (status != 200 || took_ns == 0) return;
  counted->timed++;
  counted->time_sum_ns += took_ns;
  counted->spans[span_of(took_ns)]++;
}

void metrics_add_batch(metrics *counted, int words, int rows) {
  counted->batches++;
  counted->batched_words += (uint64_t)words;
  counted->padded_rows += (uint64_t)(rows - words);
  if ((uint64_t)words > counted->largest_batch) counted->largest_batch = (uint64_t)words;
}

double metrics_quantile_seconds(const metrics *counted, double share) {
  const double wanted = share * (double)counted->timed;
  uint64_t seen = 0;
  for (int i = 0; i < METRICS_SPANS; i++) {
    seen += counted->spans[i];
    if (counted->spans[i] && (double)seen >= wanted)
      return exp2((double)(i + 1) / SPANS_A_DOUBLING) / 1e6;
  }
  return 0;
}

typedef struct page {
  char *out;
  size_t left; /* remaining bytes, including the terminating zero */
} page;

static __attribute__((format(printf, 2, 3))) void add(page *to, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int bytes = vsnprintf(to->out, to->left, format, arguments);
  va_end(arguments);
  const size_t used = bytes < 0 ? 0 : (size_t)bytes < to->left ? (size_t)bytes : to->left - 1;
  to->out += used;
  to->left -= used;
}

static void add_one(page *to, const char *name, const char *kind, double value) {
  add(to, "# TYPE serve_%s %s\nserve_%s %.10g\n", name, kind, name, value);
}

void metrics_print(const metrics *counted, const metrics_state *state, char *out, size_t size) {
  page to = {out, size};
  add(&to, "# TYPE serve_requests_total counter\n");
  for (int i = 0; i < METRICS_STATUSES; i++)
    if (counted->responses[i])
      add(&to, "serve_requests_total{status=\"%d\"} %llu\n", i,
          (unsigned long long)counted->responses[i]);
  add(&to, "# TYPE serve_request_seconds summary\n");
  add(&to, "serve_request_seconds{quantile=\"0.5\"} %.6f\n",
      metrics_quantile_seconds(counted, 0.5));
  add(&to, "serve_request_seconds{quantile=\"0.99\"} %.6f\n",
      metrics_quantile_seconds(counted, 0.99));
  add(&to, "serve_request_seconds_sum %.6f\nserve_request_seconds_count %llu\n",
      (double)counted->time_sum_ns / 1e9, (unsigned long long)counted->timed);
  add_one(&to, "batches_total", "counter", (double)counted->batches);
  add_one(&to, "batched_words_total", "counter", (double)counted->batched_words);
  add_one(&to, "padded_rows_total", "counter", (double)counted->padded_rows);
  add_one(&to, "largest_batch", "gauge", (double)counted->largest_batch);
  add_one(&to, "connections", "gauge", state->connections);
  add_one(&to, "queued_words", "gauge", state->queued);
  add_one(&to, "batches_in_flight", "gauge", state->in_flight);
}
