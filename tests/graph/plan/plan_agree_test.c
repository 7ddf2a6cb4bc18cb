/* Ranks whose plans differ: before the first byte of a run, every rank reports the same error, with
 * the first difference and its values on both ranks. */
#include <stdio.h>

#include "graph/run/session.h"
#include "tests/graph/job.h"
#include "tests/options.h"

enum { ROWS = 12 };

/* Changes of the last rank. */
typedef struct deviation {
  const char *device; /* device of the second layer; NULL: host:0/cpu:0 */
  int64_t width;      /* width of the hidden layer; 0: 24 */
  bool relu;          /* uses relu instead of tanh */
  uint64_t seed;
  int64_t rows; /* rows more than other ranks feed */
  bool longer;  /* a layer more */
  double slope; /* slope of the leaky ReLU, if there is one; 0: there is none */
} deviation;

/* All ranks have a layer with a number then. */
static bool odd_slope(const deviation *of) {
  return of->slope > 0;
}

static tdm_status run_differently(job_rank *rank) {
  static const deviation none = {0};
  const bool odd = rank->rank == rank->rank_count - 1;
  const deviation *mine = odd ? rank->user : &none;
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, "host:0/cpu:0");
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  tdm_place(graph, mine->device ? mine->device : "host:0/cpu:0");
  const int64_t width = mine->width > 0 ? mine->width : 24;
  tdm_value there = tdm_linear(graph, "hidden", words, width);
  there = mine->relu ? tdm_relu(graph, "bend", there) : tdm_tanh(graph, "bend", there);
  if (odd_slope(rank->user)) there = tdm_leaky_relu(graph, "sloped", there, mine->slope + 0.5);
  if (mine->longer) there = tdm_linear(graph, "longer", there, width);
  tdm_output(graph, "scores", there);
  const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = 7 + mine->seed);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  if (!session) return TDM_INTERNAL;
  test_batch batch;
  test_batch_make(&batch, rank->context, ROWS + mine->rows, 1);
  tdm_fetch fetch = {.name = "scores"};
  const tdm_status status = tdm_run(session, batch.feeds, 1, &fetch, 1);
  tdm_tensor_release(fetch.tensor);
  test_batch_release(&batch);
  tdm_session_release(session);
  return status;
}

static void says(const deviation *odd, const char *first, const char *second) {
  job_rank ranks[3];
  job_run(&(job_options){.rank_count = 3, .user = odd}, run_differently, ranks);
  for (int r = 0; r < 3; r++) {
    assert_status(ranks[r].status, TDM_INVALID_ARGUMENT);
    if (!strstr(ranks[r].message, first) || !strstr(ranks[r].message, second))
      fail_msg("\"%s\" does not say \"%s\" and \"%s\"", ranks[r].message, first, second);
    assert_string_equal(ranks[r].message, ranks[0].message);
  }
}

static void equal_plans_run(void **state) {
  (void)state;
  job_rank ranks[3];
  job_must(&(job_options){.rank_count = 3, .user = &(deviation){0}}, run_differently, ranks);
}

static void what_differs_first_is_named_with_both_values(void **state) {
  (void)state;
  says(&(deviation){.width = 25}, "rank 0 has hidden: linear, float32 [12, 24], on host:0/cpu:0",
       "rank 2 has hidden: linear, float32 [12, 25], on host:0/cpu:0");
  says(&(deviation){.relu = true}, "rank 0 has bend: tanh", "rank 2 has bend: relu");
  says(&(deviation){.rows = 1}, "float32 [12, 10]", "float32 [13, 10]");
  says(&(deviation){.seed = 1}, "seed 7", "seed 8");
  says(&(deviation){.slope = 0.25}, "rank 0 has bend+sloped: fused, float32 [12, 24]",
       "; rank 2 has the same with other attributes or inputs");
  says(&(deviation){.longer = true}, "rank 0 has", "rank 2 has longer: linear");
}

static void a_device_that_only_one_rank_names_is_refused(void **state) {
  (void)state;
  says(&(deviation){.device = "host:2/cpu:0"}, "on host:0/cpu:0", "host:2/cpu:0");
}

static void a_plain_name_in_a_graph_is_rank_0s(void **state) {
  (void)state;
  job_rank ranks[3];
  job_must(&(job_options){.rank_count = 3, .user = &(deviation){.device = "cpu:0"}},
           run_differently, ranks);
}

/* ---- Compared properties --------------------------------------------------------------------- */

