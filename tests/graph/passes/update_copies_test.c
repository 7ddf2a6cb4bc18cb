/* Gradients on another device than their parameter: every update reads a copy, which is made before
 * the update phase begins, on any queue. A home is given by the session that binds the store first,
 * or by a parallel region whose rows all go to one device. */

#include <stdlib.h>

#define GROUP_CONTEXT graph_context_of(3, 2)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { WIDTH = 6, STEPS = 3 };

static const char *const devices[] = {"cpu:0", "cpu:1", "cpu:2", "sim:0", "sim:1"};
enum { DEVICES = sizeof devices / sizeof devices[0] };

/* ---- Models ---------------------------------------------------------------------------------- */

/* The part "module" of x (batch, WIDTH) and ids (batch). */
typedef tdm_value (*module_builder)(tdm_graph *graph, tdm_value x, tdm_value ids);

static tdm_value one_linear(tdm_graph *graph, tdm_value x, tdm_value ids) {
  (void)ids;
  return tdm_linear(graph, "fc", x, WIDTH);
}

static tdm_value without_bias(tdm_graph *graph, tdm_value x, tdm_value ids) {
  (void)ids;
  return tdm_linear_without_bias(graph, "fc", x, WIDTH);
}

static tdm_value three_linear(tdm_graph *graph, tdm_value x, tdm_value ids) {
  (void)ids;
  x = tdm_tanh(graph, "tanh", tdm_linear(graph, "first", x, 2 * WIDTH));
  x = tdm_tanh(graph, "tanh2", tdm_linear(graph, "second", x, WIDTH));
  return tdm_linear(graph, "third", x, WIDTH);
}

static tdm_value normalized(tdm_graph *graph, tdm_value x, tdm_value ids) {
  (void)ids;
  x = tdm_batch_norm(graph, "norm", tdm_linear(graph, "first", x, WIDTH));
  return tdm_batch_norm(graph, "norm2", tdm_linear(graph, "second", x, WIDTH));
}

static tdm_value looked_up(tdm_graph *graph, tdm_value x, tdm_value ids) {
  const tdm_embedding_options sparse = OPTIONS(tdm_embedding_options, o.sparse = true);
  const tdm_value rows = tdm_embedding_with(graph, "table", ids, 9, WIDTH, &sparse);
  const tdm_value more = tdm_embedding_with(graph, "table2", ids, 9, WIDTH, &sparse);
  return tdm_linear(graph, "fc", tdm_add(graph, "sum", tdm_add(graph, "add", x, rows), more),
                    WIDTH);
}

typedef struct test_case {
  const char *place;   /* device of the module; NULL: none */
  const char *wrapped; /* devices that it is wrapped over; NULL: it is not */
  const double *weights;
  int micro_batches;
  int depth;        /* runs in flight; 0: 1 */
  tdm_store *store; /* NULL: one of its own */
} test_case;

static tdm_graph *graph_of(module_builder build, const test_case *of, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_scope_push(graph, "module");
  if (of->place) tdm_place(graph, of->place);
  const tdm_value y = build(graph, x, ids);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap =
      OPTIONS(tdm_parallel_options, o.devices = of->wrapped, o.weights = of->weights);
  if (of->wrapped) tdm_data_parallel(graph, "module", &wrap);
  tdm_output(graph, "y", y);
  *out_loss = tdm_mse(graph, "loss", y, x);
  return graph;
}

static tdm_session *session_of(module_builder build, const test_case *of,
                               const tdm_optimizer *optimizer) {
  tdm_value loss;
  tdm_graph *graph = graph_of(build, of, &loss);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = optimizer ? loss : (tdm_value){0, 0},
              o.optimizer = optimizer, o.store = of->store,
              o.micro_batches = OR_ONE(of->micro_batches), o.depth = OR_ONE(of->depth), o.seed = 5);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("no session: %s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void fill(tdm_feed feeds[2], int64_t rows, int step) {
  float x[8 * WIDTH];
  int64_t ids[8];
  for (int64_t i = 0; i < rows * WIDTH; i++)
    x[i] = (float)((i * 7 + step * 5) % 11) / 8 - 0.5f;
  for (int64_t i = 0; i < rows; i++)
    ids[i] = (i * 4 + step) % 9;
  feeds[0] =
      (tdm_feed){.name = "x",
                 .tensor = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, rows, WIDTH), x)};
  feeds[1] = (tdm_feed){.name = "ids",
                        .tensor = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, rows), ids)};
}

