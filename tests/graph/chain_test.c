/* Training runs in flight together give exactly what they give one after the other: on random
 * graphs with delays drawn against them, with runs cancelled at any moment, with runs that fail
 * before their update phase, and with inference between them. */
#include <stdlib.h>
#include <time.h>

#include "graph/session.h"
#include "tests/graph/counter_model.h"

enum { IN_FLIGHT = 5, SEEDS_A_CONTEXT = 25 };

typedef struct flying_run {
  counter_run run;
  _Atomic int *landed;
  tdm_status status;
  uint64_t id;
  bool stopped;
} flying_run;

static void on_landed(void *user, tdm_run_result *result) {
  flying_run *flying = user;
  flying->status = result->status;
  flying->run.loss = result->loss;
  for (size_t i = 0; i < result->fetch_count; i++)
    flying->run.fetches[i].tensor = result->fetches[i].tensor;
  atomic_fetch_add(flying->landed, 1);
}

static void pause_us(long us) {
  const struct timespec pause = {.tv_nsec = us * 1000};
  (void)nanosleep(&pause, NULL);
}

static void await(_Atomic int *landed, int wanted) {
  for (int i = 0; i < 600000 && atomic_load(landed) < wanted; i++)
    pause_us(100);
  assert_int_equal(atomic_load(landed), wanted);
}

/* ---- Random graphs --------------------------------------------------------------------------- */

typedef struct sums {
  int stopped;
  int chained;
  int early; /* plans that upload ahead */
} sums;

static void submit_all(flying_run *flights, tdm_context *context, tdm_session *session,
                       const counter_model *model, uint64_t seed, _Atomic int *landed) {
  for (uint64_t i = 0; i < IN_FLIGHT; i++) {
    const tdm_submit_options options = {.struct_size = sizeof options,
                                        .training = true,
                                        .callback = on_landed,
                                        .user = &flights[i]};
    flights[i].landed = landed;
    counter_run_begin(&flights[i].run, context, model, seed * 10 + i);
    assert_ok(tdm_submit_with(session, &options, flights[i].run.feeds, COUNTER_INPUTS,
                              flights[i].run.fetches, COUNTER_OUTPUTS, &flights[i].id));
  }
}

/* What the runs that were not stopped answered is what the oracle makes of them alone. */
static void compare_all(flying_run *flights, const counter_model *model, uint64_t seed,
                        counter_state *state, sums *seen) {
  for (uint64_t i = 0; i < IN_FLIGHT; i++) {
    seen->stopped += flights[i].stopped;
    assert_status(flights[i].status, flights[i].stopped ? TDM_CANCELLED : TDM_OK);
    if (!flights[i].stopped) {
      counter_oracle_train(model, seed * 10 + i, state);
      if (!counter_run_agrees(&flights[i].run, model, state, true))
        fail_msg("seed %llu, run %llu: other values", (unsigned long long)seed,
                 (unsigned long long)i);
    }
    counter_run_end(&flights[i].run);
  }
}

static void fly_and_compare(tdm_context *context, uint64_t seed, bool cancels, sums *seen) {
  counter_model *model = calloc(1, sizeof *model);
  counter_state *state = calloc(1, sizeof *state);
  flying_run *flights = calloc(IN_FLIGHT, sizeof *flights);
  assert_true(model && state && flights);
  counter_model_draw(model, seed, 4 + (int)(seed % 14), 1 + (int)(seed % 4));
  tdm_session *session = counter_session(model, context, 2 + (int)(seed % 3), true);
  counter_oracle_begin(model, state);
  _Atomic int landed = 0;
  submit_all(flights, context, session, model, seed, &landed);
  if (cancels) {
    flying_run *victim = &flights[seed % IN_FLIGHT];
    pause_us((long)(seed * 7919 % 2000));
    victim->stopped = tdm_run_cancel(session, victim->id);
  }
  await(&landed, IN_FLIGHT);
  seen->chained += session->last_asked->chained;
  seen->early += session->last_asked->early_program_count > 0;
  compare_all(flights, model, seed, state, seen);
  if (!counter_store_agrees(session, model, state))
    fail_msg("seed %llu: other parameters", (unsigned long long)seed);
  tdm_session_release(session);
  free(flights);
  free(model);
  free(state);
}

