/* Models that train in flight as one step at a time: with states of an optimizer, a tied parameter,
 * batches of two sizes, steps that fail, and inference between them. For accelerators of TEST_KIND.
 */
#include <stdlib.h>
#include <time.h>

#include "graph/run/session.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/support.h"
#include "tests/options.h"

#define ACCELERATOR TEST_KIND ":0"

/* Delays are drawn against the queues of sim; emulated GPUs draw their own. */
static tdm_context *models_context(uint64_t seed) {
  if (strcmp(TEST_KIND, "sim") != 0) return graph_context();
  char sim[96];
  (void)snprintf(sim, sizeof sim, "latency_us=5,gigabytes_per_second=1,delay_seed=%d", (int)seed);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 2, o.sim = sim);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static void await(_Atomic int *landed, int wanted) {
  const struct timespec pause = {.tv_nsec = 100000};
  for (int i = 0; i < 600000 && atomic_load(landed) < wanted; i++)
    (void)nanosleep(&pause, NULL);
  assert_int_equal(atomic_load(landed), wanted);
}

enum { STEPS = 24 };

static tdm_session *tied_session(tdm_context *context, const char *second, int depth) {
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", second, &loss);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = depth, o.seed = 5);
  tdm_optimizer optimizer = tdm_adam(0.01);
  optimizer.clip_norm = 0.5;
  return train_session(graph, loss, optimizer, &options);
}

/* Creates batches of two sizes, so that runs of two plans are consecutive. Every fifth step has an
 * id outside of the table, and fails. */
static void make_batch(test_batch *batch, tdm_context *context, int step, bool fails) {
  test_batch_make(batch, context, step % 8 < 5 ? 8 : 6, (uint64_t)step);
  if (fails && step % 5 == 2) ((int64_t *)tdm_tensor_data(batch->ids))[3] = MODEL_ROWS;
}

typedef struct step_witness {
  _Atomic int *landed;
  tdm_status status;
  double loss;
} step_witness;

static void on_step(void *user, tdm_run_result *result) {
  step_witness *mine = user;
  mine->status = result->status;
  mine->loss = result->loss;
  for (size_t i = 0; i < result->fetch_count; i++)
    tdm_tensor_release(result->fetches[i].tensor);
  atomic_fetch_add(mine->landed, 1);
}

/* Steps in flight on one session, blocking ones on another; inference between them now and then. */
static void compare_models(uint64_t delay_seed, int depth, bool fails, bool infers) {
  tdm_context *context = models_context(delay_seed);
  tdm_session *flying = tied_session(context, ACCELERATOR, depth);
  tdm_session *blocking = tied_session(context, ACCELERATOR, 1);
  step_witness witnesses[STEPS];
  _Atomic int landed = 0;
  for (int i = 0; i < STEPS; i++) {
    test_batch batch;
    make_batch(&batch, context, i, fails);
    witnesses[i] = (step_witness){.landed = &landed};
    assert_ok(tdm_session_set_learning_rate(flying, 0.01 / (i + 1)));
    assert_ok(tdm_submit(flying, true, batch.feeds, 2, NULL, 0, on_step, &witnesses[i]));
    memset(tdm_tensor_data(batch.ids), 0xff, tdm_tensor_bytes(batch.ids)); /* ours again */
    test_batch_release(&batch);
    if (!infers || i % 7 != 3) continue;
    test_batch_make(&batch, context, 8, 99);
    tdm_tensor_release(run_once(flying, &batch, "scores"));
    test_batch_release(&batch);
  }
  await(&landed, STEPS);
  for (int i = 0; i < STEPS; i++) {
    test_batch batch;
    make_batch(&batch, context, i, fails);
    double loss = 0;
    assert_ok(tdm_session_set_learning_rate(blocking, 0.01 / (i + 1)));
    const tdm_status status = tdm_train_step(blocking, batch.feeds, 2, NULL, 0, &loss);
    assert_status(witnesses[i].status, status);
    if (status == TDM_OK) assert_true(witnesses[i].loss == loss);
    test_batch_release(&batch);
  }
  tdm_tensor_list *mine = state_of(flying);
  tdm_tensor_list *theirs = state_of(blocking);
  assert_same_state(mine, theirs);
  tdm_tensor_list_release(mine);
  tdm_tensor_list_release(theirs);
  tdm_session_release(flying);
  tdm_session_release(blocking);
  tdm_context_release(context);
}

static void models_train_in_flight_as_one_step_at_a_time(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= (test_is_sanitized() ? 2 : 4); seed++) {
    compare_models(seed, 2 + (int)(seed % 3), false, false);
    compare_models(seed, 2 + (int)(seed % 3), true, false);
    compare_models(seed, 2 + (int)(seed % 3), true, true);
  }
}

/* ---- The step's number, and failures of an update phase ----------------------------------------
 */

