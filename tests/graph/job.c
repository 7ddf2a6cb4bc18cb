/* See job.h. */
#include "tests/graph/job.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "core/hash.h"
#include "devices/context/context_state.h"
#include "devices/creation/job.h"
#include "graph/store/store.h"
#include "tests/options.h"

typedef struct rank_thread {
  const job_options *options;
  tdm_simnet *net;
  job_body body;
  job_rank *rank;
  pthread_t thread;
} rank_thread;

static tdm_status live(rank_thread *mine) {
  const job_options *options = mine->options;
  tdm_endpoint *endpoint;
  TDM_TRY(tdm_simnet_endpoint(mine->net, mine->rank->rank, &endpoint));
  const tdm_context_options context =
      OPTIONS(tdm_context_options,
              o.allocator = options->allocators ? &options->allocators[mine->rank->rank] : NULL,
              o.cpu_devices = OR_ONE(options->cpu_devices), o.sim_devices = options->sim_devices,
              o.log = options->log, o.log_user = options->log_user,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  mine->rank->context = tdm_context_create_in_job(&context, endpoint, options->watch);
  if (!mine->rank->context) return TDM_INTERNAL;
  return mine->body(mine->rank);
}

/* The callback of a run may still be returning. Its thread would then release the last reference
 * to the context, and close it after the job's allocators and network. Closing waits for that
 * thread. */
static void close_context(tdm_context *context) {
  if (context && !atomic_load(&context->close_begun)) tdm_context_close(context, NULL, NULL);
  tdm_context_release(context);
}

static void *rank_main(void *user) {
  rank_thread *mine = user;
  job_rank *rank = mine->rank;
  if (mine->options->begin) mine->options->begin(rank->rank, mine->options->user);
  rank->status = live(mine);
  if (rank->status != TDM_OK) {
    (void)snprintf(rank->message, sizeof rank->message, "%s", tdm_last_message());
    tdm_simnet_kill(mine->net, rank->rank); /* or others would wait for it */
  }
  close_context(rank->context);
  rank->context = NULL;
  return NULL;
}

void job_run(const job_options *options, job_body body, job_rank *ranks) {
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_simnet_options net_options = options->net;
  net_options.struct_size = sizeof net_options;
  net_options.rank_count = options->rank_count;
  net_options.loss_is_told = true;
  rank_thread threads[JOB_MOST_RANKS];
  tdm_simnet *net;
  assert_ok(tdm_simnet_create(&allocator, &net_options, &net));
  assert_in_range(options->rank_count, 1, JOB_MOST_RANKS);
  for (int r = 0; r < options->rank_count; r++) {
    ranks[r] =
        (job_rank){.rank = r, .rank_count = options->rank_count, .user = options->user, .net = net};
    threads[r] = (rank_thread){.options = options, .net = net, .body = body, .rank = &ranks[r]};
    assert_int_equal(pthread_create(&threads[r].thread, NULL, rank_main, &threads[r]), 0);
  }
  for (int r = 0; r < options->rank_count; r++)
    assert_int_equal(pthread_join(threads[r].thread, NULL), 0);
  tdm_simnet_release(net);
}

/* Prints the messages of all ranks, since one may only report that another has failed. */
void job_must(const job_options *options, job_body body, job_rank *ranks) {
  job_run(options, body, ranks);
  int failed = 0;
  for (int r = 0; r < options->rank_count; r++) {
    if (ranks[r].status == TDM_OK) continue;
    print_error("rank %d of %d: %s: %s\n", r, options->rank_count, tdm_status_name(ranks[r].status),
                ranks[r].message);
    failed++;
  }
  if (failed > 0) fail_msg("%d of %d ranks have failed", failed, options->rank_count);
}

/* Returns a hash of a parameter's bytes by their positions in the whole, so that it does not depend
 * on shards. Elements that every shard has count once. */
static uint64_t hash_of(const tdm_store_entry *entry, const unsigned char *bytes, size_t count) {
  const uint64_t seed = tdm_hash_string(tdm_store_entry_table(entry), 1);
  const uint64_t first = tdm_store_shard_offset(entry);
  uint64_t hash = 0;
  if (entry->shard.index > 0 && entry->shard.table_rows == 0) return 0;
  for (size_t at = 0; at < count; at++) {
    const uint64_t keyed[] = {first + at, bytes[at]};
    hash ^= tdm_hash_bytes(keyed, sizeof keyed, seed);
  }
  return hash;
}

uint64_t job_hash(tdm_session *session) {
  const tdm_store *store = tdm_session_store(session);
  uint64_t hash = 0;
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    if (!entry->storage || entry->storage->memory.device->described) continue;
    const tdm_memory *memory = &entry->storage->memory;
    const size_t bytes = (size_t)tdm_shape_bytes(&entry->spec.shape, entry->spec.dtype);
    tdm_tensor *copy = tdm_tensor_create(tdm_session_context(session), "cpu:0", entry->spec.dtype,
                                         entry->spec.shape);
    const tdm_memory to = {tdm_tensor_owner(copy), tdm_tensor_address(copy), bytes, NULL};
    if (tdm_context_copy(tdm_session_context(session), memory, &to, bytes) == TDM_OK)
      hash ^= hash_of(entry, tdm_tensor_data(copy), bytes);
    tdm_tensor_release(copy);
  }
  return hash;
}

