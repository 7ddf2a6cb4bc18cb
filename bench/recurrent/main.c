/* recurrent_rows [--threads N] CELL:IN:HIDDEN:BATCH:LENGTH...: times forward runs and training
 * steps of single recurrent layers on cpu:0, which has N threads (default: as many as the machine).
 * CELL is lstm, gru or rnn; a step is forward, mean squared error, backward without the gradient of
 * x, and SGD. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/help.h"
#include "bench/timing.h"

typedef struct layer {
  char cell[8];
  int64_t in, hidden, batch, length;
} layer;

/* A session of the layer, and what it is fed. */
typedef struct layer_model {
  tdm_graph *graph;
  tdm_session *session;
  tdm_feed feeds[2]; /* x, then what y should be */
} layer_model;

static layer parse(const char *word) {
  layer parsed;
  long long in, hidden, batch, length;
  if (sscanf(word, "%7[a-z]:%lld:%lld:%lld:%lld", parsed.cell, &in, &hidden, &batch, &length) !=
      5) {
    fprintf(stderr, "recurrent_rows: %s is not CELL:IN:HIDDEN:BATCH:LENGTH\n", word);
    exit(2);
  }
  parsed.in = in;
  parsed.hidden = hidden;
  parsed.batch = batch;
  parsed.length = length;
  return parsed;
}

static tdm_value describe(tdm_graph *graph, const layer *timed, tdm_value x) {
  if (strcmp(timed->cell, "lstm") == 0)
    return tdm_lstm(graph, "layer", x, timed->hidden, NULL, NULL, NULL);
  if (strcmp(timed->cell, "gru") == 0) return tdm_gru(graph, "layer", x, timed->hidden, NULL, NULL);
  return tdm_rnn(graph, "layer", x, timed->hidden, NULL, NULL);
}

static tdm_tensor *uniform(tdm_context *context, tdm_shape shape, uint64_t seed) {
  tdm_tensor *made = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, seed, -1, 1);
  if (!made) bench_fail("a tensor");
  return made;
}

static layer_model make(tdm_context *context, const layer *timed) {
  layer_model made = {.graph = tdm_graph_create(context)};
  if (!made.graph) bench_fail("graph");
  const tdm_shape of_x = tdm_shape_of(3, timed->length, timed->batch, timed->in);
  const tdm_shape of_y = tdm_shape_of(3, timed->length, timed->batch, timed->hidden);
  tdm_place(made.graph, "cpu:0");
  const tdm_value x = tdm_input(made.graph, "x", TDM_FLOAT32, of_x);
  const tdm_value wanted = tdm_input(made.graph, "wanted", TDM_FLOAT32, of_y);
  const tdm_value y = describe(made.graph, timed, x);
  tdm_output(made.graph, "y", y);
  const tdm_optimizer sgd = tdm_sgd(0.01);
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_mse(made.graph, "loss", y, wanted);
  options.optimizer = &sgd;
  made.session = tdm_session_create(made.graph, &options);
  if (!made.session) bench_fail("session");
  made.feeds[0] = (tdm_feed){"x", uniform(context, of_x, 1), false};
  made.feeds[1] = (tdm_feed){"wanted", uniform(context, of_y, 2), false};
  return made;
}

static void run_forward(void *user) {
  layer_model *timed = user;
  tdm_fetch fetch = {"y", NULL};
  bench_check(tdm_run(timed->session, timed->feeds, 1, &fetch, 1), "forward");
  tdm_tensor_release(fetch.tensor);
}

static void run_step(void *user) {
  layer_model *timed = user;
  bench_check(tdm_train_step(timed->session, timed->feeds, 2, NULL, 0, NULL), "step");
}

static void time_layer(tdm_context *context, const char *word) {
  const layer timed = parse(word);
  layer_model made = make(context, &timed);
  char name[128];
  (void)snprintf(name, sizeof name, "%s forward", word);
  bench_print(name, bench_hot_ns(run_forward, &made));
  (void)snprintf(name, sizeof name, "%s step", word);
  bench_print(name, bench_hot_ns(run_step, &made));
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(made.feeds[i].tensor);
  tdm_session_release(made.session);
  tdm_graph_release(made.graph);
}

int main(int argc, char **argv) {
  bench_help(
      argc, argv,
      "recurrent_rows [--threads N] CELL:IN:HIDDEN:BATCH:LENGTH...: times recurrent layers; CELL\n"
      "is lstm, gru or rnn.\n");
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int threads = 0, first = 1;
  if (argc > 2 && strcmp(argv[1], "--threads") == 0) {
    threads = atoi(argv[2]);
    first = 3;
  }
  if (threads < 0 || (threads > 0 && cores % threads != 0)) {
    fprintf(stderr, "recurrent_rows: %ld cores are not a multiple of %d threads\n", cores, threads);
    return 2;
  }
  tdm_context_options options = tdm_context_options_default();
  options.cpu_devices = threads > 0 ? (int)(cores / threads) : 1;
  tdm_context *context = tdm_context_create(&options);
  if (!context) bench_fail("context");
  for (int i = first; i < argc; i++)
    time_layer(context, argv[i]);
  tdm_context_release(context);
  return 0;
}
