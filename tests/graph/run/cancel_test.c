/* Submitted runs that are stopped: cancelled at every moment, past their deadline, on a clogged
 * device, beyond the queue's limit, with the context closed early. Every callback comes exactly
 * once, and a run that was stopped has changed nothing. */
#include <stdlib.h>
#include <unistd.h>

#include "core/park.h"
#include "graph/run/session.h"
#include "tests/graph/clogged.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

/* The record of a callback for one run. */
typedef struct witness {
  _Atomic int calls;
  tdm_status status;
  uint64_t run_id;
  char message[64];
} witness;

static void note(void *user, tdm_run_result *result) {
  witness *mine = user;
  mine->status = result->status;
  mine->run_id = result->run_id;
  (void)snprintf(mine->message, sizeof mine->message, "%s", result->message);
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  atomic_fetch_add(&mine->calls, 1);
}

static void await_witness(const witness *mine) {
  for (int i = 0; i < 600000 && atomic_load(&mine->calls) == 0; i++)
    usleep(100);
  assert_int_equal(atomic_load(&mine->calls), 1);
}

static uint64_t submit(tdm_session *session, const test_batch *batch, bool training,
                       uint64_t deadline_ns, witness *mine) {
  memset(mine, 0, sizeof *mine);
  const tdm_submit_options options =
      OPTIONS(tdm_submit_options, o.training = training, o.callback = note, o.user = mine,
              o.deadline_ns = deadline_ns);
  const tdm_fetch scores = {.name = "scores"};
  uint64_t id = 0;
  assert_ok(tdm_submit_with(session, &options, batch->feeds, training ? 2 : 1, &scores, 1, &id));
  assert_true(id != 0);
  return id;
}

/* ---- At every moment ------------------------------------------------------------------------- */

static tdm_context *delayed_context(uint64_t seed) {
  char sim[96];
  (void)snprintf(sim, sizeof sim, "latency_us=1,gigabytes_per_second=1,delay_seed=%d", (int)seed);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1, o.sim = sim);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

typedef struct moments {
  int stopped;
  int completed;
} moments;

enum { IN_FLIGHT = 3 };

