/* Measured results: one record for each (case, memory, pair of devices, size), and statistics of
 * samples. Invariant: a record has figures and verified contents, or a problem; none is omitted
 * silently. */
#ifndef BENCH_TRANSFER_RESULTS_H
#define BENCH_TRANSFER_RESULTS_H

#include "devices/links/links.h"

typedef struct result {
  const char *case_name; /* static storage, like unit and memory */
  const char *unit;      /* "GB/s" or "us": what median, low, high and p99 are in */
  const char *memory;    /* kind of host memory: "pageable", ...; "-" without a host side */
  char from[24];
  char to[24];
  int node; /* NUMA node (os index) of the host side; -1: none, or unknown */
  size_t bytes;
  int samples;
  double median, low, high; /* figures over the samples, in `unit` */
  double p99;               /* the bad end: the lowest per cent of GB/s, the highest of us */
  double copy_ns;           /* median time of one copy */
  char problem[192];        /* "": measured, and the contents verified */
} result;

/* Observes a measurement. Called before each part: next describes it (without figures), weight_ns
 * estimates its relative duration. Returning false counts the part without measuring it. */
typedef struct results_watch {
  bool (*begins)(void *user, const result *next, double weight_ns);
  void *user;
} results_watch;

typedef struct results {
  result *items;
  size_t count;
  size_t capacity;
  const results_watch *watch; /* borrowed; NULL: no observer */
} results;

/* Notifies the observer of the next part. Returns true if it has to be measured. */
bool results_begin(const results *list, const result *next, double weight_ns);

/* Appends a copy of item. */
tdm_status results_add(results *list, const result *item) TDM_WARN_UNUSED;
void results_deinit(results *list);

/* Fills samples, median, low, high and p99 from values (count >= 1), which it sorts. */
void result_summarize(result *out, double *values, int count, bool higher_is_better);

/* Fits latency + bytes / bandwidth to the median copies of list that are of the same case, memory
 * and pair as list->items[like] (devices/links/fit.h). out_deviation: median deviation of a copy
 * from this line, as a share of it. Returns false with fewer than three sizes. */
bool results_fit(const results *list, size_t like, tdm_link *out_link, double *out_deviation);
/* Returns true if two records have the same link: case, memory, from and to. */
bool results_same_link(const result *a, const result *b);
/* Returns true if items[index] is the first of its link. */
bool results_first_of_link(const results *list, size_t index);
/* "1 KiB", "64 MiB", "100 B"; returns text. */
const char *bytes_text(size_t bytes, char *text, size_t capacity);

#endif
