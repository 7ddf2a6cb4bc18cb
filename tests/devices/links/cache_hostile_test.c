/* The file that keeps a machine's links: nothing in it is believed unread, and hostile files leave
 * the links as they were. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/devices/links/cache_support.h"

static char good[LINKS_TEXT_BYTES];
static size_t good_bytes;

/* Writes a valid file of invented numbers. */
static void write_good_file(void) {
  tdm_context *context = make_context(NULL);
  const tdm_link_estimate estimate = {
      .link = {.latency_ns = 5000, .bytes_per_ns = 16},
      .origin = TDM_LINK_CALIBRATED,
      .both_ways = 1.5,
      .knot_count = 3,
      .knots = {{1024, {1, 1.5, 2}}, {2048, {0.98, 1.5, 2}}, {4096, {1.1, 1.4, 2}}}};
  const tdm_device *ends[2] = {test_device(context, "cpu:0"), test_device(context, "sim:0")};
  for (size_t i = 0; i < 4; i++)
    *tdm_links_at(tdm_context_links(context), ends[i % 2], ends[1 - i % 2], i / 2 == 1) = estimate;
  assert_ok(tdm_links_save(context, path_of("good.json"), false));
  tdm_context_release(context);
}

static tdm_context *hostile_context(void) {
  (void)setenv("TANDEM_LINKS", "off", 1);
  write_good_file();
  good_bytes = read_file(path_of("good.json"), good);
  assert_true(good_bytes > 200);
  return make_context(NULL);
}

static tdm_status load_text(tdm_context *context, const char *text, size_t bytes) {
  write_file(path_of("hostile.json"), text, bytes);
  const tdm_status status = tdm_links_load(context, path_of("hostile.json"));
  if (status != TDM_OK) assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  return status;
}

/* Loads the valid file with the first `part` replaced. */
static tdm_status load_with(tdm_context *context, const char *part, const char *by) {
  static char text[2 * LINKS_TEXT_BYTES];
  const char *at = strstr(good, part);
  if (!at) fail_msg("the file has no %s", part);
  const int length =
      snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, by, at + strlen(part));
  return load_text(context, text, (size_t)length);
}

/* The good file, the value of the first field of this name replaced. */
static tdm_status load_value(tdm_context *context, const char *field, const char *value) {
  static char text[2 * LINKS_TEXT_BYTES];
  char name[64];
  (void)snprintf(name, sizeof name, "\"%s\": ", field);
  const char *at = strstr(good, name);
  if (!at) fail_msg("the file has no %s", name);
  at += strlen(name);
  const char *end = at;
  for (int depth = 0; depth > 0 || (*end != ',' && *end != '}'); end++)
    depth += (*end == '[') - (*end == ']');
  const int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, value, end);
  return load_text(context, text, (size_t)length);
}

