/* bench/transfer as a user runs it, on two cpu and two simulated devices with tiny copies: refused
 * options, and whether tables, JSON and CSV have every case. Figures are not checked, only that
 * they exist and that contents were verified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/examples/program.h"

#define QUICK "--sizes 1K,4096,3000 --samples 3 "

static void expect(const char *arguments, int exit_code, const char *text) {
  program_expect(arguments, exit_code, (const char *[]){text, NULL});
}

static void bad_arguments(void **state) {
  (void)state;
  expect("--frobnicate", 2, "there is no option \"--frobnicate\"");
  expect("--sizes", 2, "--sizes takes a value, and got nothing");
  expect("--sizes ''", 2, "--sizes takes a value, and got nothing");
  expect("--sizes 1K,banana", 2, "\"banana\" is none");
  expect("--sizes 0", 2, "\"0\" is none");
  expect("--sizes -4", 2, "\"-4\" is none");
  expect("--sizes 5G", 2, "\"5G\" is none");
  expect("--sizes 99999999999999999999", 2, "is none");
  expect("--sizes 1Kilo", 2, "\"1Kilo\" is none");
  expect("--samples 2", 2, "--samples takes a whole number from 3");
  expect("--samples 3x", 2, "not \"3x\"");
  expect("--memory pinned,wooden", 2, "there is no memory \"wooden\"");
  expect("--case host_to_moon", 2, "there is no case \"host_to_moon\"");
  expect("--plot picture.jpeg", 2, "FILE.svg or FILE.png");
  expect("--save", 2, "--save takes a value, and got nothing");
  expect("--save figures.txt", 2, "--save takes FILE.json or FILE.csv, not \"figures.txt\"");
  expect("--words a=b", 2, "--words goes with --model");
  expect("--model --save x.csv", 2, "no CSV, and no --plot");
}

static void what_is_not_there(void **state) {
  (void)state;
  expect("--device sim:7", 1, "sim:7");
  expect("--device warp:0", 1, "warp:0");
  expect("--save no/such/folder/x.json", 2, "--save no/such/folder/x.json: folder");
  expect("--save /dev/null/x.csv", 2, "--save /dev/null/x.csv: folder /dev/null");
  expect(QUICK "--device cpu:0 --case host_to_device", 1, "nothing to measure");
  assert_int_equal(setenv("TANDEM_SIM", "gigabytes_per_second=many", 1), 0);
  expect(QUICK, 1, "gigabytes_per_second");
  assert_int_equal(unsetenv("TANDEM_SIM"), 0);
}

/* Without a gnuplot on the path a plot is refused before anything is measured. */
static void no_gnuplot(void **state) {
  (void)state;
  const char *given = getenv("PATH");
  char *path = strdup(given ? given : "");
  assert_non_null(path);
  assert_int_equal(setenv("PATH", "/nowhere", 1), 0);
  expect(QUICK "--plot x.svg", 1, "--plot: gnuplot is not in PATH");
  assert_int_equal(setenv("PATH", path, 1), 0);
  free(path);
  assert_false(file_exists("x.svg"));
}

static void help_lists_cases(void **state) {
  (void)state;
  static const char *const texts[] = {"host_to_device_bidirectional", "one_to_all", "plain_memcpy",
                                      "device_local_copy", NULL};
  program_expect("--list", 0, texts);
  expect("--help", 0, "--list");
}

static json_t *read_json(const char *path) {
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error);
  if (!root) fail_msg("%s: %s at line %d", path, error.text, error.line);
  return root;
}

static const char *text_of(json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  if (!text) fail_msg("there is no text \"%s\"", key);
  return text;
}

static size_t count_of(json_t *measurements, const char *name, const char *memory) {
  size_t count = 0;
  size_t index;
  json_t *item;
  json_array_foreach(measurements, index, item) if (strcmp(text_of(item, "case"), name) == 0 &&
                                                    strcmp(text_of(item, "memory"), memory) == 0)
      count++;
  return count;
}

/* Checks that each pair is measured at three sizes in each kind of memory, and that concurrent
 * cases count every pair. */
