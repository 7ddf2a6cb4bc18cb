/* Lists the names in a graph. Invariant: the order is that of their description. */
#include "graph/ir/names.h"

#include <string.h>

const char *tdm_inputs_text(const tdm_graph *graph, const char *given, tdm_choices *choices) {
  tdm_choices_init(choices, given);
  for (size_t i = 0; i < graph->inputs.count; i++)
    tdm_choices_add(choices, tdm_ir_value_at(graph, graph->inputs.items[i])->name);
  return tdm_choices_text(choices, "inputs");
}

const char *tdm_outputs_text(const tdm_graph *graph, const char *given, tdm_choices *choices) {
  tdm_choices_init(choices, given);
  for (size_t i = 0; i < graph->described->outputs.count; i++)
    tdm_choices_add(choices, graph->described->outputs.items[i].name);
  return tdm_choices_text(choices, "outputs");
}

const char *tdm_layers_text(const tdm_graph *graph, const char *given, tdm_choices *choices) {
  tdm_choices_init(choices, given);
  const char *before = "";
  TDM_EACH_NODE(graph, node) {
    if (strcmp(node->name, before) == 0) continue; /* several nodes of one layer */
    before = node->name;
    tdm_choices_add(choices, node->name);
    for (const char *at = strchr(node->name, '/'); at; at = strchr(at + 1, '/'))
      tdm_choices_consider(choices, node->name, (size_t)(at - node->name));
  }
  return tdm_choices_text(choices, "layers");
}

const char *tdm_parameters_text(const tdm_graph *graph, const char *given, tdm_choices *choices) {
  tdm_choices_init(choices, given);
  for (size_t i = 0; i < graph->persistents.count; i++) {
    const tdm_graph_persistent *persistent = &graph->persistents.items[i];
    if (!tdm_ir_value_at(graph, persistent->value)->trainable) continue;
    tdm_choices_add(choices, persistent->name);
    for (const char *at = strpbrk(persistent->name, "/."); at; at = strpbrk(at + 1, "/."))
      tdm_choices_consider(choices, persistent->name, (size_t)(at - persistent->name));
  }
  return tdm_choices_text(choices, "parameters");
}
