/* The network of the paper, smaller, and without its decoder: convolution, primary capsules, one
 * capsule a class. Names are those that PyTorch gives modules with these attributes. */
#include "examples/capsule/network.h"

#include "examples/capsule/capsules.h"

enum { PRIMARY_SIZE = 8, CLASS_SIZE = 16, ITERATIONS = 3 };

tdm_value capsule_network_describe(tdm_graph *graph, const capsule_network_sizes *sizes,
                                   tdm_value images, tdm_value classes, const char *accelerator,
                                   const char *parallel, tdm_value *out_scores) {
  tdm_conv_options halves = tdm_conv_options_default();
  halves.stride[0] = halves.stride[1] = 2;
  if (accelerator) tdm_place(graph, accelerator);
  tdm_scope_push(graph, "features");
  tdm_value x =
      tdm_conv2d(graph, "conv", images, sizes->channels, sizes->kernel, sizes->kernel, NULL);
  x = tdm_relu(graph, "relu", x);
  x = tdm_conv2d(graph, "primary", x, sizes->types * PRIMARY_SIZE, sizes->kernel, sizes->kernel,
                 &halves);
  tdm_scope_pop(graph);
  if (!parallel) tdm_place(graph, "cpu:0"); /* the capsules' kernels only run on a CPU */
  tdm_scope_push(graph, "capsules");
  x = capsule_primary(graph, "primary", x, PRIMARY_SIZE); /* (batch, below, 8) */
  x = capsule_routing(graph, "routing", x, sizes->classes, CLASS_SIZE, ITERATIONS);
  *out_scores = capsule_length(graph, "length", x); /* (batch, classes) */
  tdm_scope_pop(graph);
  if (parallel) {
    tdm_parallel_options wrapped = tdm_parallel_options_default();
    wrapped.devices = parallel;
    tdm_data_parallel(graph, "features,capsules", &wrapped);
  }
  return capsule_margin(graph, "loss", *out_scores, classes);
}
