/* Shared objects that come with the library and are opened when they are needed: an MPI's
 * transport, CUDA's kernels. Invariant: nothing of a plug-in is looked for by the system's own
 * search; what is not where it belongs is not there. */
#ifndef TANDEM_CORE_PLUGIN_H
#define TANDEM_CORE_PLUGIN_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens libtandem_NAME.so: the first that is in one of the folders of the environment's `variable`
 * (separated by colons; not read by programs with more rights than their user), in the folder
 * `tandem` beside the library or program that this code is in, or beside it. It stays until the
 * process ends. *out_object: for dlsym; NULL with TDM_OK where there is no such file. UNAVAILABLE:
 * there is one, and it does not open. Any thread. */
tdm_status tdm_plugin_open(const char *name, const char *variable,
                           void **out_object) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
