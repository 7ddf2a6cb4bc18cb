/* Planning changes a store completely or not at all. A plan that fails at any allocation leaves
 * entries, copies, logs and memory unchanged. A log grows once no run is inside. Two sessions that
 * bind the same parameters get the same entries. */
#include <pthread.h>
#include <stdlib.h>

#include "core/hash.h"
#include "graph/ir/rewriter.h"
#include "graph/run/session.h"
#include "tests/graph/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

enum { ROWS = 40, WIDTH = 3, BATCH = 5 };

/* Opens a session with a table with sparse gradients that cpu:0 and sim:0 read. */
static tdm_session *table_session(tdm_context *context, tdm_store *store, int rows, bool strict) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  tdm_place(graph, "cpu:0");
  const tdm_value near = tdm_embedding_with(graph, "table", ids, rows, WIDTH, &sparse);
  tdm_place(graph, "sim:0");
  tdm_tie(graph, "table", "table");
  const tdm_value far = tdm_embedding_with(graph, "table", ids, rows, WIDTH, &sparse);
  const tdm_value loss = tdm_mse(graph, "loss", far, near);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = store, o.strict = strict);
  return train_session(graph, loss, tdm_sparse_adam(0.1), &options);
}

static tdm_status prepare(tdm_session *session, tdm_tensor *ids) {
  const tdm_feed feed = {"ids", ids, false};
  return tdm_session_prepare(session, &feed, 1, NULL, 0, true);
}

static tdm_tensor *ids_of(tdm_context *context, int64_t count) {
  return tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, count));
}

/* ---- Failures -------------------------------------------------------------------------------- */

static uint64_t hash_pointer(const void *pointer, uint64_t hash) {
  return tdm_hash_mix(hash, (uint64_t)(uintptr_t)pointer);
}

/* All that the store has: names, memory, versions, copies, logs, and the bytes of values. */
static uint64_t hash_store(tdm_store *store) {
  (void)pthread_mutex_lock(&store->lock);
  uint64_t hash = tdm_hash_mix(store->names.table.count, store->tables.table.count);
  hash = tdm_hash_mix(hash_pointer(store->growing, hash), store->steps);
  hash = tdm_hash_mix(hash_pointer(store->last, hash), atomic_load(&store->version));
  for (const tdm_store_entry *entry = store->first; entry; entry = entry->next) {
    const tdm_memory *memory = &entry->storage->memory;
    hash = tdm_hash_string(entry->name, hash_pointer(entry->next, hash));
    hash = tdm_hash_mix(hash_pointer(entry->storage, hash), entry->version);
    hash = hash_pointer(entry->pending, hash_pointer(entry->log.storage, hash));
    hash = hash_pointer(entry->log.larger, hash_pointer(entry->log.retired, hash));
    hash = tdm_hash_mix(hash, atomic_load(&entry->log.window));
    hash = tdm_hash_mix(hash, atomic_load(&entry->log.planned_window));
    for (const tdm_store_copy *copy = entry->copies; copy; copy = copy->next)
      hash = tdm_hash_mix(hash_pointer(copy->storage, hash), copy->version);
    const void *bytes = memory->device->ops->host_pointer(memory->device, memory->address);
    if (bytes) hash = tdm_hash_bytes(bytes, memory->bytes, hash);
  }
  (void)pthread_mutex_unlock(&store->lock);
  return hash;
}

static tdm_context *context_with(tdm_faulty_allocator *faulty) {
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.sim_devices = 1,
              o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  return context;
}

/* Refuses all allocations of a plan from the first on, then from the second on, and so on until
 * none is refused; returns how often it failed. */
static int sweep(tdm_faulty_allocator *faulty, tdm_session *session, tdm_tensor *ids) {
  const uint64_t before = hash_store(session->store);
  for (int number = 0;; number++) {
    tdm_faulty_allocator_arm(faulty, (uint64_t)number + 1, true);
    const tdm_status status = prepare(session, ids);
    tdm_faulty_allocator_arm(faulty, 0, false);
    if (status == TDM_OK) return number;
    assert_status(status, TDM_OUT_OF_MEMORY);
    if (hash_store(session->store) != before)
      fail_msg("refused allocation %d left a trace", number);
  }
}

