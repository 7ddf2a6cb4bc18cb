/* fashion_cnn on a part of the real data. It continues from its saved state on other devices, and
 * refuses illegal options by name. learning_test checks that its loss falls. */
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

/* Returns the accuracy in the last line of a run of this many epochs with these options. */
static double accuracy_after(int epochs, const char *options) {
  char arguments[256];
  (void)snprintf(arguments, sizeof arguments,
                 "--epochs %d --batch 32 --learning-rate 0.004 --test-images 200 %s", epochs,
                 options);
  outcome ended = program_run(arguments);
  if (ended.exit_code != 0) fail_msg("%s: %s", arguments, ended.output);
  char *line = last_line(ended.output);
  double accuracy = 0;
  if (sscanf(line, "accuracy %lf on 200 test images", &accuracy) != 1) fail_msg("%s", line);
  free(line);
  outcome_free(&ended);
  return accuracy;
}

static double accuracy_with(const char *options) {
  return accuracy_after(1, options);
}

static void goes_on_from_what_it_saved(void **state) {
  (void)state;
  const double learnt = accuracy_with(
      "--images 128 --place '*=cpu:0' --save learnt.safetensors --explain --dot plan.dot");
  const double loaded = accuracy_with("--images 128 --epochs 0 --load learnt.safetensors");
  if (fabs(learnt - loaded) > 0.02) /* other devices round differently */
    fail_msg("accuracy %g, and %g when loaded", learnt, loaded);
}

static void goes_on_from_a_checkpoint(void **state) {
  (void)state;
  (void)accuracy_after(2, "--images 128 --place '*=cpu:0' --checkpoint half.safetensors");
  const char *resume = "--images 128 --place '*=cpu:0' --resume half.safetensors";
  const double on = accuracy_after(3, resume);
  assert_true(on == accuracy_after(3, resume));
  program_expect("--epochs 2 --batch 32 --images 128 --resume half.safetensors", 1,
                 (const char *const[]){"--resume half.safetensors", "it has made 2 epochs",
                                       "--epochs is 2", NULL});
  program_expect("--epochs 3 --batch 16 --images 128 --resume half.safetensors", 1,
                 (const char *const[]){"--resume", "checkpoint/loader", "batch size was 32", NULL});
  program_expect("--epochs 0 --images 128 --resume half.safetensors", 1,
                 (const char *const[]){"--resume is about training", "--epochs 0", "--load", NULL});
  program_expect("--epochs 0 --images 128 --log none.tsv", 1,
                 (const char *const[]){"--log is about training", NULL});
  assert_false(file_exists("none.tsv"));
}

static void refuses_what_cannot_work(void **state) {
  (void)state;
  program_expect("--data nowhere", 1, (const char *const[]){"nowhere/train-images", NULL});
  program_expect("--colour", 1, (const char *const[]){"--colour", NULL});
  program_expect("--images 64 --place 'feature=cpu:0'", 1, (const char *const[]){"feature", NULL});
  write_file("train-images-idx3-ubyte.gz", "no images", 9);
  program_expect(
      "--data .", 1,
      (const char *const[]){"./train-images-idx3-ubyte.gz is not a whole IDX file", NULL});
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(goes_on_from_what_it_saved),
      cmocka_unit_test(goes_on_from_a_checkpoint),
      cmocka_unit_test(refuses_what_cannot_work),
  };
  if (argc != 2) return 2;
  program_use(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
