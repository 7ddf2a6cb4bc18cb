/* Data parallelism: chunks, parallel regions against the same chunks on one device and against the
 * model without regions, traffic, nesting, errors. */
#include <stdlib.h>

#include "devices/tensors/chunks.h"
#include "graph/run/session.h"

#define GROUP_CONTEXT graph_context_of(4, 4)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { WIDTH = 8, HIDDEN = 12 };

/* ---- Chunks ---------------------------------------------------------------------------------- */

static void expect_chunks(int64_t rows, size_t devices, const double *weights, size_t count,
                          const int64_t *wanted) {
  int64_t sizes[TDM_MAX_PARTS];
  assert_int_equal(tdm_chunk_sizes(rows, devices, weights, sizes), count ? count : 1);
  for (size_t i = 0; i < devices; i++)
    assert_int_equal(sizes[i], wanted[i]);
}

static void chunks_are_those_of_torch(void **unused) {
  (void)unused;
  expect_chunks(30, 1, NULL, 1, (int64_t[]){30});
  expect_chunks(30, 2, NULL, 2, (int64_t[]){15, 15});
  expect_chunks(30, 3, NULL, 3, (int64_t[]){10, 10, 10});
  expect_chunks(30, 4, NULL, 4, (int64_t[]){8, 8, 8, 6});
  expect_chunks(30, 8, NULL, 8, (int64_t[]){4, 4, 4, 4, 4, 4, 4, 2});
  expect_chunks(10, 8, NULL, 5, (int64_t[]){2, 2, 2, 2, 2, 0, 0, 0});
  expect_chunks(36, 7, NULL, 6, (int64_t[]){6, 6, 6, 6, 6, 6, 0});
  expect_chunks(9, 4, NULL, 3, (int64_t[]){3, 3, 3, 0});
  expect_chunks(1, 2, NULL, 1, (int64_t[]){1, 0});
  expect_chunks(0, 3, NULL, 0, (int64_t[]){0, 0, 0});
}

static void chunks_follow_weights(void **unused) {
  (void)unused;
  expect_chunks(30, 2, (double[]){1, 2}, 2, (int64_t[]){10, 20});
  expect_chunks(10, 3, (double[]){0, 1, 1}, 2, (int64_t[]){0, 5, 5});
  expect_chunks(7, 2, (double[]){1, 1000}, 1, (int64_t[]){0, 7});
  expect_chunks(0, 2, (double[]){1, 1}, 0, (int64_t[]){0, 0});
  for (int64_t rows = 0; rows < 50; rows++) { /* rounding loses no row */
    int64_t sizes[3];
    tdm_chunk_sizes(rows, 3, (double[]){0.1, 0.7, 0.2}, sizes);
    assert_int_equal(sizes[0] + sizes[1] + sizes[2], rows);
    for (int i = 0; i < 3; i++)
      assert_true(sizes[i] >= 0);
  }
}

static void chunks_of_very_many_rows_add_up(void **unused) {
  (void)unused;
  const double weights[] = {1, 3, 1e-20};
  for (int64_t rows = INT64_MAX; rows > INT64_MAX - 3000; rows -= 7)
    for (size_t kind = 0; kind < 2; kind++) {
      int64_t sizes[3], rest = rows;
      assert_int_equal(tdm_chunk_sizes(rows, 3, kind ? weights : NULL, sizes), 2 + (kind == 0));
      for (int i = 0; i < 3; i++) {
        assert_true(sizes[i] >= 0 && sizes[i] <= rest);
        rest -= sizes[i];
      }
      assert_int_equal(rest, 0);
    }
}

/* ---- A model: x -> before -> [block: linear, tanh, linear] -> after -------------------------- */

static tdm_value build_block(tdm_graph *graph, tdm_value x) {
  tdm_scope_push(graph, "block");
  const tdm_value hidden = tdm_tanh(graph, "tanh", tdm_linear(graph, "in", x, HIDDEN));
  const tdm_value out = tdm_linear(graph, "out", hidden, WIDTH);
  tdm_scope_pop(graph);
  return out;
}

typedef struct block_model {
  tdm_graph *graph;
  tdm_value loss;
} block_model;

