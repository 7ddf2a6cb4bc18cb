/* Constants of a graph, and values filled like others. They are read back unchanged, with every
 * dtype, on every device kind. They are part of models in micro-batches or replicas. They count in
 * memory and are in no file. Graphs share them only if they are equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/layers/parts.h"
#include "tests/options.h"

enum { ROWS = 7, FEATURES = 3, WIDE = 5 };

static const tdm_dtype all_dtypes[] = {TDM_FLOAT32, TDM_FLOAT64, TDM_INT32,   TDM_INT64,
                                       TDM_UINT8,   TDM_BOOL,    TDM_FLOAT16, TDM_BFLOAT16};
static const char *const devices[] = {"cpu:0", "sim:0"};

static tdm_session *must_create(tdm_graph *graph, const tdm_session_options *options) {
  tdm_session *session = tdm_session_create(graph, options);
  if (!session) fail_msg("%s", tdm_last_message());
  return session;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* A constant itself, and turned around by a layer on device. */
static void read_back(tdm_context *context, tdm_dtype dtype, const char *device) {
  unsigned char data[6 * 8], turned[6 * 8], got[6 * 8];
  const size_t size = tdm_dtype_bytes(dtype), bytes = 6 * size;
  for (size_t i = 0; i < bytes; i++)
    data[i] = (unsigned char)(dtype == TDM_BOOL ? i % 2 : i * 7 + 1);
  for (size_t i = 0; i < 6; i++)
    memcpy(turned + i * size, data + (i / 3 * 3 + 2 - i % 3) * size, size);
  unsigned char *given = malloc(bytes);
  assert_non_null(given);
  memcpy(given, data, bytes);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, device);
  const tdm_value constant = tdm_constant(graph, "c", dtype, tdm_shape_of(2, 2, 3), given);
  memset(given, 0xff, bytes); /* it was copied */
  free(given);
  tdm_output(graph, "same", constant);
  if (dtype != TDM_FLOAT16 && dtype != TDM_BFLOAT16)
    tdm_output(graph, "turned", tdm_flip(graph, "turned", constant, (const int[]){1}, 1));
  tdm_session *session = must_create(graph, NULL);
  tdm_fetch fetches[] = {{"same", NULL}, {"turned", NULL}};
  const size_t count = dtype == TDM_FLOAT16 || dtype == TDM_BFLOAT16 ? 1 : 2;
  if (tdm_run(session, NULL, 0, fetches, count) != TDM_OK) fail_msg("%s", tdm_last_message());
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(tdm_tensor_read(fetches[i].tensor, got, bytes), TDM_OK);
    assert_memory_equal(got, i == 0 ? data : turned, bytes);
    tdm_tensor_release(fetches[i].tensor);
  }
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void constants_are_read_as_given(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof all_dtypes / sizeof *all_dtypes; i++)
    for (size_t k = 0; k < sizeof devices / sizeof *devices; k++)
      read_back(context, all_dtypes[i], devices[k]);
  tdm_context_release(context);
}