/* The state after blocking steps on the batches whose runs were not stopped. */
static tdm_tensor_list *wanted_state(tdm_context *context, const char *second,
                                     const test_batch *batches, const bool *stopped) {
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", second, &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.01), NULL);
  for (int i = 0; i < IN_FLIGHT; i++)
    if (!stopped[i]) (void)train_once(session, &batches[i]);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

/* Waits for the victim's end, for the one's before it, or for neither; then a little. */
static void await_moment(uint64_t seed, const witness *witnesses, int victim) {
  if (seed % 8 == 0) await_witness(&witnesses[victim]);
  if (seed % 8 < 4 && victim > 0) await_witness(&witnesses[victim - 1]);
  const uint64_t longest_ns = (uint64_t)20000 << seed % 8; /* up to 2.6 ms */
  const uint64_t until_ns = tdm_time_ns() + seed * 7919 % 100 * longest_ns / 100;
  while (tdm_time_ns() < until_ns)
    tdm_spin_pause();
}

static void cancel_one(uint64_t seed, const char *second, bool training, moments *seen) {
  tdm_context *context = delayed_context(seed);
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", second, &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.01), NULL);
  test_batch batches[IN_FLIGHT];
  witness witnesses[IN_FLIGHT];
  uint64_t ids[IN_FLIGHT];
  bool stopped[IN_FLIGHT] = {false};
  const int victim = (int)(seed % IN_FLIGHT);
  for (int i = 0; i < IN_FLIGHT; i++)
    test_batch_make(&batches[i], context, ROWS, seed + (uint64_t)i);
  for (int i = 0; i < IN_FLIGHT; i++)
    ids[i] = submit(session, &batches[i], training, TDM_NO_DEADLINE, &witnesses[i]);
  await_moment(seed, witnesses, victim);
  stopped[victim] = tdm_run_cancel(session, ids[victim]);
  for (int i = 0; i < IN_FLIGHT; i++) {
    await_witness(&witnesses[i]);
    assert_status(witnesses[i].status, stopped[i] ? TDM_CANCELLED : TDM_OK);
    assert_true(witnesses[i].run_id == ids[i]);
  }
  assert_false(tdm_run_cancel(session, ids[victim])); /* it has ended */
  *(stopped[victim] ? &seen->stopped : &seen->completed) += 1;
  if (training) {
    tdm_tensor_list *wanted = wanted_state(context, second, batches, stopped);
    tdm_tensor_list *state = state_of(session);
    /* A store that no step has reached has no states yet, and no step may be left. */
    if (tdm_tensor_list_count(wanted) == tdm_tensor_list_count(state))
      assert_same_state(state, wanted);
    assert_int_equal(tdm_store_version(tdm_session_store(session)), IN_FLIGHT - stopped[victim]);
    tdm_tensor_list_release(wanted);
    tdm_tensor_list_release(state);
  }
  for (int i = 0; i < IN_FLIGHT; i++)
    test_batch_release(&batches[i]);
  tdm_session_release(session);
  tdm_context_release(context);
}

static void a_run_may_be_cancelled_at_every_moment(void **unused) {
  (void)unused;
  moments two_phases = {0};
  moments one_queue = {0};
  moments inference = {0};
  for (uint64_t seed = 1; seed <= 60; seed++) {
    cancel_one(seed, "sim:0", true, &two_phases);
    cancel_one(seed, "cpu:0", true, &one_queue);
    cancel_one(seed, "sim:0", false, &inference);
  }
  assert_true(two_phases.stopped > 0 && two_phases.completed > 0);
  assert_true(inference.stopped > 0 && inference.completed > 0);
  assert_true(one_queue.stopped > 0 && one_queue.completed > 0);
}

/* ---- Deadlines, a clogged device ------------------------------------------------------------- */

/* Its runs are traced, and of those that were stopped nothing may be left. */
typedef struct clogged_fixture {
  clog clog;
  tdm_faulty_allocator *counting;
  _Atomic int writable_calls;
  tdm_context *context;
  tdm_session *session;
  test_batch batch;
} clogged_fixture;

static void on_writable(void *user) {
  atomic_fetch_add(&((clogged_fixture *)user)->writable_calls, 1);
}

static clogged_fixture *begin_clogged(int queue_limit) {
  clogged_fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  fixture->counting = tdm_faulty_allocator_create();
  assert_non_null(fixture->counting);
  const tdm_allocator allocator = tdm_faulty_allocator_view(fixture->counting);
  fixture->context = context_on_loop(NULL, &allocator);
  clog_register(fixture->context);
  tdm_value loss;
  tdm_graph *graph = clogged_graph(fixture->context, "cpu:0", "sim:0", &fixture->clog, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.queue_limit = queue_limit, o.writable = on_writable,
              o.writable_user = fixture, o.trace_runs = 1);
  fixture->session = train_session(graph, loss, tdm_adam(0.01), &options);
  test_batch_make(&fixture->batch, fixture->context, ROWS, 1);
  (void)train_once(fixture->session, &fixture->batch);
  atomic_store(&fixture->clog.entered, 0);
  atomic_store(&fixture->clog.shut, true);
  return fixture;
}

static void release_clogged(clogged_fixture *fixture) {
  test_batch_release(&fixture->batch);
  tdm_session_release(fixture->session);
  tdm_context_release(fixture->context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(fixture->counting), 0);
  tdm_faulty_allocator_destroy(fixture->counting);
  free(fixture);
}

static void end_clogged(clogged_fixture *fixture) {
  tdm_context *context = tdm_context_retain(fixture->context);
  test_batch_release(&fixture->batch);
  fixture->batch = (test_batch){0};
  tdm_session_release(fixture->session);
  fixture->session = NULL;
  tdm_context_close(context, NULL, NULL);
  tdm_context_release(context);
  release_clogged(fixture);
}

static void who_waits_behind_a_clogged_device_leaves_at_once(void **unused) {
  (void)unused;
  clogged_fixture *fixture = begin_clogged(TDM_NO_QUEUE_LIMIT);
  tdm_session *session = fixture->session;
  witness inside, waiting, late, patient;
  const uint64_t inside_id = submit(session, &fixture->batch, true, TDM_NO_DEADLINE, &inside);
  clog_await(&fixture->clog, 1);
  const uint64_t waiting_id = submit(session, &fixture->batch, true, TDM_NO_DEADLINE, &waiting);
  (void)submit(session, &fixture->batch, true, 30000000, &late);
  (void)submit(session, &fixture->batch, true, 3600000000000, &patient);
  assert_true(tdm_run_cancel(session, waiting_id));
  assert_false(tdm_run_cancel(session, waiting_id));
  await_witness(&waiting);
  assert_status(waiting.status, TDM_CANCELLED);
  await_witness(&late);
  assert_status(late.status, TDM_DEADLINE_EXCEEDED);
  assert_non_null(strstr(late.message, "deadline"));
  assert_true(tdm_run_cancel(session, inside_id));
  assert_int_equal(atomic_load(&inside.calls), 0); /* it is in the kernel still */
  assert_int_equal(atomic_load(&patient.calls), 0);
  atomic_store(&fixture->clog.shut, false);
  await_witness(&inside);
  assert_status(inside.status, TDM_CANCELLED);
  await_witness(&patient);
  assert_status(patient.status, TDM_OK);
  assert_int_equal(tdm_store_version(tdm_session_store(session)), 2); /* the first, and patient's */
  end_clogged(fixture);
}

static void deadlines_before_a_run(void **unused) {
  (void)unused;
  clogged_fixture *fixture = begin_clogged(TDM_NO_QUEUE_LIMIT);
  witness before;
  (void)submit(fixture->session, &fixture->batch, true, 1, &before);
  await_witness(&before);
  assert_status(before.status, TDM_DEADLINE_EXCEEDED);
  assert_int_equal(atomic_load(&fixture->clog.entered), 0);
  end_clogged(fixture);
}

/* A run that is late before it begins binds no memory, which others could use. */
static void a_late_run_takes_no_memory(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  tdm_session *session = train_session_on(context);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  batch.feeds[0].handed_over = batch.feeds[1].handed_over = true;
  const tdm_fetch scores = {.name = "scores"};
  assert_ok(tdm_session_prepare(session, batch.feeds, 2, &scores, 1, true));
  tdm_faults *faults = tdm_context_faults(context);
  for (int late = 1; late >= 0; late--) {
    witness run;
    tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, UINT64_MAX, false); /* counts */
    (void)submit(session, &batch, true, late ? 1 : TDM_NO_DEADLINE, &run);
    await_witness(&run);
    assert_status(run.status, late ? TDM_DEADLINE_EXCEEDED : TDM_OK);
    assert_int_equal(atomic_load(&faults->calls[TDM_FAULT_ALLOCATION]) == 0, late);
  }
  tdm_faults_arm(faults, TDM_FAULT_ALLOCATION, 0, false);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Behaves like a planning thread. */
static void *keep_session(void *user) {
  tdm_session *session = ((void **)user)[0];
  (void)pthread_mutex_lock(&session->lock);
  atomic_store((_Atomic bool *)((void **)user)[1], true);
  usleep(60000);
  (void)pthread_mutex_unlock(&session->lock);
  return NULL;
}

/* From the call: a run that could not even be planned until then does not begin. */
static void deadlines_before_a_plan(void **unused) {
  (void)unused;
  tdm_context *context = context_on_loop(NULL, NULL);
  tdm_session *session = train_session_on(context);
  test_batch batch;
  test_batch_make(&batch, context, ROWS, 1);
  (void)train_once(session, &batch);
  _Atomic bool kept = false;
  void *arguments[2] = {session, (void *)&kept};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, keep_session, arguments), 0);
  while (!atomic_load(&kept))
    continue;
  witness late;
  (void)submit(session, &batch, true, 20000000, &late);
  await_witness(&late);
  assert_status(late.status, TDM_DEADLINE_EXCEEDED);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(tdm_store_version(tdm_session_store(session)), 1);
  test_batch_release(&batch);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* A run whose deadline passes while it is in the clog, or, on a machine that had no time for it,
 * before: true: it was inside. */
