/* Examples trained on a part of their data: on one device, on two, replicated on two, and in
 * micro-batches. Their scores must improve, and be about equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/examples/program.h"

/* A program, found among the test's arguments by its name. */
typedef struct example {
  const char *name;
  const char *arguments;
  const char *score; /* beginning of its last line */
  double best;       /* the expected range of the plain run's score: it has learnt, without
                      * overfitting */
  double worst;
  double tolerance; /* tolerance for other runs: order of sums, statistics of parts of batches */
} example;

static const example examples[] = {
    {"fashion_cnn", "--epochs 1 --batch 32 --learning-rate 0.004 --images 960 --test-images 500",
     "accuracy", 0.95, 0.5, 0.15},
    {"capsule", "--epochs 1 --batch 8 --learning-rate 0.004 --images 240 --test-images 100",
     "accuracy", 0.95, 0.3, 0.15},
    {"char_lm",
     "--epochs 1 --batch 16 --length 32 --hidden 48 --embedding 16 --learning-rate 0.01 "
     "--characters 60000 --sample 0",
     "bits per character", 2.0, 3.6, 0.1},
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof *examples };

static char paths[EXAMPLE_COUNT][PATH_MAX];

static double score_of(const example *tested, const char *devices) {
  char arguments[256];
  (void)snprintf(arguments, sizeof arguments, "%s %s", tested->arguments, devices);
  outcome ended = program_run(arguments);
  if (ended.exit_code != 0) fail_msg("%s %s: %s", tested->name, arguments, ended.output);
  char *line = last_line(ended.output);
  const size_t length = strlen(tested->score);
  double score = NAN;
  if (strncmp(line, tested->score, length) != 0 || sscanf(line + length, " %lf", &score) != 1)
    fail_msg("%s: %s", tested->name, line);
  free(line);
  outcome_free(&ended);
  return score;
}

static void learns_as_well_on_two_devices(void **state) {
  (void)state;
  static const char *const ways[] = {"", "--micro-batches 2", "--data-parallel cpu:0,sim:0"};
  for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
    const example *tested = &examples[i];
    program_use(paths[i]);
    const double plain = score_of(tested, "--place '*=cpu:0'");
    const double along = (plain - tested->worst) / (tested->best - tested->worst);
    if (!(along >= 0 && along <= 1)) fail_msg("%s: %s %g", tested->name, tested->score, plain);
    for (size_t j = 0; j < sizeof ways / sizeof *ways; j++) {
      const double score = score_of(tested, ways[j]);
      if (!(fabs(score - plain) <= tested->tolerance))
        fail_msg("%s %s: %s %g, plain %g", tested->name, ways[j], tested->score, score, plain);
    }
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(learns_as_well_on_two_devices)};
  if (argc != EXAMPLE_COUNT + 1) return 2;
  for (int i = 0; i < EXAMPLE_COUNT; i++) {
    const char *name = strrchr(argv[i + 1], '/');
    if (!name || strcmp(name + 1, examples[i].name) != 0 || !realpath(argv[i + 1], paths[i]))
      return 2;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
