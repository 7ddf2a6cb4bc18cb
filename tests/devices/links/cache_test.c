/* The file that keeps a machine's links: where it is, that it comes back, and that nothing in it is
 * believed unread: hostile files leave the links as they were. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices/links/table.h"
#include "devices/topology/topology.h"
#include "tests/devices/support.h"

enum { TEXT_BYTES = 1 << 16, PATH_BYTES = 512 };

static char folder[PATH_BYTES - 128]; /* of the test's own */

static const tdm_links_calibration quick = {.least_bytes = 1024, .most_bytes = 4096, .copies = 5};

typedef struct log_record {
  int count;
  char last[TDM_MESSAGE_BYTES];
} log_record;

static void record_log(void *user, tdm_log_level level, const char *text) {
  log_record *record = user;
  assert_int_equal(level, TDM_LOG_WARNING);
  record->count++;
  (void)snprintf(record->last, sizeof(record->last), "%s", text);
}

static log_record record;

static tdm_context *make_context(const char *sim) {
  record = (log_record){0};
  const tdm_context_options options = {.struct_size = sizeof(options),
                                       .log = record_log,
                                       .log_user = &record,
                                       .cpu_devices = 1,
                                       .sim_devices = 1,
                                       .sim = sim};
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static const char *path_of(const char *name) {
  static char path[PATH_BYTES];
  (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

static void write_file(const char *path, const char *text, size_t bytes) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static size_t read_file(const char *path, char *text) {
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  const size_t bytes = fread(text, 1, TEXT_BYTES - 1, file);
  (void)fclose(file);
  text[bytes] = '\0';
  return bytes;
}

static tdm_link_estimate upload_of(tdm_context *context) {
  tdm_link_estimate estimate;
  tdm_context_link(context, test_device(context, "cpu:0"), test_device(context, "sim:0"), true,
                   &estimate);
  return estimate;
}

static bool close_to(double a, double b) {
  return fabs(a - b) <= 1e-6 * fabs(b);
}

/* ---- Round trips --------------------------------------------------------------------------- */

static void assert_same(const tdm_link_estimate *a, const tdm_link_estimate *b) {
  assert_int_equal(a->origin, b->origin);
  assert_true(close_to(a->link.latency_ns, b->link.latency_ns));
  assert_true(close_to(a->link.bytes_per_ns, b->link.bytes_per_ns));
  assert_true(close_to(a->latency_error_ns, b->latency_error_ns));
  assert_true(close_to(a->ns_per_byte_error, b->ns_per_byte_error));
  for (size_t i = 0; i < TDM_LINK_DISTANCES; i++)
    assert_true(close_to(a->distances[i], b->distances[i]));
  assert_int_equal(a->knot_count, b->knot_count);
  for (uint32_t i = 0; i < a->knot_count; i++) {
    assert_true(close_to(a->knots[i].bytes, b->knots[i].bytes));
    for (size_t k = 0; k < TDM_LINK_STATES; k++)
      assert_true(close_to(a->knots[i].ratios[k], b->knots[i].ratios[k]));
  }
}

static void what_is_saved_is_loaded_by_the_next_context(void **state) {
  (void)state;
  (void)setenv("TANDEM_LINKS", "off", 1);
  tdm_context *context = make_context(NULL);
  size_t known_count = 0;
  assert_ok(tdm_links_calibrate(context, &quick, &known_count));
  assert_int_equal(known_count, 4);
  const tdm_link_estimate saved = upload_of(context);
  assert_ok(tdm_links_save(context, path_of("kept.json"), false));
  assert_ok(tdm_links_save(context, path_of("kept.json"), false)); /* over the one before */
  tdm_context_release(context);

  context = make_context(NULL); /* off: nothing is read */
  assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  assert_ok(tdm_links_load(context, path_of("kept.json")));
  tdm_link_estimate loaded = upload_of(context);
  assert_same(&loaded, &saved);
  tdm_context_release(context);

  (void)setenv("TANDEM_LINKS", path_of("kept.json"), 1);
  context = make_context(NULL);
  loaded = upload_of(context);
  assert_same(&loaded, &saved);
  assert_int_equal(record.count, 0);
  tdm_context_release(context);
  (void)unsetenv("TANDEM_LINKS");
}

static void another_machines_file_is_not_used(void **state) {
  (void)state;
  (void)setenv("TANDEM_LINKS", path_of("kept.json"), 1); /* of the test before */
  tdm_context *context = make_context("latency_us=6");   /* another link is another machine */
  assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  assert_int_equal(record.count, 1);
  assert_non_null(strstr(record.last, "of another machine or other devices"));
  assert_status(tdm_links_load(context, path_of("kept.json")), TDM_UNAVAILABLE);
  tdm_context *same = make_context(NULL);
  assert_true(tdm_links_key(context) != tdm_links_key(same));
  const uint64_t key = tdm_links_key(same);
  tdm_context_release(same);
  same = make_context(NULL);
  assert_true(tdm_links_key(same) == key);
  tdm_context_release(same);
  tdm_context_release(context);

  (void)setenv("TANDEM_LINKS", path_of("missing.json"), 1);
  context = make_context(NULL); /* asked for by name: its lack is told */
  assert_int_equal(record.count, 1);
  assert_non_null(strstr(record.last, "No such file"));
  tdm_context_release(context);
  (void)unsetenv("TANDEM_LINKS");
}

/* A sim:0 that is asked for has cores of its own, which cpu:0, that copies, has not any more. The
 * machine has one socket. */
static void fewer_cores_are_another_machine(void **state) {
  (void)state;
  uint64_t keys[2];
  size_t cores[2];
  (void)setenv("HWLOC_XMLFILE", "tests/devices/machines/hbm_alone.xml", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  for (int own = 0; own < 2; own++) {
    const tdm_context_options options = {
        .struct_size = sizeof(options), .cpu_devices = 1, .sim_devices = own};
    tdm_context *context = tdm_context_create(&options);
    if (!context) fail_msg("no context: %s", tdm_last_message());
    assert_int_equal(tdm_device_count(context), 2);
    assert_ok(tdm_context_start(context));
    keys[own] = tdm_links_key(context);
    cores[own] = tdm_context_cores(context, test_device(context, "cpu:0"))->count;
    tdm_context_release(context);
  }
  (void)unsetenv("HWLOC_XMLFILE");
  (void)unsetenv("HWLOC_THISSYSTEM");
  assert_true(cores[1] < cores[0]);
  assert_true(keys[0] != keys[1]);
}

static tdm_context *make_default_context(void) {
  record = (log_record){0};
  const tdm_context_options options = {
      .struct_size = sizeof(options), .log = record_log, .log_user = &record, .cpu_devices = 1};
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

/* tdm_simulator gives sim:0 cores of its own: what was measured like this is found by the next
 * program that asks for it, in the folder and in a file that is named, and by no other program. */
static void links_of_an_accelerator_with_cores_are_found_again(void **state) {
  (void)state;
  (void)setenv("HWLOC_XMLFILE", "tests/devices/machines/hbm_alone.xml", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  (void)setenv("TANDEM_CACHE", path_of("accelerator"), 1);
  char path[PATH_BYTES];
  for (int named = 0; named < 2; named++) {
    if (named) (void)setenv("TANDEM_LINKS", path, 1);
    tdm_context *context = make_default_context();
    assert_int_equal(record.count, 0); /* it may yet be asked for */
    assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
    assert_string_equal(tdm_simulator(context), "sim:0");
    if (!named) {
      size_t known_count = 0;
      assert_ok(tdm_links_calibrate(context, &quick, &known_count));
      assert_ok(tdm_links_path(context, path, sizeof(path)));
      assert_ok(tdm_links_save(context, path, true));
    }
    assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
    assert_string_equal(tdm_simulator(context), "sim:0"); /* has them: nothing is read again */
    assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
    assert_null(strstr(record.last, "links")); /* of cores that cannot be bound it may tell */
    tdm_context_release(context);
  }
  write_file(path, "{}", 2); /* no links of any machine's */
  tdm_context *context = make_default_context();
  assert_int_equal(record.count, 1);
  assert_string_equal(tdm_simulator(context), "sim:0");
  assert_int_equal(record.count, 2);
  assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  tdm_context_release(context);
  (void)unsetenv("TANDEM_LINKS");
  (void)unsetenv("TANDEM_CACHE");
  (void)unsetenv("HWLOC_XMLFILE");
  (void)unsetenv("HWLOC_THISSYSTEM");
}

/* Links of cores that were divided otherwise do not outlast the division. */
static void cores_that_are_divided_anew_forget_links(void **state) {
  (void)state;
  (void)setenv("HWLOC_XMLFILE", "tests/devices/machines/hbm_alone.xml", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  (void)setenv("TANDEM_CACHE", path_of("divided"), 1);
  tdm_context *context = make_default_context();
  size_t known_count = 0;
  assert_ok(tdm_links_calibrate(context, &quick, &known_count)); /* starts: cores stay shared */
  char path[PATH_BYTES];
  assert_ok(tdm_links_path(context, path, sizeof(path)));
  assert_ok(tdm_links_save(context, path, true));
  assert_string_equal(tdm_simulator(context), "sim:0");
  assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
  tdm_context_release(context);
  context = make_default_context();
  assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
  assert_string_equal(tdm_simulator(context), "sim:0");
  assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  assert_null(strstr(record.last, "links"));
  tdm_context_release(context);
  (void)unsetenv("TANDEM_CACHE");
  (void)unsetenv("HWLOC_XMLFILE");
  (void)unsetenv("HWLOC_THISSYSTEM");
}

/* ---- Where it is --------------------------------------------------------------------------- */

static void the_folder_is_found(void **state) {
  (void)state;
  (void)unsetenv("TANDEM_LINKS");
  (void)setenv("HOME", path_of("home"), 1);
  (void)unsetenv("XDG_CACHE_HOME");
  (void)unsetenv("TANDEM_CACHE");
  tdm_context *context = make_context(NULL);
  assert_int_equal(record.count, 0); /* no file yet is nothing to tell */
  char path[PATH_BYTES];
  assert_ok(tdm_links_path(context, path, sizeof(path)));
  assert_non_null(strstr(path, "/home/.cache/tandem/links-"));
  (void)setenv("XDG_CACHE_HOME", "not/absolute", 1);
  assert_ok(tdm_links_path(context, path, sizeof(path)));
  assert_non_null(strstr(path, "/home/.cache/tandem/links-"));
  (void)setenv("XDG_CACHE_HOME", path_of("xdg"), 1);
  assert_ok(tdm_links_path(context, path, sizeof(path)));
  assert_non_null(strstr(path, "/xdg/tandem/links-"));
  (void)setenv("TANDEM_CACHE", path_of("own/nested"), 1);
  assert_ok(tdm_links_path(context, path, sizeof(path)));
  assert_non_null(strstr(path, "/own/nested/links-"));
  char tiny[8];
  assert_status(tdm_links_path(context, tiny, sizeof(tiny)), TDM_INVALID_ARGUMENT);

  size_t known_count = 0;
  assert_ok(tdm_links_calibrate(context, &quick, &known_count));
  assert_status(tdm_links_save(context, path, false), TDM_IO); /* no such folder */
  assert_ok(tdm_links_save(context, path, true));
  tdm_context_release(context);
  context = make_context(NULL);
  assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
  (void)unsetenv("TANDEM_CACHE");
  (void)unsetenv("XDG_CACHE_HOME");
  (void)unsetenv("HOME");
  assert_status(tdm_links_path(context, path, sizeof(path)), TDM_UNAVAILABLE);
  tdm_context_release(context);
}

static void calibrating_keeps_what_it_found(void **state) {
  (void)state;
  (void)setenv("TANDEM_STAGING_BYTES", "1048576", 1);
  (void)setenv("TANDEM_LINKS", path_of("public.json"), 1);
  tdm_context *context = make_context(NULL);
  assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  assert_ok(tdm_context_calibrate(context, NULL));
  const tdm_link_estimate estimate = upload_of(context);
  assert_int_equal(estimate.origin, TDM_LINK_CALIBRATED);
  tdm_context_release(context);
  context = make_context(NULL);
  const tdm_link_estimate read = upload_of(context);
  assert_same(&read, &estimate);
  assert_status(tdm_links_save(context, folder, false), TDM_IO); /* a folder is no file */
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  assert_status(tdm_links_save(context, path_of("pipe"), false), TDM_IO);
  struct stat about;
  assert_int_equal(stat(path_of("pipe"), &about), 0);
  assert_true(S_ISFIFO(about.st_mode)); /* as it was */
  assert_int_equal(unlink(path_of("pipe")), 0);
  tdm_context_release(context);
  (void)unsetenv("TANDEM_STAGING_BYTES");
  (void)unsetenv("TANDEM_LINKS");
}

/* ---- Hostile files ------------------------------------------------------------------------- */

static char good[TEXT_BYTES];
static size_t good_bytes;

/* A file of numbers that nobody measured. */
static void write_good_file(void) {
  tdm_context *context = make_context(NULL);
  const tdm_link_estimate estimate = {
      .link = {.latency_ns = 5000, .bytes_per_ns = 16},
      .latency_error_ns = 40,
      .ns_per_byte_error = 0.001,
      .deviation = 0.02,
      .origin = TDM_LINK_CALIBRATED,
      .both_ways = 1.5,
      .knot_count = 3,
      .knots = {{1024, {1, 1.2, 1.5, 2}}, {2048, {0.98, 1.2, 1.5, 2}}, {4096, {1.1, 1.3, 1.4, 2}}}};
  const tdm_device *ends[2] = {test_device(context, "cpu:0"), test_device(context, "sim:0")};
  tdm_link_set set;
  assert_ok(tdm_link_set_init(&set, tdm_context_links(context)));
  for (size_t i = 0; i < 4; i++)
    *tdm_link_set_at(&set, ends[i % 2], ends[1 - i % 2], i / 2 == 1) = estimate;
  tdm_link_set_publish(&set);
  tdm_link_set_deinit(&set);
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

/* The good file with the first `part` replaced. */
static tdm_status load_with(tdm_context *context, const char *part, const char *by) {
  static char text[2 * TEXT_BYTES];
  const char *at = strstr(good, part);
  if (!at) fail_msg("the file has no %s", part);
  const int length =
      snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, by, at + strlen(part));
  return load_text(context, text, (size_t)length);
}

static void every_field_is_checked(void **state) {
  (void)state;
  tdm_context *context = hostile_context();
  const char *const changes[][2] = {
      {"tandem links", "other links"},
      {"\"version\": 2", "\"version\": 1"},
      {"\"version\": 2", "\"version\": \"2\""},
      {"\"version\"", "\"revision\""},
      {"\"key\"", "\"lock\""},
      {"\"links\"", "\"chains\""},
      {"\"format\"", "\"more\": 0, \"format\""},
      {"cpu:0", "cpu:9"},
      {"cpu:0", "sim:0"},
      {"\"from\": \"cpu:0\"", "\"from\": 0"},
      {"\"pinned\": false", "\"pinned\": 0"},
      {"\"pinned\": false", "\"pinned\": true"}, /* now it is there twice */
      {"\"latency_ns\": ", "\"latency_ns\": -"},
      {"\"latency_ns\": ", "\"latency_ns\": 1e300, \"x\": "},
      {"\"latency_ns\": ", "\"latency_ns\": 1e999, \"x\": "},
      {"\"latency_ns\": ", "\"latency_ns\": null, \"x\": "},
      {"\"latency_ns\": ", "\"latency_ns\": 1, \"latency_ns\": "},
      {"\"latency_ns\": ", "\"latency\": "},
      {"\"bytes_per_ns\": ", "\"bytes_per_ns\": -"},
      {"\"latency_error_ns\": ", "\"latency_error_ns\": \"1\", \"x\": "},
      {"\"deviation\": ", "\"deviation\": []  , \"x\": "},
      {"\"both_ways\": 1.5", "\"both_ways\": 0.9"},
      {"\"both_ways\": 1.5", "\"both_ways\": \"2\""},
      {"\"both_ways\": 1.5", "\"one_way\": 2"},
      {"\"distances\": [", "\"distances\": [1], \"x\": ["},
      {"\"distances\": [", "\"distances\": [1, 1, 2], \"x\": ["}, /* not rising */
      {"\"distances\": [", "\"distances\": [1, 0, 0], \"x\": ["},
      {"\"distances\": [", "\"distances\": [0, 1, 2], \"x\": ["},
      {"\"distances\": [", "\"distances\": [1, 2, -3], \"x\": ["},
      {"\"distances\": [", "\"distances\": [1, 2, \"3\"], \"x\": ["},
      {"\"knots\": [", "\"knots\": [[1, 2, 3, 4], "},
      {"\"knots\": [", "\"knots\": [[1, 2, 3, 4, 5, 6], "},
      {"\"knots\": [", "\"knots\": [[5000, 1, 1, 1, 1], "}, /* not by size */
      {"\"knots\": [", "\"knots\": [[1, 0, 1, 1, 1], "},
      {"\"knots\": [", "\"knots\": [[1, 1, 1, 1e7, 1], "},
      {"\"knots\": [", "\"knots\": [[0, 1, 1, 1, 1], "},
      {"\"knots\": [", "\"knots\": [[\"1\", 1, 1, 1, 1], "},
      {"\"knots\": [", "\"knots\": [7, "},
      {"\"knots\": [", "\"knots\": [], \"x\": ["},
      {"\"knots\": [", "\"knots\": [[1, 1, 1, 1, 1]], \"x\": ["},
      {"\"knots\": [", "\"knots\": {}, \"x\": ["},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(changes); i++) {
    const tdm_status status = load_with(context, changes[i][0], changes[i][1]);
    if (status != TDM_CORRUPT_DATA) {
      fail_msg("%s for %s is %s", changes[i][1], changes[i][0], tdm_status_name(status));
    }
    assert_message("hostile.json");
  }
  assert_ok(load_with(context, "tandem links", "tandem links")); /* the control */
  assert_true(upload_of(context).both_ways == 1.5);
  tdm_context_release(context);
  context = make_context(NULL);
  assert_ok(load_with(context, "\"both_ways\": 1.5,", "")); /* as older files are: of the first */
  tdm_link_estimate first;
  tdm_links_get(tdm_context_links(context), test_device(context, "cpu:0"),
                test_device(context, "sim:0"), false, &first);
  assert_true(first.origin == TDM_LINK_CALIBRATED && first.both_ways == 0);
  tdm_context_release(context);
}

static void whatever_is_in_a_file_is_survived(void **state) {
  (void)state;
  tdm_context *context = hostile_context();
  /* No part of the file is the file. */
  for (size_t bytes = 0; bytes + 2 < good_bytes; bytes += 1 + bytes / 16)
    assert_status(load_text(context, good, bytes), TDM_CORRUPT_DATA);
  static char deep[TEXT_BYTES];
  memset(deep, '[', sizeof(deep));
  assert_status(load_text(context, deep, sizeof(deep)), TDM_CORRUPT_DATA);
  assert_status(load_text(context, "\0\xff\xfe{}", 5), TDM_CORRUPT_DATA);
  assert_status(load_text(context, "[]", 2), TDM_CORRUPT_DATA);
  assert_status(load_text(context, "3", 1), TDM_CORRUPT_DATA);
  /* One byte wrong may still be a file, of numbers within bounds. */
  uint64_t random = 3;
  for (size_t i = 0; i < 400; i++) {
    static char text[TEXT_BYTES];
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
  assert_status(tdm_links_load(context, folder), TDM_IO);
  assert_status(tdm_links_load(context, "/dev/zero"), TDM_IO);
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  assert_status(tdm_links_load(context, path_of("pipe")), TDM_IO); /* nor waited for */
  write_file(path_of("huge"), "{}", 2);
  assert_int_equal(truncate(path_of("huge"), (off_t)1 << 30), 0);
  assert_status(tdm_links_load(context, path_of("huge")), TDM_IO);
  assert_status(tdm_links_load(context, path_of("missing.json")), TDM_UNAVAILABLE);
  tdm_context_release(context);

  write_file(path_of("hostile.json"), "nonsense", 8);
  (void)setenv("TANDEM_LINKS", path_of("hostile.json"), 1);
  context = make_context(NULL); /* a context is made all the same, and says so */
  assert_int_equal(record.count, 1);
  assert_non_null(strstr(record.last, "links are modelled, not calibrated"));
  assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
  tdm_context_release(context);
}

int main(void) {
  const char *temporary = getenv("TEST_TMPDIR");
  (void)snprintf(folder, sizeof(folder), "%s/links.XXXXXX", temporary ? temporary : "/tmp");
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_saved_is_loaded_by_the_next_context),
      cmocka_unit_test(another_machines_file_is_not_used),
      cmocka_unit_test(fewer_cores_are_another_machine),
      cmocka_unit_test(links_of_an_accelerator_with_cores_are_found_again),
      cmocka_unit_test(cores_that_are_divided_anew_forget_links),
      cmocka_unit_test(the_folder_is_found),
      cmocka_unit_test(calibrating_keeps_what_it_found),
      cmocka_unit_test(every_field_is_checked),
      cmocka_unit_test(whatever_is_in_a_file_is_survived),
      cmocka_unit_test(what_is_no_file_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
