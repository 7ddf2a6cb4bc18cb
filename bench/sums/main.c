/* Compares the algorithms for sums over devices by forecasts of training steps, on described
 * machines and for gradients of 1 KiB to 1 GiB. Each device has one row, so that little hides the
 * sums. An algorithm wins a case if its step is at least 10 % shorter than that of any other
 * candidate. There are three sets of candidates: those in the order of replicas, all that need no
 * engine, and all. Several machines always have an engine, that of the job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/help.h"
#include "bench/timing.h"

enum { ALGORITHMS = TDM_COLLECTIVE_COUNT, MOST_DEVICES = 16, TEXT_BYTES = 1024 };

static const double WIN = 1.1;

/* Ports of a machine: GB/s each way and latencies in us. */
typedef struct machine {
  const char *name;
  int hosts, devices_per_host;
  double peer, peer_us; /* 0: copies between devices of a host pass through it */
  double host, host_us;
  int sharing;
  double network, network_us;
} machine;

/* A second socket is described as another host, connected by the processors' links. */
static const machine machines[] = {
    {"2 GPUs, NVLink", 1, 2, 450, 2, 64, 8, 1, 0, 0},
    {"4 GPUs, NVLink", 1, 4, 450, 2, 64, 8, 1, 0, 0},
    {"8 GPUs, NVLink", 1, 8, 450, 2, 64, 8, 1, 0, 0},
    {"2 GPUs, PCIe peers", 1, 2, 25, 5, 25, 8, 1, 0, 0},
    {"4 GPUs, PCIe peers", 1, 4, 25, 5, 25, 8, 1, 0, 0},
    {"8 GPUs, PCIe peers", 1, 8, 25, 5, 25, 8, 1, 0, 0},
    {"2 GPUs, PCIe through host", 1, 2, 0, 0, 25, 8, 1, 0, 0},
    {"4 GPUs, PCIe through host", 1, 4, 0, 0, 25, 8, 1, 0, 0},
    {"8 GPUs, PCIe through host", 1, 8, 0, 0, 25, 8, 2, 0, 0},
    {"2 sockets of 2 GPUs", 2, 2, 25, 5, 25, 8, 1, 20, 1},
    {"2 sockets of 4 GPUs", 2, 4, 25, 5, 25, 8, 1, 20, 1},
    {"2 machines, 10 Gb/s", 2, 1, 0, 0, 25, 8, 1, 1.25, 30},
    {"4 machines, 10 Gb/s", 4, 1, 0, 0, 25, 8, 1, 1.25, 30},
    {"16 machines, 10 Gb/s", 16, 1, 0, 0, 25, 8, 1, 1.25, 30},
    {"2 machines, 25 Gb/s", 2, 1, 0, 0, 25, 8, 1, 3.125, 20},
    {"8 machines, 25 Gb/s", 8, 1, 0, 0, 25, 8, 1, 3.125, 20},
    {"16 machines, 25 Gb/s", 16, 1, 0, 0, 25, 8, 1, 3.125, 20},
    {"2 machines, 100 Gb/s", 2, 1, 0, 0, 25, 8, 1, 12.5, 5},
    {"8 machines, 100 Gb/s", 8, 1, 0, 0, 25, 8, 1, 12.5, 5},
    {"16 machines, 100 Gb/s", 16, 1, 0, 0, 25, 8, 1, 12.5, 5},
    {"2 machines, 400 Gb/s", 2, 1, 0, 0, 50, 8, 1, 50, 3},
    {"16 machines, 400 Gb/s", 16, 1, 0, 0, 50, 8, 1, 50, 3},
    {"2 machines of 8 GPUs, 400 Gb/s", 2, 8, 450, 2, 50, 8, 1, 50, 3},
};

static const int64_t widths[] = {16, 64, 256, 1024, 4096, 16384}; /* 1 KiB to 1 GiB of float32 */
static const int depths[] = {1, 16};

/* The sets of candidates: from TDM_COLLECTIVE_HOME to the last one. */
enum { SETS = 3 };
static const tdm_collective last_of[SETS] = {TDM_COLLECTIVE_CHAIN, TDM_COLLECTIVE_TREE,
                                             TDM_COLLECTIVE_ALL_REDUCE};

typedef struct result {
  int wins;
  double largest; /* the runner-up's time divided by this one's */
  char where[80];
} result;

static tdm_context *open_context(const machine *of) {
  char text[TEXT_BYTES];
  int length = snprintf(
      text, sizeof text,
      "{\"title\": \"%s\", \"sources\": [\"assumptions of a usual order\"], \"hosts\": %d, "
      "\"devices_per_host\": %d, \"device\": {\"model\": \"gpu\", \"flops_per_second\": "
      "{\"float32\": 5e13}, \"memory_bytes_per_second\": 2e12, \"launch_us\": 4}, \"host_link\": "
      "{\"latency_us\": %g, \"bytes_per_second\": %ge9, \"sharing\": %d}",
      of->name, of->hosts, of->devices_per_host, of->host_us, of->host, of->sharing);
  if (of->peer > 0)
    length += snprintf(text + length, sizeof text - (size_t)length,
                       ", \"peer\": {\"latency_us\": %g, \"bytes_per_second\": %ge9}", of->peer_us,
                       of->peer);
  if (of->network > 0)
    length += snprintf(text + length, sizeof text - (size_t)length,
                       ", \"network\": {\"latency_us\": %g, \"bytes_per_second\": %ge9}",
                       of->network_us, of->network);
  char path[] = "/tmp/sums-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || write(file, text, (size_t)length) != length || write(file, "}", 1) != 1)
    bench_fail("the description of a machine");
  (void)close(file);
  tdm_context_options options = tdm_context_options_default();
  options.machine = path;
  tdm_context *context = tdm_context_create(&options);
  (void)unlink(path);
  if (!context) bench_fail("the context");
  return context;
}

