/* Declares the parameters of layers. A name is new, or it is tied to an existing one. */
#ifndef TANDEM_GRAPH_DESCRIBE_LAYER_PARAMETERS_H
#define TANDEM_GRAPH_DESCRIBE_LAYER_PARAMETERS_H

#include "tandem/graph/building.h"

/* Declares the parameter "layer" "suffix", a path below the innermost scope, or returns the one
 * that it is tied to. Fails if another layer has the parameter and no tie exists; the message
 * explains how to tie it. */
tdm_value tdm_declare_for_layer(tdm_graph *graph, const char *layer, const char *suffix,
                                tdm_dtype dtype, const tdm_shape *shape,
                                const tdm_initializer *initializer);
/* Declares a state likewise, on the device of `like`. */
tdm_value tdm_declare_state_for_layer(tdm_graph *graph, const char *layer, const char *suffix,
                                      tdm_dtype dtype, const tdm_shape *shape,
                                      const tdm_initializer *initializer, tdm_value like);
/* Like tdm_state, but each shard of a table has its own. Files contain them consecutively along
 * dimension 0. */
tdm_value tdm_declare_state_of_each(tdm_graph *graph, const char *path, tdm_dtype dtype,
                                    tdm_shape shape, const tdm_initializer *initializer,
                                    tdm_value like);

#endif
