/* Layers refuse illegal arguments: creating the session fails with a message that names the layer
 * and the argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

typedef struct error_case {
  tdm_value (*build)(tdm_graph *graph);
  const char *says[4]; /* all expected in the message */
} error_case;

static tdm_value floats(tdm_graph *graph, const char *name, tdm_shape shape) {
  return tdm_input(graph, name, TDM_FLOAT32, shape);
}

static tdm_value ids_of(tdm_graph *graph, tdm_shape shape) {
  return tdm_input(graph, "ids", TDM_INT64, shape);
}

static tdm_value batch_by(tdm_graph *graph, int64_t size) {
  return floats(graph, "x", tdm_shape_of(2, TDM_DIM("batch"), size));
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static tdm_value linear_tied(tdm_graph *graph) {
  tdm_linear(graph, "rnn", batch_by(graph, 10), 10);
  tdm_tie(graph, "rnn", "rnn");
  return tdm_linear(graph, "rnn", floats(graph, "wide", tdm_shape_of(2, 3, 32)), 10);
}

static tdm_value linear_unknown_features(tdm_graph *graph) {
  return tdm_linear(graph, "fc", floats(graph, "x", tdm_shape_of(2, 3, TDM_DIM("width"))), 10);
}

static tdm_value linear_of_scalar(tdm_graph *graph) {
  return tdm_linear(graph, "fc", floats(graph, "x", tdm_shape_scalar()), 10);
}

static tdm_value embedding_of_full_rank(tdm_graph *graph) {
  return tdm_embedding(graph, "table", ids_of(graph, tdm_shape_of(8, 1, 1, 1, 1, 1, 1, 1, 2)), 7,
                       5);
}

static tdm_value rnn_of_vector(tdm_graph *graph) {
  return tdm_rnn(graph, "rnn", floats(graph, "x", tdm_shape_of(1, 10)), 6, NULL, NULL);
}

static tdm_value rnn_with_wrong_h0(tdm_graph *graph) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.layers = 2, o.h0 = floats(graph, "h0", tdm_shape_of(3, 1, 4, 6)));
  return tdm_rnn(graph, "rnn", floats(graph, "x", tdm_shape_of(3, 5, 4, 8)), 6, &options, NULL);
}

static tdm_value rnn_with_h0_of_other_batch(tdm_graph *graph) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.h0 = floats(graph, "h0", tdm_shape_of(3, 1, 9, 6)));
  return tdm_rnn(graph, "rnn", floats(graph, "x", tdm_shape_of(3, 5, 4, 8)), 6, &options, NULL);
}

static tdm_value recurrent_x(tdm_graph *graph) {
  return floats(graph, "x", tdm_shape_of(3, 5, 4, 8));
}

static tdm_value lstm_with_wrong_c0(tdm_graph *graph) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.bidirectional = true,
                                          o.c0 = floats(graph, "c0", tdm_shape_of(3, 1, 4, 6)));
  return tdm_lstm(graph, "lstm", recurrent_x(graph), 6, &options, NULL, NULL);
}

static tdm_value gru_with_c0(tdm_graph *graph) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.c0 = floats(graph, "c0", tdm_shape_of(3, 1, 4, 6)));
  return tdm_gru(graph, "gru", recurrent_x(graph), 6, &options, NULL);
}

static tdm_value lstm_with_relu(tdm_graph *graph) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.relu = true);
  return tdm_lstm(graph, "lstm", recurrent_x(graph), 6, &options, NULL, NULL);
}

static tdm_value gru_with_lengths_of_other_batch(tdm_graph *graph) {
  const tdm_rnn_options options = OPTIONS(
      tdm_rnn_options, o.lengths = tdm_input(graph, "lengths", TDM_INT64, tdm_shape_of(1, 3)));
  return tdm_gru(graph, "gru", recurrent_x(graph), 6, &options, NULL);
}

static tdm_value gru_with_lengths_of_floats(tdm_graph *graph) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.lengths = floats(graph, "lengths", tdm_shape_of(1, 4)));
  return tdm_gru(graph, "gru", recurrent_x(graph), 6, &options, NULL);
}

