/* Clocks and medians. Invariant: what is timed has run before, so plans and memory are there. */
#include "bench/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 41, FEWEST_ROUNDS = 5, COLD_SAMPLES = 101 };
static const double ROUND_NS = 5e6; /* approximate duration of a round of hot calls */
static const double TOTAL_NS = 1e9; /* duration after which only FEWEST_ROUNDS are completed */
static const long COLD_PAUSE_NS = 5000000;

void bench_fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tdm_last_message());
  exit(1);
}

void bench_check(tdm_status status, const char *what) {
  if (status != TDM_OK) bench_fail(what);
}

void bench_print(const char *row, double ns) {
  printf("%s\t%.1f\n", row, ns);
  fflush(stdout);
}

uint64_t bench_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double bench_now_ms(void) {
  return (double)bench_now_ns() / 1e6;
}

static int compare(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

double bench_median(double *samples, size_t count) {
  qsort(samples, count, sizeof *samples, compare);
  return samples[count / 2];
}

static double time_calls(void (*work)(void *user), void *user, int64_t count) {
  const uint64_t began_ns = bench_now_ns();
  for (int64_t i = 0; i < count; i++)
    work(user);
  return (double)(bench_now_ns() - began_ns);
}

double bench_hot_ns(void (*work)(void *user), void *user) {
  int64_t calls = 1;
  while (time_calls(work, user, calls) < ROUND_NS)
    calls *= 2;
  double samples[ROUNDS];
  double total_ns = 0;
  size_t count = 0;
  while (count < ROUNDS && (count < FEWEST_ROUNDS || total_ns < TOTAL_NS)) {
    const double took_ns = time_calls(work, user, calls);
    total_ns += took_ns;
    samples[count++] = took_ns / (double)calls;
  }
  return bench_median(samples, count);
}

double bench_cold_ns(void (*work)(void *user), void *user) {
  const struct timespec pause = {0, COLD_PAUSE_NS};
  double samples[COLD_SAMPLES];
  work(user);
  for (int i = 0; i < COLD_SAMPLES; i++) {
    nanosleep(&pause, NULL);
    samples[i] = time_calls(work, user, 1);
  }
  return bench_median(samples, COLD_SAMPLES);
}
