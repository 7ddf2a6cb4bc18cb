/* Failures in a job. If an operation fails on one rank before the updates, every rank reports it in
 * the same step, no rank has updated anything, nothing is left for the next step, and training
 * continues. */
#include <stdio.h>

#include "devices/context/context.h"
#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, STEPS = 3, NOT_FAILED = 0 };

/* A planned failure: the Nth strike at a site of one rank, in the second step. */
typedef struct planned_failure {
  tdm_fault_site site;
  uint64_t n;
  int rank;
} planned_failure;

static tdm_graph *build(job_rank *rank, tdm_value *out_loss) {
  char second[24];
  (void)snprintf(second, sizeof second, "host:%d/cpu:0", 1 % rank->rank_count);
  return zigzag_graph(rank->context, "host:0/cpu:0", second, out_loss);
}

static const job_model model = {.build = build, .rows = ROWS};

static tdm_session *session_of(job_rank *rank, tdm_optimizer optimizer) {
  job_model mine = model;
  mine.optimizer = optimizer;
  tdm_value loss;
  tdm_graph *graph = build(rank, &loss);
  return job_session(graph, loss, &mine);
}

static tdm_status step(const job_rank *rank, tdm_session *session, uint64_t seed) {
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, seed);
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, NULL);
  test_batch_release(&batch);
  return status;
}

