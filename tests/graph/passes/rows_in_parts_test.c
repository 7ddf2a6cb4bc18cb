/* Positions of a batch's rows in its parts, through reshapes, concatenations and splits: in
 * micro-batches and in replicas of parallel regions, forward and in requested gradients. Invariant:
 * the joined result is, bit by bit, what one device computes. */
#define GROUP_CONTEXT graph_context_of(3, 1)
#include "tests/graph/group.h"
#include "tests/options.h"

enum { LENGTH = 3, ROWS = 8, WIDTH = 2 };

/* Division of the batch: over devices (NULL: none), and into micro-batches. */
typedef struct cut_case {
  const char *devices;
  int micro_batches;
} cut_case;

static const cut_case cases[] = {
    {NULL, 2}, {"cpu:0,cpu:1", 0}, {"cpu:1,sim:0,cpu:1", 0}, {"cpu:0,cpu:1", 2}, {"cpu:0", 3},
};

/* Makes outputs "a" and "b" of x (LENGTH, batch, WIDTH). Nodes below "part" are cut over
 * devices. */
typedef void (*graph_maker)(tdm_graph *graph, tdm_value x);

static tdm_session *cut_session(graph_maker make, const cut_case *how, const double *weights) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, LENGTH, TDM_DIM("batch"), WIDTH));
  make(graph, x);
  if (how->devices) {
    const tdm_scatter along = {x, 1};
    const tdm_parallel_options options =
        OPTIONS(tdm_parallel_options, o.devices = how->devices, o.weights = weights,
                o.scatter = &along, o.scatter_count = 1);
    tdm_data_parallel(graph, "part", &options);
  }
  return run_session(graph, WITH(tdm_session_options, o.seed = 5,
                                 o.micro_batches = OR_ONE(how->micro_batches),
                                 o.batch_dimension = "batch"));
}

static tdm_status run_cut(tdm_session *session, tdm_fetch fetches[2]) {
  tdm_tensor *x =
      tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, LENGTH, ROWS, WIDTH), 7);
  const tdm_feed feed = {"x", x, false};
  fetches[0] = (tdm_fetch){.name = "a"};
  fetches[1] = (tdm_fetch){.name = "b"};
  const tdm_status status = tdm_run(session, &feed, 1, fetches, 2);
  tdm_tensor_release(x);
  return status;
}