static uint64_t digest_of(tdm_plan *plan) {
  const tdm_plan_request request = {.seed = 7};
  assert_ok(tdm_plan_digest(plan, &request));
  return plan->digest;
}

/* Checks that the digest changes with the field and does not depend on names. */
#define assert_counts(plan, field, digest)                                                         \
  do {                                                                                             \
    (field) += 1;                                                                                  \
    assert_int_not_equal(digest_of(plan), digest);                                                 \
    (field) -= 1;                                                                                  \
  } while (0)

static void whatever_a_node_goes_by_counts(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_value loss;
  tdm_graph *graph = tied_graph(context, "cpu:0", "sim:0", &loss);
  tdm_session *session = train_session(graph, loss, tdm_adam(0.1), NULL);
  (void)train_steps(session, ROWS, 1);
  tdm_plan *plan = session->newest;
  const uint64_t digest = digest_of(plan);
  size_t nodes = 0;
  TDM_EACH_NODE(&plan->graph, node) {
    assert_counts(plan, node->condition, digest);
    assert_counts(plan, node->update_group, digest);
    assert_counts(plan, node->role, digest);
    assert_counts(plan, node->index, digest);
    for (uint32_t k = 0; k < node->output_count; k++) {
      tdm_ir_value *value = tdm_ir_value_at(&plan->graph, node->first_output + k);
      assert_counts(plan, value->bytes, digest);
      assert_counts(plan, value->offset, digest);
      assert_counts(plan, value->root, digest);
      const tdm_spec *shared = value->spec;
      tdm_spec spec = *shared;
      value->spec = &spec;
      assert_counts(plan, spec.dtype, digest);
      assert_counts(plan, spec.format, digest);
      value->spec = shared;
    }
    nodes++;
  }
  assert_true(nodes > 10);
  assert_int_equal(digest_of(plan), digest);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* ---- What engines do not notice -------------------------------------------------------------- */

/* Mistakes in sums by an engine: on other ranks the sums are of other layers, of another dtype, not
 * sums at all, or of another size. */
typedef enum mistake { NO_MISTAKE, IN_ORDER, IN_DTYPE, IN_KIND, IN_SIZE } mistake;

enum { MISTAKE_WIDTH = 128, MISTAKE_BYTES = MISTAKE_WIDTH * MISTAKE_WIDTH * 4 };

static tdm_value describe_mistake(tdm_graph *graph, mistake made, tdm_value x) {
  static const char *const names[] = {"first", "second"};
  tdm_value y = x;
  if (made == IN_DTYPE) {
    tdm_scope_dtype(graph, TDM_FLOAT64);
    y = tdm_cast(graph, "wide", x, TDM_FLOAT64);
  }
  for (int i = 0; i < 2; i++) {
    const int64_t width = made == IN_SIZE && i == 0 ? MISTAKE_WIDTH / 2 : MISTAKE_WIDTH;
    y = tdm_tanh(graph, "bend", tdm_linear(graph, names[made == IN_ORDER ? 1 - i : i], y, width));
  }
  if (made == IN_DTYPE) y = tdm_cast(graph, "narrow", y, TDM_FLOAT32);
  return made == IN_SIZE ? tdm_linear(graph, "third", y, MISTAKE_WIDTH) : y;
}

/* Both layers' gradients are summed over all ranks; number: bytes that this rank has sent. */
static tdm_status train_with_mistake(job_rank *rank) {
  const bool odd = rank->rank == rank->rank_count - 1;
  const mistake made = odd ? *(const mistake *)rank->user : NO_MISTAKE;
  const tdm_dtype dtype = TDM_FLOAT32;
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), MISTAKE_WIDTH);
  tdm_graph *graph = tdm_graph_create(rank->context);
  const tdm_value x = tdm_input(graph, "x", dtype, shape);
  tdm_place(graph, "host:0/cpu:0");
  tdm_scope_push(graph, "model");
  const tdm_value y = describe_mistake(graph, made, x);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_mse(graph, "loss", y, x);
  const tdm_parallel_options everywhere = OPTIONS(tdm_parallel_options, o.devices = "host:*/cpu:0");
  if (made != IN_KIND) tdm_data_parallel(graph, "model", &everywhere);
  const job_model model = {.optimizer = tdm_sgd(0.1)};
  tdm_session *session = job_session(graph, loss, &model);
  if (!session) return TDM_INTERNAL;
  tdm_tensor *fed = tdm_tensor_zeros(rank->context, "cpu:0", dtype,
                                     tdm_shape_of(2, 2 * rank->rank_count, MISTAKE_WIDTH));
  const tdm_feed feed = {"x", fed, false};
  const tdm_status status = tdm_train_step(session, &feed, 1, NULL, 0, NULL);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  for (int r = 0; r < rank->rank_count; r++)
    if (r != rank->rank) rank->number += tdm_simnet_sent(rank->net, rank->rank, r).bytes;
  return status;
}

