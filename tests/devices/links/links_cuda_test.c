/* Calibrates emulated GPUs: every link, with pinned memory for pinned links, and every call of CUDA
 * failing in turn. Times of an emulation mean nothing, so only counts are checked. */
#include <stdlib.h>
#include <string.h>

#include "devices/staging/pool.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/links/count.h"
#include "tests/devices/support.h"
#include "tests/options.h"

enum { MOST_BYTES = 4096 };

static tdm_context *make_context(void) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static tdm_link_origin origin_of(tdm_context *context, const char *from, const char *to,
                                 bool pinned) {
  tdm_link_estimate estimate;
  tdm_context_link(context, test_device(context, from), test_device(context, to), pinned,
                   &estimate);
  return estimate.origin;
}

static void every_link_is_calibrated(void **state) {
  (void)state;
  tdm_context *context = make_context();
  const emulation_copies before = emulation_copies_made();
  assert_ok(tdm_links_calibrate(context, MOST_BYTES));
  /* Between the host and three discrete devices, both ways, pageable and pinned; between the GPUs
   * both ways. From a GPU to the sim there is no direct route. */
  assert_int_equal(test_calibrated_links(context), 3 * 2 * 2 + 2);
  assert_int_equal(origin_of(context, "cpu:0", "cuda:1", true), TDM_LINK_CALIBRATED);
  assert_int_equal(origin_of(context, "cuda:0", "cpu:0", false), TDM_LINK_CALIBRATED);
  assert_int_equal(origin_of(context, "cuda:0", "cuda:1", false), TDM_LINK_CALIBRATED);
  assert_int_equal(origin_of(context, "cuda:0", "sim:0", false), TDM_LINK_MODELLED);
  const emulation_copies after = emulation_copies_made();
  assert_true(after.pinned - before.pinned >= 2 * 2 * 3 * 5); /* sizes, copies, ways, GPUs */
  assert_int_equal(after.pageable - before.pageable, 0);      /* they went through the pool */
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
}

static void every_failed_call_is_survived(void **state) {
  (void)state;
  size_t failures = 0;
  for (uint64_t n = 1; n < 4000; n += 1 + n / 8) {
    tdm_context *context = make_context();
    emulation_fail_at(n, EMULATED_LOST, false);
    const tdm_status status = tdm_links_calibrate(context, MOST_BYTES);
    emulation_fail_at(0, EMULATED_LOST, false);
    if (status != TDM_OK) {
      failures++;
      assert_int_equal(test_calibrated_links(context), 0);
      assert_message("calibrating the link from");
      assert_int_equal(origin_of(context, "cpu:0", "cuda:0", false), TDM_LINK_MODELLED);
    }
    tdm_context_release(context);
    assert_int_equal(emulation_outstanding(), 0);
  }
  assert_true(failures > 10);
}

static void what_cannot_be_pinned_stays_modelled(void **state) {
  (void)state;
  (void)setenv("TANDEM_STAGING_BYTES", "100", 1); /* no room for a page */
  tdm_context *context = make_context();
  const tdm_status status = tdm_links_calibrate(context, MOST_BYTES);
  assert_int_equal(origin_of(context, "cpu:0", "cuda:0", true), TDM_LINK_MODELLED);
  /* Pageable copies of a GPU need staging as well. */
  if (status == TDM_OK) assert_true(test_calibrated_links(context) <= 3 * 2 + 2);
  (void)unsetenv("TANDEM_STAGING_BYTES");
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
}

int main(void) {
  (void)setenv("TANDEM_LINKS", "off", 1); /* no file */
  emulation_set_driver(EMULATED_DRIVER, 2);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_link_is_calibrated),
      cmocka_unit_test(every_failed_call_is_survived),
      cmocka_unit_test(what_cannot_be_pinned_stays_modelled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
