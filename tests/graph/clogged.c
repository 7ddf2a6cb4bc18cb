/* See clogged.h. The clog is an attribute of the operation, by address. */
#include "tests/graph/clogged.h"

#include <unistd.h>

static tdm_status execute_clog(const tdm_kernel_call *call) {
  clog *mine = *(clog *const *)call->attributes;
  const int number = atomic_fetch_add(&mine->entered, 1) + 1;
  while (atomic_load(&mine->shut) && number > atomic_load(&mine->passing))
    usleep(100);
  memcpy(call->outputs[0], call->inputs[0],
         (size_t)tdm_shape_count(&call->input_specs[0].shape) * sizeof(float));
  return TDM_OK;
}

static const tdm_kernel clog_kernel = {.struct_size = sizeof(tdm_kernel),
                                       .operation = "test_clog",
                                       .executes = "cpu",
                                       .dtype = TDM_FLOAT32,
                                       .execute = execute_clog};

static tdm_status infer_same(tdm_infer *infer) {
  infer->outputs[0] = infer->inputs[0];
  return TDM_OK;
}

static tdm_status pass_gradient(tdm_gradient *gradient) {
  tdm_gradient_set(gradient, 0, tdm_gradient_of_output(gradient, 0));
  return TDM_OK;
}

static const tdm_operation clog_operation = {.struct_size = sizeof(tdm_operation),
                                             .name = "test_clog",
                                             .attribute_bytes = sizeof(clog *),
                                             .min_inputs = 1,
                                             .max_inputs = 1,
                                             .output_count = 1,
                                             .infer = infer_same,
                                             .gradient = pass_gradient};

void clog_register(tdm_context *context) {
  assert_ok(tdm_kernel_register(context, &clog_kernel));
}

tdm_value clog_layer(tdm_graph *graph, const char *name, tdm_value x, clog *mine) {
  return tdm_append(graph, &clog_operation, name, &mine, &x, 1, NULL);
}

void clog_await(clog *mine, int count) {
  for (int i = 0; i < 600000 && atomic_load(&mine->entered) < count; i++)
    usleep(100);
  assert_true(atomic_load(&mine->entered) >= count);
}

tdm_graph *clogged_graph(tdm_context *context, const char *first, const char *second, clog *mine,
                         tdm_value *out_loss) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_value ids = tdm_input(graph, "ids", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  const tdm_value targets =
      tdm_input(graph, "targets", TDM_INT64, tdm_shape_of(1, TDM_DIM("batch")));
  tdm_place(graph, first);
  const tdm_value words = tdm_embedding(graph, "embedding", ids, MODEL_ROWS, MODEL_WIDTH);
  const tdm_value waited = clog_layer(graph, "clog", words, mine);
  tdm_place(graph, second);
  const tdm_value scores = tdm_linear(graph, "rnn", waited, MODEL_WIDTH);
  const tdm_value loss = tdm_cross_entropy(graph, "loss", scores, targets);
  tdm_output(graph, "scores", scores);
  if (out_loss) *out_loss = loss;
  return graph;
}
