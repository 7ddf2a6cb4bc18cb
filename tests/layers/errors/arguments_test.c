/* Illegal arguments of layers: sizes whose product or sum exceeds an integer, missing arrays,
 * numbers that are not finite. Each is refused by the function that gets it, and named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/group.h"
#include "tests/options.h"

#define HUGE_SIZE (INT64_C(1) << 40)

typedef struct argument_case {
  tdm_value (*build)(tdm_graph *graph);
  const char *says[3]; /* all expected in the message */
} argument_case;

static void assert_says(const char *const *words, size_t count) {
  for (size_t i = 0; i < count && words[i]; i++)
    if (!strstr(tdm_last_message(), words[i]))
      fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), words[i]);
}

/* Expects INVALID_ARGUMENT for each as soon as it is described. */
static void check(const argument_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value value = cases[i].build(graph);
    if (tdm_value_is_valid(value)) fail_msg("case %zu (%s) is accepted", i, cases[i].says[0]);
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    assert_says(cases[i].says, 3);
    tdm_graph_release(graph);
  }
}

static tdm_value floats(tdm_graph *graph, const char *name, tdm_shape shape) {
  return tdm_input(graph, name, TDM_FLOAT32, shape);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static tdm_value input_of_many(tdm_graph *graph) {
  return floats(graph, "x", tdm_shape_of(2, HUGE_SIZE, HUGE_SIZE));
}

static tdm_value input_of_none_of_many(tdm_graph *graph) {
  return floats(graph, "x", tdm_shape_of(3, HUGE_SIZE, HUGE_SIZE, 0));
}

static tdm_value input_of_many_a_row(tdm_graph *graph) {
  return floats(graph, "x", tdm_shape_of(3, TDM_DIM("batch"), HUGE_SIZE, HUGE_SIZE));
}

static tdm_value parameter_of_many(tdm_graph *graph) {
  return tdm_parameter(graph, "w", TDM_FLOAT32, tdm_shape_of(2, HUGE_SIZE, HUGE_SIZE), NULL);
}

static tdm_value sum_of_column_and_row(tdm_graph *graph) {
  return tdm_add(graph, "sum", floats(graph, "a", tdm_shape_of(2, HUGE_SIZE, 1)),
                 floats(graph, "b", tdm_shape_of(2, 1, HUGE_SIZE)));
}

static tdm_value product_of_column_and_row(tdm_graph *graph) {
  return tdm_matmul(graph, "product", floats(graph, "a", tdm_shape_of(2, HUGE_SIZE, 1)),
                    floats(graph, "b", tdm_shape_of(2, 1, HUGE_SIZE)));
}

static tdm_value linear_of_many(tdm_graph *graph) {
  return tdm_linear(graph, "fc", floats(graph, "x", tdm_shape_of(2, 3, 4)), INT64_MAX / 2);
}

static tdm_value embedding_of_many(tdm_graph *graph) {
  return tdm_embedding(graph, "table", tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, 3)),
                       HUGE_SIZE, HUGE_SIZE);
}

static tdm_value embedded_many_times(tdm_graph *graph) {
  return tdm_embedding(graph, "table",
                       tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, HUGE_SIZE)), 2,
                       INT64_C(1) << 22);
}

static tdm_value reshape_to_many(tdm_graph *graph) {
  return tdm_reshape(graph, "view", floats(graph, "x", tdm_shape_of(2, 0, 4)),
                     tdm_shape_of(3, HUGE_SIZE, HUGE_SIZE, 0));
}

/* Four parts of 2^62 are 0 in 64 bits. */
static tdm_value lstm_of_many(tdm_graph *graph) {
  return tdm_lstm(graph, "lstm", floats(graph, "x", tdm_shape_of(3, 5, 4, 8)), INT64_C(1) << 62,
                  NULL, NULL, NULL);
}

static tdm_value rnn_of_many_layers(tdm_graph *graph) {
  const tdm_rnn_options options =
      OPTIONS(tdm_rnn_options, o.layers = INT32_MAX, o.bidirectional = true);
  return tdm_rnn(graph, "rnn", floats(graph, "x", tdm_shape_of(3, 5, 4, 8)), 6, &options, NULL);
}

