/* The loop, own and caller's: order of tasks, holds and the return of uv_run, closing from every
 * side, and failures of memory. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "core/loop.h"
#include "core/park.h"
#include "tests/support/faulty_allocator.h"

enum { POSTERS = 4, TASKS_EACH = 2000 };

typedef struct witness {
  tdm_loop *loop;
  tdm_doorbell bell;
  _Atomic uint32_t ran;
  _Atomic uint32_t closed;
  uint32_t next[POSTERS]; /* next task of each poster; used by the loop's thread */
  bool in_order;
  bool all_on_loop;
} witness;

typedef struct numbered_task {
  tdm_loop_task base;
  witness *record;
  uint32_t poster;
  uint32_t number;
} numbered_task;

static numbered_task tasks[POSTERS][TASKS_EACH];

static void run_numbered(tdm_loop_task *base) {
  numbered_task *task = (numbered_task *)base;
  witness *record = task->record;
  record->in_order &= record->next[task->poster]++ == task->number;
  record->all_on_loop &= tdm_loop_is_current(record->loop);
  atomic_fetch_add(&record->ran, 1);
  tdm_doorbell_ring(&record->bell);
}

static void prepare(witness *record, tdm_loop *loop) {
  *record = (witness){.loop = loop, .in_order = true, .all_on_loop = true};
  for (uint32_t poster = 0; poster < POSTERS; poster++) {
    for (uint32_t number = 0; number < TASKS_EACH; number++) {
      tasks[poster][number] = (numbered_task){
          .base.run = run_numbered, .record = record, .poster = poster, .number = number};
    }
  }
}

static void count_closed(void *user) {
  witness *record = user;
  atomic_fetch_add(&record->closed, 1);
  tdm_doorbell_ring(&record->bell);
}

static void wait_for(witness *record, _Atomic uint32_t *count, uint32_t value) {
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(&record->bell);
    if (atomic_load(count) >= value) return;
    tdm_doorbell_park(&record->bell, seen, -1);
  }
}

static void *post_all(void *user) {
  numbered_task *own = user;
  for (int i = 0; i < TASKS_EACH; i++)
    tdm_loop_post(own[i].record->loop, &own[i].base);
  return NULL;
}

/* Each poster's last task also releases its hold. */
static void *post_all_and_unhold(void *user) {
  (void)post_all(user);
  tdm_loop_unhold(((numbered_task *)user)->record->loop);
  return NULL;
}

static tdm_loop *create_loop(uv_loop_t *uv) {
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_loop *loop = NULL;
  assert_int_equal(tdm_loop_create(&allocator, uv, &loop), TDM_OK);
  assert_non_null(loop);
  return loop;
}

/* ---- own loop -------------------------------------------------------------------------------- */

static void own_loop_runs_tasks_of_many_threads_in_order(void **state) {
  (void)state;
  static witness record;
  prepare(&record, create_loop(NULL));
  assert_false(tdm_loop_is_current(record.loop));
  pthread_t threads[POSTERS];
  for (int i = 0; i < POSTERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, post_all, tasks[i]), 0);
  wait_for(&record, &record.ran, POSTERS * TASKS_EACH);
  for (int i = 0; i < POSTERS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  tdm_loop_close(record.loop, count_closed, &record);
  assert_int_equal(atomic_load(&record.closed), 1);
  assert_int_equal(atomic_load(&record.ran), POSTERS * TASKS_EACH);
  assert_true(record.in_order);
  assert_true(record.all_on_loop);
}

static void own_loop_runs_what_was_posted_before_it_closes(void **state) {
  (void)state;
  static witness record;
  for (int repeat = 0; repeat < 50; repeat++) {
    prepare(&record, create_loop(NULL));
    for (int i = 0; i < 20; i++)
      tdm_loop_post(record.loop, &tasks[0][i].base);
    tdm_loop_close(record.loop, NULL, NULL);
    assert_int_equal(atomic_load(&record.ran), 20);
    assert_true(record.in_order);
  }
}

typedef struct chain_task {
  tdm_loop_task base;
  witness *record;
  int left;
} chain_task;

