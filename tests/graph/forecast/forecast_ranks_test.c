/* Forecasts of equal ranks. The ranks of one host, which represent all ranks, take the time that
 * each rank takes in a forecast of all. Sums take the time of their formulas. Different or missing
 * ranks are refused by name. */
#include <math.h>

#include "tests/graph/forecast/support.h"
#include "tests/options.h"

enum { WIDTH = 64, LAYERS = 5, ROWS = 6 };

#define DEVICE                                                                                     \
  "\"device\": {\"model\": \"toy\", \"flops_per_second\": {\"float32\": 2e9}, "                    \
  "\"memory_bytes_per_second\": 1e9, \"launch_us\": 3}, "
/* Computes in no time. */
#define QUICK                                                                                      \
  "\"device\": {\"model\": \"quick\", \"flops_per_second\": {\"float32\": 1e20}, "                 \
  "\"memory_bytes_per_second\": 1e18}, "
#define HEAD "{\"title\": \"test\", \"sources\": [\"this test\"], "
#define PEER "\"peer\": {\"latency_us\": 1, \"bytes_per_second\": 4e9}, "
#define HOST "\"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 3e9}, "
#define NETWORK "\"network\": {\"latency_us\": 20, \"bytes_per_second\": 1e9}}"

typedef struct job {
  int ranks;
  int width; /* devices of a rank, which the layers are placed over */
  bool each;
  bool sparse; /* begins with a table of embeddings */
  double clip_norm;
} job;

static tdm_value describe(tdm_graph *graph, const job *of, tdm_value x) {
  for (int i = 0; i < LAYERS; i++) {
    char name[24];
    (void)snprintf(name, sizeof name, "paper:%d", i * of->width / LAYERS);
    tdm_place(graph, name);
    (void)snprintf(name, sizeof name, "fc%d", i);
    x = tdm_linear(graph, name, x, WIDTH);
  }
  return x;
}

static tdm_session *open_job(tdm_context *context, const job *of) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_embedding_options table = OPTIONS(tdm_embedding_options, o.sparse = true);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "paper:0");
  tdm_value x;
  if (of->sparse)
    x = tdm_embedding_with(graph, "table", tdm_input(graph, "x", TDM_INT64, tdm_shape_of(1, batch)),
                           1000, WIDTH, &table);
  else
    x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  tdm_optimizer optimizer = tdm_sgd(0.1);
  if (of->clip_norm > 0) optimizer.clip_norm = of->clip_norm;
  return train_session(graph, tdm_mse(graph, "loss", describe(graph, of, x), y), optimizer,
                       WITH(tdm_session_options, o.alike_ranks = OR_ONE(of->ranks)));
}

static void prepare(tdm_context *context, const job *of, tdm_session *session) {
  const tdm_shape rows = tdm_shape_of(2, ROWS, WIDTH);
  tdm_tensor *x = of->sparse ? tdm_tensor_zeros(context, "cpu:0", TDM_INT64, tdm_shape_of(1, ROWS))
                             : tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, rows);
  tdm_tensor *y = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, rows);
  const tdm_feed feeds[] = {{"x", x, false}, {"y", y, false}};
  assert_ok(tdm_session_prepare(session, feeds, 2, NULL, 0, true));
  tdm_tensor_release(x);
  tdm_tensor_release(y);
}

static tdm_status try_job(tdm_context *context, const job *of, tdm_forecast **out_made) {
  tdm_session *session = open_job(context, of);
  prepare(context, of, session);
  const tdm_forecast_options options = OPTIONS(tdm_forecast_options, o.each_rank = of->each);
  const tdm_status status = tdm_session_forecast(session, &options, out_made);
  tdm_session_release(session);
  return status;
}

static tdm_forecast *forecast_job(tdm_context *context, job of) {
  tdm_forecast *made;
  if (of.width == 0) of.width = 1;
  if (try_job(context, &of, &made) != TDM_OK) fail_msg("%s", tdm_last_message());
  return made;
}

/* ---- Symmetry -------------------------------------------------------------------------------- */

