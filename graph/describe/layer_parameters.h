/* How layers declare parameters: under a name that no layer had before, or one that was tied. */
#ifndef TANDEM_GRAPH_DESCRIBE_LAYER_PARAMETERS_H
#define TANDEM_GRAPH_DESCRIBE_LAYER_PARAMETERS_H

#include "tandem/graph/building.h"

/* tdm_parameter of "layer" "suffix" (a path below the innermost scope), or what that is tied to. A
 * parameter that another layer has, and this is not tied to, makes the error that says how to. */
tdm_value tdm_declare_for_layer(tdm_graph *graph, const char *layer, const char *suffix,
                                tdm_dtype dtype, const tdm_shape *shape,
                                const tdm_initializer *initializer);
/* The same with a state, that lives with `like`. */
tdm_value tdm_declare_state_for_layer(tdm_graph *graph, const char *layer, const char *suffix,
                                      tdm_dtype dtype, const tdm_shape *shape,
                                      const tdm_initializer *initializer, tdm_value like);
/* tdm_state of which each shard of a table has its own: in files they stand one behind the other,
 * along dimension 0. */
tdm_value tdm_declare_state_of_each(tdm_graph *graph, const char *path, tdm_dtype dtype,
                                    tdm_shape shape, const tdm_initializer *initializer,
                                    tdm_value like);

#endif
