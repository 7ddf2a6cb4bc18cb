/* Layers of an evaluation scope in runs that train: they drop nothing, normalize by running
 * statistics and leave these as they are; in replicas and micro-batches as well, and where a
 * gradient flows back through them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/group.h"
#include "tests/options.h"

enum { LENGTH = 4, ROWS = 8, WIDTH = 6 };

/* Every layer that computes otherwise in training: dropout, batch normalization, a recurrent layer
 * and attention that drop. x (length, batch, width) -> the same. */
static tdm_value layers(tdm_graph *graph, tdm_value x) {
  const tdm_rnn_options drops = OPTIONS(tdm_rnn_options, o.layers = 2, o.dropout = 0.5);
  const tdm_value y =
      tdm_gru(graph, "gru", tdm_dropout(graph, "drop", x, 0.5), WIDTH, &drops, NULL);
  const tdm_value attended = tdm_transformer_encoder_layer(
      graph, "block", y, 2, WITH(tdm_transformer_options, o.feedforward = 8, o.dropout = 0.5));
  const tdm_value rows = tdm_transpose(graph, "rows", attended, 0, 1);
  const tdm_value channels = tdm_transpose(graph, "channels", rows, 1, 2);
  const tdm_value normal = tdm_batch_norm(graph, "norm", channels);
  return tdm_transpose(graph, "steps", tdm_transpose(graph, "features", normal, 1, 2), 0, 1);
}

/* "y": the teacher's result. "slope": the gradient of the loss in x, through the teacher unless
 * detached. The student is linear. */
static tdm_graph *build(bool evaluates, bool detached, const char *devices, tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, LENGTH, TDM_DIM("batch"), WIDTH));
  tdm_scope_push(graph, "teacher");
  tdm_scope_evaluate(graph, evaluates);
  tdm_value y = layers(graph, x);
  tdm_scope_pop(graph);
  tdm_output(graph, "y", y);
  if (detached) y = tdm_detach(graph, "numbers", y);
  tdm_scope_push(graph, "student");
  const tdm_value own = tdm_linear(graph, "fc", detached ? x : y, WIDTH);
  tdm_scope_pop(graph);
  *out_loss = tdm_mse(graph, "loss", own, detached ? y : x);
  if (!detached) tdm_output(graph, "slope", tdm_gradient_of(graph, "slope", *out_loss, x));
  const tdm_scatter scatter = {x, 1};
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = devices, o.scatter = &scatter, o.scatter_count = 1);
  if (devices) tdm_data_parallel(graph, "teacher,student", &options);
  return graph;
}

static tdm_session *session_of(tdm_graph *graph, tdm_value loss, int micro_batches) {
  const tdm_optimizer still = tdm_sgd(0);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &still, o.seed = 5,
              o.batch_dimension = "batch", o.micro_batches = micro_batches);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

/* Fetches one output of a run on the same numbers each time. */
static tdm_tensor *fetch(tdm_session *session, const char *name, bool trains) {
  tdm_tensor *x =
      tdm_tensor_randn(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, LENGTH, ROWS, WIDTH), 3);
  const tdm_feed feed = {"x", x, false};
  tdm_fetch wanted = {.name = name};
  const tdm_status status = trains ? tdm_train_step(session, &feed, 1, &wanted, 1, NULL)
                                   : tdm_run(session, &feed, 1, &wanted, 1);
  if (status != TDM_OK) fail_msg("%s", tdm_last_message());
  tdm_tensor_release(x);
  return wanted.tensor;
}

/* Returns the largest difference of two tensors of LENGTH ROWS WIDTH elements. */
static double apart(const tdm_tensor *a, const tdm_tensor *b) {
  const float *of_a = tdm_tensor_data(a), *of_b = tdm_tensor_data(b);
  double most = 0;
  for (int i = 0; i < LENGTH * ROWS * WIDTH; i++)
    most = fmax(most, fabs((double)of_a[i] - (double)of_b[i]));
  return most;
}

static int64_t batches_of(tdm_session *session, float *out_mean) {
  tdm_tensor_list *state;
  assert_int_equal(tdm_session_save(session, &state), TDM_OK);
  int64_t batches = -1;
  float means[WIDTH];
  const tdm_tensor *counted = tdm_tensor_list_find(state, "teacher/norm.num_batches_tracked");
  const tdm_tensor *mean = tdm_tensor_list_find(state, "teacher/norm.running_mean");
  assert_int_equal(tdm_tensor_read(counted, &batches, sizeof batches), TDM_OK);
  assert_int_equal(tdm_tensor_read(mean, means, sizeof means), TDM_OK);
  *out_mean = means[0];
  tdm_tensor_list_release(state);
  return batches;
}

