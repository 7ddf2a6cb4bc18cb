/* Files of costs: written completely or not at all, equal in every locale, and read without
 * blocking. */
#define _GNU_SOURCE /* mkfifo, symlink */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/forecast/costs.h"
#include "tests/core/comma_locale.h"
#include "tests/graph/group.h"

static const char *path_of(char path[512], const char *name) {
  const char *folder = getenv("TEST_TMPDIR");
  assert_true(snprintf(path, 512, "%s/%s", folder ? folder : ".", name) < 512);
  return path;
}

/* Costs of count kernels that take 1.5, 2.5, ... ns. */
static tdm_costs *costs_of(int count) {
  tdm_costs *costs = tdm_costs_create(context);
  for (int i = 0; i < count; i++) {
    char kernel[32];
    (void)snprintf(kernel, sizeof kernel, "kernel%d", i);
    assert_ok(tdm_costs_put(costs, "cpu/1", kernel, (tdm_cost){.alone_ns = i + 1.5}));
  }
  return costs;
}

static double alone_ns(const tdm_costs *costs, const char *kernel) {
  return tdm_costs_find(costs, "cpu/1", kernel).alone_ns;
}

/* Returns the time of a kernel in a file. */
static double saved_ns(const char *path, const char *kernel) {
  tdm_costs *costs = tdm_costs_create(context);
  assert_ok(tdm_costs_load(costs, path));
  const double ns = alone_ns(costs, kernel);
  tdm_costs_release(costs);
  return ns;
}

static char *text_of(const char *path) {
  static char text[4096];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  (void)fclose(file);
  return text;
}

static void the_same_in_every_locale(void **state) {
  char path[512], wanted[4096];
  tdm_costs *costs = costs_of(3);
  assert_ok(tdm_costs_save(costs, path_of(path, "locale.json")));
  (void)snprintf(wanted, sizeof wanted, "%s", text_of(path));
  assert_non_null(strstr(wanted, "\"alone_ns\": 2.5"));
  assert_int_equal(enter_comma_locale(state), 0);
  assert_ok(tdm_costs_save(costs, path));
  assert_string_equal(text_of(path), wanted);
  assert_true(saved_ns(path, "kernel2") == 3.5);
  assert_int_equal(leave_comma_locale(state), 0);
  tdm_costs_release(costs);
}

static void times_of_less_than_a_nanosecond_are_kept(void **state) {
  (void)state;
  char path[512];
  const tdm_cost cost = {.alone_ns = 0.25, .crowded_ns = 0.5};
  tdm_costs *costs = tdm_costs_create(context);
  assert_ok(tdm_costs_put(costs, "cpu/1", "quick", cost));
  assert_ok(tdm_costs_save(costs, path_of(path, "quick.json")));
  tdm_costs_release(costs);
  costs = tdm_costs_create(context);
  assert_ok(tdm_costs_load(costs, path));
  const tdm_cost found = tdm_costs_find(costs, "cpu/1", "quick");
  assert_true(found.alone_ns == cost.alone_ns && found.crowded_ns == cost.crowded_ns);
  tdm_costs_release(costs);
}

/* Models of processors have them. */
static void classes_may_have_spaces(void **state) {
  (void)state;
  static const char model[] = "EPYC 7763 64-Core";
  char path[512];
  tdm_costs *costs = tdm_costs_create(context);
  assert_ok(tdm_costs_put(costs, model, "relu#0(float32[4, 8])", (tdm_cost){.alone_ns = 7}));
  assert_ok(tdm_costs_save(costs, path_of(path, "spaces.json")));
  tdm_costs_release(costs);
  assert_non_null(strstr(text_of(path), "\"device\": \"EPYC 7763 64-Core\""));
  costs = tdm_costs_create(context);
  assert_ok(tdm_costs_load(costs, path));
  assert_true(tdm_costs_find(costs, model, "relu#0(float32[4, 8])").alone_ns == 7);
  assert_true(tdm_costs_find(costs, "EPYC", "relu#0(float32[4, 8])").alone_ns == 0);
  tdm_costs_release(costs);
}

static void a_link_stays_and_its_target_is_written(void **state) {
  (void)state;
  char path[512], link[512];
  tdm_costs *costs = costs_of(1);
  path_of(path, "target.json");
  assert_int_equal(symlink("target.json", path_of(link, "link.json")), 0);
  assert_ok(tdm_costs_save(costs, link));
  struct stat about;
  assert_int_equal(lstat(link, &about), 0);
  assert_true(S_ISLNK(about.st_mode));
  assert_true(saved_ns(path, "kernel0") == 1.5);
  tdm_costs_release(costs);
}

static void a_failing_write_leaves_the_old_file(void **state) {
  (void)state;
  char path[512];
  tdm_costs *one = costs_of(1);
  tdm_costs *many = costs_of(500);
  assert_ok(tdm_costs_save(one, path_of(path, "kept.json")));
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  const tdm_status status = tdm_costs_save(many, path);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)signal(SIGXFSZ, handler);
  assert_int_equal(status, TDM_IO);
  assert_non_null(strstr(tdm_last_message(), "kept.json"));
  assert_non_null(strstr(tdm_last_message(), "File too large"));
  assert_true(saved_ns(path, "kernel0") == 1.5);
  tdm_costs_release(one);
  tdm_costs_release(many);
}

