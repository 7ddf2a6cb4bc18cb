/* Checks records of operations for contradictions. Users can register records of their own. */
#ifndef TANDEM_GRAPH_DESCRIBE_RECORD_FLAW_H
#define TANDEM_GRAPH_DESCRIBE_RECORD_FLAW_H

#include "tandem/graph/graph.h"

/* Returns why no node can be created from the record, for example "it lacks a name", or NULL if the
 * record is sound. Its stand-ins and the operation of its gradient are checked as far as they share
 * a node with it. */
const char *tdm_record_flaw(const tdm_operation *operation);

#endif
