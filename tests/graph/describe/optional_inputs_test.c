/* Absent inputs of a node: rules and kernels find them absent, for any length of the list. */
#include "tests/graph/support.h"

static tdm_status infer_like_first(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status prepare_sum(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  (void)answer;
  const bool absent = request->input_count == 3 && request->inputs[1].dtype == TDM_DTYPE_NONE &&
                      request->inputs[2].dtype == TDM_DTYPE_NONE;
  return absent ? TDM_OK : tdm_fail(TDM_INTERNAL, "the optional operands are there");
}

/* Adds all present inputs. */
static tdm_status execute_sum(const tdm_kernel_call *call) {
  float *y = call->outputs[0];
  for (int64_t i = 0; i < tdm_shape_count(&call->output_specs[0].shape); i++) {
    y[i] = 0;
    for (int k = 0; k < 3; k++)
      if (call->inputs[k]) y[i] += ((const float *)call->inputs[k])[i];
  }
  return TDM_OK;
}

static void inputs_that_are_left_out_are_absent(void **unused) {
  (void)unused;
  static const tdm_kernel kernel = {.struct_size = sizeof(tdm_kernel),
                                    .operation = "sum_of_three",
                                    .executes = "cpu",
                                    .dtype = TDM_FLOAT32,
                                    .prepare = prepare_sum,
                                    .execute = execute_sum};
  static const tdm_operation operation = {.struct_size = sizeof(tdm_operation),
                                          .name = "sum_of_three",
                                          .min_inputs = 1,
                                          .max_inputs = 3,
                                          .output_count = 1,
                                          .infer = infer_like_first};
  const float numbers[] = {1, 2, 3};
  tdm_context *context = graph_context();
  assert_ok(tdm_kernel_register(context, &kernel));
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 3));
  tdm_output(graph, "y", tdm_append(graph, &operation, "sum", NULL, &x, 1, NULL));
  tdm_session *session = run_session(graph, NULL);
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 3), numbers);
  const tdm_feed feed = {"x", fed, false};
  tdm_fetch fetch = {.name = "y"};
  assert_ok(tdm_run(session, &feed, 1, &fetch, 1));
  assert_same_tensor(fetch.tensor, fed);
  tdm_tensor_release(fetch.tensor);
  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inputs_that_are_left_out_are_absent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
