/* A function whose record names the operation of its gradient and that operation's operands,
 * instead of a rule. The operands arrive in that order, with the function's attributes. */
#include <math.h>
#include <stdlib.h>

#include "tests/graph/support.h"
#include "tests/options.h"

enum { COUNT = 5 };

typedef struct cube_attributes {
  double factor;
} cube_attributes;

/* ---- Operations ------------------------------------------------------------------------------ */

static tdm_status infer_like_first(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

/* Computes x (COUNT) -> x^3. */
static tdm_status execute_cube(const tdm_kernel_call *call) {
  const float *x = call->inputs[0];
  float *y = call->outputs[0];
  for (int i = 0; i < COUNT; i++)
    y[i] = x[i] * x[i] * x[i];
  return TDM_OK;
}

static tdm_status count_operands(const tdm_kernel_request *request, tdm_kernel_answer *answer) {
  size_t *count = malloc(sizeof *count);
  assert_non_null(count);
  *count = request->input_count;
  answer->state = count;
  return TDM_OK;
}

/* d, [a], [b] -> factor (d + 10 a + 100 b), with the operands that are present: the result shows
 * which. */
static tdm_status execute_gradient(const tdm_kernel_call *call) {
  const cube_attributes *attributes = call->attributes;
  const size_t *count = call->state;
  float *out = call->outputs[0];
  for (int i = 0; i < COUNT; i++) {
    float sum = 0, weight = 1;
    for (size_t k = 0; k < *count; k++, weight *= 10)
      sum += weight * ((const float *)call->inputs[k])[i];
    out[i] = (float)attributes->factor * sum;
  }
  return TDM_OK;
}

static const tdm_kernel cube_kernel = {.struct_size = sizeof(tdm_kernel),
                                       .operation = "test_cube",
                                       .executes = "cpu",
                                       .dtype = TDM_FLOAT32,
                                       .execute = execute_cube};
static const tdm_kernel gradient_kernel = {.struct_size = sizeof(tdm_kernel),
                                           .operation = "test_cube_gradient",
                                           .executes = "cpu",
                                           .dtype = TDM_FLOAT32,
                                           .prepare = count_operands,
                                           .execute = execute_gradient,
                                           .release = free};

static const tdm_operation gradient_operation = {.struct_size = sizeof(tdm_operation),
                                                 .name = "test_cube_gradient",
                                                 .attribute_bytes = sizeof(cube_attributes),
                                                 .min_inputs = 1,
                                                 .max_inputs = 3,
                                                 .takes_list = true,
                                                 .output_count = 1,
                                                 .infer = infer_like_first};

#define CUBE(reads)                                                                                \
  {                                                                                                \
    .struct_size = sizeof(tdm_operation), .name = "test_cube",                                     \
    .attribute_bytes = sizeof(cube_attributes), .min_inputs = 1, .max_inputs = 1,                  \
    .output_count = 1, .infer = infer_like_first, .gradient_operation = &gradient_operation,       \
    .gradient_reads = reads                                                                        \
  }

/* ---- Training -------------------------------------------------------------------------------- */

/* Returns the adjoint of x = 2 with y = 8, for the sum of all y as the loss. NAN: no gradient flows
 * back. */
static double adjoint_by(const tdm_operation *operation) {
  tdm_context *context = graph_context();
  assert_ok(tdm_kernel_register(context, &cube_kernel));
  assert_ok(tdm_kernel_register(context, &gradient_kernel));
  tdm_graph *graph = tdm_graph_create(context);
  tdm_place(graph, "cpu:0");
  const tdm_initializer two = {TDM_INIT_CONSTANT, 2, 0, -1};
  const tdm_value x = tdm_parameter(graph, "x", TDM_FLOAT32, tdm_shape_of(1, COUNT), &two);
  const cube_attributes attributes = {.factor = 0.5};
  const tdm_value y = tdm_append(graph, operation, "cube", &attributes, &x, 1, NULL);
  const tdm_value loss = tdm_sum(graph, "loss", y, (int[]){0}, 1, false);
  const tdm_optimizer sgd = tdm_sgd(1);
  const tdm_session_options options =
      OPTIONS(tdm_session_options, o.loss = loss, o.optimizer = &sgd);
  tdm_session *session = tdm_session_create(graph, &options);
  tdm_graph_release(graph);
  double adjoint = NAN;
  if (session) {
    assert_ok(tdm_train_step(session, NULL, 0, NULL, 0, NULL));
    tdm_tensor_list *state = state_of(session);
    float values[COUNT];
    assert_ok(tdm_tensor_read(tdm_tensor_list_find(state, "x"), values, sizeof values));
    for (int i = 1; i < COUNT; i++)
      assert_true(values[i] == values[0]);
    adjoint = 2.0 - (double)values[0];
    tdm_tensor_list_release(state);
  }
  tdm_session_release(session);
  tdm_context_release(context);
  return adjoint;
}

static void it_reads_what_the_record_names(void **unused) {
  (void)unused;
  static const struct {
    tdm_operation operation;
    double adjoint;
  } functions[] = {
      {CUBE(0), 0.5},
      {CUBE(TDM_READS_X), 0.5 * (1 + 10 * 2)},
      {CUBE(TDM_READS_Y), 0.5 * (1 + 10 * 8)},
      {CUBE(TDM_READS_X | TDM_READS_Y), 0.5 * (1 + 10 * 2 + 100 * 8)},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(functions); i++) {
    const double adjoint = adjoint_by(&functions[i].operation);
    if (!(fabs(adjoint - functions[i].adjoint) < 1e-3))
      fail_msg("%zu: %g, not %g", i, adjoint, functions[i].adjoint);
  }
}

/* A record of an older header is shorter. The bytes after it are not read. */
static void what_lies_behind_a_record_is_not_read(void **unused) {
  (void)unused;
  tdm_operation operation = CUBE(TDM_READS_X);
  operation.struct_size = offsetof(tdm_operation, gradient_operation);
  assert_true(isnan(adjoint_by(&operation)));
  assert_non_null(strstr(tdm_last_message(), "does not depend on any parameter"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_reads_what_the_record_names),
      cmocka_unit_test(what_lies_behind_a_record_is_not_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
