/* Starts threads. Invariant: the library's threads take no signals; the program's own threads
 * handle those. Their stacks are large enough for kernels, whatever the process's limit is. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "core/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/status.h"

/* Kernels and planning need some hundred KiB; the process's own limit may be lower. */
#define LEAST_STACK_BYTES ((size_t)1 << 20)

/* Slack of the thread's timers; 0 would select the kernel's default. */
enum { TIMER_SLACK_NS = 1000 };

/* The shortest time slice that the kernel grants. */
enum { PROMPT_SLICE_NS = 100000 };

/* The kernel's struct sched_attr, first version (sched_setattr(2)), which the C library lacks. */
typedef struct scheduling {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns; /* time slice of a thread under SCHED_OTHER */
  uint64_t deadline_ns;
  uint64_t period_ns;
} scheduling;
_Static_assert(sizeof(scheduling) == 48, "the size that sched_setattr knows");

static int create(pthread_t *thread, void *(*run)(void *), void *user) {
  pthread_attr_t attributes;
  const int code = pthread_attr_init(&attributes);
  if (code != 0) return code;
  size_t bytes = 0;
  (void)pthread_attr_getstacksize(&attributes, &bytes);
  if (bytes < LEAST_STACK_BYTES) (void)pthread_attr_setstacksize(&attributes, LEAST_STACK_BYTES);
  const int created = pthread_create(thread, &attributes, run, user);
  (void)pthread_attr_destroy(&attributes);
  return created;
}

tdm_status tdm_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *user) {
  char kept[16];
  (void)snprintf(kept, sizeof(kept), "%s", name);
  sigset_t all;
  sigset_t before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int code = create(thread, run, user);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "cannot start thread %s: %s", name, strerror(code));
  (void)pthread_setname_np(*thread, kept); /* the name is used only by debuggers and traces */
  return TDM_OK;
}

void tdm_thread_sleep_exactly(void) {
  (void)prctl(PR_SET_TIMERSLACK, (unsigned long)TIMER_SLACK_NS, 0, 0, 0);
}

void tdm_thread_run_promptly(void) {
  scheduling mine = {.size = sizeof mine};
  if (syscall(SYS_sched_getattr, 0, &mine, sizeof mine, 0) != 0 || mine.policy != SCHED_OTHER)
    return;
  mine.runtime_ns = PROMPT_SLICE_NS;
  (void)syscall(SYS_sched_setattr, 0, &mine, 0);
}

uint64_t tdm_thread_cpu_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
