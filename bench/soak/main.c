/* Trains, infers with changing shapes, saves, cancels, and creates and releases contexts in
 * concurrent threads, for a given time. Reports whether resources of the process grow. A sample is
 * taken while all threads are between two jobs. The first third of the time is warming up; after it
 * nothing may grow. The least sample of each third counts: a leak raises it, and noise does not.
 *
 *   bazel run //bench:soak -- --minutes 10
 */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/soak/work.h"
#include "bench/timing.h"

enum { SAMPLES = 30, THREADS = 6 };

/* ---- Threads, and detection of stalls -------------------------------------------------------- */

typedef struct gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int at_work;
  bool closed, over;
} gate;

typedef struct worker {
  soak *soak;
  gate *gate;
  void (*job)(soak *it, uint64_t round);
  uint64_t first, step; /* range of rounds */
  pthread_t thread;
} worker;

static bool enter(gate *it) {
  (void)pthread_mutex_lock(&it->lock);
  while (it->closed && !it->over)
    (void)pthread_cond_wait(&it->changed, &it->lock);
  const bool goes_on = !it->over;
  it->at_work += goes_on;
  (void)pthread_mutex_unlock(&it->lock);
  return goes_on;
}

static void leave(gate *it) {
  (void)pthread_mutex_lock(&it->lock);
  it->at_work--;
  (void)pthread_cond_broadcast(&it->changed);
  (void)pthread_mutex_unlock(&it->lock);
}

static void stand_still(gate *it) {
  (void)pthread_mutex_lock(&it->lock);
  it->closed = true;
  while (it->at_work > 0)
    (void)pthread_cond_wait(&it->changed, &it->lock);
  (void)pthread_mutex_unlock(&it->lock);
}

static void go_on(gate *it, bool over) {
  (void)pthread_mutex_lock(&it->lock);
  it->closed = false;
  it->over = over;
  (void)pthread_cond_broadcast(&it->changed);
  (void)pthread_mutex_unlock(&it->lock);
}

static void *work(void *user) {
  worker *me = user;
  for (uint64_t round = me->first; enter(me->gate); round += me->step) {
    me->job(me->soak, round);
    leave(me->gate);
  }
  return NULL;
}

/* ---- Samples --------------------------------------------------------------------------------- */

enum { RESIDENT, HEAP, DESCRIPTORS, TASKS, MAPPINGS, MEASURES };
static const char *const MEASURE_NAMES[] = {"resident KiB", "heap KiB", "descriptors", "threads",
                                            "mappings"};
/* Permitted growth of the last third over the one before: a share, and a number. */
static const double SHARES[] = {0.01, 0.01, 0, 0, 0};
static const double NUMBERS[] = {1024, 64, 0, 0, 2};

static double count_entries(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) bench_fail(path);
  double count = -2; /* . and .. */
  while (readdir(folder))
    count++;
  (void)closedir(folder);
  return count;
}

static double count_lines(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) bench_fail(path);
  double count = 0;
  for (int letter = fgetc(file); letter != EOF; letter = fgetc(file))
    count += letter == '\n';
  (void)fclose(file);
  return count;
}

static double resident_kib(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long all = 0, resident = 0;
  if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2) bench_fail("/proc/self/statm");
  (void)fclose(file);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static void take_sample(double *sample) {
  const struct mallinfo2 heap = mallinfo2();
  sample[RESIDENT] = resident_kib();
  sample[HEAP] = (double)(heap.uordblks + heap.hblkhd) / 1024;
  sample[DESCRIPTORS] = count_entries("/proc/self/fd") - 1; /* the folder's own */
  sample[TASKS] = count_entries("/proc/self/task");
  sample[MAPPINGS] = count_lines("/proc/self/maps");
}

static void print_row(double seconds, const soak *it, const double *sample) {
  printf("| %.0f | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %" PRIu64, seconds,
         it->counts.trained, it->counts.inferred, it->counts.stopped, it->counts.saved,
         it->counts.contexts);
  for (int i = 0; i < MEASURES; i++)
    printf(" | %.0f", sample[i]);
  printf(" |\n");
  fflush(stdout);
}

static double least_of(double samples[SAMPLES][MEASURES], int measure, int first, int end) {
  double least = samples[first][measure];
  for (int i = first + 1; i < end; i++)
    if (samples[i][measure] < least) least = samples[i][measure];
  return least;
}

static bool judge(double samples[SAMPLES][MEASURES]) {
  bool flat = true;
  printf("\n| least of | second third | last third | |\n|---|---:|---:|---|\n");
  for (int i = 0; i < MEASURES; i++) {
    const double before = least_of(samples, i, SAMPLES / 3, 2 * SAMPLES / 3);
    const double after = least_of(samples, i, 2 * SAMPLES / 3, SAMPLES);
    const bool grows = after > before * (1 + SHARES[i]) + NUMBERS[i];
    printf("| %s | %.0f | %.0f | %s |\n", MEASURE_NAMES[i], before, after,
           grows ? "grows" : "flat");
    flat &= !grows;
  }
  printf("\n%s\n", flat ? "Nothing grows." : "Something grows.");
  return flat;
}

/* ---- The program ----------------------------------------------------------------------------- */

static double read_minutes(int argc, char **argv) {
  if (argc == 1) return 3;
  char *end = NULL;
  const double minutes = argc == 3 && strcmp(argv[1], "--minutes") == 0 ? strtod(argv[2], &end) : 0;
  if (end && end != argv[2] && !*end && minutes >= 0.1 && minutes <= 100000) return minutes;
  const bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
  fprintf(asked ? stdout : stderr,
          "soak [--minutes N]: works for N minutes (3; 0.1 to 100000), prints what the process\n"
          "holds as a table, and ends with status 1 if that grows.\n");
  exit(asked ? 0 : 2);
}

int main(int argc, char **argv) {
  const double minutes = read_minutes(argc, argv);
  static soak it;
  static double samples[SAMPLES][MEASURES];
  gate between = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false, false};
  soak_open(&it);
  worker workers[THREADS] = {
      {&it, &between, soak_train, 0, 1, 0}, {&it, &between, soak_infer, 0, 2, 0},
      {&it, &between, soak_infer, 1, 2, 0}, {&it, &between, soak_stop, 0, 1, 0},
      {&it, &between, soak_save, 0, 1, 0},  {&it, &between, soak_make_context, 0, 1, 0}};
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) bench_fail("a thread");
  printf("| s | steps | runs | stopped | saves | contexts");
  for (int i = 0; i < MEASURES; i++)
    printf(" | %s", MEASURE_NAMES[i]);
  printf(" |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  const double begin = bench_now_ms(), span = minutes * 60000 / SAMPLES;
  for (int i = 0; i < SAMPLES; i++) {
    const double wait = begin + span * (i + 1) - bench_now_ms();
    const struct timespec pause = {(time_t)(wait / 1000), (long)(wait * 1e6) % 1000000000};
    if (wait > 0) (void)nanosleep(&pause, NULL);
    stand_still(&between);
    take_sample(samples[i]);
    print_row((bench_now_ms() - begin) / 1000, &it, samples[i]);
    go_on(&between, i + 1 == SAMPLES);
  }
  for (int i = 0; i < THREADS; i++)
    (void)pthread_join(workers[i].thread, NULL);
  soak_close(&it);
  return judge(samples) ? 0 : 1;
}
