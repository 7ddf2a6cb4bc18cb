/* Turns of a worker's queues. Invariant: a submitter writes the inbox and then rings. A turn checks
 * the inbox, and what each queue waits for. */
#include "devices/host/turn.h"

#include <sched.h>

#include "devices/context/context.h"

enum {
  SHARED_TURN = 8,          /* commands before the worker serves its other queues */
  LONGEST_HOLD_NS = 200000, /* longest random delay of a queue */
};

void tdm_worker_wake(tdm_worker *worker) {
  tdm_doorbell_ring(tdm_context_bell(worker->executor.device->context, worker->bell));
}

void tdm_worker_end_submission(tdm_flight *flight) {
  if (atomic_fetch_sub_explicit(&flight->remaining, 1, memory_order_acq_rel) == 1)
    flight->settled(flight);
}

/* ---- One turn of a queue --------------------------------------------------------------------- */

/* Moves the inbox to the head, oldest first. Returns false if it is empty or the queue is lent. */
static bool take_inbox(tdm_host_queue *queue) {
  if (!atomic_load_explicit(&queue->inbox, memory_order_seq_cst)) return false;
  uint32_t idle = TDM_OWNER_IDLE;
  if (!atomic_compare_exchange_strong_explicit(&queue->owner, &idle, TDM_OWNER_WORKER,
                                               memory_order_seq_cst, memory_order_relaxed)) {
    return false;
  }
  tdm_submission *newest = atomic_exchange_explicit(&queue->inbox, NULL, memory_order_acquire);
  while (newest) {
    tdm_submission *next = newest->next;
    newest->next = queue->head;
    queue->head = newest;
    newest = next;
  }
  return true;
}

/* Removes the head, which has ended. The queue is released before the flight is notified, so that a
 * thread that waits for the flight finds it idle. */
static void pop_head(tdm_host_queue *queue) {
  tdm_flight *flight = queue->head->flight;
  queue->head = queue->head->next;
  if (!queue->head) atomic_store_explicit(&queue->owner, TDM_OWNER_IDLE, memory_order_seq_cst);
  tdm_worker_end_submission(flight);
}

/* Adversarial delays: holds the queue for a while at random. Returns true if it is held now. */
static bool is_held(tdm_worker *worker, tdm_host_queue *queue) {
  if (queue->held_until_ns != 0) {
    if (tdm_time_ns() < queue->held_until_ns) return true;
    queue->held_until_ns = 0;
    return false;
  }
  const uint64_t draw = tdm_draw(&worker->random);
  if ((draw & 7) == 0) (void)sched_yield();
  if ((draw & 0xf0) != 0) return false;
  queue->held_until_ns = tdm_time_ns() + tdm_draw(&worker->random) % LONGEST_HOLD_NS;
  return true;
}

/* Executes a turn of a queue. Returns false if nothing could be done. Taking a new submission
 * counts as progress, because its point was not requested yet. */
static bool turn(tdm_worker *worker, tdm_host_queue *queue, uint32_t limit) {
  if (!queue->head) return take_inbox(queue);
  if (worker->delay_seed != 0 && is_held(worker, queue)) return false;
  tdm_submission *submission = queue->head;
  const uint32_t before = submission->cursor;
  const tdm_progress progress = tdm_host_queue_advance(queue, submission, worker->team, limit);
  if (progress == TDM_PROGRESS_END) {
    pop_head(queue);
    return true;
  }
  return submission->cursor != before;
}

bool tdm_worker_turn_all(tdm_worker *worker) {
  bool moved = false;
  uint32_t limit = worker->queue_count > 1 ? SHARED_TURN : UINT32_MAX;
  size_t first = 0;
  if (worker->delay_seed != 0) {
    limit = 1;
    first = (size_t)tdm_draw(&worker->random) % worker->queue_count;
  }
  for (size_t i = 0; i < worker->queue_count; i++)
    moved |= turn(worker, &worker->queues[(first + i) % worker->queue_count], limit);
  return moved;
}

/* ---- Pending work ---------------------------------------------------------------------------- */

uint64_t tdm_worker_next_due_ns(const tdm_worker *worker) {
  uint64_t earliest = 0;
  for (size_t i = 0; i < worker->queue_count; i++) {
    const tdm_host_queue *queue = &worker->queues[i];
    if (!queue->head) continue;
    uint64_t due = queue->held_until_ns;
    if (due == 0) due = queue->head->due_ns;
    if (due != 0 && (earliest == 0 || due < earliest)) earliest = due;
  }
  return earliest;
}

void tdm_worker_ask_for_points(tdm_worker *worker) {
  for (size_t i = 0; i < worker->queue_count; i++) {
    const tdm_submission *head = worker->queues[i].head;
    if (!head) continue;
    const tdm_program *program = &head->flight->programs[head->program];
    if (head->cursor >= program->count ||
        program->commands[head->cursor].kind != TDM_COMMAND_WAIT) {
      continue;
    }
    uint64_t sequence;
    tdm_queue *awaited = tdm_submission_awaits(head, &sequence);
    if (awaited) tdm_queue_ask(awaited, worker->bell); /* otherwise the command is only delayed */
  }
}

bool tdm_worker_is_drained(const tdm_worker *worker) {
  for (size_t i = 0; i < worker->queue_count; i++) {
    const tdm_host_queue *queue = &worker->queues[i];
    if (queue->head || atomic_load(&queue->inbox)) return false;
  }
  return true;
}
