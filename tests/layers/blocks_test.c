/* Illegal arguments of layers of layers, cells, volumes and padded convolutions. A model of them
 * over a batch with a named size, in micro-batches and replicas, has the results of the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/layers/parts.h"
#include "tests/options.h"

enum { ROWS = 7, LENGTH = 4, WIDTH = 6 };

/* Devices for parts of the model. */
/* x (batch, 4, 6) -> (batch, 4, 6): transformers, a recurrent layer that projects, attention that
 * shows its weights. */
static tdm_value read_sequence(tdm_graph *graph, tdm_value x) {
  const tdm_transformer_options small =
      OPTIONS(tdm_transformer_options, o.feedforward = 5, o.dropout = 0.0, o.batch_first = true);
  const tdm_value memory = tdm_transformer_encoder_layer(graph, "encoder", x, 2, &small);
  const tdm_value y = tdm_transformer_decoder_layer(graph, "decoder", x, memory, 2, &small);
  const tdm_rnn_options projects =
      OPTIONS(tdm_rnn_options, o.batch_first = true, o.projection = 3, o.bidirectional = true);
  const tdm_value states = tdm_lstm(graph, "lstm", y, 5, &projects, NULL, NULL);
  tdm_value weights;
  const tdm_multi_head_attention_options shows =
      OPTIONS(tdm_multi_head_attention_options, o.batch_first = true, o.add_bias_kv = true,
              o.add_zero_attn = true, o.causal = true, o.out_weights = &weights);
  const tdm_value seen = tdm_multi_head_attention(graph, "shows", states, y, y, 3, &shows);
  const tdm_value products =
      tdm_matmul(graph, "seen", tdm_transpose(graph, "turned", weights, 1, 2), seen);
  return tdm_slice(graph, "own", products, 1, 0, LENGTH, 1);
}

/* Describes x (batch, 4, 6) -> (batch, 3, ...): seen as images and as volumes. */
static tdm_value see_volume(tdm_graph *graph, tdm_value x) {
  const tdm_conv_options same =
      OPTIONS(tdm_conv_options, o.same = true, o.padding_mode = TDM_PAD_CIRCULAR);
  tdm_value y = tdm_conv1d(graph, "same", x, 4, 3, &same);
  y = tdm_reshape(graph, "volume", y, tdm_shape_of(5, TDM_DIM("batch"), 2, 2, 2, 3));
  const int64_t kernel[] = {2, 2, 2}, pooled[] = {1, 2, 2};
  const tdm_conv3d_options around =
      OPTIONS(tdm_conv3d_options, o.padding[0] = o.padding[1] = o.padding[2] = 1);
  y = tdm_conv3d(graph, "conv", y, 3, kernel, &around);
  y = tdm_conv_transpose3d(graph, "back", y, 3, kernel, NULL);
  tdm_value taken;
  y = tdm_max_pool3d_with_indices(graph, "pool", y, pooled, NULL, &taken);
  y = tdm_max_unpool(graph, "unpool", y, taken, (const int64_t[]){4, 4, 5}, 3);
  const tdm_instance_norm_options tracked =
      OPTIONS(tdm_instance_norm_options, o.affine = true, o.track_statistics = true);
  y = tdm_instance_norm_with(graph, "norm", y, &tracked);
  return tdm_adaptive_avg_pool3d(graph, "shared", y, kernel);
}

static tdm_value build(tdm_graph *graph, const way *chosen) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(3, batch, LENGTH, WIDTH));
  tdm_scope_dtype(graph, TDM_FLOAT64);
  tdm_scope_push(graph, "block");
  const tdm_value sequence = read_sequence(graph, x);
  const tdm_value volume = see_volume(graph, x);
  const tdm_value h = tdm_gru_cell(
      graph, "cell", tdm_select(graph, "step", x, 1, 0),
      tdm_value_is_valid(sequence) ? tdm_select(graph, "state", sequence, 1, 0) : sequence, 6,
      NULL);
  const tdm_value pair =
      tdm_bilinear(graph, "pair", h, tdm_flatten(graph, "flat", volume, 1, -1), 2);
  tdm_scope_pop(graph);
  if (chosen->devices) {
    const tdm_parallel_options parallel =
        OPTIONS(tdm_parallel_options, o.devices = chosen->devices);
    tdm_data_parallel(graph, "block", &parallel);
  }
  const tdm_value first = tdm_mean(graph, "a", tdm_square(graph, "b", sequence), NULL, 0, false);
  return tdm_add(graph, "loss", first,
                 tdm_mean(graph, "c", tdm_square(graph, "d", pair), NULL, 0, false));
}