static void assert_alike_however_cut(graph_maker make) {
  tdm_fetch wanted[2], got[2];
  tdm_session *whole = cut_session(make, &(cut_case){NULL, 0}, NULL);
  assert_ok(run_cut(whole, wanted));
  for (size_t c = 0; c < TDM_COUNT_OF(cases); c++) {
    tdm_session *session = cut_session(make, &cases[c], NULL);
    assert_ok(run_cut(session, got));
    for (int i = 0; i < 2; i++) {
      assert_same_tensor(wanted[i].tensor, got[i].tensor);
      tdm_tensor_release(got[i].tensor);
    }
    tdm_session_release(session);
  }
  for (int i = 0; i < 2; i++)
    tdm_tensor_release(wanted[i].tensor);
  tdm_session_release(whole);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Concatenates x and -x. Then takes the first half, and reshapes the second by the length. */
static void make_concat(tdm_graph *graph, tdm_value x) {
  tdm_value halves[2];
  tdm_scope_push(graph, "part");
  const tdm_value two[] = {x, tdm_neg(graph, "less", x)};
  const tdm_value whole = tdm_concat(graph, "whole", two, 2, 1);
  tdm_split_evenly(graph, "halves", whole, 1, 2, halves);
  const tdm_value seen =
      tdm_reshape(graph, "seen", whole, tdm_shape_of(4, LENGTH, 2, TDM_INFER, WIDTH));
  tdm_scope_pop(graph);
  tdm_output(graph, "a", whole);
  tdm_output(graph, "b",
             tdm_mul(graph, "both", tdm_sub(graph, "apart", halves[0], halves[1]),
                     tdm_select(graph, "first", seen, 1, 1)));
}

static void concatenated_rows_keep_their_order(void **unused) {
  (void)unused;
  assert_alike_however_cut(make_concat);
}

/* Takes steps of a sequence, from rows that a reshape has flattened: all steps, and two of them. */
static void make_steps(tdm_graph *graph, tdm_value x) {
  tdm_value steps[LENGTH];
  tdm_scope_push(graph, "part");
  const tdm_value flat =
      tdm_reshape(graph, "flat", tdm_tanh(graph, "tanh", x), tdm_shape_of(2, TDM_INFER, WIDTH));
  tdm_split_evenly(graph, "steps", flat, 0, LENGTH, steps);
  const tdm_value turned[] = {steps[2], steps[0]};
  const tdm_value two = tdm_concat(graph, "two", turned, 2, 0);
  tdm_scope_pop(graph);
  tdm_output(graph, "a", steps[1]);
  tdm_output(graph, "b", two);
}

static void rows_of_a_sequence_are_split_into_steps(void **unused) {
  (void)unused;
  assert_alike_however_cut(make_steps);
}

/* A reshape flattens the elements of rows, and another one restores the rows. */
static void make_flat(tdm_graph *graph, tdm_value x) {
  tdm_scope_push(graph, "part");
  const tdm_value flat =
      tdm_reshape(graph, "flat", tdm_tanh(graph, "tanh", x), tdm_shape_of(2, LENGTH, TDM_INFER));
  const tdm_value less = tdm_neg(graph, "less", flat);
  const tdm_value again =
      tdm_reshape(graph, "rows", less, tdm_shape_of(3, LENGTH, TDM_INFER, WIDTH));
  tdm_scope_pop(graph);
  tdm_output(graph, "a", less);
  tdm_output(graph, "b", again);
}

static void elements_behind_one_another_are_rows_again(void **unused) {
  (void)unused;
  assert_alike_however_cut(make_flat);
}

/* ---- Results that depend on positions -------------------------------------------------------- */

/* Trains with dropout of rows that a reshape has flattened, and of its own transposed result. */
static tdm_tensor *train_dropped(const cut_case *how) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, LENGTH, TDM_DIM("batch"), WIDTH));
  tdm_scope_push(graph, "part");
  const tdm_value h = tdm_linear(graph, "fc", x, WIDTH);
  const tdm_value flat = tdm_reshape(graph, "flat", h, tdm_shape_of(2, TDM_INFER, WIDTH));
  const tdm_value once = tdm_dropout(graph, "once", flat, 0.5);
  const tdm_value twice =
      tdm_dropout(graph, "twice", tdm_transpose(graph, "turned", once, 0, 1), 0.25);
  tdm_scope_pop(graph);
  const tdm_scatter along = {x, 1};
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = how->devices,
                                               o.scatter = &along, o.scatter_count = 1);
  if (how->devices) tdm_data_parallel(graph, "part", &options);
  tdm_output(graph, "twice", twice);
  const tdm_session_options trained =
      OPTIONS(tdm_session_options, o.seed = 5, o.micro_batches = OR_ONE(how->micro_batches),
              o.batch_dimension = "batch");
  tdm_session *session =
      train_session(graph, tdm_sum(graph, "loss", twice, NULL, 0, false), tdm_sgd(0.5), &trained);
  tdm_tensor *fed =
      tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, LENGTH, ROWS, WIDTH), 7);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {.name = "twice"};
  assert_ok(tdm_train_step(session, &feed, 1, &fetch, 1, NULL));
  tdm_tensor_release(fed);
  tdm_session_release(session);
  return fetch.tensor;
}

