/* The devices of a described machine: they are used for planning and execute nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/context/context.h"
#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

/* Two hosts of three devices, of a million bytes each. */
static const char two_hosts[] =
    "{\"title\": \"t\", \"sources\": [\"s\"], \"hosts\": 2, \"devices_per_host\": 3, "
    "\"device\": {\"model\": \"m\", \"memory_bytes\": 1000000, \"flops_per_second\": "
    "{\"float32\": 2e12}, \"memory_bytes_per_second\": 1e12, \"launch_us\": 3}, "
    "\"network\": {\"latency_us\": 20, \"bytes_per_second\": 1e9}, "
    "\"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 10e9}}";

static char *write_machine(const char *text) {
  char *path = strdup("/tmp/described_test_XXXXXX");
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  assert_non_null(out);
  fputs(text, out);
  (void)fclose(out);
  return path;
}

static tdm_context *create(const char *path) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.machine = path);
  return tdm_context_create(&options);
}

static void described_devices_execute_nothing(void **state) {
  (void)state;
  char *path = write_machine(two_hosts);
  tdm_context *context = create(path);
  if (!context) fail_msg("%s", tdm_last_message());
  assert_ok(tdm_device_check(context, "paper:5"));
  assert_int_equal(tdm_device_check(context, "paper:6"), TDM_UNAVAILABLE);
  assert_string_equal(tdm_accelerator(context), "cpu:0");
  tdm_tensor *tensor = tdm_tensor_create(context, "paper:1", TDM_FLOAT32, tdm_shape_of(1, 4));
  assert_non_null(tensor);
  assert_null(tdm_tensor_data(tensor));
  const float numbers[4] = {0};
  float read[4];
  assert_int_equal(tdm_tensor_write(tensor, numbers, sizeof numbers), TDM_UNSUPPORTED);
  assert_int_equal(tdm_tensor_read(tensor, read, sizeof read), TDM_UNSUPPORTED);
  assert_ok(tdm_context_start(context));
  assert_int_equal(tdm_tensor_write(tensor, numbers, sizeof numbers), TDM_UNSUPPORTED);
  assert_non_null(strstr(tdm_last_message(), "paper:1 is only described"));
  tdm_tensor_release(tensor);
  tdm_device *device = tdm_context_find_device(context, "paper:2");
  tdm_memory memory;
  assert_ok(device->ops->allocate(device, 64, &memory));
  void *pointer = &memory;
  assert_int_equal(device->ops->translate(device, memory.address, 64, &pointer), TDM_UNSUPPORTED);
  assert_null(pointer);
  assert_non_null(strstr(tdm_last_message(), "paper:2 is only described"));
  tdm_device *next = tdm_context_find_device(context, "paper:3");
  tdm_memory elsewhere;
  assert_ok(next->ops->allocate(next, 64, &elsewhere));
  /* the devices share no address */
  assert_int_equal(elsewhere.address - memory.address, (tdm_address)1 << 44);
  next->ops->release(next, &elsewhere);
  device->ops->release(device, &memory);
  assert_int_equal(memory.address, 0);
  tdm_context_release(context);
  (void)remove(path);
  free(path);
}

/* Flights on present devices run. Only submitted commands count, not later ones. */
static void what_is_not_submitted_is_not_refused(void **state) {
  (void)state;
  char *path = write_machine(two_hosts);
  tdm_context *context = create(path);
  assert_non_null(context);
  tdm_device *host = tdm_context_find_device(context, "cpu:0");
  test_flight *test = test_flight_create(context);
  const uint32_t base = test_base(test, host, 1, 3);
  const uint32_t program = test_program(test, host->queues[TDM_QUEUE_COMPUTE]);
  test_execute(test, program, &test_mix_kernel, base, NULL, 0, 1);
  tdm_device *described = tdm_context_find_device(context, "paper:0");
  (void)test_program(test, described->queues[TDM_QUEUE_COMPUTE]);
  assert_int_equal(tdm_context_submit(context, &test->flight, test->submissions, 2, false),
                   TDM_UNSUPPORTED);
  test->program_count = 1;
  test_run(test, false);
  assert_int_equal(test_value(test, base), test_mix(3, NULL, 0, 1));
  test_flight_destroy(test);
  tdm_context_release(context);
  (void)remove(path);
  free(path);
}

