/* The data parallel examples: the exact lines for any number of devices, training, bad lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/examples/program.h"

static char data_parallel[4096];
static char data_parallel_block[4096];

/* Writes the expected output of a step of `rows` rows, in chunks of at most `chunk`. */
static size_t expected_step(char *text, size_t room, int rows, int chunk) {
  size_t used = 0;
  for (int begin = 0; begin < rows; begin += chunk) {
    const int size = begin + chunk < rows ? chunk : rows - begin;
    used += (size_t)snprintf(text + used, room - used,
                             "In Model: input size [%d, 5] output size [%d, 2]\n", size, size);
  }
  return used + (size_t)snprintf(text + used, room - used,
                                 "Outside: input size [%d, 5] output_size [%d, 2]\n", rows, rows);
}

static void expect_sizes(const char *arguments, int chunk_of_30, int chunk_of_10) {
  static char wanted[8192];
  size_t used = 0;
  for (int i = 0; i < 3; i++)
    used += expected_step(wanted + used, sizeof wanted - used, 30, chunk_of_30);
  expected_step(wanted + used, sizeof wanted - used, 10, chunk_of_10);
  program_use(data_parallel);
  outcome ended = program_run(arguments);
  assert_string_equal(ended.output, wanted);
  assert_int_equal(ended.exit_code, 0);
  outcome_free(&ended);
}

static void sizes_are_those_of_the_chunks(void **state) {
  (void)state;
  expect_sizes("", 15, 5);
  expect_sizes("--devices cpu:0", 30, 10);
  expect_sizes("--devices sim:0", 30, 10);
  expect_sizes("--devices cpu:0,cpu:1", 15, 5);
  expect_sizes("--devices cpu:0,sim:0,cpu:1", 10, 4);
  expect_sizes("--devices sim:0,sim:1,sim:2,sim:3", 8, 3);
  expect_sizes("--devices cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5,cpu:6,cpu:7", 4, 2);
}

static void bad_lists_are_refused(void **state) {
  (void)state;
  program_use(data_parallel);
  program_expect("--devices cuda:0", 1, (const char *const[]){"cuda:0", NULL});
  program_expect("--devices gpu", 1, (const char *const[]){"gpu", NULL});
  program_expect("--rows 3", 2, (const char *const[]){"usage", NULL});
}

/* The losses of a run with arguments; the caller frees. */
static char *losses(const char *arguments) {
  program_use(data_parallel_block);
  outcome ended = program_run(arguments);
  assert_int_equal(ended.exit_code, 0);
  char *text = strdup(ended.output);
  assert_non_null(text);
  char *end = strstr(text, "a step moves");
  assert_non_null(end);
  *end = 0;
  outcome_free(&ended);
  return text;
}

static void a_wrapped_block_trains_as_without(void **state) {
  (void)state;
  char *plain = losses("cpu:0");
  char *wrapped = losses("");
  char *mixed = losses("sim:0,cpu:1,cpu:0");
  double first = 0;
  double last = 0;
  assert_int_equal(sscanf(plain, "step 1 loss %lf", &first), 1);
  const char *end = strstr(plain, "step 200");
  assert_non_null(end);
  assert_int_equal(sscanf(end, "step 200 loss %lf", &last), 1);
  assert_true(last < first / 2);
  assert_string_equal(wrapped, plain);
  assert_string_equal(mixed, plain);
  free(plain);
  free(wrapped);
  free(mixed);
}

int main(int argc, char **argv) {
  if (argc < 3 || !realpath(argv[1], data_parallel) || !realpath(argv[2], data_parallel_block))
    return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_those_of_the_chunks),
      cmocka_unit_test(bad_lists_are_refused),
      cmocka_unit_test(a_wrapped_block_trains_as_without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
