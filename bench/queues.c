/* Measures the time of one run without work, for each way of submitting it. Prints medians of many
 * runs, in nanoseconds. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/help.h"
#include "tests/devices/support.h"

enum { RUNS = 4000 };

static tdm_status do_nothing(const tdm_kernel_call *call) {
  (void)call;
  return TDM_OK;
}

static const tdm_kernel nothing = {.struct_size = sizeof(tdm_kernel),
                                   .operation = "nothing",
                                   .executes = "cpu",
                                   .dtype = TDM_INT64,
                                   .execute = do_nothing};

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a;
  const uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Blocks as tdm_run does: spins for a while, then parks. */
static void join(test_flight *test) {
  for (int i = 0; i < 2000; i++) {
    if (atomic_load(&test->settled_count) != 0) return;
    if (i < 100) {
      tdm_spin_pause();
    } else {
      (void)sched_yield();
    }
  }
  test_join(test);
}

static double median_run_ns(test_flight *test, bool adopt) {
  static uint64_t times[RUNS];
  for (int i = 0; i < RUNS; i++) {
    const uint64_t begin = tdm_time_ns();
    tdm_flight_reset(&test->flight, test->id_count);
    atomic_store(&test->settled_count, 0);
    assert_ok(tdm_context_submit(test->context, &test->flight, test->submissions,
                                 test->program_count, adopt));
    join(test);
    times[i] = tdm_time_ns() - begin;
  }
  qsort(times, RUNS, sizeof times[0], compare);
  const uint64_t median = times[RUNS / 2];
  return (double)median;
}

static void one_queue(tdm_context *context, const char *name, int commands, bool adopt) {
  test_flight *test = test_flight_create(context);
  tdm_device *device = test_device(context, name);
  const uint32_t out = test_base(test, device, 10, 0);
  const uint32_t ins[3] = {test_base(test, device, 10, 0), test_base(test, device, 10, 0),
                           test_base(test, device, 10, 0)};
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  for (int i = 0; i < commands; i++)
    test_execute(test, program, &nothing, out, ins, 3, 0);
  const double ns = median_run_ns(test, adopt);
  printf("%-6s %3d commands  %-8s %8.0f ns a run, %6.1f a command\n", name, commands,
         adopt ? "adopted" : "handed", ns, ns / commands);
  test_flight_destroy(test);
}

/* cpu:0 -> sim:0 -> cpu:0, as a mixed model's forward pass. */
static void mixed(tdm_context *context, bool adopt) {
  test_flight *test = test_flight_create(context);
  tdm_device *cpu = test_device(context, "cpu:0");
  tdm_device *sim = test_device(context, "sim:0");
  const uint32_t here = test_base(test, cpu, 300, 0);
  const uint32_t there = test_base(test, sim, 300, 0);
  const uint32_t compute = test_program(test, cpu->queues[TDM_QUEUE_COMPUTE]);
  const uint32_t upload = test_program(test, sim->queues[TDM_QUEUE_UPLOAD]);
  const uint32_t remote = test_program(test, sim->queues[TDM_QUEUE_COMPUTE]);
  const uint32_t download = test_program(test, sim->queues[TDM_QUEUE_DOWNLOAD]);
  const tdm_command *last = test_execute(test, compute, &nothing, here, NULL, 0, 0);
  test_wait(test, upload, last);
  last = test_copy(test, upload, here, there);
  test_wait(test, remote, last);
  last = test_execute(test, remote, &nothing, there, NULL, 0, 0);
  test_wait(test, download, last);
  test_copy(test, download, there, here);
  printf("cpu:0 -> sim:0 -> cpu:0    %-8s %8.0f ns a run\n", adopt ? "adopted" : "handed",
         median_run_ns(test, adopt));
  test_flight_destroy(test);
}

int main(int argc, char **argv) {
  bench_help(argc, argv,
             "queues: nanoseconds of a run with no work in it, for each way that it can go.\n");
  tdm_context_options options = tdm_context_options_default();
  options.sim_devices = 1;
  options.sim = "latency_us=0,gigabytes_per_second=0";
  tdm_context *context = tdm_context_create(&options);
  if (!context || tdm_context_start(context) != TDM_OK) {
    fprintf(stderr, "%s\n", tdm_last_message());
    return 1;
  }
  for (int adopt = 1; adopt >= 0; adopt--) {
    one_queue(context, "cpu:0", 1, adopt == 1);
    one_queue(context, "cpu:0", 50, adopt == 1);
  }
  one_queue(context, "sim:0", 1, false);
  one_queue(context, "sim:0", 50, false);
  mixed(context, true);
  mixed(context, false);
  tdm_context_release(context);
  return 0;
}
