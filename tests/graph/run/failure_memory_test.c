/* The Nth host allocation fails, once or from there on, for every N until none does: creating the
 * context, the graph, the session, the plan, running, training, saving, loading, asking. An error
 * with its cause arrives, and in the end every byte has been given back. */
#include <stdlib.h>

#include "graph/run/session.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

typedef struct memory_sweep {
  tdm_status (*play)(tdm_context *context); /* creates objects, uses them, and releases all of
                                             * them */
  tdm_faulty_allocator *faulty;
  tdm_allocator allocator;
  tdm_context *context; /* shared by all; NULL: each scenario makes its own */
} memory_sweep;

static tdm_status told(void) {
  assert_true(tdm_last_message()[0] != 0);
  return TDM_OUT_OF_MEMORY;
}

static tdm_context *make_context(const tdm_allocator *allocator) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = allocator, o.cpu_devices = 1, o.sim_devices = 1,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  return tdm_context_create(&options);
}

/* ---- The scenario ---------------------------------------------------------------------------- */

typedef struct scenario {
  tdm_session *session;
  tdm_session *reader;
  tdm_store *store;
  test_batch batch;
  tdm_tensor_list *state;
  tdm_fetch scores;
} scenario;

static bool make_batch(test_batch *batch, tdm_context *context) {
  static const int64_t values[4] = {3, 1, 4, 1};
  memset(batch, 0, sizeof *batch);
  batch->ids = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 4), values);
  batch->targets = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 4), values);
  batch->feeds[0] = (tdm_feed){.name = "ids", .tensor = batch->ids};
  batch->feeds[1] = (tdm_feed){.name = "targets", .tensor = batch->targets};
  return batch->ids && batch->targets;
}

static tdm_status make_sessions(scenario *mine, tdm_context *context) {
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  if (!graph) return told();
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0");
  tdm_data_parallel(graph, "twice", &wrapped);
  const tdm_optimizer optimizer = tdm_adam(0.01);
  tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = mine->store, o.loss = loss, o.optimizer = &optimizer,
              o.device_map = "embedding=cpu:0,rnn=sim:0", o.check_finite = true,
              o.micro_batches = 2, o.profile = true, o.trace_runs = 2);
  mine->session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!mine->session) return told();
  graph = seed_graph(context, "sim:0", "sim:0", NULL);
  if (!graph) return told();
  options = OPTIONS(tdm_session_options, o.store = mine->store, o.depth = 2);
  mine->reader = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  return mine->reader ? TDM_OK : told();
}

static tdm_status ask(tdm_session *session) {
  FILE *out = fopen("/dev/null", "w");
  assert_non_null(out);
  tdm_status status = tdm_session_explain(session, TDM_PLAN_TEXT, out);
  if (status == TDM_OK) status = tdm_session_explain(session, TDM_PLAN_JSON, out);
  if (status == TDM_OK) status = tdm_session_print_pass(session, "memory", TDM_PLAN_DOT, out);
  assert_int_equal(fclose(out), 0);
  return status;
}

static tdm_status play(scenario *mine, tdm_context *context) {
  mine->store = tdm_store_create(context);
  if (!mine->store || !make_batch(&mine->batch, context)) return told();
  tdm_status status = make_sessions(mine, context);
  if (status != TDM_OK) return status;
  const tdm_feed *feeds = mine->batch.feeds;
  mine->scores.name = "scores";
  status = tdm_train_step(mine->session, feeds, 2, NULL, 0, NULL);
  if (status == TDM_OK) status = tdm_train_step(mine->session, feeds, 2, NULL, 0, NULL);
  if (status == TDM_OK) status = tdm_run(mine->reader, feeds, 1, &mine->scores, 1);
  if (status != TDM_OK) return status;
  status = ask(mine->session);
  if (status != TDM_OK) return status;
  mine->state = tdm_store_save(mine->store, true);
  if (!mine->state) return told();
  return tdm_store_load(mine->store, mine->state);
}

static void end(scenario *mine) {
  tdm_tensor_release(mine->scores.tensor);
  tdm_tensor_list_release(mine->state);
  test_batch_release(&mine->batch);
  tdm_session_release(mine->reader);
  tdm_session_release(mine->session);
  tdm_store_release(mine->store);
}

static tdm_status play_models(tdm_context *context) {
  scenario mine = {0};
  const tdm_status status = play(&mine, context);
  end(&mine);
  return status;
}

/* ---- Sparse gradients ------------------------------------------------------------------------ */

/* Each has a log for its update and one for each that a copy may lack: more than there is room for
 * at first. */
enum { TABLES = 3, LOGS = TABLES * (1 + TDM_LOGGED_VERSIONS) };

static tdm_status train_tables(tdm_graph *graph, tdm_value loss, const test_batch *batch) {
  const tdm_optimizer optimizer = tdm_sgd(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &optimizer);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) return told();
  tdm_status status = TDM_OK;
  for (int i = 0; i < 3 && status == TDM_OK; i++)
    status = tdm_train_step(session, batch->feeds, 2, NULL, 0, NULL);
  if (status == TDM_OK) assert_int_equal(session->newest->graph.planned->logs.count, LOGS);
  tdm_session_release(session);
  return status;
}