static void train(tdm_session *session, int64_t rows, const char *what) {
  for (int step = 0; step < STEPS; step++) {
    tdm_feed feeds[2];
    fill(feeds, rows, step);
    tdm_fetch fetch = {.name = "y"};
    const tdm_status status = tdm_train_step(session, feeds, 2, &fetch, 1, NULL);
    if (status != TDM_OK) fail_msg("%s, step %d: %s", what, step, tdm_last_message());
    tdm_tensor_release(fetch.tensor);
    tdm_tensor_release(feeds[0].tensor);
    tdm_tensor_release(feeds[1].tensor);
  }
}

static tdm_tensor_list *trained(module_builder build, const test_case *of,
                                const tdm_optimizer *optimizer, int64_t rows, const char *what) {
  tdm_session *session = session_of(build, of, optimizer);
  train(session, rows, what);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

/* Asserts that training gives the same bits as on one device. */
static void assert_like_plain(module_builder build, const test_case *of,
                              const tdm_optimizer *optimizer, int64_t rows, const char *what) {
  const test_case plain = {.micro_batches = of->micro_batches};
  tdm_tensor_list *wanted = trained(build, &plain, optimizer, rows, "plain");
  tdm_tensor_list *state = trained(build, of, optimizer, rows, what);
  assert_same_state(wanted, state);
  tdm_tensor_list_release(wanted);
  tdm_tensor_list_release(state);
}

static tdm_optimizer with_momentum(void) {
  const tdm_sgd_options options = OPTIONS(tdm_sgd_options, o.learning_rate = 0.1, o.momentum = 0.9);
  return tdm_sgd_with(&options);
}

static tdm_optimizer clipped(void) {
  tdm_optimizer optimizer = tdm_sgd(0.1);
  optimizer.clip_norm = 0.5;
  return optimizer;
}

/* ---- Homes ----------------------------------------------------------------------------------- */

/* Binds at home, trains at place. */
static void check_home(module_builder build, const char *home, const char *place,
                       const tdm_optimizer *optimizer, int64_t rows) {
  char what[80];
  (void)snprintf(what, sizeof what, "bound on %s, trained on %s, %lld rows", home, place,
                 (long long)rows);
  const test_case bound = {.place = home, .store = tdm_store_create(context)};
  tdm_session *first = session_of(build, &bound, NULL);
  const test_case elsewhere = {.place = place, .store = bound.store, .depth = (int)rows % 3};
  assert_like_plain(build, &elsewhere, optimizer, rows, what);
  tdm_session_release(first);
  tdm_store_release(bound.store);
}

static void a_store_bound_elsewhere_is_trained(void **unused) {
  (void)unused;
  const tdm_optimizer dense[] = {tdm_sgd(0.1), with_momentum(), tdm_adam(0.01), clipped()};
  const tdm_optimizer sparse = tdm_sgd(0.1);
  for (int home = 0; home < DEVICES; home++)
    for (int place = 0; place < DEVICES; place++) {
      for (size_t o = 0; o < sizeof dense / sizeof dense[0]; o++) {
        check_home(one_linear, devices[home], devices[place], &dense[o], 1);
        check_home(three_linear, devices[home], devices[place], &dense[o], 3);
      }
      check_home(without_bias, devices[home], devices[place], &dense[0], 3);
      check_home(normalized, devices[home], devices[place], &dense[0], 4);
      check_home(looked_up, devices[home], devices[place], &sparse, 4);
    }
}

/* ---- Wraps ----------------------------------------------------------------------------------- */

static void check_wrap(const char *wrapped, const double *weights) {
  const module_builder builders[] = {one_linear, without_bias, three_linear, looked_up};
  const tdm_optimizer optimizers[] = {tdm_sgd(0.1), clipped()};
  const test_case of = {.wrapped = wrapped, .weights = weights};
  for (size_t b = 0; b < sizeof builders / sizeof builders[0]; b++)
    for (size_t o = 0; o < sizeof optimizers / sizeof optimizers[0]; o++) {
      if (builders[b] == looked_up && o > 0) continue;
      char what[80];
      (void)snprintf(what, sizeof what, "module %zu over %s%s", b, wrapped,
                     weights ? ", weighted" : "");
      assert_like_plain(builders[b], &of, &optimizers[o], 1, what);
    }
}

static void wraps_of_one_row_are_trained(void **unused) {
  (void)unused;
  const double first[] = {3, 1, 1}, last[] = {0.25, 0.25, 8};
  for (int a = 0; a < DEVICES; a++)
    for (int b = 0; b < DEVICES; b++) {
      char two[32], three[48];
      (void)snprintf(two, sizeof two, "%s,%s", devices[a], devices[b]);
      (void)snprintf(three, sizeof three, "%s,%s,%s", devices[a], devices[b],
                     devices[(a + b) % DEVICES]);
      check_wrap(two, NULL);
      check_wrap(two, first);
      check_wrap(two, last);
      check_wrap(three, first);
      check_wrap(three, last);
    }
}

/* Each micro-batch has one row, which goes to one device. */
static void wraps_of_one_row_in_micro_batches_are_trained(void **unused) {
  (void)unused;
  const char *const wraps[] = {"cpu:1,cpu:2", "cpu:1,sim:0", "sim:1,cpu:2", "cpu:2,cpu:0"};
  const double weights[] = {1, 4};
  const tdm_optimizer sgd = tdm_sgd(0.1);
  for (size_t w = 0; w < sizeof wraps / sizeof wraps[0]; w++)
    for (int64_t rows = 1; rows <= 3; rows++) {
      const test_case even = {.wrapped = wraps[w], .micro_batches = 3};
      const test_case weighted = {.wrapped = wraps[w], .weights = weights, .micro_batches = 3};
      assert_like_plain(three_linear, &even, &sgd, rows, wraps[w]);
      assert_like_plain(three_linear, &weighted, &sgd, rows, wraps[w]);
    }
}

/* ---- Where copies come from ------------------------------------------------------------------ */

/* A large parameter is copied from copy to copy. A small one, and any with the matching option, is
 * copied from its home each time. */
static void long_parameters_follow_one_another(void **unused) {
  (void)unused;
  enum { LONG = 256 };
  const tdm_context_options links =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 3,
              o.sim = "latency_us=5,gigabytes_per_second=1");
  for (int from_home = 0; from_home < 2; from_home++) {
    tdm_context *linked = tdm_context_create(&links);
    tdm_graph *graph = tdm_graph_create(linked);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), LONG));
    tdm_output(graph, "y", tdm_linear(graph, "fc", x, LONG));
    const tdm_parallel_options wrap =
        OPTIONS(tdm_parallel_options, o.devices = "sim:0,sim:1,sim:2");
    tdm_data_parallel(graph, "fc", &wrap);
    const tdm_session_options options = OPTIONS(
        tdm_session_options, o.collective = from_home ? TDM_COLLECTIVE_HOME : TDM_COLLECTIVE_AUTO);
    tdm_session *session = run_session(graph, &options);
    tdm_tensor_release(run_on_uniform(session, 6, LONG));
    const char *const told[] = {
        "fc.weight -> fc, sim:0 to sim:1, ",
        from_home ? "fc.weight -> fc, sim:0 to sim:2, " : "fc.weight -> fc, sim:1 to sim:2, ",
        "fc.bias -> fc, sim:0 to sim:1, ", "fc.bias -> fc, sim:0 to sim:2, "};
    char *text = printed(session, print_explain, NULL, TDM_PLAN_TEXT);
    for (size_t i = 0; i < TDM_COUNT_OF(told); i++)
      if (!strstr(text, told[i])) fail_msg("\"%s\" is not in\n%s", told[i], text);
    free(text);
    tdm_session_release(session);
    tdm_context_release(linked);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_store_bound_elsewhere_is_trained),
      cmocka_unit_test(wraps_of_one_row_are_trained),
      cmocka_unit_test(wraps_of_one_row_in_micro_batches_are_trained),
      cmocka_unit_test(long_parameters_follow_one_another),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
