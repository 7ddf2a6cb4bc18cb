/* Shared objects that come with the library and are opened when they are needed: an MPI's
 * transport, CUDA's kernels. Invariant: nothing of a plug-in is looked for by the system's own
 * search; what is not where it belongs is not there. */
#ifndef TANDEM_CORE_PLUGIN_H
#define TANDEM_CORE_PLUGIN_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Looks for libtandem_NAME.so: the first that is in one of the folders of the environment's
 * `variable` (separated by colons; not read by programs with more rights than their user), in the
 * folder `tandem` beside the library or program that this code is in, beside it, or, of a program
 * in bin/, in lib/tandem or in Debian's folder of its architecture. path gets where; false: it is
 * in none of them. Any thread. */
enum { TDM_PLUGIN_PATH = 4096 };
bool tdm_plugin_find(const char *name, const char *variable, char path[TDM_PLUGIN_PATH]);
/* Opens it. It stays until the process ends. *out_object: for dlsym; NULL with TDM_OK where there
 * is no such file. UNAVAILABLE: there is one, and it does not open. Any thread. */
tdm_status tdm_plugin_open(const char *name, const char *variable,
                           void **out_object) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