tdm_session *job_session(tdm_graph *graph, tdm_value loss, const job_model *model) {
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = model ? loss : (tdm_value){0, 0},
              o.optimizer = model ? &model->optimizer : NULL,
              o.collective = model ? model->collective : TDM_COLLECTIVE_AUTO,
              o.micro_batches = model ? OR_ONE(model->micro_batches) : 1, o.seed = 7,
              o.deterministic = !model || !model->any_order);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

tdm_status job_train(job_rank *rank) {
  enum { STEPS = 20 };
  const job_model *model = rank->user;
  tdm_value loss;
  tdm_graph *graph = model->build(rank, &loss);
  tdm_session *session = job_session(graph, loss, model);
  if (!session) return TDM_INTERNAL;
  tdm_status status = TDM_OK;
  for (uint64_t step = 1; step <= STEPS && status == TDM_OK; step++) {
    test_batch batch;
    test_batch_make(&batch, rank->context, model->rows, step);
    status = tdm_train_step(session, batch.feeds, 2, NULL, 0, &rank->loss);
    test_batch_release(&batch);
  }
  rank->hash = job_hash(session);
  tdm_session_release(session);
  return status;
}

void job_trains_alike(const job_model *model, int most, const job_options *options) {
  job_rank ranks[JOB_MOST_RANKS];
  job_rank alone = {0};
  for (int count = 1; count <= most; count++) {
    job_options job = *options;
    job.rank_count = count;
    job.user = model;
    job_must(&job, job_train, ranks);
    if (count == 1) alone = ranks[0];
    uint64_t hash = 0;
    for (int r = 0; r < count; r++) {
      assert_true(ranks[r].loss == alone.loss);
      hash ^= ranks[r].hash;
    }
    assert_true(isfinite(alone.loss));
    if (hash != alone.hash) fail_msg("%d ranks train other bits than one", count);
  }
}

/* ---- Models ---------------------------------------------------------------------------------- */

void job_replicate(const job_rank *rank, tdm_graph *graph, const char *scope, int count,
                   const char *first, const char *second) {
  char devices[JOB_MOST_RANKS * 3 * 24] = "";
  for (int i = 0, before = -1; i < count; i++) {
    const int owner = i * rank->rank_count / count;
    const size_t length = strlen(devices);
    const int written =
        snprintf(devices + length, sizeof devices - length, "%shost:%d/%s", i > 0 ? "," : "", owner,
                 owner == before && second ? second : first);
    assert_true(written > 0 && (size_t)written < sizeof devices - length);
    before = owner;
  }
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, scope, &options);
}

tdm_graph *job_deep_graph(const job_rank *rank, int layers, int64_t width,
                          tdm_value (*bend)(tdm_graph *, const char *, tdm_value),
                          tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_scope_push(graph, "model");
  tdm_value x = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, width);
  for (int layer = 0; layer < layers; layer++) {
    char name[24], bent[24];
    (void)snprintf(name, sizeof name, "hidden%d", layer);
    (void)snprintf(bent, sizeof bent, "bend%d", layer);
    x = bend(graph, bent, tdm_linear(graph, name, x, width));
  }
  const tdm_value scores = tdm_linear(graph, "scores", x, MODEL_WIDTH);
  tdm_scope_pop(graph);
  *out_loss = tdm_cross_entropy(graph, "loss", scores, targets);
  tdm_output(graph, "scores", scores);
  return graph;
}
