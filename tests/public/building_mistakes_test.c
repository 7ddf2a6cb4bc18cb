/* Typical mistakes of a program that builds a graph: each message names the layer or option, the
 * given value and the legal ones, so that it can be fixed without the documentation. */
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

#define MISTAKE(name) static void name(tdm_graph *graph, const values *given)
#define FLOATS(name, ...) tdm_input(graph, name, TDM_FLOAT32, tdm_shape_of(__VA_ARGS__))

/* ---- Names ----------------------------------------------------------------------------------- */

MISTAKE(input_twice) {
  (void)given;
  tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 3));
}
MISTAKE(output_twice) {
  tdm_output(graph, "scores", given->x);
  tdm_output(graph, "scores", given->ids);
}
MISTAKE(name_empty) {
  tdm_linear(graph, "", given->x, 4);
}
MISTAKE(output_name_null) {
  tdm_output(graph, NULL, given->x);
}
MISTAKE(dimension_name_too_long) {
  (void)given;
  tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(1, TDM_DIM("batch_of_many_words")));
}
MISTAKE(layer_twice) {
  tdm_linear(graph, "fc", given->x, 4);
  tdm_linear(graph, "fc", given->x, 5);
}
MISTAKE(parameter_of_another_shape) {
  tdm_linear(graph, "fc", given->x, 4);
  tdm_tie(graph, "fc", "fc");
  tdm_linear(graph, "fc", given->x, 5);
}
static tdm_value answer_input(tdm_graph *graph, void *user, tdm_value input) {
  (void)graph;
  (void)user;
  return input;
}
static tdm_value answer_another(tdm_graph *graph, void *user, tdm_value input) {
  (void)graph;
  (void)user;
  return (tdm_value){input.graph + 1, input.index};
}
static void apply_module(tdm_graph *graph, tdm_value input,
                         tdm_value (*build)(tdm_graph *, void *, tdm_value)) {
  const tdm_module module = {.name = "same", .build = build};
  tdm_value output;
  tdm_parallel_apply(graph, &module, &input, 1, &output);
}
MISTAKE(module_of_a_foreign_value) {
  apply_module(graph, (tdm_value){given->x.graph, 1000000}, answer_input);
}
MISTAKE(module_answers_a_foreign_value) {
  apply_module(graph, given->x, answer_another);
}
MISTAKE(tied_to_nothing) {
  tdm_embedding(graph, "embedding", given->ids, 10, 8);
  tdm_tie(graph, "head", "embeding");
  tdm_linear_without_bias(graph, "head", given->x, 10);
}
MISTAKE(scope_popped_twice) {
  (void)given;
  tdm_scope_push(graph, "block");
  tdm_scope_pop(graph);
  tdm_scope_pop(graph);
}
MISTAKE(scope_of_integers) {
  (void)given;
  tdm_scope_dtype(graph, TDM_INT64);
}

/* ---- Devices --------------------------------------------------------------------------------- */

MISTAKE(device_that_is_not_there) {
  tdm_place(graph, "cpu:999");
  tdm_linear(graph, "fc", given->x, 4);
}
MISTAKE(device_of_no_kind) {
  tdm_place(graph, "gpu:0");
  tdm_linear(graph, "fc", given->x, 4);
}
MISTAKE(device_without_number) {
  tdm_place(graph, "cpu:");
  tdm_linear(graph, "fc", given->x, 4);
}
MISTAKE(input_placed) {
  tdm_place_value(graph, given->x, "cpu:0");
}

/* ---- Shapes and dtypes ----------------------------------------------------------------------- */

