/* An epoch over a loader has the steps of a program's own loop, and reports refused arguments. */
#include "tests/checkpoint/support.h"
#include "tests/options.h"

static const char *const inputs[] = {"x", "class", "weight"};

/* x (7, 2) with classes, in batches of 3: the last has one row. */
static tdm_loader *loader_in(tdm_context *context, int64_t batch, bool drop_last) {
  static const int64_t classes[] = {0, 1, 1, 0, 1, 0, 1};
  tdm_tensor *tensors[] = {
      tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 7, 2), 5),
      tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 7), classes)};
  tdm_dataset *dataset = tdm_dataset_from_tensors(context, inputs, tensors, 2);
  const tdm_loader_options options =
      OPTIONS(tdm_loader_options, o.batch_size = batch, o.shuffle = true, o.drop_last = drop_last);
  tdm_loader *loader = tdm_loader_create(dataset, &options);
  tdm_dataset_release(dataset);
  tdm_tensor_release(tensors[0]);
  tdm_tensor_release(tensors[1]);
  return loader;
}

static tdm_loader *loader_of(tdm_context *context) {
  return loader_in(context, 3, false);
}

static tdm_session *session_of(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, batch, 2));
  const tdm_value classes = tdm_input(graph, "class", TDM_INT64, tdm_shape_of(1, batch));
  const tdm_value scores = tdm_linear(graph, "fc", x, 2);
  tdm_output(graph, "right", tdm_accuracy(graph, "right", scores, classes));
  const tdm_optimizer sgd = tdm_sgd(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_cross_entropy(graph, "loss", scores, classes),
              o.optimizer = &sgd);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* Trains the epoch with one call per step. Returns the mean loss of its rows. */
static double loop(tdm_session *session, tdm_loader *loader, uint64_t epoch) {
  double sum = 0, loss;
  int64_t rows, total = 0;
  tdm_tensor *fields[2];
  assert_ok(tdm_loader_start(loader, epoch));
  for (;; total += rows) {
    assert_ok(tdm_loader_next(loader, fields, 2, &rows));
    if (rows == 0) return sum / (double)total;
    const tdm_feed feeds[] = {{"x", fields[0], false}, {"class", fields[1], false}};
    assert_ok(tdm_train_step(session, feeds, 2, NULL, 0, &loss));
    sum += loss * (double)rows;
    tdm_tensor_release(fields[0]);
    tdm_tensor_release(fields[1]);
  }
}

static void an_epoch_is_the_steps_of_a_loop(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_loader *loader = loader_of(context);
  tdm_session *ours = session_of(context), *wanted = session_of(context);
  for (uint64_t epoch = 1; epoch <= 3; epoch++) {
    double loss;
    assert_ok(tdm_train_epoch(ours, loader, inputs, 2, epoch, &loss));
    assert_true(loss == loop(wanted, loader, epoch));
  }
  assert_int_equal(tdm_session_step(ours), 9);
  tdm_session_release(ours);
  tdm_session_release(wanted);
  tdm_loader_release(loader);
  tdm_context_release(context);
}

/* An epoch without a batch has the mean loss 0. */
static void the_mean_loss_need_not_be_asked_for(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_session *session = session_of(context);
  tdm_loader *loader = loader_of(context), *empty = loader_in(context, 8, true);
  assert_ok(tdm_train_epoch(session, loader, inputs, 2, 1, NULL));
  assert_int_equal(tdm_session_step(session), 3);
  double loss = 1;
  assert_ok(tdm_train_epoch(session, empty, inputs, 2, 1, &loss));
  assert_true(loss == 0);
  assert_int_equal(tdm_session_step(session), 3);
  tdm_loader_release(loader);
  tdm_loader_release(empty);
  tdm_session_release(session);
  tdm_context_release(context);
}

/* Scores are x where the layer is the identity: of three rows the first two are right. */
static void accuracy_is_the_share_of_rows_that_are_right(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(2, batch, 3));
  const tdm_value classes = tdm_input(graph, "class", TDM_INT32, tdm_shape_of(1, batch));
  tdm_output(graph, "right", tdm_accuracy(graph, NULL, x, classes));
  tdm_session *session = tdm_session_create(graph, NULL);
  static const double scores[] = {1, 2, 3, 5, 4, 0, 0, 9, 1};
  static const int32_t given[] = {2, 0, 2};
  tdm_tensor *tensors[] = {tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, 3, 3), scores),
                           tdm_tensor_from(context, TDM_INT32, tdm_shape_of(1, 3), given)};
  const tdm_feed feeds[] = {{"x", tensors[0], false}, {"class", tensors[1], false}};
  tdm_tensor *right = tdm_run_output(session, feeds, 2, "right");
  assert_non_null(right);
  assert_true((float)tdm_tensor_item(right, 0) == 2.0F / 3.0F);
  tdm_tensor_release(right);
  assert_null(tdm_run_output(session, feeds, 2, "wrong"));
  assert_non_null(strstr(tdm_last_message(), "no output 'wrong'; outputs are: right"));
  tdm_tensor_release(tensors[0]);
  tdm_tensor_release(tensors[1]);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

static void what_does_not_fit_is_told(void **state) {
  (void)state;
  tdm_context *context = graph_context();
  tdm_loader *loader = loader_of(context);
  tdm_session *session = session_of(context);
  double loss = 1;
  assert_int_equal(tdm_train_epoch(session, loader, inputs, 0, 1, &loss), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "tdm_train_epoch: a session, a loader, and 1 to 8 names "
                                          "of inputs are needed");
  assert_true(loss == 0);
  assert_int_equal(tdm_train_epoch(session, loader, inputs, 3, 1, NULL), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "no input 'weight'; inputs are: x, class"));
  static const char *const turned[] = {"class", "x"};
  assert_int_equal(tdm_train_epoch(session, loader, turned, 2, 1, NULL), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "input class is int64 and was fed float32"));
  tdm_session_release(session);
  tdm_loader_release(loader);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 4, 3));
  (void)tdm_accuracy(graph, "right", x, x);
  assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_string_equal(tdm_last_message(), "accuracy right: classes are float32 [4, 3], and must be "
                                          "int32 or int64, one a row [4]");
  tdm_graph_release(graph);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_epoch_is_the_steps_of_a_loop),
      cmocka_unit_test(the_mean_loss_need_not_be_asked_for),
      cmocka_unit_test(accuracy_is_the_share_of_rows_that_are_right),
      cmocka_unit_test(what_does_not_fit_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
