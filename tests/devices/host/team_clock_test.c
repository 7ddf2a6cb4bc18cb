/* A team excludes a thread and includes it again, by clocks that the test sets. A thread whose
 * pieces cost their own time stays. The time without a thread is in proportion to its loss. */
#include <stdatomic.h>
#include <time.h>

#include "devices/host/team.h"
#include "tests/devices/support.h"

static _Atomic uint64_t now_ns = 1000000000;
static _Thread_local uint64_t processor_ns;

/* The linker replaces clock_gettime by the first function (BUILD); the second is the original. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time);
int __real_clock_gettime(clockid_t clock, struct timespec *out_time);

/* Returns the simulated clock of all threads, or the processor time of the calling thread. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time) {
  if (clock != CLOCK_MONOTONIC && clock != CLOCK_THREAD_CPUTIME_ID)
    return __real_clock_gettime(clock, out_time);
  const uint64_t ns = clock == CLOCK_MONOTONIC ? atomic_load(&now_ns) : processor_ns;
  *out_time = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  return 0;
}

enum { PIECES = 16 };

/* The cost of each of PIECES pieces. */
typedef struct piece_cost {
  uint64_t all_ns;       /* time of the common clock */
  uint64_t processor_ns; /* processor time of the thread */
} piece_cost;

static void cost(void *user, int64_t begin, int64_t end) {
  const piece_cost *piece = user;
  atomic_fetch_add(&now_ns, (uint64_t)(end - begin) * piece->all_ns);
  processor_ns += (uint64_t)(end - begin) * piece->processor_ns;
}

static void run_region(tdm_team *team, piece_cost piece) {
  tdm_team_run(team, PIECES, 1, cost, &piece);
}

static tdm_team *make_team(size_t size) {
  static tdm_allocator allocator;
  allocator = tdm_allocator_default();
  tdm_team *team = NULL;
  assert_ok(tdm_team_create(&allocator, NULL, NULL, size, &team));
  return team;
}

/* Two threads that work all the time: a region takes half of the cost of its pieces. */
static const piece_cost shared = {50000, 100000};
/* The cost of its pieces, and 10 us more: one thread would suffice. */
static const piece_cost late = {100625, 100000};
/* Much longer than that. */
static const piece_cost stuck = {10000000, 100000};

static void threads_that_share_the_work_stay(void **state) {
  (void)state;
  tdm_team *team = make_team(2);
  for (int i = 0; i < 1000; i++) {
    run_region(team, shared);
    assert_int_equal(tdm_team_active(team), 2);
  }
  tdm_team_destroy(team);
}

/* Returns the number of regions until one thread rests. */
static int count_to_rest(tdm_team *team, piece_cost piece) {
  const size_t active = tdm_team_active(team);
  int count = 0;
  while (tdm_team_active(team) == active && count < 10000) {
    run_region(team, piece);
    count++;
  }
  return count;
}

/* 10 us lost a region: the first credit and half a millisecond of debt are exceeded in the 451st.
 */
static void small_losses_add_up(void **state) {
  (void)state;
  tdm_team *team = make_team(3);
  const piece_cost of_three = {50625, 100000}; /* the time of two threads, plus 10 us */
  assert_int_equal(count_to_rest(team, of_three), 451);
  assert_int_equal(tdm_team_active(team), 2);
  const piece_cost slow = {1000000, 100000};
  assert_int_equal(count_to_rest(team, slow), 2); /* while the third one rests */
  assert_int_equal(tdm_team_active(team), 1);
  tdm_team_destroy(team);
}

/* Gains count up to twenty milliseconds, with an initial credit of four: 50 us for each piece. */
static void gains_make_up_for_losses(void **state) {
  (void)state;
  for (int gains = 1; gains <= 24; gains++) {
    tdm_team *team = make_team(2);
    for (int i = 0; i < gains; i++)
      run_region(team, shared);
    const int credit_us = 4000 + 800 * gains < 20000 ? 4000 + 800 * gains : 20000;
    assert_int_equal(count_to_rest(team, late), (500 + credit_us) / 10 + 1);
    tdm_team_destroy(team);
  }
}

/* One interruption is no habit: neither in the beginning, nor while all threads are tried again,
 * nor several between gains. */
static void a_late_region_is_no_reason_to_rest(void **state) {
  (void)state;
  tdm_team *team = make_team(2);
  run_region(team, stuck);
  assert_int_equal(tdm_team_active(team), 2);
  for (int i = 0; i < 40; i++)
    run_region(team, shared);
  for (int i = 0; i < 5; i++)
    run_region(team, stuck);
  assert_int_equal(tdm_team_active(team), 2);
  assert_int_equal(count_to_rest(team, stuck), 1);
  atomic_fetch_add(&now_ns, UINT64_C(1000000000));
  run_region(team, stuck);
  assert_int_equal(tdm_team_active(team), 2);
  tdm_team_destroy(team);
}

/* The most that one region counts is 4 ms; it rests for 20 times what two have lost, the next time
 * for 40 times, and 160 times at most. */
static void a_rest_is_longer_each_time(void **state) {
  (void)state;
  tdm_team *team = make_team(2);
  for (uint64_t times = 20; times <= 640; times *= 2) {
    assert_int_equal(count_to_rest(team, stuck), 2);
    const uint64_t rest_ns = 8000000 * (times < 160 ? times : 160);
    const uint64_t until_ns = atomic_load(&now_ns) + rest_ns;
    atomic_store(&now_ns, until_ns - 1);
    run_region(team, (piece_cost){0, 0});
    assert_int_equal(tdm_team_active(team), 1);
    atomic_store(&now_ns, until_ns);
    if (times < 640) {
      run_region(team, (piece_cost){0, 0}); /* all threads again */
      continue;
    }
    run_region(team, shared); /* and more than enough gains: as in the beginning */
    run_region(team, shared);
    run_region(team, shared);
    assert_int_equal(tdm_team_active(team), 2);
    assert_int_equal(count_to_rest(team, late), 691);
    atomic_fetch_add(&now_ns, 20 * 4510000 - 1);
    run_region(team, (piece_cost){0, 0});
    assert_int_equal(tdm_team_active(team), 1);
    atomic_fetch_add(&now_ns, 1);
    run_region(team, shared);
    assert_int_equal(tdm_team_active(team), 2);
  }
  tdm_team_destroy(team);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_that_share_the_work_stay),
      cmocka_unit_test(small_losses_add_up),
      cmocka_unit_test(gains_make_up_for_losses),
      cmocka_unit_test(a_late_region_is_no_reason_to_rest),
      cmocka_unit_test(a_rest_is_longer_each_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
