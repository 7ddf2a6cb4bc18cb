/* Normalization of few values and of extreme ones. One value per channel is refused, equal elements
 * become the bias exactly, and neither large means nor large elements change the normalized result.
 * Expected values are computed in float64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

/* A layer on x (batch, ...), and how it is run. */
typedef struct norm_run {
  tdm_value (*layer)(tdm_graph *graph, tdm_value x);
  tdm_shape shape;      /* shape of the input */
  bool names_batch;     /* the graph's first dimension is named, not a size */
  bool trains;          /* one step, otherwise a run */
  int micro_batches;    /* 0: 1 */
  const char *replicas; /* NULL: none */
} norm_run;

static tdm_session *norm_session(tdm_graph *graph, const norm_run *run) {
  tdm_shape shape = run->shape;
  if (run->names_batch) shape.dims[0] = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  const tdm_value y = run->layer(graph, x);
  const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = run->replicas);
  if (run->replicas) tdm_data_parallel(graph, "part", &parallel);
  tdm_output(graph, "y", y);
  const tdm_optimizer optimizer = tdm_sgd(0.0);
  tdm_session_options options = tdm_session_options_default();
  options.micro_batches = OR_ONE(run->micro_batches);
  if (run->trains)
    options.loss =
        tdm_sum(graph, "loss", tdm_linear_without_bias(graph, "head", y, 1), NULL, 0, false);
  if (run->trains) options.optimizer = &optimizer;
  return tdm_session_create(graph, &options);
}

/* Feeds values to a new session; writes y unless NULL. */
static tdm_status norm_execute(tdm_context *context, const norm_run *run, const float *values,
                               float *y) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_session *session = norm_session(graph, run);
  tdm_status status = session ? TDM_OK : TDM_INVALID_ARGUMENT;
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, run->shape, values);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "y"};
  if (session && run->trains)
    status = tdm_train_step(session, &feed, 1, &fetch, y ? 1 : 0, NULL);
  else if (session)
    status = tdm_run(session, &feed, 1, &fetch, 1);
  if (status == TDM_OK && y)
    assert_int_equal(
        tdm_tensor_read(fetch.tensor, y, (size_t)tdm_shape_count(&run->shape) * sizeof *y), TDM_OK);
  if (fetch.tensor) tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return status;
}

static tdm_value batch_norm(tdm_graph *graph, tdm_value x) {
  return tdm_batch_norm(graph, "part/layer", x);
}

static tdm_value batch_norm_without_statistics(tdm_graph *graph, tdm_value x) {
  const tdm_batch_norm_options options =
      OPTIONS(tdm_batch_norm_options, o.without_statistics = true);
  return tdm_batch_norm_with(graph, "part/layer", x, &options);
}

static tdm_value instance_norm(tdm_graph *graph, tdm_value x) {
  return tdm_instance_norm(graph, "part/layer", x);
}

static tdm_value tracked_instance_norm(tdm_graph *graph, tdm_value x) {
  const tdm_instance_norm_options options =
      OPTIONS(tdm_instance_norm_options, o.track_statistics = true);
  return tdm_instance_norm_with(graph, "part/layer", x, &options);
}

static tdm_value group_norm(tdm_graph *graph, tdm_value x) {
  return tdm_group_norm(graph, "part/layer", x, 4);
}

static tdm_value layer_norm(tdm_graph *graph, tdm_value x) {
  return tdm_layer_norm(graph, "part/layer", x, tdm_value_shape(graph, x).rank - 1);
}

static tdm_value rms_norm(tdm_graph *graph, tdm_value x) {
  return tdm_rms_norm(graph, "part/layer", x, 1);
}

/* ---- One value ------------------------------------------------------------------------------- */

static void expect_refusal(tdm_context *context, const norm_run *run, bool refused) {
  float values[256];
  for (int i = 0; i < 256; i++)
    values[i] = (float)i;
  const tdm_status status = norm_execute(context, run, values, NULL);
  char shape[TDM_SHAPE_TEXT];
  tdm_shape_text(&run->shape, shape, sizeof shape);
  if (!refused && status != TDM_OK) fail_msg("%s: %s", shape, tdm_last_message());
  if (!refused) return;
  if (status != TDM_INVALID_ARGUMENT) fail_msg("%s is normalized: %d", shape, (int)status);
  if (!strstr(tdm_last_message(), "part/layer") || !strstr(tdm_last_message(), "at least 2"))
    fail_msg("message: %s", tdm_last_message());
}

