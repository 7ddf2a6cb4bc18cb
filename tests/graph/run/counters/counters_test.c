/* Random graphs of counters over several cpu and sim devices, with delays drawn against them, give
 * exactly what one thread gives. */
#include <stdlib.h>
#include <time.h>

#include "tests/devices/sanitized.h"
#include "tests/graph/run/counters/counter_model.h"
#include "tests/graph/seed_range.h"

enum { SEEDS_A_CONTEXT = 50 };

static seed_range seeds_of(int usual) {
  return seed_range_of(0, test_is_sanitized() ? usual / 8 : usual);
}

/* ---- Training -------------------------------------------------------------------------------- */

static void train_and_compare(tdm_context *context, uint64_t seed) {
  counter_model *model = calloc(1, sizeof *model);
  counter_state *state = calloc(1, sizeof *state);
  assert_true(model && state);
  counter_model_draw(model, seed, 4 + (int)(seed % 14), 2 + (int)(seed % 3));
  tdm_session *session = counter_session(model, context, 1, true);
  counter_oracle_begin(model, state);
  for (uint64_t step = 0; step < 2; step++) {
    counter_run run;
    counter_run_begin(&run, context, model, seed * 10 + step);
    assert_ok(tdm_train_step(session, run.feeds, COUNTER_INPUTS, run.fetches, COUNTER_OUTPUTS,
                             &run.loss));
    counter_oracle_train(model, seed * 10 + step, state);
    if (!counter_run_agrees(&run, model, state, true))
      fail_msg("seed %llu, step %llu: other values", (unsigned long long)seed,
               (unsigned long long)step);
    counter_run_end(&run);
  }
  if (!counter_store_agrees(session, model, state))
    fail_msg("seed %llu: other parameters", (unsigned long long)seed);
  tdm_session_release(session);
  free(model);
  free(state);
}

static void training_equals_the_oracle(void **unused) {
  (void)unused;
  const seed_range seeds = seeds_of(600);
  for (int i = 0; i < seeds.count; i += SEEDS_A_CONTEXT) {
    tdm_context *context = counter_context(seeds.first + (uint64_t)i + 1);
    for (int k = i; k < i + SEEDS_A_CONTEXT && k < seeds.count; k++)
      train_and_compare(context, seeds.first + (uint64_t)k);
    tdm_context_release(context);
  }
}

/* ---- Inference, several runs in flight ------------------------------------------------------- */

enum { IN_FLIGHT = 4 };

typedef struct flying_run {
  counter_run run;
  const counter_model *model;
  _Atomic int *landed;
  tdm_status status;
} flying_run;

static void on_landed(void *user, tdm_run_result *result) {
  flying_run *flying = user;
  flying->status = result->status;
  for (size_t i = 0; i < result->fetch_count; i++)
    flying->run.fetches[i].tensor = result->fetches[i].tensor;
  atomic_fetch_add(flying->landed, 1);
}

/* However busy the machine is: what never lands is ended by the test's own limit. */
static void await(const _Atomic int *landed, int wanted) {
  while (atomic_load(landed) < wanted) {
    const struct timespec pause = {.tv_nsec = 100000};
    (void)nanosleep(&pause, NULL);
  }
}

static void fly_and_compare(tdm_context *context, uint64_t seed) {
  counter_model *model = calloc(1, sizeof *model);
  counter_state *state = calloc(1, sizeof *state);
  flying_run *flights = calloc(IN_FLIGHT, sizeof *flights);
  assert_true(model && state && flights);
  counter_model_draw(model, seed, 4 + (int)(seed % 20), 2 + (int)(seed % 3));
  tdm_session *session = counter_session(model, context, 1 + (int)(seed % 3), false);
  counter_oracle_begin(model, state);
  _Atomic int landed = 0;
  for (uint64_t i = 0; i < IN_FLIGHT; i++) {
    flights[i].model = model;
    flights[i].landed = &landed;
    counter_run_begin(&flights[i].run, context, model, seed * 10 + i);
    assert_ok(tdm_submit(session, false, flights[i].run.feeds, COUNTER_INPUTS,
                         flights[i].run.fetches, COUNTER_OUTPUTS, on_landed, &flights[i]));
  }
  await(&landed, IN_FLIGHT);
  for (uint64_t i = 0; i < IN_FLIGHT; i++) {
    assert_int_equal(flights[i].status, TDM_OK);
    counter_oracle_run(model, seed * 10 + i, state);
    if (!counter_run_agrees(&flights[i].run, model, state, false))
      fail_msg("seed %llu, run %llu: other values", (unsigned long long)seed,
               (unsigned long long)i);
    counter_run_end(&flights[i].run);
  }
  tdm_session_release(session);
  free(flights);
  free(model);
  free(state);
}

static void inference_in_flight_equals_the_oracle(void **unused) {
  (void)unused;
  const seed_range seeds = seeds_of(300);
  for (int i = 0; i < seeds.count; i += SEEDS_A_CONTEXT) {
    tdm_context *context = counter_context(seeds.first + (uint64_t)i + 7);
    for (int k = i; k < i + SEEDS_A_CONTEXT && k < seeds.count; k++)
      fly_and_compare(context, seeds.first + (uint64_t)k);
    tdm_context_close(context, NULL, NULL);
    tdm_context_release(context);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_equals_the_oracle),
      cmocka_unit_test(inference_in_flight_equals_the_oracle),
  };
  seed_range_read(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
