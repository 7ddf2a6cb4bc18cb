/* Which seeds a test over random cases takes. Among all other tests it takes few; on its own it
 * takes as many as the command line says, from where it says:
 *
 *     bazel run //tests/graph:chain_test -- 3000 100000
 */
#ifndef TANDEM_TESTS_GRAPH_SEED_RANGE_H
#define TANDEM_TESTS_GRAPH_SEED_RANGE_H

#include <stdint.h>

typedef struct seed_range {
  uint64_t first;
  int count;
} seed_range;

/* Reads `[count [first]]`; call it at the head of main. Ends the program on anything else. */
void seed_range_read(int argc, char **argv);
/* What was asked for; otherwise `usual` seeds from `first`. */
seed_range seed_range_of(uint64_t first, int usual);

#endif
