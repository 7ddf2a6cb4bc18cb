/* Every program prints a description with --help, and succeeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/examples/program.h"

static char **programs;
static int program_count;

static void every_program_helps(void **state) {
  (void)state;
  for (int i = 0; i < program_count; i++) {
    char line[PATH_MAX + 16];
    (void)snprintf(line, sizeof line, "'%s' --help", programs[i]);
    outcome ended = program_run_as(line);
    if (ended.exit_code != 0)
      fail_msg("%s ended with %d:\n%s", line, ended.exit_code, ended.output);
    /* Requires a text of 40 characters and none of the program's usual output. */
    if (strlen(ended.output) < 40 || strstr(ended.output, "accuracy "))
      fail_msg("%s is no help:\n%s", line, ended.output);
    outcome_free(&ended);
  }
}

int main(int count, char **arguments) {
  programs = arguments + 1;
  program_count = count - 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_program_helps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
