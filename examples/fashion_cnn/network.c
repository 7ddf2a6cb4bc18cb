/* The network: two blocks of convolution, batch normalization and pooling, then two linear layers
 * with dropout between them. Names are those that PyTorch gives
 * Sequential(OrderedDict(features=..., classifier=...)) with named children. */
#include <stdlib.h>
#include <string.h>

#include "examples/common/command_line.h"
#include "examples/fashion_cnn/train.h"

enum { FIRST_CHANNELS = 16, SECOND_CHANNELS = 32, HIDDEN_SIZE = 128 };
enum { TRACE_RUNS = 20 }; /* so many of the latest runs are on a timeline */
static const double DROPPED = 0.25;

/* x (batch, ..., n, n) -> (batch, channels, n / 2, n / 2). */
static tdm_value block(tdm_graph *graph, const char *name, tdm_value x, int64_t channels) {
  const tdm_conv_options same_size = {.struct_size = sizeof same_size, .padding = {1, 1}};
  tdm_scope_push(graph, name);
  x = tdm_conv2d(graph, "conv", x, channels, 3, 3, &same_size);
  x = tdm_batch_norm(graph, "norm", x);
  x = tdm_relu(graph, "relu", x);
  x = tdm_max_pool2d(graph, "pool", x, 2, 2, NULL);
  tdm_scope_pop(graph);
  return x;
}

/* Describes the network; answers its loss. accelerator, parallel: NULL where there is none. */
static tdm_value describe(tdm_graph *graph, const char *accelerator, const char *parallel) {
  const tdm_dim batch = TDM_DIM("batch");
  const tdm_value images =
      tdm_input(graph, "images", TDM_FLOAT32, tdm_shape_of(4, batch, 1, IMAGE_SIZE, IMAGE_SIZE));
  const tdm_value classes = tdm_input(graph, "classes", TDM_INT64, tdm_shape_of(1, batch));

  if (!parallel) tdm_place(graph, "cpu:0");
  tdm_scope_push(graph, "features");
  tdm_value x = block(graph, "block1", images, FIRST_CHANNELS);
  x = block(graph, "block2", x, SECOND_CHANNELS); /* (batch, 32, 7, 7) */
  tdm_scope_pop(graph);
  if (parallel) {
    const tdm_parallel_options wrapped = {.struct_size = sizeof wrapped, .devices = parallel};
    tdm_data_parallel(graph, "features", &wrapped);
  }
  if (accelerator) tdm_place(graph, accelerator);
  tdm_scope_push(graph, "classifier");
  x = tdm_reshape(graph, "flatten", x,
                  tdm_shape_of(2, batch, SECOND_CHANNELS * (IMAGE_SIZE / 4) * (IMAGE_SIZE / 4)));
  x = tdm_relu(graph, "relu", tdm_linear(graph, "hidden", x, HIDDEN_SIZE));
  x = tdm_dropout(graph, "dropout", x, DROPPED);
  const tdm_value scores = tdm_linear(graph, "scores", x, CLASS_COUNT);
  tdm_scope_pop(graph);
  tdm_output(graph, "scores", scores);
  return tdm_cross_entropy(graph, "loss", scores, classes);
}

tdm_status network_create(tdm_context *context, const options *given, network *out_network) {
  *out_network = (network){.context = context};
  /* Asking for the accelerator gives it cores of its own: not where others are asked for. */
  const bool mapped = given->place || given->parallel || getenv("TANDEM_PLACE");
  out_network->graph = tdm_graph_create(context);
  const tdm_value loss =
      describe(out_network->graph, mapped ? NULL : tdm_accelerator(context), given->parallel);
  const tdm_optimizer adam = tdm_adam(given->learning_rate);
  const tdm_session_options wanted = {
      .struct_size = sizeof wanted,
      .loss = loss,
      .optimizer = &adam,
      .device_map = given->place,
      .seed = given->seed,
      .check_finite = true,
      .profile = given->explain,
      .trace_runs = given->trace_path ? TRACE_RUNS : 0,
  };
  out_network->session = tdm_session_create(out_network->graph, &wanted);
  return out_network->session ? TDM_OK : TDM_INVALID_ARGUMENT;
}

void network_release(network *released) {
  tdm_session_release(released->session);
  tdm_graph_release(released->graph);
  *released = (network){.context = NULL};
}
