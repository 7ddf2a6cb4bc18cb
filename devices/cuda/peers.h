/* Several GPUs of one context. */
#ifndef TANDEM_DEVICES_CUDA_PEERS_H
#define TANDEM_DEVICES_CUDA_PEERS_H

#include "devices/contract/device.h"

/* Before a copy to device from other, which is of another GPU. On the thread that feeds device; the
 * first copy between the two lets device reach the memory of other's GPU where that is possible,
 * which opens that GPU; elsewhere the driver takes copies through the host. The log says which. */
void tdm_cuda_peers_meet(tdm_device *device, const tdm_device *other);

#endif
