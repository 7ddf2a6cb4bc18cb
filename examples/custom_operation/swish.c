/* An operation: attributes, a kernel, a shape rule, a gradient rule, and a second operation, which
 * computes the gradient. Neither refers to a device: a kernel for "cpu" serves every device that
 * executes kernels of the CPU, and the graph determines placement. */
#include "examples/custom_operation/swish.h"

#include <math.h>

typedef struct swish_attributes {
  double beta;
} swish_attributes;

/* ---- Kernels: float32, elementwise ----------------------------------------------------------- */

enum { GRAIN = 4096 }; /* elements that are not worth dividing among threads */

static float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

static void swish_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const float beta = (float)((const swish_attributes *)call->attributes)->beta;
  const float *x = call->inputs[0]; /* (count) */
  float *y = call->outputs[0];      /* (count) */
  for (int64_t i = begin; i < end; i++)
    y[i] = x[i] * sigmoid(beta * x[i]);
}

/* y' = s + beta x s (1 - s) with s = sigmoid(beta x). */
static void swish_gradient_range(void *user, int64_t begin, int64_t end) {
  const tdm_kernel_call *call = user;
  const float beta = (float)((const swish_attributes *)call->attributes)->beta;
  const float *d_y = call->inputs[0]; /* (count) */
  const float *x = call->inputs[1];   /* (count) */
  float *d_x = call->outputs[0];      /* (count) */
  for (int64_t i = begin; i < end; i++) {
    const float s = sigmoid(beta * x[i]);
    d_x[i] = d_y[i] * (s + beta * x[i] * s * (1.0f - s));
  }
}

static tdm_status execute_swish(const tdm_kernel_call *call) {
  tdm_team_run(call->team, tdm_shape_count(&call->output_specs[0].shape), GRAIN, swish_range,
               (void *)call);
  return TDM_OK;
}

static tdm_status execute_swish_gradient(const tdm_kernel_call *call) {
  tdm_team_run(call->team, tdm_shape_count(&call->output_specs[0].shape), GRAIN,
               swish_gradient_range, (void *)call);
  return TDM_OK;
}

/* Computes some elements, so that these operations can be fused with elementwise neighbours. */
static tdm_status swish_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  swish_range((void *)call, begin, end);
  return TDM_OK;
}

static tdm_status swish_gradient_part(const tdm_kernel_call *call, int64_t begin, int64_t end) {
  swish_gradient_range((void *)call, begin, end);
  return TDM_OK;
}

static const tdm_kernel kernels[] = {
    {
        .struct_size = sizeof(tdm_kernel),
        .operation = "swish",
        .executes = "cpu",
        .dtype = TDM_FLOAT32,
        .execute = execute_swish,
        .execute_part = swish_part,
    },
    {
        .struct_size = sizeof(tdm_kernel),
        .operation = "swish_gradient",
        .executes = "cpu",
        .dtype = TDM_FLOAT32,
        .execute = execute_swish_gradient,
        .execute_part = swish_gradient_part,
    },
};

tdm_status swish_register(tdm_context *context) {
  tdm_status status = TDM_OK;
  for (size_t i = 0; status == TDM_OK && i < sizeof kernels / sizeof *kernels; i++)
    status = tdm_kernel_register(context, &kernels[i]);
  return status;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Shape rule of both operations: the output has the dtype and shape of the first input. */
static tdm_status infer_like_first(tdm_infer *infer) {
  if (infer->inputs[0].dtype != TDM_FLOAT32)
    return tdm_fail(TDM_INVALID_ARGUMENT, "x is %s, and must be float32",
                    tdm_dtype_name(infer->inputs[0].dtype));
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = infer->inputs[0].shape;
  return TDM_OK;
}

static const tdm_operation swish_gradient_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "swish_gradient",
    .attribute_bytes = sizeof(swish_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_like_first,
    .elementwise = true,
};

/* Gradient rule: computes the gradient of x from that of y and from x. */
static tdm_status append_gradient(tdm_gradient *gradient) {
  const tdm_value operands[] = {tdm_gradient_of_output(gradient, 0),
                                tdm_gradient_input(gradient, 0)};
  const tdm_value d_x =
      tdm_append(tdm_gradient_graph(gradient), &swish_gradient_operation,
                 tdm_gradient_name(gradient), tdm_gradient_attributes(gradient), operands, 2, NULL);
  tdm_gradient_set(gradient, 0, d_x);
  return tdm_graph_status(tdm_gradient_graph(gradient));
}

static const tdm_operation swish_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "swish",
    .attribute_bytes = sizeof(swish_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_like_first,
    .gradient = append_gradient,
    .elementwise = true,
};

tdm_value swish(tdm_graph *graph, const char *name, tdm_value x, double beta) {
  const swish_attributes attributes = {beta};
  return tdm_append(graph, &swish_operation, name, &attributes, &x, 1, NULL);
}
