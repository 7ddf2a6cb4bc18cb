/* Conformance of memory: guarantees of allocate, access to addresses, errors for lack of memory,
 * and no work for outputs without elements. Run for the device that TEST_DEVICE names. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/devices/support.h"

static int set_up(void **state) {
  *state = test_context(NULL);
  return 0;
}

static int tear_down(void **state) {
  tdm_context_release(*state);
  return 0;
}

static void fill(tdm_context *context, const tdm_memory *memory, unsigned char byte) {
  unsigned char *bytes = malloc(memory->bytes);
  assert_non_null(bytes);
  memset(bytes, byte, memory->bytes);
  const tdm_memory from = {.device = tdm_context_device(context, 0),
                           .address = (tdm_address)bytes,
                           .bytes = memory->bytes};
  assert_ok(tdm_context_copy(context, &from, memory, memory->bytes));
  free(bytes);
}

static void assert_filled(tdm_context *context, const tdm_memory *memory, unsigned char byte) {
  unsigned char *bytes = malloc(memory->bytes);
  assert_non_null(bytes);
  const tdm_memory to = {.device = tdm_context_device(context, 0),
                         .address = (tdm_address)bytes,
                         .bytes = memory->bytes};
  assert_ok(tdm_context_copy(context, memory, &to, memory->bytes));
  for (size_t i = 0; i < memory->bytes; i++)
    assert_int_equal(bytes[i], byte);
  free(bytes);
}

/* Blocks of many sizes coexist: each keeps all bytes that were written to it. */
static void blocks_are_aligned_and_apart(void **state) {
  static const size_t sizes[] = {1, 63, 64, 65, 4096, 65535, 65536, 65537, (2 << 20) + 1, 5 << 20};
  tdm_device *device = test_device(*state, TEST_DEVICE);
  tdm_memory blocks[2 * TDM_COUNT_OF(sizes)];
  for (size_t i = 0; i < TDM_COUNT_OF(blocks); i++) {
    assert_ok(device->ops->allocate(device, sizes[i / 2], &blocks[i]));
    assert_ptr_equal(blocks[i].device, device);
    assert_int_equal(blocks[i].bytes, sizes[i / 2]);
    assert_int_equal(blocks[i].address % 64, 0);
    fill(*state, &blocks[i], (unsigned char)(i + 1));
  }
  for (size_t i = 0; i < TDM_COUNT_OF(blocks); i++)
    assert_filled(*state, &blocks[i], (unsigned char)(i + 1));
  for (size_t i = 0; i < TDM_COUNT_OF(blocks); i++) {
    device->ops->release(device, &blocks[i]);
    assert_int_equal(blocks[i].address, 0);
  }
}

static void no_bytes_are_a_block_too(void **state) {
  tdm_device *device = test_device(*state, TEST_DEVICE);
  tdm_memory a;
  tdm_memory b;
  assert_ok(device->ops->allocate(device, 0, &a));
  assert_ok(device->ops->allocate(device, 0, &b));
  assert_int_not_equal(a.address, 0);
  assert_int_not_equal(a.address, b.address);
  void *pointer = NULL;
  assert_ok(device->ops->translate(device, a.address, 0, &pointer));
  device->ops->release(device, &a);
  device->ops->release(device, &b);
}

static void a_shortage_is_told(void **state) {
  tdm_device *device = test_device(*state, TEST_DEVICE);
  for (size_t bytes = SIZE_MAX / 4; bytes <= SIZE_MAX / 2; bytes += SIZE_MAX / 4) {
    tdm_memory memory = {.address = 1};
    assert_status(device->ops->allocate(device, bytes, &memory), TDM_OUT_OF_MEMORY);
    assert_int_equal(memory.address, 0);
    assert_message("out of memory");
  }
  tdm_tensor *tensor = tdm_tensor_create(*state, TEST_DEVICE, TDM_FLOAT32,
                                         tdm_shape_of(2, (int64_t)1 << 30, (int64_t)1 << 28));
  assert_null(tensor);
  assert_message("out of memory");
  assert_message(TEST_DEVICE); /* the message names the device of the memory */
  tensor = tdm_tensor_zeros(*state, TEST_DEVICE, TDM_FLOAT32,
                            tdm_shape_of(2, (int64_t)1 << 30, (int64_t)1 << 28));
  assert_null(tensor);
  assert_message(TEST_DEVICE); /* likewise if the host allocates it first, to fill it */
}