static tdm_value heads_of_many(tdm_graph *graph) {
  const tdm_value x =
      tdm_input(graph, "x", TDM_BOOL, tdm_shape_of(3, 1, 1, (INT64_C(1) << 62) + 2));
  return tdm_multi_head_attention(graph, "heads", x, x, x, 1, NULL);
}

static tdm_value convolve(tdm_graph *graph, int64_t kernel, int64_t stride, int64_t padding,
                          int64_t dilation) {
  const tdm_conv_options options =
      OPTIONS(tdm_conv_options, o.stride[0] = o.stride[1] = stride,
              o.padding[0] = o.padding[1] = padding, o.dilation[0] = o.dilation[1] = dilation);
  return tdm_conv2d(graph, "conv", floats(graph, "x", tdm_shape_of(4, 1, 1, 4, 4)), 1, kernel, 1,
                    &options);
}

static tdm_value convolution_padded_beyond(tdm_graph *graph) {
  return convolve(graph, 2, 1, INT64_MAX, 1);
}

/* Twice 2^62 is negative, and less than every kernel. */
static tdm_value convolution_padded_half_beyond(tdm_graph *graph) {
  return convolve(graph, 2, 1, INT64_C(1) << 62, 1);
}

static tdm_value convolution_dilated_beyond(tdm_graph *graph) {
  return convolve(graph, 3, 1, 0, INT64_MAX / 2 + 1);
}

static tdm_value convolution_strides_beyond(tdm_graph *graph) {
  return convolve(graph, 2, INT64_MAX, 0, 1);
}

static tdm_value convolution_padded_to_many(tdm_graph *graph) {
  return convolve(graph, 2, INT32_MAX, INT32_MAX, 1);
}

static tdm_value pool_padded_beyond(tdm_graph *graph) {
  const tdm_pool_options options =
      OPTIONS(tdm_pool_options, o.padding[0] = INT64_C(1) << 62, o.padding[1] = INT64_C(1) << 62);
  return tdm_max_pool2d(graph, "pool", floats(graph, "x", tdm_shape_of(4, 1, 1, 4, 4)), 2, 2,
                        &options);
}

static tdm_value pool_strides_beyond(tdm_graph *graph) {
  const tdm_pool_options options =
      OPTIONS(tdm_pool_options, o.stride[0] = INT64_MAX, o.stride[1] = 1, o.ceil = true);
  return tdm_avg_pool2d(graph, "pool", floats(graph, "x", tdm_shape_of(4, 1, 1, 4, 4)), 2, 2,
                        &options);
}

static tdm_value split_into_many(tdm_graph *graph) {
  tdm_dim sizes[64];
  for (int i = 0; i < 64; i++)
    sizes[i] = INT64_C(1) << 58;
  sizes[63] += 4; /* together 4 in 64 bits */
  tdm_value parts[64];
  tdm_split(graph, "parts", floats(graph, "x", tdm_shape_of(2, 4, 3)), 0, sizes, 64, parts);
  return parts[0];
}

static tdm_value split_by_no_size(tdm_graph *graph) {
  const tdm_dim sizes[] = {-1, 5};
  tdm_value parts[2];
  tdm_split(graph, "parts", floats(graph, "x", tdm_shape_of(2, 4, 3)), 0, sizes, 2, parts);
  return parts[1];
}

static tdm_value concat_of_many(tdm_graph *graph) {
  const tdm_value x = tdm_input(graph, "x", TDM_BOOL, tdm_shape_of(1, INT64_C(1) << 62));
  const tdm_value parts[] = {x, x};
  return tdm_concat(graph, "whole", parts, 2, 0);
}

