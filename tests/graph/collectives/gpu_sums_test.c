/* Sums over GPUs of several ranks by the GPUs themselves, through NCCL's test double: numbers,
 * reports, and machines without NCCL. */
#define _GNU_SOURCE /* usleep */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/passes/device_sums.h"
#include "graph/run/session.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, LAYERS = 3, WIDTH = 24, STEPS = 5, NEWEST = 22809 };

/* The script of all ranks of a job, and its result. */
typedef struct story {
  const char *devices[2]; /* devices of replicas, such as "cuda:0", in turn; NULL: the first */
  int replicas;           /* replicas per rank */
  int micro_batches;
  tdm_collective way;
  bool deterministic;
  const int *versions; /* versions of NCCL by rank; NULL: the newest */
  uint64_t device_sums[JOB_MOST_RANKS];
  uint64_t sent_bytes[JOB_MOST_RANKS];
  uint64_t largest_copy[JOB_MOST_RANKS]; /* largest copy in the plan, without refreshes */
  char *explained[JOB_MOST_RANKS];
} story;

static tdm_graph *describe(const job_rank *rank, const story *of, tdm_value *out_loss) {
  tdm_graph *graph = job_deep_graph(rank, LAYERS, WIDTH, tdm_tanh, out_loss);
  job_replicate(rank, graph, "model", of->replicas * rank->rank_count, of->devices[0],
                of->devices[1]);
  return graph;
}

static void explain(tdm_session *session, char **out_text) {
  size_t bytes;
  FILE *file = open_memstream(out_text, &bytes);
  assert_non_null(file);
  assert_ok(tdm_session_explain(session, TDM_PLAN_TEXT, file));
  (void)fclose(file);
}

static tdm_status train(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_value loss;
  const job_model model = {.optimizer = tdm_adam(0.01),
                           .collective = of->way,
                           .micro_batches = of->micro_batches,
                           .any_order = !of->deterministic};
  tdm_session *session = job_session(describe(rank, of, &loss), loss, &model);
  if (!session) return TDM_INTERNAL;
  tdm_status status = TDM_OK;
  for (uint64_t step = 1; step <= STEPS && status == TDM_OK; step++) {
    test_batch batch;
    test_batch_make(&batch, rank->context, ROWS, step);
    status = tdm_train_step(session, batch.feeds, 2, NULL, 0, &rank->loss);
    test_batch_release(&batch);
  }
  if (status == TDM_OK) {
    const tdm_plan *plan = session->newest;
    of->device_sums[rank->rank] = plan->network.device_sums;
    of->sent_bytes[rank->rank] = plan->network.sent_bytes;
    TDM_EACH_NODE(&plan->graph, node) {
      const uint64_t bytes = tdm_ir_value_at(&plan->graph, node->first_output)->bytes;
      const bool copies = !node->operation && tdm_plan_is_usual(plan, node);
      if (copies && bytes > of->largest_copy[rank->rank]) of->largest_copy[rank->rank] = bytes;
    }
    explain(session, &of->explained[rank->rank]);
  }
  tdm_session_release(session);
  return status;
}

static void begin_rank(int rank, const void *user) {
  const story *of = user;
  emulation_set_nccl(of->versions ? of->versions[rank] : NEWEST);
}

/* Returns the last loss, which is that of all ranks. */
static double run(story *of, int rank_count) {
  job_rank ranks[JOB_MOST_RANKS];
  for (int r = 0; r < rank_count; r++) {
    free(of->explained[r]);
    of->explained[r] = NULL;
  }
  job_must(&(job_options){.rank_count = rank_count, .user = of, .begin = begin_rank}, train, ranks);
  for (int r = 1; r < rank_count; r++)
    if (ranks[r].loss != ranks[0].loss) fail_msg("rank %d has another loss than rank 0", r);
  return ranks[0].loss;
}