static void batch_norm_refuses_one_value_in_training(void **state) {
  tdm_context *context = *state;
  for (int named = 0; named < 2; named++) {
    norm_run run = {.layer = batch_norm, .names_batch = named, .trains = true};
    run.shape = tdm_shape_of(2, 1, 8);
    expect_refusal(context, &run, true);
    run.shape = tdm_shape_of(4, 1, 8, 1, 1);
    expect_refusal(context, &run, true);
    run.shape = tdm_shape_of(5, 1, 8, 1, 1, 1);
    expect_refusal(context, &run, true);
    run.shape = tdm_shape_of(3, 1, 8, 2);
    expect_refusal(context, &run, false);
    run.shape = tdm_shape_of(2, 2, 8);
    expect_refusal(context, &run, false);
    run.shape = tdm_shape_of(2, 1, 8);
    run.trains = false;
    expect_refusal(context, &run, false);
    run.layer = batch_norm_without_statistics;
    expect_refusal(context, &run, true);
  }
}

static void batch_norm_refuses_parts_of_one_row(void **state) {
  tdm_context *context = *state;
  norm_run run = {.layer = batch_norm, .names_batch = true, .trains = true};
  run.shape = tdm_shape_of(2, 3, 8); /* parts of two rows and of one */
  run.micro_batches = 2;
  expect_refusal(context, &run, true);
  run.shape = tdm_shape_of(2, 4, 8);
  expect_refusal(context, &run, false);
  run.micro_batches = 0;
  run.replicas = "cpu:0,sim:0";
  for (int named = 0; named < 2; named++) {
    run.names_batch = named;
    run.trains = true;
    run.shape = tdm_shape_of(2, 4, 8);
    expect_refusal(context, &run, false);
    run.shape = tdm_shape_of(2, 3, 8);
    expect_refusal(context, &run, true);
    run.trains = false;
    expect_refusal(context, &run, false);
  }
}

static void instance_norm_refuses_one_pixel(void **state) {
  tdm_context *context = *state;
  for (int trains = 0; trains < 2; trains++) {
    norm_run run = {.layer = instance_norm, .trains = trains};
    run.shape = tdm_shape_of(4, 3, 2, 1, 1);
    expect_refusal(context, &run, true);
    run.shape = tdm_shape_of(4, 3, 2, 2, 1);
    expect_refusal(context, &run, false);
    run.layer = tracked_instance_norm;
    expect_refusal(context, &run, false);
    run.shape = tdm_shape_of(4, 3, 2, 1, 1);
    expect_refusal(context, &run, trains);
  }
}

/* The behaviour of torch.nn.GroupNorm: GroupNorm(4, 4) refuses (1, 4), and returns its bias for (2,
 * 4). */
static void group_norm_refuses_one_value_of_one_image(void **state) {
  tdm_context *context = *state;
  for (int named = 0; named < 2; named++) {
    norm_run run = {.layer = group_norm, .names_batch = named};
    run.shape = tdm_shape_of(2, 1, 4);
    expect_refusal(context, &run, true);
    run.shape = tdm_shape_of(4, 1, 4, 1, 1);
    expect_refusal(context, &run, true);
    run.shape = tdm_shape_of(2, 2, 4);
    expect_refusal(context, &run, false);
    run.shape = tdm_shape_of(2, 1, 8);
    expect_refusal(context, &run, false);
  }
}

/* ---- Equal elements -------------------------------------------------------------------------- */

static void equal_elements_are_normalized_to_zero(void **state) {
  static const float values_of[] = {1234.567F, 1e6F, -1e6F / 3, 1e30F, 0.1F, 16777216.0F};
  static tdm_value (*const layers[])(tdm_graph *, tdm_value) = {layer_norm, group_norm,
                                                                instance_norm, batch_norm};
  tdm_context *context = *state;
  const tdm_shape shape = tdm_shape_of(3, 3, 4, 768);
  const size_t count = (size_t)tdm_shape_count(&shape);
  float *values = malloc(count * sizeof *values), *y = malloc(count * sizeof *y);
  for (size_t v = 0; v < sizeof values_of / sizeof *values_of; v++) {
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
      for (size_t i = 0; i < count; i++)
        values[i] = values_of[v];
      const norm_run run = {.layer = layers[k], .shape = shape, .trains = true};
      if (norm_execute(context, &run, values, y) != TDM_OK) fail_msg("%s", tdm_last_message());
      for (size_t i = 0; i < count; i++)
        if (y[i] != 0) fail_msg("layer %zu of %g: %g", k, (double)values_of[v], (double)y[i]);
    }
  }
  free(values);
  free(y);
}

