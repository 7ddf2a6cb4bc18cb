/* Builders of the golden cases of layers, functions and losses, and the table of them. Names and
 * options are those of tests/golden/layer_cases.py. golden_layers_test fails if one side lacks a
 * case. */
#include "tests/layers/layer_cases.h"
#include "tests/options.h"

#include <stdio.h>
#include <string.h>

static void embedding(layer_test *test, const layer_case *options) {
  tdm_embedding_options chosen = OPTIONS(tdm_embedding_options, o.sparse = options->sparse);
  if (options->padding_index) chosen.padding_index = *options->padding_index;
  const tdm_value ids = layer_input(test, "ids");
  layer_judge(test, "y", tdm_embedding_with(test->graph, "layer", ids, 7, 5, &chosen));
  if (!options->twice) return;
  tdm_tie(test->graph, "layer", "layer");
  const tdm_value other = layer_input(test, "other_ids");
  layer_judge(test, "z", tdm_embedding_with(test->graph, "layer", other, 7, 5, &chosen));
}

static tdm_value make_linear(layer_test *test, const layer_case *options, tdm_value x) {
  const tdm_tensor *weight = golden_tensor(test->golden, test->name, "parameter", "layer.weight");
  const int64_t out = tdm_tensor_shape(weight).dims[0];
  return options->without_bias ? tdm_linear_without_bias(test->graph, "layer", x, out)
                               : tdm_linear(test->graph, "layer", x, out);
}

static void linear(layer_test *test, const layer_case *options) {
  layer_judge(test, "y", make_linear(test, options, layer_parameter(test, "x")));
  if (!options->twice) return;
  tdm_tie(test->graph, "layer", "layer");
  layer_judge(test, "z", make_linear(test, options, layer_parameter(test, "other_x")));
}

static void rnn(layer_test *test, const layer_case *options) {
  static const char *const states[] = {"h_n0", "h_n1", "h_n2"};
  tdm_rnn_options chosen = OPTIONS(tdm_rnn_options, o.layers = OR_ONE(options->layers),
                                   o.relu = options->relu, o.batch_first = options->batch_first);
  const tdm_value x = layer_parameter(test, "x");
  if (options->has_h0) chosen.h0 = layer_parameter(test, "h0");
  tdm_value h_n;
  layer_judge(test, "y", tdm_rnn(test->graph, "layer", x, 6, &chosen, &h_n));
  for (int i = 0; i < 3 && i < chosen.layers; i++)
    layer_judge(test, states[i], tdm_select(test->graph, states[i], h_n, 0, i));
}

static void rnn_last_step(layer_test *test, const layer_case *options) {
  (void)options;
  const tdm_value y = tdm_rnn(test->graph, "layer", layer_parameter(test, "x"), 6, NULL, NULL);
  layer_judge(test, "y", tdm_last_step(test->graph, "last", y));
}

static void relu(layer_test *test, const layer_case *options) {
  (void)options;
  layer_judge(test, "y", tdm_relu(test->graph, "f", layer_parameter(test, "x")));
}

static void tanh_function(layer_test *test, const layer_case *options) {
  (void)options;
  layer_judge(test, "y", tdm_tanh(test->graph, "f", layer_parameter(test, "x")));
}

static void sigmoid(layer_test *test, const layer_case *options) {
  (void)options;
  layer_judge(test, "y", tdm_sigmoid(test->graph, "f", layer_parameter(test, "x")));
}

static void add(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  const tdm_value b = options->twice ? x : layer_parameter(test, "b");
  layer_judge(test, "y", tdm_add(test->graph, "f", x, b));
}

static void cast(layer_test *test, const layer_case *options) {
  (void)options;
  const tdm_dtype dtype = test->golden->dtype;
  const tdm_dtype other = dtype == TDM_FLOAT32 ? TDM_FLOAT64 : TDM_FLOAT32;
  tdm_value x = tdm_cast(test->graph, "there", layer_parameter(test, "x"), other);
  x = tdm_cast(test->graph, "back", x, dtype);
  layer_judge(test, "y", tdm_tanh(test->graph, "f", x));
}

static void shared(layer_test *test, const layer_case *options) {
  (void)options;
  tdm_graph *graph = test->graph;
  const tdm_value y = tdm_tanh(graph, "tanh", layer_parameter(test, "x"));
  const tdm_value sum =
      tdm_add(graph, "add", tdm_relu(graph, "relu", y), tdm_sigmoid(graph, "sigmoid", y));
  layer_judge(test, "y", sum);
  layer_judge(test, "z", tdm_softmax(graph, "softmax", y, -1));
}

