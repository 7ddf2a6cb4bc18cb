/* The command line of `tandem forecast`. Invariant: strings point into argv; nothing to free. */
#ifndef TOOLS_FORECAST_OPTIONS_H
#define TOOLS_FORECAST_OPTIONS_H

#include "tandem/tandem.h"
#include "tools/options/option_table.h"
#include "tools/tool.h"

typedef struct forecast_request {
  tool_options common;
  const char *machine; /* file */
  const char *costs;   /* file; NULL: kernels are priced by the description */
  const char *model;
  int64_t batch;   /* rows of a step; with per_device of each device */
  int64_t devices; /* number of devices whose step is printed in detail; 0: all of the machine */
  int64_t ranks;   /* maximum number of identical ranks; 0: the machine's devices in one plan */
  bool per_device;
  int algorithm; /* algorithm for the details of the step: tdm_collective */
  bool json;
} forecast_request;

extern const option_table forecast_table;

#endif