static void a_plan_that_fails_leaves_no_trace(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  tdm_context *context = context_with(faulty);
  tdm_session *session = table_session(context, NULL, ROWS, false);
  tdm_tensor *few = ids_of(context, BATCH), *more = ids_of(context, 2 * BATCH);
  const uint64_t before = hash_store(session->store);
  assert_true(sweep(faulty, session, few) > 20); /* states, logs, copies */
  const uint64_t planned = hash_store(session->store);
  assert_true(planned != before);
  assert_true(sweep(faulty, session, more) > 20); /* a larger log */
  assert_true(hash_store(session->store) != planned);
  tdm_tensor_release(few);
  tdm_tensor_release(more);
  tdm_session_release(session);
  tdm_context_release(context);
  tdm_faulty_allocator_destroy(faulty);
}

/* Makes each pass fail in turn: by the first allocation in it, where it has one. */
typedef struct breaker {
  tdm_faulty_allocator *faulty;
  const char *before; /* the pass that precedes it */
} breaker;

static void arm(void *user, const char *pass, const tdm_plan *plan) {
  const breaker *self = user;
  (void)plan;
  if (strcmp(pass, self->before) == 0) tdm_faulty_allocator_arm(self->faulty, 1, true);
}

static tdm_status plan_with(tdm_session *session, const tdm_feed_spec *feeds, breaker *breaks) {
  const tdm_training training = {.loss = session->loss, .groups = &session->groups};
  const int16_t host = TDM_HOST_DEVICE;
  const tdm_plan_request request = {.source = session->graph,
                                    .feeds = feeds,
                                    .targets = &session->loss,
                                    .target_devices = &host,
                                    .target_count = 1,
                                    .training = &training,
                                    .map = &session->map,
                                    .store = session->store,
                                    .bound = session->bound,
                                    .everywhere = session->everywhere,
                                    .cache = session->prepared,
                                    .depth = 1,
                                    .after_pass = arm,
                                    .user = breaks};
  tdm_plan *plan;
  const tdm_status status = tdm_plan_create(&request, &plan);
  if (status == TDM_OK) tdm_plan_destroy(plan);
  return status;
}

static void no_pass_that_fails_leaves_a_trace(void **unused) {
  (void)unused;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  tdm_context *context = context_with(faulty);
  tdm_session *session = table_session(context, NULL, ROWS, false);
  const uint64_t before = hash_store(session->store);
  const tdm_feed_spec feed = {
      .fed = true, .device = TDM_HOST_DEVICE, .shape = tdm_shape_of(1, BATCH)};
  for (size_t i = 0; i + 1 < tdm_pass_count; i++) {
    breaker breaks = {faulty, tdm_passes[i].name};
    const tdm_status status = plan_with(session, &feed, &breaks);
    tdm_faulty_allocator_arm(faulty, 0, false);
    if (status != TDM_OUT_OF_MEMORY)
      fail_msg("after %s: %s", breaks.before, tdm_status_name(status));
    if (hash_store(session->store) != before) fail_msg("a failure after %s", breaks.before);
  }
  tdm_session_release(session);
  tdm_context_release(context);
  tdm_faulty_allocator_destroy(faulty);
}

/* Pageable feeds are refused after the last rewrite. */
static void a_refused_plan_leaves_no_trace(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = table_session(context, NULL, ROWS, true);
  tdm_tensor *ids = ids_of(context, BATCH);
  const uint64_t before = hash_store(session->store);
  assert_status(prepare(session, ids), TDM_UNAVAILABLE);
  assert_true(hash_store(session->store) == before);
  tdm_tensor_release(ids);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* A session whose last parameter does not fit leaves the store without those before it. */
static void a_session_that_does_not_fit_leaves_no_trace(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = table_session(context, NULL, ROWS, false);
  tdm_store *store = tdm_session_store(session);
  const uint64_t before = hash_store(store);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, BATCH));
  tdm_output(graph, "new", tdm_embedding(graph, "new", ids, ROWS, WIDTH));
  tdm_output(graph, "old", tdm_embedding(graph, "table", ids, ROWS + 1, WIDTH));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.store = store);
  assert_null(tdm_session_create(graph, &options));
  assert_message("parameter table.weight");
  assert_true(hash_store(store) == before);
  tdm_graph_release(graph);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Two bindings ---------------------------------------------------------------------------- */

