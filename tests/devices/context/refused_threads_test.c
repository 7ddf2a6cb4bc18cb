/* A context whose threads the system refuses reports it, and starts later when the system permits
 * them. A failed start releases its resources. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include <pthread.h>

#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { REFUSED = 2 * TDM_MAX_WAITERS };

/* Sets the stack size of every new thread. */
static void set_stack_bytes(size_t bytes) {
  pthread_attr_t attributes;
  assert_int_equal(pthread_getattr_default_np(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, bytes), 0);
  assert_int_equal(pthread_setattr_default_np(&attributes), 0);
  (void)pthread_attr_destroy(&attributes);
}

static size_t stack_bytes(void) {
  pthread_attr_t attributes;
  size_t bytes = 0;
  assert_int_equal(pthread_getattr_default_np(&attributes), 0);
  assert_int_equal(pthread_attr_getstacksize(&attributes, &bytes), 0);
  (void)pthread_attr_destroy(&attributes);
  return bytes;
}

static void a_start_that_failed_takes_nothing(void **state) {
  (void)state;
  tdm_faulty_allocator *counted = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(counted);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1,
              /* all cores: with a team */ o.sim = "latency_us=1,gigabytes_per_second=1");
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  const size_t before = stack_bytes();
  set_stack_bytes((size_t)1 << 47); /* more bytes than a process has addresses */
  for (int i = 0; i < REFUSED; i++) {
    assert_status(tdm_context_start(context), TDM_OUT_OF_MEMORY);
    assert_message("cannot start thread tdm-cpu:0");
  }
  set_stack_bytes(before);
  bool seen[TDM_MAX_WAITERS] = {false};
  for (int i = 0; i < TDM_MAX_WAITERS; i++) {
    const uint32_t bell = tdm_context_bell_acquire(context);
    assert_false(seen[bell]); /* the bell is not in use */
    seen[bell] = true;
  }
  for (uint32_t bell = 0; bell < TDM_MAX_WAITERS; bell++)
    tdm_context_bell_release(context, bell);
  assert_ok(tdm_context_start(context));
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(counted), 0);
  tdm_faulty_allocator_destroy(counted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_start_that_failed_takes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
