/* The cuda kind on emulated GPUs: why there is none, logical devices, which way copies go, how GPUs
 * reach each other. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "devices/context/route.h"
#include "devices/cuda/enqueue.h"
#include "devices/staging/pool.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/support.h"
#include "tests/options.h"

/* ---- Which devices there are ----------------------------------------------------------------- */

static void assert_unavailable(const char *name, const char *words) {
  tdm_context *context = tdm_context_create(NULL);
  assert_non_null(context);
  assert_status(tdm_device_check(context, name), TDM_UNAVAILABLE);
  assert_message(words);
  assert_message(name);
  tdm_context_release(context);
}

static void absence_is_told_apart(void **state) {
  (void)state;
  emulation_set_driver(EMULATED_NO_DRIVER, 0);
  assert_unavailable("cuda:0", "no driver");
  emulation_set_driver(EMULATED_OLD_DRIVER, 0);
  assert_unavailable("cuda:0", "driver too old");
  assert_unavailable("cuda:0", "CUDA 12.4");
  assert_unavailable("cuda:0", "CUDA 13.0, release 580 or newer");
  emulation_set_driver(EMULATED_NO_DEVICE, 0);
  assert_unavailable("cuda:0", "no device");
  tdm_context *context = tdm_context_create(NULL);
  assert_string_equal(tdm_accelerator(context), "cpu:0");
  assert_false(tdm_is_available(context, "cuda"));
  assert_int_equal(tdm_device_count_of(context, "cuda"), 0);
  tdm_context_release(context);
  emulation_set_driver(EMULATED_DRIVER, 1);
  assert_unavailable("cuda:1", "1 device of kind cuda");
  emulation_lose(true);
  assert_unavailable("cuda:0", "device lost");
  emulation_lose(false);
  emulation_fail_at(1, 802, true);
  assert_unavailable("cuda:0", "the driver does not start: emulated error (code 802)");
  emulation_fail_at(0, 0, false);
  emulation_set_driver(EMULATED_DRIVER, 2);
}

static void gpus_are_devices(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  assert_ok(tdm_device_check(context, "cuda:0"));
  assert_ok(tdm_device_check(context, "cuda:1"));
  assert_status(tdm_device_check(context, "cuda:2"), TDM_UNAVAILABLE);
  assert_string_equal(tdm_accelerator(context), "cuda:0");
  assert_true(tdm_is_available(context, "cuda"));
  assert_int_equal(tdm_device_count_of(context, "cuda"), 2);
  for (int i = 0; i < 2; i++) {
    const tdm_device *device = test_device(context, i == 0 ? "cuda:0" : "cuda:1");
    assert_int_equal(device->index, i);
    assert_int_equal(device->team_size, 1); /* its kernels use no threads of the host */
    assert_true(device->stages_pageable && !device->host_addressable && !device->described);
  }
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
}

static void one_gpu_is_several_logical_devices(void **state) {
  (void)state;
  emulation_set_driver(EMULATED_DRIVER, 1);
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "3", 1), 0);
  tdm_context *context = tdm_context_create(NULL);
  assert_ok(tdm_device_check(context, "cuda:2"));
  assert_status(tdm_device_check(context, "cuda:3"), TDM_UNAVAILABLE);
  const float values[] = {1, 2, 3};
  tdm_tensor *here = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 3), values);
  tdm_tensor *first = tdm_tensor_to(here, "cuda:1", TDM_DTYPE_NONE);
  tdm_tensor *second = tdm_tensor_to(first, "cuda:2", TDM_DTYPE_NONE);
  float read[3] = {0};
  assert_ok(tdm_tensor_read(second, read, sizeof read));
  assert_memory_equal(read, values, sizeof(values));
  tdm_tensor_release(here);
  tdm_tensor_release(first);
  tdm_tensor_release(second);
  tdm_context_release(context);
  static const char *const right[] = {"1", "16"};
  for (size_t i = 0; i < TDM_COUNT_OF(right); i++) {
    assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", right[i], 1), 0);
    context = tdm_context_create(NULL);
    assert_non_null(context);
    assert_ok(tdm_device_check(context, i == 0 ? "cuda:0" : "cuda:15"));
    assert_status(tdm_device_check(context, i == 0 ? "cuda:1" : "cuda:16"), TDM_UNAVAILABLE);
    tdm_context_release(context);
  }
  static const char *const wrong[] = {"0", "17", "two"};
  for (size_t i = 0; i < TDM_COUNT_OF(wrong); i++) {
    assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", wrong[i], 1), 0);
    assert_null(tdm_context_create(NULL));
    assert_message("TANDEM_CUDA_LOGICAL");
  }
  assert_int_equal(unsetenv("TANDEM_CUDA_LOGICAL"), 0);
  emulation_set_driver(EMULATED_DRIVER, 2);
  assert_int_equal(emulation_outstanding(), 0);
}

