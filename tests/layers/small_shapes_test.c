/* Layers of scalars and of values without elements, as PyTorch's own samples have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tandem/tandem.h"
#include "tests/options.h"

#ifndef TEST_KIND
#define TEST_KIND "sim"
#endif

/* y of x, which is all ones, of that shape; trained for a step where the loss is valid. */
static tdm_tensor *answer(tdm_context *context, tdm_graph *graph, tdm_shape shape, tdm_value y,
                          tdm_value loss) {
  const tdm_optimizer sgd = tdm_sgd(1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.device_map = "*=" TEST_KIND ":0",
              o.optimizer = tdm_value_is_valid(loss) ? &sgd : NULL);
  tdm_output(graph, "y", y);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  const tdm_feed feed = {"x", tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, shape), false};
  tdm_fetch fetch = {"y", NULL};
  if (tdm_run(session, &feed, 1, &fetch, 1) != TDM_OK) fail_msg("%s", tdm_last_message());
  if (tdm_value_is_valid(loss) && tdm_train_step(session, &feed, 1, NULL, 0, NULL) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  tdm_tensor_release(feed.tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return fetch.tensor;
}

static void assert_shape(tdm_tensor *tensor, tdm_shape wanted) {
  const tdm_shape shape = tdm_tensor_shape(tensor);
  assert_true(tdm_shape_equal(&shape, &wanted));
  tdm_tensor_release(tensor);
}

static void a_slope_of_a_scalar_is_one(void **state) {
  tdm_graph *graph = tdm_graph_create(*state);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_scalar());
  const tdm_value y = tdm_prelu(graph, "prelu", x, 1);
  assert_shape(answer(*state, graph, tdm_shape_scalar(), y, y), tdm_shape_scalar());
}

/* No rows of 2^36 columns: kernels that went through the columns would take minutes each. */
static void long_rows_of_which_there_are_none_take_no_time(void **state) {
  static const int first = 0, last = 1;
  const int64_t columns = (int64_t)1 << 36;
  const tdm_shape shape = tdm_shape_of(2, 0, columns), turned = tdm_shape_of(2, columns, 0);
  tdm_graph *graph = tdm_graph_create(*state);
  tdm_value y = tdm_input(graph, "x", TDM_FLOAT32, shape);
  y = tdm_softmax(graph, "softmax", tdm_relu(graph, "relu", y), 1);
  y = tdm_cumsum(graph, "cumsum", tdm_flip(graph, "flip", y, &last, 1), 1);
  y = tdm_transpose(graph, "turned", tdm_cumsum(graph, "down", y, 0), 0, 1);
  y = tdm_mul(graph, "square", y, tdm_flip(graph, "flip again", y, &first, 1));
  assert_shape(answer(*state, graph, shape, y, (tdm_value){0, 0}), turned);
  graph = tdm_graph_create(*state);
  y = tdm_relu(graph, "relu", tdm_input(graph, "x", TDM_FLOAT32, shape));
  y = tdm_sum(graph, "sum", y, &last, 1, false);
  assert_shape(answer(*state, graph, shape, y, (tdm_value){0, 0}), tdm_shape_of(1, 0));
}

/* x (5, 0) times a parameter (0, 3) is zeros, and its gradient is empty. */
static void products_over_nothing_are_trained(void **state) {
  tdm_graph *graph = tdm_graph_create(*state);
  const tdm_shape shape = tdm_shape_of(2, 5, 0);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value weight = tdm_parameter(graph, "weight", TDM_FLOAT32, tdm_shape_of(2, 0, 3), NULL);
  const tdm_value y = tdm_matmul(graph, "y", x, weight);
  const tdm_value loss = tdm_sum(graph, "loss", y, NULL, 0, false);
  assert_shape(answer(*state, graph, shape, y, loss), tdm_shape_of(2, 5, 3));
}

/* A batch without rows, whose size has a name or is 0 from the beginning. */
static void no_images_are_flattened(void **state) {
  const tdm_shape shape = tdm_shape_of(4, 0, 2, 3, 4);
  for (int named = 0; named < 2; named++) {
    tdm_graph *graph = tdm_graph_create(*state);
    const tdm_dim batch = named ? TDM_DIM("batch") : 0;
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(4, batch, 2, 3, 4));
    const tdm_value y = tdm_linear(graph, "fc", tdm_flatten(graph, "flat", x, 1, 3), 5);
    const tdm_value loss = tdm_sum(graph, "loss", y, NULL, 0, false);
    assert_shape(answer(*state, graph, shape, y, loss), tdm_shape_of(2, 0, 5));
    graph = tdm_graph_create(*state);
    const tdm_value again = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(4, batch, 2, 3, 4));
    const tdm_value seen = tdm_reshape(graph, "seen", again, tdm_shape_of(3, batch, TDM_INFER, 4));
    assert_shape(answer(*state, graph, shape, seen, (tdm_value){0, 0}), tdm_shape_of(3, 0, 6, 4));
  }
}

