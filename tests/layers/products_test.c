/* Illegal arguments of products and attention, with messages that name the layer and the argument.
 * A model of them with dropout, in micro-batches and replicas, equals the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tandem/tandem.h"
#include "tests/options.h"

/* ---- Refused --------------------------------------------------------------------------------- */

typedef struct error_case {
  tdm_value (*build)(tdm_graph *graph);
  const char *says[3]; /* all expected in the message */
} error_case;

static tdm_value floats(tdm_graph *graph, const char *name, tdm_shape shape) {
  return tdm_input(graph, name, TDM_FLOAT32, shape);
}

static tdm_value matmul_of_vector(tdm_graph *graph) {
  return tdm_matmul(graph, "product", floats(graph, "a", tdm_shape_of(1, 3)),
                    floats(graph, "b", tdm_shape_of(2, 3, 4)));
}

static tdm_value matmul_of_other_depth(tdm_graph *graph) {
  return tdm_matmul(graph, "product", floats(graph, "a", tdm_shape_of(2, TDM_DIM("batch"), 3)),
                    floats(graph, "b", tdm_shape_of(2, 4, 5)));
}

static tdm_value matmul_of_other_batches(tdm_graph *graph) {
  return tdm_matmul(graph, "product", floats(graph, "a", tdm_shape_of(3, 2, 5, 3)),
                    floats(graph, "b", tdm_shape_of(3, 4, 3, 5)));
}

static tdm_value transpose_no_dimension(tdm_graph *graph) {
  return tdm_transpose(graph, "swap", floats(graph, "x", tdm_shape_of(2, 3, 4)), 0, 2);
}

static tdm_value interaction_of_many(tdm_graph *graph) {
  return tdm_dot_interaction(graph, "pairs", floats(graph, "x", tdm_shape_of(3, 2, 257, 4)), false);
}

static tdm_value interaction_of_matrix(tdm_graph *graph) {
  return tdm_dot_interaction(graph, "pairs", floats(graph, "x", tdm_shape_of(2, 2, 4)), false);
}

static tdm_value attention_with(tdm_graph *graph, tdm_attention_options options, int64_t of_k,
                                tdm_dtype padding) {
  const tdm_dim batch = TDM_DIM("batch");
  if (padding != TDM_DTYPE_NONE)
    options.padding = tdm_input(graph, "padding", padding, tdm_shape_of(2, batch, 5));
  return tdm_attention(graph, "heads", floats(graph, "q", tdm_shape_of(3, batch, 4, 6)),
                       floats(graph, "k", tdm_shape_of(3, batch, 5, of_k)),
                       floats(graph, "v", tdm_shape_of(3, batch, 5, 8)), &options);
}

static tdm_value attention_of_odd_heads(tdm_graph *graph) {
  return attention_with(graph, OPTIONS(tdm_attention_options, o.heads = 4), 6, TDM_DTYPE_NONE);
}

static tdm_value attention_of_other_keys(tdm_graph *graph) {
  return attention_with(graph, OPTIONS(tdm_attention_options, o.heads = 2), 4, TDM_DTYPE_NONE);
}

static tdm_value attention_of_float_padding(tdm_graph *graph) {
  return attention_with(graph, OPTIONS(tdm_attention_options, o.heads = 2), 6, TDM_FLOAT32);
}

static tdm_value attention_of_mask(tdm_graph *graph, tdm_dtype dtype, tdm_shape shape) {
  const tdm_value mask = tdm_input(graph, "mask", dtype, shape);
  return attention_with(graph, OPTIONS(tdm_attention_options, o.heads = 2, o.mask = mask), 6,
                        TDM_DTYPE_NONE);
}

static tdm_value attention_of_other_mask(tdm_graph *graph) {
  return attention_of_mask(graph, TDM_BOOL, tdm_shape_of(2, 5, 4));
}

static tdm_value attention_of_wide_mask(tdm_graph *graph) {
  return attention_of_mask(graph, TDM_FLOAT64, tdm_shape_of(2, 4, 5));
}

static tdm_value attention_of_few_heads_masked(tdm_graph *graph) {
  return attention_of_mask(graph, TDM_BOOL, tdm_shape_of(4, TDM_DIM("batch"), 1, 4, 5));
}

static tdm_value attention_of_no_probability(tdm_graph *graph) {
  return attention_with(graph, OPTIONS(tdm_attention_options, o.dropout = 1.5), 6, TDM_DTYPE_NONE);
}

static tdm_value heads_that_do_not_share(tdm_graph *graph) {
  const tdm_value x = floats(graph, "x", tdm_shape_of(3, 4, TDM_DIM("batch"), 6));
  return tdm_multi_head_attention(graph, "mha", x, x, x, 4, NULL);
}

static const error_case error_cases[] = {
    {matmul_of_vector, {"matmul product", "a must have 2", "[3]"}},
    {matmul_of_other_depth, {"matmul product", "[batch, 3]", "[4, 5]"}},
    {matmul_of_other_batches, {"matmul product", "[2, 5, 3]", "[4, 3, 5]"}},
    {transpose_no_dimension, {"transpose swap", "dimension 2", "[3, 4]"}},
    {interaction_of_many, {"dot_interaction pairs", "[2, 257, 4]", "256"}},
    {interaction_of_matrix, {"dot_interaction pairs", "[2, 4]", "3 dimensions"}},
    {attention_of_odd_heads, {"attention heads", "q is [batch, 4, 6]", "4 heads"}},
    {attention_of_other_keys, {"attention heads", "k must be", "[batch, 5, 4]"}},
    {attention_of_float_padding, {"attention heads", "padding is float32", "bool"}},
    {attention_of_other_mask, {"attention heads", "mask must be [4, 5]", "[5, 4]"}},
    {attention_of_wide_mask, {"attention heads", "mask", "float64"}},
    {attention_of_few_heads_masked, {"attention heads", "mask must be", "[batch, 1, 4, 5]"}},
    {attention_of_no_probability, {"attention heads", "dropout", "1.5"}},
    {heads_that_do_not_share, {"multi_head_attention mha", "query is [4, batch, 6]", "4 heads"}},
};

