/* Runs in flight together in jobs of several ranks: consecutive steps, consecutive inference runs,
 * micro-batches, steps that fail. All have the bits of one process with one run at a time. Ranks
 * with different runs report it. */
#include <time.h>

#include "core/hash.h"
#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { STEPS = 24, ROWS = 12, REPLICAS = 4, NAME = 24 };

typedef struct flight_model {
  tdm_graph *(*build)(job_rank *rank, tdm_value *out_loss);
  tdm_optimizer optimizer;
  int depth;
  int micro_batches;
  int plan_limit;
  bool fails;  /* every fifth step has an id outside of the table */
  bool infers; /* several inference runs are in flight between some steps */
} flight_model;

/* The result of one run. */
typedef struct witness {
  _Atomic int *landed;
  tdm_status status;
  double loss;
  uint64_t scores;
} witness;

static void on_run(void *user, tdm_run_result *result) {
  witness *mine = user;
  mine->status = result->status;
  mine->loss = result->loss;
  for (size_t i = 0; i < result->fetch_count; i++) {
    tdm_tensor *scores = result->fetches[i].tensor;
    mine->scores = tdm_hash_bytes(tdm_tensor_data(scores), tdm_tensor_bytes(scores), 0);
    tdm_tensor_release(scores);
  }
  atomic_fetch_add(mine->landed, 1);
}

typedef struct flights {
  tdm_session *session;
  witness runs[3 * STEPS];
  int count;
  _Atomic int landed;
} flights;

static tdm_status await(flights *all) {
  const struct timespec pause = {.tv_nsec = 100000};
  for (int i = 0; i < 600000 && atomic_load(&all->landed) < all->count; i++)
    (void)nanosleep(&pause, NULL);
  if (atomic_load(&all->landed) == all->count) return TDM_OK;
  return tdm_fail(TDM_INTERNAL, "runs have not ended");
}

static tdm_status submit(flights *all, const test_batch *batch, bool training) {
  witness *run = &all->runs[all->count];
  const tdm_fetch fetch = {.name = "scores"};
  *run = (witness){.landed = &all->landed};
  const tdm_status status = tdm_submit(all->session, training, batch->feeds, training ? 2 : 1,
                                       &fetch, training ? 0 : 1, on_run, run);
  all->count += status == TDM_OK;
  return status;
}

/* Submits a step, sometimes with three runs after it; batches of two sizes have separate plans. */
static tdm_status submit_step(const job_rank *rank, flights *all, int step) {
  const flight_model *model = rank->user;
  test_batch batch;
  test_batch_make(&batch, rank->context, step % 8 < 5 ? ROWS : ROWS / 2, (uint64_t)step);
  if (model->fails && step % 5 == 2) ((int64_t *)tdm_tensor_data(batch.ids))[1] = MODEL_ROWS;
  tdm_status status = submit(all, &batch, true);
  test_batch_release(&batch);
  for (int i = 0; status == TDM_OK && model->infers && step % 6 == 4 && i < 3; i++) {
    test_batch_make(&batch, rank->context, i == 1 ? ROWS : ROWS / 2, 90 + (uint64_t)i);
    status = submit(all, &batch, false);
    test_batch_release(&batch);
  }
  return status;
}

static uint64_t hash_of(const flights *all) {
  uint64_t hash = 0;
  for (int i = 0; i < all->count; i++) {
    const witness *run = &all->runs[i];
    hash = tdm_hash_mix(hash, run->status != TDM_OK);
    if (run->status != TDM_OK) continue;
    hash = tdm_hash_bytes(&run->loss, sizeof run->loss, tdm_hash_mix(hash, run->scores));
  }
  return hash;
}

static tdm_status fly(job_rank *rank) {
  const flight_model *model = rank->user;
  tdm_value loss;
  tdm_graph *graph = model->build(rank, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &model->optimizer,
              o.micro_batches = OR_ONE(model->micro_batches), o.depth = OR_ONE(model->depth),
              o.plan_limit = OR_ONE(model->plan_limit), o.seed = 7, o.deterministic = true);
  flights all = {.session = tdm_session_create(graph, &options)};
  tdm_graph_release(graph);
  if (!all.session) return TDM_INTERNAL;
  tdm_status status = TDM_OK;
  for (int step = 0; step < STEPS && status == TDM_OK; step++)
    status = submit_step(rank, &all, step);
  const tdm_status landed = await(&all);
  if (status == TDM_OK) status = landed;
  rank->hash = job_hash(all.session);
  rank->number = hash_of(&all);
  tdm_session_release(all.session);
  return status;
}

/* One process with one run at a time computes the expected results. */
static void all_fly_alike(flight_model model, int sim_devices) {
  job_rank ranks[JOB_MOST_RANKS];
  const int depth = model.depth;
  model.depth = 1;
  job_options options = {.rank_count = 1, .sim_devices = sim_devices, .user = &model};
  job_must(&options, fly, ranks);
  const job_rank alone = ranks[0];
  model.depth = depth;
  for (int count = 1; count <= 3; count++) {
    options.rank_count = count;
    options.net.seed = (uint64_t)count;
    options.net.delay_ns = count == 3 ? 200000 : 0;
    job_must(&options, fly, ranks);
    uint64_t hash = 0;
    for (int r = 0; r < count; r++) {
      if (ranks[r].number != alone.number) fail_msg("rank %d of %d had other results", r, count);
      hash ^= ranks[r].hash;
    }
    if (hash != alone.hash) fail_msg("%d ranks train other bits than one", count);
  }
}

