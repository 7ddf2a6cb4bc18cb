/* Reductions, scans, functions like softmax and cross entropy, and their gradients, of long and
 * badly scaled inputs: the float32 error relative to float64 is at most 4 times PyTorch's.
 * tests/golden/make_precision.py recorded PyTorch's errors and draws the same inputs and weights.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/layers/layer_test.h"

#ifndef TEST_DEVICE
#define TEST_DEVICE "cpu:0"
#endif

enum { COLUMNS = 3, KINDS = 4, INPUT_SEED = 7, WEIGHT_SEED = 11 };

typedef enum input_kind { OFFSET, RANGE, SIGNS, FACTORS } input_kind;
static const char *const kind_names[KINDS] = {"offset", "range", "signs", "factors"};
static const char *const part_names[] = {"result", "gradient"};

/* x: (count) or (count, COLUMNS). */
typedef tdm_value (*builder)(tdm_graph *graph, tdm_value x);

typedef struct precision_case {
  const char *name;
  builder build;
  input_kind first, last; /* the kinds of inputs, inclusive */
} precision_case;

static golden_file recorded;

/* ---- Operations along dimension 0 ------------------------------------------------------------ */

static const int first_dimension[] = {0};

static tdm_value sum(tdm_graph *graph, tdm_value x) {
  return tdm_sum(graph, "f", x, first_dimension, 1, false);
}

static tdm_value mean(tdm_graph *graph, tdm_value x) {
  return tdm_mean(graph, "f", x, first_dimension, 1, false);
}

static tdm_value norm(tdm_graph *graph, tdm_value x) {
  return tdm_norm(graph, "f", x, 2, first_dimension, 1, false);
}

static tdm_value norm_1(tdm_graph *graph, tdm_value x) {
  return tdm_norm(graph, "f", x, 1, first_dimension, 1, false);
}

static tdm_value variance(tdm_graph *graph, tdm_value x) {
  return tdm_variance(graph, "f", x, first_dimension, 1, 0, false);
}

static tdm_value deviation(tdm_graph *graph, tdm_value x) {
  return tdm_std(graph, "f", x, first_dimension, 1, 1, false);
}

static tdm_value normalize(tdm_graph *graph, tdm_value x) {
  return tdm_normalize(graph, "f", x, 2, 0, 1e-12);
}

static tdm_value logsumexp(tdm_graph *graph, tdm_value x) {
  return tdm_logsumexp(graph, "f", x, first_dimension, 1, false);
}

static tdm_value softmax(tdm_graph *graph, tdm_value x) {
  return tdm_softmax(graph, "f", x, 0);
}

static tdm_value log_softmax(tdm_graph *graph, tdm_value x) {
  return tdm_log_softmax(graph, "f", x, 0);
}

static tdm_value cumsum(tdm_graph *graph, tdm_value x) {
  return tdm_cumsum(graph, "f", x, 0);
}

static tdm_value logcumsumexp(tdm_graph *graph, tdm_value x) {
  return tdm_logcumsumexp(graph, "f", x, 0);
}

static tdm_value prod(tdm_graph *graph, tdm_value x) {
  return tdm_prod(graph, "f", x, first_dimension, 1, false);
}

static tdm_value cumprod(tdm_graph *graph, tdm_value x) {
  return tdm_cumprod(graph, "f", x, 0);
}

/* Adds one row of many classes, or many rows of COLUMNS classes. */
static tdm_value cross_entropy(tdm_graph *graph, tdm_value x) {
  const tdm_shape shape = tdm_value_shape(graph, x);
  const int64_t count = shape.dims[0];
  if (shape.rank == 1) {
    const int64_t target[] = {count / 3};
    return tdm_cross_entropy(graph, "f", tdm_unsqueeze(graph, "row", x, 0),
                             tdm_constant(graph, "targets", TDM_INT64, tdm_shape_of(1, 1), target));
  }
  int64_t *targets = malloc((size_t)count * sizeof *targets);
  assert_non_null(targets);
  for (int64_t i = 0; i < count; i++)
    targets[i] = i % COLUMNS;
  const tdm_value loss = tdm_cross_entropy(
      graph, "f", x, tdm_constant(graph, "targets", TDM_INT64, tdm_shape_of(1, count), targets));
  free(targets);
  return loss;
}

