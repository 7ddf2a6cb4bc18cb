/* Selects the seeds of a test over random cases. Among all other tests it uses few. A command line
 * selects their number and the first one:
 *
 *     bazel run //tests/graph:chain_test -- 3000 100000 */
#ifndef TANDEM_TESTS_GRAPH_SEED_RANGE_H
#define TANDEM_TESTS_GRAPH_SEED_RANGE_H

#include <stdint.h>

typedef struct seed_range {
  uint64_t first;
  int count;
} seed_range;

/* Reads `[count [first]]`; call it at the head of main. Ends the program on anything else. */
void seed_range_read(int argc, char **argv);
/* Returns the requested range, or `usual` seeds from `first`. */
seed_range seed_range_of(uint64_t first, int usual);

#endif
