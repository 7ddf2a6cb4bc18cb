/* The kernel and the record of a nap, which is its own gradient. */
#include "tests/graph/nap.h"

#include <string.h>
#include <time.h>

_Atomic uint64_t nap_row_ns;

static void sleep_ns(uint64_t ns) {
  struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  while (nanosleep(&left, &left) != 0)
    continue;
}

static tdm_status execute_nap(const tdm_kernel_call *call) {
  const int64_t rows = call->output_specs[0].shape.dims[0];
  memcpy(call->outputs[0], call->inputs[0],
         (size_t)tdm_shape_bytes(&call->output_specs[0].shape, TDM_FLOAT32));
  sleep_ns((uint64_t)rows * atomic_load(&nap_row_ns));
  return TDM_OK;
}

const tdm_kernel nap_kernel = {.struct_size = sizeof(tdm_kernel),
                               .operation = "nap",
                               .executes = "cpu",
                               .dtype = TDM_FLOAT32,
                               .execute = execute_nap};

static tdm_status infer_nap(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status append_nap_gradient(tdm_gradient *gradient);

const tdm_operation nap = {.struct_size = sizeof(tdm_operation),
                           .name = "nap",
                           .min_inputs = 1,
                           .max_inputs = 1,
                           .output_count = 1,
                           .infer = infer_nap,
                           .gradient = append_nap_gradient};

static tdm_status append_nap_gradient(tdm_gradient *gradient) {
  tdm_graph *graph = tdm_gradient_graph(gradient);
  const tdm_value d_y = tdm_gradient_of_output(gradient, 0);
  tdm_gradient_set(gradient, 0,
                   tdm_append(graph, &nap, tdm_gradient_name(gradient), NULL, &d_y, 1, NULL));
  return tdm_graph_status(graph);
}
