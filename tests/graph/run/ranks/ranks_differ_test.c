/* One rank describes, requests or sets something else than the others. All ranks get a message in
 * bounded time, or the difference has no effect. */
#define _GNU_SOURCE /* usleep */
#include <stdio.h>
#include <unistd.h>

#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { RANKS = 2, ODD = 1, ROWS = 12, STEPS = 4 };

#define NEVER_NS UINT64_C(300000000000)

/* Settings in which ranks can differ. */
typedef struct program {
  int64_t width;
  double dropout;
  double slope;
  tdm_parallel_sharding sharding;
  double weights[RANKS]; /* 0: none */
  tdm_initializer scale;
  bool has_more_outputs;
  const char *fetched; /* output that is fetched with each step; NULL: none */
  int64_t rows;
  tdm_optimizer optimizer;
  tdm_session_options options;
} program;

/* Makes a rank's program another. */
typedef struct difference {
  const char *name;
  void (*make)(program *of);
  bool is_harmless;
} difference;

typedef struct story {
  const difference *odd;
  _Atomic int ended;
} story;

/* ---- A rank -----------------------------------------------------------------------------------
 */

static program usual(void) {
  return (program){.width = 16,
                   .dropout = 0.1,
                   .slope = 0.1,
                   .sharding = TDM_SHARDING_PARAMETERS,
                   .scale = {.kind = TDM_INIT_CONSTANT, .a = 1, .zero_row = -1},
                   .rows = ROWS,
                   .optimizer = tdm_adam(0.01),
                   .options = OPTIONS(tdm_session_options, o.seed = 7)};
}

static tdm_graph *build(const job_rank *rank, const program *of, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_scope_push(graph, "model");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value hidden = tdm_linear(graph, "hidden", words, of->width);
  const tdm_value bent = tdm_leaky_relu(graph, "bend", hidden, of->slope);
  const tdm_value kept = tdm_dropout(graph, "dropout", bent, of->dropout);
  const tdm_value scale =
      tdm_parameter(graph, "scale", TDM_FLOAT32, tdm_shape_of(1, MODEL_WIDTH), &of->scale);
  const tdm_value scores = tdm_linear(graph, "scores", kept, MODEL_WIDTH);
  const tdm_value scaled = tdm_mul(graph, "scaled", scores, scale);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", scaled, targets);
  tdm_output(graph, "scores", scaled);
  if (of->has_more_outputs) tdm_output(graph, "more", scaled);
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = "host:0/cpu:0,host:1/cpu:0",
              o.weights = of->weights[0] > 0 ? of->weights : NULL, o.sharding = of->sharding);
  tdm_data_parallel(graph, "model", &options);
  return graph;
}

