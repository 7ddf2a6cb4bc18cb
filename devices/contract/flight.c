/* A flight's failure record. Invariant: the executor of a command writes failed_ids[id]. Other
 * threads can rely on it only after a later point. A queue that enqueues ahead of points may read
 * it earlier, and therefore reads it again. `failure` is guarded by failure_lock. */
#include <stdio.h>
#include <string.h>

#include "devices/contract/device.h"

static void lock_failure(tdm_flight *flight) {
  while (atomic_exchange_explicit(&flight->failure_lock, 1, memory_order_acquire) != 0)
    tdm_spin_pause();
}

static void unlock_failure(tdm_flight *flight) {
  atomic_store_explicit(&flight->failure_lock, 0, memory_order_release);
}

void tdm_flight_mark_failed(tdm_flight *flight, uint32_t id) {
  __atomic_store_n(&flight->failed_ids[id], 1, __ATOMIC_RELAXED);
}

static bool is_marked(const tdm_flight *flight, uint32_t id) {
  return __atomic_load_n(&flight->failed_ids[id], __ATOMIC_RELAXED) != 0;
}

void tdm_flight_fail(tdm_flight *flight, uint32_t id, tdm_status status, const char *message) {
  tdm_flight_mark_failed(flight, id);
  lock_failure(flight);
  if (id < flight->failure.id) {
    flight->failure.id = id;
    flight->failure.status = status;
    (void)snprintf(flight->failure.message, sizeof flight->failure.message, "%s", message);
  }
  unlock_failure(flight);
  atomic_store_explicit(&flight->failed, 1, memory_order_release);
}

bool tdm_flight_stop(tdm_flight *flight, tdm_status status) {
  uint32_t open = 0;
  if (!atomic_compare_exchange_strong(&flight->stopped, &open, (uint32_t)status)) return false;
  atomic_store_explicit(&flight->failed, 1, memory_order_release);
  return true;
}

tdm_status tdm_flight_close(tdm_flight *flight) {
  uint32_t before = 0;
  if (atomic_compare_exchange_strong(&flight->stopped, &before, TDM_FLIGHT_CLOSED)) return TDM_OK;
  return before == TDM_FLIGHT_CLOSED ? TDM_OK : (tdm_status)before;
}

static bool is_stopped(const tdm_flight *flight) {
  const uint32_t stopped = atomic_load_explicit(&flight->stopped, memory_order_relaxed);
  return stopped != 0 && stopped != TDM_FLIGHT_CLOSED;
}

bool tdm_flight_spoiled(tdm_flight *flight, const tdm_command *command) {
  if (atomic_load_explicit(&flight->failed, memory_order_acquire) == 0) return false;
  if (is_marked(flight, command->id)) return true;
  if (is_stopped(flight)) {
    tdm_flight_mark_failed(flight, command->id);
    return true;
  }
  for (uint32_t i = 0; i < command->dependency_count; i++) {
    if (!is_marked(flight, command->dependencies[i])) continue;
    tdm_flight_mark_failed(flight, command->id);
    return true;
  }
  return false;
}

tdm_status tdm_flight_read_failure(tdm_flight *flight, char *text) {
  lock_failure(flight);
  tdm_status status = flight->failure.status;
  (void)snprintf(text, TDM_MESSAGE_BYTES, "%s", flight->failure.message);
  unlock_failure(flight);
  if (status == TDM_OK && is_stopped(flight)) {
    status = (tdm_status)atomic_load(&flight->stopped);
    (void)snprintf(text, TDM_MESSAGE_BYTES, "the run was stopped");
  }
  return status == TDM_OK ? TDM_INTERNAL : status;
}

void tdm_flight_reset(tdm_flight *flight, uint32_t command_count) {
  if (atomic_load_explicit(&flight->failed, memory_order_relaxed) != 0) {
    memset(flight->failed_ids, 0, command_count);
    atomic_store_explicit(&flight->failed, 0, memory_order_relaxed);
  }
  atomic_store_explicit(&flight->stopped, 0, memory_order_relaxed);
  flight->failure.id = UINT32_MAX;
  flight->failure.status = TDM_OK;
  flight->failure.message[0] = '\0';
}

void tdm_flight_fail_after_wait(tdm_flight *flight, const tdm_program *program, uint32_t cursor,
                                tdm_status status) {
  while (++cursor < program->count) {
    const tdm_command *command = &program->commands[cursor];
    if (command->kind == TDM_COMMAND_WAIT) continue;
    tdm_flight_fail(flight, command->id, status, tdm_last_message());
    return;
  }
}

size_t tdm_operand_bytes(const tdm_spec *spec) {
  if (spec->format != TDM_FORMAT_DENSE) return 1;
  const int64_t bytes = tdm_shape_bytes(&spec->shape, spec->dtype);
  return bytes < 0 ? 1 : (size_t)bytes;
}

bool tdm_outputs_are_empty(const tdm_spec *outputs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tdm_operand_bytes(&outputs[i]) > 0) return false;
  return count > 0;
}
