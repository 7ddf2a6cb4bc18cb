/* Tables whose updates log rows: the offsets of a log's pieces, its memory, and the predicted costs
 * of updating it and of refreshing copies from it. */
#include <pthread.h>

#include "graph/forecast/costs.h"
#include "graph/run/session.h"
#include "tests/graph/group.h"
#include "tests/graph/halve.h"
#include "tests/options.h"

enum { ROWS = 1000, WIDTH = 6, BATCH = 7 };

/* Creates a session with a table at home on cpu:0, of which sim:0 reads a copy, after some steps.
 * store NULL: a new store. */
static tdm_session *session_trained_by(tdm_optimizer optimizer, tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  tdm_place(graph, "cpu:0");
  const tdm_value near = tdm_embedding_with(graph, "table", ids, ROWS, WIDTH, &sparse);
  tdm_place(graph, "sim:0");
  tdm_tie(graph, "table", "table");
  const tdm_value far = tdm_embedding_with(graph, "table", ids, ROWS, WIDTH, &sparse);
  const tdm_value loss = tdm_mse(graph, "loss", tdm_linear(graph, "fc", far, WIDTH), near);
  tdm_output(graph, "near", near);
  tdm_output(graph, "far", far);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.store = store);
  tdm_session *session = train_session(graph, loss, optimizer, &options);
  tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, BATCH));
  const tdm_feed feed = {"ids", fed, false};
  for (int step = 0; step < 3; step++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_release(fed);
  return session;
}

static tdm_session *trained_session(tdm_store *store) {
  return session_trained_by(tdm_sgd(0.1), store);
}

/* Checks that the pieces of five consecutive versions are disjoint and inside the log's memory. The
 * next version reuses the first piece. */
static void pieces_of_a_log_are_apart(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(NULL);
  const tdm_store_entry *entry = session->store->first;
  while (entry && !entry->log.storage)
    entry = entry->next;
  assert_non_null(entry);
  const tdm_memory *memory = &entry->log.storage->memory;
  const uint64_t piece_bytes = atomic_load(&entry->log.window) * sizeof(int64_t);
  assert_true(piece_bytes >= BATCH * sizeof(int64_t));
  assert_true(memory->bytes >= (TDM_LOGGED_VERSIONS + 1) * piece_bytes);
  for (uint64_t version = 0; version < 100; version++)
    assert_int_equal(tdm_row_log_piece(entry, version),
                     memory->address + version % (TDM_LOGGED_VERSIONS + 1) * piece_bytes);
  tdm_session_release(session);
}

/* Counts the updates since a version that the log still has: none before it began, and
 * at most its capacity. */
static void a_log_reaches_as_far_as_it_goes(void **unused) {
  (void)unused;
  enum { NOW = 20 };
  tdm_storage storage;
  tdm_store_entry entry = {.version = NOW, .log.storage = &storage, .log.since = 3};
  for (uint64_t version = 0; version < NOW + 3; version++) {
    const bool has = version >= NOW - TDM_LOGGED_VERSIONS && version < NOW;
    assert_int_equal(tdm_row_log_reach(&entry, version), has ? NOW - version : 0);
  }
  entry.log.since = NOW - 2;
  for (uint64_t version = 0; version < NOW + 3; version++)
    assert_int_equal(tdm_row_log_reach(&entry, version),
                     version == NOW - 2 || version == NOW - 1 ? NOW - version : 0);
  entry.log.storage = NULL;
  assert_int_equal(tdm_row_log_reach(&entry, NOW - 1), 0);
  tdm_store_entry_rewritten(&entry);
  assert_int_equal(entry.version, NOW + 1);
  assert_int_equal(entry.log.since, NOW + 1);
}

/* Logs count with their tables. */
static void memory_has_the_logs(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(NULL);
  const tdm_device *home = tdm_context_device(context, 0);
  uint64_t bytes = 0, of_logs = 0;
  for (const tdm_store_entry *entry = session->store->first; entry; entry = entry->next) {
    if (entry->storage->memory.device == home) bytes += entry->storage->memory.bytes;
    if (entry->log.storage) of_logs += entry->log.storage->memory.bytes;
  }
  tdm_memory_use use;
  assert_ok(tdm_session_memory(session, "cpu:0", &use));
  assert_true(bytes > 0 && of_logs > 0);
  assert_int_equal(use.parameters_bytes, bytes + of_logs);
  tdm_session_release(session);
}

typedef struct asker {
  tdm_session *session;
  _Atomic bool ends;
  bool failed;
} asker;

static void *ask_again_and_again(void *user) {
  asker *self = user;
  tdm_memory_use use;
  while (!atomic_load(&self->ends))
    self->failed |= tdm_session_memory(self->session, "cpu:0", &use) != TDM_OK;
  return NULL;
}

