/* Jobs that lose a rank at every post of a step in turn: killed, stopped, out of memory, leaving in
 * order, or exiting with an unreleased context. In another job messages do not arrive although the
 * control channel works. Every other rank reports it in that step, none hangs, and none has updated
 * anything. */
#define _GNU_SOURCE /* usleep */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "devices/context/context.h"
#include "devices/network/network.h"
#include "graph/run/session.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/job.h"
#include "tests/support/faulty_allocator.h"

enum { ROWS = 12, REPLICAS = 4 };

typedef enum ending { KILLED, STOPPED, OUT_OF_MEMORY, LEAVING, EXITING } ending;

/* The end of a rank. Shared by the job's ranks. */
typedef struct story {
  ending how;
  int victim;
  uint64_t at; /* the post of its second step, or the allocation of its first, from 1 */
  tdm_faulty_allocator **faulty;  /* (ranks) of OUT_OF_MEMORY */
  _Atomic(tdm_control *) control; /* control channel of the victim */
  _Atomic bool hangs;             /* the victim has come to its post and is stopped */
  _Atomic int told;               /* ranks whose step has failed while one is stopped */
  _Atomic int ended;              /* ranks whose steps are over, whatever became of them */
  _Atomic int begun;              /* ranks whose first step is over */
  bool happened[JOB_MOST_RANKS];  /* the step failed, by rank */
  char messages[JOB_MOST_RANKS][TDM_MESSAGE_BYTES];
} story;

#define NEVER_NS UINT64_C(300000000000)

/* Limits of silence: short for stopped ranks, because there are many. Time in which the process did
 * not run does not count. In other cases a silent rank has waited for a core, and the limit is
 * long. */
static tdm_control_options watch_of(ending how) {
  const uint64_t soon_ns = test_is_sanitized() ? 1000000000 : 300000000;
  return (tdm_control_options){.struct_size = sizeof(tdm_control_options),
                               .allocator = tdm_allocator_default(),
                               .beat_ns = 20000000,
                               .silence_ns = how == STOPPED ? soon_ns : NEVER_NS};
}

/* ---- A job's ranks --------------------------------------------------------------------------- */

/* A part that is placed on the last rank, and one that all ranks have a replica of. */
static tdm_graph *build(const job_rank *rank, tdm_value *out_loss) {
  char last[24];
  (void)snprintf(last, sizeof last, "host:%d/cpu:0", rank->rank_count - 1);
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, last);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  tdm_place(graph, "host:0/cpu:0");
  tdm_scope_push(graph, "model");
  const tdm_value hidden = tdm_tanh(graph, "bend", tdm_linear(graph, "hidden", words, 8));
  const tdm_value scores = tdm_linear(graph, "scores", hidden, MODEL_WIDTH);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  job_replicate(rank, graph, "model", REPLICAS, "cpu:0", NULL);
  return graph;
}

static tdm_status step(const job_rank *rank, tdm_session *session, uint64_t seed) {
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, seed);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  test_batch_release(&batch);
  return status;
}

static void hang(void *user) {
  story *of = user;
  tdm_control_pause(atomic_load(&of->control), true);
  atomic_store(&of->hangs, true);
}

static void arm(const job_rank *rank, story *of) {
  const uint64_t posts = tdm_simnet_posts(rank->net, rank->rank);
  atomic_store(&of->control, tdm_network_control(tdm_context_network(rank->context)));
  if (of->how == KILLED) tdm_simnet_kill_at(rank->net, rank->rank, posts + of->at);
  if (of->how == STOPPED) tdm_simnet_stop_at(rank->net, rank->rank, posts + of->at, hang, of);
}

/* The last of the others lets the victim continue, which then reports that the job has lost it. */
static void resume_victim(const job_rank *rank, story *of) {
  if (of->how != STOPPED || !atomic_load(&of->hangs) || rank->rank == of->victim) return;
  if (atomic_fetch_add(&of->told, 1) != rank->rank_count - 2) return;
  tdm_control *control = atomic_load(&of->control);
  tdm_control_pause(control, false);
  while (!tdm_control_failed(control, NULL))
    (void)usleep(1000);
  tdm_simnet_stop(rank->net, of->victim, false);
}

/* Notes what became of a step; whose parameters are those of before if it failed. */
static tdm_status note(const job_rank *rank, story *of, tdm_session *session, tdm_status status,
                       uint64_t before) {
  of->happened[rank->rank] = status != TDM_OK;
  if (status == TDM_OK) return TDM_OK;
  (void)snprintf(of->messages[rank->rank], TDM_MESSAGE_BYTES, "%s", tdm_last_message());
  const bool updated = job_hash(session) != before;
  resume_victim(rank, of);
  return updated ? tdm_fail(TDM_INTERNAL, "a failed step has updated") : TDM_OK;
}

