/* Functions of a device for its queues. Invariant: see device.h. */
#include "devices/cuda/device.h"

#include "devices/context/context.h"
#include "devices/staging/pool.h"

int tdm_cuda_device_ordinal(const tdm_device *device) {
  return ((const tdm_cuda_device *)device)->gpu.ordinal;
}

bool tdm_cuda_device_meets(tdm_device *device, const tdm_device *other) {
  const int ordinal = tdm_cuda_device_ordinal(other);
  if (ordinal >= 64) return true;
  const uint64_t bit = (uint64_t)1 << ordinal;
  tdm_cuda_device *cuda = tdm_cuda_device_of(device);
  const bool is_new = (cuda->met & bit) == 0;
  cuda->met |= bit;
  return is_new;
}

bool tdm_cuda_device_has_pinned(tdm_device *device, const void *memory, size_t bytes) {
  return tdm_pins_cover(&tdm_cuda_device_of(device)->pins, memory, bytes) ||
         tdm_pool_is_pinned(tdm_context_pool(device->context), device, memory, bytes);
}