/* Makes three steps. The second may fail and is then repeated; number records whether it failed. */
static tdm_status train_with_failure(job_rank *rank) {
  const planned_failure *planned = rank->user;
  tdm_session *session = session_of(rank, tdm_adam(0.01));
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  const uint64_t before = job_hash(session);
  tdm_faults *faults = tdm_context_faults(rank->context);
  if (rank->rank == planned->rank) tdm_faults_arm(faults, planned->site, planned->n, false);
  if (status == TDM_OK && step(rank, session, 2) != TDM_OK) {
    (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
    tdm_faults_arm(faults, planned->site, 0, false);
    rank->number = 1;
    if (job_hash(session) != before) status = tdm_fail(TDM_INTERNAL, "a failed step has updated");
    if (status == TDM_OK) status = step(rank, session, 2);
  }
  tdm_faults_arm(faults, planned->site, 0, false);
  if (status == TDM_OK) status = step(rank, session, 3);
  rank->hash = job_hash(session);
  tdm_session_release(session);
  return status;
}

static uint64_t hash_of(const job_rank *ranks, int count) {
  uint64_t hash = 0;
  for (int r = 0; r < count; r++)
    hash ^= ranks[r].hash;
  return hash;
}

/* Strikes once at the first, second, ... call of a site on that rank, until the step does not fail
 * or `most` calls were tested. At least `least` strikes must fail the step. */
static void sweep(tdm_fault_site site, int rank, int least, uint64_t most) {
  const planned_failure none = {.site = site, .rank = -1};
  job_rank ranks[2];
  job_must(&(job_options){.rank_count = 2, .user = &none}, train_with_failure, ranks);
  const uint64_t expected = hash_of(ranks, 2);
  int failures = 0;
  for (uint64_t n = 1; n <= most; n++) {
    const planned_failure planned = {site, n, rank};
    job_must(&(job_options){.rank_count = 2, .user = &planned}, train_with_failure, ranks);
    assert_int_equal(ranks[0].number, ranks[1].number);
    assert_int_equal(hash_of(ranks, 2), expected);
    if (ranks[0].number == NOT_FAILED) break;
    failures++;
    if (!strstr(ranks[rank].message, "injected failure"))
      fail_msg("rank %d says \"%s\"", rank, ranks[rank].message);
    if (!strstr(ranks[1 - rank].message, "rank") && !strstr(ranks[1 - rank].message, "failed on"))
      fail_msg("rank %d says \"%s\"", 1 - rank, ranks[1 - rank].message);
  }
  assert_true(failures >= least);
}

static void what_fails_on_a_rank_updates_nothing_anywhere(void **state) {
  (void)state;
  sweep(TDM_FAULT_WAIT, 0, 2, UINT64_MAX);
  sweep(TDM_FAULT_WAIT, 1, 2, UINT64_MAX);
  sweep(TDM_FAULT_KERNEL, 0, 4, 4); /* later ones update */
  sweep(TDM_FAULT_KERNEL, 1, 4, 4);
}

/* ---- Updates --------------------------------------------------------------------------------- */

/* A kernel of the second step fails on one rank. number is 3 if that step was repeated, 1 if the
 * next step failed as well, and 2 if only the next step failed. The ranks then stop. */
static tdm_status train_with_failed_update(job_rank *rank) {
  const planned_failure *planned = rank->user;
  tdm_session *session = session_of(rank, tdm_adam(0.01));
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  tdm_faults *faults = tdm_context_faults(rank->context);
  if (rank->rank == planned->rank) tdm_faults_arm(faults, planned->site, planned->n, false);
  rank->number = 0;
  for (uint64_t s = 2; s <= 3 && status == TDM_OK && rank->number == 0; s++) {
    if (step(rank, session, s) != TDM_OK) rank->number = s - 1;
    tdm_faults_arm(faults, planned->site, 0, false);
  }
  if (rank->number == 1 && step(rank, session, 3) == TDM_OK) rank->number = 3;
  (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  const bool goes_on = step(rank, session, 4) == TDM_OK;
  if (goes_on != (rank->number == 0 || rank->number == 3))
    status = tdm_fail(TDM_INTERNAL, "the fourth step %s", goes_on ? "was made" : "has failed");
  rank->loss = (double)session->store->steps;
  tdm_session_release(session);
  return status;
}

static void all_are_told_of_an_update_that_fails_on_one(void **state) {
  (void)state;
  for (int victim = 0; victim < 2; victim++) {
    int failures = 0;
    for (uint64_t n = 1; n < 40; n++) {
      const planned_failure planned = {TDM_FAULT_KERNEL, n, victim};
      job_rank ranks[2];
      job_must(&(job_options){.rank_count = 2, .user = &planned}, train_with_failed_update, ranks);
      assert_true(ranks[0].loss == ranks[1].loss);
      if (ranks[victim].number != 1) { /* it failed before the vote, or later */
        assert_int_equal(ranks[1 - victim].number, ranks[victim].number);
        continue;
      }
      assert_int_equal(ranks[1 - victim].number, 2);
      assert_non_null(strstr(ranks[1 - victim].message, "the store is broken"));
      failures++;
    }
    assert_true(failures > 2);
  }
}

/* ---- Mending --------------------------------------------------------------------------------- */

/* The load of all ranks after a step whose update has failed on one. */
typedef struct mending {
  planned_failure planned;
  bool whole; /* true: with states, steps and seed; false: only parameters */
  int misfit; /* the rank whose list has no parameter; -1: none */
} mending;

static tdm_tensor_list *save(tdm_session *session, const mending *of) {
  if (!of->whole) return tdm_store_save(tdm_session_store(session), false);
  tdm_tensor_list *list;
  return tdm_session_save(session, &list) == TDM_OK ? list : NULL;
}

static tdm_status load(tdm_session *session, const mending *of, const tdm_tensor_list *list) {
  return of->whole ? tdm_session_load(session, list)
                   : tdm_store_load(tdm_session_store(session), list);
}

/* Loads a tensor with the name of the first parameter and a wrong shape. */
static tdm_status load_misfit(tdm_session *session, const mending *of,
                              const tdm_tensor_list *list) {
  tdm_tensor_list *other = tdm_tensor_list_create(tdm_session_context(session));
  tdm_tensor *odd =
      tdm_tensor_zeros(tdm_session_context(session), "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 77));
  tdm_status status = tdm_tensor_list_add(other, tdm_tensor_list_name(list, 0), odd);
  if (status == TDM_OK) status = load(session, of, other);
  tdm_tensor_release(odd);
  tdm_tensor_list_release(other);
  return status;
}

/* number: steps after mending. hash: of the result of one more step. loss: 1 if the update failed,
 * and the store was broken on this rank. */
static tdm_status mend(job_rank *rank) {
  const mending *of = rank->user;
  tdm_session *session = session_of(rank, tdm_adam(0.01));
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  tdm_tensor_list *list = status == TDM_OK ? save(session, of) : NULL;
  tdm_faults *faults = tdm_context_faults(rank->context);
  if (rank->rank == of->planned.rank)
    tdm_faults_arm(faults, TDM_FAULT_KERNEL, of->planned.n, false);
  (void)step(rank, session, 2);
  tdm_faults_arm(faults, TDM_FAULT_KERNEL, 0, false);
  rank->loss = tdm_store_status(tdm_session_store(session)) != TDM_OK;
  if (!list) status = TDM_INTERNAL;
  if (status == TDM_OK && of->misfit >= 0) {
    const tdm_status tried =
        rank->rank == of->misfit ? load_misfit(session, of, list) : load(session, of, list);
    (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
    if (tried == TDM_OK) status = tdm_fail(TDM_INTERNAL, "a list that fits nowhere was loaded");
  }
  if (status == TDM_OK) status = load(session, of, list);
  if (status == TDM_OK) status = tdm_store_status(tdm_session_store(session));
  rank->number = tdm_session_step(session);
  if (status == TDM_OK) status = step(rank, session, 2);
  rank->hash = job_hash(session);
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  return status;
}

/* Fails each kernel of each rank in turn; then all ranks load, and continue without a failure. */
static void sweep_mending(bool whole) {
  job_rank ranks[2];
  const mending none = {.planned = {.rank = -1}, .whole = true, .misfit = -1};
  job_must(&(job_options){.rank_count = 2, .user = &none}, mend, ranks);
  const uint64_t expected = hash_of(ranks, 2);
  for (int victim = 0; victim < 2; victim++) {
    int broken = 0;
    for (uint64_t n = 1; n < 40; n++) {
      const mending of = {
          .planned = {TDM_FAULT_KERNEL, n, victim}, .whole = whole, .misfit = n % 3 == 0 ? 1 : -1};
      job_must(&(job_options){.rank_count = 2, .user = &of}, mend, ranks);
      assert_int_equal(ranks[0].number, ranks[1].number);
      if (of.misfit >= 0 && !strstr(ranks[0].message, "rank 1"))
        fail_msg("rank 0 says \"%s\"", ranks[0].message);
      assert_true(ranks[1 - victim].loss == 0);
      if (ranks[victim].loss == 0) continue;
      broken++;
      assert_int_equal(ranks[0].number, whole ? 1 : 0);
      if (whole) assert_int_equal(hash_of(ranks, 2), expected);
    }
    assert_true(broken > 2);
  }
}

static void all_mend_what_is_broken_on_one(void **state) {
  (void)state;
  sweep_mending(true);
  sweep_mending(false);
}

/* Returns all parameters but those of the layer. */
static tdm_tensor_list *save_without(tdm_session *session, const char *layer) {
  tdm_tensor_list *all = tdm_store_save(tdm_session_store(session), false);
  tdm_tensor_list *list = tdm_tensor_list_create(tdm_session_context(session));
  for (size_t i = 0; i < tdm_tensor_list_count(all); i++) {
    const char *name = tdm_tensor_list_name(all, i);
    if (strncmp(name, layer, strlen(layer)) == 0) continue;
    if (tdm_tensor_list_add(list, name, tdm_tensor_list_tensor(all, i)) != TDM_OK) break;
  }
  tdm_tensor_list_release(all);
  return list;
}

/* Like mend, with a layer that is not trained: values without updates need not be loaded. */
static tdm_status mend_what_trains(job_rank *rank) {
  static const char frozen[] = "hidden1";
  const planned_failure *planned = rank->user;
  tdm_value loss;
  tdm_graph *graph = build(rank, &loss);
  const tdm_optimizer adam = tdm_adam(0.01);
  const tdm_parameter_group group = {frozen, NULL};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &adam, o.groups = &group,
              o.group_count = 1, o.deterministic = true, o.seed = 5);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) return TDM_INTERNAL;
  tdm_store *store = tdm_session_store(session);
  tdm_status status = step(rank, session, 1);
  tdm_tensor_list *list = save_without(session, frozen);
  tdm_faults *faults = tdm_context_faults(rank->context);
  if (rank->rank == planned->rank) tdm_faults_arm(faults, planned->site, planned->n, false);
  (void)step(rank, session, 2);
  tdm_faults_arm(faults, planned->site, 0, false);
  rank->number = tdm_store_status(store) != TDM_OK;
  if (status == TDM_OK) status = tdm_store_load(store, list);
  if (status == TDM_OK) status = tdm_store_status(store);
  if (status == TDM_OK) status = step(rank, session, 2);
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  return status;
}

static void what_no_update_touches_need_not_be_mended(void **unused) {
  (void)unused;
  for (int victim = 0; victim < 2; victim++) {
    int broken = 0;
    for (uint64_t n = 1; n < 40; n++) {
      const planned_failure planned = {TDM_FAULT_KERNEL, n, victim};
      job_rank ranks[2];
      job_must(&(job_options){.rank_count = 2, .user = &planned}, mend_what_trains, ranks);
      broken += (int)ranks[victim].number;
    }
    assert_true(broken > 0);
  }
}

/* ---- Differences between ranks --------------------------------------------------------------- */

static tdm_status refuse_step(const job_rank *rank, tdm_session *session, uint64_t hash) {
  const tdm_status status = step(rank, session, 2);
  if (status != TDM_INVALID_ARGUMENT || !strstr(tdm_last_message(), "differ between ranks"))
    return tdm_fail(TDM_INTERNAL, "a step of different settings is %s", tdm_status_name(status));
  if (job_hash(session) != hash) return tdm_fail(TDM_INTERNAL, "a refused step has updated");
  return TDM_OK;
}

/* The rank that is the user's sets another rate, then another momentum, than the others. */
static tdm_status train_with_other_settings(job_rank *rank) {
  const bool other = rank->rank == *(const int *)rank->user;
  tdm_session *session = session_of(rank, tdm_adam(0.01));
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  const uint64_t hash = job_hash(session);
  if (status == TDM_OK) status = tdm_session_set_learning_rate(session, other ? 0.02 : 0.01);
  if (status == TDM_OK) status = refuse_step(rank, session, hash);
  if (status == TDM_OK) status = tdm_session_set_learning_rate(session, 0.01);
  if (status == TDM_OK && other) status = tdm_session_set_momentum(session, 0.5);
  if (status == TDM_OK) status = refuse_step(rank, session, hash);
  if (status == TDM_OK) status = tdm_session_set_momentum(session, 0.5);
  if (status == TDM_OK) status = step(rank, session, 2);
  rank->hash = job_hash(session);
  tdm_session_release(session);
  return status;
}

static void rates_that_differ_between_ranks_update_nothing(void **state) {
  (void)state;
  enum { RANKS = 3 };
  uint64_t expected = 0;
  for (int other = 0; other < RANKS; other++) {
    job_rank ranks[RANKS];
    job_must(&(job_options){.rank_count = RANKS, .user = &other}, train_with_other_settings, ranks);
    if (other == 0) expected = hash_of(ranks, RANKS);
    assert_int_equal(hash_of(ranks, RANKS), expected);
  }
}

/* ---- Explained plans ------------------------------------------------------------------------- */

/* Counts the bytes of a training step by the plan, in number, and as they were sent. */
static tdm_status count_bytes(job_rank *rank) {
  tdm_session *session = session_of(rank, tdm_sgd(0.1));
  if (!session) return TDM_INTERNAL;
  tdm_status status = step(rank, session, 1);
  const uint64_t before = tdm_simnet_sent(rank->net, rank->rank, 1 - rank->rank).bytes;
  if (status == TDM_OK) status = step(rank, session, 2);
  rank->hash = tdm_simnet_sent(rank->net, rank->rank, 1 - rank->rank).bytes - before;
  rank->number = session->newest->network.sent_bytes;
  rank->loss = (double)session->newest->network.sent_messages;
  tdm_session_release(session);
  return status;
}

static void bytes_between_ranks_are_those_that_are_explained(void **state) {
  (void)state;
  enum {
    HEADER_BYTES = 40,
    WORDS_BYTES = 512
  }; /* bytes of a message's header, and the least bytes
      * of its text */
  job_rank ranks[2];
  job_must(&(job_options){.rank_count = 2}, count_bytes, ranks);
  for (int r = 0; r < 2; r++) {
    assert_true(ranks[r].number > 0);
    const uint64_t messages = (uint64_t)ranks[r].loss;
    const uint64_t least = ranks[r].number + messages * HEADER_BYTES;
    assert_in_range(ranks[r].hash, least, least + messages * WORDS_BYTES);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_fails_on_a_rank_updates_nothing_anywhere),
      cmocka_unit_test(all_are_told_of_an_update_that_fails_on_one),
      cmocka_unit_test(all_mend_what_is_broken_on_one),
      cmocka_unit_test(what_no_update_touches_need_not_be_mended),
      cmocka_unit_test(rates_that_differ_between_ranks_update_nothing),
      cmocka_unit_test(bytes_between_ranks_are_those_that_are_explained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
