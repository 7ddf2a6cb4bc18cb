/* Devices that are not present: those of a described machine, or of another rank of the job. They
 * have kernels to look up, queues, links and a memory size. Invariant: their memory consists of
 * addresses, each returned once. No memory is held and nothing executes. */
#ifndef TANDEM_DEVICES_ABSENT_ABSENT_H
#define TANDEM_DEVICES_ABSENT_ABSENT_H

#include "devices/contract/device.h"

typedef struct tdm_absent_device {
  tdm_device base; /* must be the first field */
  tdm_device_ops ops;
  tdm_queue queues[TDM_QUEUE_ROLES];
  const char *where;         /* why nothing executes on it: "is only described" */
  const char *model;         /* name of the processor for messages; NULL if memory_bytes is 0 */
  double memory_bytes;       /* 0: no limit */
  tdm_address begin;         /* first address of its memory */
  _Atomic size_t used_bytes; /* bytes of allocated memory */
  _Atomic size_t cursor;     /* addresses that were used up */
} tdm_absent_device;

/* The properties that differ between absent devices. */
typedef struct tdm_absent_options {
  const char *kind; /* borrowed, like the next two: must outlive the device */
  const char *executes;
  const char *where;
  unsigned roles; /* bit set of its queue roles, one bit per role */
  size_t number;  /* unique among the context's absent devices; below 2^16 */
  void (*destroy)(tdm_device *device);
  tdm_link (*link)(const tdm_device *device, const tdm_device *other);
} tdm_absent_options;

/* Initializes a zeroed device. The caller sets index, rank, name and limits. */
void tdm_absent_init(tdm_absent_device *device, tdm_context *context,
                     const tdm_absent_options *options);

#endif