MISTAKE(dtype_forgotten) {
  (void)given;
  tdm_input(graph, "y", (tdm_dtype)0, tdm_shape_of(1, 3));
}
MISTAKE(shape_of_another_rank) {
  (void)given;
  tdm_input(graph, "y", TDM_FLOAT32, tdm_shape_of(3, 4, 5));
}
MISTAKE(linear_of_ids) {
  tdm_linear(graph, "fc", given->ids, 4);
}
MISTAKE(linear_to_nothing) {
  tdm_linear(graph, "fc", given->x, -4);
}
MISTAKE(linear_of_open_features) {
  (void)given;
  tdm_linear(graph, "fc", FLOATS("y", 2, 3, TDM_DIM("width")), 4);
}
MISTAKE(embedding_of_floats) {
  tdm_embedding(graph, "words", given->x, 10, 4);
}
MISTAKE(add_of_two_widths) {
  tdm_add(graph, "sum", given->x, FLOATS("y", 2, TDM_DIM("batch"), 9));
}
MISTAKE(matmul_of_two_widths) {
  tdm_matmul(graph, "product", given->x, FLOATS("y", 2, 9, 4));
}
MISTAKE(concat_of_two_widths) {
  const tdm_value parts[] = {given->x, FLOATS("y", 2, TDM_DIM("batch"), 9)};
  tdm_concat(graph, "both", parts, 2, 0);
}
MISTAKE(split_of_other_sizes) {
  const tdm_dim sizes[] = {3, 4};
  tdm_value parts[2];
  tdm_split(graph, "halves", given->x, 1, sizes, 2, parts);
}
MISTAKE(reshape_to_other_count) {
  tdm_reshape(graph, "view", given->x, tdm_shape_of(2, TDM_DIM("batch"), 9));
}
MISTAKE(reshape_with_two_open) {
  tdm_reshape(graph, "view", given->x, tdm_shape_of(2, TDM_INFER, TDM_INFER));
}
MISTAKE(softmax_beyond_the_last) {
  tdm_softmax(graph, "soft", given->x, 2);
}
MISTAKE(transpose_beyond_the_last) {
  tdm_transpose(graph, "turned", given->x, 0, 5);
}
MISTAKE(select_beyond_the_last) {
  tdm_select(graph, "picked", given->x, 1, 8);
}
MISTAKE(mean_over_one_twice) {
  tdm_mean(graph, "mean", given->x, (const int[]){1, -1}, 2, false);
}
MISTAKE(float64_with_float32) {
  tdm_mul(graph, "product", given->x,
          tdm_input(graph, "y", TDM_FLOAT64, tdm_shape_of(2, TDM_DIM("batch"), 8)));
}
MISTAKE(invalid_value_without_a_reason) {
  (void)given;
  tdm_relu(graph, "act", (tdm_value){0, 0});
}

/* ---- Images, sequences, attention ------------------------------------------------------------ */

MISTAKE(convolution_of_a_matrix) {
  tdm_conv2d(graph, "conv", given->x, 4, 3, 3, NULL);
}
MISTAKE(convolution_of_no_kernel) {
  tdm_conv2d(graph, "conv", given->image, 4, 0, 3, NULL);
}
MISTAKE(convolution_larger_than_the_image) {
  tdm_conv2d(graph, "conv", given->image, 4, 9, 9, NULL);
}
MISTAKE(convolution_in_uneven_groups) {
  const tdm_conv_options options = OPTIONS(tdm_conv_options, o.groups = 2);
  tdm_conv2d(graph, "conv", given->image, 4, 3, 3, &options);
}
MISTAKE(options_of_another_size) {
  tdm_conv2d(graph, "conv", given->image, 4, 3, 3, UNMADE(tdm_conv_options));
}
MISTAKE(pooling_with_too_much_padding) {
  const tdm_pool_options options = OPTIONS(tdm_pool_options, o.padding[0] = 2);
  tdm_max_pool2d(graph, "pool", given->image, 2, 2, &options);
}
MISTAKE(batch_norm_of_a_vector) {
  (void)given;
  tdm_batch_norm(graph, "norm", FLOATS("y", 1, 4));
}
MISTAKE(layer_norm_of_too_many) {
  tdm_layer_norm(graph, "norm", given->x, 3);
}
MISTAKE(recurrent_of_images) {
  tdm_lstm(graph, "lstm", given->image, 4, NULL, NULL, NULL);
}
MISTAKE(recurrent_with_other_state) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.h0 = FLOATS("h0", 3, 1, TDM_DIM("batch"), 5));
  tdm_gru(graph, "gru", given->steps, 4, &options, NULL);
}
MISTAKE(dropout_of_more_than_all) {
  tdm_dropout(graph, "drop", given->x, 1.5);
}
MISTAKE(attention_of_uneven_heads) {
  tdm_multi_head_attention(graph, "attention", given->steps, given->steps, given->steps, 3, NULL);
}

