/* Links before and after calibration: first the model, then this machine. A failed calibration
 * changes nothing. Only one property of times is checked, which holds on any machine: a modelled
 * copy is not faster than its model. */
#include <stdlib.h>
#include <string.h>

#include "core/thread.h"
#include "devices/staging/pool.h"
#include "tests/devices/links/count.h"
#include "tests/devices/support.h"
#include "tests/options.h"

enum { KIBIBYTE = 1024, QUICK = 256 * KIBIBYTE, SMALL = 2 * KIBIBYTE, COPIES = 15 };

static const char slow_link[] = "latency_us=300,gigabytes_per_second=0.5";
static tdm_link_estimate estimate_of(tdm_context *context, const char *from, const char *to,
                                     bool pinned) {
  tdm_link_estimate estimate;
  tdm_context_link(context, test_device(context, from), test_device(context, to), pinned,
                   &estimate);
  return estimate;
}

static void before_calibrating_the_model_answers(void **state) {
  (void)state;
  tdm_context *context = test_context(slow_link);
  const char *const pairs[][2] = {{"cpu:0", "sim:0"}, {"sim:1", "cpu:1"}, {"sim:0", "sim:1"}};
  for (size_t i = 0; i < TDM_COUNT_OF(pairs); i++) {
    const tdm_link_estimate estimate = estimate_of(context, pairs[i][0], pairs[i][1], i == 0);
    assert_int_equal(estimate.origin, TDM_LINK_MODELLED);
    assert_string_equal(tdm_link_origin_name(estimate.origin), "modelled");
    assert_true(estimate.link.latency_ns == 300e3);
    assert_true(estimate.link.bytes_per_ns == 0.5);
    assert_true(tdm_link_predict_ns(&estimate, 1000) == 300e3 + 2000);
  }
  const tdm_link_estimate host = estimate_of(context, "cpu:0", "cpu:1", false);
  assert_true(tdm_link_predict_ns(&host, 1e9) == 0); /* no link is modelled there */
  tdm_context_release(context);
}

/* Checks the defaults that docs/environment.md lists. */
static void a_link_that_nobody_sets_is_modelled_all_the_same(void **state) {
  (void)state;
  (void)unsetenv("TANDEM_SIM");
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 2);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  const char *const pairs[][2] = {{"cpu:0", "sim:0"}, {"sim:1", "cpu:0"}, {"sim:0", "sim:1"}};
  for (size_t i = 0; i < TDM_COUNT_OF(pairs); i++) {
    const tdm_link_estimate estimate = estimate_of(context, pairs[i][0], pairs[i][1], false);
    assert_true(estimate.link.latency_ns == 5e3);
    assert_true(estimate.link.bytes_per_ns == 16);
  }
  tdm_context_release(context);
}

static void a_modelled_link_is_recovered(void **state) {
  (void)state;
  tdm_context *context = test_context(slow_link);
  assert_ok(tdm_links_calibrate(context, QUICK));
  /* cpu - cpu and sim - sim both ways, four crossing pairs both ways, pageable and pinned. */
  assert_int_equal(test_calibrated_links(context), 2 + 2 + 4 * 2 * 2);
  for (int kind = 0; kind < 4; kind++) {
    const bool pinned = kind % 2 == 1;
    const tdm_link_estimate estimate = kind < 2 ? estimate_of(context, "cpu:0", "sim:1", pinned)
                                                : estimate_of(context, "sim:1", "cpu:0", pinned);
    assert_int_equal(estimate.origin, TDM_LINK_CALIBRATED);
    assert_string_equal(tdm_link_origin_name(estimate.origin), "calibrated");
    assert_int_equal(estimate.knot_count, 9);
    assert_true(estimate.knots[0].bytes == KIBIBYTE);
    assert_true(estimate.knots[8].bytes == 256 * KIBIBYTE);
    for (int power = 0; power <= 8; power++) {
      const double bytes = (double)(KIBIBYTE << power);
      const double model = 300e3 + bytes / 0.5;
      const double predicted = tdm_link_predict_ns(&estimate, bytes);
      /* No copy was faster, and a neighbouring size's ratio is off by two at most. */
      assert_true(predicted >= 0.499 * model);
      assert_true(predicted <= 1000 * model);
    }
  }
  const tdm_link_estimate host = estimate_of(context, "cpu:0", "cpu:1", true);
  assert_int_equal(host.origin, TDM_LINK_CALIBRATED);
  assert_true(tdm_link_predict_ns(&host, 1e5) > 0);
  assert_true(tdm_link_predict_after_ns(&host, 1e5, 1e9, true) > 0);
  assert_true(host.far_bytes == QUICK);
  assert_true(estimate_of(context, "cpu:0", "sim:1", true).far_bytes == 0);
  tdm_context_release(context);
}

