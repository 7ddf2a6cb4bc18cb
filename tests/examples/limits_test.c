/* The README's program where memory is limited by addresses, as in batch systems, and under
 * valgrind, which has few to give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/examples/program.h"

static char limited[4096 + 64];
static char examined[4096 + 64];

static void few_addresses_are_enough(void **state) {
  (void)state;
  outcome ended = program_run_as(limited);
  if (ended.exit_code != 0)
    fail_msg("%s ended with %d:\n%s", limited, ended.exit_code, ended.output);
  outcome_free(&ended);
}

static void valgrind_finds_no_error(void **state) {
  (void)state;
  outcome found = program_run_as("valgrind --version");
  if (found.exit_code != 0) fail_msg("valgrind is not there: tools/install_dependencies.sh --test");
  outcome_free(&found);
  outcome ended = program_run_as(examined);
  if (ended.exit_code != 0)
    fail_msg("%s ended with %d:\n%s", examined, ended.exit_code, ended.output);
  outcome_free(&ended);
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  (void)snprintf(limited, sizeof limited, "ulimit -v 4000000 && '%s'", arguments[1]);
  (void)snprintf(examined, sizeof examined,
                 "valgrind --quiet --leak-check=full --errors-for-leak-kinds=definite,indirect "
                 "--error-exitcode=9 '%s'",
                 arguments[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_addresses_are_enough),
      cmocka_unit_test(valgrind_finds_no_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
