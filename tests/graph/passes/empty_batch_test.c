/* Training on batches without rows, ids or elements: nothing moves that a row would have moved, and
 * the steps after are those of a model that never saw the empty batch. */

#define GROUP_CONTEXT graph_context_of(3, 2)
#include "tests/graph/group.h"
#include "tests/options.h"

#include <math.h>

enum { TABLE = 11, WIDTH = 4, STEPS = 5 };

/* Rows of each step's batch. */
static const int64_t first_empty[STEPS] = {0, 3, 0, 5, 2};
static const int64_t later_empty[STEPS] = {4, 0, 0, 6, 1};
static const int64_t all_empty[STEPS] = {0, 0, 0, 0, 0};
static const int64_t last_empty[STEPS] = {2, 7, 3, 1, 0};
static const int64_t *const batches[] = {first_empty, later_empty, all_empty, last_empty};

typedef struct empty_case {
  const char *table;   /* device of the tables */
  const char *rest;    /* device of the other layers */
  const char *wrapped; /* devices that the rest, with its own look-ups, is wrapped over; or NULL */
  bool sparse;
  bool bags;
  bool grouped; /* the second table has an optimizer of its own */
  int micro_batches;
} empty_case;

/* ---- The model ------------------------------------------------------------------------------- */

static tdm_value look_up(tdm_graph *graph, const empty_case *of, const char *name, tdm_value ids) {
  if (!of->bags) {
    const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.sparse = of->sparse);
    return tdm_embedding_with(graph, name, ids, TABLE, WIDTH, &options);
  }
  const tdm_embedding_bag_options options =
      OPTIONS(tdm_embedding_bag_options, o.sparse = of->sparse, o.mode = TDM_BAG_SUM);
  const tdm_value one = tdm_reshape(graph, name, ids, tdm_shape_of(2, TDM_INFER, 1));
  return tdm_embedding_bag(graph, name, one, TABLE, WIDTH, &options);
}

/* Creates a graph with two tables, one of which is also read on another device; a linear layer; the
 * sum of squares. */
static tdm_graph *graph_of(const empty_case *of, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, of->table);
  const tdm_value one = look_up(graph, of, "one", ids);
  const tdm_value two = look_up(graph, of, "two", ids);
  tdm_place(graph, of->rest);
  tdm_scope_push(graph, "rest");
  const tdm_value y = tdm_linear(graph, "fc", tdm_add(graph, "sum", one, two), WIDTH);
  tdm_scope_pop(graph);
  tdm_tie(graph, "one", "one");
  const tdm_value again = look_up(graph, of, "one", ids);
  const tdm_parallel_options wrap = OPTIONS(tdm_parallel_options, o.devices = of->wrapped);
  if (of->wrapped) tdm_data_parallel(graph, "rest", &wrap);
  const tdm_value square =
      tdm_square(graph, "square", tdm_add(graph, "out", y, tdm_tanh(graph, "tanh", again)));
  *out_loss = tdm_sum(graph, "loss", square, NULL, 0, false);
  tdm_output(graph, "y", y);
  return graph;
}

static tdm_session *session_of(const empty_case *of) {
  tdm_value loss;
  tdm_graph *graph = graph_of(of, &loss);
  const tdm_optimizer sgd = tdm_sgd(0.0625), fast = tdm_sgd(0.125);
  const tdm_parameter_group group = {"two", &fast};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &sgd, o.groups = &group,
              o.group_count = of->grouped, o.micro_batches = OR_ONE(of->micro_batches), o.seed = 3);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("no session: %s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

static void step(tdm_session *session, int64_t rows, int number) {
  int64_t ids[8];
  for (int64_t i = 0; i < rows; i++)
    ids[i] = (i * 5 + number * 3) % TABLE;
  const tdm_feed feed = {"ids", tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, rows), ids),
                         false};
  double loss = -1;
  const tdm_status status = tdm_train_step(session, &feed, 1, NULL, 0, &loss);
  if (status != TDM_OK)
    fail_msg("step %d of %lld rows: %s", number, (long long)rows, tdm_last_message());
  if (rows == 0) assert_true(loss == 0);
  tdm_tensor_release(feed.tensor);
}