static void mistakes_are_refused_before_a_gradient_moves(void **state) {
  (void)state;
  static const char *const told[][2] = {
      [IN_ORDER] = {"rank 0 has model/first", "rank 2 has model/second"},
      [IN_DTYPE] = {"float32", "float64"},
      [IN_KIND] = {"rank 0 has ", "rank 2 has "},
      [IN_SIZE] = {"[128, 128]", "[64, 128]"},
  };
  for (mistake made = NO_MISTAKE; made <= IN_SIZE; made++) {
    job_rank ranks[3];
    job_run(&(job_options){.rank_count = 3, .user = &made}, train_with_mistake, ranks);
    for (int r = 0; r < 3; r++) {
      assert_status(ranks[r].status, made == NO_MISTAKE ? TDM_OK : TDM_INVALID_ARGUMENT);
      if (made == NO_MISTAKE) {
        assert_true(ranks[r].number > MISTAKE_BYTES);
        continue;
      }
      assert_true(ranks[r].number < MISTAKE_BYTES);
      assert_string_equal(ranks[r].message, ranks[0].message);
      for (int side = 0; side < 2; side++)
        if (!strstr(ranks[r].message, told[made][side]))
          fail_msg("\"%s\" does not say \"%s\"", ranks[r].message, told[made][side]);
    }
    if (made != NO_MISTAKE) print_message("%s\n", ranks[0].message);
  }
}

/* ---- Names ----------------------------------------------------------------------------------- */

static tdm_status look_up(job_rank *rank) {
  tdm_context *context = rank->context;
  char own[24];
  (void)snprintf(own, sizeof own, "host:%d/cpu:0", rank->rank);
  const char *const there[] = {"cpu:0", "host:0/cpu:0", "host:1/sim:1", "host:1/cpu", own};
  for (size_t i = 0; i < TDM_COUNT_OF(there); i++)
    TDM_TRY(tdm_device_check(context, there[i]));
  static const struct {
    const char *name;
    const char *reason;
  } absent[] = {
      {"host:2/cpu:0", "the job has 2 ranks"},
      {"host:1/cpu:1", "there is no host:1/cpu:1"},
      {"host:*/cpu:0", "a device of every rank"},
      {"host:1/sim:*", "all devices of a kind"},
      {"host:x/cpu:0", "host:rank/kind:index"},
      {"host:1", "host:rank/kind:index"},
      {"host:/cpu:0", "host:rank/kind:index"},
      {"host:1/", "as kind:index"},
      {"cpu:1", "there is no cpu:1"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(absent); i++) {
    if (tdm_device_check(context, absent[i].name) != TDM_OK &&
        strstr(tdm_last_message(), absent[i].reason))
      continue;
    return tdm_fail(TDM_INTERNAL, "%s: %s", absent[i].name, tdm_last_message());
  }
  rank->number = tdm_device_count(context);
  return TDM_OK;
}

static void devices_of_ranks_have_names(void **state) {
  (void)state;
  job_rank ranks[2];
  job_must(&(job_options){.rank_count = 2, .sim_devices = 2}, look_up, ranks);
  assert_int_equal(ranks[0].number, 6);
  assert_int_equal(ranks[1].number, 6);
  tdm_context *context = graph_context_of(1, 1);
  assert_ok(tdm_device_check(context, "host:0/cpu:0"));
  assert_status(tdm_device_check(context, "host:1/cpu:0"), TDM_UNAVAILABLE);
  assert_message("the job has 1 rank");
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_plans_run),
      cmocka_unit_test(what_differs_first_is_named_with_both_values),
      cmocka_unit_test(a_device_that_only_one_rank_names_is_refused),
      cmocka_unit_test(a_plain_name_in_a_graph_is_rank_0s),
      cmocka_unit_test(whatever_a_node_goes_by_counts),
      cmocka_unit_test(mistakes_are_refused_before_a_gradient_moves),
      cmocka_unit_test(devices_of_ranks_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