static void run_chain(tdm_loop_task *base) {
  chain_task *task = (chain_task *)base;
  atomic_fetch_add(&task->record->ran, 1);
  if (task->left-- > 0) tdm_loop_post(task->record->loop, base);
}

static void tasks_post_themselves_again(void **state) {
  (void)state;
  static witness record;
  prepare(&record, create_loop(NULL));
  chain_task task = {.base.run = run_chain, .record = &record, .left = 100};
  tdm_loop_post(record.loop, &task.base);
  tdm_loop_close(record.loop, NULL, NULL);
  assert_int_equal(atomic_load(&record.ran), 101);
}

static void run_closing(tdm_loop_task *base) {
  chain_task *task = (chain_task *)base;
  tdm_loop_close(task->record->loop, count_closed, task->record);
}

/* Each repetition uses a separate record, because the ending thread rings after the test has seen
 * it. */
static void own_loop_closes_from_its_own_thread(void **state) {
  (void)state;
  enum { REPEATS = 50 };
  static witness records[REPEATS];
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    witness *record = &records[repeat];
    prepare(record, create_loop(NULL));
    chain_task closing = {.base.run = run_closing, .record = record};
    tdm_loop_hold(record->loop);
    tdm_loop_post(record->loop, &tasks[0][0].base);
    wait_for(record, &record->ran, 1);
    tdm_loop_unhold(record->loop);
    tdm_loop_post(record->loop, &closing.base);
    wait_for(record, &record->closed, 1);
    assert_int_equal(atomic_load(&record->closed), 1);
  }
}

/* The task notifies the main thread, which closes while the poster may still be in its post. */
static void *post_first(void *user) {
  numbered_task *task = user;
  tdm_loop_post(task->record->loop, &task->base);
  return NULL;
}

static void closing_waits_for_the_poster_to_leave(void **state) {
  (void)state;
  static witness record;
  for (int repeat = 0; repeat < 200; repeat++) {
    prepare(&record, create_loop(NULL));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_first, &tasks[0][0]), 0);
    wait_for(&record, &record.ran, 1);
    tdm_loop_close(record.loop, NULL, NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
}

static void *post_closing(void *user) {
  chain_task *closing = user;
  tdm_loop_post(closing->record->loop, &closing->base);
  return NULL;
}

/* Replaces uv_async_send at link time, so that the woken loop runs first. */
int __real_uv_async_send(uv_async_t *handle);
int __wrap_uv_async_send(uv_async_t *handle);

int __wrap_uv_async_send(uv_async_t *handle) {
  const int code = __real_uv_async_send(handle);
  (void)sched_yield();
  return code;
}

/* All threads on one processor: the loop that a post wakes runs before the poster continues, and
 * its task ends the loop. AddressSanitizer checks the later accesses of the poster. */
static void the_last_task_may_outrun_its_poster(void **state) {
  (void)state;
  enum { REPEATS = 200 };
  static witness records[REPEATS];
  static chain_task closings[REPEATS];
  cpu_set_t before;
  cpu_set_t one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    witness *record = &records[repeat];
    *record = (witness){.loop = create_loop(NULL)};
    closings[repeat] = (chain_task){.base.run = run_closing, .record = record};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_closing, &closings[repeat]), 0);
    wait_for(record, &record->closed, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* ---- caller's loop --------------------------------------------------------------------------- */

static void close_on(uv_loop_t *uv, witness *record) {
  tdm_loop_close(record->loop, count_closed, record);
  assert_int_equal(atomic_load(&record->closed), 0); /* only from the loop */
  assert_int_equal(uv_run(uv, UV_RUN_DEFAULT), 0);
  assert_int_equal(atomic_load(&record->closed), 1);
  assert_int_equal(uv_loop_close(uv), 0);
}

static void idle_loop_lets_uv_run_return(void **state) {
  (void)state;
  uv_loop_t uv;
  assert_int_equal(uv_loop_init(&uv), 0);
  static witness record;
  prepare(&record, create_loop(&uv));
  assert_true(tdm_loop_is_current(record.loop));
  for (int i = 0; i < 3; i++)
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_alive(&uv), 0);
  close_on(&uv, &record);
}