static void sizes_that_overflow_are_refused(void **unused) {
  (void)unused;
  static const argument_case cases[] = {
      {input_of_many, {"input x", "1099511627776", "memory"}},
      {input_of_none_of_many, {"input x", "0]", "memory"}},
      {input_of_many_a_row, {"input x", "[batch", "memory"}},
      {parameter_of_many, {"parameter w", "1099511627776", "memory"}},
      {sum_of_column_and_row, {"add sum", "1099511627776", "memory"}},
      {product_of_column_and_row, {"matmul product", "1099511627776", "memory"}},
      {linear_of_many, {"fc.weight", "memory"}},
      {embedding_of_many, {"table.weight", "memory"}},
      {embedded_many_times, {"embedding table", "4194304", "memory"}},
      {reshape_to_many, {"reshape view", "1099511627776"}},
      {lstm_of_many, {"lstm lstm", "4611686018427387904"}},
      {rnn_of_many_layers, {"rnn rnn", "layers is 2147483647", "10000"}},
      {heads_of_many, {"multi_head_attention heads", "query"}},
      {convolution_padded_beyond, {"convolution conv", "padding", "2147483647"}},
      {convolution_padded_half_beyond, {"convolution conv", "padding"}},
      {convolution_dilated_beyond, {"convolution conv", "dilation"}},
      {convolution_strides_beyond, {"convolution conv", "stride"}},
      {convolution_padded_to_many, {"convolution conv", "padding", "memory"}},
      {pool_padded_beyond, {"pool pool", "padding"}},
      {pool_strides_beyond, {"pool pool", "stride", "2147483647"}},
      {split_into_many, {"split parts", "part 0", "288230376151711744"}},
      {split_by_no_size, {"split parts", "part 0", "no size"}},
      {concat_of_many, {"concat whole", "2^63"}},
  };
  check(cases, sizeof cases / sizeof cases[0]);
}

