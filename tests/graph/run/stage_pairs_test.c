/* Two stages on any two devices, in either order, overlap: runs in flight, and micro-batches of
 * one run. Checked twice: on the plan in virtual time, where only stages take time, independent
 * of the machine; and by the timestamps of runs whose stages sleep. There a loaded machine adds
 * a delay that does not depend on the stages, so a trial that fails is repeated with stages
 * twice as long. */
#include "graph/forecast/virtual_time.h"
#include "graph/run/trace.h"
#include "tests/graph/nap.h"
#include "tests/graph/run_tally.h"
#include "tests/options.h"

enum { SHORTEST_ROW_NS = 12000000, BATCH = 4, RUNS = 8, VIRTUAL_RUNS = 12, ATTEMPTS = 6 };

static const char *const devices[] = {"cpu:0", "cpu:1", "sim:0", "sim:1"};
enum { DEVICES = sizeof devices / sizeof devices[0] };

static const double least_planned = 0.999; /* share of the rate that the longest stage permits */
static const double least_measured = 0.9;

/* ---- Two stages ------------------------------------------------------------------------------ */

static tdm_context *context;

typedef struct stage_trial {
  const char *first;
  const char *second;
  int depth;
  int parts;
  bool training; /* a single step; otherwise runs in flight, if depth is above 1 */
} stage_trial;

static tdm_value build_stage(tdm_graph *graph, const char *scope, const char *device, tdm_value x) {
  tdm_scope_push(graph, scope);
  tdm_place(graph, device);
  x = tdm_linear(graph, "linear", x, 2);
  x = tdm_append(graph, &nap, "nap", NULL, &x, 1, NULL);
  tdm_scope_pop(graph);
  return x;
}

static tdm_session *make_session(const stage_trial *trial) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 2));
  const tdm_value y = build_stage(graph, "first", trial->first, x);
  const tdm_value z = build_stage(graph, "second", trial->second, y);
  tdm_output(graph, "z", z);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.depth = OR_ONE(trial->depth),
              o.micro_batches = OR_ONE(trial->parts), o.trace_runs = RUNS);
  return train_session(graph, tdm_mse(graph, "loss", z, x), tdm_sgd(0.01), &options);
}

/* Returns the shortest time relative to one device's work: filling both stages adds one part. */
static double least_share(const stage_trial *trial) {
  return trial->depth > 1 ? 1 : (trial->parts + 1.0) / trial->parts;
}

static double rows_of(const tdm_plan *plan, size_t step) {
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[step].node);
  if (node->operation != &nap) return 0;
  return (double)tdm_ir_value_at(&plan->graph, node->first_output)->spec->shape.dims[0];
}

/* ---- In virtual time ------------------------------------------------------------------------- */

typedef struct simulation {
  tdm_virtual_schedule schedule;
  const tdm_plan *plan;
  uint32_t gates[VIRTUAL_RUNS]; /* the tasks that each run begins with */
  uint32_t ends[VIRTUAL_RUNS];  /* and ends with */
  uint32_t host;                /* the queue of both */
} simulation;

static uint32_t add_task(simulation *self, uint32_t queue, double work) {
  const tdm_virtual_task task = {
      .queue = queue, .order = self->schedule.task_count, .work = work, .crowded = 1};
  uint32_t added;
  assert_ok(tdm_virtual_add(&self->schedule, &task, &added));
  return added;
}

static void add_run(simulation *self, int run, int depth) {
  const tdm_schedule *steps = &self->plan->lowered.schedule;
  self->gates[run] = add_task(self, self->host + 1 + (uint32_t)run, 0);
  if (run >= depth)
    assert_ok(tdm_virtual_add_wait(&self->schedule, self->gates[run], self->ends[run - depth]));
  for (uint32_t i = 0; i < steps->step_count; i++) {
    const tdm_step *step = &steps->steps[i];
    const uint32_t task = add_task(self, step->queue, rows_of(self->plan, i));
    assert_int_equal(task, self->gates[run] + 1 + i);
    assert_ok(tdm_virtual_add_wait(&self->schedule, task, self->gates[run]));
    for (uint32_t k = 0; k < step->wait_count; k++) {
      const tdm_step_wait *wait = &steps->waits[step->first_wait + k];
      const uint32_t base = self->gates[wait->previous ? run - (run > 0) : run];
      if (wait->previous && run == 0) continue;
      assert_ok(tdm_virtual_add_wait(&self->schedule, task, base + 1 + wait->step));
    }
  }
  self->ends[run] = add_task(self, self->host + 1 + (uint32_t)run, 0);
  for (uint32_t i = 0; i < steps->step_count; i++)
    assert_ok(tdm_virtual_add_wait(&self->schedule, self->ends[run], self->gates[run] + 1 + i));
}

/* Returns the ratio of the plan to the limit that the longest stage sets. */
static double planned(const stage_trial *trial, const tdm_plan *plan) {
  const tdm_allocator allocator = tdm_allocator_default();
  simulation self = {.plan = plan};
  tdm_virtual_init(&self.schedule, &allocator);
  const int runs = trial->depth > 1 ? VIRTUAL_RUNS : 1;
  const uint32_t queues = plan->lowered.schedule.queue_count + 1 + (uint32_t)runs;
  for (uint32_t q = 0; q < queues; q++) {
    uint32_t added;
    assert_ok(tdm_virtual_add_queue(&self.schedule, TDM_VIRTUAL_NONE, &added));
  }
  self.host = plan->lowered.schedule.queue_count;
  for (int run = 0; run < runs; run++)
    add_run(&self, run, trial->depth);
  assert_ok(tdm_virtual_run(&self.schedule));
  double busy = 0; /* busy time of a device in a run; both devices have the same */
  for (size_t i = 0; i < plan->lowered.schedule.step_count; i++)
    busy += rows_of(plan, i) / 2;
  const tdm_virtual_task *tasks = self.schedule.tasks;
  const int half = runs / 2;
  const double took =
      runs == 1
          ? tasks[self.ends[0]].end_ns
          : (tasks[self.ends[runs - 1]].end_ns - tasks[self.ends[runs - 1 - half]].end_ns) / half;
  tdm_virtual_deinit(&self.schedule);
  return busy * least_share(trial) / took;
}

