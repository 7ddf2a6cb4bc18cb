/* Threads: names truncated to the kernel's limit, no signals for threads of the library, sufficient
 * stacks. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/thread.h"

typedef struct observation {
  pthread_barrier_t named; /* the name is set by the starter, after the start */
  char name[16];
  int term_blocked;
} observation;

static void *observe(void *user) {
  observation *seen = user;
  (void)pthread_barrier_wait(&seen->named);
  (void)pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
  sigset_t blocked;
  (void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  seen->term_blocked = sigismember(&blocked, SIGTERM);
  return seen;
}

static void a_thread_has_its_name_and_no_signals(void **state) {
  (void)state;
  observation seen;
  memset(&seen, 0, sizeof(seen));
  assert_int_equal(pthread_barrier_init(&seen.named, NULL, 2), 0);
  pthread_t thread;
  assert_int_equal(tdm_thread_start(&thread, "tandem-loader-123", observe, &seen), TDM_OK);
  (void)pthread_barrier_wait(&seen.named);
  void *answer = NULL;
  assert_int_equal(pthread_join(thread, &answer), 0);
  assert_ptr_equal(answer, &seen);
  assert_string_equal(seen.name, "tandem-loader-1");
  assert_int_equal(seen.term_blocked, 1);
  sigset_t blocked;
  assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
  assert_int_equal(sigismember(&blocked, SIGTERM), 0);
  assert_int_equal(pthread_barrier_destroy(&seen.named), 0);
}

static void *measure_stack(void *user) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return NULL;
  (void)pthread_attr_getstacksize(&attributes, user);
  (void)pthread_attr_destroy(&attributes);
  return NULL;
}

static void a_stack_is_large_enough_whatever_the_limit(void **state) {
  (void)state;
  pthread_attr_t before;
  assert_int_equal(pthread_getattr_default_np(&before), 0);
  const size_t kib = 1024;
  const size_t limits[] = {256 * kib, 4096 * kib};
  for (size_t i = 0; i < 2; i++) {
    pthread_attr_t small;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, limits[i]), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    pthread_t thread;
    size_t bytes = 0;
    assert_int_equal(tdm_thread_start(&thread, "stack", measure_stack, &bytes), TDM_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(bytes, i == 0 ? 1024 * kib : limits[i], SIZE_MAX);
    (void)pthread_attr_destroy(&small);
  }
  assert_int_equal(pthread_setattr_default_np(&before), 0);
  (void)pthread_attr_destroy(&before);
}

static void *read_slack(void *user) {
  int *slack_ns = user;
  slack_ns[0] = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  tdm_thread_sleep_exactly();
  slack_ns[1] = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  return NULL;
}

static void a_thread_sleeps_exactly_that_asks_for_it(void **state) {
  (void)state;
  const int before_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  pthread_t thread;
  int slack_ns[2] = {0, 0};
  assert_int_equal(tdm_thread_start(&thread, "slack", read_slack, slack_ns), TDM_OK);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(slack_ns[0], before_ns);
  assert_in_range(slack_ns[1], 1, 1000);
  assert_int_equal(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), before_ns);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_has_its_name_and_no_signals),
      cmocka_unit_test(a_stack_is_large_enough_whatever_the_limit),
      cmocka_unit_test(a_thread_sleeps_exactly_that_asks_for_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