static tdm_value lstm_of_no_state(tdm_graph *graph) {
  return tdm_lstm(graph, "lstm", recurrent_x(graph), 0, NULL, NULL, NULL);
}

static tdm_value lstm_with_dropout_above_1(tdm_graph *graph) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.layers = 2, o.dropout = 1.5);
  return tdm_lstm(graph, "lstm", recurrent_x(graph), 6, &options, NULL, NULL);
}

static tdm_value lstm_with_empty_name(tdm_graph *graph) {
  return tdm_lstm(graph, "", recurrent_x(graph), 6, NULL, NULL, NULL);
}

static tdm_value rnn_without_layers(tdm_graph *graph) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.layers = -1);
  return tdm_rnn(graph, "rnn", floats(graph, "x", tdm_shape_of(3, 5, 4, 8)), 6, &options, NULL);
}

static tdm_value add_of_two_shapes(tdm_graph *graph) {
  return tdm_add(graph, "sum", floats(graph, "a", tdm_shape_of(2, TDM_DIM("batch"), 3)),
                 floats(graph, "b", tdm_shape_of(2, TDM_DIM("batch"), 4)));
}

static tdm_value reshape_of_other_count(tdm_graph *graph) {
  return tdm_reshape(graph, "view", batch_by(graph, 6), tdm_shape_of(2, TDM_DIM("batch"), 5));
}

static tdm_value reshape_not_divisible(tdm_graph *graph) {
  return tdm_reshape(graph, "view", floats(graph, "x", tdm_shape_of(2, 3, 5)),
                     tdm_shape_of(2, 4, TDM_INFER));
}

static tdm_value reshape_too_open(tdm_graph *graph) {
  return tdm_reshape(graph, "view", floats(graph, "x", tdm_shape_of(2, 3, 5)),
                     tdm_shape_of(2, TDM_INFER, TDM_INFER));
}

static tdm_value select_outside(tdm_graph *graph) {
  return tdm_select(graph, "pick", floats(graph, "x", tdm_shape_of(2, 3, 5)), 1, 5);
}

static tdm_value select_no_dimension(tdm_graph *graph) {
  return tdm_select(graph, "pick", floats(graph, "x", tdm_shape_of(2, 3, 5)), -3, 0);
}

static tdm_value softmax_no_dimension(tdm_graph *graph) {
  return tdm_softmax(graph, "soft", floats(graph, "x", tdm_shape_of(2, 3, 5)), 2);
}

static tdm_value swap_of_vector(tdm_graph *graph) {
  return tdm_swap_first_dimensions(graph, "swap", floats(graph, "x", tdm_shape_of(1, 3)));
}

static tdm_value cross_entropy_of_other_count(tdm_graph *graph) {
  return tdm_cross_entropy(graph, "loss", floats(graph, "x", tdm_shape_of(2, 9, 5)),
                           ids_of(graph, tdm_shape_of(1, 8)));
}

static tdm_value loss_with(tdm_graph *graph, tdm_value weight, double smoothing, double beta) {
  const tdm_loss_options options =
      OPTIONS(tdm_loss_options, o.weight = weight, o.label_smoothing = smoothing,
              o.beta = beta != 0 ? beta : 1.0);
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, 9, 5));
  if (beta != 0) return tdm_huber_with(graph, "loss", x, x, &options);
  return tdm_cross_entropy_with(graph, "loss", x, ids_of(graph, tdm_shape_of(1, 9)), &options);
}

static tdm_value cross_entropy_with_few_weights(tdm_graph *graph) {
  return loss_with(graph, floats(graph, "w", tdm_shape_of(1, 4)), 0, 0);
}

static tdm_value cross_entropy_too_smooth(tdm_graph *graph) {
  return loss_with(graph, (tdm_value){0, 0}, 1.5, 0);
}

static tdm_value huber_with_weight(tdm_graph *graph) {
  return loss_with(graph, floats(graph, "w", tdm_shape_of(1, 5)), 0, 1);
}

