/* Times forward runs and training steps of whole models on one device.
 *
 *     model_rows [--threads N] [--device D] [--profile] [--unfused] [ROW...]
 *
 * - --device: default cpu:0.
 * - --threads: threads of the device; default all of the machine.
 * - ROW: prints the rows whose name begins with one of these words; default all rows, except rows
 *   for GPUs on other devices.
 * - --profile: prints the plan of each model with the median times of its kernels instead.
 * - --unfused: elementwise operations are not fused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/help.h"
#include "bench/models/models.h"

typedef struct row {
  const char *name; /* " forward" and " step" are appended */
  model (*make)(tdm_context *context, int64_t rows);
  int64_t rows;
  bool forward_only;
  bool for_gpus; /* too large for a cpu device; only run there if requested by name */
} row;

static const row all_rows[] = {
    {"words 30", model_words, 30, false, false},
    {"words 65536", model_words, 65536, false, false},
    {"chain of 100", model_chain, 30, false, false},
    {"elements 32", model_elements, 32, false, false},
    {"elements 2048", model_elements, 2048, false, false},
    {"elements 65536", model_elements, 65536, false, false},
    {"lenet 64", model_lenet, 64, false, false},
    {"lenet 4096", model_lenet, 4096, false, true},
    {"resnet 16", model_residual, 16, false, false},
    {"resnet 256", model_residual, 256, false, true},
    {"lstm 64", model_lstm, 64, false, false},
    {"bag 2048", model_bag, 2048, true, false},
    {"recommender 2048", model_recommender, 2048, false, false},
    {"gpt 2", model_gpt, 2, false, false},
    {"gpt 64", model_gpt, 64, false, true},
};

static void run_forward(void *user) {
  model *timed = user;
  tdm_fetch fetch = {timed->output, NULL};
  model_turn(timed);
  bench_check(tdm_run(timed->session, timed->feeds, timed->forward_feed_count, &fetch, 1),
              "forward");
  tdm_tensor_release(fetch.tensor);
}

static void run_step(void *user) {
  model *timed = user;
  model_turn(timed);
  bench_check(tdm_train_step(timed->session, timed->feeds, timed->feed_count, NULL, 0, NULL),
              "step");
}

static void time_work(const char *name, void (*work)(void *user), model *timed) {
  const double ns = bench_hot_ns(work, timed);
  if (!model_profiles) {
    bench_print(name, ns);
    return;
  }
  printf("%s\n", name);
  bench_check(tdm_session_explain(timed->session, TDM_PLAN_TEXT, stdout), name);
}

static bool wanted(const row *asked, const char *name, char **words, int count) {
  for (int i = 0; i < count; i++)
    if (strncmp(name, words[i], strlen(words[i])) == 0) return true;
  return count == 0 && (!asked->for_gpus || strncmp(model_device, "cpu", 3) != 0);
}

static void time_row(tdm_context *context, const row *timed, char **words, int count) {
  char forward[64];
  char step[64];
  (void)snprintf(forward, sizeof forward, "%s forward", timed->name);
  (void)snprintf(step, sizeof step, "%s step", timed->name);
  const bool wants_forward = wanted(timed, forward, words, count);
  const bool wants_step = !timed->forward_only && wanted(timed, step, words, count);
  if (!wants_forward && !wants_step) return;
  model made = timed->make(context, timed->rows);
  if (wants_forward) time_work(forward, run_forward, &made);
  if (wants_step) time_work(step, run_step, &made);
  model_release(&made);
}

/* Creates a context whose cpu:0 has this many threads, by dividing the cores among enough devices.
 * 0: all threads. */
static tdm_context *make_context(int threads) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (threads < 0 || (threads > 0 && cores % threads != 0)) {
    fprintf(stderr, "model_rows: %ld cores are not a multiple of %d threads\n", cores, threads);
    exit(2);
  }
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = threads > 0 ? (int)(cores / threads) : 1;
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("context");
  return context;
}

int main(int argc, char **argv) {
  bench_help(argc, argv,
             "model_rows [--threads N] [--device D] [--profile] [--unfused] [ROW...]: times whole "
             "models; rows\n"
             "whose name begins with one of the words, or all.\n");
  int threads = 0, first = 1;
  for (; first < argc && argv[first][0] == '-'; first++) {
    if (strcmp(argv[first], "--profile") == 0) {
      model_profiles = true;
    } else if (strcmp(argv[first], "--unfused") == 0) {
      model_unfused = true;
    } else if (strcmp(argv[first], "--threads") == 0 && first + 1 < argc) {
      threads = atoi(argv[++first]);
    } else if (strcmp(argv[first], "--device") == 0 && first + 1 < argc) {
      model_device = argv[++first];
    } else {
      fprintf(stderr,
              "usage: model_rows [--threads N] [--device D] [--profile] [--unfused] [ROW...]\n");
      return 2;
    }
  }
  tdm_context *context = make_context(threads);
  for (size_t i = 0; i < sizeof all_rows / sizeof *all_rows; i++)
    time_row(context, &all_rows[i], argv + first, argc - first);
  tdm_context_release(context);
  return 0;
}
