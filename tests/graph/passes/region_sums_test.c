/* Sums over the rows in a parallel region: they include all replicas, for readers inside and
 * outside. tests/layers/losses_in_parts_test.c tests all kinds of losses. */
#include <stdlib.h>

#include "graph/run/session.h"

#define GROUP_CONTEXT graph_context_of(3, 3)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { WIDTH = 6 };

static void wrap(tdm_graph *graph, const char *scope, const char *devices) {
  if (!devices) return;
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, scope, &options);
}

static tdm_tensor *draw(tdm_shape shape, uint64_t seed) {
  tdm_tensor *tensor = tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, shape);
  assert_non_null(tensor);
  const tdm_random random = {seed, 1, 0};
  float *data = tdm_tensor_data(tensor);
  for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
    data[i] = tdm_random_uniform_float32(&random, (uint64_t)i) * 2 - 1;
  return tensor;
}

/* A maximum over the rows has no rule for its parts. */
static void a_result_that_is_no_sum_over_rows_is_refused(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_scope_push(graph, "part");
  tdm_output(graph, "most",
             tdm_max(graph, "most", tdm_linear(graph, "fc", x, WIDTH), 0, false, NULL));
  tdm_scope_pop(graph);
  wrap(graph, "part", "cpu:0,cpu:1");
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = draw(tdm_shape_of(2, 8, WIDTH), 1);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {.name = "most"};
  assert_status(tdm_run(session, &feed, 1, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_message("part/most");
  assert_message("no sum or mean");
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

/* ---- Values that all replicas make and read: rows less their mean ---------------------------- */

enum { CENTRED_ROWS = 11 };

/* Twice: the mean of values that were scaled by a mean. The penalty has no rows. */
static tdm_graph *centred_graph(const char *devices) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value h = tdm_linear(graph, "fc", x, WIDTH);
  const int rows = 0;
  const tdm_value mean = tdm_mean(graph, "mean", h, &rows, 1, false);
  const tdm_value centred = tdm_sub(graph, "centred", h, mean);
  const tdm_value square =
      tdm_mean(graph, "square", tdm_square(graph, "s", centred), &rows, 1, true);
  const tdm_value scaled =
      tdm_div(graph, "scaled", centred, tdm_add_scalar(graph, "e", square, 0.1));
  const tdm_value loss = tdm_mean(graph, "loss", tdm_tanh(graph, "t", scaled), NULL, 0, false);
  tdm_output(graph, "scaled", scaled);
  tdm_output(graph, "mean", mean);
  tdm_output(graph, "loss", loss);
  tdm_output(graph, "weight",
             tdm_square(graph, "w",
                        tdm_parameter(graph, "fc.weight", TDM_FLOAT32,
                                      tdm_shape_of(2, WIDTH, WIDTH), NULL)));
  wrap(graph, "", devices);
  return graph;
}

/* devices of the one around what `inner` names; NULL: there is none. */
static void fetch_centred(const char *devices, const char *inner, const char *inner_devices,
                          tdm_fetch fetches[4]) {
  static const char *const names[] = {"scaled", "mean", "loss", "weight"};
  tdm_graph *graph = centred_graph(devices);
  if (inner) wrap(graph, inner, inner_devices);
  tdm_session *session = run_session(graph, WITH(tdm_session_options, o.seed = 3));
  tdm_tensor *x = draw(tdm_shape_of(2, CENTRED_ROWS, WIDTH), 4);
  const tdm_feed feed = {"x", x, false};
  for (int i = 0; i < 4; i++)
    fetches[i] = (tdm_fetch){.name = names[i]};
  assert_ok(tdm_run(session, &feed, 1, fetches, 4));
  tdm_tensor_release(x);
  tdm_session_release(session);
}

static void expect_centred(const tdm_fetch wanted[4], const tdm_fetch got[4], const char *how) {
  for (int i = 0; i < 4; i++) {
    const float *a = tdm_tensor_data(wanted[i].tensor), *b = tdm_tensor_data(got[i].tensor);
    for (size_t e = 0; e < tdm_tensor_bytes(wanted[i].tensor) / sizeof *a; e++)
      if (!(a[e] - b[e] <= 1e-5f && b[e] - a[e] <= 1e-5f))
        fail_msg("%s over %s: %g, not %g", got[i].name, how, (double)b[e], (double)a[e]);
    tdm_tensor_release(got[i].tensor);
  }
}

static void replicas_read_what_all_of_them_made(void **unused) {
  (void)unused;
  static const char *const lists[] = {"cpu:0,cpu:0", "sim:0,cpu:1,sim:1",
                                      "cpu:0,cpu:1,cpu:2,sim:0,sim:1,sim:2"};
  tdm_fetch wanted[4], got[4];
  fetch_centred(NULL, NULL, NULL, wanted);
  for (size_t k = 0; k < TDM_COUNT_OF(lists); k++) {
    fetch_centred(lists[k], NULL, NULL, got);
    expect_centred(wanted, got, lists[k]);
  }
  for (int i = 0; i < 4; i++)
    tdm_tensor_release(wanted[i].tensor);
}

/* Nodes of an inner region read the results of the outer region's replicas, and wait for all of
 * them. Some of these nodes are not cut further, since a replica has one row. */
static void regions_in_regions_read_what_all_replicas_made(void **unused) {
  (void)unused;
  static const char *const inner[] = {"fc,mean,centred,square,s,scaled,e", "mean,centred",
                                      "fc,mean,centred,square,s,scaled,e,loss,t"};
  static const char *const lists[] = {"cpu:0,cpu:1", "sim:0,cpu:2,sim:0,cpu:1,sim:1,cpu:0"};
  tdm_fetch wanted[4], got[4];
  fetch_centred(NULL, NULL, NULL, wanted);
  for (size_t k = 0; k < TDM_COUNT_OF(inner); k++)
    for (size_t i = 0; i < 2 * TDM_COUNT_OF(lists); i++) {
      fetch_centred(lists[i / 2], inner[k], lists[i % 2], got);
      expect_centred(wanted, got, inner[k]);
    }
  for (int i = 0; i < 4; i++)
    tdm_tensor_release(wanted[i].tensor);
}

/* In micro-batches the first would wait for the rows of the last. */
static void micro_batches_refuse_to_read_it_in_a_part(void **unused) {
  (void)unused;
  tdm_graph *graph = centred_graph("cpu:0,cpu:1");
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch");
  assert_null(tdm_session_create(graph, &options));
  assert_message("centred uses rows and also mean, which is of the whole batch");
  tdm_graph_release(graph);
}

/* ---- A loss in the part ---------------------------------------------------------------------- */

static tdm_tensor_list *train_loss(const char *devices, bool deterministic) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value loss =
      tdm_mse(graph, "loss", tdm_tanh(graph, "h", tdm_linear(graph, "fc", x, WIDTH)), x);
  wrap(graph, "", devices);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.seed = 9, o.deterministic = deterministic);
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.5), &options);
  tdm_tensor *fed = draw(tdm_shape_of(2, 10, WIDTH), 1);
  const tdm_feed feed = {"x", fed, false};
  for (int i = 0; i < 3; i++)
    assert_ok(tdm_train_step(session, &feed, 1, NULL, 0, NULL));
  tdm_tensor_list *state = state_of(session);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return state;
}

