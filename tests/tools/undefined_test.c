/* Builds that check for undefined behaviour end the program and report the line, also inside a
 * cmocka test, in the way that .bazelrc selects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef UNDEFINED_IS_CHECKED
static int sum_of(volatile const int *terms) {
  return terms[0] + terms[1];
}

static void add_too_much(int told) {
  (void)dup2(told, STDERR_FILENO);
  volatile const int terms[] = {INT_MAX, 1};
  _exit(sum_of(terms) == 0 ? 2 : 0);
}
#endif

static void an_overflow_ends_the_program_at_its_line(void **state) {
  (void)state;
#ifdef UNDEFINED_IS_CHECKED
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) add_too_much(ends[1]);
  (void)close(ends[1]);
  char told[16384];
  size_t bytes = 0;
  for (ssize_t got = 1; got > 0; bytes += (size_t)got) {
    got = read(ends[0], told + bytes, sizeof told - 1 - bytes);
    assert_true(got >= 0);
  }
  told[bytes] = '\0';
  (void)close(ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (!strstr(told, "undefined_test.c:")) fail_msg("no line is told: %s", told);
#else
  skip(); /* this build does not check */
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_overflow_ends_the_program_at_its_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