/* Two bindings that are open at the same time, as those of two threads are. */
typedef struct pair {
  tdm_store *store;
  tdm_store_binding one;
  tdm_store_binding other;
} pair;

static void begin_pair(pair *self, tdm_context *context) {
  self->store = tdm_store_create(context);
  assert_non_null(self->store);
  tdm_store_begin_binding(&self->one, self->store);
  tdm_store_begin_binding(&self->other, self->store);
}

static const tdm_graph_persistent names[] = {
    {.name = "a", .initializer = {.kind = TDM_INIT_CONSTANT, .a = 3, .zero_row = -1}},
    {.name = "b", .origin = UINT32_MAX, .is_state = true},
    {.name = "piece0", .shard = {.table = "table", .table_rows = 4, .count = 2}},
    {.name = "piece1",
     .shard = {.table = "table", .first = 2, .table_rows = 4, .index = 1, .count = 2}},
};

static tdm_store_entry *bind(tdm_store_binding *binding, int name, int64_t rows,
                             tdm_store_entry **slot) {
  const tdm_spec spec = {TDM_FLOAT32, TDM_FORMAT_DENSE, tdm_shape_of(1, rows)};
  tdm_device *home = tdm_context_host(binding->store->context);
  assert_ok(tdm_store_bind(binding, &names[name], &spec, home, 1, slot));
  return *slot;
}

static float first_value(const tdm_store_entry *entry) {
  const tdm_memory *memory = &entry->storage->memory;
  const float *values = memory->device->ops->host_pointer(memory->device, memory->address);
  return values[0];
}

static void the_second_binding_gets_what_the_first_has_made(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  pair self;
  begin_pair(&self, context);
  tdm_store_entry *one = NULL, *other = NULL, *again = NULL;
  tdm_store_copy *copies[2];
  tdm_device *sim = tdm_context_device(context, tdm_device_count(context) - 1);
  assert_ptr_not_equal(bind(&self.one, 0, 2, &one), bind(&self.other, 0, 2, &other));
  assert_ptr_equal(bind(&self.other, 0, 2, &again), other);
  assert_ok(tdm_store_bind_copy(&self.one, &one, sim, &copies[0]));
  assert_ok(tdm_store_bind_copy(&self.other, &again, sim, &copies[1]));
  assert_ok(tdm_store_bind_log(&self.one, &one, 5));
  assert_ok(tdm_store_bind_log(&self.other, &other, 7));
  assert_ok(tdm_store_end_binding(&self.one, TDM_OK));
  assert_ok(tdm_store_end_binding(&self.other, TDM_OK));
  assert_ptr_equal(one, self.store->first);
  assert_ptr_equal(other, one);
  assert_ptr_equal(again, one);
  assert_null(one->next);
  assert_ptr_equal(copies[0], copies[1]);
  assert_ptr_equal(one->copies, copies[0]);
  assert_ptr_equal(copies[0]->entry, one);
  assert_null(copies[0]->next);
  assert_int_equal(atomic_load(&one->log.window), 7); /* no run is inside */
  assert_true(first_value(one) == 3);
  tdm_store_release(self.store);
  tdm_context_release(context);
}