static tdm_tensor_list *trained(const empty_case *of, const int64_t *rows, bool skip_empty) {
  tdm_session *session = session_of(of);
  for (int i = 0; i < STEPS; i++)
    if (!skip_empty || rows[i] > 0) step(session, rows[i], i);
  tdm_tensor_list *state = state_of(session);
  tdm_session_release(session);
  return state;
}

static void assert_near(const tdm_tensor_list *a, const tdm_tensor_list *b) {
  assert_int_equal(tdm_tensor_list_count(a), tdm_tensor_list_count(b));
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const char *name = tdm_tensor_list_name(a, i);
    const float *mine = tdm_tensor_data(tdm_tensor_list_tensor(a, i));
    const float *other = tdm_tensor_data(tdm_tensor_list_find(b, name));
    for (size_t k = 0; k < tdm_tensor_bytes(tdm_tensor_list_tensor(a, i)) / sizeof *mine; k++)
      if (!(fabsf(mine[k] - other[k]) <= 1e-5f)) fail_msg("%s differs", name);
  }
}

/* Checks that training equals, bit by bit, one that skips empty batches, and one with dense
 * gradients on one device. */
static void check(const empty_case *of) {
  const empty_case plain = {.table = "cpu:0", .rest = "cpu:0", .grouped = of->grouped};
  for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
    tdm_tensor_list *found = trained(of, batches[b], false);
    tdm_tensor_list *skipped = trained(of, batches[b], true);
    tdm_tensor_list *dense = trained(&plain, batches[b], true);
    assert_same_state(skipped, found);
    assert_near(dense, found);
    tdm_tensor_list_release(found);
    tdm_tensor_list_release(skipped);
    tdm_tensor_list_release(dense);
  }
}

static void tables_are_trained_without_ids(void **unused) {
  (void)unused;
  const char *const places[] = {"cpu:0", "cpu:1", "sim:0"};
  for (int i = 0; i < 9; i++)
    for (int kind = 0; kind < 8; kind++) {
      const empty_case of = {.table = places[i / 3],
                             .rest = places[i % 3],
                             .sparse = kind & 1,
                             .bags = kind & 2,
                             .grouped = kind & 4};
      check(&of);
    }
}

static void wrapped_parts_are_trained_without_rows(void **unused) {
  (void)unused;
  const char *const wraps[] = {"cpu:1,cpu:2", "cpu:2,sim:0,cpu:0", "sim:1,sim:0"};
  for (size_t w = 0; w < sizeof wraps / sizeof wraps[0]; w++)
    for (int kind = 0; kind < 4; kind++) {
      const empty_case of = {.table = "cpu:1",
                             .rest = "cpu:0",
                             .wrapped = wraps[w],
                             .sparse = kind & 1,
                             .bags = kind & 2};
      check(&of);
    }
}

static void micro_batches_are_trained_without_rows(void **unused) {
  (void)unused;
  for (int kind = 0; kind < 4; kind++) {
    const empty_case of = {.table = "cpu:1",
                           .rest = "sim:0",
                           .wrapped = kind & 2 ? "cpu:1,sim:0" : NULL,
                           .sparse = kind & 1,
                           .micro_batches = 3};
    check(&of);
  }
}

/* ---- Batch normalization --------------------------------------------------------------------- */

typedef struct norm_case {
  const char *wrapped; /* or NULL */
  const double *weights;
  int micro_batches;
  double momentum;
  int64_t width; /* width of the images; 0: x is (batch, channels) */
} norm_case;

static tdm_session *norm_session(const norm_case *of) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape flat = tdm_shape_of(2, TDM_DIM("batch"), WIDTH);
  const tdm_shape image = tdm_shape_of(4, TDM_DIM("batch"), WIDTH, of->width, TDM_DIM("w"));
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, of->width ? image : flat);
  const tdm_batch_norm_options options =
      OPTIONS(tdm_batch_norm_options, o.momentum = of->momentum != 0 ? of->momentum : 0.1);
  tdm_scope_push(graph, "module");
  const tdm_value y = tdm_batch_norm_with(graph, "norm", x, &options);
  tdm_scope_pop(graph);
  const tdm_parallel_options wrap =
      OPTIONS(tdm_parallel_options, o.devices = of->wrapped, o.weights = of->weights);
  if (of->wrapped) tdm_data_parallel(graph, "module", &wrap);
  const tdm_value loss = tdm_sum(graph, "loss", tdm_tanh(graph, "tanh", y), NULL, 0, false);
  const tdm_session_options session =
      OPTIONS(tdm_session_options, o.micro_batches = OR_ONE(of->micro_batches),
              o.batch_dimension = of->micro_batches ? "batch" : NULL);
  return train_session(graph, loss, tdm_sgd(0.125), &session);
}

