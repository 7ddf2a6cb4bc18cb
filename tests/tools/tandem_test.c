/* The tandem command as `bazel run` starts it: in a folder of its own, with the user's in the
 * environment, which relative paths are of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/examples/program.h"

static char command[PATH_MAX];
static char machine[PATH_MAX];

static void relative_paths_are_the_users(void **state) {
  (void)state;
  char folder[PATH_MAX];
  (void)snprintf(folder, sizeof folder, "%s", machine);
  char *name = strrchr(folder, '/');
  assert_non_null(name);
  *name++ = '\0';
  char line[3 * PATH_MAX + 128];
  (void)snprintf(line, sizeof line,
                 "cd / && BUILD_WORKING_DIRECTORY='%s' '%s' forecast --machine %s --devices 2",
                 folder, command, name);
  outcome ended = program_run_as(line);
  if (ended.exit_code != 0 || !strstr(ended.output, " on 2 of "))
    fail_msg("%s ended with %d:\n%s", line, ended.exit_code, ended.output);
  outcome_free(&ended);
}

static void a_folder_that_is_gone_is_named(void **state) {
  (void)state;
  char line[PATH_MAX + 128];
  (void)snprintf(line, sizeof line, "BUILD_WORKING_DIRECTORY=/is/not/there '%s' forecast", command);
  outcome ended = program_run_as(line);
  assert_int_equal(ended.exit_code, 1);
  assert_non_null(strstr(ended.output, "/is/not/there"));
  outcome_free(&ended);
}

int main(int count, char **arguments) {
  if (count != 3 || !realpath(arguments[1], command) || !realpath(arguments[2], machine)) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(relative_paths_are_the_users),
      cmocka_unit_test(a_folder_that_is_gone_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