/* ---- As measured ----------------------------------------------------------------------------- */

/* The time that the naps of a stage took in all runs. */
static double slept_ns(const tdm_timeline *timeline, const char *name) {
  double sum = 0;
  for (uint32_t i = 0; i < timeline->event_count; i++) {
    const tdm_timeline_event *event = &timeline->events[i];
    const tdm_timeline_node *node = tdm_timeline_node_of(timeline, event);
    if (strcmp(node->action, "nap") == 0 && strcmp(node->name, name) == 0)
      sum += (double)(event->end_ns - event->begin_ns);
  }
  return sum;
}

static double took_ns(const tdm_timeline *timeline) {
  if (timeline->run_count == 1)
    return (double)(timeline->runs[0].ended_ns - timeline->runs[0].launched_ns);
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (uint32_t i = 0; i < timeline->run_count; i++) {
    const uint64_t ended_ns = timeline->runs[i].ended_ns;
    if (ended_ns < first) first = ended_ns;
    if (ended_ns > last) last = ended_ns;
  }
  return (double)(last - first) / (timeline->run_count - 1);
}

static void submit_all(tdm_session *session, const tdm_feed *feed) {
  const tdm_fetch fetch = {.name = "z"};
  run_tally tally;
  run_tally_init(&tally);
  for (int i = 0; i < RUNS; i++)
    assert_ok(tdm_submit(session, false, feed, 1, &fetch, 1, run_tally_note, &tally));
  run_tally_await(&tally, RUNS);
  assert_int_equal(tally.failed, 0);
  run_tally_deinit(&tally);
}

static double measured(const stage_trial *trial, tdm_tensor *x) {
  tdm_session *session = make_session(trial);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "z"};
  if (trial->depth > 1)
    submit_all(session, &feed);
  else if (trial->training)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  else
    assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(fetch.tensor);
  tdm_timeline timeline;
  assert_ok(tdm_trace_collect(session->trace, &timeline));
  const double first = slept_ns(&timeline, "first/nap");
  const double second = slept_ns(&timeline, "second/nap");
  const double busy = (first > second ? first : second) / timeline.run_count;
  assert_true(busy >= BATCH * (double)atomic_load(&nap_row_ns));
  const double reached = busy * least_share(trial) / took_ns(&timeline);
  tdm_timeline_deinit(&timeline);
  tdm_session_release(session);
  return reached;
}

/* ---- Trials ---------------------------------------------------------------------------------- */

static tdm_tensor *make_batch(void) {
  const float data[BATCH * 2] = {1, 2, 3, 4, 5, 6, 7, 8};
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, BATCH, 2), data);
  assert_non_null(x);
  return x;
}

static void check(const stage_trial *trial) {
  tdm_tensor *x = make_batch();
  tdm_session *session = make_session(trial);
  const tdm_feed feed = {.name = "x", .tensor = x};
  const tdm_fetch fetch = {.name = "z"};
  assert_ok(
      tdm_session_prepare(session, &feed, 1, &fetch, trial->training ? 0 : 1, trial->training));
  const double planned_share = planned(trial, session->newest);
  tdm_session_release(session);
  double reached = 0;
  for (int i = 0; i < ATTEMPTS && reached < least_measured; i++) {
    atomic_store(&nap_row_ns, (uint64_t)SHORTEST_ROW_NS << i);
    reached = measured(trial, x);
  }
  print_message("%s to %s, depth %d, %d parts, %s: %.3f planned, %.3f measured\n", trial->first,
                trial->second, trial->depth, trial->parts,
                trial->training ? "training" : "inference", planned_share, reached);
  tdm_tensor_release(x);
  assert_true(planned_share >= least_planned);
  assert_true(reached >= least_measured);
}

static void check_pairs(int depth, int parts, bool training) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 2);
  context = tdm_context_create(&options);
  assert_non_null(context);
  assert_ok(tdm_kernel_register(context, &nap_kernel));
  for (int i = 0; i < DEVICES; i++)
    for (int k = 0; k < DEVICES; k++) {
      const stage_trial trial = {devices[i], devices[k], depth, parts, training};
      if (i != k) check(&trial);
    }
  tdm_context_release(context);
}

static void two_runs_in_flight(void **unused) {
  (void)unused;
  check_pairs(2, 1, false);
}

static void two_runs_in_flight_in_parts(void **unused) {
  (void)unused;
  check_pairs(2, 2, false);
}

static void inference_in_parts(void **unused) {
  (void)unused;
  check_pairs(1, 2, false);
  check_pairs(1, 4, false);
}

static void training_in_parts(void **unused) {
  (void)unused;
  check_pairs(1, 2, true);
  check_pairs(1, 4, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_runs_in_flight),
      cmocka_unit_test(two_runs_in_flight_in_parts),
      cmocka_unit_test(inference_in_parts),
      cmocka_unit_test(training_in_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