/* ---- Large elements -------------------------------------------------------------------------- */

static void large_elements_are_normalized(void **state) {
  static const double sizes[] = {1e-10, 1, 1e15, 1e20, 1e30, 1e37};
  tdm_context *context = *state;
  const tdm_shape shape = tdm_shape_of(2, 2, 1000);
  float values[2000], y[2000];
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    double mean = 0, squares = 0, zero_squares = 0;
    for (int i = 0; i < 2000; i++) {
      values[i] = (float)(sizes[s] * ((i % 1000 * 37 % 101) - 40.0) / 50);
      if (i < 1000) mean += (double)values[i] / 1000;
    }
    for (int i = 0; i < 1000; i++) {
      squares += pow((double)values[i] - mean, 2) / 1000;
      zero_squares += pow((double)values[i], 2) / 1000;
    }
    for (int uncentered = 0; uncentered < 2; uncentered++) {
      const norm_run run = {.layer = uncentered ? rms_norm : layer_norm, .shape = shape};
      if (norm_execute(context, &run, values, y) != TDM_OK) fail_msg("%s", tdm_last_message());
      const double divisor = uncentered ? sqrt(zero_squares + 1.1920929e-7) : sqrt(squares + 1e-5);
      for (int i = 0; i < 2000; i++) {
        const double expected = ((double)values[i] - (uncentered ? 0 : mean)) / divisor;
        if (!(fabs((double)y[i] - expected) <= 2e-6))
          fail_msg("size %g: %g, expected %g", sizes[s], (double)y[i], expected);
      }
    }
  }
}

/* ---- Variances, norms and distances ---------------------------------------------------------- */

/* Runs layer on x and reads count numbers of y. */
static void evaluate(tdm_context *context, tdm_value (*layer)(tdm_graph *, tdm_value),
                     tdm_shape shape, bool names_batch, const float *values, float *y,
                     size_t count) {
  tdm_graph *graph = tdm_graph_create(context);
  const norm_run run = {.layer = layer, .shape = shape, .names_batch = names_batch};
  tdm_session *session = norm_session(graph, &run);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_tensor *x = tdm_tensor_from(context, TDM_FLOAT32, shape, values);
  const tdm_feed feed = {.name = "x", .tensor = x};
  tdm_fetch fetch = {.name = "y"};
  if (tdm_run(session, &feed, 1, &fetch, 1) != TDM_OK) fail_msg("%s", tdm_last_message());
  assert_int_equal(tdm_tensor_read(fetch.tensor, y, count * sizeof *y), TDM_OK);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(x);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static const int dimensions_of[][2] = {{0, 1}, {1, 0}};

static tdm_value variance_of_rows(tdm_graph *graph, tdm_value x) {
  return tdm_variance(graph, "it", x, &dimensions_of[0][1], 1, 1, false);
}

static tdm_value variance_of_columns(tdm_graph *graph, tdm_value x) {
  return tdm_variance(graph, "it", x, &dimensions_of[0][0], 1, 1, false);
}

static tdm_value variance_of_all(tdm_graph *graph, tdm_value x) {
  return tdm_variance(graph, "it", x, NULL, 0, 0, false);
}

static tdm_value std_of_rows(tdm_graph *graph, tdm_value x) {
  return tdm_std(graph, "it", x, &dimensions_of[0][1], 1, 1, false);
}

/* Returns the variance of the count elements of x at first, first + step, first + 2 step, ... */
static double variance_in_float64(const float *x, int first, int step, int count, int correction) {
  double mean = (double)x[first], squares = 0, apart = 0;
  for (int i = 0; i < count; i++)
    apart += (double)x[first + i * step] - mean;
  mean += apart / count;
  for (int i = 0; i < count; i++)
    squares += pow((double)x[first + i * step] - mean, 2);
  return squares / (count - correction);
}

static void variances_are_right_for_large_means(void **state) {
  enum { ROWS = 33, COLUMNS = 1001 };
  static const double means[] = {0, 10, 1e3, 1e5};
  tdm_context *context = *state;
  const tdm_shape shape = tdm_shape_of(2, ROWS, COLUMNS);
  float *values = malloc(sizeof(float[ROWS * COLUMNS])), y[COLUMNS];
  for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
    for (int i = 0; i < ROWS * COLUMNS; i++)
      values[i] = (float)(means[m] + (i * 7919 % 10007 - 5003) / 2888.0);
    for (int named = 0; named < 2; named++) {
      evaluate(context, variance_of_rows, shape, named, values, y, ROWS);
      for (int i = 0; i < ROWS; i++) {
        const double expected = variance_in_float64(values, i * COLUMNS, 1, COLUMNS, 1);
        assert_true(fabs((double)y[i] - expected) <= 1e-6 * expected);
      }
      evaluate(context, variance_of_columns, shape, named, values, y, COLUMNS);
      for (int i = 0; i < COLUMNS; i++) {
        const double expected = variance_in_float64(values, i, COLUMNS, ROWS, 1);
        assert_true(fabs((double)y[i] - expected) <= 1e-6 * expected);
      }
      evaluate(context, variance_of_all, shape, named, values, y, 1);
      const double expected = variance_in_float64(values, 0, 1, ROWS * COLUMNS, 0);
      assert_true(fabs((double)y[0] - expected) <= 1e-6 * expected);
    }
  }
  for (int i = 0; i < ROWS * COLUMNS; i++)
    values[i] = 1234.567F;
  evaluate(context, variance_of_rows, shape, false, values, y, ROWS);
  for (int i = 0; i < ROWS; i++)
    assert_true(y[i] == 0);
  evaluate(context, variance_of_all, shape, false, values, y, 1);
  assert_true(y[0] == 0);
  free(values);
}

