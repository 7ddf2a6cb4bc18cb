/* Shape rules while sizes are not known: names are kept where they are certain, and the same graph
 * runs and trains with several sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_test.h"
#include "tests/options.h"

typedef struct shape_case {
  tdm_value (*build)(tdm_graph *graph);
  const char *shape;
} shape_case;

static tdm_value sequence(tdm_graph *graph) {
  return tdm_input(graph, "x", TDM_FLOAT32,
                   tdm_shape_of(3, TDM_DIM("length"), TDM_DIM("batch"), 12));
}

static tdm_value images(tdm_graph *graph) {
  return tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, TDM_DIM("batch"), 3, 4));
}

static tdm_value unknown(tdm_graph *graph) {
  return tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM_UNKNOWN, 4));
}

static tdm_value embedding_of_names(tdm_graph *graph) {
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("length"), TDM_DIM("batch"));
  return tdm_embedding(graph, "table", tdm_input(graph, "ids", TDM_INT32, shape), 9, 5);
}

static tdm_value linear_of_names(tdm_graph *graph) {
  return tdm_linear(graph, "fc", sequence(graph), 7);
}

static tdm_value rnn_of_names(tdm_graph *graph) {
  return tdm_rnn(graph, "rnn", sequence(graph), 7, NULL, NULL);
}

static tdm_value rnn_of_batches(tdm_graph *graph) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.batch_first = true);
  tdm_value h_n;
  tdm_rnn(graph, "rnn", sequence(graph), 7, &options, &h_n);
  return h_n;
}

static tdm_value flat_rows(tdm_graph *graph) {
  return tdm_reshape(graph, "view", sequence(graph), tdm_shape_of(2, TDM_INFER, 12));
}

static tdm_value flat_features(tdm_graph *graph) {
  return tdm_reshape(graph, "view", images(graph), tdm_shape_of(2, TDM_DIM("batch"), TDM_INFER));
}

static tdm_value inferred_batch(tdm_graph *graph) {
  return tdm_reshape(graph, "view", images(graph), tdm_shape_of(2, TDM_INFER, 12));
}

static tdm_value split_features(tdm_graph *graph) {
  return tdm_reshape(graph, "view", sequence(graph),
                     tdm_shape_of(4, TDM_DIM("length"), TDM_DIM("batch"), TDM_INFER, 4));
}

static tdm_value new_name(tdm_graph *graph) {
  return tdm_reshape(graph, "view", sequence(graph), tdm_shape_of(2, TDM_DIM("rows"), 12));
}

static tdm_value two_names(tdm_graph *graph) {
  return tdm_reshape(graph, "view", unknown(graph),
                     tdm_shape_of(3, TDM_DIM("length"), TDM_DIM("batch"), 4));
}

static tdm_value exchanged(tdm_graph *graph) {
  return tdm_swap_first_dimensions(graph, "swap", sequence(graph));
}

static tdm_value last(tdm_graph *graph) {
  return tdm_last_step(graph, "last", sequence(graph));
}

static tdm_value merged(tdm_graph *graph) {
  const tdm_value sizes = tdm_input(graph, "sizes", TDM_FLOAT32, tdm_shape_of(2, 6, 4));
  return tdm_add(graph, "sum", unknown(graph), sizes);
}

static tdm_value losses(tdm_graph *graph) {
  const tdm_loss_options none = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_NONE);
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  return tdm_cross_entropy_with(graph, "loss", unknown(graph), targets, &none);
}

static const shape_case shape_cases[] = {
    {embedding_of_names, "[length, batch, 5]"},
    {linear_of_names, "[length, batch, 7]"},
    {rnn_of_names, "[length, batch, 7]"},
    {rnn_of_batches, "[1, length, 7]"}, /* the input's first name is its batch */
    {flat_rows, "[?, 12]"},
    {flat_features, "[batch, 12]"},
    {inferred_batch, "[batch, 12]"},
    {split_features, "[length, batch, 3, 4]"},
    {new_name, "[rows, 12]"},
    {two_names, "[length, batch, 4]"},
    {exchanged, "[batch, length, 12]"},
    {last, "[batch, 12]"},
    {merged, "[6, 4]"},
    {losses, "[batch]"},
};