static void check_counts(json_t *measurements) {
  static const struct {
    const char *name;
    size_t pairs;
    bool has_host_side;
  } expected[] = {
      {"host_to_device", 4, true},
      {"device_to_host", 4, true},
      {"host_to_device_bidirectional", 4, true},
      {"device_to_host_bidirectional", 4, true},
      {"host_to_all", 4, true},
      {"all_to_host", 4, true},
      {"host_to_all_bidirectional", 4, true},
      {"all_to_host_bidirectional", 4, true},
      {"device_to_device_read", 2, false},
      {"device_to_device_write", 2, false},
      {"device_to_device_bidirectional", 2, false},
      {"device_local_copy", 2, false},
      {"host_to_host", 4, false},
      {"plain_memcpy", 2, false},
  };
  static const char *const memories[] = {"pageable", "pinned", "registered"};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    if (!expected[i].has_host_side) {
      assert_int_equal(count_of(measurements, expected[i].name, "-"), 3 * expected[i].pairs);
      continue;
    }
    for (size_t k = 0; k < 3; k++)
      assert_int_equal(count_of(measurements, expected[i].name, memories[k]),
                       3 * expected[i].pairs);
  }
  assert_int_equal(count_of(measurements, "device_to_device_latency", "-"), 2);
  assert_int_equal(count_of(measurements, "host_to_device_latency", "pinned"), 4);
}

static void check_measurement(json_t *item) {
  if (strcmp(text_of(item, "status"), "verified") != 0)
    fail_msg("%s %s: %s", text_of(item, "case"), text_of(item, "memory"), text_of(item, "problem"));
  const double median = json_number_value(json_object_get(item, "median"));
  const double low = json_number_value(json_object_get(item, "low"));
  const double high = json_number_value(json_object_get(item, "high"));
  assert_true(low > 0 && low <= median && median <= high);
  assert_true(json_number_value(json_object_get(item, "copy_ns")) > 0);
  assert_true(json_integer_value(json_object_get(item, "samples")) >= 3);
}

/* Everything there is, once, with all outputs. */
static void all_cases(void **state) {
  (void)state;
  static const char *const texts[] = {"devices: cpu:0 cpu:1 sim:0 sim:1",
                                      "host_to_device, pinned memory",
                                      "4 KiB",
                                      "3000 B",
                                      "links: time of a copy",
                                      "against a plain loop",
                                      NULL};
  outcome ended = program_run(QUICK "--save all.json --save all.csv");
  if (ended.exit_code != 0) fail_msg("%s", ended.output);
  for (size_t i = 0; texts[i]; i++)
    if (!strstr(ended.output, texts[i]))
      fail_msg("did not say \"%s\", but:\n%s", texts[i], ended.output);
  outcome_free(&ended);

  json_t *root = read_json("all.json");
  json_t *measurements = json_object_get(root, "measurements");
  check_counts(measurements);
  size_t index;
  json_t *item;
  json_array_foreach(measurements, index, item) check_measurement(item);
  assert_true(json_array_size(json_object_get(root, "matrices")) > 0);
  assert_true(json_array_size(json_object_get(root, "links")) > 0);

  char *csv = read_whole("all.csv", NULL);
  size_t lines = 0;
  for (const char *at = csv; (at = strchr(at, '\n')) != NULL; at++)
    lines++;
  assert_int_equal(lines, 1 + json_array_size(measurements));
  assert_ptr_equal(strstr(csv, "case,memory,from,to,node,bytes,unit,"), csv);
  free(csv);
  json_decref(root);
}

/* Among three of a kind each sends to two others, and gets from two. */
static void one_and_all(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_DEVICES", "sim=3", 1), 0);
  expect("--sizes 2K --samples 3 --case one_to_all,all_to_one --save one.json", 0, "one_to_all");
  assert_int_equal(setenv("TANDEM_DEVICES", "sim=2", 1), 0);
  json_t *root = read_json("one.json");
  assert_int_equal(count_of(json_object_get(root, "measurements"), "one_to_all", "-"), 6);
  assert_int_equal(count_of(json_object_get(root, "measurements"), "all_to_one", "-"), 6);
  json_decref(root);
}

