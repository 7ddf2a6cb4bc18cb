/* Several GPUs of one context. */
#ifndef TANDEM_DEVICES_CUDA_PEERS_H
#define TANDEM_DEVICES_CUDA_PEERS_H

#include "devices/cuda/api.h"
#include "devices/device.h"

/* The GPU's number, among those visible, of a device of this kind. */
int tdm_cuda_device_ordinal(const tdm_device *device);
const tdm_cuda_api *tdm_cuda_device_api(const tdm_device *device);
/* True the first time that device is asked for other; on the thread that feeds device. */
bool tdm_cuda_device_meets(tdm_device *device, const tdm_device *other);
/* Is [memory, memory + bytes) pinned, by the staging pool or for this device? Any thread. */
bool tdm_cuda_device_has_pinned(tdm_device *device, const void *memory, size_t bytes);

/* Before a copy to device from other, which is of another GPU. On the thread that feeds device; the
 * first copy between the two lets device reach the memory of other's GPU where that is possible,
 * which opens that GPU; elsewhere the driver takes copies through the host. The log says which. */
void tdm_cuda_peers_meet(tdm_device *device, const tdm_device *other);

#endif