static void test_rules(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  assert_non_null(context);
  for (size_t i = 0; i < sizeof shape_cases / sizeof shape_cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_shape shape = tdm_value_shape(graph, shape_cases[i].build(graph));
    char text[TDM_SHAPE_TEXT];
    if (tdm_graph_status(graph) != TDM_OK) fail_msg("%s", tdm_last_message());
    assert_string_equal(tdm_shape_text(&shape, text, sizeof text), shape_cases[i].shape);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* Rows of a sequence, flattened to an unknown count, classified, and seen as a sequence again. */
static tdm_session *flattening_session(tdm_graph *graph, const tdm_optimizer *optimizer) {
  const tdm_value x = sequence(graph);
  tdm_value y = tdm_linear(graph, "first", x, 5);
  y = tdm_reshape(graph, "flat", y, tdm_shape_of(2, TDM_INFER, 5));
  y = tdm_linear(graph, "second", y, 6);
  const tdm_value targets = tdm_input(graph, "targets", TDM_FLOAT32,
                                      tdm_shape_of(3, TDM_DIM("length"), TDM_DIM("batch"), 12));
  y = tdm_linear(graph, "third", tdm_reshape(graph, "pairs", y, tdm_shape_of(2, TDM_INFER, 12)),
                 12);
  const tdm_value judged = tdm_reshape(graph, "rows", targets, tdm_shape_of(2, TDM_INFER, 12));
  tdm_output(graph, "y", y);
  const tdm_value half =
      tdm_select(graph, "first_rows",
                 tdm_reshape(graph, "halves", judged, tdm_shape_of(3, 2, TDM_INFER, 12)), 0, 0);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = tdm_mse(graph, "loss", y, half), o.optimizer = optimizer);
  return tdm_session_create(graph, &options);
}

static void train_with(tdm_context *context, tdm_session *session, int64_t length, int64_t batch) {
  const tdm_shape shape = tdm_shape_of(3, length, batch, 12);
  tdm_tensor *x = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, 1, -1.0, 1.0);
  tdm_tensor *targets = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, 2, -1.0, 1.0);
  const tdm_feed feeds[] = {{.name = "x", .tensor = x}, {.name = "targets", .tensor = targets}};
  double first = 0.0;
  double loss = 0.0;
  for (int step = 0; step < 30; step++) {
    tdm_fetch fetch = {.name = "y"};
    if (tdm_train_step(session, feeds, 2, &fetch, 1, &loss) != TDM_OK)
      fail_msg("%s", tdm_last_message());
    const tdm_shape y = tdm_tensor_shape(fetch.tensor);
    assert_int_equal(y.rank, 2);
    assert_int_equal(y.dims[0], length * batch / 2);
    tdm_tensor_release(fetch.tensor);
    if (step == 0) first = loss;
  }
  assert_true(loss < first);
  tdm_tensor_release(x);
  tdm_tensor_release(targets);
}

static void test_training_with_several_sizes(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(0.2);
  tdm_session *session = flattening_session(graph, &optimizer);
  if (!session) fail_msg("%s", tdm_last_message());
  train_with(context, session, 4, 3);
  train_with(context, session, 2, 7);
  train_with(context, session, 1, 2);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* Computes the losses of steps of a model that flattens (length, batch, 12) and restores this shape
 * from its result, by names that the flat value does not have. */
static void train_names(tdm_context *context, int micro_batches, const char *devices,
                        double out_losses[3]) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = sequence(graph);
  const tdm_value targets = tdm_input(graph, "targets", TDM_FLOAT32,
                                      tdm_shape_of(3, TDM_DIM("length"), TDM_DIM("batch"), 12));
  tdm_scope_push(graph, "model");
  tdm_value y = tdm_reshape(graph, "flat", x, tdm_shape_of(2, TDM_INFER, 12));
  y = tdm_tanh(graph, "tanh", tdm_linear(graph, "fc", y, 12));
  y = tdm_reshape(graph, "sequence", y, tdm_shape_of(3, TDM_DIM("length"), TDM_DIM("batch"), 12));
  y = tdm_rnn(graph, "rnn", y, 12, NULL, NULL);
  tdm_scope_pop(graph);
  if (devices) {
    const tdm_scatter scatter[] = {{x, 1}};
    const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = devices,
                                                  o.scatter = scatter, o.scatter_count = 1);
    tdm_data_parallel(graph, "model", &parallel);
  }
  const tdm_optimizer optimizer = tdm_sgd(0.2);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = tdm_mse(graph, "loss", y, targets), o.optimizer = &optimizer,
      o.batch_dimension = "batch", o.micro_batches = OR_ONE(micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  const int64_t sizes[][2] = {{4, 5}, {2, 7}, {3, 4}};
  for (int step = 0; step < 3; step++) {
    const tdm_shape shape = tdm_shape_of(3, sizes[step][0], sizes[step][1], 12);
    tdm_tensor *fed = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, shape, 1, -1.0, 1.0);
    const tdm_feed feeds[] = {{.name = "x", .tensor = fed}, {.name = "targets", .tensor = fed}};
    if (tdm_train_step(session, feeds, 2, NULL, 0, &out_losses[step]) != TDM_OK)
      fail_msg("%s", tdm_last_message());
    tdm_tensor_release(fed);
  }
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void test_names_that_inputs_have(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  double whole[3], parts[3], replicas[3];
  train_names(context, 0, NULL, whole);
  train_names(context, 2, NULL, parts);
  train_names(context, 0, "cpu:0,sim:0", replicas);
  for (int i = 0; i < 3; i++) {
    if (!(fabs(parts[i] - whole[i]) < 1e-5 && fabs(replicas[i] - whole[i]) < 1e-5))
      fail_msg("step %d: %g whole, %g in parts, %g in replicas", i, whole[i], parts[i],
               replicas[i]);
  }
  tdm_context_release(context);
}

