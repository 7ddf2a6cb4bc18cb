/* Verifies, in the order of a plan's nodes, that each reader of a bucket reads the copy that it
 * refers to: a copy into a bucket is read before the next one. The verify pass checks the order of
 * queues; it sees only storage, and not which copy's bytes a bucket has. */
#include "graph/ir/rewriter.h"
#include "graph/plan/plan.h"

typedef struct contents {
  const tdm_graph *graph;
  uint32_t *copy_of; /* (value_count): for a value in a bucket, the copy that it reads; 0: none */
  uint32_t *held;    /* (value_count): for a bucket, its present copy */
} contents;

/* Returns true for memory that no node produces as a whole. */
static bool is_bucket(const tdm_graph *graph, uint32_t root) {
  const tdm_ir_value *value = tdm_ir_value_at(graph, root);
  return root != 0 && value->kind == TDM_VALUE_NODE && value->producer == 0;
}

static tdm_status check_read(const contents *of, const tdm_ir_node *node, uint32_t input) {
  const uint32_t copy = of->copy_of[input];
  const uint32_t held = of->held[tdm_ir_value_at(of->graph, input)->root];
  if (copy == 0 || held == copy) return TDM_OK;
  return tdm_fail(TDM_INTERNAL, "%s reads what %s has overwritten", node->name,
                  held ? tdm_producer(of->graph, held)->name : "nobody");
}

static tdm_status pass_node(contents *of, const tdm_ir_node *node) {
  const bool is_view = node->operation && node->operation->is_view;
  for (uint32_t k = 0; k < node->input_count && !is_view; k++)
    TDM_TRY(check_read(of, node, node->inputs[k]));
  for (uint32_t k = 0; k < node->output_count; k++) {
    const uint32_t output = node->first_output + k;
    const uint32_t root = tdm_ir_value_at(of->graph, output)->root;
    if (!is_bucket(of->graph, root)) continue;
    of->copy_of[output] = is_view ? of->copy_of[node->inputs[0]] : output;
    if (!is_view) of->held[root] = output;
  }
  return TDM_OK;
}

static bool has_bucket(const tdm_graph *graph) {
  for (uint32_t v = 1; v < graph->values.count; v++)
    if (is_bucket(graph, v)) return true;
  return false;
}

tdm_status tdm_plan_verify_buckets(const tdm_plan *plan) {
  const tdm_graph *graph = &plan->graph;
  if (!has_bucket(graph)) return TDM_OK;
  tdm_region scratch;
  tdm_region_init(&scratch, graph->allocator);
  const size_t bytes = graph->values.count * sizeof(uint32_t);
  contents of = {.graph = graph,
                 .copy_of = tdm_region_take(&scratch, bytes, "verify"),
                 .held = tdm_region_take(&scratch, bytes, "verify")};
  tdm_status status = of.copy_of && of.held ? TDM_OK : TDM_OUT_OF_MEMORY;
  for (tdm_ir_node *node = graph->order.first; node && status == TDM_OK; node = node->next)
    status = pass_node(&of, node);
  tdm_region_deinit(&scratch);
  return status;
}
