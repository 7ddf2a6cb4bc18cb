/* Out of memory while an accelerator with separate cores is requested: links remain modelled, and
 * the log has the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/links/table.h"
#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

typedef struct log_record {
  int count;
  char last[TDM_MESSAGE_BYTES];
} log_record;

static void record_log(void *user, tdm_log_level level, const char *text) {
  log_record *record = user;
  if (level != TDM_LOG_WARNING || !strstr(text, "links")) return;
  record->count++;
  (void)snprintf(record->last, sizeof record->last, "%s", text);
}

static const char *write_links(void) {
  static char path[512];
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path, sizeof path, "%s/links.json", folder ? folder : "/tmp");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fputs("{}", file) < 0, 0);
  assert_int_equal(fclose(file), 0);
  return path;
}

static void links_stay_modelled_and_the_log_says_why(void **state) {
  (void)state;
  (void)setenv("HWLOC_XMLFILE", "tests/devices/machines/hbm_alone.xml", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  (void)setenv("TANDEM_LINKS", write_links(), 1);
  uint64_t n = 0;
  bool failed = true;
  while (failed) {
    tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
    const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
    log_record record = {0};
    const tdm_context_options options =
        OPTIONS(tdm_context_options, o.allocator = &allocator, o.log = record_log,
                o.log_user = &record, o.cpu_devices = 1);
    tdm_context *context = tdm_context_create(&options);
    assert_non_null(context);
    assert_int_equal(record.count, 1); /* the file is of no machine */
    tdm_faulty_allocator_arm(faulty, ++n, false);
    assert_string_equal(tdm_simulator(context), "sim:0");
    failed = tdm_faulty_allocator_failures(faulty) > 0;
    tdm_faulty_allocator_arm(faulty, 0, false);
    assert_int_equal(record.count, 2);
    assert_non_null(strstr(record.last, "links are modelled, not calibrated: "));
    assert_int_equal(strstr(record.last, "out of memory") != NULL, failed);
    tdm_link_estimate estimate;
    tdm_context_link(context, test_device(context, "cpu:0"), test_device(context, "sim:0"), true,
                     &estimate);
    assert_int_equal(estimate.origin, TDM_LINK_MODELLED);
    tdm_context_release(context);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
    tdm_faulty_allocator_destroy(faulty);
  }
  assert_true(n > 1);
  (void)unsetenv("TANDEM_LINKS");
  (void)unsetenv("HWLOC_THISSYSTEM");
  (void)unsetenv("HWLOC_XMLFILE");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(links_stay_modelled_and_the_log_says_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
