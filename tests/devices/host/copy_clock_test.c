/* The time that a copy waited for a core, by clocks that the test sets: the rest after the modelled
 * link and the copying thread's own work. */
#include <stdatomic.h>
#include <time.h>

#include "tests/devices/support.h"

/* The thread that copies loses its core for LOST_NS at the second time that it reads the clock of
 * all after its own, which is within the copy. It works for worked_ns. */
enum { LOST_NS = 1000000000 };
static _Atomic uint64_t worked_ns;
static _Thread_local uint64_t thread_ns, offset_ns;
static _Thread_local int reads = -1; /* common clock's, after the thread's; -1: none */

/* The linker replaces clock_gettime by the first function (BUILD); the second is the original. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time);
int __real_clock_gettime(clockid_t clock, struct timespec *out_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time) {
  if (clock == CLOCK_THREAD_CPUTIME_ID) {
    reads = 0;
    *out_time = (struct timespec){.tv_sec = 1, .tv_nsec = (long)thread_ns};
    thread_ns += atomic_load(&worked_ns);
    return 0;
  }
  const int code = __real_clock_gettime(clock, out_time);
  if (clock != CLOCK_MONOTONIC) return code;
  if (reads >= 0 && ++reads == 2) offset_ns += LOST_NS;
  out_time->tv_sec += (time_t)(offset_ns / 1000000000);
  return code;
}

/* A copy of eight bytes to sim:0 whose link takes link_ns. */
static void expect_wait(const char *settings, uint64_t link_ns, uint64_t work_ns) {
  atomic_store(&worked_ns, work_ns);
  tdm_context *context = test_context(settings);
  assert_non_null(context);
  test_flight *test = test_flight_create(context);
  tdm_device *cpu = test_device(context, "cpu:0"), *sim = test_device(context, "sim:0");
  const uint32_t from = test_base(test, cpu, 1, 7), to = test_base(test, sim, 1, 0);
  test_copy(test, test_program(test, test_route(cpu, sim)), from, to);
  test->flight.times = test->times;
  test_run(test, false);
  assert_int_equal(test_value(test, to), 7);
  const tdm_command_times *times = &test->times[0];
  const uint64_t needed_ns = work_ns > link_ns ? work_ns : link_ns;
  assert_true(times->end_ns - times->begin_ns >= LOST_NS);
  assert_int_equal(times->core_wait_ns, times->end_ns - times->begin_ns - needed_ns);
  test_flight_destroy(test);
  tdm_context_release(context);
}

static void a_copy_waited_for_what_its_link_does_not_take(void **state) {
  (void)state;
  expect_wait("latency_us=5,gigabytes_per_second=0", 5000, 0);
  expect_wait("latency_us=50,gigabytes_per_second=0", 50000, 10);
}

static void a_copy_did_not_wait_while_its_thread_worked(void **state) {
  (void)state;
  expect_wait("latency_us=5,gigabytes_per_second=0", 5000, 400000000);
  expect_wait("latency_us=0,gigabytes_per_second=0", 0, 400000000);
}

/* No part of a kernel's time counts as waiting. */
static void only_copies_wait(void **state) {
  (void)state;
  atomic_store(&worked_ns, 0);
  tdm_context *context = test_context(NULL);
  assert_non_null(context);
  test_flight *test = test_flight_create(context);
  tdm_device *cpu = test_device(context, "cpu:0");
  const uint32_t base = test_base(test, cpu, 1, 1);
  test_execute(test, test_program(test, cpu->queues[TDM_QUEUE_COMPUTE]), &test_mix_kernel, base,
               NULL, 0, 1);
  test->flight.times = test->times;
  test_run(test, false);
  assert_true(test->times[0].end_ns > 0);
  assert_int_equal(test->times[0].core_wait_ns, 0);
  test_flight_destroy(test);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_waited_for_what_its_link_does_not_take),
      cmocka_unit_test(a_copy_did_not_wait_while_its_thread_worked),
      cmocka_unit_test(only_copies_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