static tdm_value huber_of_negative_beta(tdm_graph *graph) {
  return loss_with(graph, (tdm_value){0, 0}, 0, -1);
}

static tdm_value binary_with_weights_of_rows(tdm_graph *graph) {
  const tdm_loss_options options =
      OPTIONS(tdm_loss_options, o.pos_weight = floats(graph, "w", tdm_shape_of(1, 9)));
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, 9, 5));
  return tdm_binary_cross_entropy_with(graph, "loss", x, x, &options);
}

static tdm_value mse_of_two_shapes(tdm_graph *graph) {
  return tdm_mse(graph, "loss", floats(graph, "a", tdm_shape_of(2, 3, 4)),
                 floats(graph, "b", tdm_shape_of(1, 5)));
}

/* ---- Dtypes and other values ----------------------------------------------------------------- */

static tdm_value embedding_of_floats(tdm_graph *graph) {
  return tdm_embedding(graph, "table", floats(graph, "x", tdm_shape_of(1, 3)), 7, 5);
}

/* Their sum is below every integer. */
static tdm_value embedding_padding_of_negative_rows(tdm_graph *graph) {
  const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.padding_index = -100);
  return tdm_embedding_with(graph, "table", ids_of(graph, tdm_shape_of(1, 3)), INT64_MIN, 3,
                            &options);
}

static tdm_value embedding_padding_outside(tdm_graph *graph) {
  const tdm_embedding_options options = OPTIONS(tdm_embedding_options, o.padding_index = -8);
  return tdm_embedding_with(graph, "table", ids_of(graph, tdm_shape_of(1, 3)), 7, 5, &options);
}

static tdm_value linear_of_float64(tdm_graph *graph) {
  return tdm_linear(graph, "fc", tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(2, 3, 4)), 10);
}

static tdm_value relu_of_ids(tdm_graph *graph) {
  return tdm_relu(graph, "relu", ids_of(graph, tdm_shape_of(1, 3)));
}

static tdm_value cross_entropy_of_float_targets(tdm_graph *graph) {
  return tdm_cross_entropy(graph, "loss", floats(graph, "x", tdm_shape_of(2, 9, 5)),
                           floats(graph, "t", tdm_shape_of(1, 9)));
}

static tdm_value cross_entropy_of_images(tdm_graph *graph) {
  return tdm_cross_entropy(graph, "loss", floats(graph, "x", tdm_shape_of(4, 2, 5, 4, 3)),
                           ids_of(graph, tdm_shape_of(3, 2, 3, 4)));
}

static tdm_value cross_entropy_of_other_probabilities(tdm_graph *graph) {
  return tdm_cross_entropy(graph, "loss", floats(graph, "x", tdm_shape_of(3, 2, 5, 4)),
                           floats(graph, "t", tdm_shape_of(3, 2, 4, 5)));
}

static tdm_value probabilities_to_ignore(tdm_graph *graph) {
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.ignore_index = 0);
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, 9, 5));
  return tdm_cross_entropy_with(graph, "loss", x, x, &options);
}

static tdm_value logarithms_of_nll(tdm_graph *graph) {
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.log_target = true);
  return tdm_nll_with(graph, "loss", floats(graph, "x", tdm_shape_of(2, 9, 5)),
                      ids_of(graph, tdm_shape_of(1, 9)), &options);
}

static tdm_value labels_of_floats(tdm_graph *graph) {
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, 9, 5));
  return tdm_multilabel_margin(graph, "loss", x, x);
}

static tdm_value triplets_without_a_margin(tdm_graph *graph) {
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.margin = 0.0);
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, 9, 5));
  return tdm_triplet_margin_with(graph, "loss", x, x, x, &options);
}

static tdm_value options_of_another_size(tdm_graph *graph) {
  const tdm_loss_options options =
      OPTIONS(tdm_loss_options, o.struct_size = TDM_OPTIONS_INITIALIZED | 4096);
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, 9, 5));
  return tdm_mse_with(graph, "loss", x, x, &options);
}

static tdm_value three(tdm_graph *graph) {
  return floats(graph, "three", tdm_shape_of(1, 3));
}

