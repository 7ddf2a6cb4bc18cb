/* Closes a context: no more work is admitted, work in flight settles, threads are joined, and the
 * loop's handles are closed. In a process that inherited the context by fork, nothing is closed or
 * freed. Invariant: the thread that removes the last user holds close_mutex while it notifies. The
 * closing thread takes that mutex first, so that nothing is freed under the notifier. */
#include "core/process.h"
#include "devices/context/context_state.h"

static _Thread_local const tdm_context *thread_context; /* NULL except on its threads */

void tdm_context_thread_begins(tdm_context *context) {
  thread_context = context;
}

bool tdm_context_is_inherited(const tdm_context *context) {
  return TDM_UNLIKELY(context->generation != tdm_process_generation());
}

tdm_status tdm_context_check(const tdm_context *context) {
  if (!context) return tdm_fail_null("the context");
  if (!tdm_context_is_inherited(context)) return TDM_OK;
  return tdm_fail(TDM_UNAVAILABLE,
                  "the context was made by process %d, and inherited by fork without its threads: "
                  "make a context after the fork, in the process that uses it",
                  context->process);
}

tdm_status tdm_context_refuse(const tdm_context *context) {
  TDM_TRY(tdm_context_check(context));
  return tdm_fail(TDM_CANCELLED, "the context is closed");
}

bool tdm_context_enter(tdm_context *context) {
  if (tdm_context_is_inherited(context)) return false;
  uint64_t users = atomic_load_explicit(&context->users, memory_order_relaxed);
  do {
    if ((users & TDM_CONTEXT_CLOSING) != 0) return false;
  } while (!atomic_compare_exchange_weak_explicit(&context->users, &users, users + 1,
                                                  memory_order_acq_rel, memory_order_relaxed));
  return true;
}

/* The caller holds close_mutex. */
static void tell_users_gone(tdm_context *context) {
  if (context->close_in_loop) {
    tdm_loop_post(context->loop, &context->finish_task);
  } else {
    (void)pthread_cond_signal(&context->users_gone);
  }
}

void tdm_context_leave(tdm_context *context) {
  uint64_t users = atomic_load_explicit(&context->users, memory_order_relaxed);
  while ((users & TDM_CONTEXT_CLOSING) == 0) {
    if (atomic_compare_exchange_weak_explicit(&context->users, &users, users - 1,
                                              memory_order_acq_rel, memory_order_relaxed)) {
      return;
    }
  }
  (void)pthread_mutex_lock(&context->close_mutex);
  users = atomic_fetch_sub_explicit(&context->users, 1, memory_order_acq_rel);
  if (users - 1 == TDM_CONTEXT_CLOSING) tell_users_gone(context);
  (void)pthread_mutex_unlock(&context->close_mutex);
}

static void on_loop_closed(void *user) {
  tdm_context *context = user;
  context->loop = NULL;
  void (*closed_call)(void *) = context->closed_call;
  void *closed_user = context->closed_user;
  atomic_store(&context->closed, true);
  if (closed_call) closed_call(closed_user);
  tdm_context_release(context);
}

static void finish(tdm_context *context) {
  tdm_context_stop(context);
  if (context->close_in_loop) tdm_loop_unhold(context->loop);
  tdm_loop_close(context->loop, on_loop_closed, context);
}

static void run_finish(tdm_loop_task *task) {
  tdm_context *context = (tdm_context *)((char *)task - offsetof(tdm_context, finish_task));
  /* The thread that posted this task may still hold the mutex: wait until it is released. */
  (void)pthread_mutex_lock(&context->close_mutex);
  (void)pthread_mutex_unlock(&context->close_mutex);
  finish(context);
}

void tdm_context_close_begin(tdm_context *context) {
  const bool own_thread = thread_context == context || tdm_loop_is_current(context->loop);
  context->close_in_loop = context->callers_loop || own_thread;
  context->finish_task = (tdm_loop_task){.run = run_finish};
  if (context->close_in_loop) tdm_loop_hold(context->loop);

  (void)pthread_mutex_lock(&context->close_mutex);
  const uint64_t users =
      atomic_fetch_or_explicit(&context->users, TDM_CONTEXT_CLOSING, memory_order_acq_rel);
  if (context->close_in_loop) {
    if (users == 0) tell_users_gone(context);
    (void)pthread_mutex_unlock(&context->close_mutex);
    return;
  }
  while (atomic_load(&context->users) != TDM_CONTEXT_CLOSING)
    (void)pthread_cond_wait(&context->users_gone, &context->close_mutex);
  (void)pthread_mutex_unlock(&context->close_mutex);
  finish(context);
}

void tdm_context_close(tdm_context *context, void (*closed)(void *user), void *user) {
  if (!context || tdm_context_is_inherited(context)) return;
  bool expected = false;
  if (!atomic_compare_exchange_strong(&context->close_begun, &expected, true)) {
    tdm_context_log(context, TDM_LOG_WARNING, "the context is closed a second time");
    return;
  }
  context->closed_call = closed;
  context->closed_user = user;
  tdm_context_close_begin(tdm_context_retain(context));
}

tdm_context *tdm_context_retain(tdm_context *context) {
  if (context) (void)atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
  return context;
}

void tdm_context_release(tdm_context *context) {
  if (!context || tdm_context_is_inherited(context)) return;
  if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1) return;
  if (atomic_load(&context->closed)) {
    context->destroy(context);
    return;
  }
  /* This was the last reference. Closing takes it over and drops it at its end. */
  atomic_store(&context->references, 1);
  tdm_context_close_begin(context);
}
