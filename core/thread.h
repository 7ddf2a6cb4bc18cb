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
/* The calling thread runs within microseconds of being woken, also on a core where another thread
 * of its priority computes: for threads that work for some microseconds at a time. It asks for the
 * shortest time slice, which takes no privilege and gives no larger share of the core. Has an
 * effect from Linux 6.12 on; a thread of a real-time policy is left as it is. */
void tdm_thread_run_promptly(void);

/* Returns how long the calling thread has had a core, in nanoseconds. */
uint64_t tdm_thread_cpu_ns(void);

#endif
