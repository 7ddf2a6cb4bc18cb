/* The staging pool's sizes, its limit, its refusals, and their messages. Other tests check
 * placement and threads. */
#include "tests/devices/staging/pool_support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, MEBIBYTE = 1 << 20 };

typedef struct log_record {
  int count;
  char last[TDM_MESSAGE_BYTES];
} log_record;

static void record_log(void *user, tdm_log_level level, const char *text) {
  log_record *record = user;
  assert_int_equal(level, TDM_LOG_WARNING);
  record->count++;
  (void)snprintf(record->last, sizeof record->last, "%s", text);
}

static tdm_context *logging_context(log_record *record) {
  *record = (log_record){0};
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.log = record_log, o.log_user = record);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void exact_sizes_waste_at_most_a_page(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *device = test_device(context, "sim:0");
  tdm_pool *exact = test_pool(context, &(tdm_staging_pool_options){.exact = true});
  tdm_pool *classes = test_pool(context, NULL);
  for (size_t bytes = 0; bytes < 3 * MEBIBYTE; bytes += 1 + bytes / 7) {
    tdm_staging *staging = NULL;
    assert_ok(tdm_pool_take(exact, device, bytes, &staging));
    assert_true(staging->bytes >= bytes && staging->bytes - bytes <= PAGE);
    assert_int_equal((uintptr_t)staging->memory % PAGE, 0);
    memset(staging->memory, 0x5a, staging->bytes);
    tdm_pool_give_back(exact, staging, NULL, 0);
    assert_ok(tdm_pool_take(classes, device, bytes, &staging));
    assert_true(staging->bytes >= bytes && staging->bytes <= bytes + bytes / 4 + PAGE);
    memset(staging->memory, 0x5a, staging->bytes);
    tdm_pool_give_back(classes, staging, NULL, 0);
  }
  /* Classes are few, so that buffers are found again. */
  assert_true(test_counters(classes).made < 4 * 12);
  assert_true(test_counters(exact).made > test_counters(classes).made);
  tdm_pool_destroy(exact);
  tdm_pool_destroy(classes);
  tdm_context_release(context);
}

