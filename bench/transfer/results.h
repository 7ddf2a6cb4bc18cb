/* What was measured: one record a (case, memory, pair of devices, size), and the statistics made of
 * samples. Invariant: a record either has figures and verified contents, or says what the problem
 * was; none is left out silently. */
#ifndef BENCH_TRANSFER_RESULTS_H
#define BENCH_TRANSFER_RESULTS_H

#include "devices/links/links.h"

typedef struct result {
  const char *case_name; /* static storage, like unit and memory */
  const char *unit;      /* "GB/s" or "us": what median, low, high and p99 are in */
  const char *memory;    /* of the host side: "pageable", ...; "-": there is none */
  char from[24];
  char to[24];
  int node; /* NUMA node (os index) of the host side; -1: none, or the system does not tell */
  size_t bytes;
  int samples;
  double median, low, high; /* over the samples, in unit */
  double p99;               /* the bad end: the lowest per cent of GB/s, the highest of us */
  double copy_ns;           /* median time of one copy */
  char problem[192];        /* "": measured, and the contents verified */
} result;

/* Who follows a measurement. Called before each part of it: next says of what (without figures),
 * weight_ns, a guess, how long it takes beside others. False: it is counted, and not taken. */
typedef struct results_watch {
  bool (*begins)(void *user, const result *next, double weight_ns);
  void *user;
} results_watch;

typedef struct results {
  result *items;
  size_t count;
  size_t capacity;
  const results_watch *watch; /* borrowed; NULL: nobody follows */
} results;

/* Tells who follows what comes next; is it to be measured? */
bool results_begin(const results *list, const result *next, double weight_ns);

/* Appends a copy. */
tdm_status results_add(results *list, const result *item) TDM_WARN_UNUSED;
void results_deinit(results *list);

/* Fills samples, median, low, high and p99 from values (count >= 1), which it sorts. */
void result_summarize(result *out, double *values, int count, bool higher_is_better);

/* Fits latency + bytes / bandwidth to the median copies of list that are of the same case, memory
 * and pair as list->items[like] (devices/links/fit.h). False with fewer than three sizes. */
bool results_fit(const results *list, size_t like, tdm_link_estimate *out_fit);
/* Do two records belong to one link: case, memory, from and to? */
bool results_same_link(const result *a, const result *b);
/* Is items[index] the first of its link? */
bool results_first_of_link(const results *list, size_t index);
/* "1 KiB", "64 MiB", "100 B"; answers text. */
const char *bytes_text(size_t bytes, char *text, size_t capacity);

#endif