static tdm_value four(tdm_graph *graph) {
  return floats(graph, "four", tdm_shape_of(2, 2, 4));
}

static tdm_value ranking_of_two_shapes(tdm_graph *graph) {
  const tdm_value a = three(graph);
  return tdm_margin_ranking(graph, "loss", a, a, four(graph));
}

static tdm_value hinge_of_two_shapes(tdm_graph *graph) {
  return tdm_hinge_embedding(graph, "loss", three(graph), four(graph));
}

static tdm_value soft_margin_of_two_shapes(tdm_graph *graph) {
  return tdm_soft_margin(graph, "loss", three(graph), four(graph));
}

static tdm_value cosine_of_two_shapes(tdm_graph *graph) {
  const tdm_value a = three(graph);
  return tdm_cosine_embedding(graph, "loss", a, four(graph), a);
}

static tdm_value triplets_of_two_shapes(tdm_graph *graph) {
  const tdm_value a = three(graph);
  return tdm_triplet_margin(graph, "loss", a, a, four(graph));
}

static tdm_value gaussian_of_two_shapes(tdm_graph *graph) {
  const tdm_value a = three(graph);
  return tdm_gaussian_nll(graph, "loss", a, four(graph), a);
}

static tdm_value poisson_of_two_shapes(tdm_graph *graph) {
  return tdm_poisson_nll(graph, "loss", three(graph), four(graph));
}

static tdm_value poisson_of_integers(tdm_graph *graph) {
  return tdm_poisson_nll(graph, "loss", three(graph), ids_of(graph, tdm_shape_of(1, 3)));
}

static tdm_value ranking_of_integers(tdm_graph *graph) {
  const tdm_value ids = ids_of(graph, tdm_shape_of(1, 3));
  return tdm_margin_ranking(graph, "loss", ids, ids, ids);
}

static tdm_value distance_of_two_shapes(tdm_graph *graph) {
  return tdm_pairwise_distance(graph, "far", three(graph), four(graph), 2.0, 1e-6, false);
}

static tdm_value gaussian_of_other_variance(tdm_graph *graph) {
  const tdm_value a = three(graph);
  return tdm_gaussian_nll(graph, "loss", a, a, four(graph));
}

static tdm_value cosine_of_other_targets(tdm_graph *graph) {
  const tdm_value rows = four(graph);
  return tdm_cosine_embedding(graph, "loss", rows, rows, three(graph));
}

static tdm_value labels_of_two_shapes(tdm_graph *graph) {
  return tdm_multilabel_soft_margin(graph, "loss", four(graph), three(graph));
}

static tdm_value bilinear_of_two_batches(tdm_graph *graph) {
  return tdm_bilinear(graph, "form", four(graph), floats(graph, "b", tdm_shape_of(2, 3, 4)), 5);
}

static tdm_value bilinear_of_integers(tdm_graph *graph) {
  return tdm_bilinear(graph, "form", four(graph), ids_of(graph, tdm_shape_of(2, 2, 4)), 5);
}

static tdm_value heads_of_integers(tdm_graph *graph) {
  const tdm_value x = floats(graph, "q", tdm_shape_of(3, 4, 2, 6));
  return tdm_multi_head_attention(graph, "heads", x, ids_of(graph, tdm_shape_of(3, 4, 2, 6)), x, 2,
                                  NULL);
}

static tdm_value heads_of_fewer_values(tdm_graph *graph) {
  const tdm_value x = floats(graph, "q", tdm_shape_of(3, 4, 2, 6));
  const tdm_value values = floats(graph, "v", tdm_shape_of(3, 3, 2, 6));
  return tdm_multi_head_attention(graph, "heads", x, x, values, 2, NULL);
}

static tdm_value encoder_with_long_padding(tdm_graph *graph) {
  const tdm_value padding = tdm_input(graph, "padding", TDM_BOOL, tdm_shape_of(2, 2, 5));
  const tdm_transformer_options options = OPTIONS(tdm_transformer_options, o.padding = padding);
  return tdm_transformer_encoder_layer(graph, "block", floats(graph, "q", tdm_shape_of(3, 4, 2, 6)),
                                       2, &options);
}