/* A failed allocation leaves existing memory unchanged. */
static void their_allocations_may_fail(void **state) {
  (void)state;
  char *path = write_machine(two_hosts);
  tdm_context *context = create(path);
  assert_non_null(context);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  assert_null(tdm_tensor_create(context, "paper:0", TDM_UINT8, tdm_shape_of(1, 1000)));
  assert_non_null(strstr(tdm_last_message(), "injected failure of allocation 1"));
  tdm_tensor *tensor = tdm_tensor_create(context, "paper:0", TDM_UINT8, tdm_shape_of(1, 1000000));
  assert_non_null(tensor); /* all memory is available: the failure allocated none */
  tdm_tensor_release(tensor);
  tdm_context_release(context);
  (void)remove(path);
  free(path);
}

/* Checks that each device has memory of a million bytes. */
static void memory_has_its_size(void **state) {
  (void)state;
  char *path = write_machine(two_hosts);
  tdm_context *context = create(path);
  assert_non_null(context);
  const tdm_shape most = tdm_shape_of(1, 600000);
  tdm_tensor *one = tdm_tensor_create(context, "paper:0", TDM_UINT8, most);
  tdm_tensor *elsewhere = tdm_tensor_create(context, "paper:1", TDM_UINT8, most);
  assert_non_null(one);
  assert_non_null(elsewhere);
  assert_null(tdm_tensor_create(context, "paper:0", TDM_UINT8, most));
  assert_non_null(strstr(tdm_last_message(), "paper:0, a m, has 1000000 bytes"));
  tdm_tensor_release(one);
  one = tdm_tensor_create(context, "paper:0", TDM_UINT8, most);
  assert_non_null(one);
  tdm_tensor_release(one);
  tdm_tensor_release(elsewhere);
  tdm_context_release(context);
  (void)remove(path);
  free(path);
}

static void nothing_of_them_is_left(void **state) {
  (void)state;
  char *path = write_machine(two_hosts);
  tdm_faulty_allocator *counting = tdm_faulty_allocator_create();
  assert_non_null(counting);
  const tdm_allocator allocator = tdm_faulty_allocator_view(counting);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.machine = path);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("%s", tdm_last_message());
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(counting), 0);
  tdm_faulty_allocator_destroy(counting);
  (void)remove(path);
  free(path);
}

static void every_nth_allocation_fails(void **state) {
  (void)state;
  char *path = write_machine(two_hosts);
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.sim_devices = 0,
              o.machine = path);
  bool fails = true;
  for (uint64_t n = 1; fails; n++) {
    assert_true(n < 400);
    tdm_faulty_allocator_arm(faulty, n, false);
    tdm_context *context = tdm_context_create(&options);
    fails = tdm_faulty_allocator_failures(faulty) > 0;
    tdm_faulty_allocator_arm(faulty, 0, false);
    if (!context) assert_status(tdm_last_status(), TDM_OUT_OF_MEMORY);
    if (context) assert_ok(tdm_device_check(context, "paper:5")); /* all or none are available */
    if (!fails) assert_non_null(context);
    tdm_context_release(context);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  }
  tdm_faulty_allocator_destroy(faulty);
  (void)remove(path);
  free(path);
}

static void without_a_description_there_are_none(void **state) {
  (void)state;
  tdm_context *context = create(NULL);
  assert_non_null(context);
  assert_int_equal(tdm_device_check(context, "paper:0"), TDM_UNAVAILABLE);
  assert_non_null(strstr(tdm_last_message(), "no machine is described"));
  tdm_context_release(context);
  assert_null(create("/nowhere/machine.json"));
  assert_non_null(strstr(tdm_last_message(), "/nowhere/machine.json"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(described_devices_execute_nothing),
      cmocka_unit_test(what_is_not_submitted_is_not_refused),
      cmocka_unit_test(their_allocations_may_fail),
      cmocka_unit_test(memory_has_its_size),
      cmocka_unit_test(nothing_of_them_is_left),
      cmocka_unit_test(every_nth_allocation_fails),
      cmocka_unit_test(without_a_description_there_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
