/* Casts between dtypes. Invariant: between floating dtypes the gradient is cast back; through an
 * integer or bool there is no gradient. */
#include "layers/common.h"
#include "tandem/layers/layers.h"

/* The attribute serves the shape rule. The kernel reads both dtypes from the specs. */
typedef struct cast_attributes {
  int64_t dtype; /* tdm_dtype of the output */
} cast_attributes;

static tdm_status infer_cast(tdm_infer *infer) {
  const cast_attributes *attributes = infer->attributes;
  tdm_infer_set(infer, 0, (tdm_dtype)attributes->dtype, tdm_infer_shape(infer, 0));
  return TDM_OK;
}

static tdm_status append_gradient(tdm_gradient *gradient);

static const tdm_operation cast_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = TDM_OP_CAST,
    .attribute_bytes = sizeof(cast_attributes),
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_cast,
    .gradient = append_gradient,
    .elementwise = true,
    .work = tdm_work_streams,
    .precision = TDM_PRECISION_GIVEN,
};

TDM_RECORDS(cast, {.operation = &cast_operation, .functions = "tdm_cast"});

static tdm_status append_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_dtype dtype = tdm_value_dtype(graph, tdm_gradient_input(gradient, 0));
  if (!tdm_gradient_wanted(gradient, 0) || !tdm_dtype_is_floating(dtype)) return TDM_OK;
  const cast_attributes back = {.dtype = dtype};
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set(
      gradient, 0,
      tdm_append(graph, &cast_operation, tdm_gradient_name(gradient), &back, &d_y, 1, NULL));
  return tdm_graph_status(graph);
}

tdm_value tdm_cast(tdm_graph *graph, const char *name, tdm_value x, tdm_dtype dtype) {
  name = tdm_graph_name(graph, name);
  if (tdm_dtype_bytes(dtype) == 0)
    return tdm_graph_fail(graph, TDM_INVALID_ARGUMENT, "cast %s: no such dtype", name);
  const cast_attributes attributes = {.dtype = dtype};
  return tdm_append(graph, &cast_operation, name, &attributes, &x, 1, NULL);
}
