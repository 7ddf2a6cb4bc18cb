/* A context for a group of tests, which cmocka creates with begin_group and releases with
 * end_group. It has all defaults, unless a test defines GROUP_CONTEXT before it includes this. */
#ifndef TANDEM_TESTS_GROUP_H
#define TANDEM_TESTS_GROUP_H

#include "tandem/tandem.h"

#ifndef GROUP_CONTEXT
#define GROUP_CONTEXT tdm_context_create(NULL)
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
