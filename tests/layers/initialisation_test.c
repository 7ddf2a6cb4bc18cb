/* Initial values of layers: PyTorch's distributions, names, shapes and order; padding rows; the
 * same for a seed on every device. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_test.h"
#include "tests/options.h"

typedef struct moments {
  double mean, deviation, least, most;
} moments;

static moments moments_of(const double *values, size_t count) {
  moments found = {.least = INFINITY, .most = -INFINITY};
  double squares = 0.0;
  for (size_t i = 0; i < count; i++) {
    found.mean += values[i] / (double)count;
    squares += values[i] * values[i] / (double)count;
    found.least = fmin(found.least, values[i]);
    found.most = fmax(found.most, values[i]);
  }
  found.deviation = sqrt(squares - found.mean * found.mean);
  return found;
}

/* Five standard errors of a mean, and of a deviation where the fourth moment is at most 3. */
static void expect_moments(const char *name, moments found, double mean, double deviation,
                           size_t count) {
  const double error = 5.0 * deviation / sqrt((double)count);
  if (fabs(found.mean - mean) > error || fabs(found.deviation - deviation) > error)
    fail_msg("%s: mean %g deviation %g, must be %g and %g within %g", name, found.mean,
             found.deviation, mean, deviation, error);
}

static void expect_uniform(const tdm_tensor_list *list, const char *name, double bound) {
  size_t count;
  double *values = tensor_values(tdm_tensor_list_find(list, name), &count);
  const moments found = moments_of(values, count);
  free(values);
  assert_true(found.least >= -bound && found.most <= bound);
  expect_moments(name, found, 0.0, bound / sqrt(3.0), count);
  if (count >= 1000) assert_true(found.least < -0.98 * bound && found.most > 0.98 * bound);
}

/* Parameters of all layers in their initial state; released by the caller. */
static tdm_tensor_list *initial(const char *device_map, uint64_t seed, tdm_dtype dtype) {
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_dtype(graph, dtype);
  const tdm_value ids =
      tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, TDM_DIM("length"), TDM_DIM("batch")));
  const tdm_embedding_options padded = OPTIONS(tdm_embedding_options, o.padding_index = -2);
  const tdm_rnn_options two = OPTIONS(tdm_rnn_options, o.layers = 2);
  const tdm_value x = tdm_embedding_with(graph, "table", ids, 200, 30, &padded);
  const tdm_value y = tdm_rnn(graph, "rnn", x, 50, &two, NULL);
  tdm_output(graph, "scores", tdm_linear(graph, "fc", y, 70));
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.device_map = device_map, o.seed = seed);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), true);
  assert_non_null(list);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return list;
}

static void test_names_and_shapes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    const char *shape;
  } wanted[] = {
      {"table.weight", "[200, 30]"},
      {"rnn.weight_ih_l0", "[50, 30]"},
      {"rnn.weight_hh_l0", "[50, 50]"},
      {"rnn.bias_ih_l0", "[50]"},
      {"rnn.bias_hh_l0", "[50]"},
      {"rnn.weight_ih_l1", "[50, 50]"},
      {"rnn.weight_hh_l1", "[50, 50]"},
      {"rnn.bias_ih_l1", "[50]"},
      {"rnn.bias_hh_l1", "[50]"},
      {"fc.weight", "[70, 50]"},
      {"fc.bias", "[70]"},
  };
  tdm_tensor_list *list = initial("*=cpu:0", 1, TDM_FLOAT32);
  assert_int_equal(tdm_tensor_list_count(list), sizeof wanted / sizeof wanted[0]);
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    char text[TDM_SHAPE_TEXT];
    const tdm_shape shape = tdm_tensor_shape(tdm_tensor_list_tensor(list, i));
    assert_string_equal(tdm_tensor_list_name(list, i), wanted[i].name);
    assert_string_equal(tdm_shape_text(&shape, text, sizeof text), wanted[i].shape);
  }
  tdm_tensor_list_release(list);
}