static const precision_case cases[] = {
    {"sum", sum, OFFSET, SIGNS},
    {"mean", mean, OFFSET, SIGNS},
    {"norm", norm, OFFSET, SIGNS},
    {"norm_1", norm_1, OFFSET, SIGNS},
    {"variance", variance, OFFSET, SIGNS},
    {"std", deviation, OFFSET, SIGNS},
    {"normalize", normalize, OFFSET, SIGNS},
    {"logsumexp", logsumexp, OFFSET, SIGNS},
    {"softmax", softmax, OFFSET, SIGNS},
    {"log_softmax", log_softmax, OFFSET, SIGNS},
    {"cross_entropy", cross_entropy, OFFSET, SIGNS},
    {"cumsum", cumsum, OFFSET, SIGNS},
    {"logcumsumexp", logcumsumexp, OFFSET, SIGNS},
    {"prod", prod, FACTORS, FACTORS},
    {"cumprod", cumprod, FACTORS, FACTORS},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* ---- Inputs, as make_precision.py draws them ------------------------------------------------- */

/* Numbers from -1 to 1 of a linear congruential generator, rounded to float32. */
static void draw(double *numbers, int64_t count, uint64_t seed) {
  uint64_t value = seed;
  for (int64_t i = 0; i < count; i++) {
    value = (value * UINT64_C(1103515245) + 12345) % UINT64_C(2147483648);
    numbers[i] = (double)(float)((double)value / 1073741824.0 - 1);
  }
}

static double scaled(input_kind kind, int64_t i, double u) {
  static const double magnitudes[] = {0.001, 0.01, 0.1, 1, 10, 100, 1000};
  switch (kind) {
  case OFFSET:
    return 1000 + u;
  case RANGE:
    return u * magnitudes[i % 7];
  case SIGNS:
    return (i % 2 ? -1 : 1) * (10 + 0.01 * u);
  default:
    return 1 + 0.01 * u;
  }
}

/* Returns x (count, columns), rounded to float32; the caller frees it. Each column is half of the
 * one before. */
static double *draw_inputs(input_kind kind, int64_t count, int64_t columns) {
  double *x = malloc((size_t)(count * columns) * sizeof *x);
  double *row = malloc((size_t)count * sizeof *row);
  assert_non_null(x);
  assert_non_null(row);
  draw(row, count, INPUT_SEED);
  for (int64_t i = 0; i < count; i++) {
    const double number = (double)(float)scaled(kind, i, row[i]);
    for (int64_t j = 0; j < columns; j++)
      x[i * columns + j] = ldexp(number, -(int)j);
  }
  free(row);
  return x;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static tdm_tensor *tensor_of(tdm_dtype dtype, tdm_shape shape, const double *numbers) {
  const int64_t count = tdm_shape_count(&shape);
  float *singles = malloc((size_t)count * sizeof *singles);
  assert_non_null(singles);
  for (int64_t i = 0; i < count; i++)
    singles[i] = (float)numbers[i];
  const void *data = dtype == TDM_FLOAT64 ? (const void *)numbers : singles;
  tdm_tensor *tensor = tdm_tensor_from(recorded.context, dtype, shape, data);
  free(singles);
  assert_non_null(tensor);
  return tensor;
}

static tdm_tensor *draw_weights(tdm_dtype dtype, tdm_shape shape) {
  const int64_t count = tdm_shape_count(&shape);
  double *numbers = malloc((size_t)count * sizeof *numbers);
  assert_non_null(numbers);
  draw(numbers, count, WEIGHT_SEED);
  tdm_tensor *tensor = tensor_of(dtype, shape, numbers);
  free(numbers);
  return tensor;
}

/* Computes the result, and the gradient of the sum of its products with drawn weights. The caller
 * frees both arrays. */
static void run(const precision_case *test, tdm_dtype dtype, tdm_shape shape, const double *x,
                double *out_values[2], size_t out_counts[2]) {
  tdm_graph *graph = tdm_graph_create(recorded.context);
  tdm_scope_dtype(graph, dtype);
  const tdm_value fed = tdm_input(graph, "x", dtype, shape);
  const tdm_value y = test->build(graph, fed);
  const tdm_shape y_shape = tdm_value_shape(graph, y);
  const tdm_value weights = tdm_input(graph, "weights", dtype, y_shape);
  const tdm_value loss =
      tdm_sum(graph, "loss", tdm_mul(graph, "products", y, weights), NULL, 0, false);
  tdm_output(graph, "y", y);
  tdm_output(graph, "d_x", tdm_gradient_of(graph, "back", loss, fed));
  tdm_session_options options = tdm_session_options_default();
  options.device_map = "*=" TEST_DEVICE;
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s: %s", test->name, tdm_last_message());
  const tdm_feed feeds[] = {{.name = "x", .tensor = tensor_of(dtype, shape, x)},
                            {.name = "weights", .tensor = draw_weights(dtype, y_shape)}};
  tdm_fetch fetches[] = {{.name = "y"}, {.name = "d_x"}};
  if (tdm_run(session, feeds, 2, fetches, 2) != TDM_OK)
    fail_msg("%s: %s", test->name, tdm_last_message());
  for (int i = 0; i < 2; i++) {
    out_values[i] = tensor_values(fetches[i].tensor, &out_counts[i]);
    tdm_tensor_release(fetches[i].tensor);
    tdm_tensor_release(feeds[i].tensor);
  }
  tdm_session_release(session);
  tdm_graph_release(graph);
}

/* Returns the largest difference relative to the largest element, or NaN if a difference is NaN. */
static double error_of(const double *found, const double *exact, size_t count) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < count; i++) {
    const double apart = fabs(found[i] - exact[i]);
    if (isnan(apart)) return NAN;
    difference = fmax(difference, apart);
    largest = fmax(largest, fabs(exact[i]));
  }
  return difference / largest;
}