/* ---- Models ---------------------------------------------------------------------------------- */

static tdm_graph *tied(job_rank *rank, tdm_value *out_loss) {
  char first[NAME], second[NAME];
  (void)snprintf(first, sizeof first, "host:%d/cpu:0", 1 % rank->rank_count);
  (void)snprintf(second, sizeof second, "host:%d/cpu:0", 2 % rank->rank_count);
  return tied_graph(rank->context, first, second, out_loss);
}

static tdm_graph *replicated(job_rank *rank, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  const tdm_value words =
      tdm_embedding_with(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH, &sparse);
  tdm_scope_push(graph, "model");
  const tdm_value hidden = tdm_gelu(graph, "gelu", tdm_linear(graph, "hidden", words, 24));
  const tdm_value kept = tdm_dropout(graph, "dropout", hidden, 0.2);
  const tdm_value scores = tdm_linear(graph, "scores", kept, MODEL_WIDTH);
  tdm_scope_pop(graph);
  tdm_output(graph, "scores", scores);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  job_replicate(rank, graph, "model", REPLICAS, "sim:0", NULL);
  return graph;
}

static void steps_in_flight_train_as_one_at_a_time(void **state) {
  (void)state;
  for (int depth = 2; depth <= 4; depth++) {
    all_fly_alike((flight_model){.build = tied, .optimizer = tdm_adam(0.01), .depth = depth}, 0);
    all_fly_alike((flight_model){.build = replicated, .optimizer = tdm_sgd(0.1), .depth = depth},
                  1);
  }
}

static void micro_batches_in_flight_train_as_one_at_a_time(void **state) {
  (void)state;
  all_fly_alike(
      (flight_model){
          .build = replicated, .optimizer = tdm_sgd(0.1), .depth = 2, .micro_batches = 3},
      1);
}

static void inference_in_flight_sees_the_steps_before_it(void **state) {
  (void)state;
  all_fly_alike(
      (flight_model){.build = tied, .optimizer = tdm_adam(0.01), .depth = 3, .infers = true}, 0);
  all_fly_alike(
      (flight_model){.build = replicated, .optimizer = tdm_sgd(0.1), .depth = 2, .infers = true},
      1);
}

/* The plan that exceeds the limit is in use on some ranks and idle on others. */
static void runs_in_flight_find_the_same_plans_on_all_ranks(void **state) {
  (void)state;
  for (int limit = 1; limit <= 2; limit++)
    all_fly_alike((flight_model){.build = replicated,
                                 .optimizer = tdm_sgd(0.1),
                                 .depth = 4,
                                 .infers = true,
                                 .plan_limit = limit},
                  1);
}

static void steps_in_flight_fail_on_all_ranks_alike(void **state) {
  (void)state;
  all_fly_alike(
      (flight_model){.build = tied, .optimizer = tdm_adam(0.01), .depth = 3, .fails = true}, 0);
  all_fly_alike(
      (flight_model){
          .build = tied, .optimizer = tdm_adam(0.01), .depth = 2, .fails = true, .infers = true},
      0);
}

/* ---- Ranks that do not run the same ---------------------------------------------------------- */

/* Skips a run on rank 1, so that the next run of each rank receives a message of another run. */
static tdm_status leave_one_out(job_rank *rank) {
  tdm_graph *graph = seed_graph(rank->context, "host:0/cpu:0", "host:1/cpu:0", NULL);
  tdm_session *session = job_session(graph, (tdm_value){0, 0}, NULL);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  tdm_fetch fetch = {.name = "scores"};
  tdm_status status = tdm_run(session, batch.feeds, 1, &fetch, 1);
  tdm_tensor_release(fetch.tensor);
  if (rank->rank == 1) (void)tdm_context_count_run(rank->context);
  if (status == TDM_OK && tdm_run(session, batch.feeds, 1, &fetch, 1) == TDM_OK)
    status = tdm_fail(TDM_INTERNAL, "runs of different numbers have met");
  (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  test_batch_release(&batch);
  tdm_session_release(session);
  return status;
}

static void ranks_that_leave_out_a_run_are_told(void **state) {
  (void)state;
  job_rank ranks[2];
  job_must(&(job_options){.rank_count = 2}, leave_one_out, ranks);
  assert_non_null(strstr(ranks[1].message, "rank 0 is in its run 2, after 0 steps, and this one in "
                                           "its run 3, after 0"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_in_flight_train_as_one_at_a_time),
      cmocka_unit_test(micro_batches_in_flight_train_as_one_at_a_time),
      cmocka_unit_test(inference_in_flight_sees_the_steps_before_it),
      cmocka_unit_test(runs_in_flight_find_the_same_plans_on_all_ranks),
      cmocka_unit_test(steps_in_flight_fail_on_all_ranks_alike),
      cmocka_unit_test(ranks_that_leave_out_a_run_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
