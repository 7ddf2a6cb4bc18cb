/* The emulated driver behaves like CUDA's: order on streams and between them, the time at which
 * pageable and pinned memory is read and written, access to memory by devices, leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/sanitized.h"

enum { BYTES = 1000 };

typedef struct fixture {
  const tdm_cuda_api *api;
  tdm_cuda_stream streams[2];
  tdm_cuda_event event;
  char *device;
  char *pinned;
} fixture;

static int set_up(void **state) {
  fixture *mine = calloc(1, sizeof *mine);
  assert_non_null(mine);
  const tdm_cuda_api *api = mine->api = tdm_cuda_api_linked();
  void *memory = NULL;
  assert_int_equal(api->device_set(0), 0);
  for (size_t i = 0; i < 2; i++)
    assert_int_equal(api->stream_create(&mine->streams[i], false), 0);
  assert_int_equal(api->event_create(&mine->event), 0);
  assert_int_equal(api->allocate(&memory, BYTES), 0);
  mine->device = memory;
  assert_int_equal(api->allocate_pinned(&memory, BYTES), 0);
  mine->pinned = memory;
  *state = mine;
  return 0;
}

static int tear_down(void **state) {
  fixture *mine = *state;
  emulation_hold(false);
  for (size_t i = 0; i < 2; i++)
    assert_int_equal(mine->api->stream_destroy(mine->streams[i]), 0);
  assert_int_equal(mine->api->event_destroy(mine->event), 0);
  assert_int_equal(mine->api->release(mine->device), 0);
  assert_int_equal(emulation_outstanding(), 1);
  assert_int_equal(mine->api->release_pinned(mine->pinned), 0);
  assert_int_equal(emulation_outstanding(), 0);
  free(mine);
  return 0;
}

static char first_byte(const fixture *mine) {
  char byte = 0;
  assert_int_equal(mine->api->copy(&byte, mine->device, 1, TDM_CUDA_TO_HOST), 0);
  return byte;
}

/* Uploads on a stream that does not execute until it is released. */
static void upload_held(const fixture *mine, const void *from) {
  emulation_hold(true);
  assert_int_equal(
      mine->api->copy_async(mine->device, from, BYTES, TDM_CUDA_TO_DEVICE, mine->streams[0]), 0);
}

static void a_pageable_source_is_read_at_once(void **state) {
  const fixture *mine = *state;
  char *host = malloc(BYTES);
  assert_non_null(host);
  memset(host, 1, BYTES);
  upload_held(mine, host);
  memset(host, 2, BYTES);
  emulation_hold(false);
  assert_int_equal(mine->api->stream_synchronize(mine->streams[0]), 0);
  assert_int_equal(first_byte(mine), 1);
  free(host);
}

/* For this reason callers must not change the source before. The test shows the fault itself. */
static void a_pinned_source_is_read_later(void **state) {
  if (test_is_thread_sanitized()) skip(); /* it would end the program */
  const fixture *mine = *state;
  memset(mine->pinned, 1, BYTES);
  upload_held(mine, mine->pinned);
  memset(mine->pinned, 2, BYTES);
  emulation_hold(false);
  assert_int_equal(mine->api->stream_synchronize(mine->streams[0]), 0);
  assert_int_equal(first_byte(mine), 2);
}

static void a_pageable_target_is_written_before_the_call_returns(void **state) {
  const fixture *mine = *state;
  char host[BYTES] = {0};
  assert_int_equal(mine->api->fill_async(mine->device, 7, BYTES, mine->streams[0]), 0);
  assert_int_equal(
      mine->api->copy_async(host, mine->device, BYTES, TDM_CUDA_TO_HOST, mine->streams[0]), 0);
  assert_int_equal(host[BYTES - 1], 7);
}

static void a_stream_waits_for_what_was_recorded(void **state) {
  const fixture *mine = *state;
  emulation_hold(true);
  assert_int_equal(mine->api->event_query(mine->event), 0); /* nothing was recorded */
  assert_int_equal(mine->api->fill_async(mine->device, 7, BYTES, mine->streams[0]), 0);
  assert_int_equal(mine->api->event_record(mine->event, mine->streams[0]), 0);
  assert_int_equal(mine->api->event_query(mine->event), TDM_CUDA_NOT_READY);
  assert_int_equal(mine->api->stream_wait(mine->streams[1], mine->event), 0);
  assert_int_equal(
      mine->api->copy_async(mine->pinned, mine->device, BYTES, TDM_CUDA_TO_HOST, mine->streams[1]),
      0);
  emulation_hold(false);
  assert_int_equal(mine->api->stream_synchronize(mine->streams[1]), 0);
  assert_int_equal(mine->pinned[0], 7);
  assert_int_equal(mine->api->event_query(mine->event), 0);
  assert_int_equal(mine->api->event_synchronize(mine->event), 0);
}