static void pipes_are_not_waited_for(void **state) {
  (void)state;
  char path[512];
  tdm_costs *costs = costs_of(1);
  assert_int_equal(mkfifo(path_of(path, "pipe"), 0600), 0);
  assert_int_equal(tdm_costs_load(costs, path), TDM_IO);
  assert_non_null(strstr(tdm_last_message(), "pipe is a device or pipe, not a file"));
  assert_int_equal(tdm_costs_save(costs, path), TDM_IO);
  assert_non_null(strstr(tdm_last_message(), "no regular file"));
  assert_int_equal(tdm_costs_load(costs, path_of(path, "missing")), TDM_UNAVAILABLE);
  tdm_machine machine;
  assert_int_equal(tdm_machine_read(path_of(path, "pipe"), &machine), TDM_IO);
  assert_non_null(strstr(tdm_last_message(), "pipe is a device or pipe, not a file"));
  tdm_costs_release(costs);
}

/* ---- Hostile files --------------------------------------------------------------------------- */

static tdm_status load_bytes(tdm_costs *costs, const char *bytes, size_t size) {
  char path[512];
  FILE *file = fopen(path_of(path, "hostile.json"), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return tdm_costs_load(costs, path);
}

static void assert_corrupt(const char *bytes, size_t size) {
  tdm_costs *costs = tdm_costs_create(context);
  const tdm_status status = load_bytes(costs, bytes, size);
  if (status != TDM_CORRUPT_DATA) fail_msg("%s: %.200s", tdm_status_name(status), bytes);
  assert_non_null(strstr(tdm_last_message(), "hostile.json"));
  assert_null(costs->first); /* a partial file is not loaded */
  tdm_costs_release(costs);
}

#define COSTS(kernels) "{\"format\":\"tandem costs\",\"version\":1,\"kernels\":" kernels "}"
#define KERNEL(fields) COSTS("[{\"device\":\"cpu/1\",\"kernel\":\"a\"},{" fields "}]")

static void files_that_lie_are_refused(void **state) {
  (void)state;
  static const char *const files[] = {
      "",
      " ",
      "null",
      "1",
      "\"tandem costs\"",
      "[]",
      "{}",
      "{\"format\":1}",
      "{\"format\":\"tandem links\",\"version\":1,\"kernels\":[]}",
      "{\"format\":\"tandem costs\",\"version\":2,\"kernels\":[]}",
      "{\"format\":\"tandem costs\",\"version\":\"1\",\"kernels\":[]}",
      "{\"format\":\"tandem costs\",\"kernels\":[]}",
      "{\"format\":\"tandem costs\",\"version\":1}",
      "{\"format\":\"tandem costs\",\"format\":\"tandem costs\",\"version\":1,\"kernels\":[]}",
      COSTS("{}"),
      COSTS("1"),
      COSTS("[1]"),
      COSTS("[[]]"),
      COSTS("[null]"),
      COSTS("[{}]"),
      COSTS("[]") "x",
      COSTS("[],"),
      KERNEL("\"device\":\"cpu/1\""),
      KERNEL("\"kernel\":\"b\""),
      KERNEL("\"device\":1,\"kernel\":\"b\""),
      KERNEL("\"device\":\"cpu\\n1\",\"kernel\":\"b\""),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":[]"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":0"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":-1"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":\"1\""),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":1e16"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":1e999"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":NaN"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":1,5"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"alone_ns\":null"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"b\",\"crowded_ns\":true"),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"\\u0000\""),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"\\ud800\""),
      KERNEL("\"device\":\"cpu/1\",\"kernel\":\"\xff\""),
      "\xef\xbb\xbf" COSTS("[]"),
  };
  for (size_t i = 0; i < TDM_COUNT_OF(files); i++)
    assert_corrupt(files[i], strlen(files[i]));
  static char deep[100000];
  memset(deep, '[', sizeof deep);
  assert_corrupt(deep, sizeof deep);
  memset(deep, 0, sizeof deep);
  assert_corrupt(deep, sizeof deep);
}

/* A file cut anywhere is refused; with any byte changed it is refused or well-formed. */
static void no_damaged_file_is_taken_in_part(void **state) {
  (void)state;
  char path[512], text[4096];
  tdm_costs *costs = costs_of(2);
  assert_ok(tdm_costs_save(costs, path_of(path, "whole.json")));
  (void)snprintf(text, sizeof text, "%s", text_of(path));
  const size_t size = strlen(text);
  for (size_t cut = 0; cut < size; cut++)
    assert_corrupt(text, cut);
  for (size_t at = 0; at < size; at++) {
    for (int bit = 0; bit < 8; bit += 3) {
      tdm_costs *read = tdm_costs_create(context);
      text[at] = (char)(text[at] ^ 1 << bit);
      const tdm_status status = load_bytes(read, text, size);
      text[at] = (char)(text[at] ^ 1 << bit);
      assert_true(status == TDM_OK || status == TDM_CORRUPT_DATA);
      assert_int_equal(status == TDM_OK, read->first != NULL);
      tdm_costs_release(read);
    }
  }
  tdm_costs_release(costs);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_in_every_locale),
      cmocka_unit_test(times_of_less_than_a_nanosecond_are_kept),
      cmocka_unit_test(classes_may_have_spaces),
      cmocka_unit_test(a_link_stays_and_its_target_is_written),
      cmocka_unit_test(a_failing_write_leaves_the_old_file),
      cmocka_unit_test(pipes_are_not_waited_for),
      cmocka_unit_test(files_that_lie_are_refused),
      cmocka_unit_test(no_damaged_file_is_taken_in_part),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