static void a_binding_that_comes_too_late_links_nothing(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  pair self;
  begin_pair(&self, context);
  tdm_store_entry *slots[4];
  for (int i = 4; i-- > 0;)
    (void)bind(&self.one, i, 2, &slots[i]);
  (void)bind(&self.other, 0, 3, &slots[0]);
  assert_ok(tdm_store_end_binding(&self.other, TDM_OK));
  const uint64_t before = hash_store(self.store);
  (void)bind(&self.one, 0, 2, &slots[0]); /* as it was bound there before */
  assert_status(tdm_store_end_binding(&self.one, TDM_OK), TDM_INVALID_ARGUMENT);
  assert_message("parameter a: ");
  assert_true(hash_store(self.store) == before);
  assert_null(self.store->first->next);
  assert_null(tdm_store_first_shard(self.store, "table"));
  tdm_store_binding late;
  tdm_store_begin_binding(&late, self.store);
  for (int i = 1; i < 4; i++)
    (void)bind(&late, i, 2, &slots[i]);
  assert_ok(tdm_store_end_binding(&late, TDM_OK));
  assert_ptr_equal(tdm_store_first_shard(self.store, "table"), slots[2]);
  assert_ptr_equal(slots[2]->next_shard, slots[3]);
  tdm_store_release(self.store);
  tdm_context_release(context);
}

/* A value that is loaded while a binding is open is the initial value of its entry. */
static void values_that_were_loaded_meanwhile_count(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  pair self;
  begin_pair(&self, context);
  tdm_store_entry *one;
  (void)bind(&self.one, 0, 2, &one);
  const float values[] = {5, 6};
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 2), values);
  assert_ok(tdm_tensor_list_add(list, "a", tensor));
  assert_ok(tdm_store_load(self.store, list));
  tdm_tensor_release(tensor);
  tdm_tensor_list_release(list);
  assert_ok(tdm_store_end_binding(&self.one, TDM_OK));
  assert_ok(tdm_store_end_binding(&self.other, TDM_OK));
  assert_ptr_equal(one, self.store->first);
  assert_null(one->pending);
  assert_true(first_value(one) == 5);
  tdm_store_release(self.store);
  tdm_context_release(context);
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct planner {
  tdm_session *session;
  tdm_tensor *ids;
  pthread_t thread;
} planner;

static void *plan_and_train(void *user) {
  const planner *self = user;
  const tdm_feed feed = {"ids", self->ids, false};
  for (int step = 0; step < 3; step++)
    if (tdm_train_step(self->session, &feed, 1, NULL, 0, NULL) != TDM_OK) abort();
  return NULL;
}

/* Sessions that plan at the same time, for logs of several sizes, bind the same states. */
static void threads_bind_the_same(void **unused) {
  (void)unused;
  enum { PLANNERS = 4, ROUNDS = 20 };
  size_t name_count = 0;
  tdm_context *context = graph_context();
  for (int round = 0; round < ROUNDS; round++) {
    planner planners[PLANNERS];
    for (int i = 0; i < PLANNERS; i++) {
      tdm_store *store = i > 0 ? tdm_session_store(planners[0].session) : NULL;
      planners[i] = (planner){table_session(context, store, ROWS, false),
                              ids_of(context, BATCH + i + round % 2), 0};
    }
    for (int i = 0; i < PLANNERS; i++)
      assert_int_equal(pthread_create(&planners[i].thread, NULL, plan_and_train, &planners[i]), 0);
    for (int i = 0; i < PLANNERS; i++)
      assert_int_equal(pthread_join(planners[i].thread, NULL), 0);
    tdm_store *store = tdm_session_store(planners[0].session);
    if (round == 0) name_count = store->names.table.count;
    assert_true(name_count > 1 && store->names.table.count == name_count); /* with states */
    assert_null(store->growing);
    for (const tdm_store_entry *entry = store->first; entry; entry = entry->next) {
      assert_non_null(entry->storage);
      assert_true(!entry->log.storage || atomic_load(&entry->log.window) >= BATCH + PLANNERS - 1);
    }
    for (int i = PLANNERS; i-- > 0;) {
      tdm_tensor_release(planners[i].ids);
      tdm_session_release(planners[i].session);
    }
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_that_fails_leaves_no_trace),
      cmocka_unit_test(no_pass_that_fails_leaves_a_trace),
      cmocka_unit_test(a_refused_plan_leaves_no_trace),
      cmocka_unit_test(a_session_that_does_not_fit_leaves_no_trace),
      cmocka_unit_test(the_second_binding_gets_what_the_first_has_made),
      cmocka_unit_test(a_binding_that_comes_too_late_links_nothing),
      cmocka_unit_test(values_that_were_loaded_meanwhile_count),
      cmocka_unit_test(threads_bind_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
