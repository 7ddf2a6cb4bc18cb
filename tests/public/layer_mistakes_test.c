/* Typical mistakes in layers of less common networks: order, equations, volumes, indices,
 * transformers. Each message names the layer, the given value and the legal ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

/* The inputs of a mistake: x float32 (batch, 8), ids int64 (batch), image float32 (batch, 3, 8, 8),
 * steps float32 (5, batch, 8). */
typedef struct values {
  tdm_value x, ids, image, steps;
} values;

typedef struct mistake {
  void (*make)(tdm_graph *graph, const values *given);
  const char *says; /* expected in the message */
} mistake;

#define MISTAKE(name)                                                                              \
  static void name(tdm_graph *graph, __attribute__((unused)) const values *given)
#define DOUBLES(name, ...) tdm_input(graph, name, TDM_FLOAT64, tdm_shape_of(__VA_ARGS__))
#define INTEGERS(name, ...) tdm_input(graph, name, TDM_INT64, tdm_shape_of(__VA_ARGS__))
#define FLOATS(name, ...) tdm_input(graph, name, TDM_FLOAT32, tdm_shape_of(__VA_ARGS__))

/* ---- Arrays ---------------------------------------------------------------------------------- */

MISTAKE(topk_of_too_many) {
  tdm_topk(graph, "best", given->x, 9, 1, true, NULL);
}
MISTAKE(sort_beyond_the_last) {
  tdm_sort(graph, "ordered", given->x, 2, false, NULL);
}
MISTAKE(einsum_of_two_sizes) {
  const tdm_value operands[] = {given->x, FLOATS("w", 2, 9, 4)};
  tdm_einsum(graph, "product", "bi,io->bo", operands, 2);
}
MISTAKE(einsum_of_other_ranks) {
  tdm_einsum(graph, "product", "bij->b", &given->x, 1);
}

MISTAKE(einsum_of_two_dtypes) {
  const tdm_value operands[] = {given->x, DOUBLES("w", 2, 8, 4)};
  tdm_einsum(graph, "product", "bi,io->bo", operands, 2);
}
MISTAKE(einsum_that_sums_integers) {
  const tdm_value operands[] = {given->ids, INTEGERS("w", 2, 8, 4)};
  tdm_einsum(graph, "product", "b,io->bo", operands, 2);
}
MISTAKE(einsum_of_integer_matrices) {
  const tdm_value operands[] = {INTEGERS("a", 2, 3, 8), INTEGERS("w", 2, 8, 4)};
  tdm_einsum(graph, "product", "bi,io->bo", operands, 2);
}
MISTAKE(einsum_of_bools) {
  const tdm_value mask = tdm_input(graph, "mask", TDM_BOOL, tdm_shape_of(1, 3));
  tdm_einsum(graph, "product", "a,b->ab", (const tdm_value[]){mask, mask}, 2);
}
MISTAKE(logsumexp_over_one_twice) {
  tdm_logsumexp(graph, "spread", given->image, (const int[]){1, -3}, 2, false);
}

MISTAKE(einsum_of_too_many_dimensions) {
  const tdm_value operands[] = {FLOATS("a", 8, 1, 2, 3, 4, 5, 6, 7, 8), FLOATS("b", 3, 9, 8, 7),
                                FLOATS("c", 2, 9, 7)};
  tdm_einsum(graph, "product", "abcdefgh,ohi,oi->abcdefg", operands, 3);
}
MISTAKE(bilinear_of_too_many_dimensions) {
  const tdm_value a = FLOATS("a", 8, 2, 2, 3, 4, 5, 6, 7, 8);
  tdm_bilinear(graph, "pairs", a, a, 3);
}

/* ---- Images and volumes ---------------------------------------------------------------------- */

