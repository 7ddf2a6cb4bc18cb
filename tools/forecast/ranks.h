/* `tandem forecast --ranks`: 1, 2, 4, ... equal ranks of a cluster. */
#ifndef TOOLS_FORECAST_RANKS_H
#define TOOLS_FORECAST_RANKS_H

#include "tools/forecast/options.h"

/* Prints what a step of each number of ranks takes; devices: of the machine, as far as they can be
 * planned for. costs and json, which gets the rows where it is not NULL, may be NULL. */
tdm_status tell_ranks(const forecast_request *request, tdm_context *context, const tdm_costs *costs,
                      int devices, tdm_json_writer *json);

#endif
