/* See support.h. */
#include "tests/graph/forecast/support.h"
#include "tests/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char machine_text[] =
    "{\"title\": \"four\", \"sources\": [\"this test\"], \"devices_per_host\": 4, \"device\": "
    "{\"model\": \"toy\", \"flops_per_second\": {\"float32\": 2e9}, \"memory_bytes_per_second\": "
    "1e9, \"launch_us\": 3}, \"peer\": {\"latency_us\": 1, \"bytes_per_second\": 4e9}, "
    "\"host_link\": {\"latency_us\": 5, \"bytes_per_second\": 10e9}}";

tdm_context *context_of(const char *text) {
  char path[] = "/tmp/forecast_test_XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  assert_non_null(out);
  fputs(text, out);
  (void)fclose(out);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.machine = path);
  tdm_context *context = tdm_context_create(&options);
  (void)remove(path);
  if (!context) fail_msg("%s", tdm_last_message());
  return context;
}

tdm_context *described_context(void) {
  return context_of(machine_text);
}

tdm_forecast *forecast(tdm_session *session, const tdm_costs *costs) {
  const tdm_forecast_options options = OPTIONS(tdm_forecast_options, o.costs = costs);
  tdm_forecast *made = NULL;
  if (tdm_session_forecast(session, &options, &made) != TDM_OK) fail_msg("%s", tdm_last_message());
  return made;
}

const tdm_forecast_link *forecast_link(const tdm_forecast *made, const char *name) {
  for (size_t i = 0; i < made->link_count; i++)
    if (strcmp(made->links[i].name, name) == 0) return &made->links[i];
  fail_msg("there is no traffic on %s", name);
  return NULL;
}

void assert_close(double found, double wanted) {
  if (fabs(found - wanted) > 1e-9 * fabs(wanted)) fail_msg("%.15g, not %.15g", found, wanted);
}
