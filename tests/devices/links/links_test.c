/* Links before and after calibration: first the model, then this machine. A failed calibration
 * changes nothing. Only one property of times is checked, which holds on any machine: a modelled
 * copy is not faster than its model. */
#include "devices/links/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/thread.h"
#include "devices/staging/pool.h"
#include "tests/devices/support.h"
#include "tests/options.h"

enum { KIBIBYTE = 1024 };

static const char slow_link[] = "latency_us=300,gigabytes_per_second=0.5";
static const tdm_links_calibration quick = {.least_bytes = KIBIBYTE,
                                            .most_bytes = 256 * KIBIBYTE,
                                            .copies = 5,
                                            .most_touched_bytes = 1024 * KIBIBYTE};

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

/* The defaults that docs/environment.md lists. */
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
  size_t known_count = 0;
  assert_ok(tdm_links_calibrate(context, &quick, &known_count));
  /* cpu - cpu and sim - sim both ways, four crossing pairs both ways, pageable and pinned. */
  assert_int_equal(known_count, 2 + 2 + 4 * 2 * 2);
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
  for (size_t i = 0; i < TDM_LINK_DISTANCES; i++)
    assert_true(host.distances[i] == (double)(1024 * KIBIBYTE >> (i == 2 ? 0 : i == 1 ? 2 : 5)));
  const tdm_link_estimate upload = estimate_of(context, "cpu:0", "sim:1", true);
  assert_true(upload.distances[TDM_LINK_DISTANCES - 1] == 0);
  tdm_context_release(context);
}

/* The ends of caches, also half way between two doublings. */
static void sizes_are_closer_where_caches_end(void **state) {
  (void)state;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 0);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  const tdm_links_calibration large = {.least_bytes = 128 * KIBIBYTE,
                                       .most_bytes = 1024 * KIBIBYTE,
                                       .copies = 5,
                                       .most_touched_bytes = 64 * KIBIBYTE};
  size_t known_count = 0;
  assert_ok(tdm_links_calibrate(context, &large, &known_count));
  const tdm_link_estimate estimate = estimate_of(context, "cpu:0", "cpu:1", false);
  const double sizes[] = {128, 256, 384, 512, 768, 1024};
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

/* Returns the number of commands per site of a calibration, none of which may be omitted for its
 * time. */
static uint64_t count_struck(tdm_context *context, tdm_fault_site site, uint32_t copies,
                             uint64_t budget_ns) {
  const tdm_links_calibration small = {.least_bytes = KIBIBYTE,
                                       .most_bytes = 2 * KIBIBYTE,
                                       .copies = copies,
                                       .budget_ns = budget_ns,
                                       .most_touched_bytes = 64 * KIBIBYTE};
  tdm_faults *faults = tdm_context_faults(context);
  size_t known_count = 0;
  tdm_faults_arm(faults, site, UINT64_MAX, false);
  assert_ok(tdm_links_calibrate(context, &small, &known_count));
  const uint64_t count = atomic_load(&faults->calls[site]);
  tdm_faults_arm(faults, site, 0, false);
  assert_int_equal(known_count, 2);
  return count;
}

/* Calibrates the link between the host and a device whose memory the host cannot access. Copies of
 * two sizes are made five times, in both directions, with pageable and with pinned memory. Two more
 * copies write the device's memory before it is read. */
static void what_is_read_was_written_before(void **state) {
  (void)state;
  tdm_context *context = small_context();
  const tdm_links_calibration small = {
      .least_bytes = KIBIBYTE, .most_bytes = 2 * KIBIBYTE, .copies = 5};
  tdm_faults *faults = tdm_context_faults(context);
  size_t known_count = 0;
  tdm_faults_arm(faults, TDM_FAULT_COPY, UINT64_MAX, false);
  assert_ok(tdm_links_calibrate(context, &small, &known_count));
  assert_int_equal(atomic_load(&faults->calls[TDM_FAULT_COPY]), 2 * 5 * 2 * 2 + 2);
  tdm_faults_arm(faults, TDM_FAULT_COPY, 0, false);
  tdm_context_release(context);
}

/* Calibrates the link between two devices of the host: two sizes, five copies in each state of the
 * caches. "Near": nothing else is accessed between copies. Two distances: other memory is accessed
 * between copies. "Stale": the source was not accessed for a while either. If time is left, further
 * copies are "near". */
