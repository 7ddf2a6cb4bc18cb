/* The team: ranges cover the work exactly, their bounds keep the grain, small work stays on the
 * calling thread, and large work reaches the others. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include "devices/host/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
  for (int64_t i = begin; i < end; i++)
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
  memset(work, 0, sizeof *work);
  work->count = count;
  work->grain = grain;
  work->opener = pthread_self();
  tdm_team_run(team, count, grain, cover, work);
  for (int64_t i = 0; i < 1000; i++)
    assert_int_equal(work->touched[i], i < count);
  assert_false(work->misaligned);
}

static void work_is_covered_once(void **state) {
  (void)state;
  covered *work = malloc(sizeof *work);
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

enum { NESTED_ROWS = 64, NESTED_COLUMNS = 50 };

typedef struct nested {
  tdm_team *team;
  _Atomic int touched[NESTED_ROWS][NESTED_COLUMNS];
} nested;

static void touch_columns(void *user, int64_t begin, int64_t end) {
  _Atomic int *row = user;
  for (int64_t i = begin; i < end; i++)
    atomic_fetch_add(&row[i], 1);
}

static void touch_rows(void *user, int64_t begin, int64_t end) {
  nested *work = user;
  for (int64_t i = begin; i < end; i++)
    tdm_team_run(work->team, NESTED_COLUMNS, 1, touch_columns, work->touched[i]);
}

/* A part that shares its own work out, as a function that a kernel calls may. */
static void a_region_within_another_is_one_call(void **state) {
  (void)state;
  nested *work = malloc(sizeof *work);
  assert_non_null(work);
  tdm_team *team = make_team(3);
  for (int times = 0; times < 100; times++) {
    memset(work, 0, sizeof *work);
    work->team = team;
    tdm_team_run(team, NESTED_ROWS, 1, touch_rows, work);
    for (int row = 0; row < NESTED_ROWS; row++)
      for (int column = 0; column < NESTED_COLUMNS; column++)
        assert_int_equal(work->touched[row][column], 1);
  }
  tdm_team_destroy(team);
  free(work);
}

typedef struct meeting {
  _Atomic int arrived;
  _Atomic bool met;
} meeting;

/* Returns once two ranges run at the same time, or after a while. */
static void meet(void *user, int64_t begin, int64_t end) {
  (void)begin;
  (void)end;
  meeting *both = user;
  atomic_fetch_add(&both->arrived, 1);
  const uint64_t begin_ns = tdm_time_ns();
  while (atomic_load(&both->arrived) < 2 && tdm_time_ns() - begin_ns < 100000000)
    (void)sched_yield();
  if (atomic_load(&both->arrived) == 2) atomic_store(&both->met, true);
}

static void ranges_run_at_the_same_time(void **state) {
  (void)state;
  tdm_team *team = make_team(2);
  bool met = false; /* a team whose thread comes late may rest for a while */
  for (int repeat = 0; repeat < 2000 && !met; repeat++) {
    meeting both = {0};
    tdm_team_run(team, 2, 1, meet, &both);
    met = atomic_load(&both.met);
  }
  assert_true(met);
  tdm_team_destroy(team);
}

/* Delays of threads other than the opening one. */
typedef struct lateness {
  pthread_t opener;
  _Atomic bool late;
  _Atomic int others;
} lateness;

static void be_late(void *user, int64_t begin, int64_t end) {
  lateness *work = user;
  (void)begin;
  (void)end;
  const bool other = !pthread_equal(pthread_self(), work->opener);
  atomic_fetch_add(&work->others, other);
  const struct timespec slow = {.tv_nsec = 3000000};
  if (other && atomic_load(&work->late)) (void)nanosleep(&slow, NULL);
  volatile double sum = 0;
  for (int i = 0; i < 20000; i++)
    sum = sum + i;
}

static void run_late(tdm_team *team, lateness *work) {
  tdm_team_run(team, 16, 1, be_late, work);
}