/* ---- Which way copies go --------------------------------------------------------------------- */

/* One copy by the queue for it, of bytes that lie at host. */
static void copy_host(tdm_context *context, const tdm_memory *host, const tdm_memory *device,
                      bool uploads) {
  test_flight *test = test_flight_create(context);
  test->memories[0] = uploads ? *host : *device;
  test->memories[1] = uploads ? *device : *host;
  test->bases[0] = test->memories[0].address;
  test->bases[1] = test->memories[1].address;
  tdm_queue *route = tdm_direct_queue(test->memories[0].device, test->memories[1].device);
  test_copy(test, test_program(test, route), 0, 1);
  test_run(test, false);
  assert_int_equal(test->flight.failure.id, UINT32_MAX);
  test_flight_destroy(test); /* base_count is 0: the memories are the caller's */
}

/* Copies up and down again. Returns the number of copies of each sort. */
static emulation_copies round_trip(tdm_context *context, void *host, size_t bytes) {
  tdm_device *device = test_device(context, "cuda:0");
  const tdm_memory here = {
      .device = test_device(context, "cpu:0"), .address = (tdm_address)host, .bytes = bytes};
  tdm_memory there;
  assert_ok(device->ops->allocate(device, bytes, &there));
  const emulation_copies before = emulation_copies_made();
  for (size_t i = 0; i < bytes; i++)
    ((unsigned char *)host)[i] = (unsigned char)(i * 31 + i / 4096);
  copy_host(context, &here, &there, true);
  memset(host, 0, bytes);
  copy_host(context, &here, &there, false);
  for (size_t i = 0; i < bytes; i++)
    assert_int_equal(((unsigned char *)host)[i], (unsigned char)(i * 31 + i / 4096));
  device->ops->release(device, &there);
  const emulation_copies after = emulation_copies_made();
  return (emulation_copies){.pinned = after.pinned - before.pinned,
                            .pageable = after.pageable - before.pageable};
}

/* CUDA receives only pinned memory, for all sizes. Pageable memory takes one copy per piece. */
static void pageable_memory_is_staged(void **state) {
  (void)state;
  static const struct {
    size_t bytes;
    uint64_t pieces;
  } sizes[] = {{1, 1}, {65536, 1}, {4 << 20, 1}, {(4 << 20) + 1, 2}, {(13 << 20) + 7, 4}};
  tdm_context *context = test_context(NULL);
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
    void *host = malloc(sizes[i].bytes);
    const emulation_copies made = round_trip(context, host, sizes[i].bytes);
    assert_int_equal(made.pinned, 2 * sizes[i].pieces);
    assert_int_equal(made.pageable, 0);
    free(host);
  }
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
}

/* The host is far ahead of the stream, and must not fill a buffer that is not copied yet. */
static void buffers_are_not_reused_early(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  void *host = malloc(13 << 20);
  assert_non_null(host);
  emulation_set_delay(5000000);
  (void)round_trip(context, host, 13 << 20);
  emulation_set_delay(0);
  free(host);
  tdm_context_release(context);
}

/* A host's bytes are in pinned buffers once they are read: the next upload begins though the GPU
 * has not made the first. */
static void an_upload_holds_up_none_behind_it(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *device = test_device(context, "cuda:0");
  test_flight *test = test_flight_create(context);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_UPLOAD]);
  for (int64_t i = 0; i < 2; i++) {
    const uint32_t here = test_base(test, test_device(context, "cpu:0"), 100, 4 + i);
    test_copy(test, program, here, test_base(test, device, 100, 0));
  }
  test_run(test, false); /* opens the stream */
  emulation_hold(true);
  const uint64_t copies = emulation_work_done().copies;
  test_submit(test, false);
  const uint64_t limit_ns = tdm_time_ns() + 60000000000u;
  while (emulation_work_done().copies < copies + 2 && tdm_time_ns() < limit_ns)
    (void)sched_yield();
  assert_int_equal(emulation_work_done().copies, copies + 2);
  emulation_hold(false);
  test_join(test);
  assert_int_equal(test_value(test, 1), 4);
  assert_int_equal(test_value(test, 3), 5);
  test_flight_destroy(test);
  tdm_context_release(context);
}

