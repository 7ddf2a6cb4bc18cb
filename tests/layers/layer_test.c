/* Building a case's graph and running it. The optimizer used here only remembers: it subtracts the
 * gradient from a state of zeros, which keeps it exactly, with the other sign. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devices/kernels.h"
#include "tests/layers/layer_test.h"
#include "tests/options.h"

/* ---- The optimizer --------------------------------------------------------------------------- */

static tdm_status infer_kept(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static const tdm_operation keep = {
    .struct_size = sizeof(tdm_operation),
    .name = "sgd",
    .attribute_bytes = sizeof(tdm_sgd_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .overwrites = {1},
    .infer = infer_kept,
};

static const tdm_operation keep_sparse = {
    .struct_size = sizeof(tdm_operation),
    .name = "sgd_sparse",
    .attribute_bytes = sizeof(tdm_sgd_attributes),
    .min_inputs = 4,
    .max_inputs = 4,
    .output_count = 1,
    .overwrites = {1},
    .infer = infer_kept,
};

static tdm_status append_keeping(tdm_update *update) {
  tdm_graph *graph = tdm_update_graph(update);
  for (size_t i = 0; i < tdm_update_count(update); i++) {
    const tdm_value parameter = tdm_update_parameter(update, i);
    const char *name = tdm_update_name(update, i);
    char text[256];
    (void)snprintf(text, sizeof text, "negated_gradient/%s", name);
    const tdm_initializer zeros = {TDM_INIT_ZEROS, 0, 0, -1};
    const tdm_value state = tdm_state(graph, text, tdm_value_dtype(graph, parameter),
                                      tdm_value_shape(graph, parameter), &zeros, parameter);
    const tdm_value operands[] = {state, tdm_update_gradient(update, i),
                                  tdm_update_indices(update, i), tdm_update_rows_count(update, i)};
    const tdm_sgd_attributes plain = {0};
    if (tdm_update_is_sparse(update, i))
      tdm_append(graph, &keep_sparse, name, &plain, operands, 4, NULL);
    else
      tdm_append(graph, &keep, name, &plain, operands, 2, NULL);
  }
  return tdm_graph_status(graph);
}

static const tdm_optimizer_rule keeping_rule = {
    .name = "keep gradients", .accepts_sparse = true, .append = append_keeping};

/* ---- Building -------------------------------------------------------------------------------- */

void layer_test_begin(layer_test *test, const golden_file *golden, const char *case_name,
                      const char *placement) {
  memset(test, 0, sizeof *test);
  test->golden = golden;
  test->name = case_name;
  test->placement = placement;
  test->graph = tdm_graph_create(golden->context);
  assert_non_null(test->graph);
  tdm_scope_dtype(test->graph, golden->dtype);
}

void layer_test_end(layer_test *test) {
  for (size_t i = 0; i < test->fetch_count; i++)
    tdm_tensor_release(test->fetches[i].tensor);
  tdm_session_release(test->session);
  tdm_graph_release(test->graph);
}

static tdm_value fed(layer_test *test, const char *kind, const char *name, const char *input) {
  tdm_tensor *tensor = golden_tensor(test->golden, test->name, kind, name);
  for (size_t i = 0; i < test->feed_count; i++)
    if (test->feeds_all && test->feeds[i].tensor == tensor) return test->fed[i];
  assert_true(test->feed_count < LAYER_TEST_MAX_FEEDS);
  tdm_shape shape = tdm_tensor_shape(tensor);
  const int named = test->named[test->feed_count];
  if (named > 0) shape.dims[named - 1] = TDM_DIM("batch");
  const tdm_value made = tdm_input(test->graph, input, tdm_tensor_dtype(tensor), shape);
  test->fed[test->feed_count] = made;
  test->feeds[test->feed_count++] = (tdm_feed){.name = input, .tensor = tensor};
  return made;
}

tdm_value layer_parameter(layer_test *test, const char *name) {
  if (test->feeds_all) return fed(test, "parameter", name, name);
  const tdm_tensor *tensor = golden_tensor(test->golden, test->name, "parameter", name);
  const tdm_initializer zeros = {TDM_INIT_ZEROS, 0, 0, -1};
  return tdm_parameter(test->graph, name, tdm_tensor_dtype(tensor), tdm_tensor_shape(tensor),
                       &zeros);
}

tdm_value layer_input(layer_test *test, const char *name) {
  return fed(test, "input", name, name);
}

void layer_output(layer_test *test, const char *name, tdm_value value) {
  assert_true(test->fetch_count < LAYER_TEST_MAX_FETCHES);
  test->fetches[test->fetch_count++] = (tdm_fetch){.name = name};
  tdm_output(test->graph, name, value);
}

void layer_add_loss(layer_test *test, tdm_value loss) {
  char name[32];
  (void)snprintf(name, sizeof name, "loss%zu", test->fetch_count);
  test->loss = tdm_value_is_valid(test->loss) ? tdm_add(test->graph, name, test->loss, loss) : loss;
}

void layer_judge(layer_test *test, const char *name, tdm_value value) {
  static const char *const inputs[LAYER_TEST_MAX_FETCHES] = {
      "target0", "target1", "target2", "target3", "target4", "target5", "target6", "target7"};
  const char *input = inputs[test->fetch_count];
  if (test->feeds_all) {
    layer_output(test, name, value);
    layer_add_loss(test, tdm_mean(test->graph, "all", tdm_square(test->graph, "squares", value),
                                  NULL, 0, false));
    return;
  }
  const tdm_value target = fed(test, "target", name, input);
  layer_output(test, name, value);
  if (test->weighs) {
    const tdm_value products = tdm_mul(test->graph, "products", value, target);
    layer_add_loss(test, tdm_sum(test->graph, "all", products, NULL, 0, false));
    return;
  }
  const tdm_loss_options sum = OPTIONS(tdm_loss_options, o.reduction = TDM_LOSS_SUM);
  char judge[32];
  (void)snprintf(judge, sizeof judge, "judge_%s", name);
  layer_add_loss(test, tdm_mse_with(test->graph, judge, value, target, &sum));
}

tdm_tensor *layer_test_gradient(const layer_test *test, const tdm_tensor_list *saved,
                                const char *name) {
  char text[256];
  (void)snprintf(text, sizeof text, "negated_gradient/%s", name);
  const tdm_tensor *kept = tdm_tensor_list_find(saved, text);
  if (!kept) fail_msg("%s: no gradient of %s", test->name, name);
  size_t count;
  double *values = tensor_values(kept, &count);
  for (size_t i = 0; i < count; i++)
    values[i] = -values[i];
  tdm_tensor *gradient =
      tdm_tensor_from(test->golden->context, TDM_FLOAT64, tdm_tensor_shape(kept), values);
  free(values);
  assert_non_null(gradient);
  return gradient;
}

/* ---- Running --------------------------------------------------------------------------------- */

void layer_test_start(layer_test *test) {
  const tdm_optimizer optimizer =
      OPTIONS(tdm_optimizer, o.rule = &keeping_rule, o.learning_rate = 1.0);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = test->loss, o.optimizer = &optimizer,
              o.device_map = test->placement);
  tdm_output(test->graph, "loss", test->loss);
  test->session = tdm_session_create(test->graph, &options);
  if (!test->session) fail_msg("%s on %s: %s", test->name, test->placement, tdm_last_message());
  tdm_tensor_list *parameters = golden_parameters(test->golden, test->name);
  if (tdm_store_load(tdm_session_store(test->session), parameters) != TDM_OK)
    fail_msg("%s: %s", test->name, tdm_last_message());
  tdm_tensor_list_release(parameters);
  tdm_tensor_list *states = golden_list(test->golden, test->name, "buffer");
  if (tdm_store_load(tdm_session_store(test->session), states) != TDM_OK)
    fail_msg("%s: %s", test->name, tdm_last_message());
  tdm_tensor_list_release(states);
}

double layer_test_step(layer_test *test) {
  double loss = 0.0;
  if (tdm_train_step(test->session, test->feeds, test->feed_count, test->fetches, test->fetch_count,
                     &loss) != TDM_OK)
    fail_msg("%s on %s: %s", test->name, test->placement, tdm_last_message());
  return loss;
}
