/* A context that is one rank of a job of several. Invariant: all ranks have the same devices, in
 * the same order: rank 0's, then rank 1's, and so on. Devices of other ranks execute nothing
 * here. */
#ifndef TANDEM_DEVICES_CREATION_JOB_H
#define TANDEM_DEVICES_CREATION_JOB_H

#include "tandem/devices/devices.h"

struct tdm_endpoint;
struct tdm_control_options;

/* Like tdm_context_create, for the rank of an endpoint (net/transport.h), which it takes over, on
 * failure too. watch: operations that wait for a lost rank fail (tdm_network_watch); it may be NULL
 * if all ranks are in one process. All ranks of the job call it. A job of one rank results in an
 * ordinary context. */
tdm_context *tdm_context_create_in_job(const tdm_context_options *options,
                                       struct tdm_endpoint *endpoint,
                                       const struct tdm_control_options *watch);

/* Sends a description of this rank's devices, which are all that the context has so far, to the
 * other ranks, and adds theirs. */
tdm_status tdm_job_join_devices(tdm_context *context) TDM_WARN_UNUSED;

#endif
