/* Runs of a trial that are under way together: submitted ones, some stopped or with deadlines,
 * their sessions perhaps released before they end; and threads that run and save while one trains.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/options.h"
#include "tests/random/trial.h"

enum { MOST_FLIGHTS = 7, MOST_THREADS = 3, THREAD_RUNS = 3, MOST_TRAINED = 3 };

/* ---- Submitted ------------------------------------------------------------------------------- */

typedef struct landing {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int landed;
} landing;

typedef struct flight {
  try_run run;
  landing *landing;
  uint64_t id;
  bool stopped; /* by tdm_run_cancel, which said so */
  bool has_deadline;
} flight;

static void on_landed(void *user, tdm_run_result *result) {
  flight *it = user;
  it->run.status = result->status;
  it->run.loss = result->loss;
  (void)snprintf(it->run.message, sizeof it->run.message, "%s", result->message);
  for (size_t i = 0; i < result->fetch_count; i++)
    it->run.fetches[i].tensor = result->fetches[i].tensor;
  (void)pthread_mutex_lock(&it->landing->lock);
  it->landing->landed++;
  (void)pthread_cond_signal(&it->landing->changed);
  (void)pthread_mutex_unlock(&it->landing->lock);
}

static void await(landing *it, int wanted) {
  (void)pthread_mutex_lock(&it->lock);
  while (it->landed < wanted)
    (void)pthread_cond_wait(&it->changed, &it->lock);
  (void)pthread_mutex_unlock(&it->lock);
}

/* True: it is in the air; false with *refused: there was no room. */
static bool take_off(running *it, flight *made, draw *stream, bool *refused) {
  tdm_submit_options options = OPTIONS(tdm_submit_options, o.training = made->run.trains,
                                       o.callback = on_landed, o.user = made);
  if (draw_one_in(stream, 6)) options.deadline_ns = 1 + draw_bits(stream) % 2000000;
  made->has_deadline = options.deadline_ns != TDM_NO_DEADLINE;
  const tdm_status status =
      tdm_submit_with(it->sessions[made->run.view], &options, made->run.feeds, made->run.feed_count,
                      made->run.fetches, made->run.fetch_count, &made->id);
  *refused = status == TDM_RESOURCE_EXHAUSTED && it->trial->views[made->run.view].queue_limit > 0;
  if (status == TDM_OK) return true;
  return *refused ? false : trial_fail(it, "view %d takes no run", made->run.view);
}

static bool check_landed(running *it, const flight *made) {
  const try_run *run = &made->run;
  const bool stopped = run->status == TDM_CANCELLED || run->status == TDM_DEADLINE_EXCEEDED;
  if (stopped) it->counts->stopped++;
  if (made->stopped && run->status != TDM_CANCELLED)
    return trial_fail(it, "run %" PRIu64 " was stopped and is %s", run->seed,
                      tdm_status_name(run->status));
  if (made->stopped || (made->has_deadline && run->status == TDM_DEADLINE_EXCEEDED)) return true;
  if (run->trains && run->status == TDM_OK) it->steps++;
  if (it->spent) return true; /* its values may be no numbers, which check_finite refuses */
  if (run->status != TDM_OK) return run_failed(it, run);
  return run_check(it, run);
}

/* A view to run next: mostly the action's own. */
static int other_view(running *it, draw *stream, int usual) {
  const int view = draw_below(stream, it->trial->view_count);
  return draw_one_in(stream, 2) && it->sessions[view] ? view : usual;
}

bool fly(running *it, const action *what) {
  draw stream = draw_of(what->seed, 6);
  flight *flights = calloc(MOST_FLIGHTS, sizeof *flights);
  landing ground = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  if (!flights) abort();
  const int wanted = draw_between(&stream, 2, MOST_FLIGHTS);
  const bool stops = draw_one_in(&stream, 2), releases = draw_one_in(&stream, 4);
  bool good = true, refused = false;
  int count = 0;
  for (int i = 0; i < wanted && good; i++) {
    flight *made = &flights[count];
    const int view = other_view(it, &stream, what->view);
    const bool trains = it->trial->views[view].trains && !draw_one_in(&stream, 3);
    *made = (flight){.landing = &ground};
    good = run_begin(it, &made->run, view, trains, what->seed * 8 + (uint64_t)i);
    const bool flies = good && take_off(it, made, &stream, &refused);
    if (good && !flies && !refused) good = false;
    if (flies) count++;
    if (!flies) run_end(&made->run);
    if (refused) await(&ground, count);
    const int victim = count > 0 ? draw_below(&stream, count) : 0;
    if (stops && count > 0 && draw_one_in(&stream, 3) && !flights[victim].stopped)
      flights[victim].stopped =
          tdm_run_cancel(it->sessions[flights[victim].run.view], flights[victim].id);
  }
  if (releases)
    for (int i = 0; i < MOST_VIEWS; i++) {
      tdm_session_release(it->sessions[i]);
      it->sessions[i] = NULL;
    }
  await(&ground, count);
  for (int i = 0; i < count; i++) {
    good = good && check_landed(it, &flights[i]);
    run_end(&flights[i].run);
  }
  free(flights);
  return good;
}

