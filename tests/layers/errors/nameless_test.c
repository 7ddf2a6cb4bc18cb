/* Layers without names are numbered as torch.nn.Sequential numbers its modules. Each call counts
 * once, and every operation that draws random numbers draws different ones, for any names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

enum { ROWS = 6, WIDTH = 8 };

static tdm_context *context;

static int begin_group(void **unused) {
  (void)unused;
  context = tdm_context_create(NULL);
  return context ? 0 : -1;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

static tdm_value rows_of(tdm_graph *graph, const char *name, int64_t width) {
  return tdm_input(graph, name, TDM_FLOAT32, tdm_shape_of(2, TDM_DIM("batch"), width));
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* nn.Sequential(Linear, ReLU, Dropout, Linear, Sequential(Linear, Tanh), Linear), and a sum between
 * that is no module. */
static tdm_graph *sequential(void) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_scope_push(graph, "net");
  const tdm_value x = rows_of(graph, "x", WIDTH);
  tdm_value y = tdm_relu(graph, NULL, tdm_linear(graph, NULL, x, 5));
  y = tdm_linear(graph, NULL, tdm_dropout(graph, NULL, y, 0.5), WIDTH);
  y = tdm_add(graph, "residual", y, x);
  tdm_scope_push(graph, NULL);
  y = tdm_tanh(graph, NULL, tdm_linear(graph, NULL, y, 4));
  tdm_scope_pop(graph);
  tdm_output(graph, "y", tdm_linear_without_bias(graph, NULL, y, 2));
  tdm_scope_pop(graph);
  return graph;
}

static tdm_session *session_of(tdm_graph *graph, const tdm_session_options *options) {
  tdm_session *session = tdm_session_create(graph, options);
  if (!session) fail_msg("%s", tdm_last_message());
  tdm_graph_release(graph);
  return session;
}

static void parameters_are_called_as_sequential_calls_them(void **unused) {
  (void)unused;
  static const char *const names[] = {"net/0.weight", "net/0.bias",     "net/3.weight",
                                      "net/3.bias",   "net/4/0.weight", "net/4/0.bias",
                                      "net/5.weight"};
  tdm_session *session = session_of(sequential(), NULL);
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(session), false);
  assert_int_equal(tdm_tensor_list_count(list), sizeof names / sizeof names[0]);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    assert_non_null(tdm_tensor_list_find(list, names[i]));
  tdm_tensor_list_release(list);
  tdm_session_release(session);
}

static void files_of_sequential_load(void **unused) {
  (void)unused;
  static const struct {
    const char *name;
    int rank;
    int64_t dims[2];
  } saved[] = {{"net.0.weight", 2, {5, WIDTH}},   {"net.0.bias", 1, {5, 0}},
               {"net.3.weight", 2, {WIDTH, 5}},   {"net.3.bias", 1, {WIDTH, 0}},
               {"net.4.0.weight", 2, {4, WIDTH}}, {"net.4.0.bias", 1, {4, 0}},
               {"net.5.weight", 2, {2, 4}}};
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++) {
    tdm_tensor *tensor = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32,
                                         tdm_shape_make(saved[i].rank, saved[i].dims));
    assert_non_null(tensor);
    assert_int_equal(tdm_tensor_list_add(list, saved[i].name, tensor), TDM_OK);
    tdm_tensor_release(tensor);
  }
  tdm_session *session = session_of(sequential(), NULL);
  if (tdm_session_load_state_dict(session, list, NULL) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  tdm_tensor_list *now = tdm_store_save(tdm_session_store(session), false);
  const float *weight = tdm_tensor_data(tdm_tensor_list_find(now, "net/4/0.weight"));
  for (int i = 0; i < 4 * WIDTH; i++)
    assert_true(weight[i] == 1.0f);
  tdm_tensor_list_release(now);
  tdm_tensor_list_release(list);
  tdm_session_release(session);
}

/* A scope that is pushed again continues; others have their own numbers; names do not count. */
static void scopes_count_for_themselves(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  assert_string_equal(tdm_graph_name(graph, NULL), "0");
  tdm_scope_push(graph, "a");
  assert_string_equal(tdm_graph_name(graph, NULL), "0");
  assert_string_equal(tdm_graph_name(graph, "own"), "own");
  assert_string_equal(tdm_graph_name(graph, NULL), "1");
  tdm_scope_pop(graph);
  assert_string_equal(tdm_graph_name(graph, NULL), "1");
  tdm_scope_push(graph, "a");
  assert_string_equal(tdm_graph_name(graph, NULL), "2");
  tdm_scope_pop(graph);
  assert_string_equal(tdm_graph_name(NULL, NULL), "?");
  assert_int_equal(tdm_graph_status(graph), TDM_OK);
  tdm_graph_release(graph);
}

