/* Ranks that do different things, each waiting for the others, while all of them live. Every rank
 * gets a message within bounded time that names the waiting rank and its operation. Some
 * differences are legal.
 */
#define _GNU_SOURCE /* usleep */
#include <stdio.h>
#include <unistd.h>

#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, RANKS = 3 };

#define NEVER_NS UINT64_C(300000000000)

/* The operation of rank 0 while the others make a step. Shared by the job's ranks. */
typedef struct story {
  tdm_status (*alone)(const job_rank *rank, tdm_session *session);
  _Atomic int ended; /* ranks whose story is over */
} story;

/* No rank counts as silent, on any busy machine. */
static const tdm_control_options watch = {.struct_size = sizeof(tdm_control_options),
                                          .beat_ns = 20000000,
                                          .silence_ns = NEVER_NS,
                                          .stall_ns = 1000000000};

static tdm_session *make_session(const job_rank *rank, tdm_session_options options) {
  tdm_value loss;
  tdm_graph *graph = job_deep_graph(rank, 0, MODEL_WIDTH, NULL, &loss);
  job_replicate(rank, graph, "model", RANKS, "cpu:0", NULL);
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  options.loss = loss;
  options.optimizer = &optimizer;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

static tdm_status step(const job_rank *rank, tdm_session *session, int64_t rows) {
  test_batch batch;
  test_batch_make(&batch, rank->context, rows, 1);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  test_batch_release(&batch);
  return status;
}

/* ---- One that is alone ------------------------------------------------------------------------
 */

static tdm_status evaluate(const job_rank *rank, tdm_session *session) {
  test_batch batch;
  tdm_fetch fetch = {"scores", NULL};
  test_batch_make(&batch, rank->context, ROWS, 1);
  const tdm_status status = tdm_run(session, batch.feeds, 1, &fetch, 1);
  tdm_tensor_release(fetch.tensor);
  test_batch_release(&batch);
  return status;
}

static tdm_status save(const job_rank *rank, tdm_session *session) {
  (void)rank;
  tdm_tensor_list *list = NULL;
  const tdm_status status = tdm_session_save(session, &list);
  tdm_tensor_list_release(list);
  return status;
}

static tdm_status agree(const job_rank *rank, tdm_session *session) {
  (void)session;
  return tdm_context_agree(rank->context, TDM_OK);
}

/* All make a step, then one does something else. No rank leaves before all are notified. */
static tdm_status part(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank, tdm_session_options_default());
  tdm_status status = session ? step(rank, session, ROWS) : TDM_INTERNAL;
  if (status == TDM_OK)
    status = rank->rank == 0 ? of->alone(rank, session) : step(rank, session, ROWS);
  (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  rank->number = status;
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < RANKS)
    (void)usleep(1000);
  tdm_session_release(session);
  return TDM_OK;
}

/* All have failed, and say what rank 0 waited in, and that another rank was in a run. */
static void expect_apart(tdm_status (*alone)(const job_rank *rank, tdm_session *session),
                         const char *where) {
  tdm_control_options patient = watch;
  patient.allocator = tdm_allocator_default();
  story of = {.alone = alone};
  job_rank ranks[RANKS];
  job_must(&(job_options){.rank_count = RANKS, .watch = &patient, .user = &of}, part, ranks);
  for (int r = 0; r < RANKS; r++) {
    if (ranks[r].number != TDM_UNAVAILABLE || !strstr(ranks[r].message, where) ||
        !strstr(ranks[r].message, "rank 0 has waited for ") ||
        !strstr(ranks[r].message, "which waits in another run, having begun 2"))
      fail_msg("rank %d: %s: %s", r, tdm_status_name((tdm_status)ranks[r].number),
               ranks[r].message);
  }
}

static void who_evaluates_alone_is_told(void **state) {
  (void)state;
  expect_apart(evaluate, "to compare a plan before its first run, having begun 1 runs");
}

static void who_saves_alone_is_told(void **state) {
  (void)state;
  expect_apart(save, "to save a session, having begun 1 runs");
}

static void who_agrees_alone_is_told(void **state) {
  (void)state;
  expect_apart(agree, "to agree, having begun 1 runs");
}

/* Loads a file that all have saved. */
static tdm_status save_or_load(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank, tdm_session_options_default());
  tdm_tensor_list *list = NULL, *again = NULL;
  tdm_status status = session ? step(rank, session, ROWS) : TDM_INTERNAL;
  if (status == TDM_OK) status = tdm_session_save(session, &list);
  if (status == TDM_OK)
    rank->number =
        rank->rank == 0 ? tdm_session_save(session, &again) : tdm_session_load(session, list);
  (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < RANKS)
    (void)usleep(1000);
  tdm_tensor_list_release(list);
  tdm_tensor_list_release(again);
  tdm_session_release(session);
  return status;
}

static void who_saves_while_others_load_is_told(void **state) {
  (void)state;
  tdm_control_options patient = watch;
  patient.allocator = tdm_allocator_default();
  patient.stall_ns = NEVER_NS;
  story of = {0};
  job_rank ranks[RANKS];
  job_must(&(job_options){.rank_count = RANKS, .watch = &patient, .user = &of}, save_or_load,
           ranks);
  for (int r = 0; r < RANKS; r++)
    if (ranks[r].number == TDM_OK || !strstr(ranks[r].message, " to save a session (") ||
        !strstr(ranks[r].message, " to load a session ("))
      fail_msg("rank %d: %s: %s", r, tdm_status_name((tdm_status)ranks[r].number),
               ranks[r].message);
}

