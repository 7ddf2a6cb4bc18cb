/* A helper over pthreads shared by all folders: a named thread.
 * Invariant: names are at most 15 characters, as the kernel keeps them. */
#ifndef TANDEM_CORE_THREAD_H
#define TANDEM_CORE_THREAD_H

#include <pthread.h>

#include "tandem/core/core.h"

tdm_status tdm_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                            void *user) TDM_WARN_UNUSED;

#endif