/* Checks that equal chunks give equal bits on all devices. */
static void a_loss_in_the_part_does_not_depend_on_places(void **unused) {
  (void)unused;
  static const char *const lists[] = {"cpu:0,cpu:1,sim:0", "sim:2,sim:0,sim:2",
                                      "cpu:2,sim:1,cpu:0"};
  tdm_tensor_list *wanted = train_loss("cpu:0,cpu:0,cpu:0", true);
  for (size_t k = 0; k < TDM_COUNT_OF(lists); k++) {
    tdm_tensor_list *got = train_loss(lists[k], true);
    assert_same_state(got, wanted);
    tdm_tensor_list_release(got);
  }
  tdm_tensor_list_release(wanted);
}

/* ---- Rows that are not contiguous ------------------------------------------------------------ */

static void expect_near(const tdm_tensor *a, const tdm_tensor *b) {
  const float *x = tdm_tensor_data(a), *y = tdm_tensor_data(b);
  assert_int_equal(tdm_tensor_bytes(a), tdm_tensor_bytes(b));
  for (size_t i = 0; i < tdm_tensor_bytes(a) / sizeof *x; i++)
    if (!(x[i] - y[i] <= 1e-5f && y[i] - x[i] <= 1e-5f))
      fail_msg("%zu: %g, not %g", i, (double)x[i], (double)y[i]);
}

