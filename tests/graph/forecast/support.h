/* Helpers for tests of forecasts: contexts of described machines, forecasts that must succeed. */
#ifndef TANDEM_TESTS_GRAPH_FORECAST_SUPPORT_H
#define TANDEM_TESTS_GRAPH_FORECAST_SUPPORT_H

#include "tests/graph/support.h"

/* Creates a context with two cpu devices and those of the machine that text describes. */
tdm_context *context_of(const char *text);
/* Creates a context of four described devices: 2 flops and 1 byte of memory a ns, 3 us a launch;
 * peers 4 bytes a ns after 1 us, the host 10 bytes a ns after 5 us. */
tdm_context *described_context(void);
/* Forecasts session's training plan, or its only plan. costs may be NULL. */
tdm_forecast *forecast(tdm_session *session, const tdm_costs *costs);
/* Returns the link of that name, which has traffic. */
const tdm_forecast_link *forecast_link(const tdm_forecast *made, const char *name);
/* Expects equality up to rounding. */
void assert_close(double found, double wanted);

#endif