static void a_buffer_is_reused_for_its_device_alone(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_pool *pool = test_pool(context, NULL);
  tdm_staging *first = NULL;
  tdm_staging *second = NULL;
  assert_ok(tdm_pool_take(pool, test_device(context, "sim:0"), 5000, &first));
  tdm_pool_give_back(pool, first, NULL, 0);
  assert_ok(tdm_pool_take(pool, test_device(context, "sim:1"), 5000, &second));
  assert_ptr_not_equal(first, second);
  assert_ok(tdm_pool_take(pool, test_device(context, "sim:0"), 5000, &second));
  assert_ptr_equal(first, second);
  const tdm_pool_counters counters = test_counters(pool);
  assert_int_equal(counters.taken, 3);
  assert_int_equal(counters.made, 2);
  assert_int_equal(counters.reused, 1);
  assert_int_equal(counters.released, 0);
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

static void pinned_ranges_are_known(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *sim = test_device(context, "sim:0");
  tdm_device *cpu = test_device(context, "cpu:0");
  tdm_pool *pool = tdm_context_pool(context);
  tdm_staging *staging = NULL;
  assert_ok(tdm_pool_take(pool, sim, 3 * PAGE, &staging));
  char *memory = staging->memory;
  assert_true(staging->pinned);
  assert_true(tdm_pool_is_pinned(pool, sim, memory, staging->bytes));
  assert_true(tdm_pool_is_pinned(pool, sim, memory + 100, 1));
  assert_false(tdm_pool_is_pinned(pool, sim, memory, staging->bytes + 1));
  assert_false(tdm_pool_is_pinned(pool, sim, memory - 1, 2));
  assert_false(tdm_pool_is_pinned(pool, sim, &staging, 1));
  assert_false(tdm_pool_is_pinned(pool, cpu, memory, 1)); /* not pinned by this kind's driver */
  tdm_pool_give_back(pool, staging, NULL, 0);

  assert_ok(tdm_pool_take(pool, cpu, 3 * PAGE, &staging));
  assert_false(staging->pinned);
  assert_int_equal(test_counters(pool).refused_pins, 0); /* no pin was requested */
  tdm_pool_give_back(pool, staging, NULL, 0);
  tdm_context_release(context);
}

static void a_sim_keeps_a_drivers_rules_of_pinning(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *sim = test_device(context, "sim:0");
  tdm_device *cpu = test_device(context, "cpu:0");
  static char memory[4 * PAGE];
  assert_ok(sim->ops->pin(sim, memory, 2 * PAGE));
  assert_status(sim->ops->pin(sim, memory + PAGE, 2 * PAGE), TDM_INVALID_ARGUMENT);
  assert_status(sim->ops->unpin(sim, memory, PAGE), TDM_INVALID_ARGUMENT);
  assert_status(sim->ops->unpin(sim, memory + 2 * PAGE, PAGE), TDM_INVALID_ARGUMENT);
  assert_message("not pinned for sim:0");
  assert_ok(sim->ops->unpin(sim, memory, 2 * PAGE));
  assert_status(sim->ops->unpin(sim, memory, 2 * PAGE), TDM_INVALID_ARGUMENT);
  assert_status(sim->ops->pin(sim, NULL, PAGE), TDM_INVALID_ARGUMENT);
  assert_status(cpu->ops->pin(cpu, memory, PAGE), TDM_UNSUPPORTED);
  assert_status(cpu->ops->unpin(cpu, memory, PAGE), TDM_INVALID_ARGUMENT);
  tdm_context_release(context);
}

/* ---- The cap --------------------------------------------------------------------------------- */

static void the_cap_holds(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *sim = test_device(context, "sim:0");
  tdm_pool *pool =
      test_pool(context, &(tdm_staging_pool_options){.cap_bytes = 8 * PAGE, .exact = true});
  tdm_staging *staging[8] = {NULL};
  for (size_t i = 0; i < 8; i++)
    assert_ok(tdm_pool_take(pool, sim, PAGE, &staging[i]));
  tdm_staging *more = staging[0];
  assert_status(tdm_pool_take(pool, sim, 1, &more), TDM_OUT_OF_MEMORY);
  assert_null(more);
  assert_message("the cap is 32768 bytes and 32768 are in use");
  assert_status(tdm_pool_try_take(pool, sim, 1, &more), TDM_OUT_OF_MEMORY);
  /* Kept ones of another size make room; no more of them than needed. */
  for (size_t i = 0; i < 4; i++)
    tdm_pool_give_back(pool, staging[i], NULL, 0);
  assert_ok(tdm_pool_take(pool, sim, 3 * PAGE, &more));
  assert_int_equal(test_counters(pool).released, 3);
  assert_int_equal(test_counters(pool).bytes, 8 * PAGE);
  assert_int_equal(test_counters(pool).peak_bytes, 8 * PAGE);
  assert_int_equal(test_counters(pool).waited, 0);
  tdm_pool_give_back(pool, more, NULL, 0);
  assert_status(tdm_pool_take(pool, sim, 9 * PAGE, &more), TDM_OUT_OF_MEMORY);
  assert_status(tdm_pool_take(pool, sim, SIZE_MAX, &more), TDM_OUT_OF_MEMORY);
  tdm_pool_destroy(pool);
  tdm_context_release(context);
}

static void the_environment_sets_the_cap(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_pool *pool = test_pool(context, NULL);
  assert_true(test_counters(pool).cap_bytes > MEBIBYTE);
  tdm_pool_destroy(pool);
  (void)setenv("TANDEM_STAGING_BYTES", "40960", 1);
  pool = test_pool(context, NULL);
  assert_int_equal(test_counters(pool).cap_bytes, 40960);
  tdm_pool_destroy(pool);
  pool = test_pool(context, &(tdm_staging_pool_options){.cap_bytes = 5000});
  assert_int_equal(test_counters(pool).cap_bytes, 5000); /* a requested limit takes precedence */
  tdm_pool_destroy(pool);
  (void)setenv("TANDEM_STAGING_BYTES", "4 MiB", 1);
  assert_status(tdm_pool_create(context, NULL, &pool), TDM_INVALID_ARGUMENT);
  assert_null(pool);
  assert_message("TANDEM_STAGING_BYTES");
  assert_null(tdm_context_create(NULL)); /* reported at once, not with the first transfer */
  assert_message("TANDEM_STAGING_BYTES");
  (void)unsetenv("TANDEM_STAGING_BYTES");
  tdm_context_release(context);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refused_pins_are_told_once(void **state) {
  (void)state;
  log_record record;
  tdm_context *context = logging_context(&record);
  test_system system = {.reported = TEST_TRUTH};
  const tdm_pool_system doubles = test_system_of(&system);
  test_pinner pinner;
  test_pinner_init(&pinner, context);
  pinner.answer = TDM_OUT_OF_MEMORY;
  tdm_pool *pool = test_pool(context, &(tdm_staging_pool_options){.system = &doubles});
  tdm_staging *staging[3] = {NULL};
  for (size_t i = 0; i < 3; i++) {
    assert_ok(tdm_pool_take(pool, &pinner.device, PAGE, &staging[i]));
    assert_false(staging[i]->pinned);
    assert_int_equal(staging[i]->node, pinner.device.node);
    assert_false(tdm_pool_is_pinned(pool, &pinner.device, staging[i]->memory, 1));
  }
  assert_int_equal(test_counters(pool).refused_pins, 3);
  assert_int_equal(record.count, 1);
  assert_non_null(strstr(record.last, "pageable"));
  assert_non_null(strstr(record.last, "the driver will not"));
  assert_non_null(strstr(record.last, "pinner:0"));
  tdm_pool_destroy(pool);
  assert_int_equal(system.mapped_bytes, 0);

  pinner.answer = TDM_OK;
  pool = test_pool(context, &(tdm_staging_pool_options){.system = &doubles});
  assert_ok(tdm_pool_take(pool, &pinner.device, PAGE, &staging[0]));
  assert_true(staging[0]->pinned);
  assert_int_equal(pinner.pinned_bytes, PAGE);
  tdm_pool_destroy(pool);
  assert_int_equal(pinner.pinned_bytes, 0);
  assert_int_equal(record.count, 1);
  tdm_context_release(context);
}

static void refused_binds_are_told_once(void **state) {
  (void)state;
  log_record record;
  tdm_context *context = logging_context(&record);
  test_system system = {.reported = 5, .refuses_binds = true};
  const tdm_pool_system doubles = test_system_of(&system);
  test_pinner pinner;
  test_pinner_init(&pinner, context);
  tdm_pool *pool = test_pool(context, &(tdm_staging_pool_options){.system = &doubles});
  tdm_staging *staging = NULL;
  for (size_t i = 0; i < 3; i++) {
    assert_ok(tdm_pool_take(pool, &pinner.device, PAGE, &staging));
    assert_true(staging->pinned);
    assert_int_equal(staging->node, 5); /* the actual node, not the requested one */
    assert_int_equal(system.asked, 3);
  }
  assert_int_equal(test_counters(pool).refused_binds, 3);
  assert_int_equal(test_counters(pool).misplaced, 0);
  assert_int_equal(record.count, 1);
  assert_non_null(strstr(record.last, "not bound to NUMA node 3"));
  /* With an unknown node there is nothing to refuse. */
  pinner.device.node = TDM_NODE_UNKNOWN;
  assert_ok(tdm_pool_take(pool, &pinner.device, 7 * PAGE, &staging));
  assert_int_equal(test_counters(pool).refused_binds, 3);
  tdm_pool_destroy(pool);
  assert_int_equal(system.mapped_bytes, 0);
  tdm_context_release(context);
}

static void memory_that_is_short_is_an_error(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  test_system system = {.reported = TEST_TRUTH, .refuses_maps = true};
  const tdm_pool_system doubles = test_system_of(&system);
  tdm_pool *pool =
      test_pool(context, &(tdm_staging_pool_options){.system = &doubles, .cap_bytes = 4 * PAGE});
  tdm_staging *staging = NULL;
  assert_status(tdm_pool_take(pool, test_device(context, "sim:0"), PAGE, &staging),
                TDM_OUT_OF_MEMORY);
  assert_null(staging);
  assert_int_equal(test_counters(pool).bytes, 0); /* failed allocations are not counted */
  assert_int_equal(test_counters(pool).released, 0);
  system.refuses_maps = false;
  system.reported = 0;
  assert_ok(tdm_pool_take(pool, test_device(context, "cpu:0"), 4 * PAGE, &staging));
  tdm_pool_destroy(pool);
  assert_int_equal(system.mapped_bytes, 0);
  tdm_context_release(context);
}

static void every_failed_allocation_is_survived(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options = OPTIONS(tdm_context_options, o.allocator = &allocator);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  tdm_device *sim = test_device(context, "sim:0");
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(faulty);
  uint64_t n = 0;
  do {
    tdm_faulty_allocator_arm(faulty, ++n, false);
    tdm_pool *pool = NULL;
    tdm_staging *staging = NULL;
    tdm_status status = tdm_pool_create(context, NULL, &pool);
    if (status == TDM_OK) status = tdm_pool_take(pool, sim, PAGE, &staging);
    if (status == TDM_OK) status = tdm_pool_take(pool, sim, 2 * PAGE, &staging);
    const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
    /* A driver without memory refuses to pin, which is no error but is reported. */
    const bool refused = pool && test_counters(pool).refused_pins > 0;
    assert_true(failed == (status != TDM_OK || refused));
    assert_true(status == TDM_OK || !staging);
    tdm_pool_destroy(pool);
    if (!failed) break;
  } while (n < 100);
  assert_in_range(n, 4, 99);
  tdm_faulty_allocator_arm(faulty, 0, false);
  /* The list of pins may have grown; it belongs to the device. */
  assert_true(tdm_faulty_allocator_outstanding_bytes(faulty) - before < PAGE);
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_sizes_waste_at_most_a_page),
      cmocka_unit_test(a_buffer_is_reused_for_its_device_alone),
      cmocka_unit_test(pinned_ranges_are_known),
      cmocka_unit_test(a_sim_keeps_a_drivers_rules_of_pinning),
      cmocka_unit_test(the_cap_holds),
      cmocka_unit_test(the_environment_sets_the_cap),
      cmocka_unit_test(refused_pins_are_told_once),
      cmocka_unit_test(refused_binds_are_told_once),
      cmocka_unit_test(memory_that_is_short_is_an_error),
      cmocka_unit_test(every_failed_allocation_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
