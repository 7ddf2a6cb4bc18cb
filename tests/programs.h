/* Several test programs in one executable: the table of them, which tests/programs.bzl writes. */
#ifndef TANDEM_TESTS_PROGRAMS_H
#define TANDEM_TESTS_PROGRAMS_H

typedef struct test_program {
  const char *name;
  int (*run)(int argc, char **argv); /* its main */
} test_program;

extern const test_program test_programs[]; /* (test_program_count) */
extern const int test_program_count;

#endif