/* devices NULL: not wrapped. */
static block_model build_model(const char *devices, const char *output_device,
                               const double *weights) {
  block_model model = {.graph = tdm_graph_create(context)};
  tdm_graph *graph = model.graph;
  const tdm_dim batch = TDM_DIM("batch");
  tdm_place(graph, "cpu:0");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  const tdm_value before = tdm_linear(graph, "before", x, WIDTH);
  const tdm_value block = build_block(graph, before);
  if (devices) {
    const tdm_parallel_options options =
        OPTIONS(tdm_parallel_options, o.devices = devices, o.output_device = output_device,
                o.weights = weights);
    tdm_data_parallel(graph, "block", &options);
  }
  const tdm_value after = tdm_linear(graph, "after", block, WIDTH);
  tdm_output(graph, "block", block);
  tdm_output(graph, "scores", after);
  model.loss = tdm_mse(graph, "loss", after, y);
  return model;
}

static tdm_session *block_session(const char *devices, const char *output_device,
                                  const double *weights, bool deterministic) {
  block_model model = build_model(devices, output_device, weights);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 5, o.deterministic = deterministic);
  return train_session(model.graph, model.loss, tdm_adam(0.01), &options);
}

static tdm_tensor *draw(int64_t rows, int64_t columns, uint64_t seed) {
  tdm_tensor *tensor =
      tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, columns));
  assert_non_null(tensor);
  const tdm_random random = {seed, 1, 0};
  float *data = tdm_tensor_data(tensor);
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = tdm_random_uniform_float32(&random, (uint64_t)i) * 2 - 1;
  return tensor;
}

static tdm_tensor *fetch_rows(tdm_session *session, const char *name, int64_t rows) {
  tdm_tensor *x = draw(rows, WIDTH, 11);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = name};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  tdm_tensor_release(x);
  return fetch.tensor;
}

static double step_rows(tdm_session *session, int64_t rows, uint64_t seed) {
  tdm_tensor *x = draw(rows, WIDTH, seed);
  tdm_tensor *y = draw(rows, WIDTH, seed + 1000);
  const tdm_feed feeds[2] = {{.name = "x", .tensor = x}, {.name = "y", .tensor = y}};
  double loss = 0;
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, &loss));
  tdm_tensor_release(x);
  tdm_tensor_release(y);
  return loss;
}

static void assert_near_tensor(const tdm_tensor *a, const tdm_tensor *b, float tolerance) {
  assert_int_equal(tdm_tensor_bytes(a), tdm_tensor_bytes(b));
  const float *x = tdm_tensor_data(a);
  const float *y = tdm_tensor_data(b);
  float most = 0;
  float error = 0;
  for (size_t i = 0; i < tdm_tensor_bytes(a) / sizeof(float); i++) {
    if (most < (y[i] < 0 ? -y[i] : y[i])) most = y[i] < 0 ? -y[i] : y[i];
    const float difference = x[i] < y[i] ? y[i] - x[i] : x[i] - y[i];
    if (error < difference) error = difference;
  }
  assert_true(error <= tolerance * most);
}

static void assert_near_state(const tdm_tensor_list *a, const tdm_tensor_list *b, float tolerance) {
  assert_int_equal(tdm_tensor_list_count(a), tdm_tensor_list_count(b));
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const char *name = tdm_tensor_list_name(a, i);
    if (strstr(name, "optimizer/")) continue;
    assert_near_tensor(tdm_tensor_list_tensor(a, i), tdm_tensor_list_find(b, name), tolerance);
  }
}

/* ---- Forward --------------------------------------------------------------------------------- */

static const char *const lists[] = {"sim:0,sim:1", "cpu:0,sim:0,cpu:1",
                                    "sim:0,sim:1,sim:2,sim:3,cpu:0,cpu:1,cpu:2,cpu:3"};

static void forward_rows_are_those_of_the_plain_model(void **unused) {
  (void)unused;
  tdm_session *plain = block_session(NULL, NULL, NULL, true);
  for (size_t k = 0; k < TDM_COUNT_OF(lists); k++) {
    tdm_session *wrapped = block_session(lists[k], NULL, NULL, true);
    static const int64_t rows[] = {30, 10, 36, 9, 1, 7, 30};
    for (size_t i = 0; i < TDM_COUNT_OF(rows); i++) {
      tdm_tensor *want = fetch_rows(plain, "scores", rows[i]);
      tdm_tensor *got = fetch_rows(wrapped, "scores", rows[i]);
      assert_same_tensor(got, want);
      tdm_tensor_release(want);
      tdm_tensor_release(got);
      want = fetch_rows(plain, "block", rows[i]);
      got = fetch_rows(wrapped, "block", rows[i]);
      assert_same_tensor(got, want);
      tdm_tensor_release(want);
      tdm_tensor_release(got);
    }
    tdm_session_release(wrapped);
  }
  tdm_session_release(plain);
}