static tdm_value norm_of_rows(tdm_graph *graph, tdm_value x) {
  return tdm_norm(graph, "it", x, 2, &dimensions_of[0][1], 1, false);
}

static tdm_value norm_of_all(tdm_graph *graph, tdm_value x) {
  return tdm_norm(graph, "it", x, 2, NULL, 0, false);
}

static tdm_value cosine_with_itself(tdm_graph *graph, tdm_value x) {
  return tdm_cosine_similarity(graph, "it", x, x, 1, 1e-8);
}

static tdm_value distance_from_negative(tdm_graph *graph, tdm_value x) {
  return tdm_pairwise_distance(graph, "it", x, tdm_neg(graph, "other", x), 2, 1e-6, false);
}

static tdm_value normalized(tdm_graph *graph, tdm_value x) {
  return tdm_normalize(graph, "it", x, 2, 1, 1e-12);
}

static void norms_of_large_elements_are_finite(void **state) {
  static const double sizes[] = {1, 1e15, 1e20, 1e25, 1e37};
  tdm_context *context = *state;
  float x[2 * 50], y[2 * 50];
  const tdm_shape shape = tdm_shape_of(2, 2, 50);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    double squares[2] = {0, 0};
    for (int i = 0; i < 100; i++) {
      x[i] = (float)(sizes[s] * (i * 37 % 11 - 5) / 5);
      squares[i / 50] += pow((double)x[i], 2);
    }
    evaluate(context, norm_of_rows, shape, false, x, y, 2);
    for (int i = 0; i < 2; i++)
      assert_true(fabs((double)y[i] - sqrt(squares[i])) <= 1e-6 * sqrt(squares[i]));
    evaluate(context, norm_of_all, shape, true, x, y, 1);
    assert_true(fabs((double)y[0] / sqrt(squares[0] + squares[1]) - 1) <= 1e-6);
    evaluate(context, cosine_with_itself, shape, false, x, y, 2);
    assert_true(fabs((double)y[0] - 1) <= 1e-6 && fabs((double)y[1] - 1) <= 1e-6);
    evaluate(context, normalized, shape, false, x, y, 100);
    for (int i = 0; i < 100; i++)
      assert_true(fabs((double)y[i] - (double)x[i] / sqrt(squares[i / 50])) <= 1e-6);
    evaluate(context, distance_from_negative, shape, false, x, y, 2);
    for (int i = 0; i < 2; i++)
      assert_true(fabs((double)y[i] / (2 * sqrt(squares[i])) - 1) <= 1e-5);
    evaluate(context, std_of_rows, shape, false, x, y, 2);
    for (int i = 0; i < 2; i++) {
      double mean = 0, apart = 0;
      for (int j = 0; j < 50; j++)
        mean += (double)x[i * 50 + j] / 50;
      for (int j = 0; j < 50; j++)
        apart += pow((double)x[i * 50 + j] - mean, 2) / 49;
      assert_true(fabs((double)y[i] / sqrt(apart) - 1) <= 1e-6);
    }
  }
}

