/* Devices of other ranks, created from their ranks' descriptions. Invariant: every property of a
 * device that affects a plan is the same on every rank. */
#ifndef TANDEM_DEVICES_ABSENT_REMOTE_H
#define TANDEM_DEVICES_ABSENT_REMOTE_H

#include "devices/contract/device.h"

/* A rank's description of a device for the others. It is sent as it is, so it has no pointers or
 * padding. */
typedef struct tdm_device_description {
  char kind[16];
  char executes[16];
  char identity[96];
  char engine_name[24];
  char engine_absence[160];
  tdm_link host_link; /* link to the host */
  tdm_link peer_link; /* link to another device of its kind */
  uint32_t index;     /* index among the devices of its kind */
  uint32_t roles;     /* bit set of its queue roles, one bit per role */
  uint32_t host_addressable;
  uint32_t stages_pageable;
} tdm_device_description;

/* Describes a device of this rank. host is the first cpu device; peer is another device of the same
 * kind, or the device itself. */
void tdm_device_describe(const tdm_device *device, const tdm_device *host, const tdm_device *peer,
                         tdm_device_description *out_description);

/* Creates a device of another rank; number is as in tdm_absent_options. Fails with INVALID_ARGUMENT
 * if the description is invalid. */
tdm_status tdm_remote_device_create(tdm_context *context, int rank, size_t number,
                                    const tdm_device_description *description,
                                    tdm_device **out_device) TDM_WARN_UNUSED;

#endif
