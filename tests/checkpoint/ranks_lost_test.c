/* One rank lacks memory, or is killed, while all save or load: at every allocation and at every
 * post in turn. No rank waits without limit, a failed allocation fails on all ranks, and all memory
 * is released. */
#define _GNU_SOURCE /* usleep */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/devices/sanitized.h"
#include "tests/graph/job.h"
#include "tests/options.h"
#include "tests/shards.h"
#include "tests/support/faulty_allocator.h"

enum { RANKS = 2, ROWS = 12, PATH_BYTES = 512 };

#define NEVER_NS UINT64_C(300000000000)

typedef tdm_status (*task)(job_rank *rank, tdm_session *session, const char *path);

/* Shared by the job's ranks. */
typedef struct story {
  task does;
  int victim;
  uint64_t at; /* the allocation, or the post, from 1 */
  bool kills;  /* the victim at that post */
  tdm_faulty_allocator *faulty[RANKS];
  char path[PATH_BYTES];
  _Atomic int ended;
} story;

/* ---- What ranks do together -------------------------------------------------------------------
 */

static tdm_status save(job_rank *rank, tdm_session *session, const char *path) {
  (void)rank;
  return tdm_checkpoint_save(session, NULL, path);
}

static tdm_status load(job_rank *rank, tdm_session *session, const char *path) {
  (void)rank;
  tdm_tensor_list *own = NULL;
  const tdm_status status = tdm_checkpoint_load_with(session, NULL, path, &own);
  tdm_tensor_list_release(own);
  return status;
}

static tdm_status save_parameters(job_rank *rank, tdm_session *session, const char *path) {
  (void)rank;
  return tdm_state_dict_save(session, path, NULL);
}

static tdm_status load_parameters(job_rank *rank, tdm_session *session, const char *path) {
  (void)rank;
  const tdm_state_dict_options any = OPTIONS(tdm_state_dict_options, o.allow_unexpected = true);
  return tdm_state_dict_load(session, path, &any);
}

static tdm_status list_store(job_rank *rank, tdm_session *session, const char *path) {
  (void)rank, (void)path;
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), true);
  const tdm_status status = list ? TDM_OK : tdm_last_status();
  tdm_tensor_list_release(list);
  return status;
}

/* ---- A rank -----------------------------------------------------------------------------------
 */

static tdm_session *make_session(job_rank *rank) {
  const job_model model = {.optimizer = tdm_adam(0.01)};
  tdm_value loss;
  tdm_graph *graph = tied_graph(rank->context, "host:0/cpu:0", "host:1/cpu:0", &loss);
  return job_session(graph, loss, &model);
}

static tdm_status step(job_rank *rank, tdm_session *session) {
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, &rank->loss);
  test_batch_release(&batch);
  return status;
}

static void await_all(story *of, int times) {
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < times * RANKS)
    (void)usleep(1000);
}

static void arm(const job_rank *rank, story *of) {
  if (of->kills)
    tdm_simnet_kill_at(rank->net, rank->rank, tdm_simnet_posts(rank->net, rank->rank) + of->at);
  else
    tdm_faulty_allocator_arm(of->faulty[rank->rank], of->at, false);
}

/* number: whether it failed; hash: how often memory was short. */
static tdm_status live(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_session *session = make_session(rank);
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session);
  if (status == TDM_OK) status = tdm_checkpoint_save(session, NULL, of->path);
  if (rank->rank == of->victim) arm(rank, of);
  if (status == TDM_OK) rank->number = (uint64_t)of->does(rank, session, of->path);
  (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  rank->hash = tdm_faulty_allocator_failures(of->faulty[rank->rank]);
  tdm_faulty_allocator_arm(of->faulty[rank->rank], 0, false);
  await_all(of, 1);
  tdm_session_release(session);
  return status;
}

/* Kills the victim at a post. The others may then have everything that they wait for. Returns false
 * if the victim made fewer posts. */
static bool kill_at_post(task does, int victim, uint64_t at) {
  story of = {.does = does, .victim = victim, .at = at, .kills = true};
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(of.path, sizeof of.path, "%s/killed.safetensors", folder ? folder : "/tmp");
  job_rank ranks[RANKS];
  tdm_allocator allocators[RANKS];
  for (int r = 0; r < RANKS; r++) {
    of.faulty[r] = tdm_faulty_allocator_create();
    allocators[r] = tdm_faulty_allocator_view(of.faulty[r]);
  }
  job_must(&(job_options){.rank_count = RANKS, .allocators = allocators, .user = &of}, live, ranks);
  for (int r = 0; r < RANKS; r++)
    tdm_faulty_allocator_destroy(of.faulty[r]);
  const bool killed = ranks[victim].number != TDM_OK;
  if (!killed) assert_int_equal(ranks[1 - victim].number, TDM_OK);
  return killed;
}