/* ---- A wrong request to one rank
 * -------------------------------------------------------------- */

/* The rank of a wrong request, the number of steps before it, and its variants. */
typedef struct mistake {
  story of;
  int steps;      /* number of steps before */
  bool of_all;    /* true: all ranks, not only rank 0 */
  bool mends;     /* the right way follows */
  bool leaves;    /* rank 0 does at once */
  unsigned pause; /* pause of rank 0 before the next phase, in microseconds */
} mistake;

static tdm_status step_wrongly(const job_rank *rank, tdm_session *session) {
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  batch.feeds[1].name = "target";
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  test_batch_release(&batch);
  return status;
}

static tdm_status err(job_rank *rank) {
  mistake *of = (mistake *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank, tdm_session_options_default());
  tdm_status status = session ? TDM_OK : TDM_INTERNAL;
  for (int i = 0; i < of->steps && status == TDM_OK; i++)
    status = step(rank, session, ROWS);
  const bool errs = rank->rank == 0 || of->of_all;
  if (status == TDM_OK && errs && step_wrongly(rank, session) != TDM_INVALID_ARGUMENT)
    status = TDM_INTERNAL;
  if (rank->rank == 0 && of->pause > 0) (void)usleep(of->pause);
  if (status == TDM_OK && (!errs || of->mends)) {
    rank->number = step(rank, session, ROWS);
    (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  }
  (void)atomic_fetch_add(&of->of.ended, 1);
  while (!(of->leaves && rank->rank == 0) && atomic_load(&of->of.ended) < RANKS)
    (void)usleep(1000);
  tdm_session_release(session);
  return status;
}

static void make_mistake(mistake *of, job_rank *ranks) {
  tdm_control_options patient = watch;
  patient.allocator = tdm_allocator_default();
  patient.stall_ns = NEVER_NS;
  job_must(&(job_options){.rank_count = RANKS, .watch = &patient, .user = of}, err, ranks);
}

/* No rank has waited for a stalled message. */
static void who_is_asked_wrongly_alone_is_told_to_all(void **state) {
  (void)state;
  const mistake made[] = {
      {.steps = 0}, {.steps = 2}, {.steps = 0, .leaves = true}, {.steps = 2, .leaves = true}};
  for (size_t i = 0; i < TDM_COUNT_OF(made); i++) {
    job_rank ranks[RANKS];
    mistake of = made[i];
    make_mistake(&of, ranks);
    for (int r = 1; r < RANKS; r++)
      if (ranks[r].number != TDM_UNAVAILABLE ||
          !strstr(ranks[r].message, "rank 0 (host sim0, pid ") ||
          !strstr(ranks[r].message, "in a wrong way") ||
          !strstr(ranks[r].message, "INVALID_ARGUMENT: the graph has no input 'target'"))
        fail_msg("rank %d: %s: %s", r, tdm_status_name((tdm_status)ranks[r].number),
                 ranks[r].message);
  }
}

static void who_is_asked_rightly_afterwards_goes_on(void **state) {
  (void)state;
  const mistake made[] = {{.steps = 0, .mends = true},
                          {.steps = 2, .mends = true},
                          {.steps = 0, .mends = true, .of_all = true, .pause = 1500000},
                          {.steps = 2, .mends = true, .of_all = true, .pause = 1500000}};
  for (size_t i = 0; i < TDM_COUNT_OF(made); i++) {
    job_rank ranks[RANKS];
    mistake of = made[i];
    make_mistake(&of, ranks);
    for (int r = 0; r < RANKS; r++)
      if (ranks[r].number != TDM_OK) fail_msg("rank %d: %s", r, ranks[r].message);
  }
}

/* ---- What may differ --------------------------------------------------------------------------
 */

/* Room for one plan, two shapes in turn. Rank 1 keeps a timeline, and with it the plans of that. */
static tdm_status step_with_timeline(job_rank *rank) {
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.plan_limit = 1, o.trace_runs = rank->rank == 1 ? 4 : 0);
  tdm_session *session = make_session(rank, options);
  tdm_status status = session ? TDM_OK : TDM_INTERNAL;
  for (int i = 0; i < 6 && status == TDM_OK; i++)
    status = step(rank, session, i % 2 == 0 ? ROWS : 2 * ROWS);
  tdm_session_release(session);
  return status;
}

static void a_rank_alone_may_keep_a_timeline(void **state) {
  (void)state;
  tdm_control_options patient = watch;
  patient.allocator = tdm_allocator_default();
  job_rank ranks[RANKS];
  job_must(&(job_options){.rank_count = RANKS, .watch = &patient}, step_with_timeline, ranks);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_evaluates_alone_is_told),
      cmocka_unit_test(who_saves_alone_is_told),
      cmocka_unit_test(who_agrees_alone_is_told),
      cmocka_unit_test(who_saves_while_others_load_is_told),
      cmocka_unit_test(who_is_asked_wrongly_alone_is_told_to_all),
      cmocka_unit_test(who_is_asked_rightly_afterwards_goes_on),
      cmocka_unit_test(a_rank_alone_may_keep_a_timeline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