static bool pass_deadline_inside(clogged_fixture *fixture, uint64_t deadline_ns) {
  witness during, behind;
  atomic_store(&fixture->clog.entered, 0);
  atomic_store(&fixture->clog.shut, true);
  (void)submit(fixture->session, &fixture->batch, false, deadline_ns, &during);
  (void)submit(fixture->session, &fixture->batch, false, deadline_ns, &behind);
  await_witness(&behind); /* its deadline is later, and deadlines are checked in order */
  assert_status(behind.status, TDM_DEADLINE_EXCEEDED);
  const bool inside = atomic_load(&fixture->clog.entered) > 0;
  if (inside) assert_int_equal(atomic_load(&during.calls), 0);
  atomic_store(&fixture->clog.shut, false);
  await_witness(&during);
  assert_status(during.status, TDM_DEADLINE_EXCEEDED);
  return inside;
}

static void deadlines_during_a_run(void **unused) {
  (void)unused;
  clogged_fixture *fixture = begin_clogged(TDM_NO_QUEUE_LIMIT);
  uint64_t deadline_ns = 20000000;
  while (!pass_deadline_inside(fixture, deadline_ns))
    deadline_ns *= 2;
  assert_int_equal(tdm_store_version(tdm_session_store(fixture->session)), 1);
  end_clogged(fixture);
}

