/* Public part of graph/: describing a graph, operations of a user's own, the parameter store,
 * sessions and runs. Knows no layer (layers/) and no backend.
 *
 *   graph --(session: passes)--> plan --(run)--> queues of devices
 */
#ifndef TANDEM_GRAPH_GRAPH_H
#define TANDEM_GRAPH_GRAPH_H

#include "tandem/graph/building.h"
#include "tandem/graph/operations.h"
#include "tandem/graph/sessions.h"
#include "tandem/graph/state_dict.h"

#endif