static tdm_value describe(tdm_graph *graph, int devices, int64_t width, int depth) {
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), width);
  tdm_place(graph, "paper:0");
  tdm_value value = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "deep");
  for (int i = 0; i < depth; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    value = tdm_linear_without_bias(graph, name, value, width);
  }
  const tdm_value loss = tdm_mean(graph, "loss", value, NULL, 0, false);
  tdm_scope_pop(graph);
  if (devices == 1) return loss;
  char list[MOST_DEVICES * 9] = "";
  for (int d = 0; d < devices; d++)
    (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%spaper:%d", d ? "," : "", d);
  tdm_parallel_options region = tdm_parallel_options_default();
  region.devices = list;
  tdm_data_parallel(graph, "deep", &region);
  return loss;
}

/* Returns the forecast of a step in us. An all-reduce is forecast as that of one rank per device,
 * because a described machine has no engine. */
static double step_us(tdm_context *context, int devices, int64_t width, int depth,
                      tdm_collective algorithm) {
  const bool ranks = algorithm == TDM_COLLECTIVE_ALL_REDUCE;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = describe(graph, ranks ? 1 : devices, width, depth);
  options.optimizer = &optimizer;
  if (ranks)
    options.alike_ranks = devices;
  else
    options.collective = algorithm;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) bench_fail("a session");
  tdm_graph_release(graph);
  const tdm_shape shape = tdm_shape_of(2, ranks ? 1 : devices, width);
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, shape);
  const tdm_feed feed = {.name = "x", .tensor = x};
  bench_check(tdm_session_prepare(session, &feed, 1, NULL, 0, true), "a plan");
  tdm_forecast *forecast = NULL;
  bench_check(tdm_session_forecast(session, NULL, &forecast), "a forecast");
  const double us = forecast->step_ns / 1e3;
  tdm_forecast_release(forecast);
  tdm_tensor_release(x);
  tdm_session_release(session);
  return us;
}

/* Returns the time of the fastest other candidate divided by that of `of`. */
static double win_of(const double *us, int of, tdm_collective last) {
  double other = 0;
  for (int a = TDM_COLLECTIVE_HOME; a <= (int)last; a++)
    if (a != of && (other == 0 || us[a] < other)) other = us[a];
  return other / us[of];
}

static void note_wins(const double *us, int set, const char *name, result *results) {
  for (int a = TDM_COLLECTIVE_HOME; a <= (int)last_of[set]; a++) {
    const double win = win_of(us, a, last_of[set]);
    if (win < WIN) continue;
    results[a].wins++;
    printf("  %s %.2f", tdm_collective_name((tdm_collective)a), win);
    if (win <= results[a].largest) continue;
    results[a].largest = win;
    (void)snprintf(results[a].where, sizeof results[a].where, "%s", name);
  }
}

static void compare(tdm_context *context, const machine *of, int64_t width, int depth,
                    result results[SETS][ALGORITHMS]) {
  double us[ALGORITHMS];
  char name[80];
  (void)snprintf(name, sizeof name, "%-30s %2d of %7" PRId64 " KiB", of->name, depth,
                 width * width * 4 / 1024);
  printf("%s", name);
  for (int a = 0; a < ALGORITHMS; a++) {
    us[a] = step_us(context, of->hosts * of->devices_per_host, width, depth, (tdm_collective)a);
    printf(" %11.1f", us[a]);
  }
  for (int set = 0; set < SETS; set++) {
    printf("  |");
    if (set != 1 || of->network_us <= 1) note_wins(us, set, name, results[set]);
  }
  printf("\n");
}

static void print_results(result results[SETS][ALGORITHMS]) {
  static const char *const names[SETS] = {"in the order of replicas", "without an engine", "all"};
  for (int set = 0; set < SETS; set++) {
    printf("\ncandidates: %s\n", names[set]);
    for (int a = TDM_COLLECTIVE_HOME; a <= (int)last_of[set]; a++) {
      const result *of = &results[set][a];
      printf("  %-10s wins %3d times", tdm_collective_name((tdm_collective)a), of->wins);
      if (of->wins > 0) printf(", at most by %.2f: %s", of->largest, of->where);
      printf("\n");
    }
  }
}

int main(int argc, char **argv) {
  bench_help(argc, argv,
             "bazel run //bench:sums\n\n"
             "Forecasts of training steps on described machines, in us, by algorithm for sums of\n"
             "gradients and size of a gradient; and where each algorithm wins by at least 10 %.\n");
  result results[SETS][ALGORITHMS];
  memset(results, 0, sizeof results);
  printf("%-47s", "machine, gradients");
  for (int a = 0; a < ALGORITHMS; a++)
    printf(" %11s", tdm_collective_name((tdm_collective)a));
  printf("  | in order | without an engine | all\n");
  for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
    tdm_context *context = open_context(&machines[m]);
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
      for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++)
        compare(context, &machines[m], widths[w], depths[d], results);
    tdm_context_release(context);
  }
  print_results(results);
  return 0;
}
