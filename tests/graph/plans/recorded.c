/* See recorded.h. */
#include "tests/graph/plans/recorded.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/graph/job.h"
#include "tests/graph/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

/* ---- Making plans ---------------------------------------------------------------------------- */

static tdm_context *context_for(const plan_model *model, const tdm_allocator *allocator) {
  char path[] = "/tmp/plans_test_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  assert_non_null(out);
  if (model->machine) fputs(model->machine, out);
  (void)fclose(out);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = allocator, o.cpu_devices = 2, o.sim_devices = 3,
              o.sim = "latency_us=5,gigabytes_per_second=10,peer_gigabytes_per_second=50",
              o.machine = model->machine ? path : NULL);
  tdm_context *context = tdm_context_create(&options);
  (void)remove(path);
  if (!context) fail_msg("%s: %s", model->name, tdm_last_message());
  return context;
}

static tdm_session *session_for(const plan_model *model, tdm_context *context, bool profiles) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_session_options options = OPTIONS(tdm_session_options, o.seed = 1, o.profile = profiles);
  tdm_optimizer optimizer = tdm_sgd(0.1);
  options.loss = model->build(graph, &options, &optimizer);
  if (tdm_value_is_valid(options.loss)) options.optimizer = &optimizer;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s: %s", model->name, tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* Plans of a sequence's runs are made by running them. */
static tdm_status run_in_sequence(tdm_session *session, const tdm_feed *feeds, size_t feed_count,
                                  tdm_fetch *fetch) {
  tdm_sequence *sequence = tdm_sequence_create(session);
  const tdm_status status = tdm_sequence_run(sequence, feeds, feed_count, fetch, 1);
  tdm_sequence_release(sequence);
  tdm_tensor_release(fetch->tensor);
  return status;
}

/* The allocator, which may be NULL, may fail only during planning. */
static tdm_status make_plan(const plan_model *model, tdm_context *context, tdm_session *session,
                            tdm_faulty_allocator *faulty, uint64_t fail_at) {
  tdm_feed feeds[PLAN_MOST_FEEDS];
  size_t count = 0;
  for (; count < PLAN_MOST_FEEDS && model->feeds[count].name; count++) {
    const plan_feed *feed = &model->feeds[count];
    feeds[count] = (tdm_feed){feed->name,
                              tdm_tensor_create(context, "cpu:0", feed->dtype, feed->shape), false};
    assert_non_null(feeds[count].tensor);
    memset(tdm_tensor_data(feeds[count].tensor), 0,
           (size_t)tdm_shape_count(&feed->shape) * tdm_dtype_bytes(feed->dtype));
  }
  tdm_fetch fetch = {.name = model->fetch};
  if (faulty) tdm_faulty_allocator_arm(faulty, fail_at, false);
  const tdm_status made =
      model->in_sequence
          ? run_in_sequence(session, feeds, count, &fetch)
          : tdm_session_prepare(session, feeds, count, &fetch, model->fetch != NULL, !model->fetch);
  if (made != TDM_OK && !faulty) fail_msg("%s: %s", model->name, tdm_last_message());
  while (count-- > 0)
    tdm_tensor_release(feeds[count].tensor);
  return made;
}

/* ---- Telling them ---------------------------------------------------------------------------- */

static void tell(const recorded_kind *kind, const plan_model *model, tdm_context *context,
                 FILE *out) {
  tdm_session *session = session_for(model, context, kind->profiles);
  (void)make_plan(model, context, session, NULL, 0);
  kind->tell(model, session, out);
  tdm_session_release(session);
}

typedef struct job_story {
  const recorded_kind *kind;
  const plan_model *model;
  FILE *of_ranks[JOB_MOST_RANKS];
} job_story;

static tdm_status tell_as_rank(job_rank *rank) {
  const job_story *story = rank->user;
  tell(story->kind, story->model, rank->context, story->of_ranks[rank->rank]);
  return TDM_OK;
}

static void tell_job(const recorded_kind *kind, const plan_model *model, FILE *out) {
  char *texts[JOB_MOST_RANKS];
  size_t bytes[JOB_MOST_RANKS];
  job_rank ranks[JOB_MOST_RANKS];
  job_story story = {.kind = kind, .model = model};
  for (int r = 0; r < model->ranks; r++) {
    story.of_ranks[r] = open_memstream(&texts[r], &bytes[r]);
    assert_non_null(story.of_ranks[r]);
  }
  job_must(&(job_options){.rank_count = model->ranks, .user = &story}, tell_as_rank, ranks);
  for (int r = 0; r < model->ranks; r++) {
    assert_int_equal(fclose(story.of_ranks[r]), 0);
    fprintf(out, "%srank %d: %s", r ? "\n" : "", r, texts[r]);
    free(texts[r]);
  }
}

static char *told(const recorded_kind *kind, const plan_model *model) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  fprintf(out, "%s\n\n", model->says);
  if (model->ranks) {
    tell_job(kind, model, out);
  } else {
    tdm_context *context = context_for(model, NULL);
    tell(kind, model, context, out);
    tdm_context_release(context);
  }
  assert_int_equal(fclose(out), 0);
  return text;
}