static void the_same_is_dropped_wherever_rows_lie(void **unused) {
  (void)unused;
  tdm_tensor *wanted = train_dropped(&(cut_case){NULL, 0});
  for (size_t c = 0; c < TDM_COUNT_OF(cases); c++) {
    tdm_tensor *got = train_dropped(&cases[c]);
    assert_same_tensor(wanted, got);
    tdm_tensor_release(got);
  }
  tdm_tensor_release(wanted);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Delivers and reads the gradient of rows that a reshape has flattened. */
static void make_gradient(tdm_graph *graph, tdm_value x) {
  tdm_scope_push(graph, "part");
  const tdm_value flat =
      tdm_reshape(graph, "flat", tdm_tanh(graph, "tanh", x), tdm_shape_of(2, TDM_INFER, WIDTH));
  const tdm_value square = tdm_mul(graph, "square", flat, flat);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_sum(graph, "loss", square, NULL, 0, false);
  const tdm_value gradient = tdm_gradient_of(graph, "gradient", loss, flat);
  tdm_output(graph, "a", gradient);
  tdm_output(graph, "b", tdm_add(graph, "read", tdm_detach(graph, "detached", gradient), flat));
}

static void gradients_lie_as_their_values_do(void **unused) {
  (void)unused;
  assert_alike_however_cut(make_gradient);
}

/* Adds a loss without rows to a region, and a loss of all rows. */
static void make_penalty(tdm_graph *graph, tdm_value x) {
  const tdm_initializer numbers = {TDM_INIT_CONSTANT, 0.5, 0, -1};
  tdm_scope_push(graph, "part");
  const tdm_value weight =
      tdm_parameter(graph, "weight", TDM_FLOAT32, tdm_shape_of(1, WIDTH), &numbers);
  const tdm_value scale = tdm_affine(graph, "scale", weight, 2, 0);
  const tdm_value penalty =
      tdm_sum(graph, "penalty", tdm_mul(graph, "square", scale, scale), NULL, 0, false);
  const tdm_value counted = tdm_mul(graph, "counted", tdm_affine(graph, "ones", x, 0, 1), scale);
  tdm_scope_pop(graph);
  const tdm_value loss = tdm_sum(graph, "loss", counted, NULL, 0, false);
  tdm_output(graph, "a", tdm_gradient_of(graph, "of_penalty", penalty, scale));
  tdm_output(graph, "b", tdm_gradient_of(graph, "of_loss", loss, scale));
}

static void a_penalty_counts_once_however_the_batch_is_cut(void **unused) {
  (void)unused;
  assert_alike_however_cut(make_penalty);
}

/* ---- No rows --------------------------------------------------------------------------------- */

/* An empty dimension is split into equal parts like any other, by an unnamed layer too. */
static void nothing_is_split_evenly(void **unused) {
  (void)unused;
  tdm_value thirds[3];
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  tdm_split_evenly(graph, NULL, x, 0, 3, thirds);
  tdm_output(graph, "third", thirds[2]);
  tdm_output(graph, "slope",
             tdm_gradient_of(graph, "slope", tdm_sum(graph, "sum", thirds[1], NULL, 0, false), x));
  tdm_session *session = run_session(graph, NULL);
  for (int64_t rows = 0; rows <= 3; rows += 3) {
    tdm_tensor *fed =
        tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, WIDTH));
    const tdm_feed feed = {"x", fed, false};
    tdm_fetch fetches[] = {{.name = "third"}, {.name = "slope"}};
    assert_ok(tdm_run(session, &feed, 1, fetches, 2));
    assert_int_equal(tdm_tensor_shape(fetches[0].tensor).dims[0], rows / 3);
    assert_int_equal(tdm_tensor_shape(fetches[1].tensor).dims[0], rows);
    for (int i = 0; i < 2; i++)
      tdm_tensor_release(fetches[i].tensor);
    tdm_tensor_release(fed);
  }
  tdm_session_release(session);
}

static void no_parts_are_told_by_the_layers_number(void **unused) {
  (void)unused;
  tdm_value parts[1];
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 6));
  tdm_split_evenly(graph, NULL, x, 0, 0, parts);
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_message("0: 0 parts, and 1 to 64 are possible");
  tdm_graph_release(graph);
}

/* ---- What cannot be -------------------------------------------------------------------------- */

static void make_pairs(tdm_graph *graph, tdm_value x) {
  tdm_scope_push(graph, "part");
  const tdm_value pairs = tdm_reshape(graph, "pairs", tdm_tanh(graph, "tanh", x),
                                      tdm_shape_of(2, 2 * LENGTH * WIDTH, TDM_INFER));
  const tdm_value sum = tdm_sum(graph, "sum", pairs, NULL, 0, false);
  tdm_scope_pop(graph);
  tdm_output(graph, "a", sum);
  tdm_output(graph, "b", x);
}

/* The first replica has two pairs, the others three rows and one: none of it is left out. */
static void replicas_whose_rows_do_not_fit_are_refused(void **unused) {
  (void)unused;
  const double weights[] = {4, 3, 1};
  const cut_case how = {"cpu:0,cpu:1,cpu:2", 0};
  tdm_session *session = cut_session(make_pairs, &how, weights);
  tdm_fetch fetches[2];
  assert_status(run_cut(session, fetches), TDM_INVALID_ARGUMENT);
  assert_message("data parallel over part: part/pairs: ");
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(concatenated_rows_keep_their_order),
      cmocka_unit_test(rows_of_a_sequence_are_split_into_steps),
      cmocka_unit_test(elements_behind_one_another_are_rows_again),
      cmocka_unit_test(the_same_is_dropped_wherever_rows_lie),
      cmocka_unit_test(gradients_lie_as_their_values_do),
      cmocka_unit_test(a_penalty_counts_once_however_the_batch_is_cut),
      cmocka_unit_test(nothing_is_split_evenly),
      cmocka_unit_test(no_parts_are_told_by_the_layers_number),
      cmocka_unit_test(replicas_whose_rows_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
