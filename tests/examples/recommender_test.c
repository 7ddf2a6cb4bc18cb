/* recommender on a few small tables. It trains in the same way on other devices, replicated and in
 * micro-batches, continues from its saved state, and refuses illegal options by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/examples/program.h"

/* The area in the last line of a run with these options. */
static double area_with(const char *options) {
  char arguments[256];
  (void)snprintf(arguments, sizeof arguments,
                 "--tables 4 --rows 40 --dim 8 --lookups 2 --hidden 16 --samples 3000 "
                 "--held-out 600 --batch 50 %s",
                 options);
  outcome ended = program_run(arguments);
  if (ended.exit_code != 0) fail_msg("%s: %s", arguments, ended.output);
  char *line = last_line(ended.output);
  double area = 0;
  if (sscanf(line, "AUC %lf on 600 held-out samples", &area) != 1) fail_msg("%s", line);
  free(line);
  outcome_free(&ended);
  return area;
}

static void learns_alike_wherever_it_lives(void **state) {
  (void)state;
  const double untrained = area_with("--epochs 0 --place '*=cpu:0'");
  const double plain = area_with("--epochs 4 --place '*=cpu:0' --save learnt.safetensors");
  static const char *const others[] = {
      "--epochs 4 --place 'tables=cpu:0,*=sim:0' --explain --trace steps.json",
      "--epochs 4 --data-parallel cpu:0,sim:0",
      "--epochs 4 --place 'tables=cpu:0,*=sim:0' --micro-batches 2",
      "--epochs 0 --load learnt.safetensors --place '*=sim:0'",
  };
  if (!(untrained < 0.6 && plain > 0.77)) fail_msg("%g untrained, %g trained", untrained, plain);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const double area = area_with(others[i]);
    if (fabs(area - plain) > 0.01) fail_msg("%s: %g, plain %g", others[i], area, plain);
  }
}

static void refuses_what_cannot_work(void **state) {
  (void)state;
  program_expect("--tables 64", 1, (const char *const[]){"--tables", "64", NULL});
  program_expect("--rows 0", 1, (const char *const[]){"--rows", "0", NULL});
  program_expect("--samples 10 --held-out 2 --place 'table=cpu:0'", 1,
                 (const char *const[]){"table", NULL});
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_alike_wherever_it_lives),
      cmocka_unit_test(refuses_what_cannot_work),
  };
  if (argc != 2) return 2;
  program_use(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
