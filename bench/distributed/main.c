/* Training steps over the ranks of a job, or in one process. Rank 0 prints "name<TAB>number":
 *
 *     step_ns            the median
 *     sent, explained    bytes a step: what this rank's network interfaces have sent, and what the
 *                        plan says of messages (of rank 0; an engine's all-reduces are its own)
 *     idle_share         with --idle: of a core, that the process uses between steps
 *     forecast_ns        with --forecast: what a step was forecast to take, by the kernels' times
 * in these steps and the links between the ranks as they were measured told_ms            with
 * --lose: from rank 1's end to rank 0's step that fails
 *
 * --help lists the options. */
#define _GNU_SOURCE /* clock_gettime, usleep, kill */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/distributed/models.h"
#include "bench/help.h"
#include "bench/timing.h"
#include "graph/run/session.h"

enum { MOST_STEPS = 10000, LOST_MS = 3000, TRACED_STEPS = 20 };

static const char help[] =
    "distributed_rows MODEL [OPTION...]: training steps of main, cnn or balanced.\n"
    "  --replicas LIST   devices; default host:*/cpu:0\n"
    "  --alone           one replica, on cpu:0, not wrapped\n"
    "  --devices N       cpu devices of the process\n"
    "  --rows N          of a step, of all replicas together\n"
    "  --layers N        of balanced; default 8\n"
    "  --steps N         timed, after --warm N that are not\n"
    "  --depth N         steps in flight\n"
    "  --collective auto|home|chain|ring|tree|all-reduce\n"
    "  --deterministic\n"
    "  --sharding none|states|parameters   over the replicas\n"
    "  --calibrate       measure the link between the ranks first\n"
    "  --explain         print the plan, with measured times, instead\n"
    "  --forecast        print what a step was forecast to take, too\n"
    "  --queues          and of what its longest chain is made\n"
    "  --trace FILE      write the timeline of the last 20 steps; FILE.1 is that of rank 1\n"
    "  --idle SECONDS    then do nothing for so long\n"
    "  --lose killed|stopped FILE   rank 1 does that to itself behind the timed steps\n";

typedef struct options {
  model_request model;
  int devices;
  int steps;
  int warm;
  double idle_seconds;
  const char *lose;
  const char *file;
  const char *trace;
  bool calibrates;
  bool explains;
  bool forecasts;
  bool tells_queues;
} options;

/* ---- Options --------------------------------------------------------------------------------- */

static _Noreturn void refuse(const char *word) {
  fprintf(stderr, "distributed_rows: %s is not understood\n%s", word, help);
  exit(2);
}

static tdm_collective read_collective(const char *name) {
  for (int i = 0; i < TDM_COLLECTIVE_COUNT; i++)
    if (strcmp(tdm_collective_name((tdm_collective)i), name) == 0) return (tdm_collective)i;
  refuse(name);
}

static tdm_parallel_sharding read_sharding(const char *name) {
  static const char *const names[] = {"none", "states", "parameters"};
  for (int i = TDM_SHARDING_NONE; i <= TDM_SHARDING_PARAMETERS; i++)
    if (strcmp(names[i], name) == 0) return (tdm_parallel_sharding)i;
  refuse(name);
}

/* Reads an option without a value. Returns false if word is no such option. */
static bool read_flag(const char *word, options *out) {
  if (strcmp(word, "--alone") == 0) return out->model.replicas = NULL, true;
  if (strcmp(word, "--deterministic") == 0) return out->model.deterministic = true;
  if (strcmp(word, "--calibrate") == 0) return out->calibrates = true;
  if (strcmp(word, "--explain") == 0) return out->explains = out->model.profile = true;
  if (strcmp(word, "--forecast") == 0) return out->forecasts = out->model.profile = true;
  if (strcmp(word, "--queues") == 0) return out->tells_queues = true;
  return false;
}

static void read_option(const char *word, const char *value, options *out) {
  if (strcmp(word, "--replicas") == 0)
    out->model.replicas = value;
  else if (strcmp(word, "--devices") == 0)
    out->devices = atoi(value);
  else if (strcmp(word, "--rows") == 0)
    out->model.rows = atoi(value);
  else if (strcmp(word, "--layers") == 0)
    out->model.layers = atoi(value);
  else if (strcmp(word, "--steps") == 0)
    out->steps = atoi(value);
  else if (strcmp(word, "--warm") == 0)
    out->warm = atoi(value);
  else if (strcmp(word, "--depth") == 0)
    out->model.depth = atoi(value);
  else if (strcmp(word, "--idle") == 0)
    out->idle_seconds = atof(value);
  else if (strcmp(word, "--sharding") == 0)
    out->model.sharding = read_sharding(value);
  else if (strcmp(word, "--trace") == 0)
    out->trace = value, out->model.trace_runs = TRACED_STEPS;
  else if (strcmp(word, "--collective") == 0)
    out->model.collective = read_collective(value);
  else
    refuse(word);
}

static options read_options(int count, char **words) {
  options read = {.model = {.name = words[1], .replicas = "host:*/cpu:0", .depth = 1},
                  .devices = 1,
                  .steps = 50,
                  .warm = 5};
  if (count < 2 || !model_is_known(words[1])) refuse(count < 2 ? "nothing" : words[1]);
  for (int i = 2; i < count; i++) {
    if (read_flag(words[i], &read)) continue;
    if (i + 2 < count && strcmp(words[i], "--lose") == 0) {
      read.lose = words[++i];
      read.file = words[++i];
      continue;
    }
    if (i + 1 == count) refuse(words[i]);
    read_option(words[i], words[i + 1], &read);
    i++;
  }
  if (read.steps < 1 || read.steps > MOST_STEPS) refuse("--steps");
  return read;
}

