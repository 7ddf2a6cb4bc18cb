/* See job_models.h. */
#include "tests/net/job_models.h"
#include "tests/options.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LENGTH = 7, ROWS = 24, WORDS = 50, WIDTH = 12, CLASSES = 5, STEPS = 20, REPLICAS = 6 };

typedef struct job_model {
  const char *name;
  /* ids are (LENGTH, batch); first and last are devices of the first and of the last rank. Returns
   * scores. *out_steps is the input of the replicas with its batch in dimension 1, if any. */
  tdm_value (*describe)(tdm_graph *graph, tdm_value ids, const char *first, const char *last,
                        tdm_value *out_steps);
  const char *replicated; /* scopes and layers that are replicated over all ranks, or NULL */
  int micro_batches;
  int depth;
  tdm_parallel_sharding sharding;
} job_model;

/* ---- Models ---------------------------------------------------------------------------------- */

/* Adds the table on one rank, the rest over all: as examples/distributed_model. */
static tdm_value describe_main(tdm_graph *graph, tdm_value ids, const char *first, const char *last,
                               tdm_value *out_steps) {
  (void)last;
  tdm_place(graph, first);
  const tdm_value x = tdm_embedding(graph, "embedding", ids, WORDS, WIDTH);
  *out_steps = x;
  tdm_scope_push(graph, "model");
  const tdm_value states = tdm_rnn(graph, "rnn", x, 16, NULL, NULL);
  const tdm_value scores =
      tdm_linear(graph, "linear", tdm_last_step(graph, "last", states), CLASSES);
  tdm_scope_pop(graph);
  return scores;
}

static tdm_value describe_lstm(tdm_graph *graph, tdm_value ids, const char *first, const char *last,
                               tdm_value *out_steps) {
  (void)out_steps;
  tdm_place(graph, last);
  const tdm_value x = tdm_embedding(graph, "embedding", ids, WORDS, WIDTH);
  tdm_place(graph, first);
  const tdm_value states = tdm_lstm(graph, "lstm", x, 16, NULL, NULL, NULL);
  tdm_place(graph, last);
  return tdm_linear(graph, "linear", tdm_last_step(graph, "last", states), CLASSES);
}

static tdm_value describe_cnn(tdm_graph *graph, tdm_value ids, const char *first, const char *last,
                              tdm_value *out_steps) {
  (void)out_steps;
  (void)last;
  tdm_place(graph, first);
  const tdm_value x = tdm_embedding(graph, "embedding", ids, WORDS, 64);
  const tdm_value pixels = tdm_last_step(graph, "last", x);
  tdm_scope_push(graph, "model");
  const tdm_value images =
      tdm_reshape(graph, "images", pixels, tdm_shape_of(4, TDM_INFER, 1, 8, 8));
  const tdm_value maps =
      tdm_relu(graph, "relu", tdm_conv2d(graph, "convolution", images, 4, 3, 3, NULL));
  const tdm_value pooled = tdm_max_pool2d(graph, "pool", maps, 2, 2, NULL);
  const tdm_value kept = tdm_dropout(graph, "dropout", pooled, 0.3);
  const tdm_value flat = tdm_reshape(graph, "flat", kept, tdm_shape_of(2, TDM_INFER, 4 * 9));
  const tdm_value scores = tdm_linear(graph, "linear", flat, CLASSES);
  tdm_scope_pop(graph);
  return scores;
}

/* Adds two tables with sparse gradients, on two ranks. */
static tdm_value describe_tables(tdm_graph *graph, tdm_value ids, const char *first,
                                 const char *last, tdm_value *out_steps) {
  (void)out_steps;
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  tdm_place(graph, first);
  const tdm_value near = tdm_embedding_with(graph, "near", ids, WORDS, WIDTH, &sparse);
  tdm_place(graph, last);
  const tdm_value far = tdm_embedding_with(graph, "far", ids, WORDS, WIDTH, &sparse);
  const tdm_value both = tdm_add(graph, "both", near, far);
  const tdm_value x = tdm_last_step(graph, "last", both);
  tdm_scope_push(graph, "model");
  const tdm_value hidden = tdm_tanh(graph, "bend", tdm_linear(graph, "hidden", x, WIDTH));
  const tdm_value scores =
      tdm_linear(graph, "scores", tdm_dropout(graph, "dropout", hidden, 0.2), CLASSES);
  tdm_scope_pop(graph);
  return scores;
}

static const job_model models[] = {
    {.name = "main", .describe = describe_main, .replicated = "model"},
    {.name = "lstm", .describe = describe_lstm},
    {.name = "cnn", .describe = describe_cnn, .replicated = "model"},
    {.name = "tables", .describe = describe_tables, .replicated = "model"},
    {.name = "parts", .describe = describe_tables, .replicated = "model", .micro_batches = 3},
    {.name = "flights", .describe = describe_tables, .replicated = "model", .depth = 3},
    {.name = "homes",
     .describe = describe_main,
     .replicated = "model",
     .sharding = TDM_SHARDING_OPTIMIZER_STATES},
    {.name = "homes_ahead",
     .describe = describe_tables,
     .replicated = "model",
     .depth = 3,
     .sharding = TDM_SHARDING_OPTIMIZER_STATES},
    {.name = "homes_by_rows",
     .describe = describe_main,
     .replicated = "model",
     .sharding = TDM_SHARDING_PARAMETERS},
};

size_t job_model_count(void) {
  return sizeof models / sizeof *models;
}