/* ---- Losses and wrapped parts ---------------------------------------------------------------- */

MISTAKE(cross_entropy_of_float_classes) {
  tdm_cross_entropy(graph, "loss", given->x, FLOATS("classes", 1, TDM_DIM("batch")));
}
MISTAKE(cross_entropy_of_other_batch) {
  (void)given;
  tdm_cross_entropy(graph, "loss", FLOATS("y", 2, 3, 8),
                    tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, 4)));
}
MISTAKE(mse_of_two_shapes) {
  tdm_mse(graph, "loss", given->x, FLOATS("y", 2, TDM_DIM("batch"), 7));
}
MISTAKE(nothing_to_wrap) {
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,sim:0");
  tdm_linear(graph, "block/fc", given->x, 4);
  tdm_data_parallel(graph, "blok", &options);
}
MISTAKE(wrapped_over_no_devices) {
  const tdm_parallel_options options = tdm_parallel_options_default();
  tdm_linear(graph, "fc", given->x, 4);
  tdm_data_parallel(graph, "fc", &options);
}

static const mistake mistakes[] = {
    {input_twice, "input x is declared twice"},
    {output_twice, "output scores is declared twice"},
    {name_empty, "a layer's name is missing; NULL leaves it out, and not \"\""},
    {output_name_null, "a name is missing"},
    {dimension_name_too_long,
     "input y: its shape is not legal: tdm_shape_of(rank, ...) takes as many dimensions as rank "
     "says, 8 at most, each a size or a name of 1 to 12 letters a-z, digits and _"},
    {layer_twice, "fc: there is a layer of that name, which has parameter fc.weight; give this one "
                  "another name, or have it share parameters by tdm_tie(graph, \"fc\", \"fc\")"},
    {module_of_a_foreign_value, "module same: its input is no value of this graph"},
    {module_answers_a_foreign_value, "module same: what it answers is no value of this graph"},
    {tied_to_nothing, "parameter head.weight is tied to embeding.weight, which is not there; "
                      "parameters are: embedding.weight (did you mean 'embedding.weight'?)"},
    {parameter_of_another_shape, "parameter fc.weight: float32 [5, 8] here, float32 [4, 8] before"},
    {scope_popped_twice, "tdm_scope_pop without a matching push"},
    {scope_of_integers, "a scope's dtype is floating, not int64"},
    {device_that_is_not_there, "fc: there is no cpu:999: the context has "},
    {device_of_no_kind,
     "fc: \"gpu:0\": there is no kind of device \"gpu\"; kinds are: cpu, sim, cuda, paper"},
    {device_without_number, "fc: \"cpu:\" does not name a device as kind:index, like cpu:0"},
    {input_placed, "x: inputs and parameters follow their consumer"},
    {dtype_forgotten, "input y: 0 is no dtype"},
    {shape_of_another_rank,
     "input y: its shape is not legal: tdm_shape_of(rank, ...) takes as many dimensions as rank "
     "says, 8 at most, each a size or a name of 1 to 12 letters a-z, digits and _"},
    {linear_of_ids, "linear fc: x is int64, and must be float32 or float64"},
    {linear_to_nothing, "linear fc: out_features is -4, and must be a size"},
    {linear_of_open_features, "linear fc: the last dimension of x must be a size, x is [3, width]"},
    {embedding_of_floats, "embedding words: ids is float32, and must be int32 or int64"},
    {add_of_two_widths, "add sum: a is [batch, 8], b is [batch, 9]: they cannot be broadcast"},
    {matmul_of_two_widths, "matmul product: a [batch, 8] and b [9, 4] cannot be multiplied"},
    {concat_of_two_widths,
     "concat both: float32 [batch, 8] and float32 [batch, 9] do not fit along dimension 0"},
    {split_of_other_sizes, "split halves: its parts have 7 of dimension 1 together, x has 8"},
    {reshape_to_other_count,
     "reshape view: [batch, 8] cannot be seen as [batch, 9]: other element counts"},
    {reshape_with_two_open, "reshape view: [-1, -1] leaves 2 dimensions open: one may be -1, or "
                            "more names that inputs have"},
    {softmax_beyond_the_last, "softmax soft: there is no dimension 2 in [batch, 8]"},
    {transpose_beyond_the_last, "transpose turned: there is no dimension 5 in [batch, 8]"},
    {select_beyond_the_last, "select picked: index 8 is outside dimension 1 of [batch, 8]"},
    {mean_over_one_twice, "mean mean: dimension -1 is named twice"},
    {float64_with_float32, "mul product: a is float32, b is float64: they must have one dtype"},
    {invalid_value_without_a_reason, "relu act: an input that it needs is not a value"},
    {convolution_of_a_matrix,
     "convolution conv: x must have 4 dimensions, or one less, and 1 groups must "
     "divide its channels and 4; x is [batch, 8]"},
    {convolution_of_no_kernel,
     "convolution conv: kernel, stride, dilation and groups must be positive, padding not "
     "negative, and none of them beyond 2147483647; kernel is 0 x 3, stride 1 x 1, padding 0 x 0, "
     "dilation 1 x 1, groups 1"},
    {convolution_larger_than_the_image,
     "convolution conv: a kernel that reaches over 9 does not fit into 8 with padding 0"},
    {convolution_in_uneven_groups,
     "convolution conv: x must have 4 dimensions, or one less, and 2 groups must "
     "divide its channels and 4; x is [batch, 3, 8, 8]"},
    {options_of_another_size,
     "convolution conv: its options were not made by tdm_conv_options_default()"},
    {pooling_with_too_much_padding,
     "pool pool: kernel, stride and dilation must be positive and at most 2147483647, and padding "
     "at most half the kernel; kernel is 2 x 2, stride 2 x 2, padding 2 x 0, dilation 1 x 1"},
    {batch_norm_of_a_vector, "batch_norm norm: dimension 1 of x must be a size, x is [4]"},
    {layer_norm_of_too_many,
     "layer_norm norm: the last 3 dimensions of x must be sizes, x is [batch, 8]"},
    {recurrent_of_images,
     "lstm lstm: x must be [length, batch, features] with a size for features, "
     "x is [batch, 3, 8, 8]"},
    {recurrent_with_other_state, "gru gru: h0 is [1, batch, 5], expected [1, batch, 4]"},
    {dropout_of_more_than_all,
     "dropout drop: its probability is 1.5, and must lie between 0 and 1"},
    {attention_of_uneven_heads,
     "multi_head_attention attention: query is [5, batch, 8], expected a last dimension that 3 "
     "heads divide"},
    {cross_entropy_of_float_classes,
     "cross_entropy loss: targets is float32, and must be int32 or int64"},
    {cross_entropy_of_other_batch,
     "cross_entropy loss: it judges [3, 8] by targets [4]: one target for each, classes apart, is "
     "needed"},
    {mse_of_two_shapes, "mse loss: a is [batch, 8], b is [batch, 7]: they cannot be broadcast"},
    {nothing_to_wrap, "data parallel over blok: nothing has been built below \"blok\"; layers are: "
                      "block/fc (did you mean 'block'?)"},
    {wrapped_over_no_devices, "data parallel over fc: no devices are given"},
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
