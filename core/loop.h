/* The libuv loop that delivers completions: the caller's uv_loop_t, or one of the library's own on
 * a thread of its own. Invariant: tasks run on the loop's thread, in the order they were posted,
 * each exactly once; posting never blocks and never fails. */
#ifndef TANDEM_CORE_LOOP_H
#define TANDEM_CORE_LOOP_H

#include "core/core.h"

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
/* Any thread: while holds are out, uv_run on a caller's loop does not return for lack of work.
 * Every hold is released by exactly one unhold. */
void tdm_loop_hold(tdm_loop *loop);
void tdm_loop_unhold(tdm_loop *loop);
bool tdm_loop_is_current(const tdm_loop *loop); /* is this the loop's thread? */
/* Own loop: runs what is posted, stops and joins, calls closed (may be NULL), frees. Caller's loop:
 * on its thread; closes the handles, and calls closed from the loop once they are closed. */
void tdm_loop_close(tdm_loop *loop, void (*closed)(void *user), void *user);

#endif
