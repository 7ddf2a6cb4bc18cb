/* Plans as they are made today, beside this file as text: whatever makes another plan of one of
 * these models shows here, line by line. What a change was meant to do is recorded by
 * bazel run //tests/graph/plans:plans_test -- --record, and reviewed as a difference of text. Told
 * are the nodes on their queues, what each waits for, where its result lies, what crosses by which
 * route, and of described machines what each queue and link is forecast to do. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/graph/plans/models.h"
#include "tests/graph/support.h"

static const char folder[] = "tests/graph/plans/";
static bool records;

/* ---- Making them ---- */

static tdm_context *context_for(const plan_model *model) {
  char path[] = "/tmp/plans_test_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  assert_non_null(out);
  if (model->machine) fputs(model->machine, out);
  (void)fclose(out);
  const tdm_context_options options = {
      .struct_size = sizeof options,
      .cpu_devices = 2,
      .sim_devices = model->machine ? -1 : 3,
      .sim = "latency_us=5,gigabytes_per_second=10,peer_gigabytes_per_second=50",
      .machine = model->machine ? path : NULL};
  tdm_context *context = tdm_context_create(&options);
  (void)remove(path);
  if (!context) fail_msg("%s: %s", model->name, tdm_last_message());
  return context;
}

static tdm_session *session_for(const plan_model *model, tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_session_options options = {.struct_size = sizeof options, .seed = 1};
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

static void make_plan(const plan_model *model, tdm_context *context, tdm_session *session) {
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
  const tdm_status made =
      model->in_sequence
          ? run_in_sequence(session, feeds, count, &fetch)
          : tdm_session_prepare(session, feeds, count, &fetch, model->fetch != NULL, !model->fetch);
  if (made != TDM_OK) fail_msg("%s: %s", model->name, tdm_last_message());
  while (count-- > 0)
    tdm_tensor_release(feeds[count].tensor);
}

/* ---- Telling them ---- */

/* Without what differs from one machine or time to another: how long planning took, and what host
 * memory is thought to be worth. */
static void tell_line(const char *line, FILE *out) {
  const char *made = strstr(line, ", made in ");
  const char *predicted = strstr(line, ", predicted ");
  const char *end = made ? made : predicted && strstr(predicted, "(assumed)") ? predicted : NULL;
  if (!end) {
    fputs(line, out);
    return;
  }
  const char *rest = made ? "\n" : strstr(predicted, "(assumed)") + strlen("(assumed)");
  fprintf(out, "%.*s%s", (int)(end - line), line, rest);
}

static void tell_plan(tdm_session *session, FILE *out) {
  char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
  FILE *in = fmemopen(text, strlen(text), "r");
  assert_non_null(in);
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, in) > 0)
    tell_line(line, out);
  free(line);
  (void)fclose(in);
  free(text);
}

static void tell_forecast(tdm_session *session, FILE *out) {
  const tdm_forecast_options options = {.struct_size = sizeof options};
  tdm_forecast *forecast;
  assert_ok(tdm_session_forecast(session, &options, &forecast));
  fprintf(out, "a step takes %.3f us\n", forecast->step_ns / 1000);
  for (size_t i = 0; i < forecast->queue_count; i++)
    fprintf(out, "  %-24s busy %10.3f, critical %10.3f\n", forecast->queues[i].name,
            forecast->queues[i].busy_ns / 1000, forecast->queues[i].critical_ns / 1000);
  for (size_t i = 0; i < forecast->link_count; i++)
    fprintf(out, "  %-24s busy %10.3f, critical %10.3f, %.0f bytes in %u\n",
            forecast->links[i].name, forecast->links[i].busy_ns / 1000,
            forecast->links[i].critical_ns / 1000, forecast->links[i].bytes,
            forecast->links[i].copies);
  if (forecast->ranks > 1)
    fprintf(out, "  of %u ranks, %u simulated, whose gradients are summed by %s\n", forecast->ranks,
            forecast->simulated_ranks, tdm_collective_name(forecast->ranks_sum));
  tdm_forecast_release(forecast);
}

