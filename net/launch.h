/* Selects the transport of a process by how it was started, or by TANDEM_NET. Plug-ins are shared
 * objects, opened on demand, because an MPI is no dependency of the library. Invariant: a process
 * that a launcher has started is never treated as a single process. */
#ifndef TANDEM_NET_LAUNCH_H
#define TANDEM_NET_LAUNCH_H

#include "net/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds the transport. TANDEM_NET is "openmpi", "mpich" or "none". If it is not set, the
 * environment reveals whose launcher started the process. *out_transport is NULL if there is none,
 * or if TANDEM_NET is "none". The table remains valid until the process ends. The plug-in is the
 * first libtandem_NAME.so in one of these folders:
 * - those of TANDEM_NET_PATH (separated by colons; ignored in programs with more rights than their
 *   user),
 * - the folder `tandem` next to the library or program that contains this code,
 * - the folder of that library or program itself. Fails with INVALID_ARGUMENT if TANDEM_NET has
 *   another value, UNAVAILABLE if there is no such object or it does not open, and UNSUPPORTED if
 *   it was built for another version of the library. */
tdm_status tdm_transport_find(const tdm_transport **out_transport) TDM_WARN_UNUSED;

/* Calls tdm_transport_find and opens an endpoint of the launcher's job. *out_endpoint is NULL if
 * the process was not started by a launcher. timeout_ns is as in tdm_endpoint_options. */
tdm_status tdm_net_open(const tdm_allocator *allocator, uint64_t timeout_ns,
                        tdm_endpoint **out_endpoint) TDM_WARN_UNUSED;

/* For tests: what tdm_transport_find derives from the environment, given as a function. Returns
 * NULL for a single process. *out_variable (may be NULL) is the variable that decided. */
const char *tdm_launcher_name(const char *(*variable)(const char *name), const char **out_variable);

#ifdef __cplusplus
}
#endif
#endif
