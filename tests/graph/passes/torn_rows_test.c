/* Rows that a layer splits or mixes across the parts of a batch, in micro-batches and in parallel
 * regions. The parts' results cannot be joined to the whole batch's. Invariant: exactly such models
 * are refused, with the name of the layer. */
#define GROUP_CONTEXT graph_context_of(3, 1)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { ROWS = 5, WIDTH = 4 };

/* Builds a function of x (batch, WIDTH), of the last x only if batch is a size. The layer that
 * splits rows is named "torn". */
typedef tdm_value (*tearing)(tdm_graph *graph, tdm_value x);

static tdm_value all_behind_some(tdm_graph *graph, tdm_value x) {
  const tdm_value two[] = {tdm_reshape(graph, "all", x, tdm_shape_of(1, TDM_INFER)),
                           tdm_select(graph, "one", x, 1, 0)};
  return tdm_concat(graph, "torn", two, 2, 0);
}

/* A part of it cannot be reshaped in this way. */
static tdm_value seen_as_whole(tdm_graph *graph, tdm_value x) {
  return tdm_reshape(graph, "seen", all_behind_some(graph, x), tdm_shape_of(2, ROWS, WIDTH + 1));
}

static tdm_value turned_by_reshape(tdm_graph *graph, tdm_value x) {
  return tdm_reshape(graph, "torn", x, tdm_shape_of(2, WIDTH, TDM_INFER));
}

static tdm_value first_half(tdm_graph *graph, tdm_value x) {
  tdm_value halves[2];
  const tdm_value flat = tdm_reshape(graph, "flat", x, tdm_shape_of(1, TDM_INFER));
  tdm_split_evenly(graph, "torn", flat, 0, 2, halves);
  return halves[0];
}

static tdm_value every_other(tdm_graph *graph, tdm_value x) {
  return tdm_slice(graph, "torn", x, 0, 0, TDM_TO_THE_END, 2);
}

static tdm_value in_reverse(tdm_graph *graph, tdm_value x) {
  return tdm_flip(graph, "torn", x, (const int[]){0}, 1);
}

static tdm_value sorted(tdm_graph *graph, tdm_value x) {
  return tdm_sort(graph, "torn", x, 0, false, NULL);
}

static tdm_value running_sum(tdm_graph *graph, tdm_value x) {
  return tdm_cumsum(graph, "torn", x, 0);
}

static tdm_value soft(tdm_graph *graph, tdm_value x) {
  return tdm_softmax(graph, "torn", x, 0);
}

static tdm_value less_most(tdm_graph *graph, tdm_value x) {
  return tdm_sub(graph, "y", x, tdm_max(graph, "torn", x, 0, true, NULL));
}

static tdm_value less_log_sum(tdm_graph *graph, tdm_value x) {
  return tdm_sub(graph, "y", x, tdm_logsumexp(graph, "torn", x, (const int[]){0}, 1, true));
}

static tdm_value sum_of_sorted(tdm_graph *graph, tdm_value x) {
  const tdm_value most = tdm_topk(graph, "torn", x, 1, 0, true, NULL);
  return tdm_sum(graph, "sum", tdm_mul(graph, "scaled", x, most), NULL, 0, false);
}

static tdm_value counted(tdm_graph *graph, tdm_value x) {
  const tdm_value places = tdm_arange_like(graph, "torn", x, 0);
  return tdm_mul(graph, "y", x,
                 tdm_unsqueeze(graph, "column", tdm_cast(graph, "real", places, TDM_FLOAT32), 1));
}

static tdm_value picked(tdm_graph *graph, tdm_value x) {
  const tdm_value places =
      tdm_cast(graph, "places", tdm_affine(graph, "zeros", x, 0, 0), TDM_INT64);
  return tdm_gather(graph, "torn", x, 0, places);
}

static tdm_value turned(tdm_graph *graph, tdm_value x) {
  return tdm_unsqueeze(graph, "channels", tdm_transpose(graph, "turned", x, 0, 1), 0);
}

static tdm_value windows(tdm_graph *graph, tdm_value x) {
  const tdm_conv_options same = OPTIONS(tdm_conv_options, o.same = true);
  return tdm_conv1d(graph, "torn", turned(graph, x), 2, 3, &same);
}

static tdm_value normalized(tdm_graph *graph, tdm_value x) {
  return tdm_instance_norm(graph, "torn", turned(graph, x));
}

static const tearing cases[] = {
    all_behind_some, turned_by_reshape, first_half, every_other, in_reverse,
    sorted,          running_sum,       soft,       less_most,   less_log_sum,
    sum_of_sorted,   counted,           picked,     windows,     normalized,
};

static tdm_graph *torn_graph(tearing make, tdm_dim batch) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, WIDTH));
  tdm_scope_push(graph, "part");
  tdm_output(graph, "y", make(graph, tdm_tanh(graph, "tanh", x)));
  tdm_scope_pop(graph);
  return graph;
}

static void micro_batches_name_who_tears_rows(void **unused) {
  (void)unused;
  for (size_t k = 0; k + 1 < TDM_COUNT_OF(cases); k++) {
    tdm_graph *graph = torn_graph(cases[k], TDM_DIM("batch"));
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch");
    assert_null(tdm_session_create(graph, &options));
    assert_message("micro-batches: part/torn");
    tdm_graph_release(graph);
  }
}

static tdm_status run_in_region(tearing make, const char *devices, int64_t rows) {
  tdm_graph *graph = torn_graph(make, rows);
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = devices);
  tdm_data_parallel(graph, "part", &options);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *x = tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, WIDTH), 7);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch fetch = {.name = "y"};
  const tdm_status status = tdm_run(session, &feed, 1, &fetch, 1);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  tdm_session_release(session);
  return status;
}

/* A single replica has the whole batch. */
static void torn_rows_do_not_leave_a_region(void **unused) {
  (void)unused;
  for (size_t k = 0; k < TDM_COUNT_OF(cases); k++) {
    assert_status(run_in_region(cases[k], "cpu:0,cpu:1", ROWS), TDM_INVALID_ARGUMENT);
    assert_message("data parallel over part: ");
    assert_message("part/torn");
    assert_ok(run_in_region(cases[k], "cpu:1", ROWS));
    if (cases[k] != normalized) /* which refuses images of one pixel */
      assert_ok(run_in_region(cases[k], "cpu:0,cpu:1", 1));
  }
  assert_status(run_in_region(seen_as_whole, "cpu:0,cpu:1", ROWS), TDM_INVALID_ARGUMENT);
  assert_message("data parallel over part: part/seen: part/torn: it puts rows of the batch behind");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(micro_batches_name_who_tears_rows),
      cmocka_unit_test(torn_rows_do_not_leave_a_region),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
