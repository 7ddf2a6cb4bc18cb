/* A flight's failure record. Invariant: failed_ids[id] is written by whoever executes that command,
 * and read by others only past a point after it; `failure` is guarded by failure_lock. */
#include <stdio.h>
#include <string.h>

#include "devices/device.h"

static void lock_failure(tdm_flight *flight) {
  while (atomic_exchange_explicit(&flight->failure_lock, 1, memory_order_acquire) != 0)
    tdm_spin_pause();
}

static void unlock_failure(tdm_flight *flight) {
  atomic_store_explicit(&flight->failure_lock, 0, memory_order_release);
}

void tdm_flight_fail(tdm_flight *flight, uint32_t id, tdm_status status, const char *message) {
  flight->failed_ids[id] = 1;
  lock_failure(flight);
  if (id < flight->failure.id) {
    flight->failure.id = id;
    flight->failure.status = status;
    (void)snprintf(flight->failure.message, sizeof(flight->failure.message), "%s", message);
  }
  unlock_failure(flight);
  atomic_store_explicit(&flight->failed, 1, memory_order_release);
}

bool tdm_flight_spoiled(tdm_flight *flight, const tdm_command *command) {
  if (atomic_load_explicit(&flight->failed, memory_order_acquire) == 0) return false;
  if (flight->failed_ids[command->id] != 0) return true;
  for (uint32_t i = 0; i < command->dependency_count; ++i) {
    if (flight->failed_ids[command->dependencies[i]] == 0) continue;
    flight->failed_ids[command->id] = 1;
    return true;
  }
  return false;
}

void tdm_flight_reset(tdm_flight *flight, uint32_t command_count) {
  if (atomic_load_explicit(&flight->failed, memory_order_relaxed) != 0) {
    memset(flight->failed_ids, 0, command_count);
    atomic_store_explicit(&flight->failed, 0, memory_order_relaxed);
  }
  flight->failure.id = UINT32_MAX;
  flight->failure.status = TDM_OK;
  flight->failure.message[0] = '\0';
}
