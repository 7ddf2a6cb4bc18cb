/* A model of slices, pads, repetitions, indices and their results, over a batch whose size has a
 * name. Computed in micro-batches or by replicas it equals the whole one. Layers that cannot be cut
 * are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/layers/parts.h"
#include "tests/options.h"

enum { ROWS = 11, CHANNELS = 4, WIDTH = 6, CLASSES = 3 };

/* Devices for parts of the model. */
/* x (batch, 4, 6) -> (batch, 4, 7): every second column, turned around, reflected at its ends and
 * rolled; before it a row that is a parameter. */
static tdm_value arrange(tdm_graph *graph, tdm_value x) {
  const tdm_initializer one = {TDM_INIT_CONSTANT, 1.0, 0.0, -1};
  const int64_t around[] = {1, 2};
  tdm_value y = tdm_slice(graph, "even", x, 2, 0, TDM_TO_THE_END, 2);
  y = tdm_permute(graph, "turned", y, (const int[]){0, 2, 1}, 3);
  y = tdm_flip(graph, "flipped", y, (const int[]){-1}, 1);
  y = tdm_pad(graph, "padded", y, around, 2, TDM_PAD_REFLECT, 0);
  y = tdm_roll(graph, "rolled", y, 2, -1);
  const tdm_value token =
      tdm_parameter(graph, "token", TDM_FLOAT64, tdm_shape_of(3, 1, 1, 7), &one);
  const tdm_value first = tdm_slice(graph, "first", y, 1, 0, 1, 1);
  const tdm_value rows[] = {tdm_expand_as(graph, "tokens", token, first), y};
  return tdm_concat(graph, "rows", rows, 2, 1);
}

/* x (batch, 4, 7) -> (batch, 3, 5). */
static tdm_value transform(tdm_graph *graph, tdm_value x) {
  tdm_value y = tdm_tril(graph, "lower", x, 3);
  y = tdm_repeat(graph, "twice", y, (const int64_t[]){1, 1, 2}, 3);
  y = tdm_prelu(graph, "prelu", tdm_glu(graph, "gate", y, -1), CHANNELS);
  y = tdm_group_norm(graph, "norm", y, 2);
  const tdm_value places =
      tdm_cast(graph, "real", tdm_arange_like(graph, "places", y, 2), TDM_FLOAT64);
  y = tdm_mul(graph, "risen", y, tdm_affine(graph, "rise", places, 0.1, 1));
  const tdm_conv_transpose_options strided =
      OPTIONS(tdm_conv_transpose_options, o.stride[0] = o.stride[1] = 2);
  y = tdm_conv_transpose1d(graph, "up", y, CLASSES, 3, &strided);
  y = tdm_interpolate(graph, "down", y, (const int64_t[]){9}, 1, TDM_INTERPOLATE_LINEAR, false);
  return tdm_index_select(graph, "some", y, 2, tdm_arange(graph, "which", TDM_INT64, 0, 9, 2));
}

static tdm_value build(tdm_graph *graph, const way *chosen) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(3, batch, CHANNELS, WIDTH));
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, batch));
  tdm_scope_dtype(graph, TDM_FLOAT64);
  tdm_scope_push(graph, "block");
  const tdm_value y = transform(graph, arrange(graph, x));
  const tdm_value hot =
      tdm_cast(graph, "hot", tdm_one_hot(graph, "one_hot", ids, CLASSES), TDM_FLOAT64);
  const tdm_value masked = tdm_mul(graph, "masked", y, tdm_unsqueeze(graph, "of", hot, -1));
  tdm_scope_pop(graph);
  if (chosen->devices) {
    const tdm_parallel_options parallel =
        OPTIONS(tdm_parallel_options, o.devices = chosen->devices);
    tdm_data_parallel(graph, "block", &parallel);
  }
  const tdm_value at = tdm_unsqueeze(graph, "at", tdm_unsqueeze(graph, "at_0", ids, 1), 2);
  const tdm_value index = tdm_expand(graph, "index", at, tdm_shape_of(3, TDM_INFER, TDM_INFER, 5));
  const tdm_value picked =
      tdm_squeeze(graph, "picked", tdm_gather(graph, "gathered", y, 1, index), 1);
  const tdm_value sums = tdm_sum(graph, "sums", masked, (const int[]){1}, 1, false);
  const tdm_value both[] = {picked, sums};
  const tdm_value stacked = tdm_stack(graph, "both", both, 2, 1);
  const tdm_value products =
      tdm_prod(graph, "products", tdm_tanh(graph, "small", y), (const int[]){1}, 1, false);
  const tdm_value spread = tdm_logsumexp(graph, "spread", stacked, (const int[]){2}, 1, false);
  return tdm_add(graph, "loss",
                 tdm_mean(graph, "a", tdm_square(graph, "b", spread), NULL, 0, false),
                 tdm_mean(graph, "c", tdm_square(graph, "d", products), NULL, 0, false));
}