static void norm_step(tdm_session *session, const norm_case *of, int64_t rows, int64_t w) {
  float values[8 * WIDTH * 6];
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    values[i] = (float)(i * 7 % 13) / 4;
  const tdm_shape shape =
      of->width ? tdm_shape_of(4, rows, WIDTH, of->width, w) : tdm_shape_of(2, rows, WIDTH);
  const tdm_feed feed = {"x", tdm_tensor_from(context, TDM_FLOAT32, shape, values), false};
  assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_release(feed.tensor);
}

static int64_t counted(const tdm_tensor_list *state) {
  return *(const int64_t *)tdm_tensor_data(
      tdm_tensor_list_find(state, "module/norm.num_batches_tracked"));
}

/* An empty step changes only the count of batches. */
static void assert_unmoved(const tdm_tensor_list *before, const tdm_tensor_list *after) {
  for (size_t i = 0; i < tdm_tensor_list_count(before); i++) {
    const char *name = tdm_tensor_list_name(before, i);
    if (strstr(name, "num_batches_tracked")) continue;
    assert_same_tensor(tdm_tensor_list_tensor(before, i), tdm_tensor_list_find(after, name));
  }
  assert_int_equal(counted(after), counted(before) + 1);
}

static void check_norm(const norm_case *of) {
  tdm_session *session = norm_session(of);
  const int64_t rows[] = {0, 8, 0, 8, 0}; /* no part has a single row, which would be refused */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tdm_tensor_list *before = state_of(session);
    norm_step(session, of, rows[i], 3);
    tdm_tensor_list *after = state_of(session);
    if (rows[i] == 0) assert_unmoved(before, after);
    tdm_tensor_list_release(before);
    tdm_tensor_list_release(after);
  }
  if (of->width) { /* images without a column */
    tdm_tensor_list *before = state_of(session);
    norm_step(session, of, 1, 0);
    tdm_tensor_list *after = state_of(session);
    assert_unmoved(before, after);
    tdm_tensor_list_release(before);
    tdm_tensor_list_release(after);
  }
  tdm_tensor_list *state = state_of(session);
  const float *mean = tdm_tensor_data(tdm_tensor_list_find(state, "module/norm.running_mean"));
  for (int c = 0; c < WIDTH; c++)
    assert_true(isfinite(mean[c]) && mean[c] != 0);
  tdm_tensor_list_release(state);
  tdm_session_release(session);
}

static void statistics_stay_on_an_empty_batch(void **unused) {
  (void)unused;
  const double to_the_second[] = {0, 1}, mostly_second[] = {0.01, 1, 1};
  const norm_case cases[] = {
      {.momentum = 0},
      {.momentum = -1},
      {.width = 2},
      {.width = 1, .momentum = -1},
      {.wrapped = "cpu:1,cpu:2"},
      {.wrapped = "sim:0,cpu:2", .width = 2},
      {.wrapped = "cpu:1,sim:1", .weights = to_the_second},
      {.wrapped = "cpu:1,cpu:2", .weights = to_the_second, .width = 2},
      {.wrapped = "cpu:0,cpu:2,sim:0", .weights = mostly_second},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    check_norm(&cases[i]);
}

/* Only micro-batches with rows are computed. If none has rows, one is computed. */
static void micro_batches_of_nothing_count_once(void **unused) {
  (void)unused;
  const norm_case cases[] = {{.micro_batches = 3},
                             {.micro_batches = 4, .width = 2},
                             {.micro_batches = 2, .wrapped = "cpu:1,sim:0"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    check_norm(&cases[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_trained_without_ids),
      cmocka_unit_test(wrapped_parts_are_trained_without_rows),
      cmocka_unit_test(micro_batches_are_trained_without_rows),
      cmocka_unit_test(statistics_stay_on_an_empty_batch),
      cmocka_unit_test(micro_batches_of_nothing_count_once),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
