/* The completion loop. Posters push onto a stack without a lock and wake the loop by uv_async_send.
 * The loop takes the stack as a whole and runs it backwards, which is the order of posting.
 * Invariant: handles are touched on the loop's thread only. They are closed only when no post, hold
 * or unhold is still inside this file (`visitors`): the task that ends everything may run before
 * the thread that posted it has left. */
#include "core/loop.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include "core/allocate.h"
#include "core/park.h"
#include "core/process.h"
#include "core/thread.h"

struct tdm_loop {
  tdm_allocator allocator;
  uv_loop_t *uv; /* &own_uv, or the caller's loop */
  uv_loop_t own_uv;
  uv_async_t wake;
  uv_timer_t alarm; /* set for the earliest of `timers`; unreferenced */
  pthread_t thread; /* own loop: thread to join; caller's loop: thread that created it */
  bool owned;
  bool detached; /* own loop closed from its own thread, which frees it */
  void (*closed)(void *user);
  void *closed_user;
  int handles; /* number of open handles of a caller's loop */
  pthread_mutex_t timers_lock;
  tdm_timers timers;
  _Atomic(tdm_loop_task *) posted; /* newest first */
  _Atomic int64_t holds;
  _Atomic uint32_t visitors;
  _Atomic bool wake_sent; /* true from a wake until on_wake begins */
  _Atomic bool stopping;  /* own loop: close as soon as no task is posted */
  _Atomic bool closing;   /* uv_close was called */
};

/* The own loop that this thread runs; NULL on all other threads. */
static _Thread_local tdm_loop *thread_loop;

bool tdm_loop_is_current(const tdm_loop *loop) {
  return loop->owned ? thread_loop == loop : pthread_equal(loop->thread, pthread_self()) != 0;
}

struct uv_loop_s *tdm_loop_uv(tdm_loop *loop) {
  return loop->uv;
}

/* ---- The end of the process ------------------------------------------------------------------ */

/* Number of threads of own loops that are running tasks or are ending by themselves. The last
 * reference to a context may be dropped there, after the callback that made main return. The count
 * belongs to the process of unsettled_generation: a child has none of the threads. */
static _Atomic int unsettled;
static _Atomic uint32_t unsettled_generation;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static const uint64_t exit_wait_ns = 2000000000; /* limited, because a user's task may never
                                                  * return */

static void settle_begin(void) {
  const uint32_t generation = tdm_process_generation();
  if (atomic_exchange(&unsettled_generation, generation) != generation) atomic_store(&unsettled, 0);
  atomic_fetch_add(&unsettled, 1);
}

static void settle_end(void) {
  atomic_fetch_sub(&unsettled, 1);
}

/* Waits for the loops' threads: one of them may have to shut down a job's engine in order. */
static void wait_at_exit(void) {
  if (thread_loop || atomic_load(&unsettled_generation) != tdm_process_generation()) return;
  const uint64_t end_ns = tdm_time_ns() + exit_wait_ns;
  while (atomic_load(&unsettled) > 0 && tdm_time_ns() < end_ns) {
    const struct timespec pause = {.tv_nsec = 100000};
    (void)nanosleep(&pause, NULL);
  }
}

static void register_exit(void) {
  (void)atexit(wait_at_exit); /* if registering fails, exit does not wait for the loops' threads */
}

/* Only the first caller since on_wake began sends. It has seen on_wake's store and therefore
 * libuv's reset of its own flag, which uv_async_send reads without ordering. */
static void wake(tdm_loop *loop) {
  if (atomic_exchange(&loop->wake_sent, true)) return;
  if (!atomic_load(&loop->closing)) (void)uv_async_send(&loop->wake);
}

/* The handles are not closed between enter and leave. */
static void enter(tdm_loop *loop) {
  atomic_fetch_add(&loop->visitors, 1);
}

static void leave(tdm_loop *loop) {
  atomic_fetch_sub(&loop->visitors, 1); /* the loop may be freed after this */
}