/* Prints a matrix of copies between all sim devices, filled except the diagonal, and its sum. */
static void matrices(void **state) {
  (void)state;
  expect("--sizes 2K --samples 3 --case device_to_device_read --save read.json", 0, "sum");
  json_t *root = read_json("read.json");
  json_t *found = json_array_get(json_object_get(root, "matrices"), 0);
  assert_string_equal(text_of(found, "case"), "device_to_device_read");
  assert_int_equal(json_array_size(json_object_get(found, "from")), 2);
  assert_int_equal(json_array_size(json_object_get(found, "to")), 2);
  double sum = 0;
  int empty = 0;
  for (size_t i = 0; i < 2; i++) {
    for (size_t k = 0; k < 2; k++) {
      json_t *cell = json_array_get(json_array_get(json_object_get(found, "median"), i), k);
      empty += json_is_null(cell);
      sum += json_number_value(cell);
    }
  }
  assert_int_equal(empty, 2);
  const double told = json_number_value(json_object_get(found, "sum"));
  assert_true(sum > 0 && told > 0.999 * sum && told < 1.001 * sum);
  json_decref(root);
}

/* Standard output contains only figures. */
static void standard_output(void **state) {
  (void)state;
  expect("--sizes 2K --samples 3 --case host_to_host --json 2>table.txt >out.json && echo well", 0,
         "well");
  json_t *root = read_json("out.json");
  assert_true(json_is_true(json_object_get(root, "complete")));
  json_decref(root);
  char *table = read_whole("table.txt", NULL);
  assert_string_equal(table, "");
  free(table);
}

/* A run that is killed leaves complete files with the measured figures. */
static void a_killed_run_leaves_its_figures(void **state) {
  (void)state;
  expect("--sizes 4K,64M --samples 1000 --case host_to_host --device cpu:0 --save part.json "
         "--save part.csv & for i in $(seq 600); do [ -s part.csv ] && break; sleep 0.1; done; "
         "kill -9 $!; wait $! 2>/dev/null; echo well",
         0, "well");
  json_t *root = read_json("part.json");
  assert_true(json_is_false(json_object_get(root, "complete")));
  json_t *measurements = json_object_get(root, "measurements");
  assert_int_equal(json_array_size(measurements), 1);
  check_measurement(json_array_get(measurements, 0));
  json_decref(root);
  char *csv = read_whole("part.csv", NULL);
  assert_non_null(strstr(csv, "\nhost_to_host,-,cpu:0,cpu:0,"));
  free(csv);
}

/* A size above the available memory is reported in every output, and does not end the program. */
static void too_large(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_STAGING_BYTES", "65536", 1), 0);
  expect("--sizes 4K,1M --samples 3 --case host_to_device --memory pinned --device cpu:0,sim:0 "
         "--save large.csv --save large.json",
         0, "not measured: cpu:0 > sim:0, 1 MiB:");
  assert_int_equal(unsetenv("TANDEM_STAGING_BYTES"), 0);
  char *csv = read_whole("large.csv", NULL);
  assert_non_null(strstr(csv, "host_to_device,pinned,cpu:0,sim:0,-1,1048576,GB/s,0,,,,,,\""));
  free(csv);
  json_t *root = read_json("large.json");
  json_t *item = json_array_get(json_object_get(root, "measurements"), 1);
  assert_string_equal(text_of(item, "status"), "not measured");
  assert_non_null(strstr(text_of(item, "problem"), "65536"));
  json_decref(root);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  program_use(argv[1]);
  if (setenv("TANDEM_CPU_DEVICES", "2", 1) != 0 || setenv("TANDEM_DEVICES", "sim=2", 1) != 0)
    return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_arguments),
      cmocka_unit_test(what_is_not_there),
      cmocka_unit_test(no_gnuplot),
      cmocka_unit_test(help_lists_cases),
      cmocka_unit_test(all_cases),
      cmocka_unit_test(one_and_all),
      cmocka_unit_test(matrices),
      cmocka_unit_test(standard_output),
      cmocka_unit_test(a_killed_run_leaves_its_figures),
      cmocka_unit_test(too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