static tdm_session *make_session(tdm_context *context, const way *chosen) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(0.02);
  const tdm_session_options options = OPTIONS(
      tdm_session_options, o.loss = build(graph, chosen), o.optimizer = &optimizer, o.seed = 4,
      o.batch_dimension = "batch", o.micro_batches = OR_ONE(chosen->micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

static void train(tdm_context *context, const way *chosen, double *out_losses) {
  tdm_session *session = make_session(context, chosen);
  double x[ROWS * LENGTH * WIDTH];
  for (int i = 0; i < ROWS * LENGTH * WIDTH; i++)
    x[i] = i * i % 23 / 9.0 - 1 + i % 7 * 0.01;
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(3, ROWS, LENGTH, WIDTH), x);
  const tdm_feed feed = {"x", fed, false};
  for (int i = 0; i < STEPS; i++)
    if (tdm_train_step(session, &feed, 1, NULL, 0, &out_losses[i]) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  tdm_tensor_release(fed);
  tdm_session_release(session);
}

static void parts_are_the_whole(void **state) {
  (void)state;
  check_parts(train, ROWS);
}

/* A query that sees no key has nothing, and weighs nothing. */
static void a_query_without_keys_has_nothing(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 2, 4));
  const tdm_value padding = tdm_input(graph, "padding", TDM_BOOL, tdm_shape_of(1, 2));
  tdm_value weights;
  const tdm_multi_head_attention_options options =
      OPTIONS(tdm_multi_head_attention_options, o.padding = padding, o.out_weights = &weights);
  tdm_output(graph, "y", tdm_multi_head_attention(graph, "heads", x, x, x, 2, &options));
  tdm_output(graph, "weights", weights);
  tdm_session *session = tdm_session_create(graph, NULL);
  if (!session) fail_msg("%s", tdm_last_message());
  const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const bool all[] = {true, true};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 2, 4), numbers);
  tdm_tensor *out = tdm_tensor_from(context, TDM_BOOL, tdm_shape_of(1, 2), all);
  const tdm_feed feeds[] = {{"x", fed, false}, {"padding", out, false}};
  tdm_fetch fetches[] = {{"y", NULL}, {"weights", NULL}};
  assert_int_equal(tdm_run(session, feeds, 2, fetches, 2), TDM_OK);
  for (int f = 0; f < 2; f++) {
    const float *found = tdm_tensor_data(fetches[f].tensor);
    const tdm_shape shape = tdm_tensor_shape(fetches[f].tensor);
    for (int64_t i = 0; i < tdm_shape_count(&shape); i++)
      assert_true(found[i] == 0);
    tdm_tensor_release(fetches[f].tensor);
  }
  tdm_tensor_release(fed);
  tdm_tensor_release(out);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* ---- Refused calls --------------------------------------------------------------------------- */

typedef struct bad_case {
  const char *says;
  tdm_value (*build)(tdm_graph *graph, tdm_value x);
} bad_case;

static tdm_value steps;  /* (5, batch, 6) */
static tdm_value volume; /* (batch, 4, 3, 3, 3) */

/* x is (batch, 4, 6). */
#define CASE(name, expression)                                                                     \
  static tdm_value name(tdm_graph *graph, tdm_value x) {                                           \
    (void)x;                                                                                       \
    return expression;                                                                             \
  }
#define KERNEL(...) ((const int64_t[]){__VA_ARGS__})
static const tdm_value none = {0, 0};

