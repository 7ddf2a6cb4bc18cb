/* Inference runs in flight use both devices concurrently. By the timeline's timestamps, throughput
 * is close to the limit of the longest stage. A stage sleeps, so that other load on the machine
 * does not affect it. If the measurement fails, it is repeated with longer stages, so that delays
 * have less weight. */
#include <time.h>

#include "graph/run/trace.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"

enum { SHORTEST_STAGE_MS = 50, RUNS = 16, ATTEMPTS = 5 };

static _Atomic int stage_ms;

/* ---- A stage: one operation that takes its time ---------------------------------------------- */

static tdm_status execute_stage(const tdm_kernel_call *call) {
  const int ms = atomic_load(&stage_ms);
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
  (void)nanosleep(&time, NULL);
  memcpy(call->outputs[0], call->inputs[0],
         (size_t)tdm_shape_bytes(&call->output_specs[0].shape, TDM_FLOAT32));
  return TDM_OK;
}

static const tdm_kernel stage_kernel = {.struct_size = sizeof(tdm_kernel),
                                        .operation = "test_stage",
                                        .executes = "cpu",
                                        .dtype = TDM_FLOAT32,
                                        .execute = execute_stage};

static tdm_status infer_stage(tdm_infer *infer) {
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = infer->inputs[0].shape;
  return TDM_OK;
}

static const tdm_operation stage_operation = {.struct_size = sizeof(tdm_operation),
                                              .name = "test_stage",
                                              .min_inputs = 1,
                                              .max_inputs = 1,
                                              .output_count = 1,
                                              .infer = infer_stage};

/* Creates a session of x (8) -> a stage on cpu:0 -> a stage on sim:0 -> "y". */
static tdm_session *staged_session(tdm_context *context, int depth) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, (int64_t)8));
  tdm_place(graph, "cpu:0");
  const tdm_value first = tdm_append(graph, &stage_operation, "first", NULL, &x, 1, NULL);
  tdm_place(graph, "sim:0");
  tdm_output(graph, "y", tdm_append(graph, &stage_operation, "second", NULL, &first, 1, NULL));
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.depth = depth, o.trace_runs = RUNS);
  return run_session(graph, &options);
}

static void run_all(tdm_session *session, tdm_context *context) {
  const float zeros[8] = {0};
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, (int64_t)8), zeros);
  assert_non_null(x);
  const tdm_feed feed = {.name = "x", .tensor = x};
  const tdm_fetch fetch = {.name = "y"};
  run_tally tally;
  run_tally_init(&tally);
  for (int i = 0; i < RUNS; i++)
    assert_ok(tdm_submit(session, false, &feed, 1, &fetch, 1, run_tally_note, &tally));
  run_tally_await(&tally, RUNS);
  assert_int_equal(tally.failed, 0);
  run_tally_deinit(&tally);
  tdm_tensor_release(x);
}

/* ---- Counting -------------------------------------------------------------------------------- */

/* Returns the mean time of the stages of that name. */
static double stage_ns(const tdm_timeline *timeline, const char *name) {
  double sum = 0;
  int count = 0;
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    if (strcmp(tdm_timeline_node_of(timeline, event)->action, "test_stage") != 0) continue;
    if (strcmp(tdm_timeline_node_of(timeline, event)->name, name) != 0) continue;
    sum += (double)(event->end_ns - event->begin_ns);
    count++;
  }
  assert_int_equal(count, RUNS);
  return sum / count;
}

/* Time from one run's end to the next one's, once the pipeline is full. */
static double interval_ns(const tdm_timeline *timeline) {
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (uint32_t i = 0; i < timeline->run_count; i++) {
    const uint64_t ended_ns = timeline->runs[i].ended_ns;
    if (ended_ns < first) first = ended_ns;
    if (ended_ns > last) last = ended_ns;
  }
  return (double)(last - first) / (RUNS - 1);
}

typedef struct throughput {
  double of_limit;      /* 1: as fast as the longest stage allows */
  double overlap_share; /* share of the shorter stage's time with the other device busy */
} throughput;

/* Measures the throughput at this depth. Each attempt, from 0, doubles the time of a stage. */
static throughput measure(int depth, int attempt) {
  const double shortest = (double)SHORTEST_STAGE_MS * (1 << attempt);
  atomic_store(&stage_ms, SHORTEST_STAGE_MS << attempt);
  tdm_context *context = context_on_loop(NULL, NULL);
  assert_ok(tdm_kernel_register(context, &stage_kernel));
  tdm_session *session = staged_session(context, depth);
  run_all(session, context);
  tdm_timeline timeline;
  assert_ok(tdm_trace_collect(session->trace, &timeline));
  tdm_timeline_summary summary;
  assert_ok(tdm_timeline_summarize(&timeline, &summary));
  const double first_ns = stage_ns(&timeline, "first");
  const double second_ns = stage_ns(&timeline, "second");
  assert_true(first_ns >= shortest * 1e6 && second_ns >= shortest * 1e6);
  const double longest_ns = first_ns > second_ns ? first_ns : second_ns;
  const double shortest_ns = first_ns > second_ns ? second_ns : first_ns;
  const throughput measured = {longest_ns / interval_ns(&timeline),
                               (double)summary.overlap / (shortest_ns * RUNS)};
  tdm_timeline_deinit(&timeline);
  tdm_session_release(session);
  tdm_context_release(context);
  return measured;
}

/* A delay of the first stage makes the limit seem longer than the measured time. A larger
 * difference in every repetition means that the timestamps are wrong. */
static bool is_full(const throughput *measured) {
  return measured->of_limit >= 0.9 && measured->of_limit <= 1.1 && measured->overlap_share >= 0.8;
}

/* A control: returns true if the devices wait for each other, as with one run at a time. */
static bool is_half(const throughput *measured) {
  return measured->of_limit < 0.6 && measured->overlap_share < 0.1;
}

/* Other load delays stages at random, so one successful measurement suffices. */
static void check_depth(int depth, bool (*is_reached)(const throughput *measured)) {
  bool reached = false;
  for (int i = 0; i < ATTEMPTS && !reached; i++) {
    const throughput measured = measure(depth, i);
    print_message("depth %d: %.3f of the limit, %.3f of the shorter stage overlaps\n", depth,
                  measured.of_limit, measured.overlap_share);
    reached = is_reached(&measured);
  }
  assert_true(reached);
}

static void two_runs_in_flight_fill_both_devices(void **unused) {
  (void)unused;
  check_depth(2, is_full);
}

static void so_do_four(void **unused) {
  (void)unused;
  check_depth(4, is_full);
}

static void one_at_a_time_does_not(void **unused) {
  (void)unused;
  check_depth(1, is_half);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_runs_in_flight_fill_both_devices),
      cmocka_unit_test(so_do_four),
      cmocka_unit_test(one_at_a_time_does_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
