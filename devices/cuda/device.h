/* A device of this kind: its fields, and what its queues ask of it. Invariant: `met` is of the
 * thread that feeds its compute queue; the rest is fixed while threads run, or locks itself. */
#ifndef TANDEM_DEVICES_CUDA_DEVICE_H
#define TANDEM_DEVICES_CUDA_DEVICE_H

#include "devices/contract/device.h"
#include "devices/cuda/clock.h"
#include "devices/cuda/gpu.h"
#include "devices/cuda/memory.h"
#include "devices/cuda/library/nccl.h"
#include "devices/staging/pins.h"

enum { TDM_CUDA_FEEDERS = 3 };

typedef struct tdm_cuda_device {
  tdm_device base;
  tdm_cuda_gpu gpu;
  const tdm_nccl_api *nccl;
  uint64_t met; /* bit i: peer copies have come from GPU i */
  struct tdm_cuda_feeder *feeders[TDM_CUDA_FEEDERS]; /* queue.h */
  tdm_cuda_memory memory;
  tdm_pins pins;
  tdm_cuda_clock clock;           /* opened when times are first recorded */
  tdm_cuda_properties properties; /* name, and the PCI bus id that locality goes by */
} tdm_cuda_device;
_Static_assert(offsetof(tdm_cuda_device, base) == 0, "a device is its base");

static inline tdm_cuda_device *tdm_cuda_device_of(tdm_device *device) {
  return (tdm_cuda_device *)device;
}

/* The GPU's number among those visible. */
int tdm_cuda_device_ordinal(const tdm_device *device);
/* True the first time that device is asked for other; on the thread that feeds device. */
bool tdm_cuda_device_meets(tdm_device *device, const tdm_device *other);
/* Is [memory, memory + bytes) pinned, by the staging pool or for this device? Any thread. */
bool tdm_cuda_device_has_pinned(tdm_device *device, const void *memory, size_t bytes);

#endif
