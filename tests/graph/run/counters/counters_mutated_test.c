/* Checks, for every wait of several plans, that an executor that ignores it gives other results
 * than the oracle within 200 seeds. A seed draws the inputs and the command that is held back. To
 * ignore a wait, the test removes it from the plan's programs. */
#include <stdlib.h>

#include "tests/devices/sanitized.h"
#include "tests/graph/run/counters/counter_model.h"
#include "tests/graph/run/counters/held_plan.h"

enum { MOST_SEEDS = 200 };

typedef struct mutated_plan {
  tdm_context *context;
  counter_model *model;
  counter_state *state;
  tdm_session *session;
  held_plan held;
  bool trains;
  uint64_t first; /* the place that seed 0 holds */
} mutated_plan;

/* Makes one run; returns true if it agrees with the oracle. */
static bool run_agrees(mutated_plan *plan, uint64_t seed) {
  counter_run run;
  counter_run_begin(&run, plan->context, plan->model, seed);
  held_plan_hold(&plan->held, (int)((plan->first + seed) % (uint64_t)plan->held.place_count));
  if (plan->trains) {
    assert_ok(tdm_train_step(plan->session, run.feeds, COUNTER_INPUTS, run.fetches, COUNTER_OUTPUTS,
                             &run.loss));
    counter_oracle_train(plan->model, seed, plan->state);
  } else {
    /* Training itself makes copies of parameters outdated. */
    counter_load(plan->session, plan->model, seed, plan->state);
    assert_ok(tdm_run(plan->session, run.feeds, COUNTER_INPUTS, run.fetches, COUNTER_OUTPUTS));
    counter_oracle_run(plan->model, seed, plan->state);
  }
  bool agrees = counter_run_agrees(&run, plan->model, plan->state, plan->trains);
  if (agrees && plan->trains)
    agrees = counter_store_agrees(plan->session, plan->model, plan->state);
  counter_run_end(&run);
  return agrees;
}

/* A fresh session with its plan made and not run. */
static void make_plan(mutated_plan *plan) {
  plan->session = counter_session(plan->model, plan->context, 1, plan->trains);
  counter_oracle_begin(plan->model, plan->state);
  counter_run run;
  counter_run_begin(&run, plan->context, plan->model, 0);
  assert_ok(tdm_session_prepare(plan->session, run.feeds, COUNTER_INPUTS, run.fetches,
                                COUNTER_OUTPUTS, plan->trains));
  counter_run_end(&run);
  plan->first = 0;
  held_plan_begin(&plan->held, plan->session->newest,
                  tdm_context_find_device(plan->context, "cpu:2"));
}

static void let_go(mutated_plan *plan) {
  tdm_session_release(plan->session);
  held_plan_end(&plan->held);
}

/* Holding commands back is no mutation. */
static int check_held(mutated_plan *plan, uint64_t model_seed) {
  make_plan(plan);
  for (int place = 0; place < plan->held.place_count; place++)
    if (!run_agrees(plan, (uint64_t)place))
      fail_msg("plan %llu gives other results with command %d held", (unsigned long long)model_seed,
               place);
  const int waits = plan->held.wait_count;
  let_go(plan);
  return waits;
}

/* Removes each wait of one plan in turn. Returns the number of waits. */
static int mutate_plan(tdm_context *context, uint64_t model_seed, bool trains) {
  mutated_plan plan = {.context = context, .trains = trains};
  plan.model = calloc(1, sizeof *plan.model);
  plan.state = calloc(1, sizeof *plan.state);
  assert_true(plan.model && plan.state);
  counter_model_draw(plan.model, model_seed, 8, 3);
  const int waits = check_held(&plan, model_seed);
  for (int wait = 0; wait < waits; wait++) {
    make_plan(&plan);
    plan.first = (uint64_t)held_plan_awaited(&plan.held, wait); /* mostly shows it at once */
    held_plan_ignore(&plan.held, wait);
    uint64_t seed = 0;
    while (seed < MOST_SEEDS && run_agrees(&plan, seed))
      seed++;
    if (seed == MOST_SEEDS)
      fail_msg("plan %llu (%s) never needed its wait %d", (unsigned long long)model_seed,
               trains ? "training" : "evaluation", wait);
    let_go(&plan);
  }
  free(plan.model);
  free(plan.state);
  return waits;
}

static void every_wait_of_several_plans_is_needed(void **unused) {
  (void)unused;
  if (test_is_thread_sanitized()) {
    print_message("skipped: a plan without one of its waits races, as ThreadSanitizer would say\n");
    skip();
  }
  tdm_context *context = counter_context(0); /* only the held operations are late */
  counter_pause_at_random(false);
  const int plans = test_is_sanitized() ? 4 : 16;
  int waits = 0;
  for (int i = 0; i < plans; i++) {
    waits += mutate_plan(context, (uint64_t)i, false);
    waits += mutate_plan(context, (uint64_t)i, true);
  }
  print_message("%d waits of %d plans\n", waits, 2 * plans);
  assert_true(waits >= 20 * plans);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_wait_of_several_plans_is_needed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
