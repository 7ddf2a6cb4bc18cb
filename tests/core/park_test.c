/* Parking: time, timeouts, rings before and during sleep, and two threads that take turns often
 * enough that a lost wake-up would hang the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "core/park.h"

static void time_goes_forward(void **state) {
  (void)state;
  const uint64_t first = tdm_time_ns();
  assert_true(first > 0);
  assert_true(tdm_time_ns() >= first);
}

static void a_ring_since_the_reading_lets_nobody_sleep(void **state) {
  (void)state;
  tdm_doorbell bell = {0};
  const uint32_t seen = tdm_doorbell_read(&bell);
  tdm_doorbell_ring(&bell);
  assert_int_not_equal(tdm_doorbell_read(&bell), seen);
  tdm_doorbell_park(&bell, seen, -1); /* returns at once, or the test hangs */
  assert_int_equal(atomic_load(&bell.sleepers), 0);
}

static void timeouts_end_a_sleep_and_not_before(void **state) {
  (void)state;
  tdm_doorbell bell = {0};
  tdm_doorbell_park(&bell, tdm_doorbell_read(&bell), 0);
  const uint64_t begin = tdm_time_ns();
  tdm_doorbell_park(&bell, tdm_doorbell_read(&bell), 20000000);
  assert_true(tdm_time_ns() - begin >= 20000000);
  assert_int_equal(atomic_load(&bell.sleepers), 0);
}

enum { TURNS = 20000 };

typedef struct game {
  tdm_doorbell bell;
  _Atomic uint32_t turn;
} game;

static void wait_until(game *both, uint32_t turn) {
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(&both->bell);
    if (atomic_load(&both->turn) == turn) return;
    tdm_doorbell_park(&both->bell, seen, -1);
  }
}

static void *play_odd(void *user) {
  game *both = user;
  for (uint32_t turn = 1; turn < TURNS; turn += 2) {
    wait_until(both, turn);
    atomic_store(&both->turn, turn + 1);
    tdm_doorbell_ring(&both->bell);
  }
  return NULL;
}

static void no_ring_is_lost_between_two_threads(void **state) {
  (void)state;
  game both = {0};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, play_odd, &both), 0);
  for (uint32_t turn = 0; turn < TURNS; turn += 2) {
    wait_until(&both, turn);
    atomic_store(&both.turn, turn + 1);
    tdm_doorbell_ring(&both.bell);
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(atomic_load(&both.turn), TURNS);
  assert_int_equal(atomic_load(&both.bell.rings), TURNS);
  assert_int_equal(atomic_load(&both.bell.sleepers), 0);
}

static void *wait_for_one(void *user) {
  wait_until(user, 1);
  return NULL;
}

static void a_ring_wakes_all(void **state) {
  (void)state;
  game all = {0};
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, wait_for_one, &all), 0);
  while (atomic_load(&all.bell.sleepers) < THREADS)
    tdm_spin_pause();
  atomic_store(&all.turn, 1);
  tdm_doorbell_ring(&all.bell);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(atomic_load(&all.bell.sleepers), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(time_goes_forward),
      cmocka_unit_test(a_ring_since_the_reading_lets_nobody_sleep),
      cmocka_unit_test(timeouts_end_a_sleep_and_not_before),
      cmocka_unit_test(no_ring_is_lost_between_two_threads),
      cmocka_unit_test(a_ring_wakes_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