/* Copies of tables are refreshed by the rows of logs. */
static tdm_status play_rows(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  if (!graph) return told();
  const tdm_shape batch = tdm_shape_of(1, TDM_DIM("batch"));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, batch);
  const tdm_value targets = tdm_input(graph, "targets", TDM_INT64, batch);
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  tdm_value sum = {0};
  tdm_scope_push(graph, "tables");
  for (int i = 0; i < TABLES; i++) {
    const char name[2] = {(char)('a' + i), 0};
    const tdm_value rows = tdm_embedding_with(graph, name, ids, MODEL_ROWS, MODEL_WIDTH, &sparse);
    sum = i == 0 ? rows : tdm_add(graph, "sum", sum, rows);
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0");
  tdm_data_parallel(graph, "tables", &wrapped);
  const tdm_value loss = tdm_cross_entropy(graph, "loss", sum, targets);
  test_batch fed;
  const tdm_status status = make_batch(&fed, context) ? train_tables(graph, loss, &fed) : told();
  test_batch_release(&fed);
  tdm_graph_release(graph);
  return status;
}

/* ---- A large graph --------------------------------------------------------------------------- */

enum { LARGE_NODES = 2500, RING_LAYERS = 220 };

/* Trains a graph with so many values that every table of a pass is a separate allocation. */
static tdm_status play_large(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  if (!graph) return told();
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, TDM_DIM("batch")));
  for (int i = 0; i < LARGE_NODES; i++)
    x = tdm_tanh(graph, "tanh", x);
  tdm_output(graph, "y", x);
  tdm_session *session = tdm_session_create(graph, NULL);
  tdm_graph_release(graph);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 3));
  const tdm_feed feed = {.name = "x", .tensor = fed};
  tdm_fetch fetch = {.name = "y"};
  const tdm_status status = session && fed ? tdm_run(session, &feed, 1, &fetch, 1) : told();
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return status;
}

static int ring_layers; /* layers in the running test */

/* The same where two devices share in sums that go around. */
static tdm_status play_ring(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  if (!graph) return told();
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), MODEL_WIDTH);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "model");
  tdm_value y = x;
  for (int i = 0; i < ring_layers; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    y = tdm_tanh(graph, "tanh", tdm_linear_without_bias(graph, name, y, MODEL_WIDTH));
  }
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0");
  tdm_data_parallel(graph, "model", &wrapped);
  const tdm_optimizer optimizer = tdm_sgd(0.01);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_mse(graph, "loss", y, x), o.optimizer = &optimizer,
              o.collective = TDM_COLLECTIVE_RING);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  tdm_tensor *fed =
      tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 4, MODEL_WIDTH));
  const tdm_feed feed = {.name = "x", .tensor = fed};
  const tdm_status status =
      session && fed ? tdm_train_step(session, &feed, 1, NULL, 0, NULL) : told();
  if (status == TDM_OK) assert_int_equal(session->newest->sums.algorithm, TDM_COLLECTIVE_RING);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return status;
}

/* Releases every object, after any failure. */
static tdm_status play_and_end(memory_sweep *sweep) {
  tdm_context *context =
      sweep->context ? tdm_context_retain(sweep->context) : make_context(&sweep->allocator);
  if (!context) return told();
  const tdm_status status = sweep->play(context);
  tdm_context_release(context);
  return status;
}

/* ---- Sweeping -------------------------------------------------------------------------------- */

/* With sanitizers for races every third allocation: leaks and writes are detected without them. */
static uint64_t sweep_all(memory_sweep *sweep, bool from_on) {
  const uint64_t step = test_is_thread_sanitized() ? 3 : 1;
  tdm_faulty_allocator_arm(sweep->faulty, 0, false);
  assert_ok(play_and_end(sweep)); /* tables that the context keeps are grown by now */
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(sweep->faulty);
  for (uint64_t n = 1;; n += step) {
    tdm_faulty_allocator_arm(sweep->faulty, n, from_on);
    const tdm_status status = play_and_end(sweep);
    const bool failed = tdm_faulty_allocator_failures(sweep->faulty) > 0;
    tdm_faulty_allocator_arm(sweep->faulty, 0, false);
    const int64_t left = tdm_faulty_allocator_outstanding_bytes(sweep->faulty) - before;
    if (left != 0)
      fail_msg("%lld bytes are left after allocation %llu failed", (long long)left,
               (unsigned long long)n);
    if (!failed) {
      assert_ok(status);
      return n;
    }
    if (status != TDM_OUT_OF_MEMORY)
      fail_msg("allocation %llu failed, and the scenario answered %s: %s", (unsigned long long)n,
               tdm_status_name(status), tdm_last_message());
    assert_message("memory");
  }
}

static void begin(memory_sweep *sweep) {
  memset(sweep, 0, sizeof *sweep);
  sweep->play = play_models;
  sweep->faulty = tdm_faulty_allocator_create();
  assert_non_null(sweep->faulty);
  sweep->allocator = tdm_faulty_allocator_view(sweep->faulty);
}