static void reshape(layer_test *test, const layer_case *options) {
  const tdm_value x = tdm_reshape(test->graph, "view", layer_parameter(test, "x"), options->shape);
  layer_judge(test, "y", tdm_tanh(test->graph, "f", x));
}

static void select_function(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_select(test->graph, "f", x, options->dimension, options->index));
}

static void last_step(layer_test *test, const layer_case *options) {
  (void)options;
  layer_judge(test, "y", tdm_last_step(test->graph, "f", layer_parameter(test, "x")));
}

static void swap(layer_test *test, const layer_case *options) {
  (void)options;
  layer_judge(test, "y", tdm_swap_first_dimensions(test->graph, "f", layer_parameter(test, "x")));
}

static void softmax(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_softmax(test->graph, "f", x, options->dimension));
}

static void log_softmax(layer_test *test, const layer_case *options) {
  const tdm_value x = layer_parameter(test, "x");
  layer_judge(test, "y", tdm_log_softmax(test->graph, "f", x, options->dimension));
}

/* A scalar loss is itself the loss; one value a row is judged. */
static void finish_loss(layer_test *test, const layer_case *options, tdm_value loss) {
  if (options->reduction == TDM_LOSS_NONE) {
    layer_judge(test, "y", loss);
  } else {
    layer_output(test, "y", loss);
    layer_add_loss(test, loss);
  }
}

static void cross_entropy(layer_test *test, const layer_case *options) {
  tdm_loss_options chosen = OPTIONS(tdm_loss_options, o.reduction = options->reduction);
  if (options->ignore_index) chosen.ignore_index = *options->ignore_index;
  const tdm_value logits = layer_parameter(test, "logits");
  const tdm_value targets = layer_input(test, "targets");
  finish_loss(test, options, tdm_cross_entropy_with(test->graph, "f", logits, targets, &chosen));
}

static void mse(layer_test *test, const layer_case *options) {
  const tdm_loss_options chosen = OPTIONS(tdm_loss_options, o.reduction = options->reduction);
  const tdm_value a = layer_parameter(test, "a");
  const tdm_value b = layer_parameter(test, "b");
  finish_loss(test, options, tdm_mse_with(test->graph, "f", a, b, &chosen));
}

#define PADDED "a padding row gets no gradient, whatever the loss does"

