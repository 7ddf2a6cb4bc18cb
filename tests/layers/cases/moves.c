/* Builders of the golden cases of tests/golden/moves_cases.py. */
#include <stdio.h>

#include "tests/layers/layer_cases.h"

enum { MOST_NUMBERS = 16 };

/* Returns the case's numbers from `first` on. */
static size_t integers_of(const layer_case *options, size_t first, int *out) {
  for (size_t i = first; i < options->number_count; i++)
    out[i - first] = (int)options->numbers[i];
  return options->number_count - first;
}

static size_t sizes_of(const layer_case *options, size_t first, int64_t *out) {
  for (size_t i = first; i < options->number_count; i++)
    out[i - first] = (int64_t)options->numbers[i];
  return options->number_count - first;
}

/* Numbers of the case: dimension, begin, end, step. */
static void slice(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  layer_judge(test, "y",
              tdm_slice(test->graph, "f", layer_parameter(test, "x"), (int)numbers[0],
                        (int64_t)numbers[1], (int64_t)numbers[2], (int64_t)numbers[3]));
}

/* Numbers of the case: dimensions. */
static void permute(layer_test *test, const layer_case *options) {
  int order[MOST_NUMBERS];
  const size_t count = integers_of(options, 0, order);
  layer_judge(test, "y", tdm_permute(test->graph, "f", layer_parameter(test, "x"), order, count));
}

/* Numbers of the case: dimensions. */
static void flip(layer_test *test, const layer_case *options) {
  int flipped[MOST_NUMBERS];
  const size_t count = integers_of(options, 0, flipped);
  layer_judge(test, "y", tdm_flip(test->graph, "f", layer_parameter(test, "x"), flipped, count));
}

/* Numbers of the case: shift, dimension. */
static void roll(layer_test *test, const layer_case *options) {
  layer_judge(test, "y",
              tdm_roll(test->graph, "f", layer_parameter(test, "x"), (int64_t)options->numbers[0],
                       (int)options->numbers[1]));
}

/* Numbers of the case: upper, diagonal. */
static void triangle(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  const int64_t diagonal = (int64_t)options->numbers[1];
  layer_judge(test, "y",
              (options->numbers[0] != 0 ? tdm_triu : tdm_tril)(test->graph, "f", x, diagonal));
}

/* Numbers of the case: first, last, inserted. */
static void dimensions(layer_test *test, const layer_case *options) {
  const int inserted = (int)options->numbers[2];
  const tdm_value flat = tdm_flatten(test->graph, "flat", layer_parameter(test, "x"),
                                     (int)options->numbers[0], (int)options->numbers[1]);
  const tdm_value y = tdm_unsqueeze(test->graph, "more", flat, inserted);
  layer_judge(test, "y", y);
  const tdm_value squeezed = tdm_squeeze(test->graph, "less", y, inserted);
  layer_judge(test, "z", tdm_mul_scalar(test->graph, "twice", squeezed, 2));
}

/* Numbers of the case: count, dimension. */
static void stack(layer_test *test, const layer_case *options) {
  const size_t count = (size_t)options->numbers[0];
  static char names[MOST_NUMBERS][24];
  tdm_value parts[MOST_NUMBERS];
  for (size_t i = 0; i < count; i++) {
    (void)snprintf(names[i], sizeof names[i], "x%zu", i);
    parts[i] = layer_parameter(test, names[i]);
  }
  layer_judge(test, "y", tdm_stack(test->graph, "f", parts, count, (int)options->numbers[1]));
}

/* Numbers of the case: sizes. */
static void expand(layer_test *test, const layer_case *options) {
  tdm_shape wanted = {.rank = 0};
  wanted.rank = (int32_t)sizes_of(options, 0, wanted.dims);
  layer_judge(test, "y", tdm_expand(test->graph, "f", layer_parameter(test, "x"), wanted));
}

static void expand_as(layer_test *test, const layer_case *options) {
  (void)options;
  const tdm_value x = layer_parameter(test, "x"), like = layer_parameter(test, "like");
  layer_judge(test, "y",
              tdm_mul(test->graph, "times", tdm_expand_as(test->graph, "f", x, like), like));
}

/* Numbers of the case: times. */
static void repeat(layer_test *test, const layer_case *options) {
  int64_t times[MOST_NUMBERS];
  const size_t count = sizes_of(options, 0, times);
  layer_judge(test, "y", tdm_repeat(test->graph, "f", layer_parameter(test, "x"), times, count));
}

/* Numbers of the case: mode, value, amounts. */
static void pad(layer_test *test, const layer_case *options) {
  int64_t amounts[MOST_NUMBERS];
  const size_t count = sizes_of(options, 2, amounts);
  layer_judge(test, "y",
              tdm_pad(test->graph, "f", layer_parameter(test, "x"), amounts, count,
                      (tdm_pad_mode)options->numbers[0], options->numbers[1]));
}