/* Adds the two steps of x (length, batch, 12) before its last, joined with a parameter of two
 * steps. */
static tdm_value two_steps_and_places(tdm_graph *graph, tdm_value x) {
  const tdm_initializer drawn = {TDM_INIT_NORMAL, 0.0, 1.0, -1};
  const tdm_value places =
      tdm_parameter(graph, "places", TDM_FLOAT32, tdm_shape_of(3, 2, 1, 12), &drawn);
  return tdm_add(graph, "placed", tdm_slice(graph, "two", x, 0, -3, -1, 1), places);
}

/* Adds the products of all steps with all steps: both operands are repeated along a name. */
static tdm_value products_of_steps(tdm_graph *graph, tdm_value x) {
  const tdm_value turned = tdm_transpose(graph, "turned", x, 1, 2);
  return tdm_matmul(graph, "products", tdm_unsqueeze(graph, "rows", x, 0),
                    tdm_unsqueeze(graph, "columns", turned, 1));
}

/* The losses of three steps on x (5, 3, 12). */
static void train_model(tdm_context *context, tdm_value (*build)(tdm_graph *, tdm_value),
                        bool named, double out_losses[3]) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape sizes = tdm_shape_of(3, 5, 3, 12);
  const tdm_value x = named ? sequence(graph) : tdm_input(graph, "x", TDM_FLOAT32, sizes);
  const tdm_value y = build(graph, tdm_linear(graph, "fc", x, 12));
  const tdm_optimizer optimizer = tdm_sgd(0.02);
  const tdm_session_options options =
      OPTIONS(tdm_session_options,
              o.loss = tdm_mean(graph, "loss", tdm_square(graph, "squares", y), NULL, 0, false),
              o.optimizer = &optimizer, o.seed = 3);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *fed = tdm_tensor_uniform(context, "cpu:0", TDM_FLOAT32, sizes, 1, -1.0, 1.0);
  const tdm_feed feed = {.name = "x", .tensor = fed};
  for (int step = 0; step < 3; step++)
    if (tdm_train_step(session, &feed, 1, NULL, 0, &out_losses[step]) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void test_names_are_trained_as_sizes(void **state) {
  (void)state;
  static tdm_value (*const models[])(tdm_graph *, tdm_value) = {two_steps_and_places,
                                                                products_of_steps};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    double of_names[3], of_sizes[3];
    train_model(context, models[i], true, of_names);
    train_model(context, models[i], false, of_sizes);
    for (int step = 0; step < 3; step++)
      if (of_names[step] != of_sizes[step])
        fail_msg("model %zu, step %d: %g, of sizes %g", i, step, of_names[step], of_sizes[step]);
    assert_true(of_names[2] < of_names[0]);
  }
  tdm_context_release(context);
}

/* Sizes of feeds: x (x_rows, 4), and names (length, batch), which y may not need. */
typedef struct named_case {
  tdm_value (*build)(tdm_graph *graph, tdm_value x, tdm_value names);
  tdm_dim x_rows; /* declared rows of x */
  int64_t length, batch, rows;
  tdm_dim wanted[2]; /* the first sizes of y */
} named_case;

static tdm_value seen_by_names(tdm_graph *graph, tdm_value x, tdm_value names) {
  (void)names;
  return tdm_reshape(graph, "view", x, tdm_shape_of(3, TDM_DIM("length"), TDM_DIM("batch"), 4));
}