/* ---- In threads ------------------------------------------------------------------------------ */

typedef struct worker {
  running *it;
  try_run runs[THREAD_RUNS];
  tdm_tensor_list *saved; /* what one of them saves */
  bool saves;
  int matched; /* runs that equal the oracle in some state */
  bool save_matched;
} worker;

static void *work(void *user) {
  worker *me = user;
  if (me->saves) me->saved = tdm_store_save(me->it->store, false);
  for (int i = 0; i < THREAD_RUNS; i++)
    run_execute(me->it, &me->runs[i]);
  return NULL;
}

/* Moves each thread on past the runs that agree with the oracle's parameters of now. */
static void match(running *it, worker *workers, int count) {
  for (int i = 0; i < count; i++) {
    worker *one = &workers[i];
    while (one->matched < THREAD_RUNS) {
      const try_run *run = &one->runs[one->matched];
      oracle_run(it->oracle, run->seed, run->rows);
      if (!it->oracle->inexact && !run_agrees(it, run, false)) break;
      it->counts->compared += !it->oracle->inexact;
      one->matched++;
    }
    if (one->saved && !one->save_matched) one->save_matched = list_agrees(it, one->saved, false);
  }
}

static bool check_workers(running *it, worker *workers, int count, try_run *trained, int steps) {
  bool good = true;
  if (!it->spent) match(it, workers, count);
  for (int i = 0; i < steps && good; i++) {
    if (trained[i].status == TDM_OK) it->steps++;
    if (it->spent) continue;
    if (trained[i].status != TDM_OK) return run_failed(it, &trained[i]);
    good = run_check(it, &trained[i]);
    if (good && !it->spent) match(it, workers, count);
  }
  for (int i = 0; i < count && good && !it->spent; i++) {
    for (int k = 0; k < THREAD_RUNS && good; k++)
      if (workers[i].runs[k].status != TDM_OK) good = run_failed(it, &workers[i].runs[k]);
    if (good && workers[i].matched < THREAD_RUNS)
      good = trial_fail(it, "thread %d, run %d (seed %" PRIu64 "): of no state of the store", i,
                        workers[i].matched, workers[i].runs[workers[i].matched].seed);
    if (good && workers[i].saves && !workers[i].save_matched)
      good = trial_fail(it, "thread %d saved no state of the store", i);
  }
  return good;
}

bool go_in_threads(running *it, const action *what) {
  draw stream = draw_of(what->seed, 7);
  worker *workers = calloc(MOST_THREADS, sizeof *workers);
  try_run *trained = calloc(MOST_TRAINED, sizeof *trained);
  pthread_t threads[MOST_THREADS];
  if (!workers || !trained) abort();
  const int count = draw_between(&stream, 1, MOST_THREADS);
  const int steps =
      it->trial->views[what->view].trains ? draw_between(&stream, 1, MOST_TRAINED) : 0;
  bool good = true;
  for (int i = 0; i < count; i++) {
    workers[i].it = it;
    workers[i].saves = draw_one_in(&stream, 2);
    const int view = other_view(it, &stream, what->view);
    for (int k = 0; k < THREAD_RUNS && good; k++)
      good = run_begin(it, &workers[i].runs[k], view, false,
                       what->seed * 16 + (uint64_t)(i * THREAD_RUNS + k));
  }
  for (int i = 0; i < steps && good; i++)
    good = run_begin(it, &trained[i], what->view, true, what->seed * 16 + 12 + (uint64_t)i);
  if (good) {
    int begun = 0;
    for (; begun < count; begun++)
      if (pthread_create(&threads[begun], NULL, work, &workers[begun]) != 0) abort();
    for (int i = 0; i < steps; i++)
      run_execute(it, &trained[i]);
    for (int i = 0; i < begun; i++)
      (void)pthread_join(threads[i], NULL);
    good = check_workers(it, workers, count, trained, steps);
  }
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < THREAD_RUNS; k++)
      run_end(&workers[i].runs[k]);
    tdm_tensor_list_release(workers[i].saved);
  }
  for (int i = 0; i < steps; i++)
    run_end(&trained[i]);
  free(workers);
  free(trained);
  return good;
}