static void allocations_fail_on_demand(void **state) {
  tdm_device *device = test_device(*state, TEST_DEVICE);
  tdm_faults *faults = tdm_context_faults(*state);
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 2, false);
  for (int i = 1; i <= 3; i++) {
    tdm_tensor *tensor = tdm_tensor_create(*state, TEST_DEVICE, TDM_INT32, tdm_shape_of(1, 10));
    assert_int_equal(!tensor, i == 2);
    tdm_tensor_release(tensor);
  }
  assert_message("injected failure of allocation 2");
  assert_int_equal(atomic_load(&faults->calls[TDM_FAULT_ALLOCATION]), 3);
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 1, true);
  for (int i = 0; i < 2; i++) {
    tdm_memory memory;
    assert_status(device->ops->allocate(device, 64, &memory), TDM_OUT_OF_MEMORY);
  }
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 0, false);
}

/* Reads one byte at address in a child process; the signal that ended it, 0 if none did. */
static int signal_of_reading(tdm_address address) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)signal(SIGSEGV, SIG_DFL);
    (void)signal(SIGBUS, SIG_DFL);
    const volatile unsigned char *byte = (const volatile unsigned char *)address;
    (void)*byte;
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void the_host_reads_host_memory_only(void **state) {
  tdm_device *device = test_device(*state, TEST_DEVICE);
  tdm_memory memory;
  assert_ok(device->ops->allocate(device, 100, &memory));
  fill(*state, &memory, 9);
  unsigned char *pointer = device->ops->host_pointer(device, memory.address);
  if (device->host_addressable) {
    assert_non_null(pointer);
    assert_int_equal(pointer[99], 9);
    assert_int_equal(device->hidden_bytes, 0);
  } else {
    assert_null(pointer);
    assert_int_equal(signal_of_reading(memory.address), SIGSEGV);
    assert_int_equal(signal_of_reading(memory.address + 99), SIGSEGV);
    assert_true(memory.address - device->hidden_begin < device->hidden_bytes);
  }
  device->ops->release(device, &memory);
}

/* Other devices that use an address of `owner` fail if the host cannot access it, both in translate
 * and on a queue. */
static void hidden_addresses_are_refused_elsewhere(void **state) {
  tdm_device *owner = test_device(*state, TEST_DEVICE);
  if (owner->host_addressable) skip(); /* the host's memory is the other cpu devices' as well */
  for (size_t i = 0; i < tdm_device_count(*state); i++) {
    tdm_device *other = tdm_context_device(*state, i);
    if (other == owner) continue;
    test_flight *test = test_flight_create(*state);
    const uint32_t base = test_base(test, owner, 4, 3);
    void *pointer = &pointer;
    assert_status(other->ops->translate(other, test->bases[base], 8, &pointer),
                  TDM_INVALID_ARGUMENT);
    assert_null(pointer);
    const uint32_t program = test_program(test, other->queues[TDM_QUEUE_COMPUTE]);
    test_execute(test, program, &test_mix_kernel, base, NULL, 0, 1);
    test_run(test, true);
    assert_int_equal(test->flight.failure.id, 0);
    assert_int_equal(test->flight.failure.status, TDM_INVALID_ARGUMENT);
    assert_non_null(strstr(test->flight.failure.message, other->name));
    assert_int_equal(test_value(test, base), 3);
    test_flight_destroy(test);
  }
}

