/* The ranges of host memory that are pinned for a device. Invariant: ranges are disjoint, and each
 * is unpinned as a whole, exactly once. */
#ifndef TANDEM_DEVICES_STAGING_PINS_H
#define TANDEM_DEVICES_STAGING_PINS_H

#include <pthread.h>

#include "core/allocate.h"

typedef struct tdm_pin {
  uintptr_t begin;
  size_t bytes;
} tdm_pin;

typedef struct tdm_pins {
  const tdm_allocator *allocator;
  tdm_pin *pins; /* (count) */
  size_t count;
  size_t capacity;
  pthread_mutex_t mutex;
  bool has_mutex;
} tdm_pins;

/* allocator is borrowed. deinit accepts a zeroed struct. */
tdm_status tdm_pins_init(tdm_pins *pins, const tdm_allocator *allocator) TDM_WARN_UNUSED;
void tdm_pins_deinit(tdm_pins *pins);
/* Any thread. Fails with INVALID_ARGUMENT, naming `device`, if the range or a part of it is already
 * pinned. */
tdm_status tdm_pins_add(tdm_pins *pins, const char *device, void *memory,
                        size_t bytes) TDM_WARN_UNUSED;
/* Any thread. Fails with INVALID_ARGUMENT for a range that was not added as such. */
tdm_status tdm_pins_remove(tdm_pins *pins, const char *device, void *memory,
                           size_t bytes) TDM_WARN_UNUSED;
/* Returns true if [memory, memory + bytes) is inside one range. Any thread. */
bool tdm_pins_cover(tdm_pins *pins, const void *memory, size_t bytes);

#endif