static tdm_session *make_session(const job_rank *rank, const program *of) {
  tdm_value loss;
  tdm_graph *graph = build(rank, of, &loss);
  tdm_session_options options = of->options;
  options.loss = loss;
  options.optimizer = &of->optimizer;
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

static tdm_status step(const job_rank *rank, const program *of, tdm_session *session,
                       double *out_loss) {
  test_batch batch;
  tdm_fetch fetch = {of->fetched, NULL};
  test_batch_make(&batch, rank->context, of->rows, 1);
  const tdm_status status =
      tdm_train_step(session, batch.feeds, 2, &fetch, of->fetched ? 1 : 0, out_loss);
  tdm_tensor_release(fetch.tensor);
  test_batch_release(&batch);
  return status;
}

static tdm_status train(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  program mine = usual();
  if (rank->rank == ODD && of->odd) of->odd->make(&mine);
  tdm_session *session = make_session(rank, &mine);
  tdm_status status = session ? TDM_OK : tdm_last_status();
  for (int s = 0; s < STEPS && status == TDM_OK; s++)
    status = step(rank, &mine, session, &rank->loss);
  rank->number = status;
  (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
  (void)atomic_fetch_add(&of->ended, 1);
  while (atomic_load(&of->ended) < RANKS)
    (void)usleep(1000);
  if (session) rank->hash = job_hash(session);
  tdm_session_release(session);
  return TDM_OK;
}

/* ---- What differs -----------------------------------------------------------------------------
 */

#define MAKE(name, change)                                                                         \
  static void name(program *of) {                                                                  \
    change;                                                                                        \
  }

MAKE(another_width, of->width = 17)
MAKE(another_dropout, of->dropout = 0.2)
MAKE(another_slope, of->slope = 0.2)
MAKE(another_sharding, of->sharding = TDM_SHARDING_OPTIMIZER_STATES)
MAKE(weights, of->weights[0] = 2; of->weights[1] = 1)
MAKE(another_beginning, of->scale.a = 2)
MAKE(another_kind_of_beginning, of->scale.kind = TDM_INIT_ZEROS)
MAKE(more_outputs, of->has_more_outputs = true)
MAKE(a_fetch, of->fetched = "scores")
MAKE(more_rows, of->rows = ROWS + 2)
MAKE(another_optimizer, of->optimizer = tdm_sgd(0.01))
MAKE(another_rate, of->optimizer.learning_rate = 0.02)
MAKE(another_beta, of->optimizer.settings[0] += 0.01)
MAKE(clipping, of->optimizer.clip_norm = 1)
MAKE(clipping_values, of->optimizer.clip_value = 1)
MAKE(maximizing, of->optimizer.maximize = true)
MAKE(averages, of->optimizer.average_decay = 0.9)
MAKE(another_seed, of->options.seed = 8)
MAKE(another_depth, of->options.depth = 2)
MAKE(deterministic, of->options.deterministic = true)
MAKE(checked, of->options.check_finite = true)
MAKE(parts, of->options.micro_batches = 2)
MAKE(unfused, of->options.unfused = true)
MAKE(another_collective, of->options.collective = TDM_COLLECTIVE_TREE)
MAKE(fewer_plans, of->options.plan_limit = 1)
MAKE(profiled, of->options.profile = true)
MAKE(timed, of->options.trace_runs = 2)
MAKE(limited, of->options.queue_limit = 1)

static const difference differences[] = {
    {"another width", another_width, false},
    {"another dropout", another_dropout, false},
    {"another slope", another_slope, false},
    {"another sharding", another_sharding, false},
    {"weights of replicas", weights, false},
    {"another beginning of a parameter", another_beginning, false},
    {"another kind of beginning", another_kind_of_beginning, false},
    {"more outputs", more_outputs, true},
    {"an output that is fetched", a_fetch, false},
    {"more rows", more_rows, false},
    {"another optimizer", another_optimizer, false},
    {"another learning rate", another_rate, false},
    {"another beta", another_beta, false},
    {"clipping", clipping, false},
    {"clipping values", clipping_values, false},
    {"maximizing", maximizing, false},
    {"averages", averages, false},
    {"another seed", another_seed, false},
    {"another depth", another_depth, false},
    {"deterministic", deterministic, false},
    {"a check for what is not finite", checked, false},
    {"micro-batches", parts, false},
    {"nothing fused", unfused, false},
    {"another collective", another_collective, false},
    {"fewer plans", fewer_plans, true},
    {"a profile", profiled, true},
    {"a timeline", timed, true},
    {"a limit of what is submitted", limited, true},
};

static void run_job(const difference *odd, job_rank *ranks) {
  const tdm_control_options watch = {.struct_size = sizeof watch,
                                     .allocator = tdm_allocator_default(),
                                     .beat_ns = 20000000,
                                     .silence_ns = NEVER_NS,
                                     .stall_ns = 1000000000};
  story of = {.odd = odd};
  job_must(&(job_options){.rank_count = RANKS, .watch = &watch, .user = &of}, train, ranks);
}

static void what_differs_is_told_or_changes_nothing(void **state) {
  (void)state;
  job_rank alike[RANKS], ranks[RANKS];
  run_job(NULL, alike);
  for (int r = 0; r < RANKS; r++)
    if (alike[r].number != TDM_OK) fail_msg("alike: %s", alike[r].message);
  for (size_t i = 0; i < TDM_COUNT_OF(differences); i++) {
    const difference *odd = &differences[i];
    run_job(odd, ranks);
    for (int r = 0; r < RANKS; r++) {
      if ((ranks[r].number == TDM_OK) != odd->is_harmless)
        fail_msg("%s: rank %d: %s", odd->name, r, ranks[r].message);
      if (!odd->is_harmless) continue;
      assert_true(ranks[r].loss == alike[r].loss);
      assert_int_equal(ranks[r].hash, alike[r].hash);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_differs_is_told_or_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