static void a_task_of_the_loops_thread_runs_before_uv_run_returns(void **state) {
  (void)state;
  uv_loop_t uv;
  assert_int_equal(uv_loop_init(&uv), 0);
  static witness record;
  prepare(&record, create_loop(&uv));
  for (uint32_t i = 0; i < 3; i++) {
    tdm_loop_post(record.loop, &tasks[0][i].base);
    assert_int_equal(atomic_load(&record.ran), i);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(atomic_load(&record.ran), i + 1);
  }
  close_on(&uv, &record);
}

static void holds_keep_uv_run_until_other_threads_are_done(void **state) {
  (void)state;
  static witness record;
  for (int repeat = 0; repeat < 5; repeat++) {
    uv_loop_t uv;
    assert_int_equal(uv_loop_init(&uv), 0);
    prepare(&record, create_loop(&uv));
    if (repeat > 0) assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    pthread_t threads[POSTERS];
    for (int i = 0; i < POSTERS; i++)
      tdm_loop_hold(record.loop);
    for (int i = 0; i < POSTERS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, post_all_and_unhold, tasks[i]), 0);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(atomic_load(&record.ran), POSTERS * TASKS_EACH);
    assert_true(record.in_order);
    assert_true(record.all_on_loop);
    for (int i = 0; i < POSTERS; i++)
      assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_on(&uv, &record);
  }
}

static void *post_first_and_unhold(void *user) {
  numbered_task *task = user;
  tdm_loop *loop = task->record->loop;
  tdm_loop_post(loop, &task->base);
  tdm_loop_unhold(loop);
  return NULL;
}

/* Two last tasks and two last holds at a time: one thread's post and unhold often fall between the
 * loop's taking of the other's task and its look at the holds. */
static void the_last_task_is_never_left_behind(void **state) {
  (void)state;
  uv_loop_t uv;
  assert_int_equal(uv_loop_init(&uv), 0);
  static witness record;
  prepare(&record, create_loop(&uv));
  for (uint32_t i = 0; i < 1000; i++) {
    pthread_t threads[2];
    for (int j = 0; j < 2; j++)
      tdm_loop_hold(record.loop);
    for (int j = 0; j < 2; j++)
      assert_int_equal(pthread_create(&threads[j], NULL, post_first_and_unhold, &tasks[j][i]), 0);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(atomic_load(&record.ran), 2 * (i + 1));
    for (int j = 0; j < 2; j++)
      assert_int_equal(pthread_join(threads[j], NULL), 0);
  }
  close_on(&uv, &record);
}

static void *hold_from_elsewhere(void *user) {
  tdm_loop_hold(user);
  return NULL;
}

static void a_hold_of_another_thread_before_the_first_uv_run_counts(void **state) {
  (void)state;
  uv_loop_t uv;
  assert_int_equal(uv_loop_init(&uv), 0);
  static witness record;
  prepare(&record, create_loop(&uv));
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, hold_from_elsewhere, record.loop), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  for (int i = 0; i < 3; i++)
    assert_int_equal(uv_run(&uv, UV_RUN_NOWAIT), 1);
  pthread_t poster;
  assert_int_equal(pthread_create(&poster, NULL, post_all_and_unhold, tasks[0]), 0);
  assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
  assert_int_equal(atomic_load(&record.ran), TASKS_EACH);
  assert_int_equal(pthread_join(poster, NULL), 0);
  close_on(&uv, &record);
}

static void callers_loop_closes_inside_a_task(void **state) {
  (void)state;
  uv_loop_t uv;
  assert_int_equal(uv_loop_init(&uv), 0);
  static witness record;
  prepare(&record, create_loop(&uv));
  chain_task closing = {.base.run = run_closing, .record = &record};
  chain_task chain = {.base.run = run_chain, .record = &record, .left = 5};
  tdm_loop_post(record.loop, &tasks[0][0].base);
  tdm_loop_post(record.loop, &closing.base);
  tdm_loop_post(record.loop, &tasks[0][1].base);
  tdm_loop_post(record.loop, &chain.base); /* posts from within while the loop closes */
  assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
  assert_int_equal(atomic_load(&record.ran), 2 + 6);
  assert_int_equal(atomic_load(&record.closed), 1);
  assert_true(record.in_order);
  assert_int_equal(uv_loop_close(&uv), 0);
}

