/* Memory of a device. For a device that the host addresses, it may be a staging buffer near a
 * discrete partner and pinned for it, so that copies between the two are direct. Invariant: memory
 * taken here is returned here. */
#ifndef TANDEM_DEVICES_STAGING_STAGED_MEMORY_H
#define TANDEM_DEVICES_STAGING_STAGED_MEMORY_H

#include "devices/contract/device.h"

/* Takes memory of at least `bytes` bytes; if the device is full, unused cached memory is released
 * first. With a partner, it comes from the context's staging pool. If that is full, it is logged,
 * and the memory is the device's own, pageable. Any thread. */
tdm_status tdm_memory_take(tdm_device *device, tdm_device *partner, size_t bytes,
                           tdm_memory *out_memory) TDM_WARN_UNUSED;
/* Gives unused memory back. Any thread; also after the context was closed. */
void tdm_memory_give_back(tdm_memory *memory);

/* Returns true if the memory is pinned for discrete devices. */
bool tdm_memory_is_pinned(const tdm_memory *memory);

#endif
