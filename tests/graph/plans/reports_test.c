/* All reports of plans and their runs, recorded as text in this folder (reports/): the graph, the
 * table of layers, the cost of kernels, the timeline of runs. For some models also the plan as JSON
 * and DOT and every event of the timeline. No run is executed: times of commands are invented, so
 * that each report is the same everywhere, to the letter. Recorded by bazel run
 * //tests/graph/plans:reports_test -- --record. */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/report/picture.h"
#include "graph/report/timeline_read.h"
#include "graph/run/trace.h"
#include "tests/graph/plans/recorded.h"
#include "tests/graph/support.h"

static bool records;

/* The reported models, and those reported in full: every command, and in short plans every
 * event. */
static const struct {
  const char *name;
  bool in_full;
} told_of[] = {{"stages_in_parts", false},
               {"stages_answer", true},
               {"tied", false},
               {"rows", true},
               {"block", false},
               {"answers", true},
               {"kept", true},
               {"three_losses", false},
               {"sums_at_home", false},
               {"homes_by_rows", false},
               {"nested_replicas", false},
               {"unequal_replicas", true},
               {"shards_of_rows", false},
               {"shards_of_tables", true},
               {"described_host", false},
               {"alike_ranks", true},
               {"described_stages", false},
               {"job_stages", true},
               {"job_all_reduce", false},
               {"job_spread", false}};

/* Returns -1 if it is not placed. */
static int place_of(const plan_model *model) {
  for (size_t i = 0; i < TDM_COUNT_OF(told_of); i++)
    if (strcmp(told_of[i].name, model->name) == 0) return (int)i;
  return -1;
}

static bool is_told_of(const plan_model *model) {
  return place_of(model) >= 0;
}

static bool is_told_in_full(const plan_model *model) {
  return told_of[place_of(model)].in_full;
}

/* ---- What commands took ---------------------------------------------------------------------- */

/* Some durations are too short for a clock. */
static uint64_t made_up_ns(size_t step) {
  return step % 11 == 10 ? 0 : 1000 + 370 * (step % 9);
}

/* Adds one run to the profile: each command takes `times` its invented duration, except that every
 * fourth from `skipped` on is skipped. */
static void add_profile(tdm_plan *plan, uint64_t times, size_t skipped) {
  const size_t count = plan->lowered.schedule.step_count;
  tdm_command_times *took = calloc(count + 1, sizeof *took);
  assert_non_null(took);
  for (size_t i = 0; i < count; i++)
    if (i % 4 != skipped)
      took[i] = (tdm_command_times){.begin_ns = 5, .end_ns = 6 + times * made_up_ns(i)};
  tdm_profile_add(&plan->profile, took);
  free(took);
}

/* ---- Runs that never were -------------------------------------------------------------------- */

enum { MOST_STEPS = 40, KEPT_RUNS = 3, ALL_RUNS = KEPT_RUNS + 1, GAP_NS = 250 };

typedef struct made_up_runs {
  tdm_plan *plan;
  tdm_trace *trace;
  uint64_t *free_ns; /* per queue of the plan: since when */
  uint64_t ended_ns[ALL_RUNS];
} made_up_runs;

/* Returns the time at which a step can begin: its queue is free, and the steps that it waits for
 * have ended. */
static uint64_t begin_of(const made_up_runs *self, const tdm_command_times *times, size_t index) {
  const tdm_schedule *schedule = &self->plan->lowered.schedule;
  const tdm_step *step = &schedule->steps[index];
  uint64_t begin_ns = self->free_ns[step->queue];
  for (uint32_t k = 0; k < step->wait_count; k++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + k];
    if (!wait->previous && times[wait->step].end_ns > begin_ns) begin_ns = times[wait->step].end_ns;
  }
  return begin_ns + index % 3 * GAP_NS;
}

/* Invents the times of a run that is launched now. The last run fails at two thirds of its steps,
 * and ends there. Returns when the latest command ended, and when updates began. */
static uint64_t make_up_times(made_up_runs *self, int number, tdm_run_state *run) {
  const tdm_schedule *schedule = &self->plan->lowered.schedule;
  const bool fails = number + 1 == ALL_RUNS;
  const size_t count = fails ? 2 * schedule->step_count / 3 + 1 : schedule->step_count;
  uint64_t latest_ns = run->moments.launched_ns;
  for (uint32_t q = 0; q < schedule->queue_count; q++)
    if (self->free_ns[q] < latest_ns) self->free_ns[q] = latest_ns;
  for (size_t i = 0; i < count && i < schedule->step_count; i++) {
    const tdm_step *step = &schedule->steps[i];
    if (step->phase == TDM_PHASE_UPDATE && schedule->two_phase && !run->moments.updating_ns) {
      run->moments.updating_ns = latest_ns + GAP_NS;
      for (uint32_t q = 0; q < schedule->queue_count; q++)
        if (self->free_ns[q] < latest_ns) self->free_ns[q] = latest_ns + GAP_NS;
    }
    tdm_command_times *times = &run->flight.times[i];
    times->begin_ns = begin_of(self, run->flight.times, i);
    times->end_ns = times->begin_ns + made_up_ns(i);
    if (times->begin_ns > self->free_ns[step->queue]) times->wait_ns = self->free_ns[step->queue];
    self->free_ns[step->queue] = times->end_ns;
    if (times->end_ns > latest_ns) latest_ns = times->end_ns;
  }
  if (fails) {
    run->flight.failed_ids[count - 1] = 1;
    run->status = TDM_DEVICE_LOST;
    (void)snprintf(run->message, sizeof run->message, "a device was lost");
  }
  return latest_ns;
}

