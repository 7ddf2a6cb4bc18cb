/* Devices of other ranks. Invariant: see remote.h. */
#include "devices/absent/remote.h"

#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "devices/absent/absent.h"
#include "devices/context/context.h"

typedef struct remote_device {
  tdm_absent_device absent;
  tdm_device_description description;
} remote_device;
_Static_assert(offsetof(remote_device, absent) == 0, "a device is its base");

void tdm_device_describe(const tdm_device *device, const tdm_device *host, const tdm_device *peer,
                         tdm_device_description *out_description) {
  memset(out_description, 0, sizeof *out_description);
  tdm_device_description *told = out_description;
  (void)snprintf(told->kind, sizeof told->kind, "%s", device->ops->kind);
  (void)snprintf(told->executes, sizeof told->executes, "%s", device->ops->executes);
  (void)snprintf(told->identity, sizeof told->identity, "%s", device->identity);
  memcpy(told->engine_name, device->engine_name, sizeof told->engine_name);
  memcpy(told->engine_absence, device->engine_absence, sizeof told->engine_absence);
  told->host_link = device->ops->link(device, host);
  told->peer_link = device->ops->link(device, peer);
  told->index = (uint32_t)device->index;
  for (unsigned role = 0; role < TDM_QUEUE_ROLES; role++)
    told->roles |= device->queues[role] ? 1u << role : 0;
  told->host_addressable = device->host_addressable;
  told->stages_pageable = device->stages_pageable;
}

static bool is_text(const char *text, size_t capacity) {
  return memchr(text, '\0', capacity) != NULL;
}

static bool is_possible(const tdm_device_description *told) {
  return is_text(told->kind, sizeof told->kind) && is_text(told->executes, sizeof told->executes) &&
         is_text(told->identity, sizeof told->identity) &&
         is_text(told->engine_name, sizeof told->engine_name) &&
         is_text(told->engine_absence, sizeof told->engine_absence) && told->index < INT16_MAX &&
         (told->roles & 1u << TDM_QUEUE_COMPUTE) != 0 && told->roles >> TDM_QUEUE_ROLES == 0;
}

static tdm_link remote_link(const tdm_device *device, const tdm_device *other) {
  const tdm_device_description *told = &((const remote_device *)device)->description;
  if (device == other) return (tdm_link){0};
  return tdm_device_same_kind(device, other) ? told->peer_link : told->host_link;
}

static void remote_destroy(tdm_device *device) {
  if (!device) return;
  tdm_release(tdm_context_allocator(device->context), device, sizeof(remote_device));
}

tdm_status tdm_remote_device_create(tdm_context *context, int rank, size_t number,
                                    const tdm_device_description *description,
                                    tdm_device **out_device) {
  *out_device = NULL;
  if (!is_possible(description))
    return tdm_fail(TDM_INVALID_ARGUMENT, "rank %d describes a device that cannot be", rank);
  remote_device *remote =
      tdm_allocate(tdm_context_allocator(context), sizeof *remote, "a device of another rank");
  if (!remote) return TDM_OUT_OF_MEMORY;
  remote->description = *description;
  const tdm_device_description *told = &remote->description;
  const tdm_absent_options absent = {.kind = told->kind,
                                     .executes = told->executes,
                                     .where = "is another rank's",
                                     .roles = told->roles,
                                     .number = number,
                                     .destroy = remote_destroy,
                                     .link = remote_link};
  tdm_absent_init(&remote->absent, context, &absent);
  tdm_device *device = &remote->absent.base;
  device->rank = rank;
  device->index = (int)told->index;
  device->host_addressable = told->host_addressable != 0;
  device->stages_pageable = told->stages_pageable != 0;
  memcpy(device->identity, told->identity, sizeof device->identity);
  memcpy(device->engine_name, told->engine_name, sizeof device->engine_name);
  memcpy(device->engine_absence, told->engine_absence, sizeof device->engine_absence);
  (void)snprintf(device->name, sizeof device->name, "host:%d/%.8s:%u", rank, told->kind,
                 told->index);
  *out_device = device;
  return TDM_OK;
}
