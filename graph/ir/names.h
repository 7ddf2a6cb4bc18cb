/* The names in a graph, for messages about unknown names. */
#ifndef TANDEM_GRAPH_IR_NAMES_H
#define TANDEM_GRAPH_IR_NAMES_H

#include "core/choices.h"
#include "graph/ir/ir.h"

/* Each returns a list of names and a suggestion, such as "inputs are: ids, lengths (did you mean
 * 'ids'?)". given: the unknown name. The text is stored in choices. Layers are listed by the paths
 * of their nodes, because scopes are legal too. */
const char *tdm_inputs_text(const tdm_graph *graph, const char *given, tdm_choices *choices);
const char *tdm_outputs_text(const tdm_graph *graph, const char *given, tdm_choices *choices);
const char *tdm_layers_text(const tdm_graph *graph, const char *given, tdm_choices *choices);
/* Returns such a list of the trainable parameters. */
const char *tdm_parameters_text(const tdm_graph *graph, const char *given, tdm_choices *choices);

#endif