static void memory_has_bounds_and_an_owner(void **state) {
  const fixture *mine = *state;
  const tdm_cuda_api *api = mine->api;
  char host[BYTES + 1] = {0};
  assert_int_equal(api->copy(mine->device, host, BYTES + 1, TDM_CUDA_TO_DEVICE),
                   TDM_CUDA_INVALID_VALUE);
  assert_int_equal(api->copy(host, mine->device + BYTES, 1, TDM_CUDA_TO_HOST),
                   TDM_CUDA_INVALID_VALUE);
  void *other = NULL;
  assert_int_equal(api->device_set(1), 0);
  assert_int_equal(api->allocate(&other, BYTES), 0);
  assert_int_equal(api->device_set(0), 0);
  assert_int_equal(api->fill_async(other, 1, 1, mine->streams[0]), TDM_CUDA_INVALID_VALUE);
  assert_int_equal(api->copy_peer_async(other, 1, mine->device, 0, BYTES, mine->streams[0]), 0);
  assert_int_equal(api->copy_peer_async(other, 0, mine->device, 0, BYTES, mine->streams[0]),
                   TDM_CUDA_INVALID_VALUE);
  assert_int_equal(api->stream_synchronize(mine->streams[0]), 0);
  assert_int_equal(api->release(other), 0);
  assert_int_equal(api->device_set(2), TDM_CUDA_INVALID_VALUE);
}

static void pinning_is_not_done_twice(void **state) {
  const fixture *mine = *state;
  char *memory = aligned_alloc(4096, 8192);
  assert_non_null(memory);
  const size_t before = emulation_outstanding();
  assert_int_equal(mine->api->pin(memory, 8192), 0);
  assert_true(emulated_is_pinned(memory + 100, 8092));
  assert_false(emulated_is_pinned(memory + 100, 8093));
  assert_int_not_equal(mine->api->pin(memory, 8192), 0);
  assert_int_not_equal(mine->api->unpin(memory + 4096), 0);
  assert_int_equal(mine->api->unpin(memory), 0);
  assert_int_not_equal(mine->api->unpin(memory), 0);
  assert_int_equal(emulation_outstanding(), before);
  free(memory);
}

static void kernel(const void *function, void **arguments) {
  (void)function;
  (void)arguments;
}

/* Returns true if a launch with this pointer ends the process. */
static bool dies_by(const fixture *mine, const void *pointer) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(2);
    void *arguments[] = {&pointer};
    const size_t bytes = sizeof pointer;
    const tdm_cuda_launch launch = {.arguments = arguments,
                                    .argument_bytes = &bytes,
                                    .argument_count = 1,
                                    .pointer_arguments = 1,
                                    .call = kernel,
                                    .name = "test",
                                    .blocks = 1,
                                    .threads = 1};
    _exit(mine->api->launch(&launch)); /* no stream: at once, on this thread */
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) assert_int_equal(WEXITSTATUS(status), 0);
  return WIFSIGNALED(status);
}

static void a_kernel_may_touch_its_device_and_pinned_memory(void **state) {
  const fixture *mine = *state;
  char host = 0;
  assert_false(dies_by(mine, mine->device));
  assert_false(dies_by(mine, mine->device + BYTES - 1));
  assert_false(dies_by(mine, mine->pinned));
  assert_false(dies_by(mine, NULL));
  assert_true(dies_by(mine, mine->device + BYTES));
  assert_true(dies_by(mine, &host));
}

static void calls_fail_on_demand(void **state) {
  const fixture *mine = *state;
  tdm_cuda_properties properties;
  emulation_fail_at(2, TDM_CUDA_OUT_OF_MEMORY, false);
  assert_int_equal(mine->api->properties(0, &properties), 0);
  assert_int_equal(mine->api->properties(0, &properties), TDM_CUDA_OUT_OF_MEMORY);
  assert_int_equal(mine->api->properties(0, &properties), 0);
  assert_int_equal(emulation_calls(), 3);
  emulation_fail_at(1, 1, true);
  assert_int_equal(mine->api->properties(0, &properties), 1);
  assert_int_equal(mine->api->properties(0, &properties), 1);
  emulation_fail_at(0, 0, false);
  emulation_lose(true);
  assert_int_equal(mine->api->properties(0, &properties), EMULATED_LOST);
  emulation_lose(false);
  assert_int_equal(mine->api->properties(0, &properties), 0);
}

