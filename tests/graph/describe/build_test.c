/* Descriptions of graphs: the first error is kept and reported by the session, with the layer and
 * its shapes. Invalid and foreign values, scopes, names, tied weights, named dimensions. */
#include "graph/ir/ir.h"
#include "tests/graph/group.h"
#include "tests/options.h"

static tdm_value floats(tdm_graph *graph, const char *name, tdm_dim width) {
  return tdm_input(graph, name, TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), width));
}

/* The session is refused with a message that has all words, up to NULL. */
static void assert_refused(tdm_graph *graph, const char *const *words) {
  tdm_session *session = tdm_session_create(graph, NULL);
  assert_null(session);
  for (; *words; words++)
    assert_message(*words);
  tdm_graph_release(graph);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void the_first_error_sticks(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_push(graph, "block");
  const tdm_value x = floats(graph, "x", 32);
  const tdm_value w = tdm_parameter(graph, "fc.weight", TDM_FLOAT32, tdm_shape_of(2, 8, 10), NULL);
  assert_true(tdm_value_is_valid(w));
  const tdm_value bad = tdm_linear(graph, "fc", x, 8); /* finds another weight of that name */
  assert_false(tdm_value_is_valid(bad));
  assert_int_equal(tdm_value_shape(graph, bad).rank, -1);
  assert_int_equal(tdm_value_dtype(graph, bad), TDM_DTYPE_NONE);
  const tdm_value later = tdm_relu(graph, "later", bad);
  assert_false(tdm_value_is_valid(later));
  tdm_place(graph, "nowhere:7"); /* a second error changes nothing */
  tdm_output(graph, "out", later);
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  static const char *const words[] = {"block/fc.weight", "[8, 32]", "[8, 10]", NULL};
  assert_refused(graph, words);
}

static void an_absent_device_names_the_layer_that_wants_it(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = floats(graph, "x", 32);
  tdm_scope_push(graph, "unused");
  tdm_place(graph, "cpu:7"); /* no layer is placed there */
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "top");
  tdm_place(graph, "cpu:9");
  assert_ok(tdm_graph_status(graph));
  tdm_place(graph, "cpu"); /* and another device instead */
  tdm_output(graph, "out", tdm_relu(graph, "first", x));
  tdm_scope_push(graph, "block");
  tdm_place(graph, "cpu:8");
  tdm_scope_push(graph, "deep");
  assert_ok(tdm_graph_status(graph));
  assert_false(tdm_value_is_valid(tdm_linear(graph, "fc", x, 4)));
  assert_status(tdm_graph_status(graph), TDM_UNAVAILABLE);
  static const char *const words[] = {"top/block/deep/fc: there is no cpu:8", "devices are: cpu:0",
                                      NULL};
  assert_refused(graph, words);
}

static void shapes_that_do_not_fit_name_the_layer(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = floats(graph, "x", 32);
  const tdm_value y = floats(graph, "y", 31);
  tdm_scope_push(graph, "top");
  tdm_output(graph, "sum", tdm_add(graph, "sum", x, y));
  static const char *const words[] = {"top/sum", "[batch, 32]", "[batch, 31]", NULL};
  assert_refused(graph, words);
}

static void null_and_invalid_values_pass_through(void **unused) {
  (void)unused;
  const tdm_value none = {0, 0};
  assert_false(tdm_value_is_valid(tdm_input(NULL, "x", TDM_FLOAT32, tdm_shape_scalar())));
  assert_false(tdm_value_is_valid(tdm_linear(NULL, "fc", none, 4)));
  tdm_output(NULL, "out", none);
  tdm_place(NULL, "cpu:0");
  tdm_scope_push(NULL, "a");
  tdm_scope_pop(NULL);
  assert_null(tdm_session_create(NULL, NULL));
  assert_null(tdm_graph_create(NULL));
  tdm_graph_release(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_output(graph, "out", tdm_relu(graph, "act", none));
  static const char *const words[] = {"act", NULL};
  assert_refused(graph, words);
}

static void values_of_another_graph_are_refused(void **unused) {
  (void)unused;
  tdm_graph *other = tdm_graph_create(context);
  const tdm_value foreign = floats(other, "x", 4);
  tdm_graph *graph = tdm_graph_create(context);
  (void)floats(graph, "x", 4); /* has the same index as `foreign` */
  assert_false(tdm_value_is_valid(tdm_relu(graph, "act", foreign)));
  assert_int_equal(tdm_value_shape(graph, foreign).rank, -1);
  static const char *const words[] = {"act", "another graph", NULL};
  assert_refused(graph, words);

  graph = tdm_graph_create(context);
  tdm_output(graph, "out", tdm_relu(graph, "act", floats(graph, "x", 4)));
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = foreign, o.optimizer = &optimizer);
  assert_null(tdm_session_create(graph, &options));
  assert_message("another graph");
  tdm_graph_release(graph);
  tdm_graph_release(other);
}