/* A forecast from one host's ranks equals, for these, the forecast of all ranks. */
static void expect_alike(tdm_context *context, job of) {
  tdm_forecast *folded = forecast_job(context, of);
  of.each = true;
  tdm_forecast *each = forecast_job(context, of);
  assert_int_equal(each->ranks, of.ranks);
  assert_int_equal(each->simulated_ranks, of.ranks);
  assert_true(folded->simulated_ranks < each->simulated_ranks);
  assert_close(folded->step_ns, each->step_ns);
  for (size_t i = 0; i < folded->link_count; i++) {
    const tdm_forecast_link *link = &folded->links[i];
    assert_close(link->bytes, forecast_link(each, link->name)->bytes);
    assert_int_equal(link->copies, forecast_link(each, link->name)->copies);
  }
  tdm_forecast_release(folded);
  tdm_forecast_release(each);
}

static void one_host_stands_for_all(void **state) {
  (void)state;
  static const char *const machines[] = {
      HEAD "\"hosts\": 8, " DEVICE HOST NETWORK,
      HEAD "\"hosts\": 8, \"devices_per_host\": 2, " DEVICE PEER HOST NETWORK,
      HEAD
      "\"hosts\": 8, \"devices_per_host\": 2, " DEVICE
      "\"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 3e9, \"sharing\": 2}, " NETWORK};
  for (size_t m = 0; m < TDM_COUNT_OF(machines); m++) {
    tdm_context *context = context_of(machines[m]);
    const int per_host = m == 0 ? 1 : 2;
    for (int hosts = 2; hosts <= 8; hosts *= 2)
      for (int width = 1; width <= per_host; width++)
        for (int kind = 0; kind < 3; kind++)
          expect_alike(context, (job){.ranks = hosts * per_host / width,
                                      .width = width,
                                      .sparse = kind == 1,
                                      .clip_norm = kind == 2 ? 1 : 0});
    tdm_context_release(context);
  }
}

/* Checks a rank that has all devices of two hosts. */
static void a_rank_may_have_several_hosts(void **state) {
  (void)state;
  tdm_context *context =
      context_of(HEAD "\"hosts\": 8, \"devices_per_host\": 2, " DEVICE PEER HOST NETWORK);
  expect_alike(context, (job){.ranks = 2, .width = 4});
  expect_alike(context, (job){.ranks = 4, .width = 4});
  tdm_context_release(context);
}

/* ---- Formulas -------------------------------------------------------------------------------- */

/* Bytes of the gradients, of a weight and of a bias. */
static const double weight_bytes = 4.0 * WIDTH * WIDTH;
static const double bias_bytes = 4.0 * WIDTH;

static double levels(int ranks) {
  return ceil(log2(ranks));
}

/* Returns the duration of sums by hosts in sequence if only the exchanges between ranks take time:
 * the network's latency is 20 us, a byte takes 1 ns. At the end all ranks vote. */
static double expected_ns(int ranks) {
  const double k = ranks, latency = 20000, vote = 2 * levels(ranks) * latency;
  const double all = LAYERS * (weight_bytes + bias_bytes);
  /* As many buckets as make the sum of latencies and the last one's bytes least; here each has
   * enough with its share of all bytes: gradients come in the order last to first. */
  const double stream = 2 * (k - 1) / k * all;
  const double enough = all * fmin(1, sqrt(2 * levels(ranks) * latency / stream));
  double buckets = 0, filled = 0, left = all;
  for (int i = 0; i < 2 * LAYERS; i++) {
    const double bytes = i % 2 == 0 ? weight_bytes : bias_bytes;
    filled += bytes;
    left -= bytes;
    if (filled < enough && left > 0) continue;
    filled = 0;
    buckets++;
  }
  return buckets * 2 * levels(ranks) * latency + stream + vote;
}