CASE(cell_of_steps, tdm_rnn_cell(graph, "it", x, none, 3, NULL))
CASE(cell_of_none, tdm_gru_cell(graph, "it", none, none, 3, NULL))
CASE(cell_with_relu, tdm_lstm_cell(graph, "it", tdm_select(graph, "s", x, 1, 0), none, none, 3,
                                   WITH(tdm_cell_options, o.relu = true), NULL))
CASE(cell_unsized,
     tdm_gru_cell(graph, "it", tdm_select(graph, "s", x, 1, 0), none, 3, UNMADE(tdm_cell_options)))
CASE(projected_gru, tdm_gru(graph, "it", steps, 4, WITH(tdm_rnn_options, o.projection = 2), NULL))
CASE(projected_wide,
     tdm_lstm(graph, "it", steps, 4, WITH(tdm_rnn_options, o.projection = 4), NULL, NULL))
CASE(sequence_with_lengths, tdm_rnn(graph, "it", tdm_select(graph, "s", steps, 1, 0), 4,
                                    WITH(tdm_rnn_options, o.lengths = steps), NULL))
CASE(bilinear_of_two, tdm_bilinear(graph, "it", x, tdm_select(graph, "s", x, 1, 0), 2))
CASE(bilinear_of_none, tdm_bilinear(graph, "it", x, none, 2))
CASE(encoder_with_memory,
     tdm_transformer_encoder_layer(graph, "it", steps, 2,
                                   WITH(tdm_transformer_options, o.memory_mask = steps)))
CASE(encoder_narrow,
     tdm_transformer_encoder_layer(graph, "it", steps, 2,
                                   WITH(tdm_transformer_options, o.feedforward = -1)))
CASE(encoder_heads, tdm_transformer_encoder_layer(graph, "it", steps, 4, NULL))
CASE(decoder_of_none, tdm_transformer_decoder_layer(graph, "it", steps, none, 2, NULL))
CASE(heads_of_ranks,
     tdm_multi_head_attention(graph, "it", steps, tdm_select(graph, "s", x, 1, 0), steps, 2, NULL))
CASE(heads_with_other_mask,
     tdm_multi_head_attention(graph, "it", steps, steps, steps, 2,
                              WITH(tdm_multi_head_attention_options, o.mask = steps)))
CASE(causal_and_masked,
     tdm_multi_head_attention(graph, "it", steps, steps, steps, 2,
                              WITH(tdm_multi_head_attention_options, o.causal = true,
                                   o.mask = tdm_input(graph, "mask", TDM_BOOL,
                                                      tdm_shape_of(2, 5, 5)),
                                   o.add_zero_attn = true)))
CASE(same_and_strided,
     tdm_conv1d(graph, "it", x, 3, 3,
                WITH(tdm_conv_options, o.same = true, o.stride[0] = o.stride[1] = 2)))
CASE(same_and_padded,
     tdm_conv1d(graph, "it", x, 3, 3, WITH(tdm_conv_options, o.same = true, o.padding[0] = 1)))
CASE(reflected_beyond,
     tdm_conv1d(graph, "it", x, 3, 3,
                WITH(tdm_conv_options, o.padding[0] = 6, o.padding_mode = TDM_PAD_REFLECT)))
CASE(padded_somehow,
     tdm_conv1d(graph, "it", x, 3, 3,
                WITH(tdm_conv_options, o.padding[0] = 1, o.padding_mode = (tdm_pad_mode)9)))
CASE(same_and_strided_deep, tdm_conv3d(graph, "it", volume, 3, KERNEL(2, 2, 2),
                                       WITH(tdm_conv3d_options, o.same = true,
                                            o.stride[0] = o.stride[1] = o.stride[2] = 2)))
CASE(reflected_deep,
     tdm_conv3d(graph, "it", volume, 3, KERNEL(1, 1, 1),
                WITH(tdm_conv3d_options, o.padding[0] = 3, o.padding_mode = TDM_PAD_REFLECT)))