static const layer_case fixed_cases[] = {
    {.name = "embedding", .build = embedding},
    {.name = "embedding_scalar", .build = embedding},
    {.name = "embedding_2d", .build = embedding},
    {.name = "embedding_int32", .build = embedding},
    {.name = "embedding_padding",
     .build = embedding,
     .not_smooth = PADDED,
     .padding_index = &(const int64_t){2}},
    {.name = "embedding_padding_negative",
     .build = embedding,
     .not_smooth = PADDED,
     .padding_index = &(const int64_t){-1}},
    {.name = "embedding_tied", .build = embedding, .twice = true},
    {.name = "embedding_sparse", .build = embedding, .sparse = true},
    {.name = "embedding_sparse_padding",
     .build = embedding,
     .not_smooth = PADDED,
     .padding_index = &(const int64_t){2},
     .sparse = true},
    {.name = "embedding_sparse_tied", .build = embedding, .twice = true, .sparse = true},
    {.name = "linear", .build = linear},
    {.name = "linear_1d", .build = linear},
    {.name = "linear_3d", .build = linear},
    {.name = "linear_4d", .build = linear},
    {.name = "linear_one", .build = linear},
    {.name = "linear_wide", .build = linear},
    {.name = "linear_without_bias", .build = linear, .without_bias = true},
    {.name = "linear_tied", .build = linear, .twice = true},
    {.name = "rnn_last_step", .build = rnn_last_step},
    {.name = "rnn_one_step", .build = rnn},
    {.name = "rnn_one_row", .build = rnn},
    {.name = "relu", .build = relu},
    {.name = "tanh", .build = tanh_function},
    {.name = "sigmoid", .build = sigmoid},
    {.name = "add", .build = add},
    {.name = "add_same", .build = add, .twice = true},
    {.name = "cast", .build = cast, .not_smooth = "rounding to float32 makes steps"},
    {.name = "shared", .build = shared},
    {.name = "reshape", .build = reshape, .shape = {.rank = 3, .dims = {2, 7, 2}}},
    {.name = "reshape_infer", .build = reshape, .shape = {.rank = 2, .dims = {7, TDM_INFER}}},
    {.name = "select_first", .build = select_function, .dimension = 0, .index = 1},
    {.name = "select_middle", .build = select_function, .dimension = 1, .index = -1},
    {.name = "select_last", .build = select_function, .dimension = -1, .index = 2},
    {.name = "last_step", .build = last_step},
    {.name = "swap_2d", .build = swap},
    {.name = "swap_3d", .build = swap},
    {.name = "softmax_1d_0", .build = softmax, .dimension = 0},
    {.name = "softmax_2d_0", .build = softmax, .dimension = 0},
    {.name = "softmax_2d_1", .build = softmax, .dimension = -1},
    {.name = "softmax_3d_1", .build = softmax, .dimension = 1},
    {.name = "log_softmax_1d_0", .build = log_softmax, .dimension = 0},
    {.name = "log_softmax_2d_0", .build = log_softmax, .dimension = 0},
    {.name = "log_softmax_2d_1", .build = log_softmax, .dimension = -1},
    {.name = "log_softmax_3d_1", .build = log_softmax, .dimension = 1},
    {.name = "mse_mean", .build = mse},
    {.name = "mse_sum", .build = mse, .reduction = TDM_LOSS_SUM},
    {.name = "mse_none", .build = mse, .reduction = TDM_LOSS_NONE},
    {.name = "cross_entropy_mean", .build = cross_entropy},
    {.name = "cross_entropy_sum", .build = cross_entropy, .reduction = TDM_LOSS_SUM},
    {.name = "cross_entropy_none", .build = cross_entropy, .reduction = TDM_LOSS_NONE},
    {.name = "cross_entropy_mean_ignore",
     .build = cross_entropy,
     .ignore_index = &(const int64_t){3}},
    {.name = "cross_entropy_sum_ignore",
     .build = cross_entropy,
     .reduction = TDM_LOSS_SUM,
     .ignore_index = &(const int64_t){3}},
    {.name = "cross_entropy_none_ignore",
     .build = cross_entropy,
     .reduction = TDM_LOSS_NONE,
     .ignore_index = &(const int64_t){3}},
    {.name = "cross_entropy_mean_default_ignore", .build = cross_entropy},
    {.name = "cross_entropy_sum_default_ignore", .build = cross_entropy, .reduction = TDM_LOSS_SUM},
    {.name = "cross_entropy_none_default_ignore",
     .build = cross_entropy,
     .reduction = TDM_LOSS_NONE},
    {.name = "cross_entropy_int32", .build = cross_entropy},
};

/* Every combination of layers, function, order of dimensions and first state. */
static layer_case rnn_case(int index) {
  static const char *const names[] = {
      "rnn_1_tanh", "rnn_1_tanh_h0", "rnn_1_tanh_batch_first", "rnn_1_tanh_batch_first_h0",
      "rnn_1_relu", "rnn_1_relu_h0", "rnn_1_relu_batch_first", "rnn_1_relu_batch_first_h0",
      "rnn_2_tanh", "rnn_2_tanh_h0", "rnn_2_tanh_batch_first", "rnn_2_tanh_batch_first_h0",
      "rnn_2_relu", "rnn_2_relu_h0", "rnn_2_relu_batch_first", "rnn_2_relu_batch_first_h0",
      "rnn_3_tanh", "rnn_3_tanh_h0", "rnn_3_tanh_batch_first", "rnn_3_tanh_batch_first_h0",
      "rnn_3_relu", "rnn_3_relu_h0", "rnn_3_relu_batch_first", "rnn_3_relu_batch_first_h0"};
  return (layer_case){.name = names[index],
                      .build = rnn,
                      .layers = 1 + index / 8,
                      .relu = (index & 4) != 0,
                      .batch_first = (index & 2) != 0,
                      .has_h0 = (index & 1) != 0};
}

size_t layer_cases_all(layer_case *cases, size_t capacity) {
  size_t count = sizeof fixed_cases / sizeof fixed_cases[0];
  if (count + 24 > capacity) return 0;
  memcpy(cases, fixed_cases, sizeof fixed_cases);
  for (int i = 0; i < 24; i++)
    cases[count++] = rnn_case(i);
  return count;
}
