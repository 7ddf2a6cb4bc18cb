/* Users' invalid records, rules and kernels: INVALID_ARGUMENT, with a message that names the
 * operation and the error. No memory out of range is read or written. */
#include "tests/graph/group.h"
#include "tests/options.h"

enum { ROWS = 4, WIDTH = 3 };

/* ---- Functions ------------------------------------------------------------------------------- */

static tdm_status infer_like_first(tdm_infer *infer) {
  for (size_t i = 0; i < infer->output_count; i++)
    infer->outputs[i] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status infer_wider(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].shape.dims[1] = 10 * WIDTH;
  return TDM_OK;
}

static tdm_status infer_narrower(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].shape.dims[1] = 1;
  return TDM_OK;
}

static tdm_status infer_no_dtype(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  infer->outputs[0].dtype = TDM_DTYPE_COUNT;
  return TDM_OK;
}

static tdm_status execute_nothing(const tdm_kernel_call *call) {
  (void)call;
  return TDM_OK;
}

static tdm_status prepare_few_bytes(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  (void)request;
  answer->output_bytes[0] = 4;
  return TDM_OK;
}

static tdm_status pass_on(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

static tdm_status declare_an_input(tdm_gradient *gradient) {
  (void)tdm_input(tdm_gradient_graph(gradient), "more", TDM_FLOAT32, tdm_shape_of(1, WIDTH));
  return pass_on(gradient);
}

static tdm_value elsewhere; /* a value of the graph that is described */

static tdm_status tell_another_graphs(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, elsewhere);
  return TDM_OK;
}

static tdm_status tell_narrower(tdm_gradient *gradient);

/* Sets valid rows, and another part of the gradient that is not valid. */
static tdm_status tell_another_graphs_indices(tdm_gradient *gradient) {
  tdm_gradient_set_sparse(gradient, 0, tdm_gradient_of_output(gradient, 0), elsewhere, elsewhere);
  return TDM_OK;
}

static tdm_status tell_floating_indices(tdm_gradient *gradient) {
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set_sparse(gradient, 0, d_y, d_y, d_y);
  return TDM_OK;
}

static tdm_status say_nothing(tdm_chunked *chunked) {
  (void)chunked;
  return TDM_OK;
}

static tdm_status cut_in_no_stretches(tdm_chunked *chunked) {
  const tdm_status status = tdm_chunked_each(chunked, NULL);
  tdm_chunked_set_cut(chunked, 0, (tdm_cut){.dimension = 0});
  return status;
}

static tdm_status cut_a_ninth_dimension(tdm_chunked *chunked) {
  const tdm_status status = tdm_chunked_each(chunked, NULL);
  tdm_chunked_set_cut(chunked, 0, (tdm_cut){9, 1});
  return status;
}

static tdm_status set_another_graphs(tdm_chunked *chunked) {
  tdm_chunked_set_whole(chunked, 0, elsewhere);
  return TDM_OK;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* A record that reads this many inputs, at most two. Its other fields follow. */
#define RECORD_OF(inputs, outputs, rule, ...)                                                      \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = "mine", .min_inputs = inputs,                    \
    .max_inputs = inputs > 1 ? 2 : 1, .output_count = outputs, .infer = rule, __VA_ARGS__          \
  }
#define RECORD(...) RECORD_OF(1, 1, infer_like_first, __VA_ARGS__)

typedef struct attributes {
  int64_t numbers[4];
} attributes;

static const tdm_operation narrower = RECORD_OF(1, 1, infer_narrower, .gradient = NULL);
static const tdm_operation one_output = RECORD(.gradient = pass_on);
static const tdm_operation more_attributes = RECORD(.attribute_bytes = 8 * sizeof(attributes));
static const tdm_operation more_inputs = RECORD_OF(2, 1, infer_like_first, .gradient = NULL);

static tdm_status tell_narrower(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  const char *name = tdm_gradient_name(gradient);
  tdm_gradient_set(gradient, 0, tdm_append(graph, &narrower, name, NULL, &d_y, 1, NULL));
  return tdm_graph_status(graph);
}