static void a_constant_may_be_empty(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  tdm_output(graph, "y", tdm_constant(graph, "c", TDM_INT32, tdm_shape_of(2, 0, 3), NULL));
  tdm_session *session = must_create(graph, NULL);
  tdm_fetch fetch = {"y", NULL};
  assert_int_equal(tdm_run(session, NULL, 0, &fetch, 1), TDM_OK);
  assert_int_equal(tdm_tensor_bytes(fetch.tensor), 0);
  tdm_tensor_release(fetch.tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* Rows less a constant, times a constant matrix, and ones of a shape with a named dimension. */
static tdm_value build(tdm_graph *graph, const way *chosen) {
  static const double mean[FEATURES] = {0.5, -0.25, 1};
  double matrix[FEATURES * WIDE];
  for (int i = 0; i < FEATURES * WIDE; i++)
    matrix[i] = i % 4 - 1.25;
  const tdm_value x =
      tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(2, TDM_DIM("batch"), FEATURES));
  tdm_scope_dtype(graph, TDM_FLOAT64);
  tdm_scope_push(graph, "block");
  const tdm_value centred =
      tdm_sub(graph, "centred", x,
              tdm_constant(graph, "mean", TDM_FLOAT64, tdm_shape_of(1, FEATURES), mean));
  const tdm_value wide =
      tdm_matmul(graph, "wide", centred,
                 tdm_constant(graph, NULL, TDM_FLOAT64, tdm_shape_of(2, FEATURES, WIDE), matrix));
  tdm_value y = tdm_linear(graph, "fc", tdm_tanh(graph, "tanh", wide), 2);
  y = tdm_add(graph, "more", y, tdm_full_like(graph, "quarter", y, 0.25));
  y = tdm_mul(graph, "times", y, tdm_ones_like(graph, "ones", y));
  y = tdm_add(graph, "none", y, tdm_zeros_like(graph, "zeros", y));
  tdm_scope_pop(graph);
  if (chosen->devices) {
    const tdm_parallel_options parallel =
        OPTIONS(tdm_parallel_options, o.devices = chosen->devices);
    tdm_data_parallel(graph, "block", &parallel);
  }
  return tdm_mean(graph, "loss", tdm_square(graph, "squares", y), NULL, 0, false);
}

static tdm_session *make_session(tdm_context *context, const way *chosen, tdm_store *store) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_adam(0.05);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = build(graph, chosen), o.optimizer = &optimizer,
              o.store = store, o.seed = 4, o.micro_batches = OR_ONE(chosen->micro_batches));
  tdm_session *session = must_create(graph, &options);
  tdm_graph_release(graph);
  return session;
}

static void step(tdm_session *session, double *out_loss) {
  double x[ROWS * FEATURES];
  for (int i = 0; i < ROWS * FEATURES; i++)
    x[i] = i * i % 23 / 9.0 - 1;
  tdm_tensor *rows = tdm_tensor_from(tdm_session_context(session), TDM_FLOAT64,
                                     tdm_shape_of(2, ROWS, FEATURES), x);
  const tdm_feed feed = {"x", rows, false};
  if (tdm_train_step(session, &feed, 1, NULL, 0, out_loss) != TDM_OK)
    fail_msg("%s", tdm_last_message());
  tdm_tensor_release(rows);
}

static void train(tdm_context *context, const way *chosen, double *out_losses) {
  tdm_session *session = make_session(context, chosen, NULL);
  for (int i = 0; i < STEPS; i++)
    step(session, &out_losses[i]);
  tdm_session_release(session);
}

static void parts_are_the_whole(void **state) {
  (void)state;
  check_parts(train, ROWS);
}

/* ---- Stores and files ------------------------------------------------------------------------ */

static void no_list_has_constants(const tdm_tensor_list *list) {
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++)
    if (strstr(tdm_tensor_list_name(list, i), "constant") ||
        strstr(tdm_tensor_list_name(list, i), "mean"))
      fail_msg("%s is saved", tdm_tensor_list_name(list, i));
}

static void constants_are_in_no_file(void **state) {
  (void)state;
  static const way whole = {0, NULL};
  tdm_context *context = tdm_context_create(NULL);
  tdm_session *session = make_session(context, &whole, NULL);
  tdm_session *other = make_session(context, &whole, NULL);
  double loss, other_loss;
  step(session, &loss);
  tdm_tensor_list *all = tdm_store_save(tdm_session_store(session), true), *dict, *saved;
  assert_non_null(all);
  assert_int_equal(tdm_session_state_dict(session, NULL, &dict), TDM_OK);
  assert_int_equal(tdm_session_save(session, &saved), TDM_OK);
  no_list_has_constants(all);
  no_list_has_constants(dict);
  no_list_has_constants(saved);
  assert_int_equal(tdm_tensor_list_count(dict), 2); /* fc.weight, fc.bias */
  if (tdm_session_load(other, saved) != TDM_OK) fail_msg("%s", tdm_last_message());
  if (tdm_session_load_state_dict(other, dict, NULL) != TDM_OK) fail_msg("%s", tdm_last_message());
  step(session, &loss);
  step(other, &other_loss);
  assert_memory_equal(&loss, &other_loss, sizeof loss);
  tdm_tensor_list_release(all);
  tdm_tensor_list_release(dict);
  tdm_tensor_list_release(saved);
  tdm_session_release(session);
  tdm_session_release(other);
  tdm_context_release(context);
}

