/* Starting threads. Invariant: our threads take no signals; those are the program's business and go
 * to its own threads. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "core/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"

tdm_status tdm_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *user) {
  char kept[16];
  (void)snprintf(kept, sizeof(kept), "%s", name);
  sigset_t all;
  sigset_t before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int code = pthread_create(thread, NULL, run, user);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code != 0) {
    return tdm_fail(TDM_OUT_OF_MEMORY, "cannot start thread %s: %s", name, strerror(code));
  }
  (void)pthread_setname_np(*thread, kept); /* only for debuggers and traces */
  return TDM_OK;
}