/* A queue that is held up registers its doorbell with the other queue, at its next mark and when
 * the point is reached. */
static void a_queue_asks_for_its_own_bell(void **state) {
  (void)state;
  enum { BELL = 5 };
  tdm_context *context = test_context(NULL); /* its feeders are not started */
  tdm_device *device = test_device(context, "cuda:0");
  test_flight *test = test_flight_create(context);
  tdm_queue *queues[] = {device->queues[TDM_QUEUE_UPLOAD], device->queues[TDM_QUEUE_COMPUTE]};
  const uint32_t uploads = test_program(test, queues[0]);
  const tdm_command *upload =
      test_copy(test, uploads, test_base(test, test_device(context, "cpu:0"), 1, 0),
                test_base(test, device, 1, 0));
  test_wait(test, test_program(test, queues[1]), upload);
  tdm_submission held = {.flight = &test->flight, .program = 1};
  tdm_cuda_queue_of(queues[1])->head = &held;
  tdm_cuda_queue_ask(tdm_cuda_queue_of(queues[1]), BELL);
  tdm_cuda_queue_of(queues[1])->head = NULL;
  assert_true(atomic_exchange(&tdm_cuda_queue_of(queues[0])->mark_waiters, 0) == 1 << BELL);
  assert_true(atomic_exchange(&queues[0]->waiters, 0) == 1 << BELL);
  test_flight_destroy(test);
  tdm_context_release(context);
}

/* Checks that copies use smaller chunks if the pool cannot provide large ones. */
static void a_low_cap_is_kept(void **state) {
  (void)state;
  enum { BYTES = 3 << 20 };
  void *host = malloc(BYTES);
  assert_non_null(host);
  assert_int_equal(setenv("TANDEM_STAGING_BYTES", "1048576", 1), 0);
  tdm_context *context = test_context(NULL);
  const emulation_copies made = round_trip(context, host, BYTES);
  assert_true(made.pinned >= 2 * 3);
  assert_int_equal(made.pageable, 0);
  tdm_pool_counters counters;
  tdm_pool_counters_read(tdm_context_pool(context), &counters);
  assert_true(counters.peak_bytes <= 1 << 20);
  tdm_context_release(context);
  assert_int_equal(unsetenv("TANDEM_STAGING_BYTES"), 0);
  free(host);
  assert_int_equal(emulation_outstanding(), 0);
}

static void pinned_memory_goes_straight(void **state) {
  (void)state;
  enum { BYTES = (13 << 20) + 7 };
  tdm_context *context = test_context(NULL);
  tdm_pool *pool = tdm_context_pool(context);
  tdm_staging *staging = NULL;
  assert_ok(tdm_pool_take(pool, test_device(context, "cuda:0"), BYTES, &staging));
  assert_true(staging->pinned);
  const emulation_copies made = round_trip(context, staging->memory, BYTES);
  assert_int_equal(made.pinned, 2);
  assert_int_equal(made.pageable, 0);
  tdm_pool_give_back(pool, staging, NULL, 0);
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
}

