/* Programs for programs_test.py: one that passes, one that fails, one that ends by a signal, and
 * one that looks whether its folder is its own. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs.h"

static int pass(int argc, char **argv) {
  printf("%s is here, with %d words\n", argv[0], argc);
  return 0;
}

static int fail(int argc, char **argv) {
  printf("%s has %d words, the last is %s\n", argv[0], argc, argv[argc - 1]);
  return 3;
}

static int end_by_signal(int argc, char **argv) {
  (void)pass(argc, argv);
  fflush(stdout);
  return raise(SIGKILL);
}

static int look_at_folder(int argc, char **argv) {
  const char *folder = getenv("TEST_TMPDIR");
  const char *slash = folder ? strrchr(folder, '/') : NULL;
  return argc != 1 || !slash || strcmp(slash + 1, argv[0]) != 0;
}

const test_program test_programs[] = {
    {"passing", pass},
    {"failing", fail},
    {"killed", end_by_signal},
    {"apart", look_at_folder},
};
const int test_program_count = sizeof test_programs / sizeof test_programs[0];
