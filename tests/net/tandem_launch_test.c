/* tandem launch with each MPI that is here: the ranks of a program are one job, by one command for
 * either, and its exit code is the program's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/net/launchers.h"

/* The two differ only in this word. */
static const char *name_of(const launcher *mpi) {
  return mpi == &openmpi ? "openmpi" : "mpich";
}

static int run_launched(const launcher *mpi, int ranks, const char *program) {
  char command[2048];
  (void)snprintf(command, sizeof command,
                 "unset TANDEM_NET; timeout -k 5 120 %s launch --mpi %s -n %d %s 2>&1",
                 find_file("tandem"), name_of(mpi), ranks, program);
  return run_command(command);
}

static void test_job(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  for (int ranks = 1; ranks <= 3; ranks++) {
    char last[32];
    (void)snprintf(last, sizeof last, "rank %d of %d: placed ", ranks - 1, ranks);
    expect_end(run_launched(mpi, ranks, find_file("job_program")), true);
    expect(last, 1);
    expect(": replicated ", (size_t)ranks);
  }
}

static void test_exit_code(void **state) {
  const launcher *mpi = *state;
  require(mpi);
  const int status = run_launched(mpi, 2, "sh -c 'exit 7'");
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 7);
}

#define CASE(function, of)                                                                         \
  { #function " on " #of, function, NULL, NULL, (void *)&(of) }

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {
      CASE(test_job, openmpi),
      CASE(test_exit_code, openmpi),
      CASE(test_job, mpich),
      CASE(test_exit_code, mpich),
  };
  launchers_use(count, arguments);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
