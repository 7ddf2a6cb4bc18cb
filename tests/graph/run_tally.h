/* Helpers for tests of submitted runs: a tally of their completions, which callbacks on any thread
 * record, and sessions and contexts to submit from. */
#ifndef TANDEM_TESTS_GRAPH_RUN_TALLY_H
#define TANDEM_TESTS_GRAPH_RUN_TALLY_H

#include <pthread.h>

#include <uv.h>

#include "tests/graph/support.h"

enum { MOST_RUNS = 600, ROWS = 8 };

/* The record that callbacks write. */
typedef struct run_tally {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int done;
  int failed;
  double losses[MOST_RUNS];
  tdm_tensor *tensors[MOST_RUNS];
  char message[256]; /* text of the latest failure */
  tdm_status status;
  bool closed;
} run_tally;

void run_tally_init(run_tally *tally);

void run_tally_deinit(run_tally *tally);

/* Callbacks that count results; `user` is the tally. */
void run_tally_note(void *user, tdm_run_result *result);

void run_tally_closed(void *user);

/* Waits for `done` completions, no longer than a minute. */
void run_tally_await(run_tally *tally, int done);

/* Creates a context with cpu:0 and sim:0 on ideal links; loop and allocator may be NULL. */
tdm_context *context_on_loop(uv_loop_t *loop, const tdm_allocator *allocator);

/* Creates a session of the seed model over cpu:0 and sim:0 that trains with Adam. */
tdm_session *train_session_on(tdm_context *context);

void submit_step(tdm_session *session, const test_batch *batch, run_tally *tally);

void submit_scores(tdm_session *session, const test_batch *batch, run_tally *tally);

#endif /* TANDEM_TESTS_GRAPH_RUN_TALLY_H */
