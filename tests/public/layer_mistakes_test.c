/* Typical mistakes in layers that are no plain network's: order, equations, volumes, indices,
 * transformers. Each message names the layer, what was given and what is legal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

/* What a mistake is made with: x float32 (batch, 8), ids int64 (batch), image float32 (batch, 3, 8,
 * 8), steps float32 (5, batch, 8). */
typedef struct values {
  tdm_value x, ids, image, steps;
} values;

typedef struct mistake {
  void (*make)(tdm_graph *graph, const values *given);
  const char *says; /* stands in the message */
} mistake;

#define MISTAKE(name) static void name(tdm_graph *graph, const values *given)
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

MISTAKE(einsum_of_too_many_dimensions) {
  (void)given;
  const tdm_value operands[] = {FLOATS("a", 8, 1, 2, 3, 4, 5, 6, 7, 8), FLOATS("b", 3, 9, 8, 7),
                                FLOATS("c", 2, 9, 7)};
  tdm_einsum(graph, "product", "abcdefgh,ohi,oi->abcdefg", operands, 3);
}
MISTAKE(bilinear_of_too_many_dimensions) {
  (void)given;
  const tdm_value a = FLOATS("a", 8, 2, 2, 3, 4, 5, 6, 7, 8);
  tdm_bilinear(graph, "pairs", a, a, 3);
}

/* ---- Images and volumes ---------------------------------------------------------------------- */

MISTAKE(interpolation_to_nothing) {
  tdm_interpolate(graph, "larger", given->image, (const int64_t[]){16, 0}, 2,
                  TDM_INTERPOLATE_LINEAR, false);
}
MISTAKE(cubic_interpolation_of_sequences) {
  (void)given;
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

/* ---- Picking --------------------------------------------------------------------------------- */

MISTAKE(gather_by_floats) {
  tdm_gather(graph, "picked", given->x, 1, given->x);
}
MISTAKE(one_hot_of_no_classes) {
  tdm_one_hot(graph, "hot", given->ids, 0);
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
     "einsum product: \"bij->b\": an operand is [batch, 8], and has 3 letters"},
    {interpolation_to_nothing, "interpolate larger: x is [batch, 3, 8, 8], and dimension 3 is to "
                               "be 0: both must be sizes, 1 or more"},
    {cubic_interpolation_of_sequences, "interpolate larger: 1 sizes, and the cubic mode takes two"},
    {volume_convolution_of_images,
     "conv3d conv: x must be (n, channels, depth, height, width), or without n, channels and depth "
     "being sizes; x is [batch, 3, 8, 8]"},
    {output_padding_of_a_whole_stride,
     "conv_transpose up: x is [batch, 3, 8, 8]: its height and width must be sizes, kernel, "
     "stride, dilation and groups positive, paddings not negative, none of them beyond 2147483647, "
     "output_padding less than stride or dilation, and something must be left"},
    {groups_that_do_not_divide,
     "group_norm norm: x is [batch, 3, 8, 8], whose channels 2 groups do not divide"},
    {gather_by_floats, "gather picked: index is float32, and must be int32 or int64"},
    {one_hot_of_no_classes, "one_hot hot: 0 classes, and there must be one at least"},
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