/* Queues of cpu devices copy only between host addresses, and only for their own device. */
static void the_host_copies_host_memory_only(void **state) {
  tdm_device *owner = test_device(*state, TEST_DEVICE);
  if (owner->host_addressable) skip();
  tdm_device *host = test_device(*state, "cpu:0");
  tdm_memory hidden;
  assert_ok(owner->ops->allocate(owner, 8, &hidden));
  int64_t value = 5;
  const tdm_address address = (tdm_address)&value;
  const tdm_copy within = {.from_device = host, .to_device = host, .bytes = sizeof value};
  assert_status(host->ops->copy(host, &within, hidden.address, address), TDM_INVALID_ARGUMENT);
  assert_status(host->ops->copy(host, &within, address, hidden.address), TDM_INVALID_ARGUMENT);
  assert_message(owner->name);
  const tdm_copy from = {.from_device = owner, .to_device = host, .bytes = sizeof value};
  assert_status(host->ops->copy(host, &from, hidden.address, address), TDM_UNSUPPORTED);
  const tdm_copy to = {.from_device = host, .to_device = owner, .bytes = sizeof value};
  assert_status(host->ops->copy(host, &to, address, hidden.address), TDM_UNSUPPORTED);
  assert_message(owner->name);
  assert_int_equal(value, 5);
  owner->ops->release(owner, &hidden);
}

/* A device other than the host tracks which of its addresses are allocated. */
static void dead_and_overlong_addresses_are_refused(void **state) {
  tdm_device *device = test_device(*state, TEST_DEVICE);
  if (device->host_addressable) skip(); /* the host's pointers carry no such knowledge */
  tdm_memory memory;
  assert_ok(device->ops->allocate(device, 70000, &memory));
  const tdm_address address = memory.address;
  void *pointer = NULL;
  assert_ok(device->ops->translate(device, address, 70000, &pointer));
  assert_ok(device->ops->translate(device, address + 69999, 1, &pointer));
  assert_ok(device->ops->translate(device, address + 70000, 0, &pointer));
  assert_status(device->ops->translate(device, address, 70001, &pointer), TDM_INVALID_ARGUMENT);
  assert_status(device->ops->translate(device, address + 65536, 4465, &pointer),
                TDM_INVALID_ARGUMENT);
  assert_status(device->ops->translate(device, address + 70001, 1, &pointer), TDM_INVALID_ARGUMENT);
  assert_status(device->ops->translate(device, address - 1, 1, &pointer), TDM_INVALID_ARGUMENT);
  assert_status(device->ops->translate(device, (tdm_address)&memory, 1, &pointer),
                TDM_INVALID_ARGUMENT);
  device->ops->release(device, &memory);
  assert_status(device->ops->translate(device, address, 1, &pointer), TDM_INVALID_ARGUMENT);
  for (int i = 0; i < 100; i++) { /* and the address does not come back */
    assert_ok(device->ops->allocate(device, 70000, &memory));
    assert_int_not_equal(memory.address, address);
    device->ops->release(device, &memory);
  }
}

/* A kernel has no work if all its outputs are empty, for any other extents. */
static void a_kernel_without_elements_to_write_is_not_called(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  tdm_command *empty = test_execute(test, program, &test_failing_kernel, base, NULL, 0, 0);
  tdm_spec *specs = (tdm_spec *)(uintptr_t)empty->execute.specs; /* input, output: in test->data */
  specs[1].shape = tdm_shape_of(2, 0, (int64_t)1 << 36);
  empty->execute.is_empty = tdm_outputs_are_empty(&specs[1], 1);
  tdm_command *after = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 1);
  test_depend(test, after, empty);
  test_run(test, false);
  assert_false(test_has_failed(test, empty));
  assert_int_equal(test_value(test, base), 32);
  specs[1].shape = tdm_shape_of(1, 1); /* it is called if an output has elements */
  specs[0].shape = tdm_shape_of(2, 0, (int64_t)1 << 36);
  empty->execute.is_empty = tdm_outputs_are_empty(&specs[1], 1);
  test_run(test, false);
  assert_true(test_has_failed(test, empty));
  test_flight_destroy(test);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(blocks_are_aligned_and_apart, set_up, tear_down),
      cmocka_unit_test_setup_teardown(no_bytes_are_a_block_too, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_shortage_is_told, set_up, tear_down),
      cmocka_unit_test_setup_teardown(allocations_fail_on_demand, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_host_reads_host_memory_only, set_up, tear_down),
      cmocka_unit_test_setup_teardown(hidden_addresses_are_refused_elsewhere, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_host_copies_host_memory_only, set_up, tear_down),
      cmocka_unit_test_setup_teardown(dead_and_overlong_addresses_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_kernel_without_elements_to_write_is_not_called, set_up,
                                      tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
