/* Sums over GPUs of ranks when one is lost, leaves, fails in any call of NCCL, or stalls although
 * all live. All ranks report it in that step, none hangs, none has updated anything. */
#define _GNU_SOURCE /* usleep */
#include <stdio.h>
#include <unistd.h>

#include "devices/context/context.h"
#include "devices/cuda/library/nccl.h"
#include "devices/network/network.h"
#include "graph/run/session.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/job.h"
#include "tests/options.h"
#include "tests/shards.h"

enum { ROWS = 12, WIDTH = 8, STEPS = 3 };

typedef enum ending {
  SILENT,
  LEAVING,
  LOSING_ITS_GPU,
  BAD_INPUT,
  FAILING,
  STALLING,         /* sums, from the second step on */
  STALLING_AT_ONCE, /* joining the group */
  SLOW,             /* kernels of GPUs take longer than the limit for stalled sums */
} ending;

/* Failure of a rank in the second step, or of calls of NCCL in any step. Shared by all ranks. */
typedef struct story {
  ending how;
  bool exchanges; /* the GPUs send one another, rather than sum */
  bool hasty;     /* a rank that NCCL notifies of a failure hardly waits for its reason */
  int victim;
  uint64_t at;                     /* the launch that loses the victim's GPU, from 1 */
  _Atomic int told;                /* number of other ranks whose step has failed */
  _Atomic int ended;               /* ranks whose steps are over, whatever became of them */
  int failed_step[JOB_MOST_RANKS]; /* the first that failed; 0: none */
  char messages[JOB_MOST_RANKS][TDM_MESSAGE_BYTES];
} story;

enum { NAMING_NS = 700000000, HASTY_NAMING_NS = 50000000 };
#define NEVER_NS UINT64_C(300000000000)

/* If no rank hangs, a silent rank was only waiting for a core. */
static tdm_control_options watch_of(const story *of) {
  return (tdm_control_options){.struct_size = sizeof(tdm_control_options),
                               .allocator = tdm_allocator_default(),
                               .beat_ns = 20000000,
                               .silence_ns = of->how == SILENT ? 2000000000 : NEVER_NS,
                               .stall_ns = of->how < STALLING ? 0
                                           : of->how == SLOW  ? 1000000000
                                                              : 500000000};
}

/* The first and the last GPU have parts, between which all goes to and fro. */
static tdm_session *make_parts(const job_rank *rank) {
  char last[40];
  (void)snprintf(last, sizeof last, "host:%d/cuda:%d", rank->rank_count - 1, rank->rank_count - 1);
  tdm_value loss;
  tdm_graph *graph = zigzag_graph(rank->context, "host:0/cuda:0", last, &loss);
  return job_session(graph, loss, &(job_model){.optimizer = tdm_adam(0.01)});
}

/* Rank R computes on cuda:R, so that one can be lost. */
static tdm_session *make_session(const job_rank *rank, const story *of) {
  if (of->exchanges) return make_parts(rank);
  char devices[JOB_MOST_RANKS * 24] = "";
  for (int r = 0; r < rank->rank_count; r++) {
    const size_t length = strlen(devices);
    (void)snprintf(devices + length, sizeof devices - length, "%shost:%d/cuda:%d", r > 0 ? "," : "",
                   r, r);
  }
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, WIDTH);
  const tdm_value hidden = tdm_tanh(graph, "bend", tdm_linear(graph, "hidden", words, WIDTH));
  const tdm_value scores = tdm_linear(graph, "scores", hidden, MODEL_WIDTH);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_cross_entropy(graph, "loss", scores, targets);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, "model", &options);
  const job_model model = {
      .optimizer = tdm_adam(0.01), .collective = TDM_COLLECTIVE_ALL_REDUCE, .any_order = true};
  return job_session(graph, loss, &model);
}

/* Rows of the last rank ask for an id that is not there. */
static void spoil(test_batch *batch) {
  ((int64_t *)tdm_tensor_data(batch->ids))[ROWS - 1] = MODEL_ROWS + 5;
}

static tdm_status step(const job_rank *rank, const story *of, tdm_session *session, int number) {
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, (uint64_t)number);
  if (of->how == BAD_INPUT && number == 2) spoil(&batch);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  test_batch_release(&batch);
  return status;
}

