/* Forecasts of jobs whose GPUs exchange messages. All ranks compute the same forecast, bytes flow
 * on the GPUs' own queues, and a transfer begins when both GPUs have reached it. */
#include "graph/forecast/costs.h"
#include "graph/run/session.h"
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12, RANKS = 2, NEWEST = 22809, KERNEL_NS = 1000 };

typedef struct story {
  bool by_hosts;
  double peer_ns[RANKS][RANKS]; /* (reporting rank, GPU): time on the GPU's peer queue */
  double messages_ns;           /* the plan's prediction for messages of GPUs */
} story;

static tdm_costs *price(const tdm_session *session) {
  const tdm_plan *plan = session->last_asked;
  tdm_costs *costs = tdm_costs_create(plan->graph.context);
  for (size_t i = 0; costs && i < plan->lowered.schedule.step_count; i++) {
    const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, plan->lowered.sources[i].node);
    char class_name[TDM_COST_CLASS], kernel[TDM_COST_KEY];
    if (!node->operation) continue;
    tdm_cost_class(tdm_context_device(plan->graph.context, (size_t)node->device), class_name);
    tdm_cost_kernel(&plan->graph, node, kernel, sizeof kernel);
    const tdm_cost cost = {.alone_ns = KERNEL_NS};
    if (tdm_costs_put(costs, class_name, kernel, cost) != TDM_OK) return NULL;
  }
  return costs;
}

static void note(const job_rank *rank, story *of, const tdm_session *session,
                 const tdm_forecast *made) {
  const tdm_plan *plan = session->last_asked;
  for (size_t q = 0; q < made->queue_count; q++)
    for (int r = 0; r < RANKS; r++) {
      char name[40];
      (void)snprintf(name, sizeof name, "host:%d/cuda:%d peer", r, r);
      if (strcmp(made->queues[q].name, name) == 0)
        of->peer_ns[rank->rank][r] = made->queues[q].busy_ns;
    }
  double ns = 0;
  TDM_EACH_NODE(&plan->graph, node)
    if (tdm_ir_is_exchange(&plan->graph, node)) ns += tdm_plan_predict_ns(plan, node);
  if (rank->rank == 0) of->messages_ns = ns;
}

static tdm_status forecast_rank(job_rank *rank) {
  story *of = (story *)(uintptr_t)rank->user;
  tdm_graph *graph = zigzag_graph(rank->context, "host:0/cuda:0", "host:1/cuda:1", NULL);
  tdm_session *session = job_session(graph, (tdm_value){0}, NULL);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS, 1);
  tdm_fetch fetch = {"scores", NULL};
  tdm_status status = tdm_session_prepare(session, batch.feeds, 1, &fetch, 1, false);
  test_batch_release(&batch);
  tdm_costs *costs = price(session);
  const tdm_forecast_options options = OPTIONS(tdm_forecast_options, o.costs = costs);
  tdm_forecast *made = NULL;
  if (status == TDM_OK) status = tdm_session_forecast(session, &options, &made);
  if (status == TDM_OK) {
    rank->loss = made->step_ns;
    note(rank, of, session, made);
  }
  tdm_forecast_release(made);
  tdm_costs_release(costs);
  tdm_session_release(session);
  return status;
}

static void begin_rank(int rank, const void *user) {
  const story *of = user;
  emulation_set_nccl(of->by_hosts && rank == 0 ? 0 : NEWEST);
}

static double step_ns(story *of) {
  job_rank ranks[RANKS];
  emulation_set_driver(EMULATED_DRIVER, RANKS);
  job_must(&(job_options){.rank_count = RANKS, .user = of, .begin = begin_rank}, forecast_rank,
           ranks);
  assert_true(ranks[0].loss == ranks[1].loss);
  for (int r = 0; r < RANKS; r++)
    assert_true(of->peer_ns[0][r] == of->peer_ns[1][r]);
  return ranks[0].loss;
}

/* Words, then the computed values in both directions: one GPU sends two, the other one, one by
 * one. */
static void what_gpus_send_is_on_their_own_queues(void **state) {
  (void)state;
  story by_gpus = {0}, by_hosts = {.by_hosts = true};
  const double own_ns = step_ns(&by_gpus);
  const double hosts_ns = step_ns(&by_hosts);
  assert_true(by_gpus.messages_ns > 3 * 50000);
  assert_true(by_hosts.messages_ns == 0);
  const double peers_ns = by_gpus.peer_ns[0][0] + by_gpus.peer_ns[0][1];
  if (peers_ns < by_gpus.messages_ns - 1 || peers_ns > by_gpus.messages_ns + 1)
    fail_msg("peer queues have %.0f ns to do, messages take %.0f", peers_ns, by_gpus.messages_ns);
  assert_true(by_hosts.peer_ns[0][0] + by_hosts.peer_ns[0][1] == 0);
  if (own_ns <= by_gpus.messages_ns || own_ns >= hosts_ns)
    fail_msg("a run takes %.0f ns by GPUs, of which messages %.0f, and %.0f by hosts", own_ns,
             by_gpus.messages_ns, hosts_ns);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_gpus_send_is_on_their_own_queues)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
