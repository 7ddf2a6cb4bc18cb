/* The list of pinned ranges. Invariant: see pins.h. */
#include "devices/staging/pins.h"

tdm_status tdm_pins_init(tdm_pins *pins, const tdm_allocator *allocator) {
  *pins = (tdm_pins){.allocator = allocator};
  if (pthread_mutex_init(&pins->mutex, NULL) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for the pins of a device");
  pins->has_mutex = true;
  return TDM_OK;
}

void tdm_pins_deinit(tdm_pins *pins) {
  if (!pins->has_mutex) return;
  tdm_release(pins->allocator, pins->pins, pins->capacity * sizeof(tdm_pin));
  (void)pthread_mutex_destroy(&pins->mutex);
  *pins = (tdm_pins){0};
}

/* The caller holds the mutex. */
static tdm_status add(tdm_pins *pins, const char *device, tdm_pin pin) {
  for (size_t i = 0; i < pins->count; i++) {
    const tdm_pin *other = &pins->pins[i];
    if (pin.begin < other->begin + other->bytes && other->begin < pin.begin + pin.bytes) {
      return tdm_fail(TDM_INVALID_ARGUMENT, "%zu bytes are pinned for %s already", pin.bytes,
                      device);
    }
  }
  TDM_TRY(tdm_array_reserve(pins->allocator, (void **)&pins->pins, &pins->capacity, pins->count + 1,
                            sizeof(tdm_pin), "the pins of a device"));
  pins->pins[pins->count++] = pin;
  return TDM_OK;
}

tdm_status tdm_pins_add(tdm_pins *pins, const char *device, void *memory, size_t bytes) {
  if (!memory || bytes == 0)
    return tdm_fail(TDM_INVALID_ARGUMENT, "there is no memory to pin for %s", device);
  (void)pthread_mutex_lock(&pins->mutex);
  const tdm_status status =
      add(pins, device, (tdm_pin){.begin = (uintptr_t)memory, .bytes = bytes});
  (void)pthread_mutex_unlock(&pins->mutex);
  return status;
}

/* The caller holds the mutex. */
static bool remove_pin(tdm_pins *pins, tdm_pin pin) {
  for (size_t i = 0; i < pins->count; i++) {
    if (pins->pins[i].begin != pin.begin || pins->pins[i].bytes != pin.bytes) continue;
    pins->pins[i] = pins->pins[--pins->count];
    return true;
  }
  return false;
}

tdm_status tdm_pins_remove(tdm_pins *pins, const char *device, void *memory, size_t bytes) {
  (void)pthread_mutex_lock(&pins->mutex);
  const bool removed = remove_pin(pins, (tdm_pin){.begin = (uintptr_t)memory, .bytes = bytes});
  (void)pthread_mutex_unlock(&pins->mutex);
  if (removed) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT, "%zu bytes are unpinned that were not pinned for %s", bytes,
                  device);
}

bool tdm_pins_cover(tdm_pins *pins, const void *memory, size_t bytes) {
  bool inside = false;
  (void)pthread_mutex_lock(&pins->mutex);
  for (size_t i = 0; i < pins->count && !inside; i++) {
    const uintptr_t offset = (uintptr_t)memory - pins->pins[i].begin;
    inside = offset <= pins->pins[i].bytes && bytes <= pins->pins[i].bytes - offset;
  }
  (void)pthread_mutex_unlock(&pins->mutex);
  return inside;
}
