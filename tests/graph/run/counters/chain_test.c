/* Training runs in flight together have exactly the results of runs in sequence: on random graphs
 * with adverse random delays, and with runs cancelled at any moment. */
#include <stdlib.h>
#include <time.h>

#include "graph/run/session.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/run/counters/counter_model.h"
#include "tests/graph/seed_range.h"
#include "tests/options.h"

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
    const tdm_submit_options options = OPTIONS(tdm_submit_options, o.training = true,
                                               o.callback = on_landed, o.user = &flights[i]);
    flights[i].landed = landed;
    counter_run_begin(&flights[i].run, context, model, seed * 10 + i);
    assert_ok(tdm_submit_with(session, &options, flights[i].run.feeds, COUNTER_INPUTS,
                              flights[i].run.fetches, COUNTER_OUTPUTS, &flights[i].id));
  }
}

/* Compares the runs that were not stopped with the oracle, which executes only these. */
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

static sums fly_all(int usual, bool cancels) {
  const seed_range seeds = seed_range_of(0, test_is_sanitized() ? usual / 4 : usual);
  sums seen = {0};
  for (int i = 0; i < seeds.count; i += SEEDS_A_CONTEXT) {
    tdm_context *context = counter_context(seeds.first + (uint64_t)i + 3);
    for (int k = i; k < i + SEEDS_A_CONTEXT && k < seeds.count; k++)
      fly_and_compare(context, seeds.first + (uint64_t)k, cancels, &seen);
    tdm_context_close(context, NULL, NULL);
    tdm_context_release(context);
  }
  assert_true(seen.chained > seeds.count / 2);
  assert_true(seen.early > seeds.count / 8);
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

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_in_flight_equals_the_oracle),
      cmocka_unit_test(cancelled_steps_are_as_if_they_had_never_been),
  };
  seed_range_read(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