/* Numbers of the case: start, end, step. */
static void arange(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_value counted =
      tdm_arange(test->graph, "f", test->golden->dtype, numbers[0], numbers[1], numbers[2]);
  layer_judge(test, "y", tdm_mul(test->graph, "times", counted, layer_parameter(test, "x")));
  if (numbers[0] == (double)(int)numbers[0] && numbers[2] == (double)(int)numbers[2])
    layer_output(test, "whole",
                 tdm_arange(test->graph, "g", TDM_INT64, numbers[0], numbers[1], numbers[2]));
}

/* Numbers of the case: dimension. */
static void places(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_output(test, "places", tdm_arange_like(test->graph, "f", x, (int)options->numbers[0]));
  layer_judge(test, "y", tdm_mul_scalar(test->graph, "once", x, 1));
}

static void integers(layer_test *test, const layer_case *options) {
  (void)options;
  tdm_graph *graph = test->graph;
  const tdm_value a = layer_input(test, "a"), b = layer_input(test, "b");
  const tdm_value condition = layer_input(test, "condition");
  layer_output(test, "sub", tdm_sub(graph, "sub", a, b));
  layer_output(test, "mul", tdm_mul(graph, "mul", a, b));
  layer_output(test, "maximum", tdm_maximum(graph, "maximum", a, b));
  layer_output(test, "minimum", tdm_minimum(graph, "minimum", a, b));
  layer_output(test, "where", tdm_where(graph, "where", condition, a, b));
  layer_judge(test, "y", tdm_mul_scalar(graph, "once", layer_parameter(test, "x"), 1));
}

/* Numbers of the case: dimension. */
static void gather(layer_test *test, const layer_case *options) {
  const tdm_value index = layer_input(test, "index"), x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_gather(test->graph, "f", x, (int)options->numbers[0], index));
}

/* Numbers of the case: dimension. */
static void index_select(layer_test *test, const layer_case *options) {
  const tdm_value index = layer_input(test, "index"), x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_index_select(test->graph, "f", x, (int)options->numbers[0], index));
}

/* Numbers of the case: dimension. */
static void scatter_add(layer_test *test, const layer_case *options) {
  const tdm_value index = layer_input(test, "index");
  const tdm_value x = layer_parameter(test, "x"), source = layer_parameter(test, "source");
  layer_judge(test, "y",
              tdm_scatter_add(test->graph, "f", x, (int)options->numbers[0], index, source));
}

/* Numbers of the case: classes. */
static void one_hot(layer_test *test, const layer_case *options) {
  tdm_graph *graph = test->graph;
  const tdm_value ids = layer_input(test, "ids");
  const tdm_value hot = tdm_one_hot(graph, "f", ids, (int64_t)options->numbers[0]);
  layer_output(test, "hot", hot);
  const tdm_value x = layer_parameter(test, "x");
  const tdm_value real = tdm_cast(graph, "real", hot, test->golden->dtype);
  layer_judge(test, "y", tdm_mul(graph, "times", real, x));
}

/* Numbers of the case: dimension, keep. */
static void prod(layer_test *test, const layer_case *options) {
  const int dimension = (int)options->numbers[0];
  layer_judge(test, "y",
              tdm_prod(test->graph, "f", layer_parameter(test, "x"), &dimension, 1,
                       options->numbers[1] != 0));
}

/* Numbers of the case: dimension, keep. */
static void logsumexp(layer_test *test, const layer_case *options) {
  const int dimension = (int)options->numbers[0];
  layer_judge(test, "y",
              tdm_logsumexp(test->graph, "f", layer_parameter(test, "x"), &dimension, 1,
                            options->numbers[1] != 0));
}

/* Numbers of the case: a product or a sum of exponentials, keep, dimensions. */
static void over(layer_test *test, const layer_case *options) {
  int list[TDM_MAX_RANK];
  const size_t count = options->number_count - 2;
  for (size_t i = 0; i < count; i++)
    list[i] = (int)options->numbers[2 + i];
  const bool keep = options->numbers[1] != 0;
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y",
              options->numbers[0] != 0 ? tdm_prod(test->graph, "f", x, list, count, keep)
                                       : tdm_logsumexp(test->graph, "f", x, list, count, keep));
}

const layer_builder moves_builders[] = {
    {"gather", {.build = gather}},
    {"index_select", {.build = index_select}},
    {"scatter_add", {.build = scatter_add}},
    {"one_hot", {.build = one_hot}},
    {"prod", {.build = prod}},
    {"logsumexp", {.build = logsumexp}},
    {"over", {.build = over}},
    {"slice", {.build = slice}},
    {"permute", {.build = permute}},
    {"flip", {.build = flip}},
    {"roll", {.build = roll}},
    {"triangle", {.build = triangle}},
    {"dimensions", {.build = dimensions}},
    {"stack", {.build = stack}},
    {"expand", {.build = expand}},
    {"expand_as", {.build = expand_as}},
    {"repeat", {.build = repeat}},
    {"pad", {.build = pad}},
    {"arange", {.build = arange}},
    {"places", {.build = places}},
    {"integers", {.build = integers}},
    {.layer = NULL},
};
