/* Transfers between GPUs of several ranks without the host, through NCCL's test double: the same
 * bits as through hosts, no bytes in host memory, steps in flight, and runs that fail. */
#define _GNU_SOURCE /* usleep */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/hash.h"
#include "graph/passes/device_sums.h"
#include "graph/run/session.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 18, STEPS = 6, NEWEST = 22809, GPUS = 4, NAME = 40 };

/* The script of all ranks of a job, and its result. */
typedef struct story {
  tdm_graph *(*build)(const job_rank *rank, tdm_value *out_loss);
  int depth; /* runs in flight; 0: one by one */
  int micro_batches;
  bool infers;                      /* runs only read, and answer scores */
  bool by_hosts;                    /* rank 0 has no NCCL */
  int bad_run;                      /* an id of it is outside of the table, from 1; 0: none */
  _Atomic int landed;               /* runs of all ranks that have ended */
  int failed[JOB_MOST_RANKS];       /* runs */
  int first_failed[JOB_MOST_RANKS]; /* first failed step, from 1 */
  char messages[JOB_MOST_RANKS][TDM_MESSAGE_BYTES];
  uint64_t answers[JOB_MOST_RANKS]; /* a hash of all scores and losses, in their order */
  uint64_t exchanges[JOB_MOST_RANKS];
  uint64_t sent_bytes[JOB_MOST_RANKS];   /* bytes sent by hosts */
  uint64_t staged_bytes[JOB_MOST_RANKS]; /* bytes between GPUs and hosts, by this rank's plan */
  char *explained[JOB_MOST_RANKS];
} story;

/* ---- Models ---------------------------------------------------------------------------------- */

static const char *gpu(int rank, char *text) {
  (void)snprintf(text, NAME, "host:%d/cuda:%d", rank, rank);
  return text;
}

/* Builds a graph in which a value alternates between the GPUs of the first rank and of the last. */
static tdm_graph *build_zigzag(const job_rank *rank, tdm_value *out_loss) {
  char first[NAME], last[NAME];
  return zigzag_graph(rank->context, gpu(0, first), gpu(rank->rank_count - 1, last), out_loss);
}

/* A parameter of one GPU is read on another, too: its copy is refreshed under a condition. */
static tdm_graph *build_tied(const job_rank *rank, tdm_value *out_loss) {
  char first[NAME], last[NAME];
  return tied_graph(rank->context, gpu(0, first), gpu(rank->rank_count - 1, last), out_loss);
}

/* Builds a graph in which a value visits all GPUs twice, and all read the result of the first, so
 * that several pairs transfer concurrently. */
static tdm_graph *build_round(const job_rank *rank, tdm_value *out_loss) {
  enum { ROUNDS = 2, WIDTH = 16 };
  char name[NAME];
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, gpu(0, name));
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, WIDTH);
  tdm_value x = words;
  for (int i = 0; i < ROUNDS * rank->rank_count; i++) {
    char layer[24], bend[24];
    (void)snprintf(layer, sizeof layer, "layer%d", i);
    (void)snprintf(bend, sizeof bend, "bend%d", i);
    tdm_place(graph, gpu((i + 1) % rank->rank_count, name));
    x = tdm_add(graph, layer, tdm_tanh(graph, bend, tdm_linear(graph, layer, x, WIDTH)), words);
  }
  const tdm_value scores = tdm_linear(graph, "scores", x, MODEL_WIDTH);
  tdm_output(graph, "scores", scores);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  return graph;
}

/* Creates a graph with a replica on each GPU; deterministic, so gradients go from GPU to GPU in the
 * order of replicas. */
static tdm_graph *build_replicas(const job_rank *rank, tdm_value *out_loss) {
  char devices[JOB_MOST_RANKS * NAME] = "", name[NAME];
  for (int r = 0; r < rank->rank_count; r++) {
    const size_t length = strlen(devices);
    (void)snprintf(devices + length, sizeof devices - length, "%s%s", r > 0 ? "," : "",
                   gpu(r, name));
  }
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, gpu(0, name));
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value hidden = tdm_tanh(graph, "bend", tdm_linear(graph, "hidden", words, 24));
  const tdm_value scores = tdm_linear(graph, "scores", hidden, MODEL_WIDTH);
  tdm_scope_pop(graph);
  tdm_output(graph, "scores", scores);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, "model", &options);
  return graph;
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static void explain(tdm_session *session, char **out_text) {
  size_t bytes;
  FILE *file = open_memstream(out_text, &bytes);
  assert_non_null(file);
  assert_ok(tdm_session_explain(session, TDM_PLAN_TEXT, file));
  (void)fclose(file);
}

