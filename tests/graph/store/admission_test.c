/* Runs that end while they are started: each admits the next, on the thread that ended the first.
 */
#include <pthread.h>
#include <stdlib.h>

#include "graph/store/store.h"
#include "tests/graph/group.h"

enum { RUNS = 20000, STACK_BYTES = 256 << 10 };

typedef struct hasty {
  tdm_admission admission; /* must be the first field */
  struct queue *mine;
} hasty;

typedef struct queue {
  tdm_store *store;
  hasty *runs; /* (RUNS) */
  bool busy;
  int started;
} queue;

static queue *queue_of(tdm_admission *admission) {
  return ((hasty *)admission)->mine;
}

static bool has_slot(tdm_admission *admission) {
  return !queue_of(admission)->busy;
}

static void take_slot(tdm_admission *admission) {
  queue_of(admission)->busy = true;
}

static void give_slot_back(tdm_admission *admission) {
  queue_of(admission)->busy = false;
}

static void end(tdm_admission *admission) {
  tdm_store *store = queue_of(admission)->store;
  (void)pthread_mutex_lock(&store->lock);
  tdm_store_end_locked(store, admission);
  tdm_admission *admitted = tdm_store_admit_locked(store);
  (void)pthread_mutex_unlock(&store->lock);
  tdm_store_start(admitted);
}

/* Checks that admissions start once each, in order. */
static void start(tdm_admission *admission) {
  queue *mine = queue_of(admission);
  assert_ptr_equal(admission, &mine->runs[++mine->started].admission);
  end(admission);
}

static void *end_first(void *first) {
  end(first);
  return NULL;
}

static void a_queue_that_fails_at_once_takes_no_stack(void **unused) {
  (void)unused;
  hasty *runs = calloc(RUNS, sizeof *runs);
  queue mine = {.store = tdm_store_create(context), .runs = runs};
  assert_non_null(runs);
  for (int i = 0; i < RUNS; i++) {
    runs[i] = (hasty){.admission = {.ready = has_slot,
                                    .admit = take_slot,
                                    .settle = give_slot_back,
                                    .start = start},
                      .mine = &mine};
    assert_int_equal(tdm_store_enter(mine.store, &runs[i].admission), i == 0);
  }
  pthread_attr_t small;
  pthread_t thread;
  assert_int_equal(pthread_attr_init(&small), 0);
  assert_int_equal(pthread_attr_setstacksize(&small, STACK_BYTES), 0);
  assert_int_equal(pthread_create(&thread, &small, end_first, &runs[0].admission), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(pthread_attr_destroy(&small), 0);
  assert_int_equal(mine.started, RUNS - 1);
  free(runs);
  tdm_store_release(mine.store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_queue_that_fails_at_once_takes_no_stack),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