static tdm_session *make_session(tdm_context *context, const way *chosen) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(0.02);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = build(graph, chosen), o.optimizer = &optimizer,
              o.seed = 4, o.micro_batches = OR_ONE(chosen->micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

static void train(tdm_context *context, const way *chosen, double *out_losses) {
  tdm_session *session = make_session(context, chosen);
  double x[ROWS * CHANNELS * WIDTH];
  int64_t ids[ROWS];
  for (int i = 0; i < ROWS * CHANNELS * WIDTH; i++)
    x[i] = i * i % 23 / 9.0 - 1;
  for (int i = 0; i < ROWS; i++)
    ids[i] = i * 2 % CLASSES;
  tdm_tensor *images =
      tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(3, ROWS, CHANNELS, WIDTH), x);
  tdm_tensor *classes = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, ROWS), ids);
  const tdm_feed feeds[] = {{"x", images, false}, {"ids", classes, false}};
  for (int i = 0; i < STEPS; i++)
    if (tdm_train_step(session, feeds, 2, NULL, 0, &out_losses[i]) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  tdm_tensor_release(images);
  tdm_tensor_release(classes);
  tdm_session_release(session);
}

static void parts_are_the_whole(void **state) {
  (void)state;
  check_parts(train, ROWS);
}

/* ---- What mixes rows ------------------------------------------------------------------------- */

static tdm_value first_rows(tdm_graph *graph, tdm_value x) {
  return tdm_slice(graph, "it", x, 0, 0, 2, 1);
}

static tdm_value turned_rows(tdm_graph *graph, tdm_value x) {
  return tdm_flip(graph, "it", x, (const int[]){0}, 1);
}

static tdm_value padded_rows(tdm_graph *graph, tdm_value x) {
  return tdm_pad(graph, "it", x, (const int64_t[]){0, 0, 0, 1}, 4, TDM_PAD_CONSTANT, 0);
}

static tdm_value counted_rows(tdm_graph *graph, tdm_value x) {
  return tdm_arange_like(graph, "it", x, 0);
}

static tdm_value picked_rows(tdm_graph *graph, tdm_value x) {
  return tdm_index_select(graph, "it", x, 0, tdm_arange(graph, "which", TDM_INT64, 0, 2, 1));
}

static void what_mixes_rows_is_not_cut(void **state) {
  (void)state;
  tdm_value (*const builders[])(tdm_graph *, tdm_value) = {first_rows, turned_rows, padded_rows,
                                                           counted_rows, picked_rows};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), 3));
    tdm_output(graph, "y", builders[i](graph, x));
    const tdm_session_options options =
        OPTIONS(tdm_session_options, o.micro_batches = 2, o.batch_dimension = "batch");
    tdm_session *session = tdm_session_create(graph, &options);
    if (session) { /* found when the sizes are known */
      tdm_tensor *rows = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 4, 3));
      const tdm_feed feed = {"x", rows, false};
      tdm_fetch fetch = {.name = "y"};
      if (tdm_run(session, &feed, 1, &fetch, 1) == TDM_OK) fail_msg("case %zu was cut", i);
      tdm_tensor_release(rows);
    }
    if (!strstr(tdm_last_message(), "it") || !strstr(tdm_last_message(), "rows"))
      fail_msg("case %zu: \"%s\"", i, tdm_last_message());
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* ---- Indices out of range -------------------------------------------------------------------- */