/* The ends of caches, also half way between two doublings. */
static void sizes_are_closer_where_caches_end(void **state) {
  (void)state;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 0);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  assert_ok(tdm_links_calibrate(context, 1024 * KIBIBYTE));
  const tdm_link_estimate estimate = estimate_of(context, "cpu:0", "cpu:1", false);
  const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 768, 1024};
  assert_int_equal(estimate.knot_count, TDM_COUNT_OF(sizes));
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++)
    assert_true(estimate.knots[i].bytes == sizes[i] * KIBIBYTE);
  tdm_context_release(context);
}

/* Creates a context with one device of each kind, so with four links. */
static tdm_context *small_context(void) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

/* Returns the number of commands of that kind in a calibration of small sizes. */
static uint64_t count_struck(tdm_context *context, tdm_fault_site site, size_t most_bytes) {
  tdm_faults *faults = tdm_context_faults(context);
  tdm_faults_arm(faults, site, UINT64_MAX, false);
  assert_ok(tdm_links_calibrate(context, most_bytes));
  const uint64_t count = atomic_load(&faults->calls[site]);
  tdm_faults_arm(faults, site, 0, false);
  return count;
}

/* Calibrates the link between the host and a device whose memory the host cannot access: copies of
 * two sizes in both directions, with pageable and with pinned memory. Two more copies write the
 * device's memory before it is read. */
static void memory_is_written_before_it_is_read(void **state) {
  (void)state;
  tdm_context *context = small_context();
  assert_int_equal(count_struck(context, TDM_FAULT_COPY, SMALL), 2 * COPIES * 2 * 2 + 2);
  tdm_context_release(context);
}

/* Calibrates the link between two devices of the host. Near: the target is read and the source is
 * written. Far: other memory is accessed in between. Stale: also after the source. Sizes of at
 * least half of that memory have only the first state. */
static void each_state_touches_other_memory(void **state) {
  (void)state;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 0);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  const uint64_t directions = 2, near = 2 * COPIES, others = 2 * 5; /* copies of 1 and 2 KiB */
  assert_int_equal(count_struck(context, TDM_FAULT_COPY, 8 * KIBIBYTE),
                   directions * (near + 2 * others + 2 * COPIES));
  assert_int_equal(count_struck(context, TDM_FAULT_KERNEL, 8 * KIBIBYTE),
                   directions * (2 * near + (3 + 4) * others + 2 * 2 * COPIES));
  tdm_context_release(context);
}

static _Atomic int borrows;

static bool count_borrow(tdm_queue *queue) {
  (void)queue;
  (void)atomic_fetch_add(&borrows, 1);
  return false;
}

/* Copies of plans find the worker at its queue; so do these. */
static void no_queue_is_borrowed_for_a_copy(void **state) {
  (void)state;
  tdm_context *context = small_context();
  tdm_device *devices[] = {test_device(context, "cpu:0"), test_device(context, "sim:0")};
  const tdm_device_ops *before[2];
  tdm_device_ops counting[2];
  assert_ok(tdm_context_start(context));
  for (size_t i = 0; i < 2; i++) {
    before[i] = devices[i]->ops;
    counting[i] = *before[i];
    counting[i].borrow = count_borrow;
    devices[i]->ops = &counting[i];
  }
  assert_ok(tdm_links_calibrate(context, SMALL));
  for (size_t i = 0; i < 2; i++)
    devices[i]->ops = before[i];
  assert_int_equal(atomic_load(&borrows), 0);
  tdm_context_release(context);
}

/* Without a sim device its cores are not divided anew, and links keep their estimates. */
static void asking_for_no_simulator_forgets_nothing(void **state) {
  (void)state;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 0);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  *tdm_links_at(tdm_context_links(context), test_device(context, "cpu:0"),
                test_device(context, "cpu:1"), false) =
      (tdm_link_estimate){.link = {7, 3}, .origin = TDM_LINK_CALIBRATED};
  assert_string_equal(tdm_simulator(context), "sim:0");
  assert_false(tdm_context_divide_cores(context, true));
  assert_int_equal(estimate_of(context, "cpu:0", "cpu:1", false).origin, TDM_LINK_CALIBRATED);
  assert_int_equal(estimate_of(context, "cpu:1", "cpu:0", false).origin, TDM_LINK_MODELLED);
  tdm_context_release(context);
}

static void assert_all_modelled(tdm_context *context) {
  const size_t count = tdm_device_count(context);
  for (size_t i = 0; i < 2 * count * count; i++) {
    tdm_link_estimate estimate;
    tdm_context_link(context, tdm_context_device(context, i / 2 / count),
                     tdm_context_device(context, i / 2 % count), i % 2 == 1, &estimate);
    assert_int_equal(estimate.origin, TDM_LINK_MODELLED);
  }
}