/* Runs regions until a thread of two is left out. */
static void run_until_it_rests(tdm_team *team, lateness *work) {
  for (int regions = 0; tdm_team_active(team) == 2; regions++) {
    assert_true(regions < 500);
    run_late(team, work);
  }
  assert_int_equal(tdm_team_active(team), 1);
  assert_int_equal(tdm_team_size(team), 2);
}

/* Checks that a thread that delays regions is left out and used again later. */
static void a_late_thread_is_left_out_for_a_while(void **state) {
  (void)state;
  tdm_team *team = make_team(2);
  lateness work = {.opener = pthread_self(), .late = true};
  for (int rests = 0; rests == 0 || atomic_load(&work.others) > 0; rests++) {
    assert_true(rests < 50); /* this thread may be delayed for as long as a rest takes */
    run_until_it_rests(team, &work);
    atomic_store(&work.others, 0);
    run_late(team, &work);
  }
  atomic_store(&work.late, false);
  const uint64_t begin_ns = tdm_time_ns();
  while (atomic_load(&work.others) == 0) {
    assert_true(tdm_time_ns() - begin_ns < 60000000000u);
    run_late(team, &work);
  }
  tdm_team_destroy(team);
}

/* After one of three threads leaves, two continue, and no piece is lost. */
static void a_team_shrinks_by_one_thread(void **state) {
  (void)state;
  tdm_team *team = make_team(3);
  lateness work = {.opener = pthread_self(), .late = true};
  covered *all = malloc(sizeof *all);
  assert_non_null(all);
  for (int regions = 0; tdm_team_active(team) == 3; regions++) {
    assert_true(regions < 500);
    run_late(team, &work);
  }
  assert_int_equal(tdm_team_active(team), 2);
  for (int i = 0; i < 40; i++)
    run(team, all, 777, 1);
  free(all);
  tdm_team_destroy(team);
}

/* OpenMP's threads have stacks by its variables, or by those of the process. Too small ones are
 * refused. */
static void small_stacks_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool suffices;
  } cases[] = {{"64", false},  {"64k", false},     {"511 K", false},   {"512", true},
               {"1m", true},   {"1 G", true},      {"524287B", false}, {"524288b", true},
               {"much", true}, {"12 stones", true}};
  pthread_attr_t before, small;
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    assert_int_equal(setenv("OMP_STACKSIZE", cases[i].text, 1), 0);
    const tdm_status status = tdm_team_check_stacks("cpu:0");
    if ((status == TDM_OK) != cases[i].suffices) fail_msg("\"%s\"", cases[i].text);
    if (status != TDM_OK) assert_message("(OMP_STACKSIZE), expected at least 512 KiB");
  }
  assert_int_equal(unsetenv("OMP_STACKSIZE"), 0);
  assert_ok(tdm_team_check_stacks("cpu:0"));
  assert_int_equal(pthread_getattr_default_np(&before), 0);
  assert_int_equal(pthread_attr_init(&small), 0);
  assert_int_equal(pthread_attr_setstacksize(&small, 64 << 10), 0);
  assert_int_equal(pthread_setattr_default_np(&small), 0);
  assert_status(tdm_team_check_stacks("cpu:0"), TDM_UNAVAILABLE);
  assert_message("cpu:0: threads of its team would have a stack of 64 KiB (ulimit -s)");
  assert_int_equal(pthread_setattr_default_np(&before), 0);
  assert_int_equal(pthread_attr_destroy(&small), 0);
  assert_int_equal(pthread_attr_destroy(&before), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_stacks_are_refused),
      cmocka_unit_test(work_is_covered_once),
      cmocka_unit_test(a_region_within_another_is_one_call),
      cmocka_unit_test(ranges_run_at_the_same_time),
      cmocka_unit_test(a_late_thread_is_left_out_for_a_while),
      cmocka_unit_test(a_team_shrinks_by_one_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