/* Values that fit separately, but not together, are refused when the plan is made. */
static void a_plan_beyond_all_memory_is_refused(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = floats(graph, "x", tdm_shape_of(2, TDM_DIM("n"), 0));
  const int over[] = {1};
  const tdm_value sums = tdm_sum(graph, "sums", x, over, 1, false);
  const tdm_value more = tdm_cumsum(graph, "more", sums, 0);
  tdm_output(graph, "y", tdm_cumsum(graph, "most", tdm_add(graph, "both", sums, more), 0));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.unfused = true);
  tdm_session *session = tdm_session_create(graph, &options);
  assert_non_null(session);
  tdm_tensor *fed =
      tdm_tensor_create(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, INT64_C(1) << 60, 0));
  assert_non_null(fed);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {.name = "y"};
  assert_int_equal(tdm_run(session, &feed, 1, &fetch, 1), TDM_OUT_OF_MEMORY);
  assert_null(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

/* ---- Arrays that are not there --------------------------------------------------------------- */

static tdm_value some(tdm_graph *graph) {
  return floats(graph, "x", tdm_shape_of(2, 3, 4));
}

static tdm_value sum_over_null(tdm_graph *graph) {
  return tdm_sum(graph, "sum", some(graph), NULL, 3, false);
}

static tdm_value mean_over_null(tdm_graph *graph) {
  return tdm_mean(graph, "mean", some(graph), NULL, SIZE_MAX, true);
}

static tdm_value variance_over_null(tdm_graph *graph) {
  return tdm_variance(graph, "variance", some(graph), NULL, 1, 1, false);
}

static tdm_value concat_of_null(tdm_graph *graph) {
  return tdm_concat(graph, "whole", NULL, 2, 0);
}

static tdm_value concat_of_none(tdm_graph *graph) {
  return tdm_concat(graph, "whole", NULL, 0, 0);
}

static tdm_value split_by_null(tdm_graph *graph) {
  tdm_value parts[2];
  tdm_split(graph, "parts", some(graph), 0, NULL, 2, parts);
  return parts[0];
}

static tdm_value split_to_null(tdm_graph *graph) {
  const tdm_dim sizes[] = {1, 2};
  tdm_split(graph, "parts", some(graph), 0, sizes, 2, NULL);
  return (tdm_value){0, 0};
}

static tdm_value split_into_more_than_are_possible(tdm_graph *graph) {
  tdm_value parts[64];
  const tdm_dim sizes[64] = {1, 2};
  tdm_split(graph, "parts", some(graph), 0, sizes, (size_t)-1, parts);
  return parts[63];
}

static tdm_value scatter_of_null(tdm_graph *graph) {
  const tdm_parallel_options options =
      OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:0", o.scatter_count = 1);
  (void)tdm_relu(graph, "relu", some(graph));
  tdm_data_parallel(graph, "relu", &options);
  return (tdm_value){0, 0};
}

static tdm_value boundary(tdm_graph *graph, size_t input_count, size_t output_count) {
  const tdm_parallel_options options = OPTIONS(tdm_parallel_options, o.devices = "cpu:0,cpu:0");
  const tdm_value x = some(graph);
  (void)tdm_relu(graph, "relu", x);
  tdm_data_parallel_between(graph, input_count ? NULL : &x, input_count ? input_count : 1, NULL,
                            output_count, &options);
  return (tdm_value){0, 0};
}

static tdm_value boundary_without_inputs(tdm_graph *graph) {
  return boundary(graph, 1, 0);
}

static tdm_value boundary_without_outputs(tdm_graph *graph) {
  return boundary(graph, 0, 1);
}

static tdm_value parallel_of_another_size(tdm_graph *graph) {
  (void)tdm_relu(graph, "relu", some(graph));
  tdm_data_parallel(graph, "relu", UNMADE(tdm_parallel_options));
  return (tdm_value){0, 0};
}

/* An operation of a user's own, of one float. */
static tdm_status infer_as_is(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_value append_half(tdm_graph *graph, bool with_rule, bool with_inputs) {
  const tdm_operation operation = {.struct_size = sizeof operation,
                                   .name = "mine",
                                   .attribute_bytes = sizeof(float),
                                   .min_inputs = 1,
                                   .max_inputs = 1,
                                   .output_count = 1,
                                   .infer = with_rule ? infer_as_is : NULL};
  const float attributes = 1;
  const tdm_value x = some(graph);
  return tdm_append(graph, &operation, "node", with_rule && with_inputs ? NULL : &attributes,
                    with_inputs ? &x : NULL, 1, NULL);
}

static tdm_value append_without_rule(tdm_graph *graph) {
  return append_half(graph, false, true);
}

static tdm_value append_without_inputs(tdm_graph *graph) {
  return append_half(graph, true, false);
}

static tdm_value append_without_attributes(tdm_graph *graph) {
  return append_half(graph, true, true);
}

static tdm_value append_nothing(tdm_graph *graph) {
  return tdm_append(graph, NULL, "node", NULL, NULL, 0, NULL);
}

static void arrays_that_are_not_there_are_named(void **unused) {
  (void)unused;
  static const argument_case cases[] = {
      {sum_over_null, {"sum sum", "dimensions is NULL", "3"}},
      {mean_over_null, {"mean mean", "dimensions is NULL"}},
      {variance_over_null, {"variance", "dimensions is NULL"}},
      {concat_of_null, {"whole", "parts is NULL"}},
      {concat_of_none, {"whole", "0 parts", "1 to 64"}},
      {split_by_null, {"parts", "sizes is NULL"}},
      {split_to_null, {"parts", "out_parts is NULL"}},
      {split_into_more_than_are_possible, {"parts", "1 to 64"}},
      {scatter_of_null, {"relu", "scatter is NULL"}},
      {boundary_without_inputs, {"data parallel", "inputs is NULL"}},
      {boundary_without_outputs, {"data parallel", "outputs is NULL"}},
      {parallel_of_another_size, {"data parallel", "tdm_parallel_options_default()"}},
      {append_without_rule, {"mine node", "a shape rule"}},
      {append_without_inputs, {"mine node", "inputs"}},
      {append_without_attributes, {"mine node", "attributes"}},
      {append_nothing, {"node", "no operation"}},
  };
  check(cases, sizeof cases / sizeof cases[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_that_overflow_are_refused),
      cmocka_unit_test(a_plan_beyond_all_memory_is_refused),
      cmocka_unit_test(arrays_that_are_not_there_are_named),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