static void a_number_that_is_taken_is_told(void **unused) {
  (void)unused;
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = rows_of(graph, "x", WIDTH);
  tdm_linear(graph, "0", x, 3);
  tdm_linear(graph, NULL, x, 3);
  assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "0: there is a layer of that name"));
  tdm_graph_release(graph);
  graph = tdm_graph_create(context);
  tdm_relu(graph, "", rows_of(graph, "x", WIDTH));
  assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
  tdm_graph_release(graph);
}

/* ---- Each call counts once ------------------------------------------------------------------- */

typedef struct given {
  tdm_value x, y;      /* (batch, WIDTH) */
  tdm_value sequences; /* (6, batch, WIDTH) */
  tdm_value images;    /* (batch, 4, 9, 9) */
  tdm_value ids;       /* (batch, 3) */
  tdm_value classes;   /* (batch) */
  tdm_value flags;     /* (batch, WIDTH) */
} given;

#define LAYERS(X)                                                                                  \
  X(tdm_linear(graph, NULL, it->x, 3))                                                             \
  X(tdm_linear_without_bias(graph, NULL, it->x, 3))                                                \
  X(tdm_embedding(graph, NULL, it->ids, 20, 4))                                                    \
  X(tdm_rnn(graph, NULL, it->sequences, 5, NULL, NULL))                                            \
  X(tdm_lstm(graph, NULL, it->sequences, 5, NULL, NULL, NULL))                                     \
  X(tdm_gru(graph, NULL, it->sequences, 5, NULL, NULL))                                            \
  X(tdm_conv2d(graph, NULL, it->images, 6, 3, 3, NULL))                                            \
  X(tdm_conv_transpose2d(graph, NULL, it->images, 6, 3, 3, NULL))                                  \
  X(tdm_max_pool2d(graph, NULL, it->images, 3, 3, NULL))                                           \
  X(tdm_batch_norm(graph, NULL, it->images))                                                       \
  X(tdm_group_norm(graph, NULL, it->images, 2))                                                    \
  X(tdm_instance_norm(graph, NULL, it->images))                                                    \
  X(tdm_layer_norm(graph, NULL, it->x, 1))                                                         \
  X(tdm_rms_norm(graph, NULL, it->x, 1))                                                           \
  X(tdm_dropout(graph, NULL, it->x, 0.5))                                                          \
  X(tdm_multi_head_attention(graph, NULL, it->sequences, it->sequences, it->sequences, 2, NULL))   \
  X(tdm_prelu(graph, NULL, it->x, 1))                                                              \
  X(tdm_glu(graph, NULL, it->x, 1))                                                                \
  X(tdm_relu(graph, NULL, it->x))                                                                  \
  X(tdm_gelu(graph, NULL, it->x))                                                                  \
  X(tdm_softplus(graph, NULL, it->x, 1, 20))                                                       \
  X(tdm_hardtanh(graph, NULL, it->x, -1, 1))                                                       \
  X(tdm_softmax(graph, NULL, it->x, -1))                                                           \
  X(tdm_add(graph, NULL, it->x, it->y))                                                            \
  X(tdm_compare_scalar(graph, NULL, it->x, TDM_LESS, 1))                                           \
  X(tdm_masked_fill(graph, NULL, it->x, it->flags, 0))                                             \
  X(tdm_where(graph, NULL, it->flags, it->x, it->y))                                               \
  X(tdm_mean(graph, NULL, it->images, (const int[]){1, 3}, 2, false))                              \
  X(tdm_variance(graph, NULL, it->images, (const int[]){2}, 1, 1, false))                          \
  X(tdm_max(graph, NULL, it->x, 1, false, NULL))                                                   \
  X(tdm_logsumexp(graph, NULL, it->x, (const int[]){1}, 1, false))                                 \
  X(tdm_cumsum(graph, NULL, it->x, 1))                                                             \
  X(tdm_reshape(graph, NULL, it->images, tdm_shape_of(2, TDM_DIM("batch"), TDM_INFER)))            \
  X(tdm_flatten(graph, NULL, it->images, 1, -1))                                                   \
  X(tdm_transpose(graph, NULL, it->x, 0, 1))                                                       \
  X(tdm_unsqueeze(graph, NULL, it->x, 0))                                                          \
  X(tdm_triu(graph, NULL, it->images, 0))                                                          \
  X(tdm_roll(graph, NULL, it->x, 3, 1))                                                            \
  X(tdm_flip(graph, NULL, it->x, (const int[]){1}, 1))                                             \
  X(tdm_concat(graph, NULL, (const tdm_value[]){it->x, it->y}, 2, 1))                              \
  X(tdm_stack(graph, NULL, (const tdm_value[]){it->x, it->y}, 2, 1))                               \
  X(tdm_matmul(graph, NULL, it->x, tdm_transpose(graph, "t", it->y, 0, 1)))                        \
  X(tdm_mse(graph, NULL, it->x, it->y))                                                            \
  X(tdm_huber(graph, NULL, it->x, it->y))                                                          \
  X(tdm_kl_div(graph, NULL, it->x, it->y))                                                         \
  X(tdm_binary_cross_entropy(graph, NULL, it->x, it->y))                                           \
  X(tdm_cross_entropy(graph, NULL, it->images, tdm_argmax(graph, "a", it->images, 1, false)))      \
  X(tdm_nll(graph, NULL, tdm_log_softmax(graph, "l", it->x, -1), it->classes))