typedef struct mistake {
  const char *message;
  bool trains;
  int micro_batches;
  tdm_operation operation;
} mistake;

static const mistake mistakes[] = {
    {"mine layer: its struct_size", .operation = {.name = "mine",
                                                  .min_inputs = 1,
                                                  .max_inputs = 1,
                                                  .output_count = 1,
                                                  .infer = infer_like_first}},
    {"mine layer: it overwrites an input that it does not take",
     .operation = RECORD(.overwrites = {9})},
    {"mine layer: it overwrites its input 0", .operation = RECORD(.overwrites = {1})},
    {"mine layer: it overwrites, and is a view",
     .operation = RECORD(.overwrites = {1}, .is_view = true)},
    {"mine layer: it is a view, perhaps of nothing",
     .operation = RECORD_OF(0, 1, infer_like_first, .is_view = true)},
    {"mine layer: it is a view of 48 bytes, and its shape rule says 480",
     .operation = RECORD_OF(1, 1, infer_wider, .is_view = true)},
    {"mine layer: its shape rule set no shape for output 0",
     .operation = RECORD_OF(1, 1, infer_no_dtype, .gradient = NULL)},
    {"mine layer: its chunk_at is not within its attributes",
     .operation = RECORD(.attribute_bytes = sizeof(attributes), .chunk_at = 4000)},
    {"mine layer: its replacement has other attributes",
     .operation = RECORD(.attribute_bytes = sizeof(attributes), .when_training = &more_attributes)},
    {"mine layer: its replacement takes other inputs",
     .operation = RECORD(.when_differentiated = &more_inputs)},
    {"mine layer: its replacement has 1 outputs, expected 2", .trains = true,
     .operation = RECORD_OF(1, 2, infer_like_first, .when_training = &one_output)},
    {"mine layer: the operation of its gradient has attributes that it does not have",
     .operation =
         RECORD(.attribute_bytes = sizeof(attributes), .gradient_operation = &more_attributes)},
    {"more: a rule of an operation only appends nodes", .trains = true,
     .operation = RECORD(.gradient = declare_an_input)},
    {"gradient of mine layer: what the rule returns for input 0 is float32 [batch, 1]",
     .trains = true, .operation = RECORD(.gradient = tell_narrower)},
    {"gradient of mine layer: what the rule returns for input 0 is a value of another graph",
     .trains = true, .operation = RECORD(.gradient = tell_another_graphs)},
    {"gradient of mine layer: what the rule returns for input 0, the indices of rows, is a value "
     "of another "
     "graph",
     .trains = true, .operation = RECORD(.gradient = tell_another_graphs_indices)},
    {"gradient of mine layer: what the rule returns for input 0, the indices of rows, is float32 "
     "[batch, 3]",
     .trains = true, .operation = RECORD(.gradient = tell_floating_indices)},
    {"layer: its rule `chunk` neither computes output 0", .micro_batches = 2,
     .operation = RECORD(.chunk = say_nothing)},
    {"layer: its rule `chunk` cuts output 0, of 2 dimensions, along dimension 0 in 0 stretches",
     .micro_batches = 2, .operation = RECORD(.chunk = cut_in_no_stretches)},
    {"layer: its rule `chunk` cuts output 0, of 2 dimensions, along dimension 9",
     .micro_batches = 2, .operation = RECORD(.chunk = cut_a_ninth_dimension)},
    {"layer: what its rule `chunk` sets as the whole of output 0", .micro_batches = 2,
     .operation = RECORD(.chunk = set_another_graphs)},
};

