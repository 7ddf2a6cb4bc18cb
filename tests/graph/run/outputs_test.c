/* Memory of delivered outputs: used again for outputs of about its size, never for much smaller
 * ones, which would keep it; and given up where others need it. */
#include <pthread.h>
#include <unistd.h>

#include "graph/store/store.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { SMALL_ROWS = 1000 };

static const size_t row_bytes = MODEL_WIDTH * sizeof(float);

/* Delivers "scores" of this many rows, releases them, and returns their memory. */
static tdm_storage *deliver(tdm_session *session, tdm_context *context, int64_t rows,
                            size_t *out_bytes) {
  test_batch batch;
  test_batch_make(&batch, context, rows, 1);
  tdm_tensor *scores = run_once(session, &batch, "scores");
  tdm_storage *storage = scores->storage;
  *out_bytes = storage->memory.bytes;
  assert_true(*out_bytes >= (size_t)rows * row_bytes);
  tdm_tensor_release(scores);
  test_batch_release(&batch);
  return storage;
}

static void outputs_take_memory_of_their_size(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "cpu:0", NULL), NULL);
  size_t bytes = 0;
  const tdm_storage *large = deliver(session, context, 26 * SMALL_ROWS / 10, &bytes);
  const tdm_storage *small = deliver(session, context, SMALL_ROWS, &bytes);
  assert_ptr_not_equal(small, large);
  assert_true(bytes <= 2 * SMALL_ROWS * row_bytes + 4096);
  /* More than half of it is used. */
  assert_ptr_equal(deliver(session, context, 14 * SMALL_ROWS / 10, &bytes), large);
  assert_ptr_equal(deliver(session, context, 8 * SMALL_ROWS / 10, &bytes), small);
  assert_ptr_equal(deliver(session, context, 26 * SMALL_ROWS / 10, &bytes), large);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- Kept and unused values ------------------------------------------------------------------ */

/* Returns the number of allocations on devices per run. */
static uint64_t count_taken(tdm_session *session, tdm_context *context, int64_t rows) {
  tdm_faults *faults = tdm_context_faults(context);
  size_t bytes;
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, UINT64_MAX, false);
  (void)deliver(session, context, rows, &bytes);
  const uint64_t taken = atomic_load(&faults->calls[TDM_FAULT_ALLOCATION]);
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 0, false);
  return taken;
}

/* However many there once were of another size. */
static void a_run_that_repeats_takes_no_memory(void **unused) {
  (void)unused;
  enum { HELD = 40 };
  tdm_context *context = graph_context();
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "cpu:0", NULL), NULL);
  tdm_tensor *held[HELD];
  test_batch batch;
  test_batch_make(&batch, context, 1, 1);
  for (int i = 0; i < HELD; i++)
    held[i] = run_once(session, &batch, "scores");
  for (int i = 0; i < HELD; i++)
    tdm_tensor_release(held[i]);
  test_batch_release(&batch);
  (void)count_taken(session, context, SMALL_ROWS);
  /* The batch's two tensors. */
  assert_int_equal(count_taken(session, context, SMALL_ROWS), 2);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Runs once with rows. The run fails if a device has no more memory for activations or outputs.
 * Otherwise memory that the session keeps is released for them. */
static tdm_status run_short(tdm_session *session, tdm_context *context, int64_t rows) {
  tdm_faults *faults = tdm_context_faults(context);
  test_batch batch;
  test_batch_make(&batch, context, rows, 1);
  tdm_fetch scores = {.name = "scores"};
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 1, false);
  const tdm_status status = tdm_run(session, batch.feeds, 1, &scores, 1);
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 0, false);
  tdm_tensor_release(scores.tensor);
  test_batch_release(&batch);
  return status;
}