#define CALL(call)                                                                                 \
  {                                                                                                \
    const tdm_value made = call;                                                                   \
    const int number = (int)strtol(tdm_graph_name(graph, NULL), NULL, 10);                         \
    if (!tdm_value_is_valid(made)) fail_msg(#call ": %s", tdm_last_message());                     \
    if (number != counted + 1) fail_msg(#call " counts %d times", number - counted);               \
    counted = number + 1;                                                                          \
  }

static void each_call_counts_once(void **unused) {
  (void)unused;
  const tdm_dim batch = TDM_DIM("batch");
  tdm_graph *graph = tdm_graph_create(context);
  const given values = {
      .x = rows_of(graph, "x", WIDTH),
      .y = rows_of(graph, "y", WIDTH),
      .sequences = tdm_input(graph, "sequences", TDM_FLOAT32, tdm_shape_of(3, 6, batch, WIDTH)),
      .images = tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, batch, 4, 9, 9)),
      .ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(2, batch, 3)),
      .classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch)),
      .flags = tdm_input(graph, "flags", TDM_BOOL, tdm_shape_of(2, batch, WIDTH)),
  };
  const given *it = &values;
  int counted = 0;
  LAYERS(CALL)
  assert_int_equal(tdm_graph_status(graph), TDM_OK);
  tdm_graph_release(graph);
}

/* ---- Dropouts -------------------------------------------------------------------------------- */

/* Adds three dropouts of ones in one training run, weighted 1, 2 and 4. If the masks are
 * independent, each of eight sums is equally likely. */
static void train_dropouts(const char *const names[3], float masks[3][ROWS * WIDTH]) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = rows_of(graph, "x", WIDTH);
  tdm_value sum = tdm_linear(graph, "fc", x, WIDTH);
  static const char *const outputs[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) {
    const tdm_value dropped = tdm_dropout(graph, names[i], x, 0.5);
    tdm_output(graph, outputs[i], dropped);
    sum = tdm_add(graph, outputs[i], sum, dropped);
  }
  const tdm_optimizer optimizer = tdm_sgd(0.1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = tdm_mean(graph, "loss", sum, NULL, 0, false),
              o.optimizer = &optimizer, o.seed = 7);
  tdm_session *session = session_of(graph, &options);
  tdm_tensor *ones = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(2, ROWS, WIDTH));
  const tdm_feed feed = {"x", ones, false};
  tdm_fetch fetches[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  if (tdm_train_step(session, &feed, 1, fetches, 3, NULL) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  for (int i = 0; i < 3; i++) {
    memcpy(masks[i], tdm_tensor_data(fetches[i].tensor), sizeof masks[i]);
    tdm_tensor_release(fetches[i].tensor);
  }
  tdm_tensor_release(ones);
  tdm_session_release(session);
}

static void dropouts_of_one_name_draw_apart(void **unused) {
  (void)unused;
  static const char *const names[][3] = {
      {NULL, NULL, NULL}, {"drop", "drop", "drop"}, {"drop", NULL, "other"}};
  float masks[3][3][ROWS * WIDTH];
  for (int k = 0; k < 3; k++) {
    train_dropouts(names[k], masks[k]);
    for (int a = 0; a < 3; a++)
      for (int b = 0; b < a; b++)
        assert_memory_not_equal(masks[k][a], masks[k][b], sizeof masks[k][a]);
  }
  /* The first of several with one name draws the same as a single one. */
  assert_memory_equal(masks[1][0], masks[2][0], sizeof masks[1][0]);
  float again[3][ROWS * WIDTH];
  train_dropouts(names[1], again);
  assert_memory_equal(again, masks[1], sizeof again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_are_called_as_sequential_calls_them),
      cmocka_unit_test(files_of_sequential_load),
      cmocka_unit_test(scopes_count_for_themselves),
      cmocka_unit_test(a_number_that_is_taken_is_told),
      cmocka_unit_test(each_call_counts_once),
      cmocka_unit_test(dropouts_of_one_name_draw_apart),
  };
  return cmocka_run_group_tests(tests, begin_group, end_group);
}
