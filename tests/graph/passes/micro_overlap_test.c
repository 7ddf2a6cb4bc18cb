/* Checks overlap by the timeline's own timestamps. Stages of equal length on two devices have
 * kernels that sleep, so neither the machine's speed nor its load decides. They sleep longer in
 * each repetition after a disturbed measurement. With S stages and m micro-batches a step takes at
 * least (m + S - 1) / m times the work of a device. */
#include "graph/run/trace.h"
#include "tests/graph/nap.h"
#include "tests/graph/support.h"
#include "tests/options.h"

enum { SHORTEST_ROW_NS = 12000000, PARTS = 8, STAGES = 2, ATTEMPTS = 4 };

/* ---- Two stages ------------------------------------------------------------------------------ */

static tdm_value build_stage(tdm_graph *graph, const char *scope, const char *device, tdm_value x) {
  tdm_scope_push(graph, scope);
  tdm_place(graph, device);
  x = tdm_linear(graph, "linear", x, 2);
  x = tdm_append(graph, &nap, "nap", NULL, &x, 1, NULL);
  tdm_scope_pop(graph);
  return x;
}

static tdm_context *make_context(void) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 1);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  assert_ok(tdm_kernel_register(context, &nap_kernel));
  return context;
}

static tdm_session *make_session(tdm_context *context, int micro_batches) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_value y = build_stage(graph, "first", "cpu:0", x);
  const tdm_value z = build_stage(graph, "second", "sim:0", y);
  tdm_output(graph, "z", z);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.micro_batches = OR_ONE(micro_batches), o.trace_runs = 1);
  return train_session(graph, tdm_mse(graph, "loss", z, x), tdm_sgd(0.01), &options);
}

typedef struct step_figures {
  double of_busiest;    /* duration of a step, relative to the work of the busiest device */
  double overlap_share; /* share of the less busy device's time during which the other is busy */
} step_figures;

/* Counts those of the latest run. */
static step_figures count(tdm_session *session) {
  tdm_timeline timeline;
  assert_ok(tdm_trace_collect(session->trace, &timeline));
  tdm_timeline_summary summary;
  assert_ok(tdm_timeline_summarize(&timeline, &summary));
  assert_int_equal(timeline.run_count, 1);
  assert_int_equal(timeline.device_count, STAGES);
  const double first = (double)summary.device_busy[0];
  const double second = (double)summary.device_busy[1];
  const double shortest = PARTS * (double)atomic_load(&nap_row_ns);
  assert_true(first >= shortest && second >= shortest);
  const double step_ns = (double)(timeline.runs[0].ended_ns - timeline.runs[0].asked_ns);
  const step_figures figures = {step_ns / (first > second ? first : second),
                                (double)summary.overlap / (first > second ? second : first)};
  tdm_timeline_deinit(&timeline);
  return figures;
}

/* The first step, which makes the plan, does not count. */
static step_figures measure(tdm_session *session, tdm_tensor *x, bool training) {
  const tdm_feed feed = {.name = "x", .tensor = x};
  for (int i = 0; i < 2; i++) {
    tdm_fetch fetch = {.name = "z"};
    if (training)
      assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
    else
      assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
    tdm_tensor_release(fetch.tensor);
  }
  return count(session);
}

/* Returns true if one stage waits for the other, which checks that the measure detects this. */
static bool is_alternating(const step_figures *figures) {
  return figures->of_busiest > 1.5 && figures->overlap_share < 0.1;
}

static bool is_overlapping(const step_figures *figures) {
  return figures->of_busiest <= 1.11 * (PARTS + STAGES - 1) / PARTS &&
         figures->overlap_share >= 0.75;
}

/* Other processes delay sometimes one stage, sometimes the other. One repetition that reaches the
 * overlap is enough. */
static bool reaches(tdm_session *session, tdm_tensor *x, bool training,
                    bool (*is_reached)(const step_figures *figures)) {
  bool reached = false;
  for (int i = 0; i < ATTEMPTS && !reached; i++) {
    atomic_store(&nap_row_ns, (uint64_t)SHORTEST_ROW_NS << i);
    const step_figures figures = measure(session, x, training);
    print_message("%s: %.3f times the busiest device's time, of which %.3f overlap\n",
                  training ? "training" : "inference", figures.of_busiest, figures.overlap_share);
    reached = is_reached(&figures);
  }
  return reached;
}

static void stages_overlap(bool training) {
  tdm_context *context = make_context();
  const float data[PARTS * 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7};
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, PARTS, 2), data);
  tdm_session *whole = make_session(context, 1);
  tdm_session *cut = make_session(context, PARTS);
  assert_true(reaches(whole, x, training, is_alternating));
  assert_true(reaches(cut, x, training, is_overlapping));
  tdm_session_release(cut);
  tdm_session_release(whole);
  tdm_tensor_release(x);
  tdm_context_release(context);
}

static void a_training_step_overlaps_its_stages(void **unused) {
  (void)unused;
  stages_overlap(true);
}

static void inference_overlaps_its_stages(void **unused) {
  (void)unused;
  stages_overlap(false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_training_step_overlaps_its_stages),
      cmocka_unit_test(inference_overlaps_its_stages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