static void callers_loop_runs_what_was_posted_when_it_closes(void **state) {
  (void)state;
  uv_loop_t uv;
  assert_int_equal(uv_loop_init(&uv), 0);
  static witness record;
  prepare(&record, create_loop(&uv));
  for (int i = 0; i < 10; i++)
    tdm_loop_post(record.loop, &tasks[0][i].base);
  close_on(&uv, &record);
  assert_int_equal(atomic_load(&record.ran), 10);
  assert_true(record.in_order);
}

/* ---- The end of the process ------------------------------------------------------------------ */

typedef struct last_words {
  tdm_loop_task task;
  tdm_loop *loop;
  int told; /* a pipe's end: 1 when the task has begun, 2 when the loop is closed */
  bool closes;
  _Atomic bool begun;
} last_words;

static void tell_closed(void *user) {
  const last_words *words = user;
  const struct timespec pause = {.tv_nsec = 20000000};
  (void)nanosleep(&pause, NULL); /* long enough for main to have begun its exit */
  assert_int_equal(write(words->told, "2", 1), 1);
}

static void begin_last_words(tdm_loop_task *base) {
  last_words *words = (last_words *)base;
  assert_int_equal(write(words->told, "1", 1), 1);
  atomic_store(&words->begun, true);
  if (words->closes) {
    tdm_loop_close(words->loop, tell_closed, words);
  } else {
    tell_closed(words);
  }
}

/* A child whose main exits once its loop's thread has begun a task. */
static void exit_in_the_middle(int told, bool closes) {
  const tdm_allocator allocator = tdm_allocator_default();
  static last_words words;
  words.task.run = begin_last_words;
  words.told = told;
  words.closes = closes;
  if (tdm_loop_create(&allocator, NULL, &words.loop) != TDM_OK) _exit(3);
  tdm_loop_post(words.loop, &words.task);
  while (!atomic_load(&words.begun))
    (void)sched_yield();
  exit(0);
}

static void exit_waits_for_what_is_under_way(void **state) {
  (void)state;
  for (int closes = 0; closes < 2; closes++) {
    int told[2];
    assert_int_equal(pipe(told), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) exit_in_the_middle(told[1], closes == 1);
    (void)close(told[1]);
    char text[8] = "";
    size_t length = 0;
    for (ssize_t got; length < 4 && (got = read(told[0], text + length, 4 - length)) > 0;)
      length += (size_t)got;
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_string_equal(text, "12");
    (void)close(told[0]);
  }
}

static void a_failed_creation_leaves_nothing(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  tdm_faulty_allocator_arm(faulty, 1, false);
  tdm_loop *loop = (tdm_loop *)faulty;
  assert_int_equal(tdm_loop_create(&allocator, NULL, &loop), TDM_OUT_OF_MEMORY);
  assert_null(loop);
  assert_int_equal(tdm_loop_create(&allocator, NULL, &loop), TDM_OK);
  tdm_loop_close(loop, NULL, NULL);
  tdm_loop_close(NULL, NULL, NULL);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exit_waits_for_what_is_under_way),
      cmocka_unit_test(own_loop_runs_tasks_of_many_threads_in_order),
      cmocka_unit_test(own_loop_runs_what_was_posted_before_it_closes),
      cmocka_unit_test(tasks_post_themselves_again),
      cmocka_unit_test(own_loop_closes_from_its_own_thread),
      cmocka_unit_test(closing_waits_for_the_poster_to_leave),
      cmocka_unit_test(the_last_task_may_outrun_its_poster),
      cmocka_unit_test(idle_loop_lets_uv_run_return),
      cmocka_unit_test(a_task_of_the_loops_thread_runs_before_uv_run_returns),
      cmocka_unit_test(holds_keep_uv_run_until_other_threads_are_done),
      cmocka_unit_test(the_last_task_is_never_left_behind),
      cmocka_unit_test(a_hold_of_another_thread_before_the_first_uv_run_counts),
      cmocka_unit_test(callers_loop_closes_inside_a_task),
      cmocka_unit_test(callers_loop_runs_what_was_posted_when_it_closes),
      cmocka_unit_test(a_failed_creation_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