static void a_failed_copy_changes_nothing(void **state) {
  (void)state;
  tdm_context *context = small_context();
  tdm_faults *faults = tdm_context_faults(context);
  for (uint64_t n = 1; n < 400; n += 3) {
    tdm_faults_arm(faults, TDM_FAULT_COPY, n, false);
    const tdm_status status = tdm_links_calibrate(context, SMALL);
    if (status == TDM_OK) break;
    assert_message("calibrating the link from");
    assert_message("injected failure of copy");
    assert_all_modelled(context);
    assert_true(n < 390);
  }
  assert_int_equal(test_calibrated_links(context), 4);
  tdm_faults_arm(faults, TDM_FAULT_COPY, 0, false);
  tdm_context_release(context);
}

static void a_failed_allocation_changes_nothing(void **state) {
  (void)state;
  tdm_context *context = small_context();
  uint64_t n = 0;
  tdm_status status;
  do {
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, ++n, false);
    status = tdm_links_calibrate(context, SMALL);
    if (status != TDM_OK) {
      assert_message("injected failure of allocation");
      assert_all_modelled(context);
    }
  } while (status != TDM_OK && n < 100);
  assert_in_range(n, 7, 99);
  assert_int_equal(test_calibrated_links(context), 4);
  tdm_context_release(context);
}

static void pinned_links_keep_below_the_cap(void **state) {
  (void)state;
  (void)setenv("TANDEM_STAGING_BYTES", "16384", 1);
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_links_calibrate(context, QUICK));
  assert_int_equal(test_calibrated_links(context), 20);
  tdm_link_estimate estimate = estimate_of(context, "cpu:0", "sim:0", true);
  assert_int_equal(estimate.knot_count, 5); /* 1 to 16 KiB */
  assert_int_equal(estimate_of(context, "cpu:0", "sim:0", false).knot_count, 9);
  tdm_pool_counters counters;
  tdm_pool_counters_read(tdm_context_pool(context), &counters);
  assert_true(counters.peak_bytes <= 16384);
  tdm_context_release(context);

  (void)setenv("TANDEM_STAGING_BYTES", "100", 1); /* less than a page */
  context = test_context(NULL);
  assert_ok(tdm_links_calibrate(context, QUICK));
  assert_int_equal(test_calibrated_links(context), 12);
  estimate = estimate_of(context, "cpu:0", "sim:0", true);
  assert_int_equal(estimate.origin, TDM_LINK_MODELLED); /* not reported as measured */
  (void)unsetenv("TANDEM_STAGING_BYTES");
  tdm_context_release(context);
}

typedef struct reader {
  tdm_context *context;
  _Atomic bool stop;
  _Atomic uint32_t torn;
} reader;

/* An estimate is modelled as a whole or calibrated as a whole. */
static void *read_links(void *user) {
  reader *reading = user;
  const tdm_device *from = tdm_context_device(reading->context, 0);
  const tdm_device *to = tdm_context_device(reading->context, 1);
  while (!atomic_load(&reading->stop)) {
    tdm_link_estimate estimate;
    tdm_context_link(reading->context, from, to, true, &estimate);
    const bool measured = estimate.origin == TDM_LINK_CALIBRATED;
    if (measured != (estimate.knot_count > 0)) (void)atomic_fetch_add(&reading->torn, 1);
  }
  return NULL;
}

static void links_are_read_while_they_change(void **state) {
  (void)state;
  tdm_context *context = small_context();
  reader reading = {.context = context};
  pthread_t thread;
  assert_ok(tdm_thread_start(&thread, "reader", read_links, &reading));
  for (size_t i = 0; i < 3; i++)
    assert_ok(tdm_links_calibrate(context, SMALL));
  atomic_store(&reading.stop, true);
  (void)pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&reading.torn), 0);
  tdm_context_release(context);
}

int main(void) {
  (void)setenv("TANDEM_LINKS", "off", 1); /* no file */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(before_calibrating_the_model_answers),
      cmocka_unit_test(a_link_that_nobody_sets_is_modelled_all_the_same),
      cmocka_unit_test(a_modelled_link_is_recovered),
      cmocka_unit_test(sizes_are_closer_where_caches_end),
      cmocka_unit_test(memory_is_written_before_it_is_read),
      cmocka_unit_test(each_state_touches_other_memory),
      cmocka_unit_test(no_queue_is_borrowed_for_a_copy),
      cmocka_unit_test(asking_for_no_simulator_forgets_nothing),
      cmocka_unit_test(a_failed_copy_changes_nothing),
      cmocka_unit_test(a_failed_allocation_changes_nothing),
      cmocka_unit_test(pinned_links_keep_below_the_cap),
      cmocka_unit_test(links_are_read_while_they_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