/* False: there were fewer allocations. */
static bool fail_allocation(task does, int victim, uint64_t at) {
  const tdm_control_options watch = {.struct_size = sizeof watch,
                                     .allocator = tdm_allocator_default(),
                                     .beat_ns = 20000000,
                                     .silence_ns = NEVER_NS,
                                     .stall_ns = 2000000000};
  story of = {.does = does, .victim = victim, .at = at};
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(of.path, sizeof of.path, "%s/short.safetensors", folder ? folder : "/tmp");
  tdm_allocator allocators[RANKS];
  job_rank ranks[RANKS];
  for (int r = 0; r < RANKS; r++) {
    of.faulty[r] = tdm_faulty_allocator_create();
    allocators[r] = tdm_faulty_allocator_view(of.faulty[r]);
  }
  job_must(
      &(job_options){.rank_count = RANKS, .watch = &watch, .allocators = allocators, .user = &of},
      live, ranks);
  for (int r = 0; r < RANKS; r++) {
    if ((ranks[r].number == TDM_OK) != (ranks[victim].number == TDM_OK))
      fail_msg("allocation %llu of rank %d: rank 0: %s: %s; rank 1: %s: %s", (unsigned long long)at,
               victim, tdm_status_name((tdm_status)ranks[0].number), ranks[0].message,
               tdm_status_name((tdm_status)ranks[1].number), ranks[1].message);
    if (strstr(ranks[r].message, "has waited for"))
      fail_msg("allocation %llu of rank %d: rank %d: %s", (unsigned long long)at, victim, r,
               ranks[r].message);
    if (tdm_faulty_allocator_outstanding_bytes(of.faulty[r]) != 0)
      fail_msg("allocation %llu of rank %d: %lld bytes are left of rank %d, which says %s",
               (unsigned long long)at, victim,
               (long long)tdm_faulty_allocator_outstanding_bytes(of.faulty[r]), r,
               ranks[r].message);
    tdm_faulty_allocator_destroy(of.faulty[r]);
  }
  if (ranks[victim].hash == 0 && ranks[victim].number != TDM_OK)
    fail_msg("rank %d has memory: %s", victim, ranks[victim].message);
  return ranks[victim].hash > 0;
}

static const task tasks[] = {save, load, save_parameters, load_parameters, list_store};

/* Each allocation, or post; sanitizers are slow, and see every fifth. */
static uint64_t next(uint64_t at) {
  return at + (test_is_sanitized() ? 5 : 1);
}

static void a_rank_without_memory_fails_all_or_none(void **state) {
  const task *of = *state;
  for (int victim = 0; victim < RANKS; victim++) {
    uint64_t at = 1;
    while (fail_allocation(*of, victim, at))
      at = next(at);
    assert_true(at > 3);
  }
}

static void nobody_waits_for_a_rank_that_is_killed(void **state) {
  const task *of = *state;
  for (int victim = 0; victim < RANKS; victim++) {
    uint64_t at = 1;
    while (kill_at_post(*of, victim, at))
      at = next(at);
    assert_true(at > 2);
  }
}

#define CASE(function, at)                                                                         \
  { #function, function, NULL, NULL, (void *)&tasks[at] }

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(a_rank_without_memory_fails_all_or_none, 0),
      CASE(a_rank_without_memory_fails_all_or_none, 1),
      CASE(a_rank_without_memory_fails_all_or_none, 2),
      CASE(a_rank_without_memory_fails_all_or_none, 3),
      CASE(a_rank_without_memory_fails_all_or_none, 4),
      CASE(nobody_waits_for_a_rank_that_is_killed, 0),
      CASE(nobody_waits_for_a_rank_that_is_killed, 1),
      CASE(nobody_waits_for_a_rank_that_is_killed, 2),
      CASE(nobody_waits_for_a_rank_that_is_killed, 3),
      CASE(nobody_waits_for_a_rank_that_is_killed, 4),
  };
  return test_run_own_cases(tests, TDM_COUNT_OF(tests));
}