static void what_is_kept_makes_room(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = run_session(seed_graph(context, "cpu:0", "cpu:0", NULL), NULL);
  assert_status(run_short(session, context, SMALL_ROWS), TDM_OUT_OF_MEMORY);
  assert_int_equal(count_taken(session, context, SMALL_ROWS), 2 + 2);
  assert_int_equal(count_taken(session, context, SMALL_ROWS), 2);
  assert_ok(run_short(session, context, 10 * SMALL_ROWS));
  assert_int_equal(count_taken(session, context, SMALL_ROWS), 2 + 1); /* the output was given up */
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Another session in the same context also uses memory of the device. */
static void what_another_session_keeps_makes_room(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *one = run_session(seed_graph(context, "cpu:0", "cpu:0", NULL), NULL);
  tdm_session *other = run_session(seed_graph(context, "cpu:0", "cpu:0", NULL), NULL);
  assert_int_equal(count_taken(one, context, SMALL_ROWS), 2 + 2);
  assert_ok(run_short(other, context, SMALL_ROWS));
  assert_int_equal(count_taken(one, context, SMALL_ROWS), 2 + 2); /* all memory was released */
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 10));
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  assert_non_null(tensor);
  assert_int_equal(count_taken(one, context, SMALL_ROWS), 2 + 2);
  tdm_tensor_release(tensor);
  tdm_session_release(one);
  tdm_session_release(other);
  tdm_context_release(context);
}

/* A session that has trained with a part on sim:0, and keeps there what its activations took. */
static tdm_session *trained_on_sim(tdm_context *context) {
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), NULL);
  (void)train_steps(session, 24, 1);
  return session;
}

typedef struct holder {
  tdm_store *store;
  _Atomic bool holds;
} holder;

/* Behaves like a run that begins or ends. */
static void *hold_for_a_moment(void *user) {
  holder *self = user;
  (void)pthread_mutex_lock(&self->store->lock);
  atomic_store(&self->holds, true);
  usleep(500);
  (void)pthread_mutex_unlock(&self->store->lock);
  return NULL;
}

static void who_has_the_store_for_a_moment_is_waited_for(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *session = trained_on_sim(context);
  holder self = {.store = tdm_session_store(session)};
  pthread_t thread;
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  assert_int_equal(pthread_create(&thread, NULL, hold_for_a_moment, &self), 0);
  while (!atomic_load(&self.holds))
    continue;
  tdm_tensor *tensor = tdm_tensor_create(context, "sim:0", TDM_FLOAT32, tdm_shape_of(1, 10));
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_non_null(tensor);
  tdm_tensor_release(tensor);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Allocations under the store's lock: a parameter of a new session, and a copy for a device that
 * did not read the parameter before. */
static void sessions_make_room_for_their_store(void **unused) {
  (void)unused;
  tdm_context *context = graph_context();
  tdm_session *trained = trained_on_sim(context);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.store = tdm_session_store(trained));
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "sim:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
  tdm_output(graph, "y", tdm_linear(graph, "other", x, 4));
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  tdm_session *other = tdm_session_create(graph, &options);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  if (!other) fail_msg("no session: %s", tdm_last_message());
  tdm_graph_release(graph);
  (void)train_steps(trained, 24, 1); /* and keeps as much again */
  tdm_session *reader = run_session(seed_graph(context, "sim:0", "sim:0", NULL), &options);
  test_batch batch;
  test_batch_make(&batch, context, 24, 1);
  const tdm_fetch scores = {.name = "scores"};
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 1, false);
  const tdm_status status = tdm_session_prepare(reader, batch.feeds, 1, &scores, 1, false);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_ALLOCATION, 0, false);
  assert_ok(status);
  test_batch_release(&batch);
  tdm_session_release(reader);
  tdm_session_release(other);
  tdm_session_release(trained);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_take_memory_of_their_size),
      cmocka_unit_test(a_run_that_repeats_takes_no_memory),
      cmocka_unit_test(what_is_kept_makes_room),
      cmocka_unit_test(what_another_session_keeps_makes_room),
      cmocka_unit_test(who_has_the_store_for_a_moment_is_waited_for),
      cmocka_unit_test(sessions_make_room_for_their_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