static void an_empty_batch_is_one_empty_chunk(void **unused) {
  (void)unused;
  tdm_session *wrapped = block_session("sim:0,sim:1,cpu:1", NULL, NULL, false);
  tdm_tensor *scores = fetch_rows(wrapped, "scores", 0);
  assert_int_equal(tdm_tensor_bytes(scores), 0);
  tdm_tensor_release(scores);
  tdm_session_release(wrapped);
}

static void one_device_is_a_pass_through(void **unused) {
  (void)unused;
  tdm_session *plain = block_session(NULL, NULL, NULL, false);
  tdm_session *wrapped = block_session("cpu:0", NULL, NULL, false);
  for (int i = 0; i < 3; i++)
    assert_true(step_rows(plain, 6, 1) == step_rows(wrapped, 6, 1));
  assert_int_equal(wrapped->newest->lowered.schedule.step_count,
                   plain->newest->lowered.schedule.step_count);
  assert_int_equal(wrapped->newest->traffic.edge_transfers, 0);
  tdm_session_release(plain);
  tdm_session_release(wrapped);
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Trains both, with batches of two sizes in turn; the states are released by the caller. */
static void train_both(tdm_session *a, tdm_session *b, bool bitwise, tdm_tensor_list **out_a,
                       tdm_tensor_list **out_b) {
  for (uint64_t i = 0; i < 20; i++) {
    const int64_t rows = i % 2 ? 10 : 30;
    const double loss_a = step_rows(a, rows, i);
    const double loss_b = step_rows(b, rows, i);
    if (bitwise) assert_true(loss_a == loss_b);
  }
  *out_a = state_of(a);
  *out_b = state_of(b);
}

static void training_is_that_of_the_same_chunks_on_one_device(void **unused) {
  (void)unused;
  static const char *const pairs[][2] = {
      {"sim:0,sim:1", "cpu:0,cpu:0"},
      {"sim:0,cpu:1,sim:0,sim:2", "cpu:0,cpu:0,cpu:0,cpu:0"},
      {"sim:0,sim:1,sim:2,sim:3,cpu:0,cpu:1,cpu:2,cpu:3",
       "cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0,cpu:0"},
  };
  for (size_t k = 0; k < TDM_COUNT_OF(pairs); k++) {
    tdm_session *spread = block_session(pairs[k][0], "cpu:0", NULL, true);
    tdm_session *together = block_session(pairs[k][1], NULL, NULL, true);
    tdm_tensor_list *a;
    tdm_tensor_list *b;
    train_both(spread, together, true, &a, &b);
    assert_same_state(a, b);
    tdm_tensor_list_release(a);
    tdm_tensor_list_release(b);
    tdm_session_release(spread);
    tdm_session_release(together);
  }
}

static void training_is_near_the_plain_model(void **unused) {
  (void)unused;
  tdm_session *plain = block_session(NULL, NULL, NULL, false);
  tdm_session *wrapped = block_session("sim:0,cpu:1,sim:1", NULL, (double[]){1, 2, 0.5}, false);
  tdm_tensor_list *a;
  tdm_tensor_list *b;
  train_both(wrapped, plain, false, &a, &b);
  assert_near_state(a, b, 1e-4f);
  tdm_tensor_list_release(a);
  tdm_tensor_list_release(b);
  tdm_session_release(plain);
  tdm_session_release(wrapped);
}

/* A forward without an update before it moves inputs and outputs only; a step every parameter of
 * the block once down and every gradient once up, for each device but their home. */
static void traffic_is_exact(void **unused) {
  (void)unused;
  tdm_session *session = block_session("cpu:0,sim:0,sim:1", NULL, NULL, false);
  const uint64_t parameters = (WIDTH * HIDDEN + HIDDEN + HIDDEN * WIDTH + WIDTH) * sizeof(float);
  const uint64_t row = WIDTH * sizeof(float);
  (void)step_rows(session, 30, 1);
  tdm_traffic traffic;
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.refresh_transfers, 2 * 4);
  assert_int_equal(traffic.refresh_bytes, 2 * parameters);
  /* Two chunks of ten rows each way, forward and backward, and four gradients from each. */
  assert_int_equal(traffic.edge_transfers, 2 * 2 + 2 * 2 + 2 * 4);
  assert_int_equal(traffic.edge_bytes, 4 * 10 * row * 2 + 2 * parameters);
  tdm_tensor_release(fetch_rows(session, "scores", 30));
  assert_ok(tdm_session_traffic(session, &traffic));
  assert_int_equal(traffic.edge_transfers, 2 * 2);
  assert_int_equal(traffic.edge_bytes, 4 * 10 * row);
  tdm_session_release(session);
}