static sums fly_all(int count, bool cancels) {
  if (counter_is_slow()) count /= 4;
  sums seen = {0};
  for (int first = 0; first < count; first += SEEDS_A_CONTEXT) {
    tdm_context *context = counter_context((uint64_t)first + 3);
    for (int i = 0; i < SEEDS_A_CONTEXT; i++)
      fly_and_compare(context, (uint64_t)(first + i), cancels, &seen);
    tdm_context_close(context, NULL, NULL);
    tdm_context_release(context);
  }
  assert_true(seen.chained > count / 2);
  assert_true(seen.early > count / 8);
  return seen;
}

static void training_in_flight_equals_the_oracle(void **unused) {
  (void)unused;
  assert_int_equal(fly_all(250, false).stopped, 0);
}

static void cancelled_steps_are_as_if_they_had_never_been(void **unused) {
  (void)unused;
  const sums seen = fly_all(150, true);
  assert_true(seen.stopped > 5);
}

/* ---- A model with states, a tied parameter, failures ------------------------------------------
 */

enum { STEPS = 24 };

static tdm_session *tied_session(tdm_context *context, const char *second, int depth) {
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", second, &loss);
  const tdm_session_options options = {.depth = depth, .seed = 5};
  tdm_optimizer optimizer = tdm_adam(0.01);
  optimizer.clip_norm = 0.5;
  return train_session(graph, loss, optimizer, &options);
}

/* Batches of two sizes: runs of two plans follow one another. Every fifth step has an id outside of
 * the table, and fails. */
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
  tdm_context *context = counter_context(delay_seed);
  tdm_session *flying = tied_session(context, "sim:0", depth);
  tdm_session *blocking = tied_session(context, "sim:0", 1);
  step_witness witnesses[STEPS];
  _Atomic int landed = 0;
  for (int i = 0; i < STEPS; i++) {
    test_batch batch;
    make_batch(&batch, context, i, fails);
    witnesses[i] = (step_witness){.landed = &landed};
    tdm_session_set_learning_rate(flying, 0.01 / (i + 1));
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
    tdm_session_set_learning_rate(blocking, 0.01 / (i + 1));
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
  for (uint64_t seed = 1; seed <= (counter_is_slow() ? 3 : 12); seed++) {
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

/* Steps that fail do not count; one in flight behind others knows its number all the same. */
static void a_step_in_flight_knows_its_number(void **unused) {
  (void)unused;
  tdm_context *context = counter_context(9);
  assert_ok(tdm_kernel_register(context, &number_kernel));
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  tdm_output(graph, "number", tdm_append(graph, &number_operation, "number", NULL, &loss, 1, NULL));
  const tdm_session_options options = {.depth = 3};
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

/* The Nth kernel fails, wherever that is. One in a main phase spoils that step alone; one in an
 * update phase breaks the store for every step behind it. True: the store was broken. */
static bool strike_kernel(tdm_context *context, uint64_t n) {
  tdm_session *session = tied_session(context, "sim:0", 3);
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
  if (!broken) { /* as if there had only been those */
    tdm_session *blocking = tied_session(context, "sim:0", 1);
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
  tdm_context *context = counter_context(4);
  const uint64_t stride = counter_is_slow() ? 3 : 1;
  for (uint64_t n = 1; n < 120; n += stride)
    broken += strike_kernel(context, n);
  assert_true(broken > 2);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_in_flight_equals_the_oracle),
      cmocka_unit_test(cancelled_steps_are_as_if_they_had_never_been),
      cmocka_unit_test(models_train_in_flight_as_one_step_at_a_time),
      cmocka_unit_test(a_step_in_flight_knows_its_number),
      cmocka_unit_test(the_nth_kernel_may_fail_in_flight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