static void assert_explained(const story *of, int rank, const char *words) {
  if (!strstr(of->explained[rank], words))
    fail_msg("rank %d does not explain \"%s\":\n%.2000s", rank, words, of->explained[rank]);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void forget(story *of) {
  for (int r = 0; r < JOB_MOST_RANKS; r++)
    free(of->explained[r]);
}

static void expect_the_sum_of_hosts(const story *like, int rank_count, uint64_t members) {
  story by_hosts = *like;
  story by_gpus = *like;
  by_hosts.way = TDM_COLLECTIVE_HOME;
  by_gpus.way = TDM_COLLECTIVE_ALL_REDUCE;
  const double expected = run(&by_hosts, rank_count);
  assert_true(isfinite(expected) && expected > 0);
  const uint64_t before = emulation_nccl_sums();
  const double loss = run(&by_gpus, rank_count);
  if (fabs(loss - expected) > 1e-5 * expected)
    fail_msg("%d ranks: loss %.9f by GPUs, %.9f by hosts", rank_count, loss, expected);
  assert_true(by_gpus.device_sums[0] > 0);
  assert_int_equal((emulation_nccl_sums() - before) * members, STEPS * by_gpus.device_sums[0]);
  for (int r = 0; r < rank_count; r++) {
    assert_int_equal(by_gpus.device_sums[r], by_gpus.device_sums[0]);
    assert_int_equal(by_hosts.device_sums[r], 0);
    assert_explained(&by_gpus, r, "by the devices themselves, through NCCL 2.28.9");
  }
  forget(&by_hosts);
  forget(&by_gpus);
}

static void gpus_sum_as_hosts_do(void **state) {
  (void)state;
  for (int count = 2; count <= 3; count++)
    for (int replicas = 1; replicas <= 2; replicas++) {
      if (test_is_sanitized() && replicas != count - 1) continue;
      expect_the_sum_of_hosts(&(story){.devices = {"cuda:0"}, .replicas = replicas}, count, 1);
    }
}

static void several_gpus_of_a_rank_are_members_each(void **state) {
  (void)state;
  expect_the_sum_of_hosts(&(story){.devices = {"cuda:0", "cuda:1"}, .replicas = 2}, 2, 2);
}

/* A process without a job has its GPUs sum as well, and hosts nothing to do with it. */
static void gpus_of_one_process_sum_themselves(void **state) {
  (void)state;
  emulation_set_nccl(NEWEST);
  expect_the_sum_of_hosts(&(story){.devices = {"cuda:0", "cuda:1"}, .replicas = 2}, 1, 2);
  expect_the_sum_of_hosts(
      &(story){.devices = {"cuda:0", "cuda:1"}, .replicas = 2, .micro_batches = 2}, 1, 2);
}

static void micro_batches_are_summed_before(void **state) {
  (void)state;
  expect_the_sum_of_hosts(&(story){.devices = {"cuda:0"}, .replicas = 1, .micro_batches = 3}, 2, 1);
}

/* No gradient and no parameter goes anywhere but in sums: only scores do, for the loss, from GPU to
 * GPU as well. */
static void nothing_large_goes_through_hosts(void **state) {
  (void)state;
  story of = {.devices = {"cuda:0"}, .replicas = 1, .way = TDM_COLLECTIVE_ALL_REDUCE};
  (void)run(&of, 2);
  for (int r = 0; r < 2; r++) {
    assert_in_range(of.sent_bytes[r], 0, sizeof(float));
    assert_in_range(of.largest_copy[r], 1, ROWS * MODEL_WIDTH * sizeof(float));
  }
  forget(&of);
}

/* ---- In flight ------------------------------------------------------------------------------- */

typedef struct landing {
  _Atomic int landed;
  int failed;
  double loss;
} landing;

static void on_run(void *user, tdm_run_result *result) {
  landing *all = user;
  all->failed += result->status != TDM_OK;
  all->loss = result->loss;
  atomic_fetch_add(&all->landed, 1);
}

/* Submits all steps without waiting; three of them are in flight together. */
static tdm_status fly(job_rank *rank) {
  const story *of = rank->user;
  tdm_value loss;
  tdm_graph *graph = describe(rank, of, &loss);
  const tdm_optimizer optimizer = tdm_adam(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &optimizer, o.collective = of->way,
              o.depth = 3, o.seed = 7);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) return TDM_INTERNAL;
  landing all = {0};
  tdm_status status = TDM_OK;
  int begun = 0;
  for (; begun < STEPS && status == TDM_OK; begun++) {
    test_batch batch;
    test_batch_make(&batch, rank->context, ROWS, (uint64_t)begun + 1);
    status = tdm_submit(session, true, batch.feeds, 2, NULL, 0, on_run, &all);
    test_batch_release(&batch);
  }
  while (atomic_load(&all.landed) < begun)
    (void)usleep(1000);
  if (status == TDM_OK && all.failed > 0) status = tdm_fail(TDM_INTERNAL, "a step failed");
  rank->loss = all.loss;
  tdm_session_release(session);
  return status;
}