/* The victim hangs until all others have reported it. */
static void hang(const job_rank *rank, story *of) {
  tdm_control *control = tdm_network_control(tdm_context_network(rank->context));
  tdm_control_pause(control, true);
  while (atomic_load(&of->told) < rank->rank_count - 1)
    (void)usleep(1000);
  tdm_control_pause(control, false);
}

/* Parameters equal the earlier ones if the step failed. Before the first step there are none. */
static tdm_status note(const job_rank *rank, story *of, tdm_session *session, tdm_status status,
                       uint64_t before, int number) {
  if (status == TDM_OK || of->failed_step[rank->rank] != 0) return TDM_OK;
  of->failed_step[rank->rank] = number;
  (void)snprintf(of->messages[rank->rank], TDM_MESSAGE_BYTES, "%s", tdm_last_message());
  if (rank->rank != of->victim) (void)atomic_fetch_add(&of->told, 1);
  const bool lost = of->how == LOSING_ITS_GPU && rank->rank == of->victim; /* and its memory */
  const bool updated = number == 1 ? session->store->steps > 0 : job_hash(session) != before;
  return !lost && updated ? tdm_fail(TDM_INTERNAL, "a failed step has updated") : TDM_OK;
}

/* No rank leaves before all have the failure, or others would report its leaving. */
static void await_all(const job_rank *rank, story *of) {
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < rank->rank_count - (of->how == LEAVING))
    (void)usleep(1000);
}

static unsigned stalls_of(const story *of) {
  if (of->how == STALLING_AT_ONCE) return EMULATED_JOINING;
  if (of->how != STALLING) return 0;
  return of->exchanges ? EMULATED_TRANSFERS : EMULATED_SUMS;
}

static tdm_status live(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  const bool is_victim = rank->rank == of->victim;
  if (of->how == FAILING) /* NCCL's error waits for the name of a rank; here it is the only error */
    tdm_network_messenger(tdm_context_network(rank->context))->naming_ns =
        of->hasty ? HASTY_NAMING_NS : NAMING_NS;
  tdm_session *session = make_session(rank, of);
  if (!session) return TDM_INTERNAL;
  tdm_status status = TDM_OK;
  for (int number = 1; number <= STEPS && status == TDM_OK; number++) {
    if (number == 2 && is_victim && of->how == LEAVING) break;
    if (number == 2 && is_victim && of->how == SILENT) hang(rank, of);
    if (number == (of->how == STALLING ? 2 : 1)) emulation_stall_nccl(stalls_of(of));
    if (number == 2 && of->how == SLOW) break;
    if (number == 2 && is_victim && of->how == LOSING_ITS_GPU)
      emulation_fault_at(of->at, rank->rank, TDM_CUDA_ILLEGAL_ADDRESS);
    const uint64_t before = job_hash(session);
    status = note(rank, of, session, step(rank, of, session, number), before, number);
    if (number > 1) rank->number = session->store->steps;
  }
  if (!is_victim || of->how != LEAVING) await_all(rank, of);
  tdm_session_release(session);
  return status;
}

static void run_story(story *of, int count) {
  const tdm_control_options watch = watch_of(of);
  job_rank ranks[JOB_MOST_RANKS];
  emulation_set_driver(EMULATED_DRIVER, JOB_MOST_RANKS);
  job_must(&(job_options){.rank_count = count, .watch = &watch, .user = of}, live, ranks);
}

/* All ranks but the victim have failed in the second step, with these words. */
static void expect_told(const story *of, int count, const char *words) {
  for (int r = 0; r < count; r++) {
    if (r == of->victim) continue;
    if (of->failed_step[r] != 2)
      fail_msg("rank %d of %d failed in step %d: \"%s\"", r, count, of->failed_step[r],
               of->messages[r]);
    if (!strstr(of->messages[r], words))
      fail_msg("rank %d says \"%s\", not \"%s\"", r, of->messages[r], words);
  }
}

static void who_sums_with_a_rank_that_is_silent_is_told(void **state) {
  (void)state;
  for (int count = 2; count <= 3; count++) {
    story of = {.how = SILENT, .victim = count - 1};
    char words[64];
    (void)snprintf(words, sizeof words, "rank %d (host sim%d", of.victim, of.victim);
    run_story(&of, count);
    expect_told(&of, count, words);
    expect_told(&of, count, "has not been heard of");
  }
}

static void who_sums_with_a_rank_that_leaves_is_told(void **state) {
  (void)state;
  story of = {.how = LEAVING, .victim = 0};
  run_story(&of, 3);
  expect_told(&of, 3, "rank 0");
}

