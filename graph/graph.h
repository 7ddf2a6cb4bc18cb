/* Public part of graph/: describing graphs, operations of the program's own, the parameter store,
 * sessions and runs. It is independent of layers/ and of the kinds of devices.
 * @code{.unparsed}
 * graph --(session: passes)--> plan --(run)--> queues of devices
 * @endcode
 */
#ifndef TANDEM_GRAPH_GRAPH_H
#define TANDEM_GRAPH_GRAPH_H

#include "tandem/graph/building.h"
#include "tandem/graph/operations.h"
#include "tandem/graph/sessions.h"
#include "tandem/graph/state_dict.h"

#endif