static tdm_value decoder_of_other_memory(tdm_graph *graph) {
  return tdm_transformer_decoder_layer(graph, "block", floats(graph, "q", tdm_shape_of(3, 4, 2, 6)),
                                       floats(graph, "m", tdm_shape_of(3, 4, 3, 6)), 2, NULL);
}

static tdm_value no_reduction(tdm_graph *graph) {
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.reduction = (tdm_loss_reduction)3);
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, 9, 5));
  return tdm_mse_with(graph, "loss", x, x, &options);
}

static tdm_value cast_to_nothing(tdm_graph *graph) {
  return tdm_cast(graph, "cast", batch_by(graph, 3), TDM_DTYPE_NONE);
}

static tdm_value linear_of_nothing(tdm_graph *graph) {
  return tdm_linear(graph, "fc", (tdm_value){0, 0}, 10);
}

static const error_case error_cases[] = {
    {linear_tied, {"rnn.weight", "[10, 32]", "[10, 10]"}},
    {linear_unknown_features, {"linear fc", "[3, width]"}},
    {linear_of_scalar, {"linear fc", "[]"}},
    {embedding_of_full_rank, {"embedding table", "ids"}},
    {rnn_of_vector, {"rnn rnn", "[10]", "[length, batch, features]"}},
    {rnn_with_wrong_h0, {"rnn rnn", "h0", "[1, 4, 6]"}},
    {rnn_with_h0_of_other_batch, {"rnn rnn", "h0 is [1, 9, 6]", "expected [1, 4, 6]"}},
    {rnn_without_layers, {"rnn rnn", "layers is -1"}},
    {lstm_with_wrong_c0, {"lstm lstm", "c0 is [1, 4, 6]", "expected [2, 4, 6]"}},
    {gru_with_c0, {"gru gru", "no option c0"}},
    {lstm_with_relu, {"lstm lstm", "no option relu"}},
    {gru_with_lengths_of_other_batch, {"gru gru", "lengths", "[4]", "[3]"}},
    {gru_with_lengths_of_floats, {"gru gru", "lengths", "float32"}},
    {lstm_of_no_state, {"lstm lstm", "hidden is 0", "expected 1 to "}},
    {lstm_with_dropout_above_1, {"lstm lstm", "dropout is 1.5", "0 to 1"}},
    {lstm_with_empty_name, {"name"}},
    {add_of_two_shapes, {"add sum", "[batch, 3]", "[batch, 4]"}},
    {reshape_of_other_count, {"reshape view", "[batch, 6]", "[batch, 5]"}},
    {reshape_not_divisible, {"reshape view", "[3, 5]", "[4, -1]"}},
    {reshape_too_open, {"reshape view", "[-1, -1]"}},
    {select_outside, {"select pick", "index 5", "dimension 1", "[3, 5]"}},
    {select_no_dimension, {"select pick", "dimension -3", "[3, 5]"}},
    {softmax_no_dimension, {"softmax soft", "dimension 2", "[3, 5]"}},
    {swap_of_vector, {"swap_first_dimensions swap", "[3]"}},
    {cross_entropy_of_other_count, {"cross_entropy loss", "[9, 5]", "[8]"}},
    {cross_entropy_with_few_weights, {"cross_entropy loss", "weight is [4]", "expected [5]"}},
    {cross_entropy_too_smooth, {"cross_entropy loss", "label_smoothing", "1.5"}},
    {huber_with_weight, {"huber loss", "takes no weight"}},
    {huber_of_negative_beta, {"huber loss", "beta is -1"}},
    {binary_with_weights_of_rows, {"binary_cross_entropy loss", "pos_weight must be [5]", "[9]"}},
    {mse_of_two_shapes, {"mse loss", "[3, 4]", "[5]", "cannot be broadcast"}},
    {embedding_of_floats, {"embedding table", "ids", "float32"}},
    {embedding_padding_of_negative_rows, {"embedding table", "padding index -100"}},
    {embedding_padding_outside, {"embedding table", "-8", "7 rows"}},
    {linear_of_float64, {"linear fc", "float64", "float32"}},
    {relu_of_ids, {"relu relu", "int64"}},
    {cross_entropy_of_float_targets, {"cross_entropy loss", "targets", "float32"}},
    {cross_entropy_of_images, {"cross_entropy loss", "[2, 5, 4, 3]", "[2, 3, 4]"}},
    {cross_entropy_of_other_probabilities, {"cross_entropy loss", "[2, 5, 4]", "[2, 4, 5]"}},
    {probabilities_to_ignore, {"cross_entropy loss", "no ignore_index"}},
    {logarithms_of_nll, {"nll loss", "takes no log_target"}},
    {labels_of_floats, {"multilabel_margin loss", "targets are float32", "int32 or int64"}},
    {triplets_without_a_margin, {"triplet_margin loss", "margin is 0", "positive"}},
    {options_of_another_size, {"mse loss", "4096 bytes"}},
    {ranking_of_two_shapes, {"margin_ranking loss", "targets is [2, 4]", "cannot be broadcast"}},
    {hinge_of_two_shapes, {"hinge_embedding loss", "x is [3]", "targets is [2, 4]"}},
    {soft_margin_of_two_shapes, {"soft_margin loss", "x is [3]", "targets is [2, 4]"}},
    {cosine_of_two_shapes, {"cosine_embedding loss", "a is [3]", "b is [2, 4]"}},
    {triplets_of_two_shapes, {"triplet_margin loss", "negative is [2, 4]"}},
    {gaussian_of_two_shapes, {"gaussian_nll loss", "x is [3]", "targets is [2, 4]"}},
    {poisson_of_two_shapes, {"poisson_nll loss", "x is [3]", "targets is [2, 4]"}},
    {poisson_of_integers, {"poisson_nll loss", "x is float32", "targets is int64"}},
    {ranking_of_integers, {"margin_ranking loss", "a is int64", "floating"}},
    {distance_of_two_shapes, {"pairwise_distance far", "a is [3]", "b is [2, 4]"}},
    {gaussian_of_other_variance, {"gaussian_nll loss", "variance is [2, 4]", "[3]"}},
    {cosine_of_other_targets, {"cosine_embedding loss", "a and b is [2]", "targets is [3]"}},
    {labels_of_two_shapes, {"multilabel_soft_margin loss", "logits is [2, 4]", "targets is [3]"}},
    {bilinear_of_two_batches, {"bilinear form", "is [2]", "is [3]"}},
    {bilinear_of_integers, {"bilinear form", "b is int64, expected float32"}},
    {heads_of_integers, {"multi_head_attention heads", "key is int64", "floating"}},
    {heads_of_fewer_values, {"multi_head_attention heads", "value is [3, 2, 6]", "[4, 2, 6]"}},
    {encoder_with_long_padding,
     {"transformer_encoder_layer block", "padding is [2, 5]", "expected [2, 4]"}},
    {decoder_of_other_memory,
     {"transformer_decoder_layer block", "memory is [4, 3, 6]", "expected [4, 2, 6]"}},
    {no_reduction, {"mse loss", "reduction 3"}},
    {cast_to_nothing, {"cast cast", "dtype"}},
    {linear_of_nothing, {"linear fc", "not a value"}},
};

static void expect_words(const char *message, const char *const *words, size_t count) {
  for (size_t i = 0; i < count && words[i]; i++)
    if (!strstr(message, words[i])) fail_msg("\"%s\" does not say \"%s\"", message, words[i]);
}

static void test_graphs_that_do_not_fit(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  assert_non_null(context);
  for (size_t i = 0; i < sizeof error_cases / sizeof error_cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value value = error_cases[i].build(graph);
    assert_false(tdm_value_is_valid(value));
    tdm_output(graph, "out", value);
    assert_null(tdm_session_create(graph, NULL));
    expect_words(tdm_last_message(), error_cases[i].says, 4);
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_graphs_that_do_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
