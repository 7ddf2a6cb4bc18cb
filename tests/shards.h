/* The share of a process in a test that Bazel runs as several concurrent processes
 * (shard_count). */
#ifndef TANDEM_TESTS_SHARDS_H
#define TANDEM_TESTS_SHARDS_H

#include <stddef.h>

struct CMUnitTest;

typedef struct test_shard {
  int index; /* from 0 */
  int count; /* 1: the process is the whole test */
} test_shard;

/* Returns this process's shard, and reports to Bazel that sharding is supported. */
test_shard test_own_shard(void);

/* Runs the cases of this process; returns the number of failures. */
int test_run_own_cases(const struct CMUnitTest *cases, size_t count);

#endif