/* The tag is that of this graph, but the value does not exist. */
static void values_beyond_the_last_are_refused(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = floats(graph, "x", 4);
  const tdm_value beyond = {x.graph, 1000000};
  tdm_output(graph, "y", x);
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = beyond, o.optimizer = &sgd);
  assert_null(tdm_session_create(graph, &options));
  assert_message("of another graph, or of none");
  tdm_graph_release(graph);

  graph = tdm_graph_create(context);
  (void)floats(graph, "x", 4);
  const tdm_value nobody = {floats(graph, "z", 4).graph, 1000000};
  (void)tdm_state(graph, "mean", TDM_FLOAT32, tdm_shape_of(1, 4), NULL, nobody);
  static const char *const words[] = {"state mean", "no value of the graph", NULL};
  assert_refused(graph, words);
}

/* Counted from the end of nothing, by as much as there is. */
static void parts_of_no_value_are_refused(void **unused) {
  (void)unused;
  const tdm_value nothing = {0, 0};
  const tdm_dim sizes[] = {1, 2};
  tdm_graph *graph = tdm_graph_create(context);
  tdm_value parts[2] = {floats(graph, "x", 4), floats(graph, "y", 4)}, evenly[2];
  memcpy(evenly, parts, sizeof evenly);
  tdm_split(graph, "cut", nothing, INT32_MIN, sizes, 2, parts);
  assert_false(tdm_value_is_valid(parts[0]));
  static const char *const cut[] = {"cut", "not a value", NULL};
  assert_refused(graph, cut);
  graph = tdm_graph_create(context);
  tdm_split_evenly(graph, "cut", nothing, 0, 2, evenly);
  assert_false(tdm_value_is_valid(evenly[0]) || tdm_value_is_valid(evenly[1]));
  assert_refused(graph, cut);

  graph = tdm_graph_create(context);
  assert_false(tdm_value_is_valid(tdm_concat(graph, "whole", &nothing, 1, INT32_MIN)));
  static const char *const whole[] = {"whole", "not a value", NULL};
  assert_refused(graph, whole);
}

static void a_session_freezes_its_graph(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value out = tdm_relu(graph, "act", floats(graph, "x", 4));
  tdm_output(graph, "out", out);
  tdm_session *session = tdm_session_create(graph, NULL);
  assert_non_null(session);
  assert_false(tdm_value_is_valid(tdm_relu(graph, "more", out)));
  assert_status(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_message("more");
  assert_message("frozen");
  tdm_session_release(session);
  tdm_graph_release(graph);
}

/* Checks that a session created earlier is not affected by the additions. */
static void adding_to_a_frozen_graph_hurts_no_session(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_output(graph, "out", tdm_relu(graph, "act", floats(graph, "x", 4)));
  tdm_session *session = tdm_session_create(graph, NULL);
  assert_non_null(session);
  const size_t values = graph->values.count, nodes = graph->nodes.count;
  tdm_output(graph, "late", tdm_parameter(graph, "p", TDM_FLOAT32, tdm_shape_of(1, 2), NULL));
  assert_int_equal(graph->values.count, values); /* which sessions read meanwhile */
  assert_int_equal(graph->nodes.count, nodes);
  assert_int_equal(graph->described->outputs.count, 1);
  tdm_tensor *x = tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 3, 4), -1);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "out"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  assert_true(((const float *)tdm_tensor_data(fetch.tensor))[11] == 0);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

/* Like the tag of an object that ends with a block in which sessions were allocated. */
static void a_scope_may_end_behind_its_session(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_push(graph, "block");
  tdm_output(graph, "out", tdm_relu(graph, "act", floats(graph, "x", 4)));
  tdm_session *first = tdm_session_create(graph, NULL);
  assert_non_null(first);
  tdm_scope_pop(graph);
  assert_ok(tdm_graph_status(graph));
  tdm_session *second = tdm_session_create(graph, NULL);
  assert_non_null(second);
  tdm_session_release(second);
  tdm_session_release(first);
  tdm_graph_release(graph);
}