/* Trains. The teacher's result equals that of a run without training, and its kept values do not
 * change. */
static void expect_frozen(const char *devices, int micro_batches, bool detached) {
  tdm_value loss;
  float mean;
  tdm_graph *graph = build(true, detached, devices, &loss);
  tdm_session *session = session_of(graph, loss, micro_batches);
  tdm_tensor *evaluated = fetch(session, "y", false);
  for (int step = 0; step < 2; step++) {
    tdm_tensor *trained = fetch(session, "y", true);
    assert_true(apart(trained, evaluated) <= 1e-6);
    tdm_tensor_release(trained);
  }
  assert_int_equal(batches_of(session, &mean), 0);
  assert_true(mean == 0);
  tdm_tensor_release(evaluated);
  tdm_session_release(session);
}

static void a_frozen_teacher_computes_as_in_evaluation(void **unused) {
  (void)unused;
  static const char *const devices[] = {NULL, "cpu:0,cpu:0"};
  static const int micro_batches[] = {1, 2};
  for (int d = 0; d < 2; d++)
    for (int m = 0; m < 2; m++) {
      expect_frozen(devices[d], micro_batches[m], true);
      if (!devices[d] && micro_batches[m] == 1) expect_frozen(NULL, 1, false);
    }
}

/* Outside of an evaluation scope, the same layers drop elements and count batches. */
static void layers_outside_train(void **unused) {
  (void)unused;
  tdm_value loss;
  float mean;
  tdm_graph *graph = build(false, true, NULL, &loss);
  tdm_session *session = session_of(graph, loss, 1);
  tdm_tensor *evaluated = fetch(session, "y", false), *trained = fetch(session, "y", true);
  assert_true(apart(trained, evaluated) > 0.01);
  assert_int_equal(batches_of(session, &mean), 1);
  assert_true(mean != 0);
  tdm_tensor_release(evaluated);
  tdm_tensor_release(trained);
  tdm_session_release(session);
}

/* A perceptual loss: the gradient goes back through the teacher as in a run that does not train. */
static void gradients_flow_through_the_scope(void **unused) {
  (void)unused;
  tdm_value loss;
  tdm_graph *graph = build(true, false, NULL, &loss);
  tdm_session *session = session_of(graph, loss, 1);
  tdm_tensor *evaluated = fetch(session, "slope", false);
  tdm_tensor *trained = fetch(session, "slope", true);
  assert_true(apart(trained, evaluated) <= 1e-7);
  tdm_tensor *zeros =
      tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(3, LENGTH, ROWS, WIDTH));
  assert_true(apart(trained, zeros) > 1e-4);
  tdm_tensor_release(zeros);
  tdm_tensor_release(evaluated);
  tdm_tensor_release(trained);
  tdm_session_release(session);
}

/* A scope inherits the mode, and may leave it; its end ends it. */
static void the_mode_is_the_scope_s(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, LENGTH, TDM_DIM("batch"), WIDTH));
  tdm_value kept[3];
  tdm_scope_push(graph, "outer");
  tdm_scope_evaluate(graph, true);
  tdm_scope_push(graph, "inner");
  kept[0] = tdm_dropout(graph, "inherits", x, 0.5);
  tdm_scope_evaluate(graph, false);
  kept[1] = tdm_dropout(graph, "leaves", x, 0.5);
  tdm_scope_pop(graph);
  kept[2] = tdm_dropout(graph, "again", x, 0.5);
  tdm_scope_pop(graph);
  const tdm_value behind = tdm_dropout(graph, "behind", x, 0.5);
  static const char *const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++)
    tdm_output(graph, names[i], kept[i]);
  tdm_output(graph, "d", behind);
  const tdm_value loss = tdm_mse(graph, "loss", tdm_linear(graph, "fc", x, WIDTH), x);
  tdm_session *session = session_of(graph, loss, 1);
  tdm_tensor *fed = fetch(session, "a", false);
  static const struct {
    const char *name;
    bool drops;
  } wanted[] = {{"a", false}, {"b", true}, {"c", false}, {"d", true}};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    tdm_tensor *trained = fetch(session, wanted[i].name, true);
    assert_int_equal(apart(trained, fed) > 0, wanted[i].drops);
    tdm_tensor_release(trained);
  }
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_frozen_teacher_computes_as_in_evaluation),
      cmocka_unit_test(layers_outside_train),
      cmocka_unit_test(gradients_flow_through_the_scope),
      cmocka_unit_test(the_mode_is_the_scope_s),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