const char *job_model_name(size_t model) {
  return models[model].name;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

/* The number of replicas does not depend on the number of ranks, each of which has a contiguous
 * range. */
static void replicate(tdm_graph *graph, const job_model *of, tdm_value steps, int ranks) {
  char devices[REPLICAS * 24] = "";
  for (int i = 0; i < REPLICAS; i++) {
    const size_t length = strlen(devices);
    (void)snprintf(devices + length, sizeof devices - length, "%shost:%d/cpu:0", i ? "," : "",
                   i * ranks / REPLICAS);
  }
  const tdm_scatter scatter = {steps, 1};
  const tdm_parallel_options parallel =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.scatter = &scatter,
              o.scatter_count = steps.index != 0, o.sharding = of->sharding);
  tdm_data_parallel(graph, of->replicated, &parallel);
}

tdm_session *job_model_open(tdm_context *context, size_t model) {
  const job_model *of = &models[model];
  const int ranks = tdm_context_rank_count(context);
  char last[32];
  (void)snprintf(last, sizeof last, "host:%d/cpu:0", ranks - 1);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids =
      tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, LENGTH, TDM_DIM("batch")));
  const tdm_value labels = tdm_input(graph, "labels", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_value steps = {0, 0};
  const tdm_value scores = of->describe(graph, ids, "host:0/cpu:0", last, &steps);
  tdm_output(graph, "scores", scores);
  const tdm_value loss = tdm_cross_entropy(graph, "loss", scores, labels);
  if (of->replicated) replicate(graph, of, steps, ranks);
  const bool sparse = of->describe == describe_tables;
  const tdm_optimizer optimizer = sparse ? tdm_sgd(0.1) : tdm_adam(0.02);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &optimizer,
              o.micro_batches = OR_ONE(of->micro_batches), o.depth = OR_ONE(of->depth), o.seed = 7,
              o.deterministic = true);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct step_result {
  _Atomic int *landed;
  tdm_status status;
  double loss;
} step_result;

static uint64_t fold(uint64_t hash, const void *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
  return hash;
}

typedef struct batch {
  tdm_tensor *ids;
  tdm_tensor *labels;
  tdm_feed feeds[2];
} batch;

static void make_batch(batch *made, tdm_context *context, int step) {
  int64_t ids[LENGTH * ROWS], labels[ROWS];
  for (int i = 0; i < LENGTH * ROWS; i++)
    ids[i] = (i * 7 + step * 3) % WORDS;
  for (int i = 0; i < ROWS; i++)
    labels[i] = ids[(LENGTH - 1) * ROWS + i] % CLASSES;
  made->ids = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(2, LENGTH, ROWS), ids);
  made->labels = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ROWS), labels);
  made->feeds[0] = (tdm_feed){"ids", made->ids, false};
  made->feeds[1] = (tdm_feed){"labels", made->labels, false};
}

static void release_batch(batch *made) {
  tdm_tensor_release(made->ids);
  tdm_tensor_release(made->labels);
}

static void on_step(void *user, tdm_run_result *result) {
  step_result *mine = user;
  mine->status = result->status;
  mine->loss = result->loss;
  atomic_fetch_add(mine->landed, 1);
}

/* Submits steps one after the other, as many in flight as the session permits. */
static tdm_status fly(tdm_session *session, step_result *results) {
  _Atomic int landed = 0;
  int count = 0;
  tdm_status status = TDM_OK;
  for (; count < STEPS && status == TDM_OK; count += status == TDM_OK) {
    batch made;
    make_batch(&made, tdm_session_context(session), count);
    results[count] = (step_result){.landed = &landed};
    status = tdm_submit(session, true, made.feeds, 2, NULL, 0, on_step, &results[count]);
    release_batch(&made);
  }
  const struct timespec pause = {.tv_nsec = 100000};
  while (atomic_load(&landed) < count)
    (void)nanosleep(&pause, NULL);
  for (int i = 0; i < count && status == TDM_OK; i++)
    status = results[i].status;
  return status;
}

static tdm_status step_by_step(tdm_session *session, step_result *results) {
  tdm_status status = TDM_OK;
  for (int step = 0; step < STEPS && status == TDM_OK; step++) {
    batch made;
    make_batch(&made, tdm_session_context(session), step);
    status = tdm_train_step(session, made.feeds, 2, NULL, 0, &results[step].loss);
    release_batch(&made);
  }
  return status;
}

/* Scores of batches that have every word. */
static tdm_status hash_scores(tdm_session *session, uint64_t *hash) {
  tdm_status status = TDM_OK;
  for (int step = 0; step < 3 && status == TDM_OK; step++) {
    batch made;
    make_batch(&made, tdm_session_context(session), step);
    tdm_fetch scores = {"scores", NULL};
    status = tdm_run(session, made.feeds, 1, &scores, 1);
    if (status == TDM_OK)
      *hash = fold(*hash, tdm_tensor_data(scores.tensor), tdm_tensor_bytes(scores.tensor));
    tdm_tensor_release(scores.tensor);
    release_batch(&made);
  }
  return status;
}

tdm_status job_model_train(tdm_session *session, size_t model, double *out_loss,
                           uint64_t *out_hash) {
  step_result results[STEPS] = {{0}};
  *out_hash = UINT64_C(14695981039346656037);
  tdm_status status = (models[model].depth > 1 ? fly : step_by_step)(session, results);
  for (int step = 0; step < STEPS; step++)
    *out_hash = fold(*out_hash, &results[step].loss, sizeof results[step].loss);
  *out_loss = results[STEPS - 1].loss;
  if (status == TDM_OK) status = hash_scores(session, out_hash);
  return status;
}
