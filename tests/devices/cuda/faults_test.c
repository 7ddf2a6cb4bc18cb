/* The cuda kind on emulated GPUs with failures. A kernel reports, every call of CUDA and every host
 * allocation fails in turn, a device is lost. Either an error is returned, or the result is right;
 * nothing hangs, and nothing leaks. */
#include <string.h>

#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/support.h"
#include "tests/devices/support_cuda.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

/* ---- Reports of kernels ---------------------------------------------------------------------- */

static const tdm_kernel report_kernel = {.struct_size = sizeof(tdm_kernel),
                                         .operation = "test_report",
                                         .executes = "cuda",
                                         .dtype = TDM_INT64,
                                         .execute = test_cuda_report};

typedef struct route_test {
  test_flight *test;
  uint32_t bases[4]; /* cpu:0, cuda:0, cuda:1, cpu:0 */
  tdm_command *commands[6];
} route_test;

static void follow(route_test *route, size_t index, tdm_command *command) {
  if (index > 0) test_depend(route->test, command, route->commands[index - 1]);
  command->signals = true;
  route->commands[index] = command;
}

/* Builds the route cpu:0 -> cuda:0, `kernel` there -> cuda:1, mix there -> cpu:0, and after a gate
 * mix there. */
static void build_route(route_test *route, tdm_context *context, const tdm_kernel *kernel) {
  static const char *const names[] = {"cpu:0", "cuda:0", "cuda:1", "cpu:0"};
  memset(route, 0, sizeof *route);
  test_flight *test = route->test = test_flight_create(context);
  tdm_device *devices[4];
  for (size_t i = 0; i < 4; i++) {
    devices[i] = test_device(context, names[i]);
    route->bases[i] = test_base(test, devices[i], 100, 7);
  }
  uint32_t program = test_program(test, devices[1]->queues[TDM_QUEUE_UPLOAD]);
  follow(route, 0, test_copy(test, program, route->bases[0], route->bases[1]));
  program = test_program(test, devices[1]->queues[TDM_QUEUE_COMPUTE]);
  test_wait(test, program, route->commands[0]);
  follow(route, 1, test_execute(test, program, kernel, route->bases[1], NULL, 0, 3));
  program = test_program(test, devices[2]->queues[TDM_QUEUE_PEER]);
  test_wait(test, program, route->commands[1]);
  follow(route, 2, test_copy(test, program, route->bases[1], route->bases[2]));
  program = test_program(test, devices[2]->queues[TDM_QUEUE_COMPUTE]);
  test_wait(test, program, route->commands[2]);
  follow(route, 3, test_execute(test, program, &test_mix_kernel, route->bases[2], NULL, 0, 4));
  program = test_program(test, devices[2]->queues[TDM_QUEUE_DOWNLOAD]);
  test_wait(test, program, route->commands[3]);
  follow(route, 4, test_copy(test, program, route->bases[2], route->bases[3]));
  program = test_program(test, devices[3]->queues[TDM_QUEUE_COMPUTE]);
  test_wait(test, program, route->commands[4]);
  test_gate(test, program);
  follow(route, 5, test_execute(test, program, &test_mix_kernel, route->bases[3], NULL, 0, 5));
}

static int64_t expected_of_route(void) {
  return test_mix(test_mix(test_mix(7, NULL, 0, 3), NULL, 0, 4), NULL, 0, 5);
}

/* The report is read long after the kernel was enqueued, but no gate after it opens. */
static void a_report_reaches_what_depends_on_it(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  for (uint64_t seed = 1; seed < 40; seed++) {
    route_test route;
    emulation_set_jitter(seed);
    build_route(&route, context, &report_kernel);
    test_run(route.test, seed % 2 == 0);
    assert_int_equal(route.test->flight.failure.id, route.commands[1]->id);
    assert_int_equal(route.test->flight.failure.status, TDM_INVALID_ARGUMENT);
    assert_string_equal(route.test->flight.failure.message,
                        "ids 42 at position 3 is outside 0 to 9");
    assert_false(test_has_failed(route.test, route.commands[0]));
    for (size_t i = 1; i < TDM_COUNT_OF(route.commands); i++)
      assert_true(test_has_failed(route.test, route.commands[i]));
    test_flight_destroy(route.test);
  }
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
}

/* ---- CUDA refuses ---------------------------------------------------------------------------- */

/* Expects of a run an error with a message, or the right result. */
static void assert_told_or_right(const route_test *route) {
  const tdm_failure *failure = &route->test->flight.failure;
  if (failure->id == UINT32_MAX) {
    assert_int_equal(test_value(route->test, route->bases[3]), expected_of_route());
  } else {
    assert_int_not_equal(failure->status, TDM_OK);
    assert_true(strlen(failure->message) > 0);
    assert_true(test_has_failed(route->test, route->commands[5]));
  }
}

/* Runs in a new context in which the nth call fails. Returns false if there were fewer calls. */
static bool fail_in_run(uint64_t n, tdm_cuda_code code, bool from_on) {
  tdm_context *context = test_context(NULL);
  route_test route;
  build_route(&route, context, &test_mix_kernel);
  emulation_fail_at(n, code, from_on);
  test_run(route.test, false);
  const bool failed = emulation_calls() >= n;
  emulation_fail_at(0, TDM_CUDA_SUCCESS, false);
  assert_told_or_right(&route);
  if (!failed) assert_int_equal(route.test->flight.failure.id, UINT32_MAX);
  test_flight_destroy(route.test);
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
  return failed;
}

