/* Notifies a job when a process exits. A process that calls exit, or returns from main, without
 * releasing its context leaves the job too, and the other ranks, which may wait for it, are
 * notified. Invariant: a forked child does not own its parent's channels. */
#include <stdlib.h>

#include "core/process.h"
#include "net/control_state.h"

#define EXIT_WAIT_NS INT64_C(200000000) /* limit for sending the messages */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static tdm_control *channels;
static _Atomic uint32_t generation; /* generation of the process that owns the channels */

/* Runs on the loop. The channel stays usable, because other threads of the process still query
 * it. */
static void on_exit_told(tdm_loop_task *task) {
  tdm_control *control = (tdm_control *)((char *)task - offsetof(tdm_control, exit_task));
  control->leaving = true; /* peers close their side after a rank has left */
  tdm_loop_timer_stop(control->loop, &control->beat);
  control_tell_refusal(control, true);
  control_tell_all(control, &(control_message){.kind = CONTROL_LEAVE});
  atomic_store(&control->exit_told, true);
  tdm_doorbell_ring(&control->bell);
}

void tdm_control_tell_exit(tdm_control *control) {
  const uint64_t end_ns = tdm_time_ns() + EXIT_WAIT_NS;
  control->exit_task.run = on_exit_told;
  tdm_loop_post(control->loop, &control->exit_task);
  for (uint64_t now_ns = 0; now_ns < end_ns; now_ns = tdm_time_ns()) {
    const uint32_t seen = tdm_doorbell_read(&control->bell);
    if (atomic_load(&control->exit_told)) break;
    tdm_doorbell_park(&control->bell, seen, EXIT_WAIT_NS);
  }
}

static void tell_at_exit(void) {
  if (generation != tdm_process_generation()) return;
  (void)pthread_mutex_lock(&lock);
  for (tdm_control *control = channels; control; control = control->next)
    tdm_control_tell_exit(control);
  (void)pthread_mutex_unlock(&lock);
}

static void register_exit(void) {
  (void)atexit(tell_at_exit); /* if registering fails, the other ranks wait for this process */
}

void control_exit_add(tdm_control *control) {
  (void)pthread_once(&once, register_exit);
  if (generation != tdm_process_generation()) {
    generation = tdm_process_generation();
    channels = NULL;
    (void)pthread_mutex_init(&lock, NULL); /* another thread may have held the lock at the fork */
  }
  (void)pthread_mutex_lock(&lock);
  control->next = channels;
  channels = control;
  (void)pthread_mutex_unlock(&lock);
}

void control_exit_remove(tdm_control *control) {
  (void)pthread_mutex_lock(&lock);
  tdm_control **at = &channels;
  while (*at && *at != control)
    at = &(*at)->next;
  if (*at) *at = control->next;
  (void)pthread_mutex_unlock(&lock);
}
