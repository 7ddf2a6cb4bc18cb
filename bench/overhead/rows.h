/* The rows of the overhead benchmark: each prints "name<TAB>nanoseconds", medians of many rounds.
 * bench/peers/overhead.py prints rows of the same names for PyTorch. */
#ifndef BENCH_OVERHEAD_ROWS_H
#define BENCH_OVERHEAD_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "tandem.h"

/* Ends the program with the library's message: a benchmark has nothing to clean up for. */
_Noreturn void bench_fail(const char *what);
void bench_check(tdm_status status, const char *what);
void bench_print(const char *row, double ns);

uint64_t bench_now_ns(void);
/* Sorts samples. */
double bench_median(double *samples, size_t count);
/* Calls work many times in a row; the median over rounds of the mean time of one call. */
double bench_hot_ns(void (*work)(void *user), void *user);
/* The median time of one call after everything had time to fall asleep. */
double bench_cold_ns(void (*work)(void *user), void *user);

void rows_of_runs(void);
void rows_of_planning(void);

#endif
