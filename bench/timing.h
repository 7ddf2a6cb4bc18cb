/* Shared by benchmarks of whole runs: clocks, medians, and exit with the library's message.
 * Rows are printed as "name<TAB>nanoseconds"; a peer under bench/peers/ prints rows of the same
 * names. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/tandem.h"

/* Ends the program with the library's message: a benchmark has nothing to clean up for. */
_Noreturn void bench_fail(const char *what);
void bench_check(tdm_status status, const char *what);
void bench_print(const char *row, double ns);

uint64_t bench_now_ns(void);
double bench_now_ms(void);
/* Sorts samples; count is at least 1. */
double bench_median(double *samples, size_t count);
/* Calls work many times in a row, after some calls that do not count; the median over rounds of
 * the mean time of one call. Long calls get fewer rounds. */
double bench_hot_ns(void (*work)(void *user), void *user);
/* The median time of one call after everything had time to fall asleep. */
double bench_cold_ns(void (*work)(void *user), void *user);

#endif