static void an_index_out_of_range_is_named(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu:0", "sim:0"};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t d = 0; d < 2; d++) {
    tdm_graph *graph = tdm_graph_create(context);
    tdm_place(graph, devices[d]);
    const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(2, 4, 3));
    const tdm_value index = tdm_input(graph, "index", TDM_INT64, tdm_shape_of(1, 3));
    tdm_output(graph, "y", tdm_index_select(graph, "it", x, 0, index));
    tdm_session *session = tdm_session_create(graph, NULL);
    if (!session) fail_msg("%s", tdm_last_message());
    const int64_t places[] = {0, 3, 4};
    tdm_tensor *rows = tdm_tensor_zeros(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, 4, 3));
    tdm_tensor *wrong = tdm_tensor_from(context, TDM_INT64, tdm_shape_of(1, 3), places);
    const tdm_feed feeds[] = {{"x", rows, false}, {"index", wrong, false}};
    tdm_fetch fetch = {.name = "y"};
    assert_int_equal(tdm_run(session, feeds, 2, &fetch, 1), TDM_INVALID_ARGUMENT);
    if (!strstr(tdm_last_message(), "4 at position 2")) fail_msg("\"%s\"", tdm_last_message());
    tdm_tensor_release(rows);
    tdm_tensor_release(wrong);
    tdm_session_release(session);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* Dimensions that have names, one or both, also where there are no elements to count. */
static void names_are_repeated(void **state) {
  (void)state;
  static const int64_t extents[][2] = {{3, 2}, {3, 0}, {0, 4}, {0, 0}};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
    for (int named = 1; named <= 2; named++) {
      const int64_t *extent = extents[i];
      tdm_graph *graph = tdm_graph_create(context);
      const tdm_value x =
          tdm_input(graph, "x", TDM_FLOAT32,
                    tdm_shape_of(2, TDM_DIM("batch"), named == 2 ? TDM_DIM("length") : extent[1]));
      tdm_output(graph, "y", tdm_repeat(graph, "f", x, (const int64_t[]){2, 2, 3}, 3));
      tdm_session *session = tdm_session_create(graph, NULL);
      const tdm_shape shape = tdm_shape_of(2, extent[0], extent[1]);
      tdm_tensor *fed =
          tdm_tensor_from(context, TDM_FLOAT32, shape, (const float[]){1, 2, 3, 4, 5, 6});
      tdm_fetch fetch = {.name = "y"};
      if (!session || tdm_run(session, &(tdm_feed){"x", fed, false}, 1, &fetch, 1) != TDM_OK)
        fail_msg("%s", tdm_last_message());
      const tdm_shape wanted = tdm_shape_of(3, 2, 2 * extent[0], 3 * extent[1]);
      const tdm_shape found = tdm_tensor_shape(fetch.tensor);
      assert_true(tdm_shape_equal(&found, &wanted));
      const float *y = tdm_tensor_data(fetch.tensor);
      for (int64_t k = 0; k < tdm_shape_count(&found); k++) {
        const int64_t row = k / wanted.dims[2] % extent[0], column = k % extent[1];
        assert_true(y[k] == (float)(row * extent[1] + column + 1));
      }
      tdm_tensor_release(fed);
      tdm_tensor_release(fetch.tensor);
      tdm_session_release(session);
      tdm_graph_release(graph);
    }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_are_the_whole),
      cmocka_unit_test(what_mixes_rows_is_not_cut),
      cmocka_unit_test(an_index_out_of_range_is_named),
      cmocka_unit_test(names_are_repeated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
