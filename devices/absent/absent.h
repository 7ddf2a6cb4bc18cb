/* Devices that are not here: of a machine that is described, or of another rank of the job. They
 * have kernels to look up, queues, links and a size. Invariant: memory of theirs is addresses
 * alone, given out once each; nothing is held and nothing executes. */
#ifndef TANDEM_DEVICES_ABSENT_ABSENT_H
#define TANDEM_DEVICES_ABSENT_ABSENT_H

#include "devices/contract/device.h"

typedef struct tdm_absent_device {
  tdm_device base; /* first */
  tdm_device_ops ops;
  tdm_queue queues[TDM_QUEUE_ROLES];
  const char *where;         /* "is only described": why nothing executes on it */
  const char *model;         /* for messages; NULL where memory_bytes is 0 */
  double memory_bytes;       /* 0: no limit */
  tdm_address begin;         /* of its addresses */
  _Atomic size_t used_bytes; /* of memory that is out */
  _Atomic size_t cursor;     /* addresses given out */
} tdm_absent_device;

/* What tells one absent device from others. */
typedef struct tdm_absent_options {
  const char *kind; /* these three live as long as the device */
  const char *executes;
  const char *where;
  unsigned roles; /* of the queues it has, a bit each */
  size_t number;  /* no other absent device of the context has it; below 2^16 */
  void (*destroy)(tdm_device *device);
  tdm_link (*link)(const tdm_device *device, const tdm_device *other);
} tdm_absent_options;

/* Fills a zeroed device; index, rank, name and limits are the caller's. */
void tdm_absent_init(tdm_absent_device *device, tdm_context *context,
                     const tdm_absent_options *options);

#endif