/* Describes a model with the operation, makes its session and runs it; the first failure. */
static tdm_status use(const mistake *of) {
  static const attributes zeros;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value fed = of->operation.is_view
                            ? tdm_input(graph, "four", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH))
                            : tdm_linear(graph, "before", x, WIDTH);
  elsewhere = x;
  const tdm_value y = tdm_append(graph, &of->operation, "layer", &zeros, &fed, 1, NULL);
  tdm_output(graph, "y", tdm_mul_scalar(graph, "behind", y, 2));
  const tdm_optimizer sgd = tdm_sgd(1);
  tdm_session_options options =
      OPTIONS(tdm_session_options, o.micro_batches = OR_ONE(of->micro_batches));
  if (of->trains) {
    options.loss = tdm_sum(graph, "loss", y, NULL, 0, false);
    options.optimizer = &sgd;
  }
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_status status = session ? TDM_OK : tdm_last_status();
  tdm_tensor *rows = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  const tdm_feed feed = {"x", rows, false};
  tdm_fetch fetch = {"y", NULL};
  if (session && of->trains)
    status = tdm_train_step(session, &feed, 1, NULL, 0, NULL);
  else if (session)
    status = tdm_run(session, &feed, 1, &fetch, 1);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(rows);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return status;
}

static void what_cannot_be_is_named(void **unused) {
  (void)unused;
  static const tdm_kernel kernel = {.struct_size = sizeof(tdm_kernel),
                                    .operation = "mine",
                                    .executes = "cpu",
                                    .dtype = TDM_FLOAT32,
                                    .execute = execute_nothing};
  assert_ok(tdm_kernel_register(context, &kernel));
  for (size_t i = 0; i < TDM_COUNT_OF(mistakes); i++) {
    const tdm_status status = use(&mistakes[i]);
    if (status != TDM_INVALID_ARGUMENT || !strstr(tdm_last_message(), mistakes[i].message))
      fail_msg("instead of '%s': %s, %s", mistakes[i].message, tdm_status_name(status),
               status == TDM_OK ? "" : tdm_last_message());
  }
}

/* ---- Rules that overwrite -------------------------------------------------------------------- */

static const tdm_operation in_place_by_rule = RECORD(.overwrites = {1});

static void overwrite(tdm_graph *graph, const char *name, tdm_value parameter) {
  tdm_append(graph, &in_place_by_rule, name, NULL, &parameter, 1, NULL);
}

static tdm_status overwrite_going_back(tdm_gradient *gradient) {
  overwrite(tdm_gradient_graph(gradient), tdm_gradient_name(gradient),
            tdm_gradient_input(gradient, 1));
  return pass_on(gradient);
}

static tdm_status overwrite_in_parts(tdm_chunked *chunked) {
  overwrite(tdm_chunked_graph(chunked), tdm_chunked_name(chunked),
            tdm_chunked_input(chunked, 1, 0));
  return tdm_chunked_each(chunked, NULL);
}

static void what_goes_back_or_cuts_overwrites_nothing(void **unused) {
  (void)unused;
  static const tdm_operation operations[] = {
      RECORD_OF(2, 1, infer_like_first, .gradient = overwrite_going_back),
      RECORD_OF(2, 1, infer_like_first, .gradient = pass_on, .chunk = overwrite_in_parts)};
  for (size_t i = 0; i < TDM_COUNT_OF(operations); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x =
        tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
    const tdm_value w = tdm_parameter(graph, "w", TDM_FLOAT32, tdm_shape_of(1, WIDTH), NULL);
    const tdm_value operands[] = {tdm_linear(graph, "before", x, WIDTH), w};
    const tdm_value y = tdm_append(graph, &operations[i], "layer", NULL, operands, 2, NULL);
    const tdm_optimizer sgd = tdm_sgd(1);
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.micro_batches = 2,
                o.loss = tdm_sum(graph, "loss", y, NULL, 0, false), o.optimizer = &sgd);
    tdm_session *session = tdm_session_create(graph, &options);
    tdm_status status = session ? TDM_OK : tdm_last_status();
    tdm_tensor *rows = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
    const tdm_feed feed = {"x", rows, false};
    if (session) status = tdm_train_step(session, &feed, 1, NULL, 0, NULL);
    if (status != TDM_INVALID_ARGUMENT || !strstr(tdm_last_message(), "overwrites its input 0"))
      fail_msg("%zu: %s, %s", i, tdm_status_name(status), tdm_last_message());
    tdm_tensor_release(rows);
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
}

