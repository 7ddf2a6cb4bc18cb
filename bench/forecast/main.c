/* Compares forecasts with measurements: training steps of three models on two one-core CPU devices,
 * each wrapped over both and placed on both. Kernel times are measured without the forecast plan:
 * with the same chunks on only one device, and on both devices at once with a model each. Links are
 * calibrated first. Prints medians in milliseconds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/help.h"
#include "bench/timing.h"
#include "tools/forecast/models.h"

enum {
  ROUNDS = 5,
  LEAST_STEPS = 33,
  MOST_STEPS = 400,
  WARM_STEPS = 3,
  BLOCK_MS = 200,
  MOST_TRIES = 200,
  CLOCK_TICK_MS = 10
};
/* Share of one core that other programs may use during a block. */
static const double QUIET_SHARE = 0.05;

typedef struct subject {
  const char *model;
  int64_t batch;
  bool wrapped; /* true: replicated on both devices; false: front and body on one device each */
} subject;

static const subject subjects[] = {
    {"main", 256, true}, {"main", 256, false},      {"mlp", 256, true},
    {"mlp", 256, false}, {"embedding", 1024, true}, {"embedding", 1024, false},
};

static void train(opened_model *model, int steps) {
  for (int i = 0; i < steps; i++)
    if (model_train(model) != TDM_OK) bench_fail("a step");
}

static opened_model open_or_fail(tdm_context *context, const model_request *request) {
  opened_model model;
  if (model_open(context, request, &model) != TDM_OK) bench_fail(request->name);
  return model;
}

/* ---- Learning -------------------------------------------------------------------------------- */

/* Opens the model with all its chunks on one device. */
static opened_model open_on_one(tdm_context *context, const subject *asked, int device) {
  static const char *const devices[] = {"cpu:0", "cpu:1"};
  static const char *const lists[] = {"cpu:0,cpu:0", "cpu:1,cpu:1"};
  const model_request request = {.name = asked->model,
                                 .front = devices[device],
                                 .body = devices[device],
                                 .replicas = asked->wrapped ? lists[device] : NULL,
                                 .batch = asked->batch,
                                 .profile = true};
  return open_or_fail(context, &request);
}

typedef struct helper {
  opened_model *model;
  int steps;
} helper;

static void *train_beside(void *user) {
  const helper *mine = user;
  train(mine->model, mine->steps);
  return NULL;
}

/* Steps of both models at the same time. */
static void train_both(opened_model *one, opened_model *other, int steps) {
  pthread_t thread;
  helper beside = {other, steps};
  if (pthread_create(&thread, NULL, train_beside, &beside) != 0) bench_fail("a thread");
  train(one, steps);
  (void)pthread_join(thread, NULL);
}

/* ---- Judging --------------------------------------------------------------------------------- */

/* The models of one subject: the one whose forecast is compared, and those that kernel times are
 * measured with. */
typedef struct group {
  opened_model judged;
  opened_model alone;
  opened_model beside[2];
  int steps; /* steps in a block */
} group;

static void open_group(tdm_context *context, const subject *asked, group *models) {
  const model_request request = {.name = asked->model,
                                 .front = "cpu:0",
                                 .body = asked->wrapped ? "cpu:0" : "cpu:1",
                                 .replicas = asked->wrapped ? "cpu:0,cpu:1" : NULL,
                                 .batch = asked->batch};
  models->judged = open_or_fail(context, &request);
  models->alone = open_on_one(context, asked, 0);
  models->beside[0] = open_on_one(context, asked, 0);
  models->beside[1] = open_on_one(context, asked, 1);
}

static void close_group(group *models) {
  model_close(&models->judged);
  model_close(&models->alone);
  model_close(&models->beside[0]);
  model_close(&models->beside[1]);
}

/* Seconds that all processes of the machine have computed (proc(5)), less our own. */
static double others_seconds(void) {
  double user = 0;
  double nice = 0;
  double system = 0;
  FILE *file = fopen("/proc/stat", "r");
  const int found = file ? fscanf(file, "cpu %lf %lf %lf", &user, &nice, &system) : 0;
  if (file) (void)fclose(file);
  struct rusage mine;
  (void)getrusage(RUSAGE_SELF, &mine);
  const double own = (double)(mine.ru_utime.tv_sec + mine.ru_stime.tv_sec) +
                     (double)(mine.ru_utime.tv_usec + mine.ru_stime.tv_usec) / 1e6;
  return found == 3 ? (user + nice + system) / (double)sysconf(_SC_CLK_TCK) - own : 0;
}

/* One part of a round. */
typedef double (*block_function)(group *models);

static double block_alone(group *models) {
  train(&models->alone, models->steps);
  return 0;
}

static double block_beside(group *models) {
  train_both(&models->beside[0], &models->beside[1], models->steps);
  return 0;
}

/* Returns the median in ms. */
static double block_judged(group *models) {
  double samples_ms[MOST_STEPS];
  train(&models->judged, WARM_STEPS);
  for (int i = 0; i < models->steps; i++) {
    const double began_ms = bench_now_ms();
    train(&models->judged, 1);
    samples_ms[i] = bench_now_ms() - began_ms;
  }
  return bench_median(samples_ms, (size_t)models->steps);
}

