/* Device maps: the environment's and the session's, on a graph that is kept. Invariant: a map that
 * is accepted gives every node a device of the context, the first rule's that names it. */
#include <stdlib.h>
#include <string.h>

#include "graph/passes/passes.h"
#include "tandem/layers/layers.h"
#include "tests/fuzz/support.h"

static tdm_graph *make_graph(tdm_context *context) {
  tdm_graph *graph = tdm_graph_create(context);
  const tdm_shape shape = tdm_shape_of(2, TDM_DIM("batch"), 4);
  tdm_value x = tdm_input(graph, "x", TDM_FLOAT32, shape);
  tdm_scope_push(graph, "block2");
  tdm_place(graph, "sim:0");
  x = tdm_linear(graph, "fc", x, 3);
  tdm_scope_push(graph, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  x = tdm_relu(graph, "relu", x);
  tdm_scope_pop(graph);
  tdm_scope_pop(graph);
  x = tdm_relu(graph, "block", x);
  tdm_output(graph, "y", tdm_linear(graph, "head[0]", x, 2));
  fuzz_expect(tdm_graph_status(graph) == TDM_OK, "no graph");
  return graph;
}

static void forget_devices(tdm_graph *graph) {
  for (size_t i = 1; i < graph->nodes.count; i++)
    tdm_ir_node_at(graph, i)->device = TDM_NO_DEVICE;
  for (size_t i = 1; i < graph->values.count; i++)
    tdm_ir_value_at(graph, i)->device = TDM_NO_DEVICE;
}

static void check_devices(const tdm_graph *graph) {
  const int count = (int)tdm_device_count(graph->context);
  TDM_EACH_NODE(graph, node) {
    const int device = node->device;
    fuzz_expect(device >= 0 && device < count, "device %d of %d", device, count);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tdm_graph *graph; /* kept until the program ends */
  tdm_context *context = fuzz_context(2, 1);
  if (!graph) graph = make_graph(context);
  const int64_t before = fuzz_outstanding();
  fuzz_input input = {data, size};
  char *environment = fuzz_text(&input, NULL);
  char *own = fuzz_text(&input, NULL);
  tdm_region region;
  tdm_region_init(&region, fuzz_allocator());
  tdm_device_map map;
  const tdm_status status = tdm_device_map_parse(context, &region, environment, own, &map);
  forget_devices(graph);
  if (fuzz_judge(status) && fuzz_judge(tdm_pass_place(graph, &map))) {
    check_devices(graph);
    (void)fuzz_judge(tdm_device_map_check(&map, graph));
  }
  tdm_region_deinit(&region);
  free(environment);
  free(own);
  fuzz_expect(fuzz_outstanding() == before, "memory is lost");
  return 0;
}