MISTAKE(interpolation_to_nothing) {
  tdm_interpolate(graph, "larger", given->image, (const int64_t[]){16, 0}, 2,
                  TDM_INTERPOLATE_LINEAR, false);
}
MISTAKE(interpolation_of_integers) {
  tdm_interpolate(graph, "larger", INTEGERS("grid", 4, 2, 3, 8, 8), (const int64_t[]){16, 16}, 2,
                  TDM_INTERPOLATE_NEAREST, false);
}
MISTAKE(interpolation_of_a_named_width) {
  tdm_interpolate(graph, "larger", FLOATS("wide", 4, 2, 3, 8, TDM_DIM("width")),
                  (const int64_t[]){16, 16}, 2, TDM_INTERPOLATE_NEAREST, false);
}
MISTAKE(unpooling_of_integers) {
  const tdm_value x = INTEGERS("maxima", 3, 2, 3, 8);
  tdm_max_unpool(graph, "larger", x, x, (const int64_t[]){16}, 1);
}
MISTAKE(unpooling_to_other_ranks) {
  tdm_max_unpool(graph, "larger", given->image, INTEGERS("at", 4, 2, 3, 8, 8),
                 (const int64_t[]){16}, 1);
}
MISTAKE(unpooling_by_other_indices) {
  tdm_max_unpool(graph, "larger", given->image, INTEGERS("at", 3, 3, 8, 8),
                 (const int64_t[]){16, 16}, 2);
}
MISTAKE(cubic_interpolation_of_sequences) {
  tdm_interpolate(graph, "larger", FLOATS("sound", 3, 2, 3, 8), (const int64_t[]){16}, 1,
                  TDM_INTERPOLATE_CUBIC, false);
}
MISTAKE(volume_convolution_of_images) {
  tdm_conv3d(graph, "conv", given->image, 4, (const int64_t[]){3, 3, 3}, NULL);
}
MISTAKE(output_padding_of_a_whole_stride) {
  const tdm_conv_transpose_options options =
      OPTIONS(tdm_conv_transpose_options, o.stride[0] = o.stride[1] = 2, o.output_padding[0] = 2);
  tdm_conv_transpose2d(graph, "up", given->image, 4, 3, 3, &options);
}
MISTAKE(groups_that_do_not_divide) {
  tdm_group_norm(graph, "norm", given->image, 2);
}

MISTAKE(group_norm_of_doubles) {
  tdm_group_norm(graph, "norm", DOUBLES("doubles", 4, 2, 4, 8, 8), 2);
}
MISTAKE(group_norm_of_one_value) {
  tdm_group_norm(graph, "norm", FLOATS("row", 2, 1, 4), 4);
}
MISTAKE(instance_norm_of_integers) {
  tdm_instance_norm(graph, "norm", INTEGERS("grid", 4, 2, 4, 8, 8));
}
MISTAKE(response_norm_of_integers) {
  tdm_local_response_norm(graph, "norm", INTEGERS("grid", 4, 2, 4, 8, 8), 2, 1e-4, 0.75, 1);
}
MISTAKE(response_norm_of_no_channels) {
  tdm_local_response_norm(graph, "norm", given->image, 0, 1e-4, 0.75, 1);
}

/* ---- Picking --------------------------------------------------------------------------------- */

MISTAKE(gather_by_floats) {
  tdm_gather(graph, "picked", given->x, 1, given->x);
}
MISTAKE(one_hot_of_no_classes) {
  tdm_one_hot(graph, "hot", given->ids, 0);
}
MISTAKE(one_hot_of_floats) {
  tdm_one_hot(graph, "hot", given->x, 3);
}
MISTAKE(bag_of_floats) {
  tdm_embedding_bag(graph, "bag", given->x, 7, 4, NULL);
}
MISTAKE(bag_of_rows_of_ids) {
  tdm_embedding_bag(graph, "bag", given->ids, 7, 4, NULL);
}
MISTAKE(bag_of_another_mode) {
  const tdm_embedding_bag_options options =
      OPTIONS(tdm_embedding_bag_options, o.mode = (tdm_bag_mode)3);
  tdm_embedding_bag(graph, "bag", INTEGERS("bags", 2, 3, 2), 7, 4, &options);
}
MISTAKE(bag_with_padding_outside) {
  const tdm_embedding_bag_options options = OPTIONS(tdm_embedding_bag_options, o.padding_index = 7);
  tdm_embedding_bag(graph, "bag", INTEGERS("bags", 2, 3, 2), 7, 4, &options);
}
MISTAKE(bag_with_offsets_of_floats) {
  const tdm_embedding_bag_options options =
      OPTIONS(tdm_embedding_bag_options, o.offsets = FLOATS("offsets", 1, 3));
  tdm_embedding_bag(graph, "bag", given->ids, 7, 4, &options);
}
MISTAKE(bag_with_few_scales) {
  const tdm_embedding_bag_options options = OPTIONS(tdm_embedding_bag_options, o.mode = TDM_BAG_SUM,
                                                    o.scales = FLOATS("scales", 2, 3, 1));
  tdm_embedding_bag(graph, "bag", INTEGERS("bags", 2, 3, 2), 7, 4, &options);
}
MISTAKE(interaction_of_integers) {
  tdm_dot_interaction(graph, "pairs", INTEGERS("vectors", 3, 2, 4, 8), false);
}
MISTAKE(interaction_of_rows) {
  tdm_dot_interaction(graph, "pairs", given->x, false);
}
MISTAKE(pad_beyond_the_reflection) {
  tdm_pad(graph, "padded", given->image, (const int64_t[]){8, 8}, 2, TDM_PAD_REFLECT, 0);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

MISTAKE(ctc_of_float_targets) {
  tdm_ctc(graph, "loss", given->steps, given->x, given->ids, given->ids);
}
MISTAKE(projection_of_a_gru) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.projection = 2);
  tdm_gru(graph, "gru", given->steps, 4, &options, NULL);
}
MISTAKE(rnn_of_doubles) {
  tdm_rnn(graph, "rnn", DOUBLES("doubles", 3, 5, 2, 8), 4, NULL, NULL);
}
MISTAKE(lstm_with_states_of_doubles) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.layers = 2, o.c0 = DOUBLES("c0", 3, 2, TDM_DIM("batch"), 4));
  tdm_lstm(graph, "lstm", given->steps, 4, &options, NULL, NULL);
}
MISTAKE(lstm_with_dropout_beyond_1) {
  const tdm_rnn_options options = OPTIONS(tdm_rnn_options, o.layers = 2, o.dropout = 1.5);
  tdm_lstm(graph, "lstm", given->steps, 4, &options, NULL, NULL);
}
MISTAKE(gru_with_lengths_of_floats) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.layers = 2, o.lengths = FLOATS("lengths", 1, TDM_DIM("batch")));
  tdm_gru(graph, "gru", given->steps, 4, &options, NULL);
}
MISTAKE(cell_of_integers) {
  tdm_rnn_cell(graph, "cell", INTEGERS("row", 2, 3, 8), (tdm_value){0, 0}, 4, NULL);
}
MISTAKE(cell_with_another_state) {
  tdm_gru_cell(graph, "cell", given->x, FLOATS("h", 2, TDM_DIM("batch"), 5), 4, NULL);
}
MISTAKE(cell_with_a_state_of_doubles) {
  tdm_lstm_cell(graph, "cell", given->x, FLOATS("h", 2, TDM_DIM("batch"), 4),
                DOUBLES("c", 2, TDM_DIM("batch"), 4), 4, NULL, NULL);
}
MISTAKE(transformer_of_uneven_heads) {
  tdm_transformer_encoder_layer(graph, "layer", given->steps, 3, NULL);
}