/* No rank leaves before all are notified; otherwise others would report that. */
static void await_all(const job_rank *rank, story *of) {
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < rank->rank_count - (of->how == LEAVING))
    (void)usleep(1000);
}

static tdm_session *make_session(const job_rank *rank) {
  const job_model model = {.optimizer = tdm_adam(0.01)};
  tdm_value loss;
  tdm_graph *graph = build(rank, &loss);
  return job_session(graph, loss, &model);
}

static tdm_status lose_in_second_step(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  const uint64_t before = job_hash(session);
  if (rank->rank == of->victim) arm(rank, of);
  if (status == TDM_OK) status = note(rank, of, session, step(rank, session, 2), before);
  await_all(rank, of);
  tdm_session_release(session);
  return status;
}

/* ---- Killed and stopped ---------------------------------------------------------------------- */

/* Expects that every rank's step has failed, and that the others name the victim. A stopped rank
 * may find its vote counted when it continues, but the job is over. */
static void assert_all_told(const story *of, int count) {
  char name[16];
  (void)snprintf(name, sizeof name, "rank %d", of->victim);
  for (int r = 0; r < count; r++) {
    if (r == of->victim && of->how == STOPPED) continue;
    if (!of->happened[r])
      fail_msg("rank %d of %d was not told of rank %d, lost at %llu", r, count, of->victim,
               (unsigned long long)of->at);
    if (!strstr(of->messages[r], "rank")) fail_msg("rank %d says \"%s\"", r, of->messages[r]);
    if (of->how == STOPPED && !strstr(of->messages[r], name))
      fail_msg("rank %d does not name %s: \"%s\"", r, name, of->messages[r]);
  }
}

/* Loses the victim at its first, second, ... post, until no post is left. Returns the number of
 * losses. */
static int lose_at_every_post(ending how, int count, int victim) {
  const tdm_control_options watch = watch_of(how);
  for (uint64_t at = 1;; at += test_is_sanitized() ? 3 : 1) {
    story of = {.how = how, .victim = victim, .at = at};
    job_rank ranks[JOB_MOST_RANKS];
    const job_options options = {
        .rank_count = count, .watch = how == KILLED ? NULL : &watch, .user = &of};
    job_must(&options, lose_in_second_step, ranks);
    if (how == STOPPED ? !atomic_load(&of.hangs) : !of.happened[victim]) {
      for (int r = 0; r < count; r++)
        assert_false(of.happened[r]);
      return (int)at - 1;
    }
    assert_all_told(&of, count);
  }
}

static void a_rank_that_is_killed_at_any_post_updates_nothing(void **state) {
  (void)state;
  for (int count = 2; count <= 4; count++)
    for (int victim = 0; victim < count; victim++)
      assert_true(lose_at_every_post(KILLED, count, victim) > 3);
}