static void tell(const plan_model *model, tdm_context *context, FILE *out) {
  tdm_session *session = session_for(model, context);
  make_plan(model, context, session);
  tell_plan(session, out);
  if (model->machine) tell_forecast(session, out);
  tdm_session_release(session);
}

typedef struct job_story {
  const plan_model *model;
  FILE *of_ranks[JOB_MOST_RANKS];
} job_story;

static tdm_status tell_as_rank(job_rank *rank) {
  const job_story *story = rank->user;
  tell(story->model, rank->context, story->of_ranks[rank->rank]);
  return TDM_OK;
}

static void tell_job(const plan_model *model, FILE *out) {
  char *texts[JOB_MOST_RANKS];
  size_t bytes[JOB_MOST_RANKS];
  job_rank ranks[JOB_MOST_RANKS];
  job_story story = {.model = model};
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

static char *told(const plan_model *model) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  assert_non_null(out);
  fprintf(out, "%s\n\n", model->says);
  if (model->ranks) {
    tell_job(model, out);
  } else {
    tdm_context *context = context_for(model);
    tell(model, context, out);
    tdm_context_release(context);
  }
  assert_int_equal(fclose(out), 0);
  return text;
}

/* ---- Comparing them ---- */

static FILE *open_plan(const plan_model *model, const char *mode) {
  char path[128];
  (void)snprintf(path, sizeof path, "%s%s.txt", folder, model->name);
  FILE *file = fopen(path, mode);
  if (!file) fail_msg("%s cannot be opened: --record makes it", path);
  return file;
}

static void compare(const plan_model *model, const char *text) {
  FILE *recorded = open_plan(model, "r");
  char *line = NULL;
  size_t room = 0;
  int number = 1;
  for (ssize_t length; (length = getline(&line, &room, recorded)) > 0; number++) {
    if (strncmp(text, line, (size_t)length) != 0)
      fail_msg("%s%s.txt:%d has\n%sand the plan now has\n%.*s", folder, model->name, number, line,
               (int)strcspn(text, "\n"), text);
    text += length;
  }
  if (*text) fail_msg("%s%s.txt ends where the plan goes on:\n%s", folder, model->name, text);
  free(line);
  (void)fclose(recorded);
}

static void check(const plan_model *models, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *text = told(&models[i]);
    if (records) {
      FILE *out = open_plan(&models[i], "w");
      fputs(text, out);
      assert_int_equal(fclose(out), 0);
    } else {
      compare(&models[i], text);
    }
    free(text);
  }
}

static void plans_over_devices_in_a_row_are_as_recorded(void **unused) {
  (void)unused;
  check(plan_placed_models, plan_placed_count);
}

static void plans_over_devices_side_by_side_are_as_recorded(void **unused) {
  (void)unused;
  check(plan_parallel_models, plan_parallel_count);
}

static void plans_of_jobs_are_as_recorded(void **unused) {
  (void)unused;
  check(plan_job_models, plan_job_count);
}

int main(int argc, char **argv) {
  records = argc > 1 && strcmp(argv[1], "--record") == 0;
  if (records && chdir(getenv("BUILD_WORKSPACE_DIRECTORY")) != 0) return 1;
  /* What kernels want for themselves goes by the instruction set and the size of a team. */
  (void)setenv("TANDEM_CPU_ISA", "baseline", 1);
  (void)unsetenv("HWLOC_XMLFILE"); /* what ./run_tests has read of this machine */
  (void)setenv("HWLOC_SYNTHETIC", "Core:2 PU:1", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  (void)setenv("TANDEM_LINKS", "off", 1); /* nor by what was measured here */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans_over_devices_in_a_row_are_as_recorded),
      cmocka_unit_test(plans_over_devices_side_by_side_are_as_recorded),
      cmocka_unit_test(plans_of_jobs_are_as_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