/* Inspects the plan of the last run. */
static void look_at_plan(const job_rank *rank, story *of, tdm_session *session) {
  const tdm_plan *plan = session->newest;
  of->exchanges[rank->rank] = plan->network.exchanges;
  of->sent_bytes[rank->rank] = plan->network.sent_bytes;
  of->staged_bytes[rank->rank] = 0;
  TDM_EACH_NODE(&plan->graph, node) {
    if (node->operation || node->transfer.hop == 0 || tdm_ir_is_message(&plan->graph, node))
      continue;
    if (tdm_rank_of(&plan->graph, node->device) != rank->rank) continue;
    of->staged_bytes[rank->rank] += tdm_ir_value_at(&plan->graph, node->first_output)->bytes;
  }
  explain(session, &of->explained[rank->rank]);
}

typedef struct landing {
  const job_rank *rank;
  story *of;
  _Atomic int landed;
  int begun;
} landing;

static void on_run(void *user, tdm_run_result *result) {
  landing *mine = user;
  story *of = mine->of;
  const int rank = mine->rank->rank;
  uint64_t *answers = &of->answers[rank];
  const int number = atomic_load(&mine->landed) + 1;
  if (result->status != TDM_OK) {
    if (of->failed[rank]++ == 0) {
      of->first_failed[rank] = number;
      (void)snprintf(of->messages[rank], TDM_MESSAGE_BYTES, "%s", result->message);
    }
  } else {
    *answers = tdm_hash_bytes((const char *)&result->loss, sizeof result->loss, *answers);
  }
  for (size_t i = 0; i < result->fetch_count; i++) {
    tdm_tensor *scores = result->fetches[i].tensor;
    *answers = tdm_hash_bytes(tdm_tensor_data(scores), tdm_tensor_bytes(scores), *answers);
    tdm_tensor_release(scores);
  }
  (void)atomic_fetch_add(&mine->landed, 1);
}

static tdm_status begin_run(landing *mine, tdm_session *session) {
  const story *of = mine->of;
  const tdm_fetch fetch = {.name = "scores"};
  test_batch batch;
  test_batch_make(&batch, mine->rank->context, ROWS, (uint64_t)++mine->begun);
  if (mine->begun == of->bad_run) ((int64_t *)tdm_tensor_data(batch.ids))[0] = MODEL_ROWS + 5;
  const tdm_status status = tdm_submit(session, !of->infers, batch.feeds, of->infers ? 1 : 2,
                                       &fetch, of->infers ? 1 : 0, on_run, mine);
  test_batch_release(&batch);
  while (of->depth == 0 && status == TDM_OK && atomic_load(&mine->landed) < mine->begun)
    (void)usleep(500);
  return status;
}

static tdm_status live(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_value loss;
  tdm_graph *graph = of->build(rank, &loss);
  const tdm_optimizer optimizer = tdm_adam(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = of->infers ? (tdm_value){0, 0} : loss,
              o.optimizer = of->infers ? NULL : &optimizer, o.depth = OR_ONE(of->depth),
              o.micro_batches = OR_ONE(of->micro_batches), o.seed = 7, o.deterministic = true);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) return TDM_INTERNAL;
  landing mine = {.rank = rank, .of = of};
  tdm_status status = TDM_OK;
  for (int i = 0; i < STEPS && status == TDM_OK; i++)
    status = begin_run(&mine, session);
  while (atomic_load(&mine.landed) < mine.begun - (status != TDM_OK))
    (void)usleep(500);
  if (status == TDM_OK) look_at_plan(rank, of, session);
  rank->hash = job_hash(session);
  tdm_session_release(session);
  return status;
}

static void begin_rank(int rank, const void *user) {
  const story *of = user;
  emulation_set_nccl(of->by_hosts && rank == 0 ? 0 : NEWEST);
}

static void forget(story *of) {
  for (int r = 0; r < JOB_MOST_RANKS; r++)
    free(of->explained[r]);
}