static tdm_status execute_number(const tdm_kernel_call *call) {
  *(double *)call->outputs[0] = (double)call->scalars->step;
  return TDM_OK;
}

static const tdm_kernel number_kernel = {.struct_size = sizeof(tdm_kernel),
                                         .operation = "test_number",
                                         .executes = "cpu",
                                         .dtype = TDM_FLOAT64,
                                         .execute = execute_number};

static tdm_status infer_number(tdm_infer *infer) {
  infer->outputs[0].dtype = TDM_FLOAT64;
  infer->outputs[0].shape = tdm_shape_scalar();
  return TDM_OK;
}

static const tdm_operation number_operation = {.struct_size = sizeof(tdm_operation),
                                               .name = "test_number",
                                               .min_inputs = 1,
                                               .max_inputs = 1,
                                               .output_count = 1,
                                               .infer = infer_number};

typedef struct numbered_step {
  step_witness base;
  double number;
} numbered_step;

static void on_numbered(void *user, tdm_run_result *result) {
  numbered_step *mine = user;
  if (result->status == TDM_OK)
    mine->number = *(double *)tdm_tensor_data(result->fetches[0].tensor);
  on_step(&mine->base, result);
}

/* Steps that fail do not count; a step in flight after others has the correct number. */
static void a_step_in_flight_knows_its_number(void **unused) {
  (void)unused;
  tdm_context *context = models_context(9);
  assert_ok(tdm_kernel_register(context, &number_kernel));
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", ACCELERATOR, &loss);
  tdm_place(graph, "cpu:0");
  tdm_output(graph, "number", tdm_append(graph, &number_operation, "number", NULL, &loss, 1, NULL));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.depth = 3);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
  numbered_step steps[STEPS];
  _Atomic int landed = 0;
  for (int i = 0; i < STEPS; i++) {
    test_batch batch;
    make_batch(&batch, context, i, true);
    steps[i] = (numbered_step){.base.landed = &landed};
    const tdm_fetch number = {.name = "number"};
    assert_ok(tdm_submit(session, true, batch.feeds, 2, &number, 1, on_numbered, &steps[i]));
    test_batch_release(&batch);
  }
  await(&landed, STEPS);
  double next = 0;
  for (int i = 0; i < STEPS; i++)
    if (steps[i].base.status == TDM_OK) assert_true(steps[i].number == next++);
  assert_true(next > 10 && next < STEPS);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* The Nth kernel fails. A failure in a main phase affects only that step. A failure in an update
 * phase breaks the store for every later step. Returns true if the store was broken. */
static bool strike_kernel(tdm_context *context, uint64_t n) {
  tdm_session *session = tied_session(context, ACCELERATOR, 3);
  test_batch batch;
  test_batch_make(&batch, context, 8, 1);
  step_witness steps[4];
  _Atomic int landed = 0;
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_KERNEL, n, false);
  for (int i = 0; i < 4; i++) {
    steps[i] = (step_witness){.landed = &landed};
    assert_ok(tdm_submit(session, true, batch.feeds, 2, NULL, 0, on_step, &steps[i]));
  }
  await(&landed, 4);
  tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_KERNEL, 0, false);
  tdm_store *store = tdm_session_store(session);
  const bool broken = tdm_store_status(store) != TDM_OK;
  int succeeded = 0;
  bool failed_before = false;
  for (int i = 0; i < 4; i++) {
    if (broken && failed_before) assert_true(steps[i].status != TDM_OK);
    failed_before |= steps[i].status != TDM_OK;
    succeeded += steps[i].status == TDM_OK;
  }
  assert_int_equal(tdm_store_version(store), succeeded);
  assert_true(broken ? succeeded < 4 : succeeded >= 3);
  if (!broken) { /* equal to a run of only those steps */
    tdm_session *blocking = tied_session(context, ACCELERATOR, 1);
    for (int i = 0; i < succeeded; i++)
      (void)train_once(blocking, &batch);
    tdm_tensor_list *mine = state_of(session);
    tdm_tensor_list *theirs = state_of(blocking);
    assert_same_state(mine, theirs);
    tdm_tensor_list_release(mine);
    tdm_tensor_list_release(theirs);
    tdm_session_release(blocking);
  }
  test_batch_release(&batch);
  tdm_session_release(session);
  return broken;
}

static void the_nth_kernel_may_fail_in_flight(void **unused) {
  (void)unused;
  int broken = 0;
  tdm_context *context = models_context(4);
  for (uint64_t n = 1; n < 120; n += test_is_sanitized() ? 6 : 2)
    broken += strike_kernel(context, n);
  assert_true(broken > (test_is_sanitized() ? 0 : 2));
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models_train_in_flight_as_one_step_at_a_time),
      cmocka_unit_test(a_step_in_flight_knows_its_number),
      cmocka_unit_test(the_nth_kernel_may_fail_in_flight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
