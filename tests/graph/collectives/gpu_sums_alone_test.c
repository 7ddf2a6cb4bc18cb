/* Sums over the GPUs of one process, without a job, on NCCL's test double. Any failure ends the
 * step on both GPUs, which have updated nothing, and nothing hangs. Sessions of several threads sum
 * in one order. */
#define _GNU_SOURCE /* pthreads' names */
#include <math.h>
#include <pthread.h>

#include "devices/cuda/library/nccl.h"
#include "graph/forecast/costs.h"
#include "graph/run/session.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/devices/sanitized.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, WIDTH = 8, STEPS = 3, NEWEST = 22809, KERNEL_NS = 1000 };

typedef struct story {
  bool bad_input;   /* the second step has invalid input */
  uint64_t lost_at; /* the launch of the second step at which cuda:1 is lost; 0: it is not */
  tdm_collective way;
  int failed_step; /* the first; 0: none */
  int good_steps;
  bool updated; /* a step that failed has changed parameters */
  uint64_t device_sums;
  double loss;
  char message[TDM_MESSAGE_BYTES];
} story;

static tdm_session *make_session(tdm_context *context, tdm_collective way) {
  const job_rank alone = {.rank = 0, .rank_count = 1, .context = context};
  tdm_value loss;
  tdm_graph *graph = job_deep_graph(&alone, 1, WIDTH, tdm_tanh, &loss);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cuda:0,cuda:1");
  tdm_data_parallel(graph, "model", &options);
  const job_model model = {.optimizer = tdm_adam(0.01), .collective = way, .any_order = true};
  return job_session(graph, loss, &model);
}

static tdm_status step(tdm_context *context, tdm_session *session, uint64_t number, bool bad,
                       double *out_loss) {
  test_batch batch;
  test_batch_make(&batch, context, ROWS, number);
  if (bad) ((int64_t *)tdm_tensor_data(batch.ids))[ROWS - 1] = MODEL_ROWS + 5;
  const tdm_status status = tdm_train_step(session, batch.feeds, 2, NULL, 0, out_loss);
  test_batch_release(&batch);
  return status;
}

static void note(story *of, tdm_session *session, uint64_t before, int number) {
  if (of->failed_step != 0) return;
  of->failed_step = number;
  (void)snprintf(of->message, sizeof of->message, "%s", tdm_last_message());
  const bool lost = of->lost_at > 0; /* and its memory */
  of->updated = !lost && number > 1 && job_hash(session) != before;
}

static tdm_context *make_context(void) {
  tdm_context *context = tdm_context_create(NULL);
  if (!context) fail_msg("no context: %s", tdm_last_message());
  return context;
}

static void run_story(story *of) {
  tdm_context *context = make_context();
  tdm_session *session = make_session(context, of->way);
  assert_non_null(session);
  for (int number = 1; number <= STEPS; number++) {
    if (number == 2 && of->lost_at > 0)
      emulation_fault_at(of->lost_at, 1, TDM_CUDA_ILLEGAL_ADDRESS);
    const bool dead = of->failed_step != 0 && of->lost_at > 0;
    const uint64_t before = number > 1 && !dead ? job_hash(session) : 0;
    const tdm_status status =
        step(context, session, (uint64_t)number, of->bad_input && number == 2, &of->loss);
    of->good_steps += status == TDM_OK;
    if (status != TDM_OK) note(of, session, before, number);
  }
  if (session->newest) of->device_sums = session->newest->network.device_sums;
  tdm_session_release(session);
  tdm_context_release(context);
  emulation_fault_at(0, 0, 0);
}

