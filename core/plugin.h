/* Shared objects that come with the library and are opened on demand: an MPI's transport, CUDA's
 * kernels. Invariant: plug-ins are never found by the system's own search, only in the folders
 * listed below. */
#ifndef TANDEM_CORE_PLUGIN_H
#define TANDEM_CORE_PLUGIN_H

#include "tandem/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Searches for libtandem_NAME.so and writes its path to `path`; false if there is none. Any thread.
 * The folders, in order:
 * - those of the environment's `variable` (separated by colons; ignored in programs with more
 *   rights than their user),
 * - the folder `tandem` next to the library or program that contains this code, and that folder
 *   itself,
 * - for a program in bin/, lib/tandem or Debian's folder of its architecture. */
enum { TDM_PLUGIN_PATH = 4096 };
bool tdm_plugin_find(const char *name, const char *variable, char path[TDM_PLUGIN_PATH]);
/* Opens the plug-in, which stays loaded until the process ends. *out_object is for dlsym; it is
 * NULL with TDM_OK if there is no such file. Fails with UNAVAILABLE if the file exists but cannot
 * be opened. Any thread. */
tdm_status tdm_plugin_open(const char *name, const char *variable,
                           void **out_object) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