static void check_ranges(tdm_dtype dtype) {
  static const char *const recurrent[] = {
      "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0",
      "rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1", "rnn.bias_hh_l1"};
  tdm_tensor_list *list = initial("*=cpu:0", 3, dtype);
  for (size_t i = 0; i < sizeof recurrent / sizeof recurrent[0]; i++)
    expect_uniform(list, recurrent[i], 1.0 / sqrt(50.0));
  expect_uniform(list, "fc.weight", 1.0 / sqrt(50.0));
  expect_uniform(list, "fc.bias", 1.0 / sqrt(50.0));
  size_t count;
  double *table = tensor_values(tdm_tensor_list_find(list, "table.weight"), &count);
  for (size_t i = 198 * 30; i < 199 * 30; i++)
    assert_true(table[i] == 0.0);
  const moments found = moments_of(table, 198 * 30);
  expect_moments("table.weight", found, 0.0, 1.0, 198 * 30);
  assert_true(found.least < -3.0 && found.most > 3.0);
  free(table);
  tdm_tensor_list_release(list);
}

static void test_ranges(void **state) {
  (void)state;
  check_ranges(TDM_FLOAT32);
  check_ranges(TDM_FLOAT64);
}

static void test_bags_and_attention(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape bags = tdm_shape_of(2, TDM_DIM("batch"), 4);
  const tdm_shape rows = tdm_shape_of(3, TDM_DIM("length"), TDM_DIM("batch"), 60);
  const tdm_embedding_bag_options padded = OPTIONS(tdm_embedding_bag_options, o.padding_index = 0);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, rows);
  tdm_output(
      graph, "bags",
      tdm_embedding_bag(graph, "bag", tdm_input(graph, "ids", TDM_INT64, bags), 200, 30, &padded));
  tdm_output(graph, "seen", tdm_multi_head_attention(graph, "heads", x, x, x, 4, NULL));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.seed = 3);
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), true);
  assert_int_equal(tdm_tensor_list_count(list), 5);
  expect_uniform(list, "heads.in_proj_weight", sqrt(6.0 / (4.0 * 60)));
  expect_uniform(list, "heads.out_proj.weight", 1.0 / sqrt(60.0));
  size_t count;
  for (int i = 0; i < 2; i++) {
    static const char *const biases[] = {"heads.in_proj_bias", "heads.out_proj.bias"};
    double *bias = tensor_values(tdm_tensor_list_find(list, biases[i]), &count);
    assert_int_equal(count, i == 0 ? 180 : 60);
    for (size_t k = 0; k < count; k++)
      assert_true(bias[k] == 0.0);
    free(bias);
  }
  double *table = tensor_values(tdm_tensor_list_find(list, "bag.weight"), &count);
  assert_int_equal(count, 200 * 30);
  for (size_t i = 0; i < 30; i++)
    assert_true(table[i] == 0.0);
  expect_moments("bag.weight", moments_of(table + 30, 199 * 30), 0.0, 1.0, 199 * 30);
  free(table);
  tdm_tensor_list_release(list);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* Returns the number of tensors with different bytes. */
static size_t count_different(const tdm_tensor_list *a, const tdm_tensor_list *b) {
  size_t different = 0;
  assert_int_equal(tdm_tensor_list_count(a), tdm_tensor_list_count(b));
  for (size_t i = 0; i < tdm_tensor_list_count(a); i++) {
    const tdm_tensor *left = tdm_tensor_list_tensor(a, i);
    const tdm_tensor *right = tdm_tensor_list_tensor(b, i);
    assert_int_equal(tdm_tensor_bytes(left), tdm_tensor_bytes(right));
    different += memcmp(tdm_tensor_data(left), tdm_tensor_data(right), tdm_tensor_bytes(left)) != 0;
  }
  return different;
}

static void test_seeds_and_devices(void **state) {
  (void)state;
  tdm_tensor_list *first = initial("*=cpu:0", 5, TDM_FLOAT32);
  tdm_tensor_list *again = initial("*=cpu:0", 5, TDM_FLOAT32);
  tdm_tensor_list *elsewhere = initial("table=cpu:0,*=sim:0", 5, TDM_FLOAT32);
  tdm_tensor_list *other = initial("*=cpu:0", 6, TDM_FLOAT32);
  assert_int_equal(count_different(first, again), 0);
  assert_int_equal(count_different(first, elsewhere), 0);
  assert_int_equal(count_different(first, other), tdm_tensor_list_count(first));
  tdm_tensor_list_release(first);
  tdm_tensor_list_release(again);
  tdm_tensor_list_release(elsewhere);
  tdm_tensor_list_release(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_and_shapes),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_bags_and_attention),
      cmocka_unit_test(test_seeds_and_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
