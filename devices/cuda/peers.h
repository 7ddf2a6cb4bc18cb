/* Several GPUs of one context. */
#ifndef TANDEM_DEVICES_CUDA_PEERS_H
#define TANDEM_DEVICES_CUDA_PEERS_H

#include "devices/contract/device.h"

/* Prepares copies to device from other, on another GPU. Call it on the thread that feeds device.
 * The first call for a pair lets device access the memory of other's GPU if possible, which opens
 * that GPU; otherwise the driver copies through the host. The log reports which. */
void tdm_cuda_peers_meet(tdm_device *device, const tdm_device *other);

#endif