static void steps_in_flight_sum_in_their_order(void **state) {
  (void)state;
  story of = {.devices = {"cuda:0"}, .replicas = 1, .way = TDM_COLLECTIVE_ALL_REDUCE};
  const double expected = run(&of, 2);
  const uint64_t before = emulation_nccl_sums();
  job_rank ranks[2];
  job_must(&(job_options){.rank_count = 2, .user = &of, .begin = begin_rank}, fly, ranks);
  assert_int_equal(emulation_nccl_sums() - before, STEPS * of.device_sums[0]);
  for (int r = 0; r < 2; r++)
    if (ranks[r].loss != expected)
      fail_msg("rank %d: loss %.9f in flight, %.9f one by one", r, ranks[r].loss, expected);
  forget(&of);
}

/* ---- Where they cannot ----------------------------------------------------------------------- */

/* Trains all the same, through hosts, and all ranks say why. */
static void expect_hosts(story *of, const char *reason) {
  if (!of->devices[0]) of->devices[0] = "cuda:0";
  if (of->replicas == 0) of->replicas = 1;
  of->way = TDM_COLLECTIVE_ALL_REDUCE;
  const uint64_t before = emulation_nccl_sums();
  assert_true(isfinite(run(of, 2)));
  assert_int_equal(emulation_nccl_sums(), before);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(of->device_sums[r], 0);
    if (reason) assert_explained(of, r, reason);
    if (!reason && strstr(of->explained[r], "through hosts"))
      fail_msg("hosts are explained:\n%.2000s", of->explained[r]);
  }
  forget(of);
}

static void ranks_without_nccl_are_named(void **state) {
  (void)state;
  expect_hosts(&(story){.versions = (const int[]){NEWEST, 0}},
               "through hosts, since host:1/cuda:0: no NCCL: libnccl.so.2: emulated as missing");
  expect_hosts(&(story){.versions = (const int[]){21003, NEWEST}},
               "through hosts, since host:0/cuda:0: NCCL 2.10.3 is too old: 2.14.0 or newer");
  expect_hosts(&(story){.versions = (const int[]){NEWEST, 22005}},
               "through hosts, since host:0/cuda:0 has NCCL 2.28.9, and host:1/cuda:0 has NCCL "
               "2.20.5");
  expect_hosts(&(story){.devices = {"cpu:0"}}, NULL);
}

static void the_environment_switches_it_off(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_NCCL", "0", 1), 0);
  expect_hosts(&(story){0}, "through hosts, since host:0/cuda:0: TANDEM_NCCL is 0");
  assert_int_equal(setenv("TANDEM_NCCL", "2", 1), 0);
  assert_null(tdm_context_create(NULL));
  assert_message("TANDEM_NCCL");
  assert_int_equal(unsetenv("TANDEM_NCCL"), 0);
}

/* Two devices that are one GPU cannot be two members. */
static void a_divided_gpu_is_told(void **state) {
  (void)state;
  assert_int_equal(setenv("TANDEM_CUDA_LOGICAL", "2", 1), 0);
  expect_hosts(&(story){.devices = {"cuda:0", "cuda:1"}, .replicas = 2},
               "through hosts, since host:0/cuda:0 and host:0/cuda:1 are on one GPU");
  assert_int_equal(unsetenv("TANDEM_CUDA_LOGICAL"), 0);
}

/* In the order of replicas, so gradients are sent, and none is summed by NCCL. */
static void deterministic_sums_are_never_its_own(void **state) {
  (void)state;
  story ordered = {.devices = {"cuda:0"}, .replicas = 1, .deterministic = true};
  const uint64_t before = emulation_nccl_sums();
  (void)run(&ordered, 2);
  forget(&ordered);
  assert_int_equal(emulation_nccl_sums(), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpus_sum_as_hosts_do),
      cmocka_unit_test(several_gpus_of_a_rank_are_members_each),
      cmocka_unit_test(gpus_of_one_process_sum_themselves),
      cmocka_unit_test(micro_batches_are_summed_before),
      cmocka_unit_test(nothing_large_goes_through_hosts),
      cmocka_unit_test(steps_in_flight_sum_in_their_order),
      cmocka_unit_test(ranks_without_nccl_are_named),
      cmocka_unit_test(the_environment_switches_it_off),
      cmocka_unit_test(a_divided_gpu_is_told),
      cmocka_unit_test(deterministic_sums_are_never_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
