/* The devices of all ranks, and what ranks agree on. Invariant: see job.h. On failure the context
 * can be destroyed. */
#include "devices/creation/job.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/absent/remote.h"
#include "devices/context/context_state.h"
#include "devices/groups/groups.h"
#include "devices/network/network.h"

enum { MOST_DEVICES = INT16_MAX }; /* passes store indices of devices in int16_t */

/* Returns another device of the kind, or the same one if there is none. */
static const tdm_device *peer_of(const tdm_context *context, const tdm_device *device) {
  for (size_t i = 0; i < context->device_count; i++) {
    const tdm_device *other = context->devices[i];
    if (other != device && tdm_device_same_kind(device, other)) return other;
  }
  return device;
}

static void describe_own(const tdm_context *context, tdm_device_description *told) {
  for (size_t i = 0; i < context->device_count; i++) {
    const tdm_device *device = context->devices[i];
    tdm_device_describe(device, context->devices[0], peer_of(context, device), &told[i]);
  }
}

/* Computes how many devices each rank has, and the index of each rank's first device. */
static tdm_status number_ranks(tdm_context *context, uint32_t *out_most) {
  const size_t ranks = (size_t)context->rank_count;
  context->rank_begins =
      tdm_allocate(&context->allocator, (ranks + 1) * sizeof(size_t), "the ranks of a job");
  uint32_t *counts = tdm_allocate(&context->allocator, ranks * sizeof(uint32_t), "ranks");
  if (!context->rank_begins || !counts) {
    tdm_release(&context->allocator, counts, ranks * sizeof(uint32_t));
    return TDM_OUT_OF_MEMORY;
  }
  const uint32_t own = (uint32_t)context->device_count;
  tdm_status status = tdm_network_gather(context->network, &own, sizeof own, counts);
  *out_most = 0;
  for (size_t r = 0; r < ranks && status == TDM_OK; r++) {
    context->rank_begins[r + 1] = context->rank_begins[r] + counts[r];
    if (counts[r] > *out_most) *out_most = counts[r];
    if (counts[r] == 0 || context->rank_begins[r + 1] > MOST_DEVICES) {
      status = tdm_fail(TDM_UNSUPPORTED,
                        "rank %zu of the job has %u devices: each has 1, and all "
                        "together %d at most",
                        r, counts[r], MOST_DEVICES);
    }
  }
  tdm_release(&context->allocator, counts, ranks * sizeof(uint32_t));
  return status;
}

/* Enlarges the list for all devices, with this rank's own at their place. */
static tdm_status widen(tdm_context *context) {
  const size_t total = context->rank_begins[context->rank_count];
  const size_t begin = context->rank_begins[context->rank];
  tdm_device **devices =
      tdm_allocate(&context->allocator, total * sizeof(tdm_device *), "the list of devices");
  if (!devices) return TDM_OUT_OF_MEMORY;
  for (size_t i = 0; i < context->device_count; i++) {
    tdm_device *device = context->devices[i];
    char name[sizeof device->name];
    memcpy(name, device->name, sizeof(name));
    (void)snprintf(device->name, sizeof device->name, "host:%d/%.12s", context->rank, name);
    device->rank = context->rank;
    device->context_index = (int)(begin + i);
    devices[begin + i] = device;
  }
  tdm_release(&context->allocator, context->devices,
              context->device_capacity * sizeof(tdm_device *));
  context->devices = devices;
  context->device_capacity = context->device_count = total;
  context->own_begin = begin;
  return TDM_OK;
}

/* Logs once whether this rank's devices communicate directly with those of other ranks, for the
 * first device that could. */
static void log_engine(tdm_context *context) {
  for (size_t i = context->own_begin; i < context->rank_begins[context->rank + 1]; i++) {
    const tdm_device *device = context->devices[i];
    if (device->engine_name[0])
      tdm_context_log(context, TDM_LOG_INFO, "%s can sum with other ranks' by %s", device->name,
                      device->engine_name);
    else if (device->engine_absence[0])
      tdm_context_log(context, TDM_LOG_WARNING, "%s sums with other ranks' through its host: %s",
                      device->name, device->engine_absence);
    if (device->engine_name[0] || device->engine_absence[0]) return;
  }
}

static tdm_status add_others(tdm_context *context, const tdm_device_description *told,
                             uint32_t most) {
  for (int rank = 0; rank < context->rank_count; rank++) {
    const size_t begin = context->rank_begins[rank];
    for (size_t i = begin; i < context->rank_begins[rank + 1] && rank != context->rank; i++) {
      tdm_device **device = &context->devices[i];
      TDM_TRY(tdm_remote_device_create(context, rank, i, &told[(size_t)rank * most + i - begin],
                                       device));
      (*device)->context_index = (int)i;
    }
  }
  return TDM_OK;
}

tdm_status tdm_job_join_devices(tdm_context *context) {
  uint32_t most = 0;
  TDM_TRY(number_ranks(context, &most));
  const size_t rank_bytes = most * sizeof(tdm_device_description);
  const size_t bytes = ((size_t)context->rank_count + 1) * rank_bytes;
  tdm_device_description *told = tdm_allocate(&context->allocator, bytes, "devices of all ranks");
  if (!told) return TDM_OUT_OF_MEMORY;
  describe_own(context, told);
  tdm_status status = tdm_network_gather(context->network, told, rank_bytes, told + most);
  if (status == TDM_OK) status = widen(context);
  if (status == TDM_OK) log_engine(context);
  if (status == TDM_OK) status = add_others(context, told + most, most);
  if (status == TDM_OK) tdm_groups_find_exchanges(context);
  tdm_release(&context->allocator, told, bytes);
  return status;
}

tdm_status tdm_context_agree(tdm_context *context, tdm_status status) {
  if (!context) return tdm_fail_null("tdm_context_agree: the context");
  return context->network ? tdm_network_agree(context->network, status) : status;
}