static void who_waits_for_a_gpus_bytes_is_told_of_its_rank(void **state) {
  (void)state;
  for (int victim = 0; victim < 2; victim++) {
    story of = {.how = SILENT, .exchanges = true, .victim = victim};
    run_story(&of, 2);
    expect_told(&of, 2, "has not been heard of");
    of = (story){.how = LEAVING, .exchanges = true, .victim = victim};
    run_story(&of, 2);
    expect_told(&of, 2, victim == 0 ? "rank 0" : "rank 1");
  }
}

static void who_exchanges_with_a_lost_gpu_is_told(void **state) {
  (void)state;
  for (uint64_t at = 1; at <= 12; at += test_is_sanitized() ? 5 : 2)
    for (int victim = 0; victim < 2; victim++) {
      story of = {.how = LOSING_ITS_GPU, .exchanges = true, .victim = victim, .at = at};
      run_story(&of, 2);
      emulation_fault_at(0, 0, 0);
      for (int r = 0; r < 2; r++)
        if (of.failed_step[r] == 0) fail_msg("launch %d: rank %d was not told", (int)at, r);
    }
}

/* Fails the first, second, ... launch of the second step: before, during and after its sums. In the
 * update phase only the victim fails, and the other ranks receive the failure in the next step. */
static void a_rank_that_loses_its_gpu_ends_the_step_of_all(void **state) {
  (void)state;
  for (uint64_t at = 1; at <= 24; at += test_is_sanitized() ? 6 : 1) {
    story of = {.how = LOSING_ITS_GPU, .victim = 1, .at = at};
    run_story(&of, 3);
    emulation_fault_at(0, 0, 0);
    if (at == 1) expect_told(&of, 3, "rank 1");
    for (int r = 0; r < 3; r++) {
      if (of.failed_step[r] == 0) fail_msg("launch %d: rank %d was not told", (int)at, r);
      if (of.failed_step[r] > 2 + (at > 10))
        fail_msg("launch %d: rank %d was told in step %d", (int)at, r, of.failed_step[r]);
    }
  }
}

/* The others sum a value that was never made, and continue with the next step. */
static void what_was_not_made_is_summed_and_not_counted(void **state) {
  (void)state;
  story of = {.how = BAD_INPUT, .victim = -1};
  run_story(&of, 3);
  for (int r = 0; r < 3; r++)
    assert_int_equal(of.failed_step[r], 2);
  assert_non_null(strstr(of.messages[2], "is outside 0 to"));
}

/* ---- Stalled --------------------------------------------------------------------------------- */

/* Checks the message of a slow rank, which receives the failure in messages that carry only the
 * beginning of its text. */
static void expect_stalled(const story *of, int count, int step, const char *words) {
  emulation_stall_nccl(0);
  int found = 0;
  for (int r = 0; r < count; r++) {
    if (of->failed_step[r] != step)
      fail_msg("rank %d of %d failed in step %d: \"%s\"", r, count, of->failed_step[r],
               of->messages[r]);
    if (strstr(of->messages[r], ": rank ") && strstr(of->messages[r], "of host:0/cuda:0")) continue;
    found++;
    if (!strstr(of->messages[r], words) ||
        !strstr(of->messages[r], "all have waited for it for 0.5"))
      fail_msg("rank %d says \"%s\", not \"%s\"", r, of->messages[r], words);
  }
  assert_true(found > 0);
}

static void a_sum_that_stands_still_is_told_though_all_live(void **state) {
  (void)state;
  for (int count = 2; count <= 3; count++) {
    char words[96];
    story of = {.how = STALLING, .victim = -1};
    run_story(&of, count);
    (void)snprintf(words, sizeof words, "of host:0/cuda:0 to host:%d/cuda:%d (%d devices, ",
                   count - 1, count - 1, count);
    expect_stalled(&of, count, 2, words);
    expect_stalled(&of, count, 2, " bytes) is stalled in step 2: ");
    expect_stalled(&of, count, 2, "the sum model/");
  }
}

static void bytes_that_stand_still_are_told_though_all_live(void **state) {
  (void)state;
  story of = {.how = STALLING, .exchanges = true, .victim = -1};
  run_story(&of, 3);
  expect_stalled(&of, 3, 2, "the transfer ");
  expect_stalled(&of, 3, 2, "of host:0/cuda:0 to host:2/cuda:2 (2 devices, ");
}

