/* Helpers over pthreads shared by all folders: a named thread, and one that sleeps exactly.
 * Invariant: names are at most 15 characters, as the kernel keeps them. */
#ifndef TANDEM_CORE_THREAD_H
#define TANDEM_CORE_THREAD_H

#include <pthread.h>

#include "tandem/core/core.h"

tdm_status tdm_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                            void *user) TDM_WARN_UNUSED;
/* The calling thread's short sleeps end when they are due; else the kernel lets each last up to
 * 50 us longer, to wake several threads at once. */
void tdm_thread_sleep_exactly(void);

#endif