/* Returns the hash of all parameters. */
static uint64_t run(story *of, int count) {
  job_rank ranks[JOB_MOST_RANKS];
  uint64_t hash = 0;
  emulation_set_driver(EMULATED_DRIVER, GPUS);
  job_must(&(job_options){.rank_count = count, .user = of, .begin = begin_rank}, live, ranks);
  for (int r = 0; r < count; r++) {
    hash ^= ranks[r].hash;
    if (of->answers[r] != of->answers[0]) fail_msg("rank %d has other answers than rank 0", r);
  }
  return hash;
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Transfers by GPUs and by hosts have equal results. Bytes that GPUs send never enter host
 * memory. */
static void expect_alike(story like, int count) {
  story by_hosts = like, by_gpus = like;
  by_hosts.by_hosts = true;
  uint64_t before = emulation_nccl_transfers();
  const uint64_t expected = run(&by_hosts, count);
  assert_int_equal(emulation_nccl_transfers(), before);
  before = emulation_nccl_transfers();
  if (run(&by_gpus, count) != expected || by_gpus.answers[0] != by_hosts.answers[0])
    fail_msg("%d ranks: other bits by GPUs than by hosts", count);
  assert_true(emulation_nccl_transfers() - before >= STEPS);
  assert_int_equal(by_gpus.failed[0] + by_hosts.failed[0], 0);
  assert_int_equal(by_hosts.exchanges[0], 0);
  uint64_t staged[2] = {0, 0}, sent[2] = {0, 0};
  for (int r = 0; r < count; r++) {
    staged[0] += by_gpus.staged_bytes[r];
    staged[1] += by_hosts.staged_bytes[r];
    sent[0] += by_gpus.sent_bytes[r];
    sent[1] += by_hosts.sent_bytes[r];
  }
  assert_true(staged[1] > staged[0] && sent[1] > sent[0]);
  for (int r = 0; r < count; r++) {
    if (by_gpus.exchanges[r] > 0 && (!strstr(by_gpus.explained[r], "by devices of two ranks") ||
                                     !strstr(by_gpus.explained[r], "\n  exchanged ")))
      fail_msg("rank %d explains:\n%.2000s", r, by_gpus.explained[r]);
  }
  assert_true(by_gpus.exchanges[0] > 0 && by_gpus.exchanges[count - 1] > 0);
  forget(&by_hosts);
  forget(&by_gpus);
}

static tdm_graph *(*const builds[])(const job_rank *rank, tdm_value *out_loss) = {
    build_zigzag, build_tied, build_round, build_replicas};

/* Sanitizers are slow: every other of a table of cases, or every fourth. */
static bool is_asked(size_t number) {
  return number % (test_is_thread_sanitized() ? 4 : test_is_sanitized() ? 2 : 1) == 0;
}

static void gpus_bring_what_hosts_bring(void **state) {
  (void)state;
  for (size_t b = 0; b < TDM_COUNT_OF(builds); b++)
    for (int count = 2; count <= 3; count++)
      if (is_asked(b + (size_t)count)) expect_alike((story){.build = builds[b]}, count);
}

static void micro_batches_and_steps_in_flight_do_too(void **state) {
  (void)state;
  for (size_t b = 0; b < TDM_COUNT_OF(builds); b++) {
    if (is_asked(b)) expect_alike((story){.build = builds[b], .depth = 3}, 2);
    if (is_asked(b + 1)) expect_alike((story){.build = builds[b], .micro_batches = 3}, 3);
  }
}

static void runs_that_only_read_do_too(void **state) {
  (void)state;
  for (size_t b = 0; b < TDM_COUNT_OF(builds); b++) {
    if (is_asked(b)) expect_alike((story){.build = builds[b], .infers = true}, 3);
    if (is_asked(b + 1)) expect_alike((story){.build = builds[b], .infers = true, .depth = 3}, 2);
  }
}

/* ---- Failing --------------------------------------------------------------------------------- */

/* Bytes between GPUs do not carry failures. A vote does, also in runs that only read. */
static void all_ranks_are_told_of_a_run_that_failed_on_one(void **state) {
  (void)state;
  for (int infers = 0; infers < 2; infers++)
    for (int depth = 0; depth <= 2; depth += 2) {
      story of = {.build = build_zigzag, .infers = infers != 0, .depth = depth, .bad_run = 3};
      (void)run(&of, 2);
      for (int r = 0; r < 2; r++) {
        assert_int_equal(of.failed[r], 1);
        assert_int_equal(of.first_failed[r], 3);
      }
      if (!strstr(of.messages[0], "is outside 0 to")) fail_msg("\"%s\"", of.messages[0]);
      if (!strstr(of.messages[1], "failed on")) fail_msg("\"%s\"", of.messages[1]);
      forget(&of);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpus_bring_what_hosts_bring),
      cmocka_unit_test(micro_batches_and_steps_in_flight_do_too),
      cmocka_unit_test(runs_that_only_read_do_too),
      cmocka_unit_test(all_ranks_are_told_of_a_run_that_failed_on_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
