/* A context for a group of tests (tests/group.h): that of graph_context, unless a test defines
 * GROUP_CONTEXT before it includes this. */
#ifndef TANDEM_TESTS_GRAPH_GROUP_H
#define TANDEM_TESTS_GRAPH_GROUP_H

#include "tests/graph/support.h"

#ifndef GROUP_CONTEXT
#define GROUP_CONTEXT graph_context()
#endif
#include "tests/group.h"

#endif