/* One run in flight, and as many after it as the limit permits, none for 0. */
static void fill_queue(int limit) {
  clogged_fixture *fixture = begin_clogged(limit);
  tdm_session *session = fixture->session;
  witness runs[3];
  witness refused = {0};
  for (int i = 0; i <= limit; i++)
    (void)submit(session, &fixture->batch, true, TDM_NO_DEADLINE, &runs[i]);
  const tdm_submit_options options =
      OPTIONS(tdm_submit_options, o.callback = note, o.user = &refused);
  const tdm_fetch scores = {.name = "scores"};
  for (int i = 0; i < 5; i++) {
    uint64_t id = 1;
    assert_status(tdm_submit_with(session, &options, fixture->batch.feeds, 1, &scores, 1, &id),
                  TDM_RESOURCE_EXHAUSTED);
    assert_true(id == 0);
  }
  assert_int_equal(atomic_load(&fixture->writable_calls), 0);
  atomic_store(&fixture->clog.shut, false);
  for (int i = 0; i <= limit; i++)
    await_witness(&runs[i]);
  witness again;
  (void)submit(session, &fixture->batch, true, TDM_NO_DEADLINE, &again);
  await_witness(&again);
  assert_status(again.status, TDM_OK);
  assert_int_equal(atomic_load(&fixture->writable_calls), 1);
  assert_int_equal(atomic_load(&refused.calls), 0);
  end_clogged(fixture);
}

static void a_full_queue_refuses_and_tells_of_room(void **unused) {
  (void)unused;
  fill_queue(2);
  fill_queue(0);
}

static void ids_of_nobody_are_harmless(void **unused) {
  (void)unused;
  clogged_fixture *fixture = begin_clogged(TDM_NO_QUEUE_LIMIT);
  atomic_store(&fixture->clog.shut, false);
  assert_false(tdm_run_cancel(NULL, 1));
  assert_false(tdm_run_cancel(fixture->session, 0));
  assert_false(tdm_run_cancel(fixture->session, 1));
  assert_false(tdm_run_cancel(fixture->session, UINT64_MAX));
  uint64_t before = 0;
  for (int i = 0; i < 20; i++) {
    witness mine;
    const uint64_t id = submit(fixture->session, &fixture->batch, false, TDM_NO_DEADLINE, &mine);
    assert_true(id != before);
    if (before != 0) assert_false(tdm_run_cancel(fixture->session, before));
    await_witness(&mine);
    assert_status(mine.status, TDM_OK);
    before = id;
  }
  end_clogged(fixture);
}

/* The host's input is released, and an early close completes or cancels the runs in flight. */
static void the_context_may_be_closed_on_a_clogged_device(void **unused) {
  (void)unused;
  clogged_fixture *fixture = begin_clogged(TDM_NO_QUEUE_LIMIT);
  witness runs[4];
  uint64_t ids[4];
  for (int i = 0; i < 4; i++) {
    test_batch batch;
    test_batch_make(&batch, fixture->context, ROWS, 1);
    ids[i] = submit(fixture->session, &batch, true, i == 3 ? 1000000 : TDM_NO_DEADLINE, &runs[i]);
    memset(tdm_tensor_data(batch.ids), 0xff, tdm_tensor_bytes(batch.ids));
    test_batch_release(&batch);
  }
  clog_await(&fixture->clog, 1);
  assert_true(tdm_run_cancel(fixture->session, ids[1]));
  await_witness(&runs[3]);
  atomic_store(&fixture->clog.shut, false);
  tdm_context_close(fixture->context, NULL, NULL);
  for (int i = 0; i < 4; i++)
    assert_int_equal(atomic_load(&runs[i].calls), 1);
  assert_status(runs[1].status, TDM_CANCELLED);
  assert_status(runs[3].status, TDM_DEADLINE_EXCEEDED);
  for (int i = 0; i < 3; i++)
    if (runs[i].status != TDM_OK) assert_status(runs[i].status, TDM_CANCELLED);
  assert_false(tdm_run_cancel(fixture->session, ids[0]));
  release_clogged(fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_may_be_cancelled_at_every_moment),
      cmocka_unit_test(who_waits_behind_a_clogged_device_leaves_at_once),
      cmocka_unit_test(deadlines_before_a_run),
      cmocka_unit_test(deadlines_before_a_plan),
      cmocka_unit_test(a_late_run_takes_no_memory),
      cmocka_unit_test(deadlines_during_a_run),
      cmocka_unit_test(a_full_queue_refuses_and_tells_of_room),
      cmocka_unit_test(ids_of_nobody_are_harmless),
      cmocka_unit_test(the_context_may_be_closed_on_a_clogged_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