/* Pixels of no images are judged: their losses add up to 0. */
static void losses_of_no_images_add_up_to_nothing(void **state) {
  tdm_graph *graph = tdm_graph_create(*state);
  const tdm_shape shape = tdm_shape_of(4, 0, 5, 2, 3);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_loss_options summed = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_SUM);
  const tdm_value target = tdm_argmax(graph, "target", x, 1, false);
  const tdm_value y = tdm_cross_entropy_with(graph, "y", x, target, &summed);
  tdm_tensor *loss = answer(*state, graph, shape, y, (tdm_value){0, 0});
  assert_true(tdm_tensor_item(loss, 0) == 0);
  tdm_tensor_release(loss);
}

static void neighbours_of_no_images_are_none(void **state) {
  tdm_graph *graph = tdm_graph_create(*state);
  const tdm_shape shape = tdm_shape_of(3, 0, 3, 2);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value y = tdm_local_response_norm(graph, "norm", x, 3, 1e-4, 0.75, 1);
  assert_shape(answer(*state, graph, shape, y, (tdm_value){0, 0}), shape);
}

/* x (2, 2) of ones: half of 1 / variance, where the variance (2) is 1 and 2, a row each. */
static void a_variance_may_be_of_each_row(void **state) {
  tdm_graph *graph = tdm_graph_create(*state);
  const tdm_shape shape = tdm_shape_of(2, 2, 2);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value none = tdm_mul_scalar(graph, "none", x, 0);
  const tdm_value variance = tdm_arange(graph, "variance", TDM_FLOAT32, 1, 3, 1);
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_NONE);
  const tdm_value y = tdm_gaussian_nll_with(graph, "y", x, none, variance, &options);
  tdm_tensor *found = answer(*state, graph, shape, y, (tdm_value){0, 0});
  const float *losses = tdm_tensor_data(found);
  const double wanted[] = {0.5, 0.5, 0.59657359, 0.59657359};
  for (int i = 0; i < 4; i++)
    assert_true(fabs((double)losses[i] - wanted[i]) < 1e-6);
  tdm_tensor_release(found);
}

/* Beyond a matrix, and of one without elements, a diagonal is empty, and its sum 0. */
static void diagonals_beyond_are_empty(void **state) {
  static const int64_t offsets[] = {3, -2, INT64_MAX, INT64_MIN};
  const tdm_value none = {0, 0};
  const tdm_shape matrix = tdm_shape_of(2, 2, 3), empty = tdm_shape_of(2, 0, 0);
  for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
    tdm_graph *graph = tdm_graph_create(*state);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, matrix);
    const tdm_value weight = tdm_parameter(graph, "weight", TDM_FLOAT32, matrix, NULL);
    const tdm_value y = tdm_diagonal(graph, "y", tdm_mul(graph, "m", x, weight), offsets[i], 0, 1);
    const tdm_value loss = tdm_sum(graph, "loss", y, NULL, 0, false);
    assert_shape(answer(*state, graph, matrix, y, loss), tdm_shape_of(1, 0));
  }
  for (int by_equation = 0; by_equation < 2; by_equation++) {
    tdm_graph *graph = tdm_graph_create(*state);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, empty);
    const tdm_value y =
        by_equation ? tdm_einsum(graph, "y", "ii", &x, 1) : tdm_diagonal_sum(graph, "y", x);
    tdm_tensor *sum = answer(*state, graph, empty, y, none);
    assert_true(tdm_tensor_item(sum, 0) == 0);
    assert_shape(sum, tdm_shape_scalar());
  }
}

/* A weight (1, 3) is repeated to no rows, or zero times along either dimension. Its gradient is
 * zeros. */
