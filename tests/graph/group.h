/* A context for a group of tests, which cmocka creates with begin_group and releases with
 * end_group. It is that of graph_context, unless a test defines GROUP_CONTEXT before it includes
 * this. */
#ifndef TANDEM_TESTS_GRAPH_GROUP_H
#define TANDEM_TESTS_GRAPH_GROUP_H

#include "tests/graph/support.h"

#ifndef GROUP_CONTEXT
#define GROUP_CONTEXT graph_context()
#endif

static tdm_context *context;

static int begin_group(void **unused) {
  (void)unused;
  context = GROUP_CONTEXT;
  return context ? 0 : -1;
}

static int end_group(void **unused) {
  (void)unused;
  tdm_context_release(context);
  return 0;
}

#endif
