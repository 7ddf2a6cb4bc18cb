/* The kinds of devices of this build. Invariant: cpu comes first, being the host itself; a kind
 * that is left out says why. */
#include "devices/cpu/cpu.h"
#include "devices/cuda/cuda.h"
#include "devices/described/described.h"
#include "devices/sim/sim.h"

const tdm_kind *const tdm_device_kinds[] = {&tdm_cpu_kind, &tdm_sim_kind, &tdm_cuda_kind,
                                            &tdm_described_kind, NULL};
