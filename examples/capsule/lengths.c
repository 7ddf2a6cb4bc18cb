/* Lengths of capsules and the margin loss as operations. Invariant: in micro-batches each part's
 * loss is divided by the rows of the whole batch, so that their sum is the whole's. */
#include "examples/capsule/capsules.h"
#include "examples/capsule/kernels.h"
#include "examples/capsule/operations.h"

/* ---- Lengths --------------------------------------------------------------------------------- */

static tdm_status infer_length(tdm_infer *infer) {
  const tdm_status status = operation_check_input(infer, 0, "v", 3);
  if (status != TDM_OK) return status;
  const tdm_dim *v = infer->inputs[0].shape.dims;
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = tdm_shape_of(2, v[0], v[1]);
  return TDM_OK;
}

static const tdm_operation length_gradient_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_length_gradient",
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = operation_infer_like_operands,
};

static tdm_status length_gradient(tdm_gradient *gradient) {
  return operation_append_gradient(gradient, &length_gradient_operation);
}

static const tdm_operation length_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_length",
    .min_inputs = 1,
    .max_inputs = 1,
    .output_count = 1,
    .infer = infer_length,
    .gradient = length_gradient,
};

tdm_value capsule_length(tdm_graph *graph, const char *name, tdm_value v) {
  return tdm_append(graph, &length_operation, name, NULL, &v, 1, NULL);
}

/* ---- Margin loss ----------------------------------------------------------------------------- */

static tdm_status infer_margin(tdm_infer *infer) {
  const tdm_status status = operation_check_input(infer, 0, "the lengths", 2);
  if (status != TDM_OK) return status;
  const tdm_spec *classes = &infer->inputs[1];
  if (classes->dtype != TDM_INT64 || classes->shape.rank != 1 ||
      !tdm_dim_agree(classes->shape.dims[0], infer->inputs[0].shape.dims[0]))
    return tdm_fail(TDM_INVALID_ARGUMENT, "classes must be int64, one for each row of lengths");
  infer->outputs[0].dtype = infer->inputs[0].dtype;
  infer->outputs[0].shape = tdm_shape_scalar();
  return TDM_OK;
}

static const tdm_operation margin_gradient_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_margin_gradient",
    .attribute_bytes = sizeof(margin_attributes),
    .min_inputs = 3,
    .max_inputs = 3,
    .output_count = 1,
    .infer = operation_infer_like_operands,
};

static tdm_status margin_gradient(tdm_gradient *gradient) {
  return operation_append_gradient(gradient, &margin_gradient_operation);
}

/* Divides the margin loss into parts. A part that is divided again has the rows of the whole. */
static tdm_status chunk_margin(tdm_chunked *chunked) {
  enum { MOST_PARTS = 64 };
  margin_attributes attributes = *(const margin_attributes *)tdm_chunked_attributes(chunked);
  if (attributes.rows == 0) attributes.rows = tdm_chunked_shape(chunked, 0).dims[0];
  const tdm_status status = tdm_chunked_each(chunked, &attributes);
  if (status != TDM_OK) return status;
  tdm_value parts[MOST_PARTS];
  for (size_t i = 0; i < tdm_chunked_count(chunked); i++)
    parts[i] = tdm_chunked_output(chunked, 0, i);
  tdm_chunked_set_whole(chunked, 0, tdm_chunked_sum(chunked, parts));
  return TDM_OK;
}

static const tdm_operation margin_operation = {
    .struct_size = sizeof(tdm_operation),
    .name = "capsule_margin",
    .attribute_bytes = sizeof(margin_attributes),
    .min_inputs = 2,
    .max_inputs = 2,
    .output_count = 1,
    .infer = infer_margin,
    .gradient = margin_gradient,
    .chunk = chunk_margin,
};

tdm_value capsule_margin(tdm_graph *graph, const char *name, tdm_value lengths, tdm_value classes) {
  const margin_attributes attributes = {0};
  const tdm_value operands[] = {lengths, classes};
  return tdm_append(graph, &margin_operation, name, &attributes, operands, 2, NULL);
}