static void tell_forecast(tdm_session *session, const tdm_forecast_options *options, FILE *out) {
  tdm_forecast *forecast;
  assert_ok(tdm_session_forecast(session, options, &forecast));
  fprintf(out, "a step takes %.3f us\n", forecast->step_ns / 1000);
  fprintf(out, "  of kernels %u measured, %u modelled; %.0f bytes of a device's memory\n",
          forecast->measured_kernels, forecast->modelled_kernels, forecast->room_bytes);
  for (size_t i = 0; i < forecast->queue_count; i++)
    fprintf(out, "  %-24s busy %10.3f, critical %10.3f\n", forecast->queues[i].name,
            forecast->queues[i].busy_ns / 1000, forecast->queues[i].critical_ns / 1000);
  for (size_t i = 0; i < forecast->link_count; i++)
    fprintf(out, "  %-24s busy %10.3f, critical %10.3f, %.0f bytes in %u\n",
            forecast->links[i].name, forecast->links[i].busy_ns / 1000,
            forecast->links[i].critical_ns / 1000, forecast->links[i].bytes,
            forecast->links[i].copies);
  if (forecast->ranks > 1)
    fprintf(out, "  of %u ranks, %u simulated\n", forecast->ranks, forecast->simulated_ranks);
  tdm_forecast_release(forecast);
}

/* The forecast of equal ranks, also with each rank simulated. */
void recorded_tell_forecast(tdm_session *session, const tdm_costs *costs, FILE *out) {
  tdm_forecast_options options = OPTIONS(tdm_forecast_options, o.costs = costs);
  tell_forecast(session, &options, out);
  if (session->alike_ranks < 2) return;
  options.each_rank = true;
  fprintf(out, "each of them: ");
  tell_forecast(session, &options, out);
}

/* ---- Short memory ---------------------------------------------------------------------------- */

void recorded_sweep_memory(const plan_model *model) {
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  tdm_context *context = context_for(model, &allocator);
  tdm_session *session = session_for(model, context, false);
  for (uint64_t n = 1;; n++) {
    const tdm_status made = make_plan(model, context, session, faulty, n);
    const bool failed = tdm_faulty_allocator_failures(faulty) > 0;
    tdm_faulty_allocator_arm(faulty, 0, false);
    if (made != (failed ? TDM_OUT_OF_MEMORY : TDM_OK))
      fail_msg("%s: allocation %llu: %s", model->name, (unsigned long long)n,
               made == TDM_OK ? "a plan was made without it" : tdm_last_message());
    if (!failed) break;
  }
  tdm_session_release(session);
  tdm_context_close(context, NULL, NULL);
  tdm_context_release(context);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

/* ---- Comparing them -------------------------------------------------------------------------- */

static FILE *open_record(const recorded_kind *kind, const plan_model *model, const char *mode) {
  char path[128];
  (void)snprintf(path, sizeof path, "%s%s.txt", kind->folder, model->name);
  FILE *file = fopen(path, mode);
  if (!file) fail_msg("%s cannot be opened: --record makes it", path);
  return file;
}

static void compare(const recorded_kind *kind, const plan_model *model, const char *text) {
  FILE *recorded = open_record(kind, model, "r");
  char *line = NULL;
  size_t room = 0;
  int number = 1;
  for (ssize_t length; (length = getline(&line, &room, recorded)) > 0; number++) {
    if (strncmp(text, line, (size_t)length) != 0)
      fail_msg("%s%s.txt:%d has\n%sand it is now\n%.*s", kind->folder, model->name, number, line,
               (int)strcspn(text, "\n"), text);
    text += length;
  }
  if (*text)
    fail_msg("%s%s.txt ends where there is more now:\n%s", kind->folder, model->name, text);
  free(line);
  (void)fclose(recorded);
}

void recorded_check(const recorded_kind *kind, const plan_model *models, size_t count,
                    bool records) {
  for (size_t i = 0; i < count; i++) {
    if (kind->is_told_of && !kind->is_told_of(&models[i])) continue;
    char *text = told(kind, &models[i]);
    if (records) {
      FILE *out = open_record(kind, &models[i], "w");
      fputs(text, out);
      assert_int_equal(fclose(out), 0);
    } else {
      compare(kind, &models[i], text);
    }
    free(text);
  }
}

bool recorded_begin(int argc, char **argv) {
  const bool records = argc > 1 && strcmp(argv[1], "--record") == 0;
  if (records && chdir(getenv("BUILD_WORKSPACE_DIRECTORY")) != 0) exit(1);
  /* The workspaces of kernels depend on the instruction set and on the size of a team. */
  (void)setenv("TANDEM_CPU_ISA", "baseline", 1);
  (void)unsetenv("HWLOC_XMLFILE"); /* what ./run_tests has read of this machine */
  (void)setenv("HWLOC_SYNTHETIC", "Core:2 PU:1", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  (void)setenv("TANDEM_LINKS", "off", 1); /* nor on measurements of this machine */
  return records;
}
