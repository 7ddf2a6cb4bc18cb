/* Random jobs on a net that delays and reorders: a seed draws the model, its devices, the number of
 * ranks, delays, eagerly sent messages, and the speed of the medium. Every rank's losses, and the
 * parameters of all together, are bit by bit those of one process without a net.
 *
 *     bazel run //tests/graph/run:ranks_seeds_test -- 10000 5000
 *
 * takes 10,000 seeds from 5,000 on. ranks_seeds_cuda_test has emulated GPUs (PLACE), which exchange
 * values without the host, and fewer seeds. */
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "tests/graph/job.h"
#include "tests/graph/seed_range.h"

enum { ROWS = 12, MOST_LAYERS = 4, MOST_REPLICAS = 4, STEPS = 3, MOST_RANKS = 4 };

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) ||                               \
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
enum { USUAL_SEEDS = 100 };
#else
enum { USUAL_SEEDS = 500 };
#endif

/* A model, and the seed that it is built of. */
typedef struct seeded_model {
  job_model model;
  uint64_t seed;
} seeded_model;

/* Returns a number of a seed for each purpose. */
static uint64_t draw(uint64_t seed, uint64_t what, uint64_t below) {
  return tdm_hash_mix(tdm_hash_mix(0, seed), what) % below;
}

enum { LAYERS, RANKS, DELAY, EAGER, SPEED, REPLICAS, OPTIMIZER, MICRO, DROPOUT, FIRST_PLACE = 100 };

/* A place is drawn among more ranks than there are, and is the same part of them in every job. */
static const char *place_of(const job_rank *rank, uint64_t seed, uint64_t part, char *name) {
  const uint64_t at = draw(seed, FIRST_PLACE + part, MOST_RANKS);
  (void)snprintf(name, 24, "host:%d/" PLACE, (int)at % rank->rank_count);
  return name;
}

static tdm_value add_layer(tdm_graph *graph, uint64_t seed, int layer, tdm_value x) {
  char name[24];
  (void)snprintf(name, sizeof name, "layer%d", layer);
  const int64_t width = 4 + (int64_t)draw(seed, FIRST_PLACE + 50 + (uint64_t)layer, 13);
  const tdm_value y = tdm_linear(graph, name, x, width);
  return layer % 2 == 0 ? tdm_tanh(graph, "bend", y) : tdm_relu(graph, "bend", y);
}

static tdm_graph *build(const job_rank *rank, uint64_t seed, tdm_value *out_loss) {
  char place[24];
  const int layers = 1 + (int)draw(seed, LAYERS, MOST_LAYERS);
  const int replicas = 1 + (int)draw(seed, REPLICAS, MOST_REPLICAS);
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, place_of(rank, seed, 0, place));
  tdm_value x = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  for (int i = 0; i < layers; i++) {
    tdm_place(graph, place_of(rank, seed, 1 + (uint64_t)i, place));
    x = add_layer(graph, seed, i, x);
  }
  tdm_place(graph, place_of(rank, seed, 20, place));
  tdm_scope_push(graph, "model");
  if (draw(seed, DROPOUT, 2) == 0) x = tdm_dropout(graph, "dropout", x, 0.2);
  const tdm_value scores = tdm_linear(graph, "scores", x, MODEL_WIDTH);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  if (replicas > 1) job_replicate(rank, graph, "model", replicas, PLACE, NULL);
  return graph;
}

static tdm_status train(job_rank *rank) {
  const seeded_model *mine = rank->user;
  tdm_value loss;
  tdm_graph *graph = build(rank, mine->seed, &loss);
  tdm_session *session = job_session(graph, loss, &mine->model);
  if (!session) return TDM_INTERNAL;
  tdm_status status = TDM_OK;
  for (uint64_t step = 1; step <= STEPS && status == TDM_OK; step++) {
    test_batch batch;
    test_batch_make(&batch, rank->context, ROWS, mine->seed + step);
    status = tdm_train_step(session, batch.feeds, 2, NULL, 0, &rank->loss);
    rank->number = tdm_hash_bytes(&rank->loss, sizeof rank->loss, rank->number);
    test_batch_release(&batch);
  }
  rank->hash = job_hash(session);
  tdm_session_release(session);
  return status;
}

static void check_seed(uint64_t seed) {
  static const uint64_t delays_ns[] = {0, 10000, 100000};
  static const size_t eager_bytes[] = {0, 200, 1 << 20};
  static const uint64_t speeds[] = {0, 100000000, 1000000000};
  const seeded_model model = {
      .model = {.optimizer = draw(seed, OPTIMIZER, 2) == 0 ? tdm_adam(0.01) : tdm_sgd(0.1),
                .micro_batches = 1 + (int)draw(seed, MICRO, 2)},
      .seed = seed};
  job_rank alone, ranks[MOST_RANKS];
  job_must(&(job_options){.rank_count = 1, .user = &model}, train, &alone);
  const job_options options = {.rank_count = 2 + (int)draw(seed, RANKS, MOST_RANKS - 1),
                               .net = {.seed = seed,
                                       .delay_ns = delays_ns[draw(seed, DELAY, 3)],
                                       .eager_bytes = eager_bytes[draw(seed, EAGER, 3)],
                                       .bytes_per_second = speeds[draw(seed, SPEED, 3)]},
                               .user = &model};
  job_must(&options, train, ranks);
  uint64_t hash = 0;
  for (int r = 0; r < options.rank_count; r++) {
    if (ranks[r].number != alone.number)
      fail_msg("seed %llu: the losses of rank %d of %d are not those of one process",
               (unsigned long long)seed, r, options.rank_count);
    hash ^= ranks[r].hash;
  }
  if (hash != alone.hash)
    fail_msg("seed %llu: %d ranks have other parameters than one process", (unsigned long long)seed,
             options.rank_count);
}

static void random_jobs_have_the_bits_of_one_process(void **state) {
  (void)state;
  const int usual = strncmp(PLACE, "cuda", 4) == 0 ? USUAL_SEEDS / 20 : USUAL_SEEDS;
  const seed_range seeds = seed_range_of(0, usual);
  for (int i = 0; i < seeds.count; i++)
    check_seed(seeds.first + (uint64_t)i);
}

int main(int argc, char **argv) {
  seed_range_read(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_jobs_have_the_bits_of_one_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
