/* Simulated accelerators: links with a latency, delays by seed. */
#include <stdio.h>

#include "tests/options.h"
#include "tests/parallel/delays.h"

const uint64_t delayed_seeds = 3;

tdm_context *delayed_context(uint64_t seed) {
  char sim[80];
  (void)snprintf(sim, sizeof sim, "latency_us=2,gigabytes_per_second=1,delay_seed=%d", (int)seed);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 8, o.sim = sim);
  tdm_context *made = tdm_context_create(&options);
  if (!made) fail_msg("no context: %s", tdm_last_message());
  return made;
}