static void joining_that_stands_still_is_told_though_all_live(void **state) {
  (void)state;
  story of = {.how = STALLING_AT_ONCE, .victim = -1};
  run_story(&of, 2);
  expect_stalled(&of, 2, 1, "joining the group of host:0/cuda:0 to host:1/cuda:1 (2 devices");
}

/* The sum is on the stream long before the GPU has come to it. */
static void what_gpus_compute_for_long_does_not_stand_still(void **state) {
  (void)state;
  story of = {.how = SLOW, .victim = -1};
  emulation_set_delay(100000000);
  run_story(&of, 2);
  emulation_set_delay(0);
  for (int r = 0; r < 2; r++)
    if (of.failed_step[r] != 0) fail_msg("rank %d says \"%s\"", r, of.messages[r]);
}

/* ---- Calls of NCCL --------------------------------------------------------------------------- */

/* False: there are fewer calls. */
static bool fail_call(int count, uint64_t n, bool later, bool exchanges, bool hasty) {
  story of = {.how = FAILING, .exchanges = exchanges, .hasty = hasty, .victim = -1};
  emulation_fail_nccl_at(n, TDM_NCCL_SYSTEM_ERROR, later);
  run_story(&of, count);
  const bool failed = emulation_nccl_calls() >= n;
  emulation_fail_nccl_at(0, 0, false);
  int why = 0;
  for (int r = 0; r < count; r++) {
    if ((of.failed_step[r] != 0) != failed)
      fail_msg("call %llu: rank %d of %d failed in step %d", (unsigned long long)n, r, count,
               of.failed_step[r]);
    if (of.failed_step[r] != of.failed_step[0])
      fail_msg("call %llu: rank %d failed in step %d, rank 0 in %d", (unsigned long long)n, r,
               of.failed_step[r], of.failed_step[0]);
    const bool says_why = strstr(of.messages[r], "unhandled system error") != NULL;
    const bool says_that = strstr(of.messages[r], "remote process exited") != NULL;
    why += says_why;
    if (failed && !says_why && !(hasty && says_that))
      fail_msg("call %llu: rank %d says \"%s\"", (unsigned long long)n, r, of.messages[r]);
  }
  assert_true(!failed || why > 0);
  return failed;
}

/* The call that fails, and when the failure is reported. */
typedef struct failing {
  bool later, exchanges;
} failing;

static const failing sums_at_once = {false, false};
static const failing sums_later = {true, false};
static const failing exchanges_at_once = {false, true};
static const failing exchanges_later = {true, true};

/* Checks every call without delays, and some with time for all ranks to receive the reason. */
static void any_call_that_fails_ends_the_step_of_all(void **state) {
  const failing *of = *state;
  const uint64_t first = of->later ? 2 : 1; /* an id is made at once */
  uint64_t n = first;
  while (fail_call(2, n, of->later, of->exchanges, true))
    n += test_is_sanitized() ? 5 : of->exchanges ? 4 : 1;
  assert_true(n > 6);
  assert_true(fail_call(2, first, of->later, of->exchanges, false));
  assert_true(fail_call(2, n / 2, of->later, of->exchanges, false));
}

#define ANY_CALL(of)                                                                               \
  {                                                                                                \
    "any_call_that_fails_ends_the_step_of_all: " #of, any_call_that_fails_ends_the_step_of_all,    \
        NULL, NULL, (void *)&(of)                                                                  \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_not_made_is_summed_and_not_counted),
      cmocka_unit_test(who_sums_with_a_rank_that_is_silent_is_told),
      cmocka_unit_test(who_sums_with_a_rank_that_leaves_is_told),
      cmocka_unit_test(a_rank_that_loses_its_gpu_ends_the_step_of_all),
      cmocka_unit_test(who_waits_for_a_gpus_bytes_is_told_of_its_rank),
      cmocka_unit_test(who_exchanges_with_a_lost_gpu_is_told),
      cmocka_unit_test(bytes_that_stand_still_are_told_though_all_live),
      cmocka_unit_test(a_sum_that_stands_still_is_told_though_all_live),
      cmocka_unit_test(joining_that_stands_still_is_told_though_all_live),
      cmocka_unit_test(what_gpus_compute_for_long_does_not_stand_still),
      ANY_CALL(sums_at_once),
      ANY_CALL(sums_later),
      ANY_CALL(exchanges_at_once),
      ANY_CALL(exchanges_later),
  };
  return test_run_own_cases(tests, sizeof tests / sizeof *tests);
}
