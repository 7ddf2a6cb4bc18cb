/* One copy as a plan makes it: through the queues that plans use, its source just written by the
 * device that it comes from, its target used last by the one that it goes to. */
#ifndef TANDEM_DEVICES_LINKS_TRIAL_H
#define TANDEM_DEVICES_LINKS_TRIAL_H

#include "devices/contract/device.h"

typedef struct tdm_link_trial {
  tdm_device *from_device; /* both started, with a direct route */
  tdm_device *to_device;
  tdm_address from; /* a host device's end is used as said above; another is left alone */
  tdm_address to;
  size_t bytes;
  bool stale;           /* the source is left first, not written last: both go out of caches */
  tdm_address between;  /* memory of the host that a target in it is driven out of caches by */
  size_t between_bytes; /* 0: none */
} tdm_link_trial;

/* Answers what the copy itself took; at least 1 ns. Blocks; any thread. */
tdm_status tdm_link_trial_run(const tdm_link_trial *trial, double *out_ns) TDM_WARN_UNUSED;

#endif
