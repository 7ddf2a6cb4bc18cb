/* Halving a parameter. */
#include "tests/graph/halve.h"

static tdm_status execute(const tdm_kernel_call *call) {
  float *values = call->outputs[0];
  const int64_t count = tdm_shape_count(&call->output_specs[0].shape);
  for (int64_t i = 0; i < count; i++)
    values[i] /= 2;
  return TDM_OK;
}

const tdm_kernel halve_kernel = {.struct_size = sizeof(tdm_kernel),
                                 .operation = "test_halve",
                                 .executes = "cpu",
                                 .dtype = TDM_FLOAT32,
                                 .execute = execute};

static tdm_status infer(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

const tdm_operation halve = {.struct_size = sizeof(tdm_operation),
                             .name = "test_halve",
                             .min_inputs = 1,
                             .max_inputs = 1,
                             .output_count = 1,
                             .overwrites = {1},
                             .infer = infer};
