/* Which transport a process uses: by how it was started, or as TANDEM_NET says. Plug-ins are shared
 * objects of their own, opened when they are needed, since an MPI is no dependency of the library.
 * Invariant: a process that a launcher has started is never taken for one that is alone. */
#ifndef TANDEM_NET_LAUNCH_H
#define TANDEM_NET_LAUNCH_H

#include "net/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TANDEM_NET is "openmpi", "mpich" or "none"; where it is not set, the environment tells whose
 * launcher started the process. *out_transport is NULL where the process is alone, or "none". The
 * object is libtandem_NAME.so in one of the folders of TANDEM_NET_PATH (separated by colons; not
 * read by programs with more rights than their user), then in the folder `tandem` beside the
 * library or program that this code is in, then beside it. The table lives until the process ends.
 * INVALID_ARGUMENT: TANDEM_NET has another value; UNAVAILABLE: no such object, or it does not open;
 * UNSUPPORTED: it was built for another version of the library. */
tdm_status tdm_transport_find(const tdm_transport **out_transport) TDM_WARN_UNUSED;

/* tdm_transport_find, and tdm_endpoint_open of the launcher's job; *out_endpoint is NULL where the
 * process is alone. timeout_ns as in tdm_endpoint_options. */
tdm_status tdm_net_open(const tdm_allocator *allocator, uint64_t timeout_ns,
                        tdm_endpoint **out_endpoint) TDM_WARN_UNUSED;

/* For tests: what tdm_transport_find reads of the environment, as a function of it. NULL: alone.
 * *out_variable (may be NULL): which variable said so. */
const char *tdm_launcher_name(const char *(*variable)(const char *name), const char **out_variable);

#ifdef __cplusplus
}
#endif
#endif