enum { LENGTH = 3, SEQUENCES = 7 };

/* (length, batch, width) as (length batch, width): what leaves a part, or is delivered of
 * micro-batches, is in the batch's order. */
static tdm_tensor_list *train_flat(const char *devices, int micro_batches, tdm_fetch *out) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, LENGTH, batch, WIDTH));
  const tdm_value y = tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(3, LENGTH, batch, WIDTH));
  const tdm_shape flat = tdm_shape_of(2, TDM_INFER, WIDTH);
  tdm_scope_push(graph, "part");
  const tdm_value h = tdm_linear(graph, "fc", tdm_reshape(graph, "flat", x, flat), WIDTH);
  tdm_scope_pop(graph);
  const tdm_scatter along_1 = {x, 1};
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.scatter = &along_1, o.scatter_count = 1);
  if (devices) tdm_data_parallel(graph, "part", &options);
  tdm_output(graph, "h", h);
  const tdm_value loss = tdm_mse(graph, "loss", h, tdm_reshape(graph, "wanted", y, flat));
  const tdm_session_options trained =
      OPTIONS(tdm_session_options, o.seed = 9, o.micro_batches = OR_ONE(micro_batches),
              o.batch_dimension = "batch");
  tdm_session *session = train_session(graph, loss, tdm_sgd(0.5), &trained);
  tdm_tensor *fed = draw(tdm_shape_of(3, LENGTH, SEQUENCES, WIDTH), 1);
  tdm_tensor *wanted = draw(tdm_shape_of(3, LENGTH, SEQUENCES, WIDTH), 2);
  const tdm_feed feeds[] = {{"x", fed, false}, {"y", wanted, false}};
  *out = (tdm_fetch){.name = "h"};
  assert_ok(tdm_run(session, feeds, 1, out, 1));
  for (int i = 0; i < 2; i++)
    assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, NULL));
  tdm_tensor_list *state = state_of(session);
  tdm_tensor_release(fed);
  tdm_tensor_release(wanted);
  tdm_session_release(session);
  return state;
}

static void rows_that_lie_apart_leave_in_order(void **unused) {
  (void)unused;
  static const struct {
    const char *devices;
    int micro_batches;
  } ways[] = {{"cpu:0,cpu:0", 1}, {"sim:0,cpu:1,sim:1", 1}, {NULL, 3}, {"cpu:0,sim:0", 2}};
  tdm_fetch wanted, got;
  tdm_tensor_list *plain = train_flat(NULL, 1, &wanted);
  for (size_t k = 0; k < TDM_COUNT_OF(ways); k++) {
    tdm_tensor_list *state = train_flat(ways[k].devices, ways[k].micro_batches, &got);
    expect_near(got.tensor, wanted.tensor);
    for (size_t i = 0; i < tdm_tensor_list_count(plain); i++)
      expect_near(tdm_tensor_list_find(state, tdm_tensor_list_name(plain, i)),
                  tdm_tensor_list_tensor(plain, i));
    tdm_tensor_release(got.tensor);
    tdm_tensor_list_release(state);
  }
  tdm_tensor_release(wanted.tensor);
  tdm_tensor_list_release(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_result_that_is_no_sum_over_rows_is_refused),
      cmocka_unit_test(replicas_read_what_all_of_them_made),
      cmocka_unit_test(regions_in_regions_read_what_all_replicas_made),
      cmocka_unit_test(micro_batches_refuse_to_read_it_in_a_part),
      cmocka_unit_test(a_loss_in_the_part_does_not_depend_on_places),
      cmocka_unit_test(rows_that_lie_apart_leave_in_order),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