/* Choosing a device opens it, going back by the driver's stack does not. */
static void choosing_a_device_opens_it(void **state) {
  const fixture *mine = *state;
  const tdm_cuda_api *api = mine->api;
  tdm_cuda_context context = NULL;
  void *memory = NULL;
  emulation_close();
  assert_int_equal(api->context_retain(&context, 1), 0);
  assert_int_equal(api->context_push(context), 0);
  assert_int_equal(api->allocate(&memory, 8), 0);
  assert_int_equal(api->context_pop(), 0);
  assert_true(emulation_opened(1));
  assert_false(emulation_opened(0));
  assert_int_equal(api->release(memory), 0); /* this thread has GPU 0 again, which that opens */
  assert_true(emulation_opened(0));
  emulation_close();
  assert_int_equal(api->device_set(0), 0);
  assert_true(emulation_opened(0));
}

/* A fault is reported by later calls of any sort to that GPU, and not by calls to others. */
static void a_fault_surfaces_in_later_calls(void **state) {
  const fixture *mine = *state;
  const tdm_cuda_api *api = mine->api;
  const void *pointer = mine->device;
  void *arguments[] = {&pointer};
  const size_t bytes = sizeof pointer;
  const tdm_cuda_launch launch = {.arguments = arguments,
                                  .argument_bytes = &bytes,
                                  .argument_count = 1,
                                  .pointer_arguments = 1,
                                  .call = kernel,
                                  .name = "test",
                                  .blocks = 1,
                                  .threads = 1,
                                  .stream = mine->streams[0]};
  const emulation_work before = emulation_work_done();
  void *memory = NULL;
  emulation_fault_at(2, 0, TDM_CUDA_ILLEGAL_ADDRESS);
  emulation_hold(true);
  for (int i = 0; i < 3; i++)
    assert_int_equal(api->launch(&launch), 0);
  assert_int_equal(api->event_record(mine->event, mine->streams[0]), 0);
  emulation_hold(false);
  assert_int_equal(api->event_synchronize(mine->event), TDM_CUDA_ILLEGAL_ADDRESS);
  assert_int_equal(api->stream_query(mine->streams[1]), TDM_CUDA_ILLEGAL_ADDRESS);
  assert_int_equal(api->allocate(&memory, 8), TDM_CUDA_ILLEGAL_ADDRESS);
  assert_int_equal(api->device_set(1), 0);
  assert_int_equal(api->allocate(&memory, 8), 0);
  assert_int_equal(api->release(memory), 0);
  emulation_fault_at(0, 0, 0);
  assert_int_equal(api->device_set(0), 0);
  const emulation_work after = emulation_work_done();
  assert_int_equal(after.launches - before.launches, 3);
  assert_int_equal(after.records - before.records, 1);
  assert_int_equal(after.host_waits - before.host_waits, 1);
  assert_int_equal(after.holds - before.holds, 3);
}

/* Returns true if the release of a block detects writes after its end. */
static bool release_dies(const fixture *mine, size_t bytes) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(2);
    void *memory = NULL;
    if (mine->api->allocate(&memory, 100) != 0) _exit(3);
    memset(emulated_block(memory, 1, 0), 0, bytes);
    _exit(mine->api->release(memory));
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) assert_int_equal(WEXITSTATUS(status), 0);
  return WIFSIGNALED(status);
}

static void an_overrun_is_found_at_the_end(void **state) {
  const fixture *mine = *state;
  assert_false(release_dies(mine, 100));
  assert_true(release_dies(mine, 101));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(a_pageable_source_is_read_at_once),
      CASE(a_pinned_source_is_read_later),
      CASE(a_pageable_target_is_written_before_the_call_returns),
      CASE(a_stream_waits_for_what_was_recorded),
      CASE(memory_has_bounds_and_an_owner),
      CASE(pinning_is_not_done_twice),
      CASE(a_kernel_may_touch_its_device_and_pinned_memory),
      CASE(calls_fail_on_demand),
      CASE(choosing_a_device_opens_it),
      CASE(a_fault_surfaces_in_later_calls),
      CASE(an_overrun_is_found_at_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