/* ---- Observing ------------------------------------------------------------------------------- */

typedef struct seen_places {
  char text[512];
  int count;
} seen_places;

static void see(void *user, const tdm_observation *observation) {
  seen_places *seen = user;
  const size_t used = strlen(seen->text);
  (void)snprintf(seen->text + used, sizeof seen->text - used, "%s %d: %d; ", observation->name,
                 observation->replica, (int)tdm_tensor_shape(observation->tensor).dims[0]);
  seen->count++;
}

static void places_show_what_replicas_had(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_scope_push(graph, "part");
  tdm_value y = tdm_observe(graph, "in", x);
  (void)tdm_observe(graph, "unused", y);
  y = tdm_observe(graph, "out", tdm_linear(graph, "fc", y, WIDTH));
  tdm_scope_pop(graph);
  const tdm_parallel_options wrapped =
      OPTIONS(tdm_parallel_options, o.devices = "sim:0,cpu:1,sim:1");
  tdm_data_parallel(graph, "part", &wrapped);
  const tdm_value loss = tdm_mse(graph, "loss", tdm_observe(graph, "after", y), x);
  seen_places seen = {.count = 0};
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.observer = see, o.observer_user = &seen);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.1), &options);
  tdm_tensor *fed = draw(7, WIDTH, 1);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  assert_string_equal(seen.text, "part/in 0: 3; part/out 0: 3; part/in 1: 3; part/out 1: 3; "
                                 "part/in 2: 1; part/out 2: 1; after 0: 7; ");
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* ---- From part to part ----------------------------------------------------------------------- */

/* Checks x (3, batch) through two consecutive parallel regions, each cut along dimension 1. The
 * second would find other rows in dimension 0. */
static void a_part_reads_another_as_it_says(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 3, TDM_DIM("batch")));
  const tdm_value first = tdm_relu(graph, "first", x);
  const tdm_value second = tdm_add(graph, "second", first, x);
  tdm_output(graph, "y", second);
  const tdm_value entering[] = {x, first};
  static const char *const scopes[] = {"first", "second"};
  for (int i = 0; i < 2; i++) {
    const tdm_scatter scatter[] = {{entering[0], 1}, {entering[i], 1}};
    const tdm_parallel_options options =
        OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:1", o.scatter = scatter,
                o.scatter_count = (size_t)i + 1);
    tdm_data_parallel(graph, scopes[i], &options);
  }
  tdm_session *session = tdm_session_create(graph, NULL);
  tdm_graph_release(graph);
  assert_non_null(session);
  const float values[12] = {-1, 2, 3, 4, 5, -6, 7, 8, 9, 10, -11, 12};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 3, 4), values);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {"y", NULL};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  const float *got = tdm_tensor_data(fetch.tensor);
  for (int i = 0; i < 12; i++)
    assert_true(got[i] == (values[i] > 0 ? 2 * values[i] : values[i]));
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_are_those_of_torch),
      cmocka_unit_test(chunks_follow_weights),
      cmocka_unit_test(chunks_of_very_many_rows_add_up),
      cmocka_unit_test(forward_rows_are_those_of_the_plain_model),
      cmocka_unit_test(an_empty_batch_is_one_empty_chunk),
      cmocka_unit_test(one_device_is_a_pass_through),
      cmocka_unit_test(training_is_that_of_the_same_chunks_on_one_device),
      cmocka_unit_test(training_is_near_the_plain_model),
      cmocka_unit_test(traffic_is_exact),
      cmocka_unit_test(places_show_what_replicas_had),
      cmocka_unit_test(a_part_reads_another_as_it_says),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
