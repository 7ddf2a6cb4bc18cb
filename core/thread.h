/* Small helpers over pthreads shared by all folders: a named thread, and an aligned atomic word.
 * Invariant: names are at most 15 characters, as the kernel keeps them. */
#ifndef TANDEM_CORE_THREAD_H
#define TANDEM_CORE_THREAD_H

#include <pthread.h>

#include "core/core.h"

tdm_status tdm_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                            void *user) TDM_WARN_UNUSED;

/* Asks the system to run the calling thread soon when it is woken beside busy ones: Linux 6.12 and
 * later know time slices of a thread's own, and a shorter one is not made to wait for a longer.
 * Threads that it starts inherit this. Where the system does not know it, or the thread is not of
 * the ordinary class, nothing changes. */
void tdm_thread_ask_short_slice(void);

#endif
