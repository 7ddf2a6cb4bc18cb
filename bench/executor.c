/* Measures the executor without kernels: handover between two busy cpu devices, an idle context,
 * and a team of threads with another busy thread on one of its cores. Prints a line for each. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/help.h"
#include "devices/host/team.h"
#include "tests/devices/support.h"

enum { RUNS = 1000, ROUNDS = 5 };

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
  qsort(values, count, sizeof *values, compare);
  return values[count / 2];
}

/* ---- Handing over ---------------------------------------------------------------------------- */

static tdm_status do_nothing(const tdm_kernel_call *call) {
  (void)call;
  return TDM_OK;
}

static const tdm_kernel nothing = {.struct_size = sizeof(tdm_kernel),
                                   .operation = "nothing",
                                   .executes = "cpu",
                                   .dtype = TDM_INT64,
                                   .execute = do_nothing};

/* A run whose commands go to and fro between cpu:0 and cpu:1. */
static double run_of_hops_ns(tdm_context *context, int hops) {
  static double times[RUNS];
  test_flight *test = test_flight_create(context);
  uint32_t programs[2];
  uint32_t outs[2];
  for (int d = 0; d < 2; d++) {
    tdm_device *device = test_device(context, d == 0 ? "cpu:0" : "cpu:1");
    programs[d] = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
    outs[d] = test_base(test, device, 8, 0);
  }
  const tdm_command *last = test_execute(test, programs[0], &nothing, outs[0], NULL, 0, 0);
  for (int i = 1; i <= hops; i++) {
    test_wait(test, programs[i % 2], last);
    last = test_execute(test, programs[i % 2], &nothing, outs[i % 2], NULL, 0, 0);
  }
  for (int i = 0; i < RUNS; i++) {
    const uint64_t begin_ns = tdm_time_ns();
    tdm_flight_reset(&test->flight, test->id_count);
    atomic_store(&test->settled_count, 0);
    assert_ok(
        tdm_context_submit(context, &test->flight, test->submissions, test->program_count, false));
    test_join(test); /* parked: both cores are the workers' */
    times[i] = (double)(tdm_time_ns() - begin_ns);
  }
  test_flight_destroy(test);
  return median(times, RUNS);
}

static void measure_hand_over(tdm_context *context) {
  double figures[ROUNDS];
  for (int round = 0; round < ROUNDS; round++)
    figures[round] = (run_of_hops_ns(context, 84) - run_of_hops_ns(context, 4)) / 80;
  printf("hand-over between cpu:0 and cpu:1, both busy   %8.1f ns\n", median(figures, ROUNDS));
}

/* ---- An idle context ------------------------------------------------------------------------- */

static double cpu_seconds(void) {
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void measure_idle(void) {
  usleep(50000); /* time for spinning threads to park */
  const double before_seconds = cpu_seconds();
  const uint64_t begin_ns = tdm_time_ns();
  usleep(4000000);
  const double wall_seconds = (double)(tdm_time_ns() - begin_ns) / 1e9;
  printf("an idle context                                %8.4f %% of a core\n",
         (cpu_seconds() - before_seconds) / wall_seconds * 100);
}

/* ---- A busy neighbour ------------------------------------------------------------------------ */

static void *burn(void *user) {
  _Atomic bool *stop = user;
  while (!atomic_load_explicit(stop, memory_order_relaxed))
    tdm_spin_pause();
  return NULL;
}

static volatile double sink[64 * 8]; /* a line a range, so that ranges share none */

static void work(void *user, int64_t begin, int64_t end) {
  (void)user;
  double sum = 0;
  for (int64_t i = begin; i < end; i++)
    for (int k = 0; k < 100; k++)
      sum = sum * 0.999 + (double)(i ^ k);
  sink[begin % 64 * 8] = sum;
}

/* Regions a second for half a second. */
static double regions_per_second(tdm_team *team, int64_t count) {
  const uint64_t begin_ns = tdm_time_ns();
  uint64_t now_ns = begin_ns;
  int regions = 0;
  for (; now_ns - begin_ns < 500000000; regions++, now_ns = tdm_time_ns())
    tdm_team_run(team, count, 16, work, NULL);
  return regions / ((double)(now_ns - begin_ns) / 1e9);
}

static void measure_team(tdm_team *team, int64_t count, bool neighbour) {
  _Atomic bool stop = false;
  pthread_t thread;
  double ratios[ROUNDS];
  double region_us = 0;
  if (neighbour && pthread_create(&thread, NULL, burn, &stop) != 0) exit(1);
  for (int round = 0; round < ROUNDS; round++) {
    const double alone = regions_per_second(NULL, count);
    region_us = 1e6 / alone;
    ratios[round] = regions_per_second(team, count) / alone;
  }
  atomic_store(&stop, true);
  if (neighbour) (void)pthread_join(thread, NULL);
  const double least = (qsort(ratios, ROUNDS, sizeof *ratios, compare), ratios[0]);
  printf("team of 2, %-15s regions of %6.0f us    %8.2f x one thread (least %.2f)\n",
         neighbour ? "busy neighbour," : "quiet,", region_us, ratios[ROUNDS / 2], least);
}

static void measure_teams(void) {
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_team *team = NULL;
  assert_ok(tdm_team_create(&allocator, NULL, NULL, 2, &team));
  static const int64_t counts[] = {400, 2000, 20000};
  for (int neighbour = 0; neighbour < 2; neighbour++)
    for (size_t i = 0; i < TDM_COUNT_OF(counts); i++)
      measure_team(team, counts[i], neighbour == 1);
  tdm_team_destroy(team);
}

/* `executor hand-over`, `idle`, `team`; nothing: all of it. */
int main(int argc, char **argv) {
  bench_help(argc, argv,
             "executor [hand-over] [idle] [team]: what the executor promises beside kernels, a\n"
             "line each; without a word all of them.\n");
  const char *only = argc > 1 ? argv[1] : "hand-over idle team";
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = 2;
  tdm_context *context = tdm_context_create(&options);
  if (!context || tdm_context_start(context) != TDM_OK) {
    fprintf(stderr, "%s\n", tdm_last_message());
    return 1;
  }
  if (strstr(only, "hand-over")) measure_hand_over(context);
  if (strstr(only, "idle")) measure_idle();
  tdm_context_release(context);
  if (strstr(only, "team")) measure_teams();
  return 0;
}