static void a_parameter_is_overwritten_by_rules_alone(void **unused) {
  (void)unused;
  static const tdm_operation in_place = RECORD(.overwrites = {1});
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value w = tdm_parameter(graph, "w", TDM_FLOAT32, tdm_shape_of(1, WIDTH), NULL);
  tdm_output(graph, "y", tdm_append(graph, &in_place, "layer", NULL, &w, 1, NULL));
  assert_null(tdm_session_create(graph, NULL));
  assert_int_equal(tdm_last_status(), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "mine layer: it overwrites its input 0"));
  tdm_graph_release(graph);
}

static tdm_status append_narrower(tdm_update *update) {
  static const tdm_operation narrower_in_place = RECORD_OF(2, 1, infer_narrower, .overwrites = {1});
  const tdm_value operands[] = {tdm_update_parameter(update, 0), tdm_update_gradient(update, 0)};
  tdm_append(tdm_update_graph(update), &narrower_in_place, tdm_update_name(update, 0), NULL,
             operands, 2, NULL);
  return tdm_graph_status(tdm_update_graph(update));
}

/* A value that is written to a parameter has its shape. */
static void what_overwrites_fits(void **unused) {
  (void)unused;
  static const tdm_optimizer_rule rule = {.name = "narrowing", .append = append_narrower};
  tdm_optimizer optimizer = tdm_sgd(0.1);
  optimizer.rule = &rule;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), WIDTH));
  const tdm_value y = tdm_linear_without_bias(graph, "fc", x, WIDTH);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_sum(graph, "loss", y, NULL, 0, false),
              o.optimizer = &optimizer);
  assert_null(tdm_session_create(graph, &options));
  assert_int_equal(tdm_last_status(), TDM_INVALID_ARGUMENT);
  assert_message("mine fc.weight: output 0 overwrites input 0, and is not of its dtype and shape");
  tdm_graph_release(graph);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static int released;

static void count_release(void *state) {
  (void)state;
  released++;
}

static void dense_outputs_have_the_bytes_of_their_shape(void **unused) {
  (void)unused;
  static const tdm_kernel kernel = {.struct_size = sizeof(tdm_kernel),
                                    .operation = "few_bytes",
                                    .executes = "cpu",
                                    .dtype = TDM_FLOAT32,
                                    .prepare = prepare_few_bytes,
                                    .execute = execute_nothing,
                                    .release = count_release};
  const mistake few_bytes = {.operation = {.struct_size = sizeof(tdm_operation),
                                           .name = "few_bytes",
                                           .min_inputs = 1,
                                           .max_inputs = 1,
                                           .output_count = 1,
                                           .infer = infer_like_first}};
  assert_ok(tdm_kernel_register(context, &kernel));
  assert_int_equal(use(&few_bytes), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "few_bytes layer on cpu:0: its kernel answers 4 "
                                             "bytes for output 0, which is dense and has 48"));
  assert_int_equal(released, 1);
}

static int prepared;

static tdm_status count_prepare(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  (void)request;
  (void)answer;
  prepared++;
  return TDM_OK;
}

/* For one dtype and shape a kernel is prepared once for all nodes and plans, which share it until
 * the last of them is released. */