static void test_what_does_not_fit(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  for (size_t i = 0; i < sizeof error_cases / sizeof error_cases[0]; i++) {
    tdm_graph *graph = tdm_graph_create(context);
    const tdm_value y = error_cases[i].build(graph);
    assert_false(tdm_value_is_valid(y));
    tdm_output(graph, "y", y);
    assert_null(tdm_session_create(graph, NULL));
    for (int k = 0; k < 3; k++)
      if (!strstr(tdm_last_message(), error_cases[i].says[k]))
        fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), error_cases[i].says[k]);
    tdm_graph_release(graph);
  }
  tdm_context_release(context);
}

/* ---- In parts -------------------------------------------------------------------------------- */

enum { BATCH = 8, LENGTH = 5, FEATURES = 6, PAIRS = LENGTH * (LENGTH - 1) / 2, STEPS = 2 };

/* x (batch, length, features) through attention, its transposed product, the pairs, a product. */
static tdm_value build(tdm_graph *graph, const char *devices) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT64, tdm_shape_of(3, batch, LENGTH, FEATURES));
  const tdm_value target = tdm_input(graph, "target", TDM_FLOAT64, tdm_shape_of(2, batch, PAIRS));
  const tdm_multi_head_attention_options options = OPTIONS(
      tdm_multi_head_attention_options, o.batch_first = true, o.causal = true, o.dropout = 0.3);
  tdm_scope_dtype(graph, TDM_FLOAT64);
  tdm_scope_push(graph, "block");
  tdm_value y = tdm_multi_head_attention(graph, "mha", x, x, x, 2, &options);
  y = tdm_matmul(graph, "mixed", tdm_matmul(graph, "square", y, tdm_transpose(graph, "t", y, 1, 2)),
                 y);
  y = tdm_dot_interaction(graph, "pairs", y, false);
  tdm_scope_pop(graph);
  if (devices) {
    const tdm_parallel_options parallel = OPTIONS(tdm_parallel_options, o.devices = devices);
    tdm_data_parallel(graph, "block", &parallel);
  }
  return tdm_mse(graph, "loss", y, target);
}

/* Trains STEPS steps and reads the projections' weight. */
static void train(tdm_context *context, int micro_batches, const char *devices,
                  double weight[3 * FEATURES * FEATURES]) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_optimizer optimizer = tdm_sgd(1e-3);
  const tdm_value loss = build(graph, devices);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &optimizer, o.seed = 3,
              o.micro_batches = OR_ONE(micro_batches));
  tdm_session *session = tdm_session_create(graph, &options);
  if (!session) fail_msg("%s", tdm_last_message());
  double x[BATCH * LENGTH * FEATURES], target[BATCH * PAIRS];
  for (int i = 0; i < BATCH * LENGTH * FEATURES; i++)
    x[i] = i * i % 17 / 9.0 - 1;
  for (int i = 0; i < BATCH * PAIRS; i++)
    target[i] = i % 11 / 5.0;
  tdm_tensor *fed =
      tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(3, BATCH, LENGTH, FEATURES), x);
  tdm_tensor *wanted = tdm_tensor_from(context, TDM_FLOAT64, tdm_shape_of(2, BATCH, PAIRS), target);
  const tdm_feed feeds[] = {{"x", fed, false}, {"target", wanted, false}};
  for (int i = 0; i < STEPS; i++)
    if (tdm_train_step(session, feeds, 2, NULL, 0, NULL) != TDM_OK)
      fail_msg("%s", tdm_last_message());
  tdm_tensor_list *saved = tdm_store_save(tdm_session_store(session), false);
  assert_int_equal(tdm_tensor_read(tdm_tensor_list_find(saved, "block/mha.in_proj_weight"), weight,
                                   3 * FEATURES * FEATURES * sizeof *weight),
                   TDM_OK);
  tdm_tensor_list_release(saved);
  tdm_tensor_release(fed);
  tdm_tensor_release(wanted);
  tdm_session_release(session);
  tdm_graph_release(graph);
}

static void test_parts_are_the_whole(void **state) {
  (void)state;
  static const struct {
    int micro_batches;
    const char *devices;
  } cases[] = {{3, NULL}, {0, "cpu:0,sim:0"}, {2, "cpu:0,sim:0,cpu:0"}};
  tdm_context *context = tdm_context_create(NULL);
  double wanted[3 * FEATURES * FEATURES], found[3 * FEATURES * FEATURES];
  train(context, 0, NULL, wanted);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    train(context, cases[i].micro_batches, cases[i].devices, found);
    for (int k = 0; k < 3 * FEATURES * FEATURES; k++)
      if (!(found[k] - wanted[k] < 1e-11 && wanted[k] - found[k] < 1e-11))
        fail_msg("case %zu: element %d is %.17g, of the whole %.17g", i, k, found[k], wanted[k]);
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_parts_are_the_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