static void each_state_touches_what_it_is_named_for(void **state) {
  (void)state;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 0);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  const uint64_t long_ns = UINT64_C(1000000000000);
  assert_int_equal(count_struck(context, TDM_FAULT_COPY, 5, 0), 2 * 2 * 5 * TDM_LINK_STATES);
  assert_int_equal(count_struck(context, TDM_FAULT_KERNEL, 5, 0), 2 * 2 * 5 * (2 + 3 + 3 + 4));
  assert_int_equal(count_struck(context, TDM_FAULT_COPY, 7, long_ns),
                   2 * 2 * (5 * TDM_LINK_STATES + 2));
  assert_int_equal(count_struck(context, TDM_FAULT_KERNEL, 7, long_ns),
                   2 * 2 * (5 * (2 + 3 + 3 + 4) + 2 * 2));
  assert_int_equal(count_struck(context, TDM_FAULT_COPY, 7, 1), 2 * 2 * 5 * TDM_LINK_STATES);
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
  const tdm_links_calibration small = {
      .least_bytes = KIBIBYTE, .most_bytes = 2 * KIBIBYTE, .copies = 5};
  size_t known_count = 0;
  assert_ok(tdm_context_start(context));
  for (size_t i = 0; i < 2; i++) {
    before[i] = devices[i]->ops;
    counting[i] = *before[i];
    counting[i].borrow = count_borrow;
    devices[i]->ops = &counting[i];
  }
  assert_ok(tdm_links_calibrate(context, &small, &known_count));
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
  tdm_link_set set;
  assert_ok(tdm_link_set_init(&set, tdm_context_links(context)));
  tdm_link_estimate *link =
      tdm_link_set_at(&set, test_device(context, "cpu:0"), test_device(context, "cpu:1"), false);
  *link = (tdm_link_estimate){.link = {7, 3}, .origin = TDM_LINK_CALIBRATED};
  tdm_link_set_publish(&set);
  tdm_link_set_deinit(&set);
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
  const tdm_links_calibration small = {
      .least_bytes = KIBIBYTE, .most_bytes = 2 * KIBIBYTE, .copies = 5};
  tdm_faults *faults = tdm_context_faults(context);
  size_t known_count = 7;
  for (uint64_t n = 1; n < 400; n += 3) {
    tdm_faults_arm(faults, TDM_FAULT_COPY, n, false);
    const tdm_status status = tdm_links_calibrate(context, &small, &known_count);
    if (status == TDM_OK) break;
    assert_int_equal(known_count, 0);
    assert_message("calibrating the link from");
    assert_message("injected failure of copy");
    assert_all_modelled(context);
    assert_true(n < 390);
  }
  assert_int_equal(known_count, 4);
  tdm_faults_arm(faults, TDM_FAULT_COPY, 0, false);
  tdm_context_release(context);
}

static void a_failed_allocation_changes_nothing(void **state) {
  (void)state;
  tdm_context *context = small_context();
  const tdm_links_calibration small = {
      .least_bytes = KIBIBYTE, .most_bytes = 2 * KIBIBYTE, .copies = 5};
  size_t known_count = 0;
  uint64_t n = 0;
  tdm_status status;
  do {
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, ++n, false);
    status = tdm_links_calibrate(context, &small, &known_count);
    if (status != TDM_OK) {
      assert_message("injected failure of allocation");
      assert_all_modelled(context);
    }
  } while (status != TDM_OK && n < 100);
  assert_in_range(n, 7, 99);
  assert_int_equal(known_count, 4);
  tdm_context_release(context);
}

static void pinned_links_keep_below_the_cap(void **state) {
  (void)state;
  (void)setenv("TANDEM_STAGING_BYTES", "16384", 1);
  tdm_context *context = test_context(NULL);
  size_t known_count = 0;
  assert_ok(tdm_links_calibrate(context, &quick, &known_count));
  assert_int_equal(known_count, 20);
  tdm_link_estimate estimate = estimate_of(context, "cpu:0", "sim:0", true);
  assert_int_equal(estimate.knot_count, 5); /* 1 to 16 KiB */
  assert_int_equal(estimate_of(context, "cpu:0", "sim:0", false).knot_count, 9);
  tdm_pool_counters counters;
  tdm_pool_counters_read(tdm_context_pool(context), &counters);
  assert_true(counters.peak_bytes <= 16384);
  tdm_context_release(context);

  (void)setenv("TANDEM_STAGING_BYTES", "100", 1); /* not even a page */
  context = test_context(NULL);
  assert_ok(tdm_links_calibrate(context, &quick, &known_count));
  assert_int_equal(known_count, 12);
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
  const tdm_links_calibration small = {
      .least_bytes = KIBIBYTE, .most_bytes = 2 * KIBIBYTE, .copies = 5};
  size_t known_count = 0;
  for (size_t i = 0; i < 3; i++)
    assert_ok(tdm_links_calibrate(context, &small, &known_count));
  atomic_store(&reading.stop, true);
  (void)pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&reading.torn), 0);
  tdm_context_release(context);
}

static void bad_options_are_refused(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  size_t known_count = 0;
  const tdm_links_calibration bad[] = {
      {.copies = 4}, {.copies = 65}, {.least_bytes = 4096, .most_bytes = 4096}};
  for (size_t i = 0; i < TDM_COUNT_OF(bad); i++) {
    assert_status(tdm_links_calibrate(context, &bad[i], &known_count), TDM_INVALID_ARGUMENT);
  }
  tdm_context_release(context);
  assert_status(tdm_context_calibrate(NULL, NULL), TDM_INVALID_ARGUMENT);
}

int main(void) {
  (void)setenv("TANDEM_LINKS", "off", 1); /* no file */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(before_calibrating_the_model_answers),
      cmocka_unit_test(a_link_that_nobody_sets_is_modelled_all_the_same),
      cmocka_unit_test(a_modelled_link_is_recovered),
      cmocka_unit_test(sizes_are_closer_where_caches_end),
      cmocka_unit_test(what_is_read_was_written_before),
      cmocka_unit_test(each_state_touches_what_it_is_named_for),
      cmocka_unit_test(no_queue_is_borrowed_for_a_copy),
      cmocka_unit_test(asking_for_no_simulator_forgets_nothing),
      cmocka_unit_test(a_failed_copy_changes_nothing),
      cmocka_unit_test(a_failed_allocation_changes_nothing),
      cmocka_unit_test(pinned_links_keep_below_the_cap),
      cmocka_unit_test(links_are_read_while_they_change),
      cmocka_unit_test(bad_options_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
