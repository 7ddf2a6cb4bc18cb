/* Reads the range of seeds, of which a test program has one. */
#include "tests/graph/seed_range.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_SEEDS = 10000000 };

static int asked_count; /* 0: no range was requested */
static uint64_t asked_first;

static uint64_t read_number(const char *text, uint64_t least, uint64_t most) {
  char *end;
  const unsigned long long number = strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && !*end && number >= least && number <= most) return number;
  fprintf(stderr, "'%s' is no number from %llu to %llu; arguments: [count [first seed]]\n", text,
          (unsigned long long)least, (unsigned long long)most);
  exit(2);
}

void seed_range_read(int argc, char **argv) {
  if (argc > 1) asked_count = (int)read_number(argv[1], 1, MOST_SEEDS);
  if (argc > 2) asked_first = read_number(argv[2], 0, UINT64_MAX / 1000);
}

seed_range seed_range_of(uint64_t first, int usual) {
  if (asked_count == 0) return (seed_range){first, usual};
  return (seed_range){asked_first, asked_count};
}