/* ---- What is counted ------------------------------------------------------------------------- */

/* Returns the bytes that the interfaces of this network namespace have sent, except loopback. */
static double interface_bytes(void) {
  char line[512];
  uint64_t sum = 0;
  FILE *file = fopen("/proc/self/net/dev", "r");
  while (file && fgets(line, sizeof line, file)) {
    char name[64];
    uint64_t sent = 0;
    if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %" SCNu64, name, &sent) == 2 &&
        strcmp(name, "lo") != 0)
      sum += sent;
  }
  if (file) (void)fclose(file);
  return (double)sum;
}

static double used_seconds(void) {
  struct rusage used;
  (void)getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void time_steps(opened_model *model, const options *asked, bool prints) {
  static double samples[MOST_STEPS];
  for (int i = 0; i < asked->warm; i++)
    bench_check(model_train(model), "a step");
  const double before = interface_bytes();
  for (int i = 0; i < asked->steps; i++) {
    const uint64_t began_ns = bench_now_ns();
    bench_check(model_train(model), "a step");
    samples[i] = (double)(bench_now_ns() - began_ns);
  }
  if (!prints) return;
  bench_print("sent", (interface_bytes() - before) / asked->steps);
  bench_print("explained", (double)model->session->newest->network.sent_bytes);
  bench_print("step_ns", bench_median(samples, (size_t)asked->steps));
}

/* All ranks call it. */
static void forecast(tdm_context *context, const opened_model *model, const options *asked,
                     bool prints) {
  tdm_costs *costs = tdm_costs_create(context);
  if (!costs) bench_fail("costs");
  bench_check(tdm_costs_learn(costs, model->session, false), "learning costs");
  tdm_forecast_options known = tdm_forecast_options_default();
  known.costs = costs;
  tdm_forecast *made;
  bench_check(tdm_session_forecast(model->session, &known, &made), "a forecast");
  if (prints) bench_print("forecast_ns", made->step_ns);
  for (size_t i = 0; i < made->queue_count && prints && asked->tells_queues; i++)
    printf("%s: busy %.0f us, of the longest chain %.0f us\n", made->queues[i].name,
           made->queues[i].busy_ns / 1e3, made->queues[i].critical_ns / 1e3);
  tdm_forecast_release(made);
  tdm_costs_release(costs);
}

static void write_trace(const opened_model *model, const char *path, int rank) {
  char name[PATH_MAX];
  (void)snprintf(name, sizeof name, rank == 0 ? "%s" : "%s.%d", path, rank);
  FILE *file = fopen(name, "w");
  if (!file) bench_fail(name);
  bench_check(tdm_session_trace(model->session, TDM_TRACE_CHROME, file), "a timeline");
  if (fclose(file) != 0) bench_fail(name);
}

static void idle(const options *asked, bool prints) {
  if (!(asked->idle_seconds > 0)) return;
  (void)usleep(100000); /* time for running threads to go to sleep */
  const double before = used_seconds();
  const uint64_t began_ns = bench_now_ns();
  (void)usleep((useconds_t)(asked->idle_seconds * 1e6));
  const double share = (used_seconds() - before) / ((double)(bench_now_ns() - began_ns) / 1e9);
  if (prints) printf("idle_share\t%.5f\n", share);
}

/* ---- A rank that is lost --------------------------------------------------------------------- */

static double wall_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Notes when, and is killed or stopped; what is stopped is ended later, so that the launcher can
 * end. */
static void end_oneself(const options *asked) {
  const pid_t self = getpid();
  const bool stops = strcmp(asked->lose, "stopped") == 0;
  if (stops && fork() == 0) {
    (void)usleep(LOST_MS * 1000);
    (void)kill(self, SIGKILL);
    _exit(0);
  }
  FILE *file = fopen(asked->file, "w");
  if (file) {
    fprintf(file, "%.3f\n", wall_ms());
    (void)fclose(file);
  }
  (void)kill(self, stops ? SIGSTOP : SIGKILL);
}

static void lose(opened_model *model, const options *asked, int rank) {
  if (rank == 1) end_oneself(asked);
  tdm_status status = TDM_OK;
  while (status == TDM_OK)
    status = model_train(model);
  const double told_ms = wall_ms();
  double lost_ms = 0;
  FILE *file = fopen(asked->file, "r");
  if (!file || fscanf(file, "%lf", &lost_ms) != 1) bench_fail("rank 1 has left no word");
  (void)fclose(file);
  printf("told_ms\t%.1f\nwhy\t%s\n", told_ms - lost_ms, tdm_last_message());
  fflush(stdout);
}

int main(int count, char **words) {
  bench_help(count, words, help);
  options asked = read_options(count, words);
  tdm_context_options known = tdm_context_options_default();
  known.cpu_devices = asked.devices;
  tdm_context *context = tdm_context_create(&known);
  if (!context) bench_fail("a context");
  const int rank = tdm_context_rank(context);
  if (asked.calibrates) bench_check(tdm_context_calibrate(context, NULL), "calibrating");
  opened_model model = model_open(context, &asked.model);
  time_steps(&model, &asked, rank == 0);
  if (asked.explains && rank == 0)
    bench_check(tdm_session_explain(model.session, TDM_PLAN_TEXT, stdout), "explaining");
  if (asked.forecasts) forecast(context, &model, &asked, rank == 0);
  if (asked.trace) write_trace(&model, asked.trace, rank);
  idle(&asked, rank == 0);
  if (asked.lose) lose(&model, &asked, rank);
  model_close(&model);
  tdm_context_release(context);
  return 0;
}