/* ---- Losses, scores and norms ---------------------------------------------------------------- */

MISTAKE(margin_of_another_power) {
  const tdm_loss_options options = OPTIONS(tdm_loss_options, o.p = 3);
  tdm_multi_margin_with(graph, "loss", given->x, given->ids, &options);
}
MISTAKE(accuracy_of_float_classes) {
  tdm_accuracy(graph, "right", given->x, given->x);
}
MISTAKE(norm_of_a_negative_power) {
  tdm_norm(graph, "length", given->x, -2, NULL, 0, false);
}
MISTAKE(gradient_of_no_loss) {
  tdm_gradient_of(graph, "slope", given->x, given->x);
}
static const mistake mistakes[] = {
    {topk_of_too_many, "sort best: 9 elements of dimension 1 of [batch, 8], 1 to 8 can be"},
    {sort_beyond_the_last, "sort ordered: there is no dimension 2 in [batch, 8]"},
    {einsum_of_two_sizes, "einsum product: \"bi,io->bo\": a dimension of one letter is 8 in an "
                          "operand and 9 in another"},
    {einsum_of_too_many_dimensions, "more dimensions under way than a value has"},
    {bilinear_of_too_many_dimensions, "more dimensions under way than a value has"},
    {einsum_of_other_ranks,
     "einsum product: \"bij->b\": operand 0 is [batch, 8], and has 3 letters"},
    {einsum_of_two_dtypes, "einsum product: operand 1 is float64, expected float32"},
    {einsum_that_sums_integers, "einsum product: \"b,io->bo\": operands are int64, expected "
                                "floating ones, since it sums"},
    {einsum_of_integer_matrices, "einsum product: \"bi,io->bo\": operands are int64, expected "
                                 "floating ones, since it sums"},
    {einsum_of_bools, "einsum product: \"a,b->ab\": operands are bool, expected floating ones, "
                      "int32 or int64"},
    {logsumexp_over_one_twice, "logsumexp spread: dimension -3 is named twice"},
    {interpolation_of_integers, "interpolate larger: x is int64, and must be floating"},
    {interpolation_of_a_named_width,
     "interpolate larger: x is [2, 3, 8, width], expected a size of "
     "1 or more as dimension 3"},
    {unpooling_of_integers, "max_unpool larger: x is int64, and must be floating"},
    {unpooling_to_other_ranks,
     "max_unpool larger: x is [batch, 3, 8, 8], expected 2 to 3 dimensions"},
    {unpooling_by_other_indices,
     "max_unpool larger: indices is [3, 8, 8], expected [batch, 3, 8, 8]"},
    {group_norm_of_doubles, "group_norm norm: x is float64, expected float32"},
    {group_norm_of_one_value,
     "group_norm norm: group normalization of one image with one value in each of 4 groups"},
    {instance_norm_of_integers, "instance_norm norm: x is int64, and must be floating"},
    {response_norm_of_integers, "local_response_norm norm: x is int64, and must be floating"},
    {response_norm_of_no_channels, "local_response_norm norm: size is 0, expected 1 to 2147483647"},
    {one_hot_of_floats, "one_hot hot: ids is float32, and must be int32 or int64"},
    {bag_of_floats, "embedding_bag bag: ids are float32, and must be int32 or int64"},
    {bag_of_rows_of_ids,
     "embedding_bag bag: ids without offsets is [batch], expected 2 dimensions"},
    {bag_of_another_mode, "embedding_bag bag: mode is 3, expected 0 to 2"},
    {bag_with_padding_outside, "embedding_bag bag: padding_index is 7, expected one of its 7 rows"},
    {bag_with_offsets_of_floats,
     "embedding_bag bag: offsets are float32, and must be int32 or int64"},
    {bag_with_few_scales, "embedding_bag bag: scales is [3, 1], expected [3, 2]"},
    {interaction_of_integers, "dot_interaction pairs: x is int64, and must be floating"},
    {interaction_of_rows, "dot_interaction pairs: x must have 3 dimensions, has [batch, 8]"},
    {rnn_of_doubles, "rnn rnn: x is float64, expected float32"},
    {lstm_with_states_of_doubles, "lstm lstm: c0 is float64, expected float32"},
    {lstm_with_dropout_beyond_1, "lstm lstm: dropout is 1.5, expected a probability, 0 to 1"},
    {gru_with_lengths_of_floats, "gru gru: lengths are float32, and must be int32 or int64"},
    {cell_of_integers, "rnn_cell cell: x is int64, and must be floating"},
    {cell_with_another_state, "gru_cell cell: h is [batch, 5], expected [batch, 4]"},
    {cell_with_a_state_of_doubles, "lstm_cell cell: c is float64, expected float32"},
    {interpolation_to_nothing,
     "interpolate larger: sizes is 0 at position 1, expected 1 to 2147483647"},
    {cubic_interpolation_of_sequences, "interpolate larger: 1 sizes, and the cubic mode takes two"},
    {volume_convolution_of_images,
     "conv3d conv: x must be (n, channels, depth, height, width), or without n, channels and depth "
     "being sizes; x is [batch, 3, 8, 8]"},
    {output_padding_of_a_whole_stride,
     "conv_transpose up: x is [batch, 3, 8, 8]: its height and width must be sizes, kernel, "
     "stride, dilation and groups positive, paddings not negative, none of them beyond 2147483647, "
     "output_padding less than stride or dilation, and something must be left"},
    {groups_that_do_not_divide,
     "group_norm norm: groups is 2, expected a divisor of the 3 channels of x, which is [batch, 3, "
     "8, 8]"},
    {gather_by_floats, "gather picked: index is float32, and must be int32 or int64"},
    {one_hot_of_no_classes, "one_hot hot: classes is 0, expected 1 or more"},
    {pad_beyond_the_reflection, "pad padded: x is [batch, 3, 8, 8], dimension 3 by 8 and 8: there "
                                "are not as many elements to take"},
    {ctc_of_float_targets, "ctc loss: targets is float32, and must be int32 or int64"},
    {projection_of_a_gru, "gru gru: it has no option projection"},
    {transformer_of_uneven_heads,
     "transformer_encoder_layer layer: x is [5, batch, 8], expected a last dimension that 3 heads "
     "divide"},
    {margin_of_another_power, "multi_margin loss: p is 3, and must be 1 or 2"},
    {accuracy_of_float_classes, "accuracy right: classes are float32 [batch, 8], and must be int32 "
                                "or int64, one a row [batch]"},
    {norm_of_a_negative_power, "norm length: p is -2, and must be positive, or an infinity"},
    {gradient_of_no_loss,
     "gradient_of slope: the loss is float32 [batch, 8], and must be a floating number"},
};

static void each_message_says_what_to_mend(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_dim batch = TDM_DIM("batch");
    const values given = {
        .x = FLOATS("x", 2, batch, 8),
        .ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, batch)),
        .image = FLOATS("image", 4, batch, 3, 8, 8),
        .steps = FLOATS("steps", 3, 5, batch, 8),
    };
    mistakes[i].make(graph, &given);
    tdm_output(graph, "out", given.x);
    assert_null(tdm_session_create(graph, NULL));
    if (!strstr(tdm_last_message(), mistakes[i].says))
      fail_msg("mistake %zu: \"%s\" does not say \"%s\"", i, tdm_last_message(), mistakes[i].says);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_message_says_what_to_mend)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
