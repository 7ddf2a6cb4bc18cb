/* Builders of the golden cases of tests/golden/arrays_cases.py. */
#include <math.h>

#include "tests/layers/layer_cases.h"

enum { MOST_VALUES = 8, MOST_LETTERS = 48 };

static const char *const xs[MOST_VALUES] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
static const char *const ys[MOST_VALUES] = {"y0", "y1", "y2", "y3", "y4", "y5", "y6", "y7"};

/* Returns the case's numbers from `first` on. */
static size_t integers_of(const layer_case *options, size_t first, int *out) {
  for (size_t i = first; i < options->number_count; i++)
    out[i - first] = (int)options->numbers[i];
  return options->number_count - first;
}

/* Results y0, y1, ..., times 1, 2, ... */
static void judge_parts(layer_test *test, const tdm_value *parts, size_t count, double step) {
  for (size_t i = 0; i < count; i++)
    layer_judge(test, ys[i], tdm_mul_scalar(test->graph, "times", parts[i], 1 + step * (double)i));
}

/* Numbers of the case: dimension, descending. */
static void sort(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  const int dimension = (int)options->numbers[0];
  const bool descending = options->numbers[1] != 0;
  tdm_value indices;
  layer_judge(test, "y", tdm_sort(test->graph, "f", x, dimension, descending, &indices));
  layer_output(test, "indices", indices);
  layer_output(test, "argsort", tdm_argsort(test->graph, "g", x, dimension, descending));
}

/* Numbers of the case: k, dimension, largest. */
static void topk(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_value indices;
  layer_judge(test, "y",
              tdm_topk(test->graph, "f", layer_parameter(test, "x"), (int64_t)numbers[0],
                       (int)numbers[1], numbers[2] != 0, &indices));
  layer_output(test, "indices", indices);
}

/* Numbers of the case: dimension, keep. */
static void median(layer_test *test, const layer_case *options) {
  layer_judge(test, "y",
              tdm_median(test->graph, "f", layer_parameter(test, "x"), (int)options->numbers[0],
                         options->numbers[1] != 0));
}

/* Numbers of the case: count, letters. */
static void einsum(layer_test *test, const layer_case *options) {
  char equation[MOST_LETTERS] = {0};
  tdm_value operands[MOST_VALUES];
  const size_t count = (size_t)options->numbers[0];
  for (size_t i = 1; i < options->number_count; i++)
    equation[i - 1] = (char)options->numbers[i];
  for (size_t i = 0; i < count; i++)
    operands[i] = layer_parameter(test, xs[i]);
  layer_judge(test, "y", tdm_einsum(test->graph, "f", equation, operands, count));
}

static void outer(layer_test *test, const layer_case *options) {
  (void)options;
  const tdm_value a = layer_parameter(test, "a"), b = layer_parameter(test, "b");
  layer_judge(test, "y", tdm_outer(test->graph, "f", a, b));
}

/* Numbers of the case: dimension, count. */
static void split_evenly(layer_test *test, const layer_case *options) {
  tdm_value parts[MOST_VALUES];
  const size_t count = (size_t)options->numbers[1];
  tdm_split_evenly(test->graph, "f", layer_parameter(test, "x"), (int)options->numbers[0], count,
                   parts);
  judge_parts(test, parts, count, 1);
}

/* Numbers of the case: dimension, count. */
static void unbind(layer_test *test, const layer_case *options) {
  tdm_value parts[MOST_VALUES];
  const size_t count = (size_t)options->numbers[1];
  tdm_unbind(test->graph, "f", layer_parameter(test, "x"), (int)options->numbers[0], count, parts);
  judge_parts(test, parts, count, 1);
}

/* Numbers of the case: offset, first, second. */
static void diagonal(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  layer_judge(test, "y",
              tdm_diagonal(test->graph, "f", layer_parameter(test, "x"), (int64_t)numbers[0],
                           (int)numbers[1], (int)numbers[2]));
}

static void trace(layer_test *test, const layer_case *options) {
  (void)options;
  layer_judge(test, "y", tdm_diagonal_sum(test->graph, "f", layer_parameter(test, "x")));
}

/* Numbers of the case: count. */
static void meshgrid(layer_test *test, const layer_case *options) {
  tdm_value values[MOST_VALUES], grids[MOST_VALUES];
  const size_t count = (size_t)options->numbers[0];
  for (size_t i = 0; i < count; i++)
    values[i] = layer_parameter(test, xs[i]);
  tdm_meshgrid(test->graph, "f", values, count, grids);
  judge_parts(test, grids, count, 0);
}

/* Numbers of the case: correction, keep, dimensions. */
static void deviation(layer_test *test, const layer_case *options) {
  int dimensions[MOST_LETTERS];
  const size_t count = integers_of(options, 2, dimensions);
  layer_judge(test, "y",
              tdm_std(test->graph, "f", layer_parameter(test, "x"), dimensions, count,
                      options->numbers[0], options->numbers[1] != 0));
}

/* Numbers of the case: p, keep, dimensions. */
static void norm(layer_test *test, const layer_case *options) {
  int dimensions[MOST_LETTERS];
  const size_t count = integers_of(options, 2, dimensions);
  const double p = options->numbers[0];
  layer_judge(test, "y",
              tdm_norm(test->graph, "f", layer_parameter(test, "x"),
                       fabs(p) == 1000 ? copysign(INFINITY, p) : p, dimensions, count,
                       options->numbers[1] != 0));
}

/* Numbers of the case: p, dimension, epsilon. */
static void normalize(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  layer_judge(test, "y",
              tdm_normalize(test->graph, "f", layer_parameter(test, "x"), numbers[0],
                            (int)numbers[1], numbers[2]));
}

/* Numbers of the case: dimension. */
static void cumprod(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_cumprod(test->graph, "f", x, (int)options->numbers[0]));
}

/* Numbers of the case: dimension. */
static void logcumsumexp(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_logcumsumexp(test->graph, "f", x, (int)options->numbers[0]));
}

const layer_builder arrays_builders[] = {
    {"sort", {.build = sort}},
    {"sort_equals", {.build = sort, .not_smooth = "equals change places"}},
    {"topk", {.build = topk}},
    {"median", {.build = median}},
    {"einsum", {.build = einsum}},
    {"outer", {.build = outer}},
    {"split_evenly", {.build = split_evenly}},
    {"unbind", {.build = unbind}},
    {"diagonal", {.build = diagonal}},
    {"trace", {.build = trace}},
    {"meshgrid", {.build = meshgrid}},
    {"std", {.build = deviation}},
    {"std_of_equals", {.build = deviation, .not_smooth = "a deviation has a corner at 0"}},
    {"norm", {.build = norm}},
    {"norm_of_zeros", {.build = norm, .not_smooth = "a norm has a corner at 0"}},
    {"normalize", {.build = normalize}},
    {"cumprod", {.build = cumprod}},
    {"logcumsumexp", {.build = logcumsumexp}},
    {.layer = NULL},
};
