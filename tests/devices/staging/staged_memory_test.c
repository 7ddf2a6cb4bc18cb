/* Memory of a device or of the staging pool. The result reports which of them, for any previous
 * contents of the result and also if the pool is full. */
#include "devices/staging/staged_memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

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
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.log = log_nothing, o.cpu_devices = 1, o.sim_devices = 1);
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
    /* no failure has occurred since */
    assert_string_equal(tdm_last_message(), "an earlier failure");
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
    assert_null(memory.device); /* empty, so releasing it does nothing */
    tdm_memory_give_back(&memory);
  }
  tdm_context_release(context);
}

/* If the pool has space, and the host has none for its lists, that is a failure. Memory of a device
 * does not replace it. */
static void short_memory_is_no_full_pool(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  (void)setenv("TANDEM_STAGING_BYTES", "8192", 1);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.log = log_nothing, o.cpu_devices = 1,
              o.sim_devices = 1);
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
  tdm_memory second; /* memory from a pool that is completely used */
  assert_ok(tdm_memory_take(host, sim, 1, &second));
  assert_null(second.staging);
  tdm_memory_give_back(&second);
  tdm_memory_give_back(&memory);
  tdm_memory_give_back(&full);
  tdm_context_release(context);
  tdm_faulty_allocator_destroy(faulty);
}

/* Memory of the host near a device is staged memory if the device cannot read the host's. */
static void memory_near_a_host_device_is_its_own(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *const near[] = {NULL, test_device(context, "cpu:0"), test_device(context, "cpu:1"),
                              test_device(context, "sim:1")};
  const tdm_shape shape = tdm_shape_of(1, 5);
  for (size_t i = 0; i < TDM_COUNT_OF(near); i++) {
    tdm_tensor *tensor = NULL;
    assert_ok(tdm_host_tensor_create(context, near[i], TDM_FLOAT32, &shape, &tensor));
    assert_int_equal(tensor->storage->memory.staging != NULL, i == 3);
    assert_string_equal(tensor->storage->memory.device->name, "cpu:0");
    assert_int_equal(tensor->bytes, 20);
    tdm_tensor_release(tensor);
  }
  tdm_context_release(context);
}

typedef struct kept {
  tdm_keeper keeper; /* must be the first field */
  bool has;          /* has something to release */
  int asked;
} kept;

static bool give_back(tdm_keeper *keeper, const tdm_device *device) {
  kept *own = (kept *)keeper;
  assert_string_equal(device->name, "cpu:0");
  own->asked++;
  const bool had = own->has;
  own->has = false;
  return had;
}

/* Keepers release unused memory if a device lacks memory, and only then. Every registered keeper is
 * called. */
static void what_is_kept_is_given_back_where_memory_is_short(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *host = test_device(context, "cpu:0");
  kept keepers[3] = {{.keeper = {.give_back = give_back}},
                     {.keeper = {.give_back = give_back}},
                     {.keeper = {.give_back = give_back}}};
  for (size_t i = 0; i < 3; i++)
    tdm_context_add_keeper(context, &keepers[i].keeper);
  tdm_memory memory;
  assert_ok(tdm_memory_take(host, NULL, BYTES, &memory));
  tdm_memory_give_back(&memory);
  assert_int_equal(keepers[0].asked + keepers[1].asked + keepers[2].asked, 0);
  for (int has = 0; has < 4; has++) { /* no keeper has memory, or one of them */
    for (size_t i = 0; i < 3; i++)
      keepers[i].has = has == 1 + (int)i;
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
    const tdm_status status = tdm_memory_take(host, NULL, BYTES, &memory);
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
    assert_int_equal(status, has == 0 ? TDM_OUT_OF_MEMORY : TDM_OK);
    for (size_t i = 0; i < 3; i++)
      assert_int_equal(keepers[i].asked, has + 1);
    tdm_memory_give_back(&memory);
  }
  static const size_t order[] = {1, 1, 0, 2}; /* the second of them twice */
  for (size_t i = 0; i < TDM_COUNT_OF(order); i++) {
    tdm_context_remove_keeper(context, &keepers[order[i]].keeper);
    keepers[order[i]].asked = -1;
    keepers[order[i]].keeper = (tdm_keeper){.give_back = give_back};
    assert_false(tdm_context_free_kept(context, host));
    assert_int_equal(keepers[order[i]].asked, -1);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_memory_held_before_is_forgotten),
      cmocka_unit_test(short_memory_is_no_full_pool),
      cmocka_unit_test(memory_near_a_host_device_is_its_own),
      cmocka_unit_test(what_is_kept_is_given_back_where_memory_is_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