/* The second run is requested during the first, the others some time after the previous one. */
static void make_up_run(made_up_runs *self, int number) {
  const size_t count = self->plan->lowered.schedule.step_count;
  tdm_run_state run = {.plan = self->plan, .slot = number % 2};
  run.flight.times = calloc(count + 1, sizeof *run.flight.times);
  run.flight.failed_ids = calloc(count + 1, 1);
  assert_true(run.flight.times && run.flight.failed_ids);
  assert_ok(tdm_trace_reserve(self->trace, count, &run.record));
  tdm_trace_admit(self->trace, &run.moments);
  const uint64_t before_ns = number ? self->ended_ns[number - 1] : 1000000;
  run.moments.asked_ns = number == 1 ? 1000000 + GAP_NS : before_ns + 3 * GAP_NS * (uint64_t)number;
  run.moments.launched_ns = before_ns + 3 * GAP_NS * (uint64_t)number + GAP_NS;
  self->ended_ns[number] = make_up_times(self, number, &run) + GAP_NS;
  tdm_trace_keep(self->trace, &run);
  free(run.flight.times);
  free(run.flight.failed_ids);
}

/* A timeline read from a file has the same report, in the same words. */
static void tell_timeline_alike(tdm_timeline *timeline, FILE *out) {
  char *texts[3];
  size_t bytes;
  tdm_timeline read;
  for (int i = 0; i < 3; i++) {
    FILE *stream = open_memstream(&texts[i], &bytes);
    assert_non_null(stream);
    assert_ok(i == 1 ? tdm_timeline_json(timeline, stream)
                     : tdm_timeline_text(i == 0 ? timeline : &read, stream));
    assert_int_equal(fclose(stream), 0);
    if (i != 1) continue;
    json_t *root = json_loads(texts[1], 0, NULL);
    assert_non_null(root);
    assert_ok(tdm_timeline_read(root, "a file", timeline->region.allocator, &read));
    json_decref(root);
  }
  tdm_timeline_deinit(&read);
  assert_string_equal(texts[2], texts[0]);
  fputs(texts[0], out);
  for (int i = 0; i < 3; i++)
    free(texts[i]);
}

static void tell_timeline(const plan_model *model, tdm_plan *plan, FILE *out) {
  made_up_runs self = {.plan = plan};
  const tdm_allocator *allocator = tdm_context_allocator(plan->graph.context);
  self.free_ns = calloc(plan->lowered.schedule.queue_count + 1u, sizeof *self.free_ns);
  assert_non_null(self.free_ns);
  assert_ok(tdm_trace_create(allocator, KEPT_RUNS, &self.trace));
  assert_false(tdm_trace_has_runs(self.trace));
  for (int r = 0; r < ALL_RUNS; r++)
    make_up_run(&self, r);
  assert_true(tdm_trace_has_runs(self.trace));
  tdm_timeline timeline;
  assert_ok(tdm_trace_collect(self.trace, &timeline));
  for (uint32_t i = 0; i < timeline.run_count; i++)
    timeline.runs[i].ended_ns = self.ended_ns[timeline.runs[i].number - 1];
  tell_timeline_alike(&timeline, out);
  if (is_told_in_full(model) && plan->lowered.schedule.step_count < MOST_STEPS) {
    fprintf(out, "\n---- Every event ----\n\n");
    assert_ok(tdm_timeline_json(&timeline, out));
  }
  tdm_timeline_deinit(&timeline);
  tdm_trace_destroy(self.trace);
  free(self.free_ns);
}

/* ---- The plan -------------------------------------------------------------------------------- */

static void tell_part(json_t *part, FILE *out) {
  const char *origin = json_string_value(json_object_get(part, "prediction"));
  if (origin && strcmp(origin, "assumed") == 0) (void)json_object_del(part, "predicted_ns");
  assert_int_equal(json_dumpf(part, out, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)), 0);
  fputc('\n', out);
}

/* Writes a line a member, and one an element of its lists, without the times of passes and what
 * host memory is thought to be worth; commands only if in_full. */