static tdm_value first_part(tdm_graph *graph, tdm_value x, tdm_value names) {
  const tdm_dim sizes[] = {TDM_DIM("length"), TDM_DIM("batch")};
  tdm_value parts[2];
  (void)names;
  tdm_split(graph, "parts", x, 0, sizes, 2, parts);
  return parts[0];
}

/* A flip has the names of its operand. */
static tdm_value flipped(tdm_graph *graph, tdm_value x, tdm_value names) {
  const int both[] = {0, 1};
  const tdm_value back = tdm_flip(graph, "flip", names, both, 2);
  (void)x;
  return tdm_reshape(graph, "rows", back, tdm_shape_of(2, TDM_DIM("batch"), TDM_INFER));
}

static const named_case named_cases[] = {
    {seen_by_names, TDM_DIM_UNKNOWN, 2, 3, 6, {2, 3}},
    {seen_by_names, TDM_DIM_UNKNOWN, 0, 3, 0, {0, 3}}, /* no elements show that there are 3 */
    {seen_by_names, TDM_DIM_UNKNOWN, 3, 0, 0, {3, 0}},
    {seen_by_names, TDM_DIM_UNKNOWN, 0, 0, 0, {0, 0}},
    {seen_by_names, 6, 2, 3, 6, {2, 3}},
    {first_part, TDM_DIM_UNKNOWN, 2, 3, 5, {2, 4}},
    {first_part, TDM_DIM_UNKNOWN, 0, 1, 1, {0, 4}},
    {first_part, 5, 2, 3, 5, {2, 4}},
    {flipped, TDM_DIM_UNKNOWN, 1, 0, 5, {0, 1}},
};

/* Names in the arguments of a layer are those of any fed input. */
static void test_names_that_layers_are_told(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof named_cases / sizeof named_cases[0]; i++) {
    const named_case *one = &named_cases[i];
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, one->x_rows, 4));
    const tdm_value names = tdm_input(graph, "names", TDM_FLOAT32,
                                      tdm_shape_of(2, TDM_DIM("length"), TDM_DIM("batch")));
    tdm_output(graph, "y", one->build(graph, x, names));
    tdm_session *session = tdm_session_create(graph, NULL);
    if (!session) fail_msg("case %zu: %s", i, tdm_last_message());
    tdm_tensor *fed_x =
        tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, one->rows, 4));
    tdm_tensor *fed_names =
        tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, one->length, one->batch));
    const tdm_feed feeds[] = {{"x", fed_x, false}, {"names", fed_names, false}};
    tdm_fetch fetch = {.name = "y"};
    if (tdm_run(session, feeds, 2, &fetch, 1) != TDM_OK)
      fail_msg("case %zu: %s", i, tdm_last_message());
    const tdm_shape found = tdm_tensor_shape(fetch.tensor);
    assert_int_equal(found.dims[0], one->wanted[0]);
    assert_int_equal(found.dims[1], one->wanted[1]);
    tdm_tensor_release(fetch.tensor);
    tdm_tensor_release(fed_x);
    tdm_tensor_release(fed_names);
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* A name that no input has stays unknown. */
static void test_a_name_of_no_input(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_output(graph, "y",
             tdm_reshape(graph, "view", sequence(graph),
                         tdm_shape_of(3, TDM_DIM("rows"), TDM_DIM("columns"), 12)));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, 1, 3, 12));
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "y"};
  assert_int_equal(tdm_run(session, &feed, 1, &fetch, 1), TDM_INVALID_ARGUMENT);
  if (!strstr(tdm_last_message(), "no input that is fed names them"))
    fail_msg("%s", tdm_last_message());
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* Sizes that no plan can have are found when they are fed. */
static void test_sizes_that_do_not_fit(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_output(graph, "y",
             tdm_reshape(graph, "fives", sequence(graph), tdm_shape_of(2, TDM_INFER, 5)));
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *x = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, 1, 3, 12));
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "y"};
  assert_int_equal(tdm_run(session, &feed, 1, &fetch, 1), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "reshape fives: [1, 3, 12]"));
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_training_with_several_sizes),
      cmocka_unit_test(test_names_that_inputs_have),
      cmocka_unit_test(test_names_are_trained_as_sizes),
      cmocka_unit_test(test_names_that_layers_are_told),
      cmocka_unit_test(test_a_name_of_no_input),
      cmocka_unit_test(test_sizes_that_do_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
