/* The libuv loop that delivers completions: the caller's uv_loop_t, or one of the library's own on
 * a thread of its own. Invariant: tasks run on the loop's thread, in the order they were posted,
 * each exactly once; posting never blocks and never fails. */
#ifndef TANDEM_CORE_LOOP_H
#define TANDEM_CORE_LOOP_H

#include "core/timers.h"

struct uv_loop_s;

typedef struct tdm_loop tdm_loop;

/* An intrusive task: zero it, set run, keep it alive until run is called. */
typedef struct tdm_loop_task {
  struct tdm_loop_task *next;
  void (*run)(struct tdm_loop_task *task);
} tdm_loop_task;

/* caller_loop NULL: a loop and a thread of the library's own, started here. Otherwise to be called
 * on the thread of caller_loop; idle handles are unreferenced so that uv_run can return, and
 * referenced while holds (see below) are out. */
tdm_status tdm_loop_create(const tdm_allocator *allocator, struct uv_loop_s *caller_loop,
                           tdm_loop **out_loop) TDM_WARN_UNUSED;
/* Any thread: queues task and wakes the loop. */
void tdm_loop_post(tdm_loop *loop, tdm_loop_task *task);
/* While holds are out, uv_run on a caller's loop does not return for lack of work. Every hold is
 * released by exactly one unhold, on any thread; a task posted before the last unhold still runs
 * before uv_run returns. A hold is taken on the loop's thread, or by any thread while another hold
 * is out or before the first uv_run is entered: otherwise uv_run may be about to return. */
void tdm_loop_hold(tdm_loop *loop);
void tdm_loop_unhold(tdm_loop *loop);
/* Calls timer->run on the loop's thread once due_ns (of tdm_time_ns) has passed; libuv counts in
 * milliseconds. Any thread; the timer is kept alive until it has run or was stopped, and does not
 * keep uv_run from returning. */
void tdm_loop_timer_start(tdm_loop *loop, tdm_timer *timer, uint64_t due_ns);
/* On the loop's thread: run is not called any more. One that has run, or is all zeros, is legal. */
void tdm_loop_timer_stop(tdm_loop *loop, tdm_timer *timer);
/* On the loop's thread: for handles of ours, all of which are closed before the loop is. */
struct uv_loop_s *tdm_loop_uv(tdm_loop *loop);
bool tdm_loop_is_current(const tdm_loop *loop); /* is this the loop's thread? */
/* After every other call has returned or its task has run; no call may begin after it but posts by
 * tasks that run. Own loop: runs what is posted, stops and joins, calls closed (may be NULL),
 * frees; from the loop's own thread it returns at once and the rest follows on that thread, for
 * which exit() waits, as for tasks under way there (two seconds at most, and not on such a thread).
 * Caller's loop: on its thread; closes the handles, runs what is posted, and calls closed from the
 * loop once they are closed. loop may be NULL; closed is then not called. */
void tdm_loop_close(tdm_loop *loop, void (*closed)(void *user), void *user);

#endif
