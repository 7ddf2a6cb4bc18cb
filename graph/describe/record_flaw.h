/* Records that contradict themselves: a user's own may. */
#ifndef TANDEM_GRAPH_DESCRIBE_RECORD_FLAW_H
#define TANDEM_GRAPH_DESCRIBE_RECORD_FLAW_H

#include "tandem/graph/graph.h"

/* Why no node can be made by the record, "it lacks a name"; NULL: one can. What stands in for it,
 * and the operation of its gradient, are looked at as far as they share a node with it. */
const char *tdm_record_flaw(const tdm_operation *operation);

#endif
