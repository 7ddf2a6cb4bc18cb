/* Chooses between a device's own memory and the staging pool. Invariant: memory->staging records
 * which of the two it was. */
#include "devices/staging/staged_memory.h"

#include <string.h>

#include "core/last_failure.h"
#include "core/untold.h"
#include "devices/context/context.h"
#include "devices/staging/pool.h"

/* Returns true if the pool's cap prevents the allocation. */
static bool is_full(tdm_pool *pool, size_t bytes) {
  tdm_pool_counters counters;
  tdm_pool_counters_read(pool, &counters);
  return bytes > counters.cap_bytes || counters.bytes > counters.cap_bytes - bytes;
}

/* *out_memory stays empty if the pool is full. */
static tdm_status take_staging(tdm_device *device, tdm_device *partner, size_t bytes,
                               tdm_memory *out_memory) {
  tdm_context *context = device->context;
  tdm_pool *pool = tdm_context_pool(context);
  TDM_TRY(tdm_faults_strike(tdm_context_faults(context), TDM_FAULT_ALLOCATION));
  tdm_staging *staging = NULL;
  const tdm_status status = tdm_pool_try_take(pool, partner, bytes, &staging);
  if (status != TDM_OK && !is_full(pool, bytes)) return status;
  if (!staging) {
    tdm_context_log(context, TDM_LOG_WARNING,
                    "the staging pool is full: %zu bytes of %s for copies with %s are pageable",
                    bytes, device->name, partner->name);
    return TDM_OK;
  }
  *out_memory = (tdm_memory){.device = device,
                             .address = (tdm_address)staging->memory,
                             .bytes = staging->bytes,
                             .staging = staging};
  return TDM_OK;
}

static tdm_status take(tdm_device *device, tdm_device *partner, size_t bytes,
                       tdm_memory *out_memory) {
  if (partner) {
    TDM_TRY(take_staging(device, partner, bytes, out_memory));
    if (out_memory->staging) return TDM_OK;
  }
  const tdm_status status = device->ops->allocate(device, bytes, out_memory);
  if (status != TDM_OUT_OF_MEMORY || !tdm_context_free_kept(device->context, device)) return status;
  return device->ops->allocate(device, bytes, out_memory);
}

/* A shortage on the way is no failure if memory is found in the end. */
tdm_status tdm_memory_take(tdm_device *device, tdm_device *partner, size_t bytes,
                           tdm_memory *out_memory) {
  tdm_last_failure before;
  tdm_last_failure_keep(&before);
  const uint32_t told = tdm_told_count();
  memset(out_memory, 0, sizeof *out_memory);
  const tdm_status status = take(device, partner, bytes, out_memory);
  if (status != TDM_OK)
    memset(out_memory, 0, sizeof *out_memory);
  else if (tdm_told_count() != told)
    tdm_last_failure_restore(&before);
  return status;
}

void tdm_memory_give_back(tdm_memory *memory) {
  if (!memory->device) return;
  if (memory->staging)
    tdm_pool_give_back(tdm_context_pool(memory->device->context), memory->staging, NULL, 0);
  else
    memory->device->ops->release(memory->device, memory);
  memset(memory, 0, sizeof *memory);
}

bool tdm_memory_is_pinned(const tdm_memory *memory) {
  return memory->staging && memory->staging->pinned;
}