static bool run_posted(tdm_loop *loop) {
  tdm_loop_task *newest = atomic_exchange(&loop->posted, NULL);
  tdm_loop_task *oldest = NULL;
  while (newest) {
    tdm_loop_task *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  const bool ran = oldest != NULL;
  while (oldest) {
    tdm_loop_task *next = oldest->next; /* run may release the task */
    oldest->run(oldest);
    oldest = next;
  }
  return ran;
}

/* Keeps uv_run running until on_wake has checked the holds again. On the loop's thread. */
static void keep_running(tdm_loop *loop) {
  if (!atomic_load(&loop->closing)) uv_ref((uv_handle_t *)&loop->wake);
}

/* The only place that lets uv_run return. It reads the holds before the stack. If a thread posts a
 * task and then releases the last hold, the task is seen here and runs before uv_run returns. */
static void update_reference(tdm_loop *loop) {
  if (loop->owned || atomic_load(&loop->closing)) return;
  if (atomic_load(&loop->holds) > 0 || atomic_load(&loop->posted)) {
    uv_ref((uv_handle_t *)&loop->wake);
  } else {
    uv_unref((uv_handle_t *)&loop->wake);
  }
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static void on_alarm(uv_timer_t *alarm);

/* Sets the alarm to the earliest timer, at most a millisecond late. On the loop's thread. */
static void set_alarm(tdm_loop *loop) {
  if (atomic_load(&loop->closing)) return;
  (void)pthread_mutex_lock(&loop->timers_lock);
  const tdm_timer *earliest = loop->timers.root;
  const uint64_t due_ns = earliest ? earliest->due_ns : 0;
  (void)pthread_mutex_unlock(&loop->timers_lock);
  if (!earliest) {
    (void)uv_timer_stop(&loop->alarm);
    return;
  }
  const uint64_t now_ns = tdm_time_ns();
  const uint64_t left_ms = due_ns > now_ns ? (due_ns - now_ns) / 1000000 + 1 : 0;
  (void)uv_timer_start(&loop->alarm, on_alarm, left_ms, 0);
}

/* Removes and returns a timer that is due, or NULL if none is. */
static tdm_timer *take_due(tdm_loop *loop) {
  (void)pthread_mutex_lock(&loop->timers_lock);
  tdm_timer *timer = loop->timers.root;
  if (timer && timer->due_ns > tdm_time_ns()) timer = NULL;
  if (timer) tdm_timers_remove(&loop->timers, timer);
  (void)pthread_mutex_unlock(&loop->timers_lock);
  return timer;
}

static void on_alarm(uv_timer_t *alarm) {
  tdm_loop *loop = alarm->data;
  for (tdm_timer *timer = take_due(loop); timer; timer = take_due(loop))
    timer->run(timer);
  set_alarm(loop);
}

void tdm_loop_timer_start(tdm_loop *loop, tdm_timer *timer, uint64_t due_ns) {
  enter(loop);
  (void)pthread_mutex_lock(&loop->timers_lock);
  timer->due_ns = due_ns;
  tdm_timers_add(&loop->timers, timer);
  const bool first = loop->timers.root == timer;
  (void)pthread_mutex_unlock(&loop->timers_lock);
  if (first) wake(loop);
  leave(loop);
}

void tdm_loop_timer_stop(tdm_loop *loop, tdm_timer *timer) {
  (void)pthread_mutex_lock(&loop->timers_lock);
  tdm_timers_remove(&loop->timers, timer);
  (void)pthread_mutex_unlock(&loop->timers_lock);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_loop(tdm_loop *loop) {
  (void)pthread_mutex_destroy(&loop->timers_lock);
  const tdm_allocator allocator = loop->allocator;
  tdm_release(&allocator, loop, sizeof *loop);
}

static void finish(tdm_loop *loop) {
  if (loop->closed) loop->closed(loop->closed_user);
  free_loop(loop);
}

/* Handles the last callback of a caller's loop. */
static void on_closed(uv_handle_t *handle) {
  tdm_loop *loop = handle->data;
  if (--loop->handles > 0) return;
  while (run_posted(loop)) {
  }
  finish(loop);
}

static void close_handles(tdm_loop *loop, uv_close_cb closed) {
  while (atomic_load(&loop->visitors) != 0)
    (void)sched_yield();
  atomic_store(&loop->closing, true);
  loop->handles = 2;
  uv_close((uv_handle_t *)&loop->wake, closed);
  uv_close((uv_handle_t *)&loop->alarm, closed);
}

/* libuv documents that these calls never fail. */
static void create_alarm(tdm_loop *loop) {
  (void)uv_timer_init(loop->uv, &loop->alarm);
  uv_unref((uv_handle_t *)&loop->alarm);
  loop->alarm.data = loop;
}

static void on_wake(uv_async_t *handle) {
  tdm_loop *loop = handle->data;
  if (loop->owned) settle_begin();
  atomic_store(&loop->wake_sent, false);
  (void)run_posted(loop);
  if (atomic_load(&loop->stopping) && !atomic_load(&loop->closing)) {
    while (run_posted(loop)) {
    }
    close_handles(loop, NULL);
  }
  set_alarm(loop);
  update_reference(loop);
  if (loop->owned) settle_end();
}

static void *thread_main(void *user) {
  tdm_loop *loop = user;
  thread_loop = loop;
  (void)uv_run(loop->uv, UV_RUN_DEFAULT);
  while (run_posted(loop)) {
  }
  (void)uv_loop_close(loop->uv);
  thread_loop = NULL;
  if (loop->detached) {
    finish(loop);
    settle_end();
  }
  return NULL;
}

static tdm_status fail_uv(int code, const char *what) {
  return tdm_fail(code == UV_ENOMEM ? TDM_OUT_OF_MEMORY : TDM_UNAVAILABLE, "cannot create %s: %s",
                  what, uv_strerror(code));
}

static tdm_status start_own(tdm_loop *loop) {
  TDM_TRY(tdm_descriptors_check(3));
  int code = uv_loop_init(&loop->own_uv);
  if (code != 0) return fail_uv(code, "a libuv loop");
  loop->uv = &loop->own_uv;
  tdm_status status;
  code = uv_async_init(loop->uv, &loop->wake, on_wake);
  if (code != 0) {
    status = fail_uv(code, "a libuv async handle");
    goto fail;
  }
  create_alarm(loop);
  status = tdm_thread_start(&loop->thread, "tandem-loop", thread_main, loop);
  if (status == TDM_OK) return TDM_OK;
  uv_close((uv_handle_t *)&loop->wake, NULL);
  uv_close((uv_handle_t *)&loop->alarm, NULL);
fail:
  (void)uv_run(loop->uv, UV_RUN_DEFAULT);
  (void)uv_loop_close(loop->uv);
  return status;
}

/* The handle starts referenced and woken, so that the first uv_run checks the holds itself. Until
 * then any thread may take holds. */
static tdm_status start_on_caller(tdm_loop *loop, uv_loop_t *caller_loop) {
  loop->uv = caller_loop;
  loop->thread = pthread_self();
  const int code = uv_async_init(caller_loop, &loop->wake, on_wake);
  if (code != 0) return fail_uv(code, "a libuv async handle");
  create_alarm(loop);
  wake(loop);
  return TDM_OK;
}

tdm_status tdm_loop_create(const tdm_allocator *allocator, struct uv_loop_s *caller_loop,
                           tdm_loop **out_loop) {
  *out_loop = NULL;
  tdm_loop *loop = tdm_allocate(allocator, sizeof *loop, "a loop");
  if (!loop) return TDM_OUT_OF_MEMORY;
  loop->allocator = *allocator;
  (void)pthread_mutex_init(&loop->timers_lock, NULL); /* glibc's mutexes need no resources */
  loop->owned = !caller_loop;
  if (loop->owned) (void)pthread_once(&exit_once, register_exit);
  loop->wake.data = loop;
  tdm_low_descriptors low;
  tdm_status status = tdm_low_descriptors_hold(&low);
  if (status == TDM_OK) {
    status = loop->owned ? start_own(loop) : start_on_caller(loop, caller_loop);
    tdm_low_descriptors_release(&low);
  }
  if (status != TDM_OK) {
    free_loop(loop);
    return status;
  }
  *out_loop = loop;
  return TDM_OK;
}

void tdm_loop_post(tdm_loop *loop, tdm_loop_task *task) {
  enter(loop);
  if (tdm_loop_is_current(loop)) keep_running(loop);
  tdm_loop_task *newest = atomic_load(&loop->posted);
  do {
    task->next = newest;
  } while (!atomic_compare_exchange_weak(&loop->posted, &newest, task));
  wake(loop);
  leave(loop);
}

void tdm_loop_hold(tdm_loop *loop) {
  enter(loop);
  const bool first = atomic_fetch_add(&loop->holds, 1) == 0;
  if (tdm_loop_is_current(loop)) {
    keep_running(loop);
  } else if (first) {
    wake(loop);
  }
  leave(loop);
}

void tdm_loop_unhold(tdm_loop *loop) {
  enter(loop);
  if (atomic_fetch_sub(&loop->holds, 1) == 1) wake(loop);
  leave(loop);
}

void tdm_loop_close(tdm_loop *loop, void (*closed)(void *user), void *user) {
  if (!loop) return;
  loop->closed = closed;
  loop->closed_user = user;
  if (!loop->owned) {
    close_handles(loop, on_closed);
    return;
  }
  /* A thread cannot join itself: it runs the posted tasks, then ends and frees the loop. */
  const bool detached = tdm_loop_is_current(loop);
  loop->detached = detached;
  if (detached) {
    settle_begin(); /* ends when the thread has finished */
    (void)pthread_detach(loop->thread);
  }
  enter(loop);
  atomic_store(&loop->stopping, true);
  wake(loop);
  leave(loop);
  if (detached) return;
  (void)pthread_join(loop->thread, NULL);
  finish(loop);
}