static void other_misuses_are_named(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  (void)floats(graph, "x", 4);
  (void)floats(graph, "x", 4);
  static const char *const twice[] = {"x", "twice", NULL};
  assert_refused(graph, twice);
  graph = tdm_graph_create(context);
  tdm_output(graph, "o", floats(graph, "x", 4));
  tdm_output(graph, "o", floats(graph, "y", 4));
  static const char *const output[] = {"output o", "twice", NULL};
  assert_refused(graph, output);
  graph = tdm_graph_create(context);
  tdm_scope_pop(graph);
  static const char *const pop[] = {"tdm_scope_pop", NULL};
  assert_refused(graph, pop);
  graph = tdm_graph_create(context);
  (void)tdm_relu(graph, "", floats(graph, "x", 4));
  static const char *const unnamed[] = {"name", NULL};
  assert_refused(graph, unnamed);
  graph = tdm_graph_create(context);
  (void)tdm_input(graph, "long", TDM_FLOAT32, tdm_shape_of(1, TDM_DIM("Not Legal")));
  static const char *const dim[] = {"long", NULL};
  assert_refused(graph, dim);
  graph = tdm_graph_create(context);
  static const char *const nothing[] = {"no output", NULL};
  assert_refused(graph, nothing);
  graph = tdm_graph_create(context);
  for (int i = 0; i < 100; i++)
    tdm_scope_push(graph, "deeper");
  static const char *const deep[] = {"scopes", NULL};
  assert_refused(graph, deep);
}

static void parameters_have_a_dtype(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  (void)tdm_state(graph, "byte", TDM_BOOL, tdm_shape_of(1, 4), NULL, floats(graph, "x", 4));
  assert_ok(tdm_graph_status(graph));
  (void)tdm_parameter(graph, "p", TDM_DTYPE_COUNT, tdm_shape_of(1, 4), NULL);
  static const char *const words[] = {"parameter p", "dtype or shape is not legal", NULL};
  assert_refused(graph, words);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void scopes_make_paths(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = floats(graph, "x", 4);
  tdm_scope_push(graph, "block1");
  tdm_scope_push(graph, "inner");
  tdm_scope_dtype(graph, TDM_FLOAT64);
  assert_int_equal(tdm_graph_dtype(graph), TDM_FLOAT64);
  tdm_scope_pop(graph);
  assert_int_equal(tdm_graph_dtype(graph), TDM_FLOAT32); /* ended with its scope */
  const tdm_value a = tdm_linear(graph, "fc", x, 4);
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "block2");
  const tdm_value b = tdm_linear(graph, "fc", a, 4);
  tdm_scope_pop(graph);
  tdm_output(graph, "out", tdm_linear(graph, "fc", b, 4));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor_list *state = state_of(session);
  static const char *const names[] = {"block1/fc.weight", "block1/fc.bias", "block2/fc.weight",
                                      "block2/fc.bias",   "fc.weight",      "fc.bias"};
  assert_int_equal(tdm_tensor_list_count(state), TDM_COUNT_OF(names));
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++)
    assert_string_equal(tdm_tensor_list_name(state, i), names[i]);
  tdm_tensor_list_release(state);
  tdm_session_release(session);
}

/* A layer of another name, in another scope, has the parameters of an existing one. A second layer
 * of one name has none unless it states so. */
static void layers_are_tied_by_their_names(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_scope_push(graph, "model");
  tdm_value x = tdm_embedding(graph, "embedding", ids, 7, 4);
  tdm_tie(graph, "decoder/head.weight", "embedding.weight");
  tdm_tie(graph, "second", "first");
  tdm_scope_push(graph, "first");
  x = tdm_batch_norm(graph, "norm", tdm_linear(graph, "fc", x, 4));
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "second");
  x = tdm_batch_norm(graph, "norm", tdm_linear(graph, "fc", x, 4));
  tdm_scope_pop(graph);
  tdm_scope_push(graph, "decoder");
  tdm_output(graph, "scores", tdm_linear(graph, "head", x, 7));
  tdm_scope_pop(graph);
  tdm_scope_pop(graph);
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor_list *state = state_of(session);
  static const char *const names[] = {
      "model/embedding.weight",       "model/first/fc.weight",
      "model/first/fc.bias",          "model/first/norm.weight",
      "model/first/norm.bias",        "model/first/norm.running_mean",
      "model/first/norm.running_var", "model/first/norm.num_batches_tracked",
      "model/decoder/head.bias"};
  assert_int_equal(tdm_tensor_list_count(state), TDM_COUNT_OF(names));
  for (size_t i = 0; i < TDM_COUNT_OF(names); i++)
    assert_non_null(tdm_tensor_list_find(state, names[i]));
  tdm_tensor_list_release(state);
  tdm_session_release(session);
}