/* Streams look at events as long as they need to: the number of calls is not the same twice. */
static void every_nth_call_of_a_run_fails(void **state) {
  (void)state;
  emulation_set_jitter(0);
  uint64_t n = 1;
  while (fail_in_run(n, n % 2 == 0 ? TDM_CUDA_OUT_OF_MEMORY : 1, false))
    n++;
  assert_true(n > 40);
  for (n = 1; fail_in_run(n, EMULATED_LOST, true); n += 3) {
  }
}

static bool use_tensors(uint64_t n, tdm_cuda_code code, bool from_on) {
  const int64_t values[] = {1, 2, 3};
  int64_t read[3] = {0};
  emulation_fail_at(n, code, from_on);
  tdm_context *context = tdm_context_create(NULL);
  bool whole = context != NULL;
  if (!context) assert_true(strlen(tdm_last_message()) > 0);
  for (int started = 0; started < 2 && context; started++) {
    tdm_tensor *here = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 3), values);
    tdm_tensor *first = tdm_tensor_to(here, "cuda:0", TDM_DTYPE_NONE);
    tdm_tensor *second = tdm_tensor_to(first, "cuda:1", TDM_DTYPE_NONE);
    if (tdm_tensor_read(second, read, sizeof read) == TDM_OK) {
      assert_memory_equal(read, values, sizeof(values));
    } else {
      assert_true(strlen(tdm_last_message()) > 0);
      whole = false;
    }
    tdm_tensor_release(here);
    tdm_tensor_release(first);
    tdm_tensor_release(second);
    if (tdm_context_start(context) != TDM_OK) break;
  }
  tdm_context_release(context);
  const bool failed = emulation_calls() >= n;
  emulation_fail_at(0, TDM_CUDA_SUCCESS, false);
  if (!failed) assert_true(whole);
  assert_int_equal(emulation_outstanding(), 0);
  return failed;
}

static void every_nth_call_of_a_context_fails(void **state) {
  (void)state;
  emulation_set_jitter(0);
  uint64_t n = 1;
  while (use_tensors(n, TDM_CUDA_OUT_OF_MEMORY, false))
    n++;
  assert_true(n > 40);
  for (n = 1; use_tensors(n, EMULATED_LOST, true); n += 3) {
  }
}

/* Returns false if there were fewer allocations. */
static bool run_short_of_memory(uint64_t n) {
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options = OPTIONS(tdm_context_options, o.allocator = &allocator);
  tdm_faulty_allocator_arm(faulty, n, false);
  tdm_context *context = tdm_context_create(&options);
  tdm_tensor *here = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, 3));
  for (int started = 0; started < 2 && context; started++) {
    tdm_tensor *there = tdm_tensor_to(here, "cuda:1", TDM_DTYPE_NONE);
    tdm_tensor_release(there);
    if (tdm_context_start(context) != TDM_OK) break;
  }
  const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
  if (!failed) assert_non_null(context);
  tdm_tensor_release(here);
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
  assert_int_equal(emulation_outstanding(), 0);
  return failed;
}

static void every_nth_allocation_of_the_host_fails(void **state) {
  (void)state;
  uint64_t n = 1;
  while (run_short_of_memory(n))
    n++;
  assert_true(n > 20);
}

static void a_lost_device_is_told(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  route_test route;
  build_route(&route, context, &test_mix_kernel);
  test_run(route.test, false);
  assert_told_or_right(&route);
  emulation_lose(true);
  test_run(route.test, false);
  assert_int_equal(route.test->flight.failure.status, TDM_DEVICE_LOST);
  assert_non_null(strstr(route.test->flight.failure.message, "the device is lost"));
  tdm_device *device = test_device(context, "cuda:0");
  tdm_memory memory;
  assert_status(device->ops->allocate(device, 64 << 20, &memory), TDM_DEVICE_LOST);
  test_flight_destroy(route.test);
  tdm_context_release(context);
  emulation_lose(false);
  assert_int_equal(emulation_outstanding(), 0);
}

static void a_full_gpu_is_told(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *device = test_device(context, "cuda:1");
  tdm_memory memory;
  emulation_fail_at(1, TDM_CUDA_OUT_OF_MEMORY, true);
  assert_status(device->ops->allocate(device, 64, &memory), TDM_OUT_OF_MEMORY);
  emulation_fail_at(0, TDM_CUDA_SUCCESS, false);
  assert_message("out of memory");
  assert_ok(device->ops->allocate(device, 64, &memory));
  device->ops->release(device, &memory);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_report_reaches_what_depends_on_it),
      cmocka_unit_test(a_lost_device_is_told),
      cmocka_unit_test(a_full_gpu_is_told),
      cmocka_unit_test(every_nth_allocation_of_the_host_fails),
      cmocka_unit_test(every_nth_call_of_a_context_fails),
      cmocka_unit_test(every_nth_call_of_a_run_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