/* Returns the value of a constant "c" in a graph with the store. */
static float constant_in(tdm_context *context, tdm_store *store, float given,
                         tdm_memory_use *out_use) {
  tdm_graph *graph = tdm_graph_create(context);
  tdm_output(graph, "y", tdm_constant(graph, "c", TDM_FLOAT32, tdm_shape_scalar(), &given));
  const tdm_session_options options = OPTIONS(tdm_session_options, o.store = store);
  tdm_session *session = must_create(graph, &options);
  tdm_fetch fetch = {"y", NULL};
  float got = 0;
  assert_int_equal(tdm_run(session, NULL, 0, &fetch, 1), TDM_OK);
  assert_int_equal(tdm_tensor_read(fetch.tensor, &got, sizeof got), TDM_OK);
  assert_int_equal(tdm_session_memory(session, "cpu:0", out_use), TDM_OK);
  tdm_tensor_release(fetch.tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  return got;
}

static void graphs_of_one_store_keep_their_own(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_store *store = tdm_store_create(context);
  tdm_memory_use use;
  assert_true(constant_in(context, store, 1.5F, &use) == 1.5F);
  assert_true(use.parameters_bytes >= sizeof(float));
  assert_true(constant_in(context, store, 2.5F, &use) == 2.5F);
  assert_true(constant_in(context, store, 1.5F, &use) == 1.5F);
  tdm_tensor_list *saved = tdm_store_save(store, true);
  assert_non_null(saved);
  assert_int_equal(tdm_tensor_list_count(saved), 0);
  tdm_tensor_list_release(saved);
  tdm_store_release(store);
  tdm_context_release(context);
}

static void a_name_has_several_contents_in_one_graph(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_graph *graph = tdm_graph_create(context);
  const int32_t one = 1, two = 2;
  const tdm_value a = tdm_constant(graph, "c", TDM_INT32, tdm_shape_scalar(), &one);
  const tdm_value b = tdm_constant(graph, "c", TDM_INT32, tdm_shape_scalar(), &two);
  tdm_output(graph, "y", tdm_sub(graph, "difference", b, a));
  tdm_session *session = must_create(graph, NULL);
  tdm_fetch fetch = {"y", NULL};
  assert_int_equal(tdm_run(session, NULL, 0, &fetch, 1), TDM_OK);
  assert_true(tdm_tensor_item(fetch.tensor, 0) == 1);
  tdm_tensor_release(fetch.tensor);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
}

/* ---- Refused --------------------------------------------------------------------------------- */

static tdm_value without_data(tdm_graph *graph) {
  return tdm_constant(graph, "c", TDM_FLOAT32, tdm_shape_of(1, 3), NULL);
}
static tdm_value of_a_name(tdm_graph *graph) {
  return tdm_constant(graph, "c", TDM_FLOAT32, tdm_shape_of(1, TDM_DIM("batch")), "");
}
static tdm_value of_no_dtype(tdm_graph *graph) {
  return tdm_constant(graph, "c", (tdm_dtype)77, tdm_shape_of(1, 3), "");
}
static tdm_value half_of_integers(tdm_graph *graph) {
  return tdm_full_like(graph, "c", tdm_input(graph, "x", TDM_INT32, tdm_shape_of(1, 3)), 0.5);
}

static void bad_constants_are_refused(void **state) {
  (void)state;
  static const struct {
    tdm_value (*build)(tdm_graph *graph);
    const char *says;
  } cases[] = {{without_data, "constant c: its data is NULL"},
               {of_a_name, "constant c: its dtype or shape"},
               {of_no_dtype, "constant c: its dtype or shape"},
               {half_of_integers, "full_like c: value is 0.5, and int32 holds"}};
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    assert_false(tdm_value_is_valid(cases[i].build(graph)));
    assert_int_equal(tdm_graph_status(graph), TDM_INVALID_ARGUMENT);
    if (!strstr(tdm_last_message(), cases[i].says))
      fail_msg("'%s' lacks '%s'", tdm_last_message(), cases[i].says);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_are_read_as_given),
      cmocka_unit_test(a_constant_may_be_empty),
      cmocka_unit_test(parts_are_the_whole),
      cmocka_unit_test(constants_are_in_no_file),
      cmocka_unit_test(graphs_of_one_store_keep_their_own),
      cmocka_unit_test(a_name_has_several_contents_in_one_graph),
      cmocka_unit_test(bad_constants_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