static void every_field_is_checked(void **state) {
  (void)state;
  tdm_context *context = hostile_context();
  const char *const changes[][2] = {
      {"tandem links", "other links"},
      {"\"version\": 3", "\"version\": 1"},
      {"\"version\": 3", "\"version\": \"2\""},
      {"\"version\"", "\"revision\""},
      {"\"key\"", "\"lock\""},
      {"\"links\"", "\"chains\""},
      {"\"format\"", "\"more\": 0, \"format\""},
      {"cpu:0", "cpu:9"},
      {"cpu:0", "sim:0"},
      {"\"from\": \"cpu:0\"", "\"from\": 0"},
      {"\"pinned\": false", "\"pinned\": 0"},
      {"\"pinned\": false", "\"pinned\": true"}, /* now it occurs twice */
      {"\"latency_ns\": ", "\"latency_ns\": -"},
      {"\"latency_ns\": ", "\"latency_ns\": 1, \"latency_ns\": "},
      {"\"latency_ns\": ", "\"latency\": "},
      {"\"bytes_per_ns\": ", "\"bytes_per_ns\": -"},
      {"\"both_ways\": 1.5", "\"one_way\": 2"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(changes); i++) {
    const tdm_status status = load_with(context, changes[i][0], changes[i][1]);
    if (status != TDM_CORRUPT_DATA)
      fail_msg("%s for %s is %s", changes[i][1], changes[i][0], tdm_status_name(status));
    assert_message("hostile.json");
  }
  assert_ok(load_with(context, "tandem links", "tandem links")); /* the control */
  assert_true(upload_of(context).both_ways == 1.5);
  tdm_context_release(context);
}

/* Illegal values of the fields of the first link. Each message names the field, except for numbers
 * that the reader of JSON refuses. */
static void every_value_is_checked(void **state) {
  (void)state;
  tdm_context *context = hostile_context();
  static const struct {
    const char *field;
    const char *values[12]; /* NULL after the last value */
  } refused[] = {
      {"latency_ns", {"-1", "1e300", "1e999", "null"}},
      {"bytes_per_ns", {"1e16", "1e-10", "1e-312"}},
      {"both_ways", {"-0.1", "1e7", "\"2\""}},
      {"far_bytes", {"-1", "1e16", "[]"}},
      {"knots",
       {"[[1, 2, 3], [2, 1, 1, 1]]", "[[1, 2, 3, 4, 5], [2, 1, 1, 1]]",
        "[[3, 1, 1, 1], [2, 1, 1, 1]]", "[[1, 0, 1, 1], [2, 1, 1, 1]]",
        "[[1, 1, 1e7, 1], [2, 1, 1, 1]]", "[[0, 1, 1, 1], [2, 1, 1, 1]]",
        "[[\"1\", 1, 1, 1], [2, 1, 1, 1]]", "[7, [2, 1, 1, 1]]", "[]", "[[1, 1, 1, 1]]", "{}"}},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(refused); i++)
    for (size_t k = 0; refused[i].values[k]; k++) {
      const tdm_status status = load_value(context, refused[i].field, refused[i].values[k]);
      if (status != TDM_CORRUPT_DATA)
        fail_msg("%s of %s is %s", refused[i].field, refused[i].values[k], tdm_status_name(status));
      if (strcmp(refused[i].values[k], "1e999") != 0) assert_message(refused[i].field);
    }
  assert_ok(load_value(context, "knots", "[[1, 1, 1, 1], [2, 1, 1, 1]]")); /* the control */
  tdm_context_release(context);
}

static void whatever_is_in_a_file_is_survived(void **state) {
  (void)state;
  tdm_context *context = hostile_context();
  /* No part of the file is the file. */
  for (size_t bytes = 0; bytes + 2 < good_bytes; bytes += 1 + bytes / 16)
    assert_status(load_text(context, good, bytes), TDM_CORRUPT_DATA);
  static char deep[LINKS_TEXT_BYTES];
  memset(deep, '[', sizeof(deep));
  assert_status(load_text(context, deep, sizeof(deep)), TDM_CORRUPT_DATA);
  assert_status(load_text(context, "\0\xff\xfe{}", 5), TDM_CORRUPT_DATA);
  assert_status(load_text(context, "[]", 2), TDM_CORRUPT_DATA);
  assert_status(load_text(context, "3", 1), TDM_CORRUPT_DATA);
  /* One byte wrong may still be a file, of numbers within bounds. */
  uint64_t random = 3;
  for (size_t i = 0; i < 400; i++) {
    static char text[LINKS_TEXT_BYTES];
    memcpy(text, good, good_bytes);
    random = random * 6364136223846793005u + 1442695040888963407u;
    text[(random >> 33) % good_bytes] = (char)(random >> 20);
    write_file(path_of("flipped.json"), text, good_bytes);
    const tdm_status status = tdm_links_load(context, path_of("flipped.json"));
    assert_true(status == TDM_OK || status == TDM_CORRUPT_DATA || status == TDM_UNAVAILABLE);
    const tdm_link_estimate estimate = upload_of(context);
    const double ns = tdm_link_predict_ns(&estimate, 5000);
    assert_true(isfinite(ns) && ns >= 0);
  }
  tdm_context_release(context);
}

static void what_is_no_file_is_refused(void **state) {
  (void)state;
  tdm_context *context = hostile_context();
  assert_status(tdm_links_load(context, links_folder()), TDM_IO);
  assert_status(tdm_links_load(context, "/dev/zero"), TDM_IO);
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  /* the call does not wait for it either */
  assert_status(tdm_links_load(context, path_of("pipe")), TDM_IO);
  write_file(path_of("huge"), "{}", 2);
  assert_int_equal(truncate(path_of("huge"), (off_t)1 << 30), 0);
  assert_status(tdm_links_load(context, path_of("huge")), TDM_IO);
  assert_status(tdm_links_load(context, path_of("missing.json")), TDM_UNAVAILABLE);
  tdm_context_release(context);

  write_file(path_of("hostile.json"), "nonsense", 8);
  (void)setenv("TANDEM_LINKS", path_of("hostile.json"), 1);
  context = make_context(NULL); /* a context is created nevertheless, and logs it */
  assert_int_equal(record.count, 1);
  assert_non_null(strstr(record.last, "links are modelled, not calibrated"));
  assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  tdm_context_release(context);
}

int main(void) {
  if (!make_links_folder()) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_field_is_checked),
      cmocka_unit_test(every_value_is_checked),
      cmocka_unit_test(whatever_is_in_a_file_is_survived),
      cmocka_unit_test(what_is_no_file_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
