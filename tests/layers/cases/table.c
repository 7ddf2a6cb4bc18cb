/* Builders of the golden cases of tests/golden/table_cases.py. */
#include "tests/layers/layer_cases.h"
#include "tests/options.h"

/* Numbers of the case: mode, rows, dim, by offsets, ends, scaled, has padding, padding, sparse. */
static void bag(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  tdm_embedding_bag_options chosen =
      OPTIONS(tdm_embedding_bag_options, o.mode = (tdm_bag_mode)(int)numbers[0],
              o.include_last_offset = numbers[4] != 0, o.sparse = numbers[8] != 0);
  if (numbers[3] != 0) chosen.offsets = layer_input(test, "offsets");
  if (numbers[5] != 0) chosen.scales = layer_parameter(test, "scales");
  if (numbers[6] != 0) chosen.padding_index = (int64_t)numbers[7];
  const tdm_value ids = layer_input(test, "ids");
  layer_judge(test, "y",
              tdm_embedding_bag(test->graph, "layer", ids, (int64_t)numbers[1], (int64_t)numbers[2],
                                &chosen));
}

static void matmul(layer_test *test, const layer_case *options) {
  (void)options;
  const tdm_value a = layer_parameter(test, "a"), b = layer_parameter(test, "b");
  layer_judge(test, "y", tdm_matmul(test->graph, "f", a, b));
}

/* Numbers of the case: first, second. */
static void transpose(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(
      test, "y",
      tdm_transpose(test->graph, "f", x, (int)options->numbers[0], (int)options->numbers[1]));
}

/* Numbers of the case: with self. */
static void dot_interaction(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_dot_interaction(test->graph, "f", x, options->numbers[0] != 0));
}

static tdm_value padding_of(layer_test *test, double padded) {
  return padded != 0 ? layer_input(test, "padding") : (tdm_value){0, 0};
}

static tdm_value mask_of(layer_test *test, double kind) {
  return kind != 0 ? layer_input(test, "mask") : (tdm_value){0, 0};
}

/* Numbers of the case: heads, causal, padded, mask. */
static void attention(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_value q = layer_parameter(test, "q"), k = layer_parameter(test, "k");
  const tdm_value v = layer_parameter(test, "v");
  const tdm_attention_options chosen =
      OPTIONS(tdm_attention_options, o.heads = (int64_t)numbers[0], o.causal = numbers[1] != 0,
              o.padding = padding_of(test, numbers[2]), o.mask = mask_of(test, numbers[3]));
  layer_judge(test, "y", tdm_attention(test->graph, "f", q, k, v, &chosen));
}

/* Numbers of the case: heads, batch first, bias, causal, padded, same, mask. */
static void multi_head_attention(layer_test *test, const layer_case *options) {
  const double *numbers = options->numbers;
  const tdm_value query = layer_parameter(test, "query");
  const bool same = numbers[5] != 0;
  const tdm_value key = same ? query : layer_parameter(test, "key");
  const tdm_value value = same ? query : layer_parameter(test, "value");
  const tdm_multi_head_attention_options chosen =
      OPTIONS(tdm_multi_head_attention_options, o.batch_first = numbers[1] != 0,
              o.without_bias = numbers[2] == 0, o.causal = numbers[3] != 0,
              o.padding = padding_of(test, numbers[4]), o.mask = mask_of(test, numbers[6]));
  layer_judge(test, "y",
              tdm_multi_head_attention(test->graph, "layer", query, key, value, (int64_t)numbers[0],
                                       &chosen));
}

const layer_builder table_builders[] = {
    {"embedding_bag", {.build = bag}},
    {"matmul", {.build = matmul}},
    {"transpose", {.build = transpose}},
    {"dot_interaction", {.build = dot_interaction}},
    {"attention", {.build = attention}},
    {"multi_head_attention", {.build = multi_head_attention}},
    {.layer = NULL},
};