static void what_is_repeated_never_is_empty(void **state) {
  static const int64_t times[][3] = {{0, 1, 1}, {1, 0, 2}, {2, 3, 0}};
  const tdm_shape scalar = tdm_shape_scalar(), row = tdm_shape_of(2, 1, 3);
  for (size_t i = 0; i <= sizeof times / sizeof times[0]; i++) {
    tdm_graph *graph = tdm_graph_create(*state);
    (void)tdm_input(graph, "x", TDM_FLOAT32, scalar);
    const tdm_value weight = tdm_parameter(graph, "weight", TDM_FLOAT32, row, NULL);
    const bool expands = i == sizeof times / sizeof times[0];
    const tdm_value y = expands ? tdm_expand(graph, "y", weight, tdm_shape_of(3, 2, 0, 3))
                                : tdm_repeat(graph, "y", weight, times[i], 3);
    const tdm_value loss = tdm_sum(graph, "loss", y, NULL, 0, false);
    tdm_output(graph, "gradient", tdm_gradient_of(graph, "g", loss, weight));
    const tdm_shape wanted = expands ? tdm_shape_of(3, 2, 0, 3)
                                     : tdm_shape_of(3, times[i][0], times[i][1], 3 * times[i][2]);
    assert_shape(answer(*state, graph, scalar, y, loss), wanted);
  }
}

/* Checks expansion to a size of 0: the size of another value without rows, and a requested 0. */
static void nothing_may_be_repeated_to(void **state) {
  tdm_graph *graph = tdm_graph_create(*state);
  const tdm_shape shape = tdm_shape_of(2, 0, 3);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("rows"), 3));
  const tdm_value weight = tdm_parameter(graph, "weight", TDM_FLOAT32, tdm_shape_of(1, 3), NULL);
  const tdm_value y = tdm_expand_as(graph, "y", weight, x);
  const tdm_value loss = tdm_sum(graph, "loss", y, NULL, 0, false);
  assert_shape(answer(*state, graph, shape, y, loss), shape);
  graph = tdm_graph_create(*state);
  const tdm_value named = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("rows"), 3));
  const tdm_value none = tdm_expand(graph, "y", named, shape);
  assert_shape(answer(*state, graph, shape, none, (tdm_value){0, 0}), shape);
}

/* PyTorch's results: minus infinity, and an empty gradient. The size is known, or has a name. */
static void the_logarithm_of_no_sum_is_minus_infinity(void **state) {
  const tdm_shape shape = tdm_shape_of(3, 2, 0, 3);
  for (int way = 0; way < 4; way++) {
    tdm_graph *graph = tdm_graph_create(*state);
    const tdm_dim rows = way % 2 ? TDM_DIM("rows") : 0;
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, 2, rows, 3));
    const tdm_value weight = tdm_parameter(graph, "weight", TDM_FLOAT32, tdm_shape_of(1, 3), NULL);
    const tdm_value y =
        tdm_logsumexp(graph, "y", tdm_mul(graph, "m", x, weight), (const int[]){1}, 1, way < 2);
    const tdm_value loss = tdm_sum(graph, "loss", y, NULL, 0, false);
    tdm_tensor *found = answer(*state, graph, shape, y, loss);
    for (int64_t i = 0; i < 6; i++)
      assert_true(tdm_tensor_item(found, i) == -INFINITY);
    assert_shape(found, way < 2 ? tdm_shape_of(3, 2, 1, 3) : tdm_shape_of(2, 2, 3));
  }
}

/* Windows of x (1, 1, 2, 2), or of none where they share it out, are trained; size: as the input
 * has it. */
static tdm_status pool(tdm_context *context, tdm_dim size, bool shared) {
  const tdm_pool_options options =
      OPTIONS(tdm_pool_options, o.stride[0] = o.stride[1] = 1, o.padding[0] = o.padding[1] = 1,
              o.dilation[0] = o.dilation[1] = 3);
  const int64_t fed = shared ? 0 : 2;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value weight = tdm_parameter(graph, "weight", TDM_FLOAT32, tdm_shape_scalar(), NULL);
  const tdm_value x = tdm_mul(
      graph, "x", tdm_input(graph, "fed", TDM_FLOAT32, tdm_shape_of(4, 1, 1, size, size)), weight);
  const tdm_value y = shared ? tdm_adaptive_max_pool2d(graph, "pool", x, 1, 1)
                             : tdm_max_pool2d(graph, "pool", x, 2, 2, &options);
  const tdm_optimizer sgd = tdm_sgd(1);
  const tdm_session_options trained = OPTIONS(
      tdm_session_options, o.loss = tdm_sum(graph, "loss", y, NULL, 0, false), o.optimizer = &sgd);
  tdm_session *session = tdm_session_create(graph, &trained);
  tdm_status status = tdm_last_status();
  if (session) {
    const tdm_shape shape = tdm_shape_of(4, 1, 1, fed, fed);
    const tdm_feed feed = {"fed", tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, shape), false};
    status = tdm_train_step(session, &feed, 1, NULL, 0, NULL);
    tdm_tensor_release(feed.tensor);
  }
  tdm_session_release(session);
  tdm_graph_release(graph);
  return status;
}