CASE(conv_of_steps, tdm_conv3d(graph, "it", x, 3, KERNEL(2, 2, 2), NULL))
CASE(conv_without_kernel, tdm_conv3d(graph, "it", volume, 3, NULL, NULL))
CASE(conv_of_no_kernel, tdm_conv3d(graph, "it", volume, 3, KERNEL(2, 0, 2), NULL))
CASE(conv_deep, tdm_conv3d(graph, "it", volume, 3, KERNEL(4, 1, 1), NULL))
CASE(conv_groups,
     tdm_conv3d(graph, "it", volume, 4, KERNEL(1, 1, 1), WITH(tdm_conv3d_options, o.groups = 3)))
CASE(transposed_away, tdm_conv_transpose3d(graph, "it", volume, 4, KERNEL(1, 1, 1),
                                           WITH(tdm_conv_transpose3d_options, o.padding[0] = 2)))
CASE(transposed_by_more,
     tdm_conv_transpose3d(graph, "it", volume, 4, KERNEL(2, 2, 2),
                          WITH(tdm_conv_transpose3d_options, o.output_padding[0] = 1)))
CASE(pool_of_steps, tdm_max_pool3d(graph, "it", x, KERNEL(2, 2, 2), NULL))
CASE(pool_padding, tdm_avg_pool3d(graph, "it", volume, KERNEL(2, 2, 2),
                                  WITH(tdm_pool3d_options, o.padding[0] = 2)))
CASE(pool_without_sizes, tdm_adaptive_max_pool3d(graph, "it", volume, NULL))
CASE(pool_to_none, tdm_adaptive_avg_pool3d(graph, "it", volume, KERNEL(0, 2, 2)))
CASE(unpool_without_sizes, tdm_max_unpool(graph, "it", x, x, NULL, 1))
CASE(unpool_of_others,
     tdm_max_unpool(graph, "it", x,
                    tdm_input(graph, "at", TDM_INT64, tdm_shape_of(3, TDM_DIM("batch"), 5, 6)),
                    KERNEL(5), 1))
CASE(unpool_to_none, tdm_max_unpool(graph, "it", volume, volume, KERNEL(4, 0, 4), 3))
CASE(unpool_by_numbers, tdm_max_unpool(graph, "it", x, x, KERNEL(12), 1))
CASE(cubic_of_one, tdm_interpolate(graph, "it", x, KERNEL(2), 1, TDM_INTERPOLATE_CUBIC, false))

static void what_is_refused_is_named(void **state) {
  (void)state;
  static const bad_case cases[] = {
      {"[batch, features]", cell_of_steps},
      {"gru_cell", cell_of_none},
      {"no option relu", cell_with_relu},
      {"tdm_cell_options_default()", cell_unsized},
      {"no option projection", projected_gru},
      {"projection is 4, expected 0 to 3", projected_wide},
      {"has no lengths", sequence_with_lengths},
      {"as many dimensions", bilinear_of_two},
      {"bilinear", bilinear_of_none},
      {"no memory", encoder_with_memory},
      {"feedforward is -1", encoder_narrow},
      {"4 heads divide", encoder_heads},
      {"transformer_decoder_layer", decoder_of_none},
      {"key is [batch, 6], expected 3 dimensions", heads_of_ranks},
      {"mask is [5, batch, 6], expected [?, 5, 5]", heads_with_other_mask},
      {"let the mask be causal", causal_and_masked},
      {"strides are 1", same_and_strided},
      {"no padding is given", same_and_padded},
      {"strides are 1", same_and_strided_deep},
      {"not as many elements", reflected_deep},
      {"as many elements", reflected_beyond},
      {"no mode 9", padded_somehow},
      {"depth, height, width", conv_of_steps},
      {"is NULL", conv_without_kernel},
      {"must be positive", conv_of_no_kernel},
      {"does not fit", conv_deep},
      {"3 groups", conv_groups},
      {"something must be left", transposed_away},
      {"output_padding less", transposed_by_more},
      {"depth, height, width", pool_of_steps},
      {"half the kernel", pool_padding},
      {"is NULL", pool_without_sizes},
      {"no size", pool_to_none},
      {"the number of sizes is 0, expected 1 to 3", unpool_without_sizes},
      {"indices is [batch, 5, 6], expected [batch, 4, 6]", unpool_of_others},
      {"sizes is 0 at position 1", unpool_to_none},
      {"indices are float32", unpool_by_numbers},
      {"takes two", cubic_of_one},
  };
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_dim batch = TDM_DIM("batch");
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(3, batch, 4, 6));
    steps = tdm_input(graph, "steps", TDM_FLOAT32, tdm_shape_of(3, 5, batch, 6));
    volume = tdm_input(graph, "volume", TDM_FLOAT32, tdm_shape_of(5, batch, 4, 3, 3, 3));
    const tdm_value y = cases[i].build(graph, x);
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    if (tdm_value_is_valid(y)) fail_msg("case %zu, for \"%s\"", i, cases[i].says);
    if (!strstr(tdm_last_message(), cases[i].says) || !strstr(tdm_last_message(), "it"))
      fail_msg("case %zu, for \"%s\": \"%s\"", i, cases[i].says, tdm_last_message());
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* Pools and convolves images (n, 4, 8, 8) with windows of 3. Each number of a list of paddings
 * applies to its own dimension. */
