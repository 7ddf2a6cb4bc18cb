/* Kinds of devices for programs that test the cuda kind without a GPU. Linked instead of
 * //devices/kinds. */
#include "devices/cpu/cpu.h"
#include "devices/cuda/cuda.h"
#include "devices/sim/sim.h"

const tdm_kind *const tdm_device_kinds[] = {&tdm_cpu_kind, &tdm_sim_kind, &tdm_cuda_kind, NULL};
