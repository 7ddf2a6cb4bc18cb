/* Passes flights to queues. Invariant: while the submit lock is held, every program of the flight
 * gets its sequence numbers before any is passed on, because programs wait for each other. */
#include "devices/context/context_state.h"

static void number(tdm_flight *flight, tdm_submission *submissions, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tdm_submission *submission = &submissions[i];
    const tdm_program *program = &flight->programs[submission->program];
    tdm_queue *queue = program->queue;
    const uint64_t base = atomic_load_explicit(&queue->submitted, memory_order_relaxed);
    atomic_store_explicit(&queue->submitted, base + program->count, memory_order_relaxed);
    flight->program_bases[submission->program] = base;
    submission->next = NULL;
    submission->flight = flight;
    submission->cursor = 0;
    submission->base = base;
    submission->due_ns = 0;
  }
}

/* Passes every submission to its queue, but returns one that the caller can execute itself. After
 * the last one was passed on, the flight may be freed, unless one was returned. */
static tdm_submission *hand_over(tdm_flight *flight, tdm_submission *submissions, size_t count,
                                 bool adopt) {
  const tdm_program *programs = flight->programs;
  tdm_submission *kept = NULL;
  for (size_t i = 0; i < count; i++) {
    const tdm_program *program = &programs[submissions[i].program];
    tdm_queue *queue = program->queue;
    const tdm_device_ops *ops = queue->device->ops;
    if (adopt && !kept && !program->splits && ops->borrow(queue)) {
      kept = &submissions[i];
    } else {
      ops->submit(queue, &submissions[i]);
    }
  }
  return kept;
}

/* Fails for a program of a described device, which would never end. */
static tdm_status refuse_described(const tdm_flight *flight, const tdm_submission *submissions,
                                   size_t count) {
  for (size_t i = 0; i < count; i++) {
    const tdm_device *device = flight->programs[submissions[i].program].queue->device;
    if (!device->described) continue;
    return tdm_fail(TDM_UNSUPPORTED, "%s is only described: nothing executes on it", device->name);
  }
  return TDM_OK;
}

static tdm_status submit(tdm_context *context, tdm_flight *flight, tdm_submission *submissions,
                         size_t count, bool adopt) {
  if (context->has_machine) TDM_TRY(refuse_described(flight, submissions, count));
  (void)pthread_mutex_lock(&context->submit_mutex);
  if ((atomic_load_explicit(&context->users, memory_order_acquire) & TDM_CONTEXT_CLOSING) != 0) {
    (void)pthread_mutex_unlock(&context->submit_mutex);
    return tdm_fail(TDM_CANCELLED, "the context is closing");
  }
  number(flight, submissions, count);
  tdm_submission *kept = hand_over(flight, submissions, count, adopt);
  (void)pthread_mutex_unlock(&context->submit_mutex);
  if (kept) {
    tdm_queue *queue = flight->programs[kept->program].queue;
    queue->device->ops->run_borrowed(queue, kept);
  }
  return TDM_OK;
}

tdm_status tdm_context_submit(tdm_context *context, tdm_flight *flight, tdm_submission *submissions,
                              size_t count, bool adopt) {
  TDM_TRY(tdm_context_start(context));
  atomic_store_explicit(&flight->remaining, (uint32_t)count, memory_order_relaxed);
  if (count == 0) {
    flight->settled(flight);
    return TDM_OK;
  }
  return submit(context, flight, submissions, count, adopt);
}

tdm_status tdm_context_submit_part(tdm_context *context, tdm_flight *flight,
                                   tdm_submission *submissions, size_t count, bool adopt) {
  TDM_TRY(tdm_context_start(context)); /* a run that devices refuse is reported to other ranks */
  return submit(context, flight, submissions, count, adopt);
}
