/* Starting threads. Invariant: our threads take no signals; those are the program's business and go
 * to its own threads. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "core/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* sched_setattr(2): glibc declares neither the struct nor the call. */
typedef struct slice_request {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns; /* the slice, of the ordinary class */
  uint64_t deadline_ns;
  uint64_t period_ns;
} slice_request;

void tdm_thread_ask_short_slice(void) {
  enum { SHORTEST_SLICE_NS = 100000 };
  slice_request request = {.size = sizeof(request)};
  if (syscall(SYS_sched_getattr, 0, &request, sizeof(request), 0) != 0) return;
  if (request.policy != SCHED_OTHER) return;
  request.runtime_ns = SHORTEST_SLICE_NS;
  (void)syscall(SYS_sched_setattr, 0, &request, 0);
}
