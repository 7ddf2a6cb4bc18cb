/* The team: ranges cover the work exactly, their bounds keep the grain, small work stays on the
 * calling thread, and large work reaches the others. */
#include "devices/host/team.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/support.h"

typedef struct covered {
  _Atomic int touched[1000];
  int64_t count;
  int64_t grain;
  _Atomic bool misaligned;
  _Atomic int calls;
  _Atomic int others; /* calls on other threads than the opening one */
  pthread_t opener;
} covered;

static void cover(void *user, int64_t begin, int64_t end) {
  covered *work = user;
  if (begin % work->grain != 0 || begin >= end) atomic_store(&work->misaligned, true);
  if (end % work->grain != 0 && end != work->count) atomic_store(&work->misaligned, true);
  for (int64_t i = begin; i < end; ++i)
    atomic_fetch_add(&work->touched[i], 1);
  atomic_fetch_add(&work->calls, 1);
  if (!pthread_equal(pthread_self(), work->opener)) atomic_fetch_add(&work->others, 1);
}

static tdm_team *make_team(size_t size) {
  static tdm_allocator allocator;
  allocator = tdm_allocator_default();
  tdm_team *team = NULL;
  assert_ok(tdm_team_create(&allocator, NULL, NULL, size, &team));
  assert_int_equal(tdm_team_size(team), size);
  return team;
}

static void run(tdm_team *team, covered *work, int64_t count, int64_t grain) {
  memset(work, 0, sizeof(*work));
  work->count = count;
  work->grain = grain;
  work->opener = pthread_self();
  tdm_team_run(team, count, grain, cover, work);
  for (int64_t i = 0; i < 1000; ++i)
    assert_int_equal(work->touched[i], i < count);
  assert_false(work->misaligned);
}

static void work_is_covered_once(void **state) {
  (void)state;
  covered *work = malloc(sizeof(*work));
  assert_non_null(work);
  tdm_team *team = make_team(3);
  for (int64_t count = 0; count <= 1000; count += count < 40 ? 1 : 53) {
    for (int64_t grain = 1; grain <= 64; grain *= 2) {
      run(team, work, count, grain);
      if (count <= grain) assert_int_equal(work->others, 0);
      run(NULL, work, count, grain);
      assert_int_equal(work->calls, count > 0);
      assert_int_equal(work->others, 0);
    }
  }
  tdm_team_destroy(team);
  tdm_team_destroy(NULL);
  assert_int_equal(tdm_team_size(NULL), 1);
  free(work);
}

typedef struct meeting {
  _Atomic int arrived;
} meeting;

/* Returns only once two ranges run at the same time. */
static void meet(void *user, int64_t begin, int64_t end) {
  (void)begin;
  (void)end;
  meeting *both = user;
  atomic_fetch_add(&both->arrived, 1);
  while (atomic_load(&both->arrived) < 2)
    (void)sched_yield();
}

static void ranges_run_at_the_same_time(void **state) {
  (void)state;
  tdm_team *team = make_team(2);
  for (int repeat = 0; repeat < 20; ++repeat) {
    meeting both = {0};
    tdm_team_run(team, 2, 1, meet, &both);
    assert_int_equal(both.arrived, 2);
  }
  tdm_team_destroy(team);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_is_covered_once),
      cmocka_unit_test(ranges_run_at_the_same_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
