/* Which ranges of host memory are pinned for a sim device: nothing is locked, since its link is
 * modelled, but a driver's rules are kept. Invariant: ranges are disjoint, and each is unpinned
 * whole, exactly once. */
#ifndef TANDEM_DEVICES_SIM_PINS_H
#define TANDEM_DEVICES_SIM_PINS_H

#include <pthread.h>

#include "core/allocate.h"

typedef struct tdm_sim_pin {
  uintptr_t begin;
  size_t bytes;
} tdm_sim_pin;

typedef struct tdm_sim_pins {
  const tdm_allocator *allocator;
  tdm_sim_pin *pins; /* (count) */
  size_t count;
  size_t capacity;
  pthread_mutex_t mutex;
  bool has_mutex;
} tdm_sim_pins;

/* allocator is borrowed. deinit accepts a zeroed one. */
tdm_status tdm_sim_pins_init(tdm_sim_pins *pins, const tdm_allocator *allocator) TDM_WARN_UNUSED;
void tdm_sim_pins_deinit(tdm_sim_pins *pins);
/* Any thread. INVALID_ARGUMENT, naming `device`, for what is pinned in part or whole already. */
tdm_status tdm_sim_pins_add(tdm_sim_pins *pins, const char *device, void *memory,
                            size_t bytes) TDM_WARN_UNUSED;
/* Any thread. INVALID_ARGUMENT for a range that was not added like this. */
tdm_status tdm_sim_pins_remove(tdm_sim_pins *pins, const char *device, void *memory,
                               size_t bytes) TDM_WARN_UNUSED;

#endif
