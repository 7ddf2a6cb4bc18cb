/* TANDEM_RED_ZONES: a mode for detecting accesses outside of an operation's operands. Invariant:
 * while it is on, no two values of a run share a device's allocation, so that tools that check
 * allocations (a sanitizer, guard pages) check values. */
#ifndef TANDEM_DEVICES_CONTRACT_RED_ZONES_H
#define TANDEM_DEVICES_CONTRACT_RED_ZONES_H

#include <string.h>

#include "tandem/devices/devices.h"

typedef enum tdm_red_zones {
  TDM_RED_ZONES_NONE,
  TDM_RED_ZONES_FILLED,   /* new memory is all ones: NaN in floating values, -1 in integers */
  TDM_RED_ZONES_UNFILLED, /* new memory is not written, for tools that detect uninitialized reads */
} tdm_red_zones;

enum { TDM_RED_ZONES_BYTE = 0xff };

/* Fills new host memory as the mode requires. */
static inline void tdm_red_zones_begin(tdm_red_zones mode, void *memory, size_t bytes) {
  if (mode == TDM_RED_ZONES_FILLED) memset(memory, TDM_RED_ZONES_BYTE, bytes);
}

#endif
