/* A mode for finding accesses outside of what an operation was given: TANDEM_RED_ZONES. Invariant:
 * while it is on, no two values of a run share an allocation of a device, so that whatever watches
 * allocations (a sanitizer, guard pages) watches values. */
#ifndef TANDEM_DEVICES_CONTRACT_RED_ZONES_H
#define TANDEM_DEVICES_CONTRACT_RED_ZONES_H

#include <string.h>

#include "tandem/devices/devices.h"

typedef enum tdm_red_zones {
  TDM_RED_ZONES_NONE,
  TDM_RED_ZONES_FILLED,   /* fresh memory is all ones: NaN in floating values, -1 in integers */
  TDM_RED_ZONES_UNFILLED, /* it is left unwritten, for tools that watch for that */
} tdm_red_zones;

enum { TDM_RED_ZONES_BYTE = 0xff };

/* Fresh memory of the host, as the mode wants it. */
static inline void tdm_red_zones_begin(tdm_red_zones mode, void *memory, size_t bytes) {
  if (mode == TDM_RED_ZONES_FILLED) memset(memory, TDM_RED_ZONES_BYTE, bytes);
}

#endif
