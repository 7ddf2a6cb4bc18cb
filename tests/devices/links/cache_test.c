/* The file that stores a machine's links: its path, and that links are read back unchanged. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices/topology/topology.h"
#include "tests/core/comma_locale.h"
#include "tests/devices/links/cache_support.h"
#include "tests/devices/links/count.h"
#include "tests/options.h"

enum { MOST_BYTES = 4096 };

/* ---- Round trips ----------------------------------------------------------------------------- */

static bool close_to(double a, double b) {
  return fabs(a - b) <= 1e-6 * fabs(b);
}

static void assert_same(const tdm_link_estimate *a, const tdm_link_estimate *b) {
  assert_int_equal(a->origin, b->origin);
  assert_true(close_to(a->link.latency_ns, b->link.latency_ns));
  assert_true(close_to(a->link.bytes_per_ns, b->link.bytes_per_ns));
  assert_true(close_to(a->both_ways, b->both_ways));
  assert_true(close_to(a->far_bytes, b->far_bytes));
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
  assert_ok(tdm_links_calibrate(context, MOST_BYTES));
  assert_int_equal(test_calibrated_links(context), 4);
  const tdm_link_estimate saved = upload_of(context);
  assert_ok(tdm_links_save(context, path_of("kept.json"), false));
  assert_ok(tdm_links_save(context, path_of("kept.json"), false)); /* replaces the previous file */
  tdm_context_release(context);

  context = make_context(NULL); /* off: no file is read */
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

/* All fields, with numbers that are read as they were written. */
static void a_file_is_written_as_it_was_read(void **state) {
  (void)state;
  static const char head[] = "{\n"
                             " \"format\": \"tandem links\",\n"
                             " \"version\": 3,\n"
                             " \"key\": \"%016llx\",\n"
                             " \"links\": [\n";
  static const char link[] = "  {\n"
                             "   \"from\": \"%s\",\n"
                             "   \"to\": \"%s\",\n"
                             "   \"pinned\": %s,\n"
                             "   \"latency_ns\": 9000.5,\n"
                             "   \"bytes_per_ns\": 25.0,\n"
                             "   \"both_ways\": 1.5,\n"
                             "   \"far_bytes\": 4096.0,\n"
                             "   \"knots\": [[1024.0,1.0,1.5,4.0],[2048.0,0.5,0.75,8.0]]\n"
                             "  }%s\n";
  static const struct {
    const char *from, *to, *pinned, *end;
  } links[] = {{"cpu:0", "sim:0", "false", ","},
               {"cpu:0", "sim:0", "true", ","},
               {"sim:0", "cpu:0", "true", ""}};
  static char text[LINKS_TEXT_BYTES], again[LINKS_TEXT_BYTES];
  (void)setenv("TANDEM_LINKS", "off", 1);
  tdm_context *context = make_context(NULL);
  const unsigned long long key = tdm_links_key(context);
  size_t length = (size_t)snprintf(text, sizeof text, head, key);
  for (size_t i = 0; i < TDM_COUNT_OF(links); i++)
    length += (size_t)snprintf(text + length, sizeof text - length, link, links[i].from,
                               links[i].to, links[i].pinned, links[i].end);
  length += (size_t)snprintf(text + length, sizeof text - length, " ]\n}");
  write_file(path_of("recorded.json"), text, length);
  assert_ok(tdm_links_load(context, path_of("recorded.json")));
  const tdm_link_estimate upload = upload_of(context);
  assert_true(upload.link.latency_ns == 9000.5 && upload.link.bytes_per_ns == 25);
  assert_true(upload.both_ways == 1.5 && upload.far_bytes == 4096);
  assert_int_equal(upload.knot_count, 2);
  assert_true(upload.knots[1].bytes == 2048 && upload.knots[1].ratios[TDM_LINK_STALE] == 8);
  assert_ok(tdm_links_save(context, path_of("again.json"), false));
  (void)read_file(path_of("again.json"), again);
  assert_string_equal(again, text);
  tdm_context_release(context);
  (void)unsetenv("TANDEM_LINKS");
}

static void another_machines_file_is_not_used(void **state) {
  (void)state;
  (void)setenv("TANDEM_LINKS", path_of("kept.json"), 1); /* written by the preceding test */
  tdm_context *context = make_context("latency_us=6");   /* other links are another machine */
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
  context = make_context(NULL); /* requested by name: its absence is reported */
  assert_int_equal(record.count, 1);
  assert_non_null(strstr(record.last, "No such file"));
  tdm_context_release(context);
  for (int named = 1; named >= 0; named--) { /* which is no failure of its making */
    (void)setenv("TANDEM_LINKS", named ? path_of("missing.json") : "off", 1);
    (void)tdm_fail(TDM_CORRUPT_DATA, "what failed before");
    context = make_context(NULL);
    assert_string_equal(tdm_last_message(), "what failed before");
    assert_int_equal(tdm_last_status(), TDM_CORRUPT_DATA);
    (void)tdm_simulator(context);
    assert_string_equal(tdm_last_message(), "what failed before");
    tdm_context_release(context);
  }
  (void)unsetenv("TANDEM_LINKS");
}

/* A program with a locale reads the figures that a program without a locale wrote. */
static void a_machine_is_the_same_in_any_locale(void **state) {
  uint64_t keys[2];
  (void)setenv("TANDEM_LINKS", "off", 1);
  for (int comma = 0; comma < 2; comma++) {
    if (comma) assert_int_equal(enter_comma_locale(state), 0);
    tdm_context *context = make_context("latency_us=1.5,gigabytes_per_second=2.5");
    keys[comma] = tdm_links_key(context);
    tdm_context_release(context);
  }
  assert_int_equal(leave_comma_locale(state), 0);
  assert_true(keys[0] == keys[1]);
  (void)unsetenv("TANDEM_LINKS");
}

/* Checks that a requested sim:0 takes cores from cpu:0, which copies, so that the links are those
 * of another machine. The machine has one socket. */
static void fewer_cores_are_another_machine(void **state) {
  (void)state;
  uint64_t keys[2];
  size_t cores[2];
  (void)setenv("HWLOC_XMLFILE", "tests/devices/machines/hbm_alone.xml", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  for (int own = 0; own < 2; own++) {
    const tdm_context_options options = OPTIONS(tdm_context_options, o.cpu_devices = 1,
                                                o.sim_devices = own ? 1 : TDM_FROM_ENVIRONMENT);
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

/* Checks that figures measured after tdm_simulator, which gives sim:0 separate cores, are found
 * only by a later program with tdm_simulator, in the folder and in a named file. */
static void links_of_an_accelerator_with_cores_are_found_again(void **state) {
  (void)state;
  (void)setenv("HWLOC_XMLFILE", "tests/devices/machines/hbm_alone.xml", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  (void)setenv("TANDEM_CACHE", path_of("accelerator"), 1);
  char path[LINKS_PATH_BYTES];
  for (int named = 0; named < 2; named++) {
    if (named) (void)setenv("TANDEM_LINKS", path, 1);
    tdm_context *context = make_default_context();
    assert_int_equal(record.count, 0); /* it may still be requested */
    assert_int_equal(upload_of(context).origin, TDM_LINK_MODELLED);
    assert_string_equal(tdm_simulator(context), "sim:0");
    if (!named) {
      assert_ok(tdm_links_calibrate(context, MOST_BYTES));
      assert_ok(tdm_links_path(context, path, sizeof path));
      assert_ok(tdm_links_save(context, path, true));
    }
    assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
    assert_string_equal(tdm_simulator(context), "sim:0"); /* has them: no file is read again */
    assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
    assert_null(strstr(record.last, "links")); /* it may report cores that cannot be bound */
    tdm_context_release(context);
  }
  write_file(path, "{}", 2); /* contains no links */
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
  assert_ok(tdm_links_calibrate(context, MOST_BYTES)); /* starts: cores stay shared */
  char path[LINKS_PATH_BYTES];
  assert_ok(tdm_links_path(context, path, sizeof path));
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

/* ---- Where it is ----------------------------------------------------------------------------- */

static void the_folder_is_found(void **state) {
  (void)state;
  (void)unsetenv("TANDEM_LINKS");
  (void)setenv("HOME", path_of("home"), 1);
  (void)unsetenv("XDG_CACHE_HOME");
  (void)unsetenv("TANDEM_CACHE");
  tdm_context *context = make_context(NULL);
  assert_int_equal(record.count, 0); /* a missing file is not reported */
  char path[LINKS_PATH_BYTES];
  assert_ok(tdm_links_path(context, path, sizeof path));
  assert_non_null(strstr(path, "/home/.cache/tandem/links-"));
  (void)setenv("XDG_CACHE_HOME", "not/absolute", 1);
  assert_ok(tdm_links_path(context, path, sizeof path));
  assert_non_null(strstr(path, "/home/.cache/tandem/links-"));
  (void)setenv("XDG_CACHE_HOME", path_of("xdg"), 1);
  assert_ok(tdm_links_path(context, path, sizeof path));
  assert_non_null(strstr(path, "/xdg/tandem/links-"));
  (void)setenv("TANDEM_CACHE", path_of("own/nested"), 1);
  assert_ok(tdm_links_path(context, path, sizeof path));
  assert_non_null(strstr(path, "/own/nested/links-"));
  char tiny[8];
  assert_status(tdm_links_path(context, tiny, sizeof tiny), TDM_INVALID_ARGUMENT);

  assert_ok(tdm_links_calibrate(context, MOST_BYTES));
  assert_status(tdm_links_save(context, path, false), TDM_IO); /* no such folder */
  assert_ok(tdm_links_save(context, path, true));
  tdm_context_release(context);
  context = make_context(NULL);
  assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
  (void)unsetenv("TANDEM_CACHE");
  (void)unsetenv("XDG_CACHE_HOME");
  (void)unsetenv("HOME");
  assert_status(tdm_links_path(context, path, sizeof path), TDM_UNAVAILABLE);
  assert_status(tdm_context_calibrate(context, NULL), TDM_UNAVAILABLE);
  /* the links are calibrated nevertheless */
  assert_int_equal(upload_of(context).origin, TDM_LINK_CALIBRATED);
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
  assert_int_equal(estimate.knot_count, 13); /* 1 KiB to 1 MiB, and where caches end */
  assert_true(estimate.knots[0].bytes == 1024 && estimate.knots[12].bytes == 1 << 20);
  tdm_context_release(context);
  context = make_context(NULL);
  const tdm_link_estimate read = upload_of(context);
  assert_same(&read, &estimate);
  assert_status(tdm_links_save(context, links_folder(), false), TDM_IO); /* a folder is no file */
  assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
  assert_status(tdm_links_save(context, path_of("pipe"), false), TDM_IO);
  struct stat about;
  assert_int_equal(stat(path_of("pipe"), &about), 0);
  assert_true(S_ISFIFO(about.st_mode)); /* the pipe was not replaced */
  assert_int_equal(unlink(path_of("pipe")), 0);
  tdm_context_release(context);
  (void)unsetenv("TANDEM_STAGING_BYTES");
  (void)unsetenv("TANDEM_LINKS");
}

int main(void) {
  if (!make_links_folder()) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_saved_is_loaded_by_the_next_context),
      cmocka_unit_test(a_file_is_written_as_it_was_read),
      cmocka_unit_test(another_machines_file_is_not_used),
      cmocka_unit_test(a_machine_is_the_same_in_any_locale),
      cmocka_unit_test(fewer_cores_are_another_machine),
      cmocka_unit_test(links_of_an_accelerator_with_cores_are_found_again),
      cmocka_unit_test(cores_that_are_divided_anew_forget_links),
      cmocka_unit_test(the_folder_is_found),
      cmocka_unit_test(calibrating_keeps_what_it_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