static void finish(memory_sweep *sweep) {
  tdm_context_release(sweep->context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(sweep->faulty), 0);
  tdm_faulty_allocator_destroy(sweep->faulty);
}

static void every_allocation_above_the_context(void **unused) {
  (void)unused;
  memory_sweep sweep;
  begin(&sweep);
  sweep.context = make_context(&sweep.allocator);
  assert_non_null(sweep.context);
  assert_true(sweep_all(&sweep, false) > 100);
  assert_true(sweep_all(&sweep, true) > 100);
  finish(&sweep);
}

/* There are more allocations than least. */
static void sweep_above_the_context(tdm_status (*play_all)(tdm_context *context), uint64_t least) {
  memory_sweep sweep;
  begin(&sweep);
  sweep.play = play_all;
  sweep.context = make_context(&sweep.allocator);
  assert_non_null(sweep.context);
  assert_true(sweep_all(&sweep, false) > least);
  finish(&sweep);
}

static void every_allocation_of_refreshed_rows(void **unused) {
  (void)unused;
  sweep_above_the_context(play_rows, 50);
}

/* So many tables that each list of a graph grows while they are sharded. */
static tdm_status play_shards(tdm_context *context) {
  enum { SHARDED = 24 };
  tdm_graph *graph = tdm_graph_create(context);
  if (!graph) return told();
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, 4));
  for (int i = 0; i < SHARDED; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "table%d", i);
    (void)tdm_embedding(graph, name, ids, 6, 2);
  }
  tdm_shard(graph, "", WITH(tdm_shard_options, o.devices = "cpu:0,sim:0"));
  const tdm_status status = tdm_graph_status(graph);
  tdm_graph_release(graph);
  return status;
}

static void every_allocation_of_sharded_tables(void **unused) {
  (void)unused;
  sweep_above_the_context(play_shards, 10);
}

static void every_allocation_of_a_large_graph(void **unused) {
  (void)unused;
  sweep_above_the_context(play_large, 50);
}

static void every_allocation_of_a_large_ring(void **unused) {
  (void)unused;
  ring_layers = test_is_sanitized() ? 20 : RING_LAYERS;
  sweep_above_the_context(play_ring, 50);
}

/* A graph's lists grow in steps, of one at copies, of another at the buckets of these. */
static void every_allocation_of_small_rings(void **unused) {
  (void)unused;
  for (ring_layers = 18; ring_layers <= 22; ring_layers += 2)
    sweep_above_the_context(play_ring, 50);
}

/* Each of the first allocations is the context's and requires a new context. Later ones do not. */
static void every_allocation_of_the_context(void **unused) {
  (void)unused;
  memory_sweep sweep;
  begin(&sweep);
  for (int from_on = 0; from_on < 2; from_on++) {
    for (uint64_t n = 1;; n++) {
      tdm_faulty_allocator_arm(sweep.faulty, n, from_on);
      tdm_context *context = make_context(&sweep.allocator);
      const bool failed = tdm_faulty_allocator_failures(sweep.faulty) > 0;
      if (failed) (void)told();
      assert_true(failed == (!context));
      tdm_faulty_allocator_arm(sweep.faulty, 0, false);
      tdm_context_release(context);
      assert_int_equal(tdm_faulty_allocator_outstanding_bytes(sweep.faulty), 0);
      if (!failed) break;
    }
  }
  finish(&sweep);
}

/* Starting the devices is the first session's part: sweep it on a context that was not started. */
static void every_allocation_of_the_start(void **unused) {
  (void)unused;
  memory_sweep sweep;
  begin(&sweep);
  for (uint64_t n = 1;; n++) {
    tdm_faulty_allocator_arm(sweep.faulty, 0, false);
    tdm_context *context = make_context(&sweep.allocator);
    assert_non_null(context);
    tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", NULL);
    tdm_faulty_allocator_arm(sweep.faulty, n, false);
    tdm_session *session = tdm_session_create(graph, NULL);
    const bool failed = tdm_faulty_allocator_failures(sweep.faulty) > 0;
    assert_true(failed == (!session));
    if (failed) assert_message("memory");
    tdm_faulty_allocator_arm(sweep.faulty, 0, false);
    if (failed) { /* the next one finds everything in order */
      session = tdm_session_create(graph, NULL);
      assert_non_null(session);
      test_batch batch;
      test_batch_make(&batch, context, 4, 1);
      tdm_tensor_release(run_once(session, &batch, "scores"));
      test_batch_release(&batch);
    }
    tdm_session_release(session);
    tdm_graph_release(graph);
    tdm_context_release(context);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(sweep.faulty), 0);
    if (!failed) break;
  }
  finish(&sweep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_above_the_context),
      cmocka_unit_test(every_allocation_of_refreshed_rows),
      cmocka_unit_test(every_allocation_of_sharded_tables),
      cmocka_unit_test(every_allocation_of_a_large_graph),
      cmocka_unit_test(every_allocation_of_a_large_ring),
      cmocka_unit_test(every_allocation_of_small_rings),
      cmocka_unit_test(every_allocation_of_the_context),
      cmocka_unit_test(every_allocation_of_the_start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
