/* Helpers over pthreads: starting a named thread, and precise sleeps. Invariant: names are at most
 * 15 characters, the kernel's limit. */
#ifndef TANDEM_CORE_THREAD_H
#define TANDEM_CORE_THREAD_H

#include <pthread.h>

#include "tandem/core/core.h"

tdm_status tdm_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                            void *user) TDM_WARN_UNUSED;
/* Makes the calling thread's short sleeps end on time. By default the kernel may extend each by up
 * to 50 us, to wake several threads at once. */
void tdm_thread_sleep_exactly(void);
/* Makes the calling thread run within microseconds of being woken, even on a core where another
 * thread of its priority computes. It is for threads that work for some microseconds at a time. It
 * requests the shortest time slice, which requires no privilege and grants no larger share of the
 * core. Effective from Linux 6.12 on; a thread of a real-time policy is left unchanged. */
void tdm_thread_run_promptly(void);

/* Returns the CPU time of the calling thread in nanoseconds. */
uint64_t tdm_thread_cpu_ns(void);

#endif