static void sums_take_what_their_formulas_say(void **state) {
  (void)state;
  tdm_context *context = context_of(HEAD "\"hosts\": 65536, " QUICK HOST NETWORK);
  static const int ranks[] = {2, 3, 4, 8, 64, 1000, 4096, 65536};
  for (size_t i = 0; i < TDM_COUNT_OF(ranks); i++) {
    tdm_forecast *made = forecast_job(context, (job){.ranks = ranks[i]});
    tdm_forecast *alone = forecast_job(context, (job){.ranks = 1});
    assert_int_equal(made->simulated_ranks, 1);
    /* The transfer of inputs before, and the work of a single host. */
    const double wanted = alone->step_ns + expected_ns(ranks[i]);
    if (fabs(made->step_ns - wanted) > 1e-3 * wanted)
      fail_msg("%d ranks: %.1f ns, not %.1f", ranks[i], made->step_ns, wanted);
    tdm_forecast_release(made);
    tdm_forecast_release(alone);
  }
  tdm_context_release(context);
}

/* Rows of a table come from all ranks, and every rank's table is updated by all of them. */
static void rows_of_tables_come_from_all(void **state) {
  (void)state;
  tdm_context *context = context_of(HEAD "\"hosts\": 64, " DEVICE HOST NETWORK);
  const job of = {.ranks = 16, .sparse = true};
  tdm_forecast *rows = forecast_job(context, of);
  tdm_forecast *dense = forecast_job(context, (job){.ranks = 16});
  const double more = forecast_link(rows, "paper:0 out to the network")->bytes -
                      forecast_link(dense, "paper:0 out to the network")->bytes;
  assert_close(more, 15.0 * ROWS * (4 * WIDTH + 8));
  tdm_forecast_release(rows);
  tdm_forecast_release(dense);
  tdm_context_release(context);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void expect_refused(tdm_context *context, job of, const char *words) {
  tdm_forecast *made;
  if (of.width == 0) of.width = 1;
  assert_int_equal(try_job(context, &of, &made), TDM_INVALID_ARGUMENT);
  assert_null(made);
  if (!strstr(tdm_last_message(), words)) fail_msg("%s: not in: %s", words, tdm_last_message());
}

static void what_is_not_alike_is_refused(void **state) {
  (void)state;
  tdm_context *context =
      context_of(HEAD "\"hosts\": 5, \"devices_per_host\": 4, " DEVICE PEER HOST NETWORK);
  expect_refused(context, (job){.ranks = 24}, "24 ranks of 1 devices: test has 20");
  expect_refused(context, (job){.ranks = 6}, "do not fill hosts of 4 evenly");
  expect_refused(context, (job){.ranks = 2, .width = 3}, "2 ranks of 3 devices do not fill");
  tdm_context_release(context);
}

static tdm_session *place_on(tdm_context *context, const char *device, int ranks) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  const tdm_value loss = tdm_mse(graph, "loss", tdm_linear(graph, "fc", x, WIDTH), x);
  tdm_session *session =
      tdm_session_create(graph, WITH(tdm_session_options, o.loss = loss, o.optimizer = &optimizer,
                                     o.alike_ranks = ranks));
  tdm_graph_release(graph);
  return session;
}

static void devices_that_are_here_have_no_alike_ranks(void **state) {
  (void)state;
  tdm_context *context = context_of(HEAD "\"hosts\": 4, " DEVICE HOST NETWORK);
  assert_null(place_on(context, "cpu:1", 2));
  assert_non_null(strstr(tdm_last_message(), "fc.weight: equal ranks are for forecasts"));
  assert_null(place_on(context, "paper:0", -1));
  assert_non_null(strstr(tdm_last_message(), "alike_ranks is -1"));
  assert_null(place_on(context, "paper:0", TDM_MAX_ALIKE_RANKS + 1));
  tdm_session *session = place_on(context, "cpu:1", 1);
  assert_non_null(session);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_host_stands_for_all),
      cmocka_unit_test(a_rank_may_have_several_hosts),
      cmocka_unit_test(sums_take_what_their_formulas_say),
      cmocka_unit_test(rows_of_tables_come_from_all),
      cmocka_unit_test(what_is_not_alike_is_refused),
      cmocka_unit_test(devices_that_are_here_have_no_alike_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
