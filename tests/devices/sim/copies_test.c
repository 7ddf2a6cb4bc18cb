/* Checks that a sim device whose links take time copies while it computes: a kernel does not return
 * before a copy of its own device has ended. */
#include <stdatomic.h>
#include <unistd.h>

#include "devices/context/route.h"
#include "devices/host/turn.h"
#include "tests/devices/support.h"

static tdm_queue *watched;
static uint64_t seen; /* points of the queue before the run */

/* Waits for the copy, no longer than a minute. */
static tdm_status execute_patient(const tdm_kernel_call *call) {
  (void)call;
  for (int i = 0; i < 600000 && atomic_load(&watched->completed) == seen; i++)
    usleep(100);
  return atomic_load(&watched->completed) != seen
             ? TDM_OK
             : tdm_fail(TDM_INTERNAL, "the copy waits for the kernel");
}

static const tdm_kernel patient_kernel = {.struct_size = sizeof(tdm_kernel),
                                          .operation = "test_patient",
                                          .executes = "cpu",
                                          .dtype = TDM_INT64,
                                          .execute = execute_patient};

static void copy_under_a_kernel(tdm_context *context, const char *from, const char *to) {
  tdm_device *sim = test_device(context, "sim:0");
  tdm_device *source = test_device(context, from);
  tdm_device *destination = test_device(context, to);
  test_flight *test = test_flight_create(context);
  const uint32_t x = test_base(test, sim, 8, 3);
  const uint32_t y = test_base(test, source, 8, 4);
  const uint32_t z = test_base(test, destination, 8, 5);
  watched = tdm_direct_queue(source, destination);
  seen = atomic_load(&watched->completed);
  const uint32_t kernels = test_program(test, sim->queues[TDM_QUEUE_COMPUTE]);
  const uint32_t copies = test_program(test, watched);
  (void)test_execute(test, kernels, &patient_kernel, x, NULL, 0, 0);
  (void)test_copy(test, copies, y, z);
  test_run(test, false);
  if (test->flight.failed) fail_msg("%s", test->flight.failure.message);
  assert_int_equal(test_value(test, z), 4);
  test_flight_destroy(test);
}

static void copies_end_under_kernels_of(const char *links) {
  tdm_context *context = test_context(links);
  for (int round = 0; round < 3; round++) {
    copy_under_a_kernel(context, "cpu:0", "sim:0");
    copy_under_a_kernel(context, "sim:0", "cpu:0");
    copy_under_a_kernel(context, "sim:1", "sim:0");
  }
  tdm_context_release(context);
}

static void copies_end_under_a_kernel(void **state) {
  (void)state;
  copies_end_under_kernels_of("latency_us=2000,gigabytes_per_second=16");
  copies_end_under_kernels_of("latency_us=1,gigabytes_per_second=0");
  copies_end_under_kernels_of("latency_us=0,gigabytes_per_second=1");
  copies_end_under_kernels_of("latency_us=0,gigabytes_per_second=0,peer_gigabytes_per_second=1");
}

static const tdm_host_queue *queue_of(const tdm_device *device, tdm_queue_role role) {
  return (const tdm_host_queue *)device->queues[role];
}

/* Queues for kernels have a worker, and so do queues for copies where links are modelled. No two
 * devices of one seed draw the same delays. Without a seed none is delayed. */
static void seeds_and_links_are_the_workers(void **state) {
  (void)state;
  static const struct {
    const char *settings;
    uint64_t seed;
    bool models;
  } cases[] = {{"latency_us=0,gigabytes_per_second=0", 0, false},
               {"latency_us=0,gigabytes_per_second=0,delay_seed=1", 1000003, false},
               {"latency_us=0,gigabytes_per_second=0,delay_seed=7", 7000021, false},
               {"latency_us=0.5,gigabytes_per_second=0", 0, true},
               {"latency_us=0,gigabytes_per_second=0.5", 0, true},
               {"latency_us=0,gigabytes_per_second=0,peer_gigabytes_per_second=0.5", 0, true},
               {"latency_us=0,gigabytes_per_second=0,peer_gigabytes_per_second=0", 0, false},
               {"delay_seed=1", 1000003, true}};
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_context *context = test_context(cases[i].settings);
    for (int k = 0; k < 2; k++) {
      const tdm_device *sim = test_device(context, k == 0 ? "sim:0" : "sim:1");
      const tdm_worker *kernels = queue_of(sim, TDM_QUEUE_COMPUTE)->worker;
      for (size_t role = 0; role < TDM_QUEUE_OWN_ROLES; role++) {
        const tdm_host_queue *queue = queue_of(sim, (tdm_queue_role)role);
        const bool computes = role == TDM_QUEUE_COMPUTE || role == TDM_QUEUE_SUM;
        const uint64_t seed = cases[i].seed == 0 ? 0 : cases[i].seed + (uint64_t)k;
        assert_int_equal(queue->worker == kernels, computes || !cases[i].models);
        assert_int_equal(queue->worker->delay_seed, seed);
        assert_int_equal(queue->draw_lateness, seed != 0);
        assert_int_equal(queue->executor->models_links, cases[i].models);
        assert_int_equal(queue->random, seed + role);
      }
    }
    tdm_context_release(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(copies_end_under_a_kernel),
                                     cmocka_unit_test(seeds_and_links_are_the_workers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
