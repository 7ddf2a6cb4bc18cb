/* Devices of other ranks, as their ranks describe them. Invariant: whatever passes ask of a device
 * that decides about a plan has the same answer on every rank. */
#ifndef TANDEM_DEVICES_ABSENT_REMOTE_H
#define TANDEM_DEVICES_ABSENT_REMOTE_H

#include "devices/contract/device.h"

/* What a rank tells the others of a device: sent as it is, so without pointers or gaps. */
typedef struct tdm_device_description {
  char kind[16];
  char executes[16];
  char identity[96];
  char engine_name[24];
  char engine_absence[160];
  tdm_link host_link; /* with the host */
  tdm_link peer_link; /* with another device of its kind */
  uint32_t index;     /* within its kind */
  uint32_t roles;     /* of its queues, a bit each */
  uint32_t host_addressable;
  uint32_t stages_pageable;
} tdm_device_description;

/* Of a device of this rank; host is the first cpu device, peer another of the device's kind or
 * itself. */
void tdm_device_describe(const tdm_device *device, const tdm_device *host, const tdm_device *peer,
                         tdm_device_description *out_description);

/* A device of another rank; number as in tdm_absent_options. INVALID_ARGUMENT for a description
 * that no device has. */
tdm_status tdm_remote_device_create(tdm_context *context, int rank, size_t number,
                                    const tdm_device_description *description,
                                    tdm_device **out_device) TDM_WARN_UNUSED;

#endif