/* A gradient of 1e20 (1, 2, 2) has the norm 3e20: with clip_norm 3 a step of 1 moves by (1, 2, 2),
 * and its clipped gradient is finite. */
static void large_gradients_are_clipped(void **state) {
  tdm_context *context = *state;
  tdm_graph *graph = tdm_graph_create(context);
  const float numbers[] = {1e20F, 2e20F, 2e20F};
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 1, 3));
  const tdm_value y = tdm_linear_without_bias(graph, "head", x, 1);
  tdm_optimizer optimizer = tdm_sgd(1.0);
  optimizer.clip_norm = 3;
  tdm_session_options options = tdm_session_options_default();
  options.loss = tdm_sum(graph, "loss", y, NULL, 0, false);
  options.optimizer = &optimizer;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  float before[3], after[3];
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), false);
  assert_int_equal(
      tdm_tensor_read(tdm_tensor_list_find(saved, "head.weight"), before, sizeof before), TDM_OK);
  tdm_tensor_list_release(saved);
  tdm_tensor *tensor = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 1, 3), numbers);
  const tdm_feed feed = {.name = "x", .tensor = tensor};
  if (tdm_train_step(session, &feed, 1, NULL, 0, NULL) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  saved = tdm_store_save(tdm_session_store(session), false);
  assert_int_equal(tdm_tensor_read(tdm_tensor_list_find(saved, "head.weight"), after, sizeof after),
                   TDM_OK);
  tdm_tensor_list_release(saved);
  for (int i = 0; i < 3; i++)
    assert_true(fabs((double)before[i] - (double)after[i] - (i == 0 ? 1 : 2)) <= 1e-5);
  tdm_tensor_release(tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void negative_or_infinite_epsilon_is_refused(void **state) {
  tdm_context *context = *state;
  for (int layer = 0; layer < 5; layer++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, 2, 4, 6));
    const double epsilon = layer % 2 == 0 ? -1e-5 : INFINITY;
    if (layer == 0)
      tdm_layer_norm_with(graph, "it", x, 1, WITH(tdm_layer_norm_options, o.epsilon = epsilon));
    if (layer == 1)
      tdm_rms_norm_with(graph, "it", x, 1, WITH(tdm_rms_norm_options, o.epsilon = epsilon));
    if (layer == 2)
      tdm_group_norm_with(graph, "it", x, 2, WITH(tdm_group_norm_options, o.epsilon = epsilon));
    if (layer == 3)
      tdm_instance_norm_with(graph, "it", x, WITH(tdm_instance_norm_options, o.epsilon = epsilon));
    if (layer == 4)
      tdm_batch_norm_with(graph, "it", x, WITH(tdm_batch_norm_options, o.epsilon = epsilon));
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    const char *expected = layer % 2 == 0
                               ? "epsilon is -1e-05, expected a finite number of at least 0"
                               : "epsilon is inf, expected a finite number of at least 0";
    if (!strstr(tdm_last_message(), expected)) fail_msg("%s", tdm_last_message());
    tdm_graph_release(graph);
  }
}

static int create_context(void **state) {
  *state = tdm_context_create(NULL);
  return *state ? 0 : -1;
}

static int release_context(void **state) {
  tdm_context_release(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batch_norm_refuses_one_value_in_training),
      cmocka_unit_test(batch_norm_refuses_parts_of_one_row),
      cmocka_unit_test(instance_norm_refuses_one_pixel),
      cmocka_unit_test(group_norm_refuses_one_value_of_one_image),
      cmocka_unit_test(equal_elements_are_normalized_to_zero),
      cmocka_unit_test(large_elements_are_normalized),
      cmocka_unit_test(variances_are_right_for_large_means),
      cmocka_unit_test(norms_of_large_elements_are_finite),
      cmocka_unit_test(large_gradients_are_clipped),
      cmocka_unit_test(negative_or_infinite_epsilon_is_refused),
  };
  return cmocka_run_group_tests(tests, create_context, release_context);
}
