/* Measures the passes schedule, memory and verify for each step, on chains like those of models.
 * Prints medians over many plans. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/help.h"
#include "bench/timing.h"
#include "tests/graph/schedule/random_schedule.h"

#define ROUNDS_MAX 101

struct figures {
  double schedule_ns[ROUNDS_MAX], memory_ns[ROUNDS_MAX], verify_ns[ROUNDS_MAX];
  double total_ns[ROUNDS_MAX];
  size_t steps, waits;
};

static tdm_status measure_once(struct model model, struct figures *figures, size_t round) {
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_schedule schedule;
  double at[4] = {0};
  tdm_schedule_init(&schedule, &allocator);
  tdm_status status = model_schedule(&schedule, model);
  at[0] = (double)bench_now_ns();
  if (status == TDM_OK) status = tdm_pass_schedule(&schedule);
  at[1] = (double)bench_now_ns();
  if (status == TDM_OK) status = tdm_pass_memory(&schedule);
  at[2] = (double)bench_now_ns();
  if (status == TDM_OK) status = tdm_pass_verify(&schedule);
  at[3] = (double)bench_now_ns();
  const double steps = (double)schedule.step_count;
  figures->schedule_ns[round] = (at[1] - at[0]) / steps;
  figures->memory_ns[round] = (at[2] - at[1]) / steps;
  figures->verify_ns[round] = (at[3] - at[2]) / steps;
  figures->total_ns[round] = (at[3] - at[0]) / steps;
  figures->steps = schedule.step_count;
  figures->waits = schedule.wait_count;
  tdm_schedule_deinit(&schedule);
  return status;
}

/* Plans about this many steps. A layer has four steps in training, else one, and a few copies. */
static tdm_status measure(uint32_t steps, uint32_t queues, bool training, uint32_t depth) {
  const struct model model = {training ? steps / 4 : steps, queues, training, depth, 1};
  const size_t rounds = steps > 10000 ? 7 : ROUNDS_MAX;
  struct figures figures;
  for (size_t round = 0; round < rounds; round++) {
    const tdm_status status = measure_once(model, &figures, round);
    if (status != TDM_OK) return status;
  }
  printf("%-9s %7zu %6" PRIu32 " %5" PRIu32 " %7zu %9.0f %9.0f %9.0f %9.0f\n",
         training ? "training" : "forward", figures.steps, queues, depth, figures.waits,
         bench_median(figures.schedule_ns, rounds), bench_median(figures.memory_ns, rounds),
         bench_median(figures.verify_ns, rounds), bench_median(figures.total_ns, rounds));
  return TDM_OK;
}

int main(int argc, char **argv) {
  bench_help(argc, argv,
             "schedule: nanoseconds a step that the passes schedule, memory and verify take.\n");
  static const uint32_t queue_counts[] = {1, 2, 4, 8};
  tdm_status status = TDM_OK;
  printf("ns a step, medians\n%-9s %7s %6s %5s %7s %9s %9s %9s %9s\n", "chain", "steps", "queues",
         "depth", "waits", "schedule", "memory", "verify", "together");
  for (uint32_t i = 0; i < 2 * 2 * 2 * 4 && status == TDM_OK; i++)
    status = measure(i < 16 ? 1000 : 100000, queue_counts[i % 4], i / 4 % 2 == 0, 1 + i / 8 % 2);
  if (status != TDM_OK) fprintf(stderr, "%s\n", tdm_last_message());
  return status == TDM_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