/* Plans of another session of the store grow them while other threads query memory. */
static void logs_grow_while_somebody_looks(void **unused) {
  (void)unused;
  asker self = {.session = trained_session(NULL)};
  tdm_session *other = trained_session(tdm_session_store(self.session));
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, ask_again_and_again, &self), 0);
  for (int64_t rows = BATCH + 1; rows < BATCH + 20; rows++) {
    tdm_tensor *fed = tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, rows));
    const tdm_feed feed = {"ids", fed, false};
    assert_ok(tdm_session_prepare(other, &feed, 1, NULL, 0, true));
    tdm_tensor_release(fed);
  }
  atomic_store(&self.ends, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_false(self.failed);
  tdm_session_release(other);
  tdm_session_release(self.session);
}

/* A refresh writes as many rows of a copy as there are values, and does not read the copy. */
static void a_refresh_costs_the_rows_it_moves(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(NULL);
  const tdm_graph *graph = &session->newest->graph;
  int refreshes = 0;
  TDM_EACH_NODE(graph, node) {
    if (node->operation != &tdm_operation_put_rows) continue;
    tdm_work work;
    assert_ok(tdm_work_of(graph, node, &work));
    const double values = (double)tdm_ir_value_at(graph, node->inputs[1])->bytes;
    const double indices = (double)tdm_ir_value_at(graph, node->inputs[2])->bytes;
    assert_true(values > 0 && values < ROWS * WIDTH * 4);
    assert_true(work.bytes_read == values + indices);
    assert_true(work.bytes_written == values);
    assert_true(work.flops == 0);
    refreshes++;
  }
  assert_int_equal(refreshes, TDM_LOGGED_VERSIONS);
  tdm_session_release(session);
}

/* An update reads and writes the rows of each table that it overwrites. */
static void an_update_costs_the_rows_it_names(void **unused) {
  (void)unused;
  tdm_session *session = trained_session(NULL);
  const tdm_graph *graph = &session->newest->graph;
  int updates = 0;
  TDM_EACH_NODE(graph, node) {
    if (!node->operation || strcmp(node->operation->name, "sgd_sparse") != 0) continue;
    tdm_work work;
    assert_ok(tdm_work_of(graph, node, &work));
    const double rows = (double)tdm_ir_value_at(graph, node->inputs[1])->bytes;
    const double indices = (double)tdm_ir_value_at(graph, node->inputs[2])->bytes;
    assert_true(rows > 0 && indices > 0);
    assert_true(work.bytes_read == rows + indices + rows);
    assert_true(work.bytes_written == rows);
    updates++;
  }
  assert_int_equal(updates, 1);
  tdm_session_release(session);
}

/* ---- Updates of other rows ------------------------------------------------------------------- */

/* Applies the optimizer of tables, and then halves all their rows. */
static tdm_status append_and_halve(tdm_update *update) {
  const tdm_optimizer sgd = tdm_sgd(0.1);
  TDM_TRY(sgd.rule->append(update));
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    const tdm_value parameter = tdm_update_parameter(update, i);
    tdm_append(tdm_update_graph(update), &halve, tdm_update_name(update, i), NULL, &parameter, 1,
               NULL);
  }
  return tdm_graph_status(tdm_update_graph(update));
}

static const tdm_optimizer_rule halving_rule = {
    .name = "halving", .accepts_sparse = true, .append = append_and_halve};

/* A copy has the rows that no id named, where another update has written them. */
static void a_table_that_two_updates_write_is_copied_whole(void **unused) {
  (void)unused;
  assert_ok(tdm_kernel_register(context, &halve_kernel));
  tdm_session *session = session_trained_by(
      OPTIONS(tdm_optimizer, o.rule = &halving_rule, o.learning_rate = 0.1), NULL);
  int64_t ids[BATCH];
  for (int64_t i = 0; i < BATCH; i++)
    ids[i] = i;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, BATCH), ids);
  tdm_fetch fetches[] = {{.name = "near"}, {.name = "far"}};
  assert_ok(tdm_run(session, &(tdm_feed){"ids", fed, false}, 1, fetches, 2));
  assert_memory_equal(tdm_tensor_data(fetches[0].tensor), tdm_tensor_data(fetches[1].tensor),
                      sizeof(float[BATCH][WIDTH]));
  tdm_tensor_release(fetches[0].tensor);
  tdm_tensor_release(fetches[1].tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_of_a_log_are_apart),
      cmocka_unit_test(a_log_reaches_as_far_as_it_goes),
      cmocka_unit_test(memory_has_the_logs),
      cmocka_unit_test(logs_grow_while_somebody_looks),
      cmocka_unit_test(a_refresh_costs_the_rows_it_moves),
      cmocka_unit_test(an_update_costs_the_rows_it_names),
      cmocka_unit_test(a_table_that_two_updates_write_is_copied_whole),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