/* Returns how many errors are above the bound: 4 times PyTorch's error or the unit roundoff of
 * float32, whichever is larger. */
static int check(const precision_case *test, input_kind kind, int64_t count, bool by_columns) {
  const int64_t columns = by_columns ? COLUMNS : 1;
  const tdm_shape shape = by_columns ? tdm_shape_of(2, count, columns) : tdm_shape_of(1, count);
  double *x = draw_inputs(kind, count, columns);
  double *single[2], *exact[2];
  size_t counts[2], part_count;
  char name[80];
  (void)snprintf(name, sizeof name, "%s_%s_%lld", test->name, kind_names[kind], (long long)count);
  run(test, TDM_FLOAT64, shape, x, exact, counts);
  run(test, TDM_FLOAT32, shape, x, single, counts);
  double *theirs = tensor_values(golden_tensor(&recorded, name, "error", ""), &part_count);
  assert_int_equal(part_count, 2);
  int failures = 0;
  for (int i = 0; i < 2; i++) {
    const double error = error_of(single[i], exact[i], counts[i]);
    const double bound = 4 * fmax(theirs[i], 0x1p-24);
    if (!(error <= bound)) {
      print_error("%s, %s of %d columns: error %.2e, expected at most %.2e (PyTorch: %.2e)\n", name,
                  part_names[i], (int)columns, error, bound, theirs[i]);
      failures++;
    }
    free(single[i]);
    free(exact[i]);
  }
  free(theirs);
  free(x);
  return failures;
}

static void errors_are_at_most_four_times_pytorchs(int64_t count) {
  int failures = 0;
  golden_open(&recorded, "precision", TDM_FLOAT32);
  for (int c = 0; c < CASES; c++)
    for (int kind = (int)cases[c].first; kind <= (int)cases[c].last; kind++)
      for (int by_columns = 0; by_columns < 2; by_columns++)
        failures += check(&cases[c], (input_kind)kind, count, by_columns);
  golden_close(&recorded);
  assert_int_equal(failures, 0);
}

static void errors_of_20000_elements_are_at_most_four_times_pytorchs(void **state) {
  (void)state;
  errors_are_at_most_four_times_pytorchs(20000);
}

static void errors_of_100000_elements_are_at_most_four_times_pytorchs(void **state) {
  (void)state;
  errors_are_at_most_four_times_pytorchs(100000);
}

static void nan_is_an_error(void **state) {
  (void)state;
  const double exact[] = {1, 2, 3};
  const double found[] = {1, NAN, 3};
  assert_true(isnan(error_of(found, exact, 3)));
  assert_float_equal(error_of(exact, exact, 3), 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_of_20000_elements_are_at_most_four_times_pytorchs),
      cmocka_unit_test(errors_of_100000_elements_are_at_most_four_times_pytorchs),
      cmocka_unit_test(nan_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
