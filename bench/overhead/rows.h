/* The rows of the overhead benchmark, which `tandem bench overhead` prints as well.
 * bench/peers/overhead.py prints rows of the same names for PyTorch. */
#ifndef BENCH_OVERHEAD_ROWS_H
#define BENCH_OVERHEAD_ROWS_H

#include "bench/timing.h"

/* Receives the rows. Names of planning begin with "planning a node" and "with kernels". */
typedef struct overhead_listener {
  void (*begins)(void *user, const char *what); /* called before each measurement */
  void (*row)(void *user, const char *name, double ns);
  void *user;
} overhead_listener;

enum { OVERHEAD_RUNS = 6, OVERHEAD_PLANNINGS = 4 }; /* number of measurements of each */
enum { OVERHEAD_LAYERS = 19000 };                   /* about 100,000 nodes */

/* Runs so small that their arithmetic is next to nothing. */
tdm_status rows_of_runs(const overhead_listener *to);
/* Models of layers (at least 100), and of a hundredth of that, over two and four devices. */
tdm_status rows_of_planning(const overhead_listener *to, int64_t layers);

#endif