static void a_layer_takes_a_parameter_that_was_named_before_it(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = floats(graph, "x", 2);
  (void)tdm_parameter(graph, "fc.weight", TDM_FLOAT32, tdm_shape_of(2, 3, 2), NULL);
  assert_true(tdm_value_is_valid(tdm_linear_without_bias(graph, "fc", x, 3)));
  assert_true(tdm_value_is_valid(
      tdm_parameter(graph, "fc.weight", TDM_FLOAT32, tdm_shape_of(2, 3, 2), NULL)));
  assert_false(tdm_value_is_valid(tdm_linear_without_bias(graph, "fc", x, 3)));
  static const char *const words[] = {"fc: there is a layer of that name", "tdm_tie", NULL};
  assert_refused(graph, words);
}

/* Checks one parameter of two layers: trained once a step, by the sum of both gradients, and saved
 * once. */
static void tied_weights_are_one_parameter(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = floats(graph, "x", 2);
  const tdm_value once = tdm_linear_without_bias(graph, "fc", x, 2);
  tdm_tie(graph, "fc", "fc");
  const tdm_value twice = tdm_linear_without_bias(graph, "fc", once, 2);
  const tdm_value zero = floats(graph, "zero", 2);
  const tdm_value loss =
      tdm_mse_with(graph, "loss", twice, zero, WITH(tdm_loss_options, o.reduction = TDM_LOSS_SUM));
  tdm_session *session = train_session(graph, loss, tdm_sgd(1), NULL);
  const float weight[4] = {1, 0, 0, 1};
  tdm_tensor *w = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 2, 2), weight);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_ok(tdm_tensor_list_add(list, "fc.weight", w));
  assert_ok(tdm_store_load(tdm_session_store(session), list));
  const float input[2] = {1, 2};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 1, 2), input);
  tdm_tensor *zeros = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 1, 2));
  const tdm_feed feeds[] = {{.name = "x", .tensor = fed}, {.name = "zero", .tensor = zeros}};
  double loss_value = 0;
  assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, &loss_value));
  assert_true(loss_value == 5);
  tdm_tensor_list *state = state_of(session);
  assert_int_equal(tdm_tensor_list_count(state), 1);
  const float *now = tdm_tensor_data(tdm_tensor_list_tensor(state, 0));
  /* d = 2 y = (2, 4) at both layers: the gradient is 2 * d x^T. */
  const float wanted[4] = {1 - 4, -8, -8, 1 - 16};
  assert_memory_equal(now, wanted, sizeof wanted);
  tdm_tensor_list_release(state);
  tdm_tensor_list_release(list);
  tdm_tensor_release(w);
  tdm_tensor_release(fed);
  tdm_tensor_release(zeros);
  tdm_session_release(session);
}

/* ---- Dimensions ------------------------------------------------------------------------------ */

static tdm_session *two_inputs(void) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value a = floats(graph, "a", 3);
  const tdm_value b = floats(graph, "b", 3);
  tdm_output(graph, "sum", tdm_add(graph, "sum", a, b));
  tdm_output(graph, "a flat", tdm_reshape(graph, "flat", a, tdm_shape_of(1, TDM_INFER)));
  tdm_output(graph, "a tall",
             tdm_reshape(graph, "tall", a, tdm_shape_of(3, 3, TDM_DIM("batch"), TDM_INFER)));
  return run_session(graph, NULL);
}

static tdm_tensor *ones(int64_t rows, int64_t width) {
  return tdm_tensor_full(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, width), 1);
}

