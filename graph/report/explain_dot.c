/* A plan as a Graphviz graph: one cluster a device, transfers as boxes on the edges. */
#include <stdio.h>

#include "graph/report/explain.h"

static void print_quoted(const char *text, FILE *out) {
  fputc('"', out);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

static void print_node(const tdm_plan *plan, uint32_t index, FILE *out) {
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, index);
  char label[3 * TDM_EXPLAIN_TEXT];
  char shape[TDM_SHAPE_TEXT], members[TDM_EXPLAIN_TEXT];
  tdm_explain_members(node, members);
  const tdm_spec *spec = &tdm_ir_value_at(&plan->graph, node->first_output)->spec;
  snprintf(label, sizeof label, "%s\n%s%s%s %s", node->name, tdm_explain_action(node),
           *members ? " of " : "", members, tdm_shape_text(&spec->shape, shape, sizeof shape));
  fprintf(out, "    n%u [shape=%s, label=", index, node->operation ? "ellipse" : "box");
  print_quoted(label, out);
  fprintf(out, "];\n");
}

static void print_edges(const tdm_plan *plan, uint32_t index, FILE *out) {
  const tdm_ir_node *node = tdm_ir_node_at(&plan->graph, index);
  const uint32_t *inputs = node->inputs;
  for (uint32_t k = 0; k < node->input_count; k++) {
    if (!inputs[k]) continue;
    const tdm_ir_value *value = tdm_ir_value_at(&plan->graph, inputs[k]);
    if (value->producer)
      fprintf(out, "  n%u -> n%u;\n", value->producer, index);
    else
      fprintf(out, "  v%u -> n%u;\n", inputs[k], index);
  }
}

static void print_sources(const tdm_plan *plan, FILE *out) {
  const tdm_graph *graph = &plan->graph;
  for (uint32_t v = 1; v < graph->values.count; v++) {
    const tdm_ir_value *value = tdm_ir_value_at(graph, v);
    if (value->producer || !value->name) continue;
    fprintf(out, "  v%u [shape=note, label=", v);
    print_quoted(value->name, out);
    fprintf(out, "];\n");
  }
}

tdm_status tdm_explain_dot(const tdm_plan *plan, FILE *out) {
  const tdm_graph *graph = &plan->graph;
  fprintf(out, "digraph plan {\n  rankdir=LR;\n");
  for (size_t d = 0; d < tdm_device_count(graph->context); d++) {
    fprintf(out, "  subgraph cluster_%zu {\n    label=", d);
    print_quoted(tdm_explain_device(plan, (int16_t)d), out);
    fprintf(out, ";\n");
    TDM_EACH_NODE(graph, node) {
      if (node->device == (int16_t)d) print_node(plan, node->index, out);
    }
    fprintf(out, "  }\n");
  }
  print_sources(plan, out);
  TDM_EACH_NODE(graph, node) {
    print_edges(plan, node->index, out);
  }
  fprintf(out, "}\n");
  return TDM_OK;
}
