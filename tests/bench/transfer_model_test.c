/* bench/transfer --model on small models: every edge has a prediction and a measured time, and
 * each model its share. No time is judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/examples/program.h"

#define QUICK                                                                                      \
  "--model --steps 2 --rounds 2 --table-rows 5000 --largest-batch 128 --words a=low.txt --words "  \
  "b=high.txt "

static int write_lists(void **state) {
  (void)state;
  write_words("low.txt", 'a', 'h', 60, 1);
  write_words("high.txt", 'k', 'r', 60, 2);
  return 0;
}

static bool has_cause(json_t *transfers, const char *model, const char *cause) {
  size_t index;
  json_t *item;
  json_array_foreach(transfers, index, item) {
    const char *told = json_string_value(json_object_get(item, "cause"));
    if (strcmp(json_string_value(json_object_get(item, "model")), model) == 0 && told &&
        strcmp(told, cause) == 0)
      return true;
  }
  return false;
}

static void both_models(void **state) {
  (void)state;
  static const char *const texts[] = {"embedding -> rnn", "share of a step", "prediction: off by",
                                      NULL};
  program_expect(QUICK "--save models.json", 0, texts);
  json_t *root = json_load_file("models.json", 0, NULL);
  assert_non_null(root);
  json_t *transfers = json_object_get(root, "transfers");
  assert_true(has_cause(transfers, "main", "embedding -> rnn"));
  assert_true(has_cause(transfers, "main", "gradient of rnn -> embedding"));
  assert_true(has_cause(transfers, "embedding", "table -> flat"));
  assert_true(has_cause(transfers, "embedding", "gradient of flat -> table"));
  size_t index;
  json_t *item;
  json_array_foreach(transfers, index, item) {
    assert_true(json_number_value(json_object_get(item, "measured_ns")) > 0);
    assert_true(json_number_value(json_object_get(item, "predicted_ns")) > 0);
  }
  json_t *judged = json_object_get(root, "prediction");
  assert_int_equal(json_integer_value(json_object_get(judged, "rounds")), 2);
  json_int_t large = 0; /* transfers of 4 bytes are not judged */
  json_array_foreach(transfers, index, item) large +=
      json_integer_value(json_object_get(item, "bytes")) >= 1024;
  assert_int_equal(json_integer_value(json_object_get(judged, "transfers")), large);
  assert_true(large > 0 && large < (json_int_t)json_array_size(transfers));
  json_t *runs = json_object_get(root, "runs");
  assert_int_equal(json_array_size(runs), 3);
  json_array_foreach(runs, index, item)
      assert_true(json_number_value(json_object_get(item, "share")) > 0);
  json_decref(root);
}

/* Calibrated first, as the predictions state. If links are switched off, nothing is written. */
static void calibrated(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_LINKS", "off", 1), 0);
  program_expect(QUICK "--calibrate --save calibrated.json", 0,
                 (const char *[]){"calibrated", NULL});
  assert_int_equal(unsetenv("TANDEM_LINKS"), 0);
  json_t *root = json_load_file("calibrated.json", 0, NULL);
  assert_non_null(root);
  json_t *first = json_array_get(json_object_get(root, "transfers"), 0);
  assert_string_equal(json_string_value(json_object_get(first, "prediction")), "calibrated");
  json_decref(root);
}

static void lists_that_are_not_there(void **state) {
  (void)state;
  program_expect("--model --words a=nowhere.txt --words b=low.txt", 1,
                 (const char *[]){"nowhere.txt", NULL});
  program_expect("--model --words nothing", 1, (const char *[]){"LANGUAGE=FILE", NULL});
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  program_use(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_models),
      cmocka_unit_test(calibrated),
      cmocka_unit_test(lists_that_are_not_there),
  };
  return cmocka_run_group_tests(tests, write_lists, NULL);
}
