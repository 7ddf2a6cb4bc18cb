/* The names that a graph has, for messages about one that it has not. */
#ifndef TANDEM_GRAPH_IR_NAMES_H
#define TANDEM_GRAPH_IR_NAMES_H

#include "core/choices.h"
#include "graph/ir/ir.h"

/* "inputs are: ids, lengths (did you mean 'ids'?)": what a graph has, beside what was given in
 * their place. Lies in choices. Layers: the paths of nodes; a scope may have been meant as well. */
const char *tdm_inputs_text(const tdm_graph *graph, const char *given, tdm_choices *choices);
const char *tdm_outputs_text(const tdm_graph *graph, const char *given, tdm_choices *choices);
const char *tdm_layers_text(const tdm_graph *graph, const char *given, tdm_choices *choices);
/* Of those that can be trained. */
const char *tdm_parameters_text(const tdm_graph *graph, const char *given, tdm_choices *choices);

#endif
