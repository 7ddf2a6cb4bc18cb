/* The tally of completions: every field under its lock, for callbacks come on the loop's thread. */
#include "tests/graph/run_tally.h"
#include "tests/options.h"

#include <time.h>

void run_tally_init(run_tally *tally) {
  memset(tally, 0, sizeof *tally);
  assert_int_equal(pthread_mutex_init(&tally->lock, NULL), 0);
  assert_int_equal(pthread_cond_init(&tally->changed, NULL), 0);
}

void run_tally_deinit(run_tally *tally) {
  for (int i = 0; i < MOST_RUNS; i++)
    tdm_tensor_release(tally->tensors[i]);
  (void)pthread_mutex_destroy(&tally->lock);
  (void)pthread_cond_destroy(&tally->changed);
}

void run_tally_note(void *user, tdm_run_result *result) {
  run_tally *tally = user;
  (void)pthread_mutex_lock(&tally->lock);
  const int index = tally->done++;
  tally->losses[index] = result->loss;
  if (result->status == TDM_OK) {
    if (result->fetch_count > 0) tally->tensors[index] = result->fetches[0].tensor;
  } else {
    tally->failed++;
    tally->status = result->status;
    strncpy(tally->message, result->message, sizeof tally->message - 1);
  }
  (void)pthread_cond_broadcast(&tally->changed);
  (void)pthread_mutex_unlock(&tally->lock);
}

void run_tally_closed(void *user) {
  run_tally *tally = user;
  (void)pthread_mutex_lock(&tally->lock);
  tally->closed = true;
  (void)pthread_cond_broadcast(&tally->changed);
  (void)pthread_mutex_unlock(&tally->lock);
}

void run_tally_await(run_tally *tally, int done) {
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 60;
  int late = 0;
  (void)pthread_mutex_lock(&tally->lock);
  while (tally->done < done && late == 0)
    late = pthread_cond_timedwait(&tally->changed, &tally->lock, &limit);
  (void)pthread_mutex_unlock(&tally->lock);
  assert_int_equal(late, 0);
}

tdm_context *context_on_loop(uv_loop_t *loop, const tdm_allocator *allocator) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = allocator, o.loop = loop, o.cpu_devices = 1,
              o.sim_devices = 1, o.sim = "latency_us=0,gigabytes_per_second=0");
  tdm_context *context = tdm_context_create(&options);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

tdm_session *train_session_on(tdm_context *context) {
  tdm_value loss;
  tdm_graph *graph = seed_graph(context, "cpu:0", "sim:0", &loss);
  return train_session(graph, loss, tdm_adam(0.01), NULL);
}

void submit_step(tdm_session *session, const test_batch *batch, run_tally *tally) {
  assert_ok(tdm_submit(session, true, batch->feeds, 2, NULL, 0, run_tally_note, tally));
}

void submit_scores(tdm_session *session, const test_batch *batch, run_tally *tally) {
  const tdm_fetch scores = {.name = "scores"};
  assert_ok(tdm_submit(session, false, batch->feeds, 1, &scores, 1, run_tally_note, tally));
}
