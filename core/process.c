/* The process's forks and lowest descriptors. Invariant: the mutex is free in a child, because fork
 * waits for its holder in the parent. */
#include "core/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

_Atomic uint32_t tdm_process_fork_count;

static pthread_mutex_t descriptors_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static int watch_code;          /* result of pthread_atfork */
static _Thread_local int depth; /* nesting of this thread's holds and of fork */

static void lock(void) {
  if (depth++ == 0) (void)pthread_mutex_lock(&descriptors_mutex);
}

static void unlock(void) {
  if (--depth == 0) (void)pthread_mutex_unlock(&descriptors_mutex);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void after_fork_in_child(void) {
  unlock();
  (void)atomic_fetch_add_explicit(&tdm_process_fork_count, 1, memory_order_relaxed);
}

static void watch(void) {
  watch_code = pthread_atfork(lock, unlock, after_fork_in_child);
}

tdm_status tdm_process_watch(void) {
  (void)pthread_once(&watch_once, watch);
  return watch_code == 0
             ? TDM_OK
             : tdm_fail(TDM_OUT_OF_MEMORY, "forks cannot be watched: %s", strerror(watch_code));
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

tdm_status tdm_low_descriptors_hold(tdm_low_descriptors *out_held) {
  *out_held = (tdm_low_descriptors){0};
  lock();
  for (;;) {
    const int descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (descriptor < 0) {
      const int code = errno;
      tdm_low_descriptors_release(out_held);
      return tdm_fail(TDM_UNAVAILABLE, "/dev/null cannot be opened: %s", strerror(code));
    }
    if (descriptor > STDERR_FILENO) {
      (void)close(descriptor);
      return TDM_OK;
    }
    out_held->held[out_held->count++] = descriptor;
  }
}

tdm_status tdm_descriptors_check(int count) {
  int opened[8];
  int room = 0;
  int code = 0;
  while (room < count && code == 0) {
    opened[room] = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (opened[room] < 0)
      code = errno;
    else
      room++;
  }
  for (int i = 0; i < room; i++)
    (void)close(opened[i]);
  if (room == count) return TDM_OK;
  return tdm_fail(TDM_UNAVAILABLE,
                  "a libuv loop needs %d files open, and no more than %d can be: %s", count, room,
                  strerror(code));
}

void tdm_low_descriptors_release(tdm_low_descriptors *held) {
  while (held->count > 0)
    (void)close(held->held[--held->count]);
  unlock();
}
