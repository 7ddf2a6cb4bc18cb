/* Memory of a device, or, for one that the host addresses, a staging buffer that lies near a
 * discrete partner and is pinned for it, so that copies between the two need no detour. Invariant:
 * what was taken here is given back here. */
#ifndef TANDEM_DEVICES_STAGING_STAGED_MEMORY_H
#define TANDEM_DEVICES_STAGING_STAGED_MEMORY_H

#include "devices/contract/device.h"

/* Memory of at least `bytes` bytes; where the device is full, what others keep there and do not use
 * makes room. With a partner, from the context's staging pool; where that is
 * full, the log is told and the memory is the device's own, pageable. Any thread. */
tdm_status tdm_memory_take(tdm_device *device, tdm_device *partner, size_t bytes,
                           tdm_memory *out_memory) TDM_WARN_UNUSED;
/* Nobody uses the memory any more. Any thread; also after the context was closed. */
void tdm_memory_give_back(tdm_memory *memory);

/* Is the memory pinned for discrete devices? */
bool tdm_memory_is_pinned(const tdm_memory *memory);

#endif
