/* Seventh step: an operation of one's own, the softsign x / (1 + |x|), with its gradient. */
#include <math.h>

#include "examples/first_steps/training.h"

/* ---- Kernels, float32, for "cpu" and kinds that execute cpu's kernels ------------------------ */

static tdm_status softsign_kernel(const tdm_kernel_call *call) {
  const float *x = call->inputs[0]; /* (count) */
  float *y = call->outputs[0];      /* (count) */
  for (int64_t i = 0; i < tdm_shape_count(&call->output_specs[0].shape); i++)
    y[i] = x[i] / (1 + fabsf(x[i]));
  return TDM_OK;
}

/* y' = (1 - |y|)^2, so that x need not stay in memory. */
static tdm_status softsign_gradient_kernel(const tdm_kernel_call *call) {
  const float *d_y = call->inputs[0]; /* (count) */
  const float *y = call->inputs[1];   /* (count) */
  float *d_x = call->outputs[0];      /* (count) */
  for (int64_t i = 0; i < tdm_shape_count(&call->output_specs[0].shape); i++)
    d_x[i] = d_y[i] * (1 - fabsf(y[i])) * (1 - fabsf(y[i]));
  return TDM_OK;
}

static const tdm_kernel kernels[] = {
    {.struct_size = sizeof(tdm_kernel),
     .operation = "softsign",
     .executes = "cpu",
     .dtype = TDM_FLOAT32,
     .execute = softsign_kernel},
    {.struct_size = sizeof(tdm_kernel),
     .operation = "softsign_gradient",
     .executes = "cpu",
     .dtype = TDM_FLOAT32,
     .execute = softsign_gradient_kernel},
};

/* ---- The operation: a shape rule, and what its gradient reads -------------------------------- */

static tdm_status like_first(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static const tdm_operation softsign_gradient = {.struct_size = sizeof(tdm_operation),
                                                .name = "softsign_gradient",
                                                .min_inputs = 2,
                                                .max_inputs = 2,
                                                .output_count = 1,
                                                .infer = like_first};
static const tdm_operation softsign = {.struct_size = sizeof(tdm_operation),
                                       .name = "softsign",
                                       .min_inputs = 1,
                                       .max_inputs = 1,
                                       .output_count = 1,
                                       .infer = like_first,
                                       .gradient_operation = &softsign_gradient,
                                       .gradient_reads = TDM_READS_Y};

int main(void) {
  tdm_context *context = tdm_context_create(NULL);
  for (int i = 0; i < 2; i++)
    check(tdm_kernel_register(context, &kernels[i]) == TDM_OK);
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, tdm_shape_of(1, 3));
  const tdm_value y = tdm_append(graph, &softsign, "softsign", NULL, &x, 1, NULL);
  tdm_output(graph, "y", y);
  const tdm_value sum = tdm_sum(graph, "sum", y, NULL, 0, false);
  tdm_output(graph, "gradient", tdm_gradient_of(graph, "gradient", sum, x));
  tdm_session *session = tdm_session_create(graph, NULL);
  check(session != NULL);

  const float values[] = {-1, 0, 3};
  tdm_tensor *fed = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(1, 3), values);
  tdm_fetch fetches[] = {{"y", NULL}, {"gradient", NULL}};
  check(tdm_run(session, &(tdm_feed){"x", fed, false}, 1, fetches, 2) == TDM_OK);
  for (int i = 0; i < 2; i++) {
    check(tdm_tensor_print(fetches[i].tensor, stdout) == TDM_OK);
    tdm_tensor_release(fetches[i].tensor);
  }

  tdm_tensor_release(fed);
  tdm_session_release(session);
  tdm_graph_release(graph);
  tdm_context_release(context);
  return 0;
}