static void nodes_alike_share_what_is_prepared(void **unused) {
  (void)unused;
  static const tdm_kernel kernel = {.struct_size = sizeof(tdm_kernel),
                                    .operation = "shared",
                                    .executes = "cpu",
                                    .dtype = TDM_FLOAT32,
                                    .prepare = count_prepare,
                                    .execute = execute_nothing,
                                    .release = count_release};
  static const tdm_operation shared = {.struct_size = sizeof(tdm_operation),
                                       .name = "shared",
                                       .min_inputs = 1,
                                       .max_inputs = 1,
                                       .output_count = 1,
                                       .infer = infer_like_first};
  assert_ok(tdm_kernel_register(context, &kernel));
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim n = TDM_DIM("n");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, n, WIDTH));
  const tdm_value z = tdm_input(graph, "z", TDM_FLOAT32, tdm_shape_of(2, n, WIDTH));
  tdm_output(graph, "x", tdm_append(graph, &shared, "of_x", NULL, &x, 1, NULL));
  tdm_output(graph, "z", tdm_append(graph, &shared, "of_z", NULL, &z, 1, NULL));
  tdm_session *session = run_session(graph, NULL);
  prepared = released = 0;
  for (int64_t rows = 3; rows < 5; rows++) {
    tdm_tensor *fed = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, rows, WIDTH));
    const tdm_feed feeds[] = {{"x", fed, false}, {"z", fed, false}};
    tdm_fetch fetches[] = {{"x", NULL}, {"z", NULL}};
    assert_ok(tdm_session_prepare(session, feeds, 1, fetches, 1, false));
    assert_ok(tdm_session_prepare(session, feeds, 2, fetches, 2, false));
    assert_int_equal(prepared, rows - 2);
    tdm_tensor_release(fed);
  }
  assert_int_equal(released, 0);
  tdm_session_release(session);
  assert_int_equal(released, 2);
}

static tdm_status execute_no_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  (void)call;
  (void)begin;
  (void)end;
  return TDM_OK;
}

static void what_the_library_alone_may_say_is_refused(void **unused) {
  (void)unused;
  tdm_kernel kernel = {.struct_size = sizeof kernel,
                       .operation = "with_element",
                       .executes = "cpu",
                       .dtype = TDM_FLOAT32,
                       .execute = execute_nothing,
                       .element = 5};
  assert_int_equal(tdm_kernel_register(context, &kernel), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "with_element has the element 5"));
  kernel.element = 0;
  kernel.executes = "cuda";
  kernel.execute_part = execute_no_part;
  assert_int_equal(tdm_kernel_register(context, &kernel), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "with_element has execute_part"));
}

/* ---- Rules of optimizers --------------------------------------------------------------------- */

static tdm_status append_nothing(tdm_update *update) {
  (void)update;
  return TDM_OK;
}

static void a_rule_that_lacks_something_is_named(void **unused) {
  (void)unused;
  static const struct {
    const char *message;
    tdm_optimizer_rule rule;
  } rules[] = {
      {"the optimizer's rule  has no name", {.append = append_nothing}},
      {"the optimizer's rule mine has no append", {.name = "mine"}},
      {"the optimizer's rule mine has no setting that its momentum would be",
       {.name = "mine", .append = append_nothing, .momentum = 9}},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(rules); i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value w = tdm_parameter(graph, "w", TDM_FLOAT32, tdm_shape_of(1, WIDTH), NULL);
    const tdm_optimizer optimizer =
        OPTIONS(tdm_optimizer, o.rule = &rules[i].rule, o.learning_rate = 1);
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.loss = tdm_sum(graph, "loss", w, NULL, 0, false),
                o.optimizer = &optimizer);
    assert_null(tdm_session_create(graph, &options));
    if (!strstr(tdm_last_message(), rules[i].message))
      fail_msg("instead of '%s': %s", rules[i].message, tdm_last_message());
    tdm_graph_release(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rule_that_lacks_something_is_named),
      cmocka_unit_test(what_cannot_be_is_named),
      cmocka_unit_test(what_goes_back_or_cuts_overwrites_nothing),
      cmocka_unit_test(a_parameter_is_overwritten_by_rules_alone),
      cmocka_unit_test(what_overwrites_fits),
      cmocka_unit_test(dense_outputs_have_the_bytes_of_their_shape),
      cmocka_unit_test(nodes_alike_share_what_is_prepared),
      cmocka_unit_test(what_the_library_alone_may_say_is_refused),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