static void they_sum_unless_nccl_is_missing(void **state) {
  (void)state;
  story by_gpus = {.way = TDM_COLLECTIVE_ALL_REDUCE}, chosen = {.way = TDM_COLLECTIVE_AUTO};
  run_story(&by_gpus);
  assert_int_equal(by_gpus.good_steps, STEPS);
  assert_true(by_gpus.device_sums > 0);
  run_story(&chosen);
  assert_int_equal(chosen.good_steps, STEPS);
  assert_true(fabs(by_gpus.loss - chosen.loss) <= 1e-5 * chosen.loss);
  emulation_set_nccl(0);
  story without = {.way = TDM_COLLECTIVE_ALL_REDUCE};
  const uint64_t before = emulation_nccl_sums();
  run_story(&without);
  emulation_set_nccl(NEWEST);
  assert_int_equal(without.good_steps, STEPS);
  assert_int_equal(without.device_sums, 0);
  assert_int_equal(emulation_nccl_sums(), before);
  assert_true(fabs(by_gpus.loss - without.loss) <= 1e-5 * without.loss);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* Values that were not made are summed but not counted. The next step succeeds. */
static void a_step_that_fails_does_not_end_the_group(void **state) {
  (void)state;
  story of = {.bad_input = true, .way = TDM_COLLECTIVE_ALL_REDUCE};
  run_story(&of);
  assert_int_equal(of.failed_step, 2);
  assert_int_equal(of.good_steps, STEPS - 1);
  assert_false(of.updated);
  assert_non_null(strstr(of.message, "is outside 0 to"));
}

/* Fails the first, second, ... launch of the step: before, during and after its sums. */
static void a_gpu_that_is_lost_ends_the_sums_of_the_other(void **state) {
  (void)state;
  for (uint64_t at = 1; at <= 16; at += test_is_sanitized() ? 5 : 1) {
    story of = {.lost_at = at, .way = TDM_COLLECTIVE_ALL_REDUCE};
    run_story(&of);
    if (of.failed_step == 0) fail_msg("launch %d: nothing was told", (int)at);
  }
}

/* False: there are fewer calls. */
static bool fail_call(uint64_t n, bool later) {
  story of = {.way = TDM_COLLECTIVE_ALL_REDUCE};
  emulation_fail_nccl_at(n, TDM_NCCL_SYSTEM_ERROR, later);
  run_story(&of);
  const bool failed = emulation_nccl_calls() >= n;
  emulation_fail_nccl_at(0, 0, false);
  if ((of.failed_step != 0) != failed)
    fail_msg("call %d failed: %d, step %d", (int)n, failed, of.failed_step);
  if (failed && !strstr(of.message, "unhandled system error"))
    fail_msg("call %d: \"%s\"", (int)n, of.message);
  if (of.updated) fail_msg("call %d: a failed step has updated", (int)n);
  return failed;
}

static void any_call_that_fails_ends_the_step_of_both(void **state) {
  (void)state;
  for (int later = 0; later <= 1; later++) {
    uint64_t n = 1 + (uint64_t)later; /* an id is made at once */
    while (fail_call(n, later != 0))
      n += test_is_sanitized() ? 4 : 1;
    assert_true(n > 6);
  }
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct trainer {
  tdm_context *context;
  double loss;
  tdm_status status;
} trainer;

static void *train(void *user) {
  trainer *self = user;
  tdm_session *session = make_session(self->context, TDM_COLLECTIVE_ALL_REDUCE);
  self->status = session ? TDM_OK : TDM_INTERNAL;
  for (uint64_t number = 1; number <= STEPS && self->status == TDM_OK; number++)
    self->status = step(self->context, session, number, false, &self->loss);
  tdm_session_release(session);
  return NULL;
}

static void sessions_of_several_threads_sum_in_one_order(void **state) {
  (void)state;
  enum { THREADS = 3 };
  trainer trainers[THREADS];
  pthread_t threads[THREADS];
  tdm_context *context = make_context();
  for (int i = 0; i < THREADS; i++) {
    trainers[i] = (trainer){.context = context};
    assert_int_equal(pthread_create(&threads[i], NULL, train, &trainers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(trainers[i].status, TDM_OK);
    assert_true(trainers[i].loss == trainers[0].loss);
  }
  tdm_context_release(context);
}

/* ---- Forecasts ------------------------------------------------------------------------------- */

static tdm_costs *price(const tdm_session *session) {
  const tdm_plan *plan = session->last_asked;
  tdm_costs *costs = tdm_costs_create(plan->graph.context);
  for (size_t i = 0; costs && i < plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[i].node);
    char class_name[TDM_COST_CLASS], kernel[TDM_COST_KEY];
    if (!node->operation) continue;
    tdm_cost_class(tdm_context_device(plan->graph.context, (size_t)node->device), class_name);
    tdm_cost_kernel(&plan->graph, node, kernel, sizeof kernel);
    assert_ok(tdm_costs_put(costs, class_name, kernel, (tdm_cost){.alone_ns = KERNEL_NS}));
  }
  return costs;
}

/* Each bucket takes a ring's bytes and two latencies of the link between the two. */
static void forecasts_know_the_sums(void **state) {
  (void)state;
  tdm_context *context = make_context();
  tdm_session *session = make_session(context, TDM_COLLECTIVE_ALL_REDUCE);
  assert_ok(step(context, session, 1, false, NULL));
  tdm_costs *costs = price(session);
  tdm_forecast *made;
  const tdm_forecast_options options = OPTIONS(tdm_forecast_options, o.costs = costs);
  assert_ok(tdm_session_forecast(session, &options, &made));
  double found_ns = -1, expected_ns = 0;
  for (size_t q = 0; q < made->queue_count; q++)
    if (strcmp(made->queues[q].name, "all devices") == 0) found_ns = made->queues[q].busy_ns;
  const tdm_plan *plan = session->last_asked;
  tdm_link_estimate link;
  tdm_context_link(context, test_device(context, "cuda:0"), test_device(context, "cuda:1"), false,
                   &link);
  TDM_EACH_NODE(&plan->graph, node) {
    if (strcmp(node->operation ? node->operation->name : "", "all_reduce") != 0) continue;
    if (strcmp(tdm_context_device(context, (size_t)node->device)->name, "cuda:0") != 0) continue;
    const double bytes = (double)tdm_ir_value_at(&plan->graph, node->first_output)->bytes;
    expected_ns += 2 * tdm_link_predict_ns(&link, bytes / 2);
  }
  assert_true(expected_ns > 0);
  if (fabs(found_ns / expected_ns - 1) > 1e-6)
    fail_msg("sums take %.3f ns, by hand %.3f", found_ns, expected_ns);
  tdm_forecast_release(made);
  tdm_costs_release(costs);
  tdm_session_release(session);
  tdm_context_release(context);
}

static int begin(void **state) {
  (void)state;
  emulation_set_driver(EMULATED_DRIVER, 2);
  emulation_set_nccl(NEWEST);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(they_sum_unless_nccl_is_missing),
      cmocka_unit_test(a_step_that_fails_does_not_end_the_group),
      cmocka_unit_test(a_gpu_that_is_lost_ends_the_sums_of_the_other),
      cmocka_unit_test(any_call_that_fails_ends_the_step_of_both),
      cmocka_unit_test(sessions_of_several_threads_sum_in_one_order),
      cmocka_unit_test(forecasts_know_the_sums),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