static void a_padding_is_of_its_dimension(void **state) {
  (void)state;
  static const struct {
    int64_t padding[2];
    int64_t sizes[2];
  } told[] = {{{1, 1}, {8, 8}}, {{1, 0}, {8, 6}}, {{0, 1}, {6, 8}}, {{0, 0}, {6, 6}}};
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(4, TDM_DIM("n"), 4, 8, 8));
  for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
    const int64_t *p = told[i].padding;
    const tdm_value made[] = {
        tdm_conv2d(graph, NULL, x, 2, 3, 3,
                   WITH(tdm_conv_options, o.padding[0] = p[0], o.padding[1] = p[1])),
        tdm_max_pool2d(graph, NULL, x, 3, 3,
                       WITH(tdm_pool_options, o.stride[0] = o.stride[1] = 1, o.padding[0] = p[0],
                            o.padding[1] = p[1]))};
    for (size_t k = 0; k < 2; k++) {
      assert_true(tdm_value_is_valid(made[k]));
      const tdm_shape shape = tdm_value_shape(graph, made[k]);
      assert_int_equal(shape.dims[2], told[i].sizes[0]);
      assert_int_equal(shape.dims[3], told[i].sizes[1]);
    }
  }
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* One value each for any number of layers and directions, with or without a batch. No memory around
 * it is written. */
static void last_states_are_one_value(void **state) {
  (void)state;
  static const struct {
    int layers;
    bool bidirectional, batch;
    tdm_dim states;
  } cases[] = {{1, false, true, 1},
               {2, false, true, 2},
               {2, true, true, 4},
               {3, true, false, 6},
               {65, true, true, 130}};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_shape shape = cases[i].batch ? tdm_shape_of(3, 2, 5, 4) : tdm_shape_of(2, 2, 4);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
    const tdm_rnn_options *options =
        WITH(tdm_rnn_options, o.layers = cases[i].layers, o.bidirectional = cases[i].bidirectional);
    tdm_value given[] = {x, {0, 0}, x, {0, 0}, x};
    (void)tdm_lstm(graph, "lstm", x, 3, options, &given[1], &given[3]);
    for (int k = 0; k < 5; k += 2)
      assert_memory_equal(&given[k], &x, sizeof x);
    for (int k = 1; k < 5; k += 2) {
      const tdm_shape found = tdm_value_shape(graph, given[k]);
      const tdm_shape wanted = cases[i].batch ? tdm_shape_of(3, cases[i].states, 5, 3)
                                              : tdm_shape_of(2, cases[i].states, 3);
      assert_true(tdm_shape_equal(&found, &wanted));
    }
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_are_the_whole),
      cmocka_unit_test(a_query_without_keys_has_nothing),
      cmocka_unit_test(what_is_refused_is_named),
      cmocka_unit_test(a_padding_is_of_its_dimension),
      cmocka_unit_test(last_states_are_one_value),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