static void a_rank_that_is_stopped_at_any_post_updates_nothing(void **state) {
  (void)state;
  for (int victim = 0; victim < 2; victim++)
    assert_true(lose_at_every_post(STOPPED, 2, victim) > 3);
  assert_true(lose_at_every_post(STOPPED, 3, 2) > 3);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* A rank that exits keeps its context, session and threads until the process has ended, here until
 * the others have been notified. */
static tdm_status leave_before_others(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  if (status == TDM_OK && rank->rank != of->victim) {
    const uint64_t before = job_hash(session);
    status = note(rank, of, session, step(rank, session, 2), before);
    if (status == TDM_OK && step(rank, session, 2) == TDM_OK) status = TDM_INTERNAL;
    await_all(rank, of);
  } else if (of->how == EXITING) {
    tdm_control_tell_exit(tdm_network_control(tdm_context_network(rank->context)));
    await_all(rank, of);
  }
  tdm_session_release(session);
  return status;
}

static void tell_who_waits(ending how) {
  const tdm_control_options watch = watch_of(how);
  for (int victim = 0; victim < 3; victim++) {
    story of = {.how = how, .victim = victim};
    job_rank ranks[3];
    job_must(&(job_options){.rank_count = 3, .watch = &watch, .user = &of}, leave_before_others,
             ranks);
    for (int r = 0; r < 3; r++) {
      assert_int_equal(of.happened[r], r != victim);
      if (r != victim && !strstr(of.messages[r], "has left the job"))
        fail_msg("rank %d says \"%s\"", r, of.messages[r]);
    }
  }
}

static void who_waits_for_a_rank_that_has_left_is_told(void **state) {
  (void)state;
  tell_who_waits(LEAVING);
}

static void who_waits_for_a_rank_that_has_exited_is_told(void **state) {
  (void)state;
  tell_who_waits(EXITING);
}

/* ---- Lost links between ranks ---------------------------------------------------------------- */

/* Rank 0 cuts its link with rank 1 between the steps. */
static tdm_status lose_link(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  (void)atomic_fetch_add(&of->begun, 1);
  while (atomic_load(&of->begun) < rank->rank_count)
    (void)usleep(1000);
  const uint64_t before = job_hash(session);
  if (rank->rank == 0) tdm_simnet_link(rank->net, 0, 1, false);
  if (status == TDM_OK) status = note(rank, of, session, step(rank, session, 2), before);
  await_all(rank, of);
  tdm_session_release(session);
  return status;
}

static void a_cut_link_is_told_while_ranks_hear_of_one_another(void **state) {
  (void)state;
  tdm_control_options watch = watch_of(LEAVING);
  watch.stall_ns = 1000000000;
  for (int count = 2; count <= 3; count++) {
    story of = {.victim = -1};
    job_rank ranks[3];
    job_must(&(job_options){.rank_count = count, .watch = &watch, .user = &of}, lose_link, ranks);
    for (int r = 0; r < count; r++) {
      assert_true(of.happened[r]);
      static const char waited[] = "is stalled: both ends have waited for it for ";
      const char *found = strstr(of.messages[r], waited);
      const double seconds = found ? strtod(found + strlen(waited), NULL) : 0;
      if (seconds < 0.9 || seconds > 3600) fail_msg("rank %d says \"%s\"", r, of.messages[r]);
    }
  }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The first step makes the plan, too. */
static tdm_status fail_in_first_step(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  if (rank->rank == of->victim) tdm_faulty_allocator_arm(of->faulty[rank->rank], of->at, false);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  of->happened[rank->rank] = status != TDM_OK;
  if (status != TDM_OK)
    (void)snprintf(of->messages[rank->rank], TDM_MESSAGE_BYTES, "%s", tdm_last_message());
  rank->number = session->store->steps;
  rank->loss = (double)tdm_faulty_allocator_failures(of->faulty[rank->rank]);
  tdm_faulty_allocator_arm(of->faulty[rank->rank], 0, false);
  test_batch_release(&batch);
  await_all(rank, of);
  tdm_session_release(session);
  return TDM_OK;
}

/* The Nth allocation of a rank's step fails; false: it made fewer. */
static bool fail_allocation(int count, int victim, uint64_t at) {
  const tdm_control_options watch = watch_of(OUT_OF_MEMORY);
  tdm_faulty_allocator *faulty[JOB_MOST_RANKS];
  tdm_allocator allocators[JOB_MOST_RANKS];
  for (int r = 0; r < count; r++) {
    faulty[r] = tdm_faulty_allocator_create();
    allocators[r] = tdm_faulty_allocator_view(faulty[r]);
  }
  story of = {.how = OUT_OF_MEMORY, .victim = victim, .at = at, .faulty = faulty};
  job_rank ranks[JOB_MOST_RANKS];
  job_must(
      &(job_options){.rank_count = count, .watch = &watch, .allocators = allocators, .user = &of},
      fail_in_first_step, ranks);
  const bool failed = ranks[victim].loss > 0;
  for (int r = 0; r < count; r++) {
    if (of.happened[r] != of.happened[victim])
      fail_msg("allocation %llu of rank %d: rank %d says \"%s\", rank %d \"%s\"",
               (unsigned long long)at, victim, victim, of.messages[victim], r, of.messages[r]);
    assert_int_equal(ranks[r].number, of.happened[victim] ? 0 : 1);
    tdm_faulty_allocator_destroy(faulty[r]);
  }
  return failed;
}

/* Fails each of the first allocations, and then fewer and fewer of the later ones. */
static void a_rank_without_memory_updates_nothing_anywhere(void **state) {
  (void)state;
  for (int victim = 0; victim < 2; victim++) {
    uint64_t at = 1;
    while (fail_allocation(2, victim, at))
      at += 1 + at / 16;
    assert_true(at > 20);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_that_is_killed_at_any_post_updates_nothing),
      cmocka_unit_test(a_rank_that_is_stopped_at_any_post_updates_nothing),
      cmocka_unit_test(who_waits_for_a_rank_that_has_left_is_told),
      cmocka_unit_test(who_waits_for_a_rank_that_has_exited_is_told),
      cmocka_unit_test(a_cut_link_is_told_while_ranks_hear_of_one_another),
      cmocka_unit_test(a_rank_without_memory_updates_nothing_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
