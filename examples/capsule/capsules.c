/* Primary capsules, votes and routing as operations: shape rules and gradient rules. Kernels are in
 * separate files; the graph selects their device. */
#include "examples/capsule/capsules.h"

#include <stdio.h>

#include "examples/capsule/kernels.h"
#include "examples/capsule/operations.h"

tdm_status capsules_register(tdm_context *context) {
  static const struct {
    const tdm_kernel *kernels;
    size_t count;
  } tables[] = {
      {routing_kernels_float32, ROUTING_KERNEL_COUNT},
      {routing_kernels_float64, ROUTING_KERNEL_COUNT},
      {unit_kernels_float32, UNIT_KERNEL_COUNT},
      {unit_kernels_float64, UNIT_KERNEL_COUNT},
  };
  tdm_status status = TDM_OK;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    for (size_t j = 0; status == TDM_OK && j < tables[i].count; j++)
      status = tdm_kernel_register(context, &tables[i].kernels[j]);
  return status;
}

/* ---- Primary capsules ------------------------------------------------------------------------ */

static tdm_status infer_primary(tdm_infer *infer) {
  const primary_attributes *attributes = infer->attributes;
  const tdm_status status = operation_check_input(infer, 0, "x", 4);
  if (status != TDM_OK) return status;
  const tdm_dim *x = infer->inputs[0].shape.dims;
  if (attributes->size < 1 || x[1] % attributes->size != 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%lld channels make no capsules of %lld", (long long)x[1],
                    (long long)attributes->size);
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape =
      tdm_shape_of(3, x[0], x[1] / attributes->size * x[2] * x[3], attributes->size);
  return TDM_OK;
}

static const tdm_operation primary_gradient_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_primary_gradient",
    .attribute_bytes = sizeof(primary_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = operation_infer_like_operands,
};

static tdm_status primary_gradient(tdm_gradient *gradient) {
  return operation_append_gradient(gradient, &primary_gradient_operation);
}

static const tdm_operation primary_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_primary",
    .attribute_bytes = sizeof(primary_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_primary,
    .gradient = primary_gradient,
};

tdm_value capsule_primary(tdm_graph *graph, const char *name, tdm_value x, int64_t size) {
  const primary_attributes attributes = {size};
  return tdm_append(graph, &primary_operation, name, &attributes, &x, 1, NULL);
}

/* ---- Votes and routing ----------------------------------------------------------------------- */

static tdm_status infer_votes(tdm_infer *infer) {
  tdm_status status = operation_check_input(infer, 0, "u", 3);
  if (status == TDM_OK) status = operation_check_input(infer, 1, "the weight", 4);
  if (status != TDM_OK) return status;
  const tdm_dim *u = infer->inputs[0].shape.dims;
  const tdm_dim *weight = infer->inputs[1].shape.dims;
  if (!tdm_dim_agree(u[1], weight[0]) || u[2] != weight[1])
    return tdm_fail(TDM_INVALID_ARGUMENT, "the weight is of other capsules than u");
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = tdm_shape_of(4, u[0], u[1], weight[2], weight[3]);
  return TDM_OK;
}

static const tdm_operation votes_gradient_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_votes_gradient",
    .min_inputs = 3,
    .max_inputs = 3,
    .output_count = 2,
    .infer = operation_infer_like_operands,
};

static tdm_status votes_gradient(tdm_gradient *gradient) {
  return operation_append_gradient(gradient, &votes_gradient_operation);
}

static const tdm_operation votes_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_votes",
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_votes,
    .gradient = votes_gradient,
};

static tdm_status infer_routing(tdm_infer *infer) {
  const routing_attributes *attributes = infer->attributes;
  const tdm_status status = operation_check_input(infer, 0, "the votes", 4);
  if (status != TDM_OK) return status;
  const tdm_dim *votes = infer->inputs[0].shape.dims;
  if (attributes->iterations < 1 || attributes->iterations > MOST_ITERATIONS)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%lld iterations; 1 to %d are supported",
                    (long long)attributes->iterations, MOST_ITERATIONS);
  if (votes[2] > MOST_ABOVE || votes[3] > MOST_WIDTH || votes[2] * votes[3] > MOST_WIDTH)
    return tdm_fail(TDM_UNSUPPORTED, "%lld capsules of %lld are more than %d, or %d numbers",
                    (long long)votes[2], (long long)votes[3], MOST_ABOVE, MOST_WIDTH);
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = tdm_shape_of(3, votes[0], votes[2], votes[3]);
  return TDM_OK;
}

static const tdm_operation routing_gradient_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_routing_gradient",
    .attribute_bytes = sizeof(routing_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = operation_infer_like_operands,
};

static tdm_status routing_gradient(tdm_gradient *gradient) {
  return operation_append_gradient(gradient, &routing_gradient_operation);
}

static const tdm_operation routing_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_routing",
    .attribute_bytes = sizeof(routing_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_routing,
    .gradient = routing_gradient,
};

tdm_value capsule_routing(tdm_graph *graph, const char *name, tdm_value u, int64_t above,
                          int64_t size, int64_t iterations) {
  const tdm_shape shape = tdm_value_shape(graph, u);
  if (shape.rank != 3 || !tdm_dim_is_size(shape.dims[1]) || !tdm_dim_is_size(shape.dims[2]))
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "%s: u is not (batch, capsules, numbers)",
                          name);
  const tdm_initializer drawn = {TDM_INIT_NORMAL, 0, 0.05, -1};
  char text[256];
  (void)snprintf(text, sizeof text, "%s.weight", name);
  const tdm_value weight =
      tdm_parameter(graph, text, tdm_value_dtype(graph, u),
                    tdm_shape_of(4, shape.dims[1], shape.dims[2], above, size), &drawn);
  const tdm_value operands[] = {u, weight};
  const tdm_value votes = tdm_append(graph, &votes_operation, name, NULL, operands, 2, NULL);
  const routing_attributes attributes = {iterations};
  return tdm_append(graph, &routing_operation, name, &attributes, &votes, 1, NULL);
}
