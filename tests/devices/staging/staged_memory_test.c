/* Memory of a device or of the staging pool: what comes back says which, whatever it held before,
 * also where the pool is full. */
#include "devices/staging/staged_memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/devices/support.h"

enum { BYTES = 4096, KINDS = 3 };

static void log_nothing(void *user, tdm_log_level level, const char *text) {
  (void)user;
  (void)level;
  (void)text;
}

/* Its own, staged, and its own as the pool has no room: each in turn where another one was. */
static void what_memory_held_before_is_forgotten(void **state) {
  (void)state;
  (void)setenv("TANDEM_STAGING_BYTES", "8192", 1);
  const tdm_context_options options = {
      .struct_size = sizeof(options), .log = log_nothing, .cpu_devices = 1, .sim_devices = 1};
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  (void)unsetenv("TANDEM_STAGING_BYTES");
  tdm_device *host = test_device(context, "cpu:0");
  tdm_device *sim = test_device(context, "sim:0");
  const struct {
    tdm_device *partner;
    size_t bytes;
    bool staged;
  } kinds[KINDS] = {{NULL, BYTES, false}, {sim, BYTES, true}, {sim, 4 * BYTES, false}};
  for (size_t i = 0; i < KINDS; i++) {
    tdm_memory memory;
    memset(&memory, 0xa5, sizeof(memory));
    assert_status(tdm_fail(TDM_IO, "an earlier failure"), TDM_IO);
    assert_ok(tdm_memory_take(host, kinds[i].partner, kinds[i].bytes, &memory));
    assert_string_equal(tdm_last_message(), "an earlier failure"); /* there was none since */
    assert_ptr_equal(memory.device, host);
    assert_true(memory.bytes >= kinds[i].bytes);
    assert_int_equal(memory.staging != NULL, kinds[i].staged);
    assert_int_equal(tdm_memory_is_pinned(&memory), kinds[i].staged);
    memset((void *)memory.address, 1, kinds[i].bytes);
    tdm_memory_give_back(&memory);
    assert_null(memory.device);
    memset(&memory, 0xa5, sizeof(memory));
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
    assert_status(tdm_memory_take(host, kinds[i].partner, kinds[i].bytes, &memory),
                  TDM_OUT_OF_MEMORY);
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
    assert_null(memory.device); /* so giving it back does nothing */
    tdm_memory_give_back(&memory);
  }
  tdm_context_release(context);
}

/* Where the pool has room, and the host has none for its lists, that is a failure; no device's own
 * memory stands in for it. */
static void short_memory_is_no_full_pool(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  (void)setenv("TANDEM_STAGING_BYTES", "8192", 1);
  const tdm_context_options options = {.struct_size = sizeof(options),
                                       .allocator = &allocator,
                                       .log = log_nothing,
                                       .cpu_devices = 1,
                                       .sim_devices = 1};
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  (void)unsetenv("TANDEM_STAGING_BYTES");
  tdm_device *host = test_device(context, "cpu:0");
  tdm_device *sim = test_device(context, "sim:0");
  tdm_memory memory, full;
  assert_ok(tdm_memory_take(host, sim, 4 * BYTES, &full)); /* more than the pool has */
  assert_null(full.staging);
  uint64_t n = 0;
  for (bool failed = true; failed;) {
    tdm_faulty_allocator_arm(faulty, ++n, false);
    const tdm_status status = tdm_memory_take(host, sim, 2 * BYTES, &memory);
    failed = tdm_faulty_allocator_failures(faulty) > 0;
    tdm_faulty_allocator_arm(faulty, 0, false);
    assert_int_equal(status, failed ? TDM_OUT_OF_MEMORY : TDM_OK);
    assert_int_equal(memory.staging != NULL, !failed);
  }
  assert_true(n > 1);
  tdm_memory second; /* of a pool that is full to the byte */
  assert_ok(tdm_memory_take(host, sim, 1, &second));
  assert_null(second.staging);
  tdm_memory_give_back(&second);
  tdm_memory_give_back(&memory);
  tdm_memory_give_back(&full);
  tdm_context_release(context);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_memory_held_before_is_forgotten),
      cmocka_unit_test(short_memory_is_no_full_pool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