/* Memory of the caller's own, pinned for the device: straight until it is unpinned. */
static void registered_memory_goes_straight(void **state) {
  (void)state;
  enum { BYTES = 9 << 20 };
  tdm_context *context = test_context(NULL);
  tdm_device *device = test_device(context, "cuda:0");
  char *host = aligned_alloc(4096, BYTES);
  assert_non_null(host);
  assert_ok(device->ops->pin(device, host, BYTES));
  assert_status(device->ops->pin(device, host + 4096, 4096), TDM_INVALID_ARGUMENT);
  emulation_copies made = round_trip(context, host + 4096, BYTES - 8192);
  assert_int_equal(made.pinned, 2);
  assert_int_equal(made.pageable, 0);
  assert_status(device->ops->unpin(device, host, 4096), TDM_INVALID_ARGUMENT);
  assert_ok(device->ops->unpin(device, host, BYTES));
  made = round_trip(context, host, BYTES);
  assert_int_equal(made.pinned, 2 * 3); /* staged again */
  free(host);
  tdm_context_release(context);
  assert_int_equal(emulation_outstanding(), 0);
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* Returns how many event records one more run of the upload requests from the driver. */
static uint64_t records_of(test_flight *test, bool timed) {
  const uint64_t before = emulation_work_done().records;
  test->flight.times = timed ? test->times : NULL;
  test_run(test, false);
  return emulation_work_done().records - before;
}

/* The clocks of the host and of the GPU are compared once in some seconds, not for every command.
 * Timing one takes an event before it and one after it. */
static void times_are_two_events_each(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *device = test_device(context, "cuda:0");
  test_flight *test = test_flight_create(context);
  test_copy(test, test_program(test, device->queues[TDM_QUEUE_UPLOAD]),
            test_base(test, test_device(context, "cpu:0"), 100, 4),
            test_base(test, device, 100, 0));
  (void)records_of(test, true);
  const uint64_t untimed = records_of(test, false);
  for (int i = 0; i < 3; i++)
    assert_int_equal(records_of(test, true), untimed + 2);
  test_flight_destroy(test);
  tdm_context_release(context);
}

/* ---- Several GPUs ---------------------------------------------------------------------------- */

typedef struct peer_log {
  _Atomic int direct;
  _Atomic int staged;
} peer_log;

static void on_log(void *user, tdm_log_level level, const char *message) {
  peer_log *log = user;
  assert_true(level <= TDM_LOG_ERROR);
  if (strcmp(message, "cuda:0 copies from cuda:1 directly") == 0) log->direct++;
  if (strcmp(message, "cuda:1 copies from cuda:0 through the host") == 0) log->staged++;
}

/* The emulated GPU 0 can access GPU 1, but not the other way. */
static void the_log_tells_how_gpus_reach_each_other(void **state) {
  (void)state;
  peer_log log = {0};
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.log = on_log, o.log_user = &log);
  tdm_context *context = tdm_context_create(&options);
  assert_ok(tdm_context_start(context));
  const int64_t values[] = {4, 5};
  int64_t read[2] = {0};
  const emulation_copies before = emulation_copies_made();
  tdm_tensor *here = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 2), values);
  tdm_tensor *first = tdm_tensor_to(here, "cuda:0", TDM_DTYPE_NONE);
  tdm_tensor *second = tdm_tensor_to(first, "cuda:1", TDM_DTYPE_NONE);
  tdm_tensor *third = tdm_tensor_to(second, "cuda:0", TDM_DTYPE_NONE);
  assert_ok(tdm_tensor_read(third, read, sizeof read));
  assert_memory_equal(read, values, sizeof(values));
  assert_int_equal(emulation_copies_made().peer - before.peer, 2);
  tdm_tensor *again = tdm_tensor_to(second, "cuda:0", TDM_DTYPE_NONE);
  assert_ok(tdm_tensor_read(again, read, sizeof read));
  tdm_tensor_release(here);
  tdm_tensor_release(first);
  tdm_tensor_release(second);
  tdm_tensor_release(third);
  tdm_tensor_release(again);
  tdm_context_release(context);
  assert_int_equal(log.direct, 1);
  assert_int_equal(log.staged, 1);
}

/* Both GPUs are used, and nothing goes from one to the other. */
static void gpus_that_exchange_nothing_are_no_peers(void **state) {
  (void)state;
  peer_log log = {0};
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.log = on_log, o.log_user = &log);
  tdm_context *context = tdm_context_create(&options);
  assert_ok(tdm_context_start(context));
  const int64_t value = 4;
  static const char *const names[] = {"cuda:0", "cuda:1"};
  for (size_t i = 0; i < 2; i++) {
    int64_t read = 0;
    tdm_tensor *here = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 1), &value);
    tdm_tensor *there = tdm_tensor_to(here, names[i], TDM_DTYPE_NONE);
    tdm_tensor *copy = tdm_tensor_to(there, names[i], TDM_DTYPE_NONE);
    assert_ok(tdm_tensor_read(copy, &read, sizeof read));
    assert_int_equal(read, value);
    tdm_tensor_release(here);
    tdm_tensor_release(there);
    tdm_tensor_release(copy);
  }
  tdm_context_release(context);
  assert_int_equal(log.direct + log.staged, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(absence_is_told_apart),
      cmocka_unit_test(gpus_are_devices),
      cmocka_unit_test(one_gpu_is_several_logical_devices),
      cmocka_unit_test(pageable_memory_is_staged),
      cmocka_unit_test(buffers_are_not_reused_early),
      cmocka_unit_test(an_upload_holds_up_none_behind_it),
      cmocka_unit_test(a_queue_asks_for_its_own_bell),
      cmocka_unit_test(times_are_two_events_each),
      cmocka_unit_test(a_low_cap_is_kept),
      cmocka_unit_test(pinned_memory_goes_straight),
      cmocka_unit_test(registered_memory_goes_straight),
      cmocka_unit_test(the_log_tells_how_gpus_reach_each_other),
      cmocka_unit_test(gpus_that_exchange_nothing_are_no_peers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
