/* Delays change only the order of events: training in micro-batches, blocking and in flight, has
 * the same bits as in the same session without delays. A seed draws the model, the number of parts,
 * the steps in flight and the delays. */
#include "graph/run/session.h"
#include "tests/graph/run_tally.h"
#include "tests/graph/seed_range.h"
#include "tests/options.h"

enum { STEPS = 4, SEEDS_A_CONTEXT = 20, MODELS = 3, MOST_PARTS = 4, MOST_DEPTH = 3 };

typedef tdm_graph *(*model)(tdm_context *context, const char *first, const char *second,
                            tdm_value *out_loss);
static const model models[MODELS] = {seed_graph, zigzag_graph, tied_graph};

/* Creates a context like graph_context()'s with delays; seed 0: none. */
static tdm_context *delayed_context(uint64_t seed) {
  char sim[96];
  assert_true(snprintf(sim, sizeof sim, "latency_us=0,gigabytes_per_second=0,delay_seed=%llu",
                       (unsigned long long)seed) > 0);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1, o.sim = sim);
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static tdm_session *micro_session(tdm_context *context, model build, int parts, int depth) {
  tdm_value loss;
  tdm_graph *graph = build(context, "cpu:0", "sim:0", &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 3, o.deterministic = true,
              o.micro_batches = OR_ONE(parts), o.depth = depth);
  return train_session(graph, loss, tdm_adam(0.01), &options);
}

/* Creates batches of two sizes, so that runs of two plans are consecutive. */
static void make_batch(test_batch *batch, tdm_context *context, int step) {
  test_batch_make(batch, context, step % 3 == 1 ? 8 : 11, (uint64_t)step + 1);
}

static tdm_tensor_list *train(tdm_session *session, bool in_flight) {
  run_tally tally;
  run_tally_init(&tally);
  for (int step = 0; step < STEPS; step++) {
    test_batch batch;
    make_batch(&batch, session->context, step);
    if (in_flight)
      submit_step(session, &batch, &tally);
    else
      (void)train_once(session, &batch);
    test_batch_release(&batch);
  }
  if (in_flight) run_tally_await(&tally, STEPS);
  assert_int_equal(tally.failed, 0);
  run_tally_deinit(&tally);
  return state_of(session);
}

/* Results of every model with this number of parts and without delays. */
typedef struct wanted_states {
  tdm_context *context;
  tdm_tensor_list *states[MODELS][MOST_PARTS + 1];
} wanted_states;

static const tdm_tensor_list *wanted_of(wanted_states *wanted, int m, int parts) {
  if (!wanted->states[m][parts]) {
    tdm_session *session = micro_session(wanted->context, models[m], parts, 1);
    wanted->states[m][parts] = train(session, false);
    tdm_session_release(session);
  }
  return wanted->states[m][parts];
}

static void compare(wanted_states *wanted, tdm_context *context, uint64_t seed) {
  const int m = (int)(seed % MODELS);
  const int parts = 1 + (int)(seed / MODELS % MOST_PARTS);
  const int depth = 1 + (int)(seed / MODELS / MOST_PARTS % MOST_DEPTH);
  tdm_session *session = micro_session(context, models[m], parts, depth);
  tdm_tensor_list *state = train(session, depth > 1);
  assert_true(session->newest->micro_count == (size_t)parts);
  assert_same_state(state, wanted_of(wanted, m, parts));
  tdm_tensor_list_release(state);
  tdm_session_release(session);
}

static void delays_change_nothing(void **unused) {
  (void)unused;
  const seed_range seeds = seed_range_of(1, 72); /* every model, number of parts and depth twice */
  wanted_states wanted = {.context = delayed_context(0)};
  for (int i = 0; i < seeds.count; i += SEEDS_A_CONTEXT) {
    tdm_context *context = delayed_context(seeds.first + (uint64_t)i + 1);
    for (int k = i; k < i + SEEDS_A_CONTEXT && k < seeds.count; k++)
      compare(&wanted, context, seeds.first + (uint64_t)k);
    tdm_context_release(context);
  }
  for (int m = 0; m < MODELS; m++)
    for (int parts = 0; parts <= MOST_PARTS; parts++)
      tdm_tensor_list_release(wanted.states[m][parts]);
  tdm_context_release(wanted.context);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(delays_change_nothing)};
  seed_range_read(argc, argv);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