static void equal_names_are_equal_sizes(void **unused) {
  (void)unused;
  tdm_session *session = two_inputs();
  tdm_tensor *four = ones(4, 3);
  tdm_tensor *five = ones(5, 3);
  const tdm_feed same[] = {{.name = "a", .tensor = four}, {.name = "b", .tensor = four}};
  const tdm_feed other[] = {{.name = "a", .tensor = four}, {.name = "b", .tensor = five}};
  tdm_fetch fetches[] = {{.name = "sum"}, {.name = "a flat"}, {.name = "a tall"}};
  assert_ok(tdm_run(session, same, 2, fetches, 3));
  assert_int_equal(tdm_tensor_shape(fetches[1].tensor).dims[0], 12);
  const tdm_shape tall = tdm_tensor_shape(fetches[2].tensor);
  assert_int_equal(tall.rank, 3);
  assert_int_equal(tall.dims[1], 4);
  assert_int_equal(tall.dims[2], 1);
  for (int i = 0; i < 3; i++)
    tdm_tensor_release(fetches[i].tensor);
  assert_status(tdm_run(session, other, 2, fetches, 1), TDM_INVALID_ARGUMENT);
  assert_message("batch is 4 in input a and 5 in input b");
  assert_null(fetches[0].tensor);
  /* Inputs that the fetches do not need are not required. */
  assert_ok(tdm_run(session, same, 1, &fetches[1], 1));
  tdm_tensor_release(fetches[1].tensor);
  assert_status(tdm_run(session, same, 1, fetches, 1), TDM_INVALID_ARGUMENT);
  assert_message("input b is needed");
  tdm_tensor_release(four);
  tdm_tensor_release(five);
  tdm_session_release(session);
}

static void feeds_that_do_not_fit_are_named(void **unused) {
  (void)unused;
  tdm_session *session = two_inputs();
  tdm_tensor *good = ones(4, 3);
  tdm_tensor *wide = ones(4, 5);
  tdm_tensor *other = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT64, tdm_shape_of(2, 4, 3));
  tdm_fetch fetch = {.name = "sum"};
  const tdm_feed wrong_width[] = {{.name = "a", .tensor = wide}, {.name = "b", .tensor = good}};
  assert_status(tdm_run(session, wrong_width, 2, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_message("input a is declared [batch, 3] and was fed [4, 5]");
  const tdm_feed wrong_dtype[] = {{.name = "a", .tensor = good}, {.name = "b", .tensor = other}};
  assert_status(tdm_run(session, wrong_dtype, 2, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_message("input b is float32 and was fed float64");
  const tdm_feed unknown[] = {{.name = "c", .tensor = good}};
  assert_status(tdm_run(session, unknown, 1, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_message("no input 'c'; inputs are: a, b");
  const tdm_feed twice[] = {{.name = "a", .tensor = good}, {.name = "a", .tensor = good}};
  assert_status(tdm_run(session, twice, 2, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_message("fed twice");
  const tdm_feed none[] = {{.name = "a", .tensor = NULL}};
  assert_status(tdm_run(session, none, 1, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_message("input a");
  const tdm_feed fine[] = {{.name = "a", .tensor = good}, {.name = "b", .tensor = good}};
  tdm_fetch missing = {.name = "difference"};
  assert_status(tdm_run(session, fine, 2, &missing, 1), TDM_INVALID_ARGUMENT);
  assert_message("no output 'difference'; outputs are: ");
  assert_status(tdm_train_step(session, fine, 2, NULL, 0, NULL), TDM_INVALID_ARGUMENT);
  assert_message("no loss");
  assert_status(tdm_run(session, fine, 2, NULL, 0), TDM_INVALID_ARGUMENT);
  assert_status(tdm_run(NULL, fine, 2, &fetch, 1), TDM_INVALID_ARGUMENT);
  tdm_tensor_release(good);
  tdm_tensor_release(wide);
  tdm_tensor_release(other);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_error_sticks),
      cmocka_unit_test(an_absent_device_names_the_layer_that_wants_it),
      cmocka_unit_test(shapes_that_do_not_fit_name_the_layer),
      cmocka_unit_test(null_and_invalid_values_pass_through),
      cmocka_unit_test(values_of_another_graph_are_refused),
      cmocka_unit_test(values_beyond_the_last_are_refused),
      cmocka_unit_test(parts_of_no_value_are_refused),
      cmocka_unit_test(a_session_freezes_its_graph),
      cmocka_unit_test(adding_to_a_frozen_graph_hurts_no_session),
      cmocka_unit_test(a_scope_may_end_behind_its_session),
      cmocka_unit_test(other_misuses_are_named),
      cmocka_unit_test(parameters_have_a_dtype),
      cmocka_unit_test(scopes_make_paths),
      cmocka_unit_test(layers_are_tied_by_their_names),
      cmocka_unit_test(a_layer_takes_a_parameter_that_was_named_before_it),
      cmocka_unit_test(tied_weights_are_one_parameter),
      cmocka_unit_test(equal_names_are_equal_sizes),
      cmocka_unit_test(feeds_that_do_not_fit_are_named),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
