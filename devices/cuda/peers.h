/* Several GPUs of one context. */
#ifndef TANDEM_DEVICES_CUDA_PEERS_H
#define TANDEM_DEVICES_CUDA_PEERS_H

#include "devices/cuda/api.h"
#include "devices/device.h"

/* The GPU's number, among those visible, of a device of this kind. */
int tdm_cuda_device_ordinal(const tdm_device *device);
/* Is [memory, memory + bytes) pinned, by the staging pool or for this device? Any thread. */
bool tdm_cuda_device_has_pinned(tdm_device *device, const void *memory, size_t bytes);

/* Lets device, which is the calling thread's, reach the memory of the context's other GPUs where
 * that is possible; elsewhere the driver takes copies between them through the host. The log says
 * which. */
void tdm_cuda_peers_enable(tdm_device *device, const tdm_cuda_api *api);

#endif
