/* A device of this kind: its fields, and its functions for its queues. Invariant: `met` belongs to
 * the thread that feeds its compute queue. The rest is constant while threads run, or has its own
 * lock. */
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
  struct tdm_cuda_feeder *feeders[TDM_CUDA_FEEDERS]; /* see queue.h */
  tdm_cuda_memory memory;
  tdm_pins pins;
  tdm_cuda_clock clock;           /* opened when times are first recorded */
  tdm_cuda_properties properties; /* name, and the PCI bus id for its locality */
} tdm_cuda_device;
_Static_assert(offsetof(tdm_cuda_device, base) == 0, "a device is its base");

static inline tdm_cuda_device *tdm_cuda_device_of(tdm_device *device) {
  return (tdm_cuda_device *)device;
}

/* Returns the GPU's number among the visible ones. */
int tdm_cuda_device_ordinal(const tdm_device *device);
/* Returns true the first time it is called for that pair; on the thread that feeds device. */
bool tdm_cuda_device_meets(tdm_device *device, const tdm_device *other);
/* Returns true if [memory, memory + bytes) is pinned, by the staging pool or for this device. Any
 * thread. */
bool tdm_cuda_device_has_pinned(tdm_device *device, const void *memory, size_t bytes);

#endif
