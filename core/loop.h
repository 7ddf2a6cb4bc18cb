/* The libuv loop that delivers completions: the caller's uv_loop_t, or the library's own loop on
 * its own thread. Invariant: tasks run on the loop's thread, in the order they were posted, each
 * exactly once. Posting never blocks and never fails. */
#ifndef TANDEM_CORE_LOOP_H
#define TANDEM_CORE_LOOP_H

#include "core/timers.h"

struct uv_loop_s;

typedef struct tdm_loop tdm_loop;

/* An intrusive task. Zero it, set run, and keep it alive until run is called. */
typedef struct tdm_loop_task {
  struct tdm_loop_task *next;
  void (*run)(struct tdm_loop_task *task);
} tdm_loop_task;

/* Creates a loop. If caller_loop is NULL, starts a loop and a thread of the library's own.
 * Otherwise call it on the thread of caller_loop: idle handles are unreferenced, so that uv_run can
 * return, and are referenced while holds (see below) are outstanding. */
tdm_status tdm_loop_create(const tdm_allocator *allocator, struct uv_loop_s *caller_loop,
                           tdm_loop **out_loop) TDM_WARN_UNUSED;
/* Queues a task and wakes the loop. Any thread. */
void tdm_loop_post(tdm_loop *loop, tdm_loop_task *task);
/* While holds are outstanding, uv_run on a caller's loop does not return for lack of work. Every
 * hold is released by exactly one unhold, on any thread. A task posted before the last unhold still
 * runs before uv_run returns. Take a hold on the loop's thread; any other thread may take one while
 * another hold is outstanding or before the first uv_run. Otherwise uv_run may be about to
 * return. */
void tdm_loop_hold(tdm_loop *loop);
void tdm_loop_unhold(tdm_loop *loop);
/* Calls timer->run on the loop's thread after due_ns (of tdm_time_ns) has passed, at libuv's
 * resolution of a millisecond. Any thread. Keep the timer alive until it has run or was stopped; it
 * does not keep uv_run from returning. */
void tdm_loop_timer_start(tdm_loop *loop, tdm_timer *timer, uint64_t due_ns);
/* Stops a timer: run is not called any more. Call it on the loop's thread. A timer that has run, or
 * is all zeros, is legal. */
void tdm_loop_timer_stop(tdm_loop *loop, tdm_timer *timer);
/* Returns the libuv loop, for handles of the library that are all closed before the loop is. Call
 * it on the loop's thread. */
struct uv_loop_s *tdm_loop_uv(tdm_loop *loop);
bool tdm_loop_is_current(const tdm_loop *loop); /* true on the loop's thread */
/* Closes the loop. Call it after every other call has returned or its task has run; afterwards only
 * running tasks may still post.
 * - Own loop: runs what is posted, stops and joins the thread, calls closed (may be NULL) and frees
 *   the loop. From the loop's own thread it returns at once and the rest follows on that thread.
 *   exit() waits for that thread, as for tasks that run there, at most two seconds; exit() on such
 *   a thread does not wait.
 * - Caller's loop: call it on the loop's thread. It closes the handles, runs what is posted, and
 *   calls closed from the loop as soon as the handles are closed. loop may be NULL; closed is then
 *   not called. */
void tdm_loop_close(tdm_loop *loop, void (*closed)(void *user), void *user);

#endif