/* Padding and what lies beyond it are no maximum: there is no place for its gradient. */
static void windows_without_elements_are_refused(void **state) {
  for (int named = 0; named < 2; named++)
    for (int shared = 0; shared < 2; shared++) {
      const tdm_dim size = named ? TDM_DIM("size") : shared ? 0 : 2;
      assert_int_equal(pool(*state, size, shared), TDM_INVALID_ARGUMENT);
      assert_non_null(strstr(tdm_last_message(), "element"));
    }
}

/* PyTorch's ceil_mode: a first window may reach beyond x too. */
static void a_window_reaches_beyond_a_short_row(void **state) {
  const tdm_pool_options options =
      OPTIONS(tdm_pool_options, o.stride[0] = o.stride[1] = 2, o.ceil = true);
  const tdm_shape shape = tdm_shape_of(3, 1, 1, 2);
  for (int average = 0; average < 2; average++) {
    tdm_graph *graph = tdm_graph_create(*state);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
    const tdm_value y = (average ? tdm_avg_pool1d : tdm_max_pool1d)(graph, "y", x, 3, &options);
    tdm_tensor *found = answer(*state, graph, shape, y, (tdm_value){0, 0});
    assert_true(tdm_tensor_item(found, 0) == 1);
    assert_shape(found, tdm_shape_of(3, 1, 1, 1));
  }
}

/* x (length, 2, 1); the first of two rows has no step, or none has; their first h are 0.5 and 1.5.
 */
static void check_stepless(tdm_context *context, tdm_dim named, int64_t length, bool lengths) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, named, 2, 1));
  const tdm_value h = tdm_arange(graph, "h", TDM_FLOAT32, 0.5, 2.5, 1);
  tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.h0 = tdm_reshape(graph, "h0", h, tdm_shape_of(3, 1, 2, 1)),
              o.projection = 1);
  if (lengths) options.lengths = tdm_arange(graph, "lengths", TDM_INT64, 0, 2, 1);
  tdm_value h_n;
  tdm_lstm(graph, "lstm", x, 2, &options, &h_n, NULL);
  tdm_tensor *found = answer(context, graph, tdm_shape_of(3, length, 2, 1), h_n, (tdm_value){0, 0});
  assert_true(tdm_tensor_item(found, 0) == 0.5);
  assert_true((tdm_tensor_item(found, 1) == 1.5) == !lengths);
  assert_shape(found, tdm_shape_of(3, 1, 2, 1));
}

static void a_projected_row_without_steps_keeps_its_state(void **state) {
  check_stepless(*state, 3, 3, true);
  check_stepless(*state, TDM_DIM("length"), 3, true);
  check_stepless(*state, 0, 0, false);
  check_stepless(*state, TDM_DIM("length"), 0, false);
}

static int open_context(void **state) {
  *state = tdm_context_create(NULL);
  return *state ? 0 : -1;
}

static int close_context(void **state) {
  tdm_context_release(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_slope_of_a_scalar_is_one),
      cmocka_unit_test(long_rows_of_which_there_are_none_take_no_time),
      cmocka_unit_test(products_over_nothing_are_trained),
      cmocka_unit_test(no_images_are_flattened),
      cmocka_unit_test(losses_of_no_images_add_up_to_nothing),
      cmocka_unit_test(neighbours_of_no_images_are_none),
      cmocka_unit_test(a_variance_may_be_of_each_row),
      cmocka_unit_test(diagonals_beyond_are_empty),
      cmocka_unit_test(what_is_repeated_never_is_empty),
      cmocka_unit_test(nothing_may_be_repeated_to),
      cmocka_unit_test(the_logarithm_of_no_sum_is_minus_infinity),
      cmocka_unit_test(windows_without_elements_are_refused),
      cmocka_unit_test(a_window_reaches_beyond_a_short_row),
      cmocka_unit_test(a_projected_row_without_steps_keeps_its_state),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
