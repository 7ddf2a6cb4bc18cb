/* Selects the cases of this process. Invariant: each case belongs to exactly one shard. */
#include "tests/shards.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* Reads the numbers of shards that Bazel sets; without Bazel there is one. */
static int number_of(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

test_shard test_own_shard(void) {
  const char *path = getenv("TEST_SHARD_STATUS_FILE");
  const int file = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) : -1;
  if (file >= 0) (void)close(file);
  return (test_shard){number_of("TEST_SHARD_INDEX", 0), number_of("TEST_TOTAL_SHARDS", 1)};
}

int test_run_own_cases(const struct CMUnitTest *cases, size_t count) {
  const test_shard own = test_own_shard();
  struct CMUnitTest *mine = calloc(count, sizeof *mine);
  if (!mine) return 1;
  size_t kept = 0;
  for (size_t i = (size_t)own.index; i < count; i += (size_t)own.count)
    mine[kept++] = cases[i];
  const int failed = _cmocka_run_group_tests("cases", mine, kept, NULL, NULL);
  free(mine);
  return failed;
}