static void tell_json(tdm_session *session, bool in_full, FILE *out) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_JSON);
  json_t *plan = json_loads(text, 0, NULL), *member, *part;
  free(text);
  assert_non_null(plan);
  const char *key;
  size_t index;
  json_object_foreach(plan, key, member) {
    if (!in_full && strcmp(key, "commands") == 0) continue;
    if (strcmp(key, "passes") == 0) continue;
    fprintf(out, "%s%s", key, json_is_array(member) ? "\n" : ": ");
    json_array_foreach(member, index, part) {
      fputs("  ", out);
      tell_part(part, out);
    }
    if (!json_is_array(member)) tell_part(member, out);
  }
  json_decref(plan);
}

static void tell_picture(tdm_session *session, FILE *out) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_DOT);
  fputs(text, out);
  free(text);
}

static tdm_status print_report(tdm_session *session, const char *what, tdm_plan_format format,
                               FILE *out) {
  (void)what;
  (void)format;
  return tdm_session_report(session, out);
}

/* A page of a session that records no runs has only its plan. */
static void check_page(tdm_session *session) {
  char *page = printed(session, print_report, NULL, TDM_PLAN_TEXT);
  assert_non_null(strstr(page, "id=\"data-plan\""));
  assert_null(strstr(page, "id=\"data-trace\""));
  free(page);
}

/* ---- Costs ----------------------------------------------------------------------------------- */

static void tell_costs(const tdm_costs *costs, FILE *out) {
  char path[] = "/tmp/reports_test_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  assert_ok(tdm_costs_save(costs, path));
  (void)close(file);
  json_t *told = json_load_file(path, 0, NULL), *kernel;
  (void)remove(path);
  assert_non_null(told);
  size_t index;
  json_array_foreach(json_object_get(told, "kernels"), index, kernel) {
    assert_int_equal(json_dumpf(kernel, out, JSON_REAL_PRECISION(9)), 0);
    fputc('\n', out);
  }
  json_decref(told);
}

/* Returns true if the bandwidth of copies within the host's memory is assumed. */
static bool is_assumed(tdm_session *session) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  const bool assumed = strstr(text, "(assumed)") != NULL;
  free(text);
  return assumed;
}

/* ---- Complete reports ------------------------------------------------------------------------ */

static void tell(const plan_model *model, tdm_session *session, FILE *out) {
  tdm_plan *plan = session->newest;
  assert_ptr_equal(session->last_asked, plan);
  tdm_costs *costs = tdm_costs_create(session->context);
  assert_non_null(costs);
  /* A plan that was run once has what that took. */
  assert_ok(tdm_profile_init(&plan->profile, &plan->region, plan->lowered.schedule.step_count));
  fprintf(out, "---- The graph ----\n\n");
  assert_ok(tdm_graph_print(session->graph, out));
  add_profile(plan, 1, 4);
  assert_ok(tdm_costs_learn(costs, session, false));
  add_profile(plan, 3, 2);
  add_profile(plan, 2, 2);
  assert_ok(tdm_costs_learn(costs, session, true));
  fprintf(out, "\n---- Its layers ----\n\n");
  assert_ok(tdm_session_print_summary(session, out));
  fprintf(out, "\n---- What kernels cost ----\n\n");
  tell_costs(costs, out);
  if (model->ranks || !is_assumed(session)) {
    fprintf(out, "\n---- With these costs ----\n\n");
    recorded_tell_forecast(session, costs, out);
  }
  fprintf(out, "\n---- The plan as JSON ----\n\n");
  tell_json(session, is_told_in_full(model), out);
  if (is_told_in_full(model)) {
    fprintf(out, "\n---- The plan as DOT ----\n\n");
    tell_picture(session, out);
  }
  check_page(session);
  fprintf(out, "\n---- Its runs ----\n\n");
  tell_timeline(model, plan, out);
  tdm_costs_release(costs);
}

static const recorded_kind reports = {.folder = "tests/graph/plans/reports/",
                                      .profiles = true,
                                      .is_told_of = is_told_of,
                                      .tell = tell};

static void reports_over_devices_in_a_row_are_as_recorded(void **unused) {
  (void)unused;
  recorded_check(&reports, plan_placed_models, plan_placed_count, records);
}

static void reports_over_devices_side_by_side_are_as_recorded(void **unused) {
  (void)unused;
  recorded_check(&reports, plan_parallel_models, plan_parallel_count, records);
}

static void reports_of_jobs_are_as_recorded(void **unused) {
  (void)unused;
  recorded_check(&reports, plan_job_models, plan_job_count, records);
}

int main(int argc, char **argv) {
  /* Reports say which devices share cores, which depends on the machine. */
  (void)setenv("HWLOC_SYNTHETIC", "core:8 pu:1", 1);
  records = recorded_begin(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reports_over_devices_in_a_row_are_as_recorded),
      cmocka_unit_test(reports_over_devices_side_by_side_are_as_recorded),
      cmocka_unit_test(reports_of_jobs_are_as_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
