/* Emulated GPUs, whose streams pause before their operations. */
#include "tests/devices/cuda_emulation/emulation.h"
#include "tests/options.h"
#include "tests/parallel/delays.h"

const uint64_t delayed_seeds = 1;

tdm_context *delayed_context(uint64_t seed) {
  emulation_set_driver(EMULATED_DRIVER, 8);
  emulation_set_jitter(seed);
  const tdm_context_options options = OPTIONS(tdm_context_options, o.cpu_devices = 2);
  tdm_context *made = tdm_context_create(&options);
  if (!made) fail_msg("no context: %s", tdm_last_message());
  return made;
}
