/* Streams of emulated GPUs pause at random from the start of a test. */
#include "tests/devices/cuda_emulation/emulation.h"

__attribute__((constructor)) static void begin_with_jitter(void) {
  emulation_set_jitter(1);
}
