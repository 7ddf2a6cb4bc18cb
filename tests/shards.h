/* The share that a process has in a test which Bazel runs as several at once (shard_count). */
#ifndef TANDEM_TESTS_SHARDS_H
#define TANDEM_TESTS_SHARDS_H

#include <stddef.h>

struct CMUnitTest;

typedef struct test_shard {
  int index; /* from 0 */
  int count; /* 1: the process is the whole test */
} test_shard;

/* This process's; Bazel is told that it is looked after. */
test_shard test_own_shard(void);

/* Runs those of the cases that are this process's; answers how many failed. */
int test_run_own_cases(const struct CMUnitTest *cases, size_t count);

#endif
