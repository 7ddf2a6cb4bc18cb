/* Runs of a job have the same numbers on all ranks. A run that a rank opens and cannot begin is
 * reported to the others, which wait for it. A run that was stopped before it began also counts. */
#define _GNU_SOURCE /* usleep */
#include <unistd.h>

#include "devices/context/context_state.h"
#include "graph/run/life.h"
#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/support/faulty_allocator.h"

enum { ROWS = 12, RANKS = 2 };

/* The rank that cannot begin its run, and the results of all ranks. */
typedef struct story {
  int victim;
  uint64_t at; /* the allocation that fails, from 1 */
  tdm_faulty_allocator **faulty;
  _Atomic int ended; /* ranks whose runs are over */
  bool failed[RANKS];
  bool out; /* the victim's allocation has failed */
  char messages[RANKS][TDM_MESSAGE_BYTES];
} story;

static tdm_control_options watch_of_tests(void) {
  return (tdm_control_options){.struct_size = sizeof(tdm_control_options),
                               .allocator = tdm_allocator_default(),
                               .silence_ns = UINT64_C(300000000000)};
}

static tdm_session *make_session(const job_rank *rank) {
  const job_model model = {.optimizer = tdm_adam(0.01)};
  tdm_value loss;
  tdm_graph *graph = zigzag_graph(rank->context, "host:0/cpu:0", "host:1/cpu:0", &loss);
  return job_session(graph, loss, &model);
}

/* No rank leaves before all are notified; otherwise they would report that. */
static void await_all(const job_rank *rank, story *of) {
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < rank->rank_count)
    (void)usleep(1000);
}

static void note(const job_rank *rank, story *of, tdm_status status, const char *message) {
  of->failed[rank->rank] = status != TDM_OK;
  (void)snprintf(of->messages[rank->rank], TDM_MESSAGE_BYTES, "%s", message);
}

/* ---- Refused by the devices ------------------------------------------------------------------ */

/* From the context's view its devices have not been started yet, and cannot be, or have been. */
static void start_over(tdm_context *context, bool stopped) {
  context->stopped = stopped;
  atomic_store(&context->started, !stopped);
}

/* The victim's devices do not start, so it has the run in its store and nothing on a queue. */
static tdm_status train_without_devices(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  if (rank->rank == of->victim) start_over(rank->context, true);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  note(rank, of, status, tdm_last_message());
  rank->number = session->store->steps;
  if (rank->rank == of->victim) start_over(rank->context, false);
  await_all(rank, of);
  test_batch_release(&batch);
  tdm_session_release(session);
  return TDM_OK;
}

static void others_are_told_of_a_run_that_is_not_submitted(void **unused) {
  (void)unused;
  const tdm_control_options watch = watch_of_tests();
  for (int victim = 0; victim < RANKS; victim++) {
    story of = {.victim = victim};
    job_rank ranks[RANKS];
    char name[16];
    (void)snprintf(name, sizeof name, "rank %d", victim);
    job_must(&(job_options){.rank_count = RANKS, .watch = &watch, .user = &of},
             train_without_devices, ranks);
    for (int r = 0; r < RANKS; r++) {
      assert_true(of.failed[r]);
      assert_int_equal(ranks[r].number, 0);
      if (!strstr(of.messages[r], "the context is closed") ||
          (r != victim && !strstr(of.messages[r], name)))
        fail_msg("rank %d says \"%s\"", r, of.messages[r]);
    }
  }
}

/* ---- Without memory to be submitted ---------------------------------------------------------- */

typedef struct landing {
  const job_rank *rank;
  story *of;
  _Atomic bool landed;
} landing;

static void on_run(void *user, tdm_run_result *result) {
  landing *mine = user;
  note(mine->rank, mine->of, result->status, result->message);
  atomic_store(&mine->landed, true);
}

/* Submits the second step, which was planned, without memory. */
static tdm_status submit_without_memory(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  landing mine = {.rank = rank, .of = of};
  const bool is_victim = rank->rank == of->victim;
  if (is_victim) tdm_faulty_allocator_arm(of->faulty[rank->rank], of->at, false);
  const tdm_status submitted = tdm_submit(session, true, batch.feeds, 2, NULL, 0, on_run, &mine);
  if (submitted != TDM_OK) note(rank, of, submitted, tdm_last_message());
  while (submitted == TDM_OK && !atomic_load(&mine.landed))
    (void)usleep(1000);
  if (is_victim) of->out = tdm_faulty_allocator_failures(of->faulty[rank->rank]) > 0;
  tdm_faulty_allocator_arm(of->faulty[rank->rank], 0, false);
  rank->number = session->store->steps;
  await_all(rank, of);
  test_batch_release(&batch);
  tdm_session_release(session);
  return status;
}

/* The Nth allocation of the victim's submission fails; false: it made fewer. */
static bool fail_allocation(int victim, uint64_t at) {
  const tdm_control_options watch = watch_of_tests();
  tdm_faulty_allocator *faulty[RANKS];
  tdm_allocator allocators[RANKS];
  for (int r = 0; r < RANKS; r++) {
    faulty[r] = tdm_faulty_allocator_create();
    allocators[r] = tdm_faulty_allocator_view(faulty[r]);
  }
  story of = {.victim = victim, .at = at, .faulty = faulty};
  job_rank ranks[RANKS];
  job_must(
      &(job_options){.rank_count = RANKS, .watch = &watch, .allocators = allocators, .user = &of},
      submit_without_memory, ranks);
  for (int r = 0; r < RANKS; r++) {
    if (of.failed[r] != of.failed[victim])
      fail_msg("allocation %llu of rank %d: rank %d says \"%s\", rank %d \"%s\"",
               (unsigned long long)at, victim, victim, of.messages[victim], r, of.messages[r]);
    assert_int_equal(ranks[r].number, of.failed[victim] ? 1 : 2);
    tdm_faulty_allocator_destroy(faulty[r]);
  }
  return of.out;
}

static void others_are_told_of_a_run_without_memory(void **unused) {
  (void)unused;
  for (int victim = 0; victim < RANKS; victim++) {
    uint64_t at = 1;
    while (fail_allocation(victim, at))
      at++;
    assert_true(at > 2);
  }
}

/* ---- Stopped before it begins ---------------------------------------------------------------- */

static void a_run_that_was_stopped_counts(void **unused) {
  (void)unused;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = seed_graph(context, "cpu:0", "cpu:0", NULL);
  tdm_session *session = tdm_session_create(graph, NULL);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  tdm_fetch fetch = {.name = "scores"};
  const tdm_run_request request = {batch.feeds, 1, &fetch, 1, false, NULL};
  tdm_run_state *run;
  const uint64_t before = tdm_context_count_run(context);
  assert_ok(tdm_run_open(session, &request, &run));
  run->bell = tdm_context_bell_acquire(context);
  assert_true(tdm_flight_stop(&run->flight, TDM_CANCELLED));
  assert_false(tdm_run_enter(run));
  assert_int_equal(run->status, TDM_CANCELLED);
  tdm_context_bell_release(context, run->bell);
  tdm_run_close(run);
  assert_int_equal(tdm_context_count_run(context), before + 2);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(others_are_told_of_a_run_that_is_not_submitted),
      cmocka_unit_test(others_are_told_of_a_run_without_memory),
      cmocka_unit_test(a_run_that_was_stopped_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
