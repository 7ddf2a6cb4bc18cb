/* A program for one process or any number of ranks, with only the public header: a model placed
 * over the first and the last rank, and one with replicas on all of them. Prints each one's last
 * loss, and a hash of loss and scores: "rank R of N: placed LOSS HASH".
 *
 *     job_program [late | paused | killed|stopped|exited FILE]
 *
 * - `late`: rank 0 is busy for some seconds after the others have released their contexts, and then
 *   prints "rank 0 has done it".
 * - `paused`: rank 1 is stopped for some seconds in its first training, and continues; each rank
 * prints the log of its context.
 * - `killed`, `stopped`, `exited`: rank 1 does that to itself in its training. The others write the
 *   message of their failed step to FILE, "rank R: MESSAGE", and that of the next step, "rank R
 * again: MESSAGE". */
#define _GNU_SOURCE /* kill, sleep */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tandem/tandem.h"
#include "tests/net/told.h"
#include "tests/options.h"

enum {
  ROWS = 24,
  WORDS = 50,
  WIDTH = 12,
  CLASSES = 5,
  STEPS = 20,
  REPLICAS = 6,
  LATE_SECONDS = 7,
  PAUSE_SECONDS = 5
};

static uint64_t fold(uint64_t hash, const void *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
  return hash;
}

static tdm_value describe(tdm_graph *graph, const char *first, const char *last) {
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value labels = tdm_input(graph, "labels", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, first);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, WORDS, WIDTH);
  tdm_place(graph, last);
  const tdm_value hidden = tdm_tanh(graph, "bend", tdm_linear(graph, "hidden", words, WIDTH));
  const tdm_value scores = tdm_linear(graph, "scores", hidden, CLASSES);
  tdm_output(graph, "scores", scores);
  return tdm_cross_entropy(graph, "loss", scores, labels);
}

static int own_signal; /* what rank 1 sends itself; 0: nothing; SIGTERM: it exits */
static const char *told_path;

/* A child ends a process that is stopped, or waits in MPI_Finalize, after the others have reported
 * it, so that the launcher can end. */
static void end_oneself(int lines) {
  const pid_t self = getpid();
  if (own_signal != SIGKILL && fork() == 0) {
    told_await(told_path, lines);
    (void)kill(self, SIGKILL);
    _exit(0);
  }
  if (own_signal == SIGTERM) exit(0); /* exits without releasing anything */
  (void)kill(self, own_signal);
}

static bool pauses;

/* Pauses once: a child lets the process continue. */
static void pause_oneself(void) {
  const pid_t self = getpid();
  pauses = false;
  if (fork() == 0) {
    (void)sleep(PAUSE_SECONDS);
    (void)kill(self, SIGCONT);
    _exit(0);
  }
  (void)kill(self, SIGSTOP);
}

static void print_line(void *user, tdm_log_level level, const char *message) {
  (void)user;
  (void)level;
  fprintf(stderr, "%s\n", message);
}

static void tell(tdm_context *context, const char *when) {
  (void)told_add(told_path, "rank %d%s: %s", tdm_context_rank(context), when, tdm_last_message());
}

static tdm_status train(tdm_context *context, tdm_session *session, const char *what) {
  int64_t ids[ROWS], labels[ROWS];
  double loss = 0;
  const int lines = 2 * (tdm_context_rank_count(context) - 1); /* two from each rank that reports */
  tdm_status status = TDM_OK;
  tdm_fetch scores = {"scores", NULL};
  for (int step = 0; step < STEPS && status == TDM_OK; step++) {
    for (int i = 0; i < ROWS; i++) {
      ids[i] = (i * 7 + step * 3) % WORDS;
      labels[i] = ids[i] % CLASSES;
    }
    tdm_tensor *x = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ROWS), ids);
    tdm_tensor *y = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ROWS), labels);
    const tdm_feed feeds[] = {{"ids", x, false}, {"labels", y, false}};
    const bool happens = step == STEPS / 2 && tdm_context_rank(context) == 1;
    if (happens && own_signal != 0) end_oneself(lines);
    if (happens && pauses) pause_oneself();
    status = tdm_train_step(session, feeds, 2, NULL, 0, &loss);
    if (status == TDM_OK && step == STEPS - 1) status = tdm_run(session, feeds, 1, &scores, 1);
    if (status != TDM_OK && told_path) {
      tell(context, "");
      if (tdm_train_step(session, feeds, 2, NULL, 0, &loss) != TDM_OK) tell(context, " again");
      told_await(told_path, lines);
    }
    tdm_tensor_release(x);
    tdm_tensor_release(y);
  }
  if (status == TDM_OK) {
    uint64_t hash = fold(UINT64_C(14695981039346656037), &loss, sizeof loss);
    hash = fold(hash, tdm_tensor_data(scores.tensor), sizeof(float) * ROWS * CLASSES);
    printf("rank %d of %d: %s %.6f %016" PRIx64 "\n", tdm_context_rank(context),
           tdm_context_rank_count(context), what, loss, hash);
  }
  tdm_tensor_release(scores.tensor);
  return status;
}

static tdm_status run_model(tdm_context *context, const char *what, const char *first,
                            const char *last, const char *replicas) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value loss = describe(graph, first, last);
  const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = replicas);
  if (replicas) tdm_data_parallel(graph, "hidden", &parallel);
  const tdm_optimizer adam = tdm_adam(0.05);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &adam, o.deterministic = true);
  tdm_session *session = tdm_session_create(graph, &options);
  const tdm_status status = session ? train(context, session, what) : TDM_INVALID_ARGUMENT;
  tdm_session_release(session);
  tdm_graph_release(graph);
  return status;
}

int main(int count, char **arguments) {
  if (count == 3) {
    own_signal = SIGSTOP;
    if (strcmp(arguments[1], "killed") == 0) own_signal = SIGKILL;
    if (strcmp(arguments[1], "exited") == 0) own_signal = SIGTERM;
    told_path = arguments[2];
  }
  const bool is_late = count == 2 && strcmp(arguments[1], "late") == 0;
  pauses = count == 2 && !is_late;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.log = pauses ? print_line : NULL,
              o.silence_seconds = own_signal == SIGSTOP ? 2 : TDM_FROM_ENVIRONMENT);
  tdm_context *context = tdm_context_create(&options);
  if (!context) {
    fprintf(stderr, "%s\n", tdm_last_message());
    return 1;
  }
  const int ranks = tdm_context_rank_count(context);
  char last[32];
  char replicas[REPLICAS * 32] = "";
  (void)snprintf(last, sizeof last, "host:%d/cpu:0", ranks - 1);
  for (int i = 0; i < REPLICAS; i++) {
    const size_t length = strlen(replicas);
    (void)snprintf(replicas + length, sizeof replicas - length, "%shost:%d/cpu:0", i ? "," : "",
                   i * ranks / REPLICAS);
  }
  tdm_status status = run_model(context, "placed", "host:0/cpu:0", last, NULL);
  if (status == TDM_OK)
    status = run_model(context, "replicated", "host:0/cpu:0", "host:0/cpu:0", replicas);
  if (status != TDM_OK) fprintf(stderr, "%s\n", tdm_last_message());
  if (is_late && tdm_context_rank(context) == 0) {
    (void)sleep(LATE_SECONDS);
    printf("rank 0 has done it\n");
  }
  tdm_context_release(context);
  return status == TDM_OK ? 0 : 1;
}
