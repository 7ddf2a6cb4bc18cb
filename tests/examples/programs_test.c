/* The output of the small examples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/examples/program.h"

static char first_model[4096];
static char custom_operation[4096];

/* Checks that the program prints two of the ten scores of each word: finite, and not all equal. */
static void first_model_prints_scores(void **state) {
  (void)state;
  program_use(first_model);
  outcome ended = program_run("");
  assert_int_equal(ended.exit_code, 0);
  float scores[6];
  assert_int_equal(sscanf(ended.output, "word 1: %f %f ... word 42: %f %f ... word 999: %f %f ...",
                          &scores[0], &scores[1], &scores[2], &scores[3], &scores[4], &scores[5]),
                   6);
  for (int i = 0; i < 6; i++) {
    assert_true(scores[i] > -10 && scores[i] < 10);
    assert_true(i == 0 || scores[i] != scores[i - 1]);
  }
  outcome_free(&ended);
}

static void first_model_says_why_not(void **state) {
  (void)state;
  program_use(first_model);
  (void)setenv("TANDEM_PLACE", "rnn=cuda:0", 1);
  program_expect("", 1, (const char *const[]){"cuda:0", NULL});
  (void)unsetenv("TANDEM_PLACE");
}

static void custom_operation_agrees_on_both_devices(void **state) {
  (void)state;
  program_use(custom_operation);
  outcome ended = program_run("");
  assert_int_equal(ended.exit_code, 0);
  double first = 0;
  double last = 0;
  assert_int_equal(sscanf(ended.output, "*=cpu:0 step 1 loss %lf", &first), 1);
  const char *end = strstr(ended.output, "*=cpu:0  step 300");
  assert_non_null(end);
  assert_int_equal(sscanf(end, "*=cpu:0 step 300 loss %lf", &last), 1);
  assert_true(first > 0.1 && last < 0.01);
  char *line = last_line(ended.output);
  assert_string_equal(line, "cpu:0 and sim:0 agree: 4 parameters are equal, bit for bit");
  free(line);
  outcome_free(&ended);
}

int main(int argc, char **argv) {
  if (argc < 3 || !realpath(argv[1], first_model) || !realpath(argv[2], custom_operation)) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_model_prints_scores),
      cmocka_unit_test(first_model_says_why_not),
      cmocka_unit_test(custom_operation_agrees_on_both_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
