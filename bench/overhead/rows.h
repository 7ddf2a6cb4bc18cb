/* The rows of the overhead benchmark; bench/peers/overhead.py prints rows of the same names for
 * PyTorch. */
#ifndef BENCH_OVERHEAD_ROWS_H
#define BENCH_OVERHEAD_ROWS_H

#include "bench/timing.h"

void rows_of_runs(void);
void rows_of_planning(void);

#endif