/* Does it again while other programs compute meanwhile: a step over all cores waits for the one
 * that they take. A block fills what a session remembers of its latest runs. */
static double in_quiet(group *models, block_function block, int *tries) {
  for (;;) {
    const double began_ms = bench_now_ms();
    const double others_before = others_seconds();
    const double answer = block(models);
    const double others_ms = 1e3 * (others_seconds() - others_before);
    if (others_ms <= CLOCK_TICK_MS + QUIET_SHARE * (bench_now_ms() - began_ms)) return answer;
    if (++*tries == MOST_TRIES) bench_fail("other programs were computing all the time");
  }
}

typedef struct verdict {
  double forecast_ms;
  double measured_ms;
} verdict;

static int compare_ratios(const void *a, const void *b) {
  const double left = ((const verdict *)a)->forecast_ms / ((const verdict *)a)->measured_ms;
  const double right = ((const verdict *)b)->forecast_ms / ((const verdict *)b)->measured_ms;
  return (left > right) - (left < right);
}

static void print_details(const tdm_forecast *forecast) {
  for (size_t i = 0; i < forecast->queue_count; i++)
    printf("    %-28s busy %8.3f ms, %8.3f of the longest chain\n", forecast->queues[i].name,
           forecast->queues[i].busy_ns / 1e6, forecast->queues[i].critical_ns / 1e6);
  for (size_t i = 0; i < forecast->link_count; i++)
    printf("    %-28s %.0f bytes, busy %8.3f ms, %8.3f of the longest chain\n",
           forecast->links[i].name, forecast->links[i].bytes, forecast->links[i].busy_ns / 1e6,
           forecast->links[i].critical_ns / 1e6);
}

static verdict judge_once(tdm_context *context, group *models, bool details, int *tries) {
  tdm_costs *costs = tdm_costs_create(context);
  (void)in_quiet(models, block_alone, tries);
  if (tdm_costs_learn(costs, models->alone.session, false) != TDM_OK) bench_fail("learning");
  (void)in_quiet(models, block_beside, tries);
  if (tdm_costs_learn(costs, models->beside[0].session, true) != TDM_OK) bench_fail("learning");
  verdict found = {.measured_ms = in_quiet(models, block_judged, tries)};
  tdm_forecast_options options = tdm_forecast_options_default();
  options.costs = costs;
  tdm_forecast *forecast;
  if (tdm_session_forecast(models->judged.session, &options, &forecast) != TDM_OK)
    bench_fail("forecasting");
  found.forecast_ms = forecast->step_ns / 1e6;
  if (details) print_details(forecast);
  tdm_forecast_release(forecast);
  tdm_costs_release(costs);
  return found;
}

static void judge(tdm_context *context, const subject *asked, bool details) {
  group models;
  open_group(context, asked, &models);
  train(&models.judged, WARM_STEPS);
  const double began_ms = bench_now_ms();
  train(&models.alone, WARM_STEPS);
  const int steps = (int)(BLOCK_MS * WARM_STEPS / (bench_now_ms() - began_ms));
  models.steps = steps < LEAST_STEPS ? LEAST_STEPS : steps > MOST_STEPS ? MOST_STEPS : steps;
  train_both(&models.beside[0], &models.beside[1], WARM_STEPS);
  verdict verdicts[ROUNDS];
  int tries = 0;
  for (int round = 0; round < ROUNDS; round++)
    verdicts[round] = judge_once(context, &models, details && round == 0, &tries);
  qsort(verdicts, ROUNDS, sizeof *verdicts, compare_ratios);
  const verdict *middle = &verdicts[ROUNDS / 2];
  printf("%-10s %6lld  %-8s %12.3f %12.3f %8.3f %7.3f to %.3f %7d\n", asked->model,
         (long long)asked->batch, asked->wrapped ? "wrapped" : "placed", middle->forecast_ms,
         middle->measured_ms, middle->forecast_ms / middle->measured_ms,
         verdicts[0].forecast_ms / verdicts[0].measured_ms,
         verdicts[ROUNDS - 1].forecast_ms / verdicts[ROUNDS - 1].measured_ms, tries);
  fflush(stdout);
  close_group(&models);
}

int main(int argc, char **argv) {
  bench_help(argc, argv,
             "forecast [MODEL] [--details]: forecasts of training steps beside measurements.\n");
  bool details = false;
  const char *only = NULL; /* name of the only model that is measured; NULL: all */
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--details") == 0)
      details = true;
    else
      only = argv[i];
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 2;
  (void)setenv("TANDEM_LINKS", "off", 1); /* measured links are not stored */
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("context");
  if (tdm_context_calibrate(context, NULL) != TDM_OK)
    fprintf(stderr, "forecast: %s\n", tdm_last_message());
  printf("%-10s %6s  %-8s %12s %12s %8s %7s    %5s %7s\n", "model", "batch", "how", "forecast ms",
         "measured ms", "ratio", "least", "most", "again");
  for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
    if (!only || strcmp(only, subjects[i].model) == 0) judge(context, &subjects[i], details);
  tdm_context_release(context);
  return 0;
}
