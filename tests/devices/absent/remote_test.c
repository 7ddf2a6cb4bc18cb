/* Devices that other ranks describe. An invalid description from any rank is refused. A valid
 * device has a separate address range and executes nothing. */
#include "devices/absent/remote.h"

#include <stdio.h>
#include <string.h>

#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

static tdm_context *context; /* context of the test group */

static int begin_group(void **unused) {
  (void)unused;
  context = test_context(NULL);
  return 0;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

/* Returns the description of sim:0 that its rank sends. */
static tdm_device_description described(void) {
  tdm_device_description told;
  tdm_device_describe(test_device(context, "sim:0"), test_device(context, "cpu:0"),
                      test_device(context, "sim:1"), &told);
  return told;
}

static tdm_device *make(const tdm_device_description *told) {
  tdm_device *device = NULL;
  assert_ok(tdm_remote_device_create(context, 3, 7, told, &device));
  assert_non_null(device);
  return device;
}

static void a_device_is_what_its_rank_says(void **state) {
  (void)state;
  tdm_device_description told = described();
  told.index = 5;
  told.host_link.latency_ns = 11;
  told.peer_link.latency_ns = 22;
  tdm_device *device = make(&told);
  told.index = 6;
  tdm_device *other = make(&told);
  assert_string_equal(device->name, "host:3/sim:5");
  assert_int_equal(device->rank, 3);
  assert_string_equal(device->ops->kind, "sim");
  assert_string_equal(device->identity, test_device(context, "sim:0")->identity);
  assert_true(device->ops->link(device, device).latency_ns == 0);
  assert_true(device->ops->link(device, other).latency_ns == 22);
  assert_true(device->ops->link(device, test_device(context, "cpu:0")).latency_ns == 11);
  for (size_t role = 0; role < TDM_QUEUE_ROLES; role++)
    assert_int_equal(device->queues[role] != NULL,
                     test_device(context, "sim:0")->queues[role] != NULL);
  device->ops->destroy(NULL);
  device->ops->destroy(device); /* also frees its table */
  other->ops->destroy(other);
}

static void a_device_that_cannot_be_is_refused(void **state) {
  (void)state;
  const tdm_device_description right = described();
  for (int wrong = 0; wrong < 8; wrong++) {
    tdm_device_description told = right;
    /* not terminated: the next field follows */
    if (wrong == 0) memset(told.kind, 'k', sizeof told.kind);
    if (wrong == 1) memset(told.executes, 'e', sizeof told.executes);
    if (wrong == 2) memset(told.identity, 'i', sizeof told.identity);
    if (wrong == 3) told.index = INT16_MAX;
    if (wrong == 4) told.roles &= ~(1u << TDM_QUEUE_COMPUTE);
    if (wrong == 5) told.roles |= 1u << TDM_QUEUE_ROLES;
    if (wrong == 6) memset(told.engine_name, 'n', sizeof told.engine_name);
    if (wrong == 7) memset(told.engine_absence, 'a', sizeof told.engine_absence);
    tdm_device *device = test_device(context, "cpu:0");
    assert_status(tdm_remote_device_create(context, 3, 7, &told, &device), TDM_INVALID_ARGUMENT);
    assert_message("rank 3 describes a device that cannot be");
    assert_null(device);
  }
  tdm_device_description last = right;
  last.index = INT16_MAX - 1;
  tdm_device *device = make(&last);
  device->ops->destroy(device);
}

/* 2^44 bytes of addresses, which are not used again; memory without a limit. */
static void addresses_end(void **state) {
  (void)state;
  const tdm_device_description told = described();
  tdm_device *device = make(&told);
  const size_t half = (size_t)1 << 43;
  tdm_memory memory[2];
  assert_ok(device->ops->allocate(device, half - 64, &memory[0]));
  assert_ok(device->ops->allocate(device, half - 64, &memory[1]));
  assert_true(memory[1].address >= memory[0].address + memory[0].bytes);
  assert_int_equal(memory[0].address % 64, 0);
  device->ops->release(device, &memory[0]);
  assert_status(device->ops->allocate(device, 1, &memory[0]), TDM_OUT_OF_MEMORY);
  assert_message("host:3/sim:0, a sim, has 0 bytes and no room for 1 more");
  uint64_t bytes = 1;
  uint64_t free_bytes = 1;
  assert_ok(device->ops->memory(device, &bytes, &free_bytes));
  assert_int_equal(bytes, 0);
  assert_int_equal(free_bytes, 0);
  device->ops->release(device, &memory[1]);
  device->ops->destroy(device);
}

static void it_holds_and_executes_nothing(void **state) {
  (void)state;
  const tdm_device_description told = described();
  tdm_device *device = make(&told);
  void *pointer = device;
  assert_status(device->ops->translate(device, 64, 64, &pointer), TDM_UNSUPPORTED);
  assert_null(pointer);
  assert_message("host:3/sim:0 is another rank's: it holds and executes nothing");
  assert_status(device->ops->copy(device, NULL, 64, 128), TDM_UNSUPPORTED);
  assert_false(device->ops->borrow(device->queues[TDM_QUEUE_COMPUTE]));
  device->ops->submit(device->queues[TDM_QUEUE_COMPUTE], NULL);
  device->ops->destroy(device);
}

static void short_memory_is_told(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1);
  tdm_context *scarce = tdm_context_create(&options);
  assert_non_null(scarce);
  const tdm_device_description told = described();
  tdm_device *device = test_device(context, "cpu:0");
  tdm_faulty_allocator_arm(faulty, 1, false);
  assert_status(tdm_remote_device_create(scarce, 1, 1, &told, &device), TDM_OUT_OF_MEMORY);
  tdm_faulty_allocator_arm(faulty, 0, false);
  assert_null(device);
  tdm_context_release(scarce);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_is_what_its_rank_says),
      cmocka_unit_test(a_device_that_cannot_be_is_refused),
      cmocka_unit_test(addresses_end),
      cmocka_unit_test(it_holds_and_executes_nothing),
      cmocka_unit_test(short_memory_is_told),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
