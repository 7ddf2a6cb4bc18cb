/* Assigns the network's queues to threads for a limited time. Invariant: see attend.h. */
#include "devices/host/attend.h"

#include <stddef.h>

#include "devices/context/context.h"
#include "devices/host/turn.h"

enum {
  YIELD_NS = 2000, /* after attending for longer, a thread yields its core now and then */
  LEAST_PATIENCE_NS = 1000000,
  MOST_PATIENCE_NS = 10000000, /* a thread whose messages take longer parks */
  PATIENCE = 2,                /* patience as a multiple of recent waits */
  LATELY = 4,                  /* approximate number of waits that are averaged */
  LONGEST_PAUSE_NS = 200000,   /* longest pause while another thread attends */
};

static tdm_worker *worker_of(tdm_attendant *attendant) {
  return (tdm_worker *)((char *)attendant - offsetof(tdm_worker, attendant));
}

bool tdm_worker_is_attended(tdm_worker *worker) {
  return atomic_load_explicit(&worker->attended, memory_order_seq_cst) > 0;
}

static bool take(tdm_worker *worker) {
  return !atomic_load_explicit(&worker->taken, memory_order_relaxed) &&
         !atomic_exchange_explicit(&worker->taken, true, memory_order_seq_cst);
}

static void give(tdm_worker *worker) {
  atomic_store_explicit(&worker->taken, false, memory_order_seq_cst);
}

/* ---- Patience -------------------------------------------------------------------------------- */

/* Returns true if the network has nothing to do. */
static bool is_idle(const tdm_worker *worker) {
  for (size_t i = 0; i < worker->queue_count; i++) {
    const tdm_host_queue *queue = &worker->queues[i];
    if (atomic_load_explicit(&queue->owner, memory_order_relaxed) != TDM_OWNER_IDLE ||
        atomic_load_explicit(&queue->inbox, memory_order_relaxed))
      return false;
  }
  return true;
}

/* Returns how long to wait for messages. If they are late each time, waiting is useless. */
static uint64_t patience_of(const tdm_worker *worker) {
  const uint64_t lately_ns = atomic_load_explicit(&worker->lately_ns, memory_order_relaxed);
  const uint64_t wanted_ns = PATIENCE * lately_ns;
  if (wanted_ns < LEAST_PATIENCE_NS || wanted_ns > MOST_PATIENCE_NS) return LEAST_PATIENCE_NS;
  return wanted_ns;
}

static void note_wait(tdm_worker *worker, uint64_t took_ns) {
  const uint64_t lately_ns = atomic_load_explicit(&worker->lately_ns, memory_order_relaxed);
  atomic_store_explicit(&worker->lately_ns, lately_ns - lately_ns / LATELY + took_ns / LATELY,
                        memory_order_relaxed);
}

/* Returns true if the wait is short enough so far, and the thread may keep the core. */
static bool may_go_on(tdm_worker *worker, tdm_attendance *wait) {
  const uint64_t now_ns = tdm_time_ns();
  if (wait->since_ns == 0) {
    wait->since_ns = wait->yielded_ns = now_ns;
    wait->patience_ns = patience_of(worker);
    return true;
  }
  if (now_ns - wait->since_ns > wait->patience_ns) return false;
  if (now_ns - wait->yielded_ns < YIELD_NS) return true;
  const bool kept = tdm_context_yield(worker->executor.device->context, now_ns);
  wait->yielded_ns = tdm_time_ns();
  return kept;
}

/* ---- A thread that waits --------------------------------------------------------------------- */

static bool attend(tdm_attendant *attendant, tdm_attendance *wait) {
  tdm_worker *worker = worker_of(attendant);
  if (is_idle(worker) ||
      (!wait->has_cores && tdm_context_computes(worker->executor.device->context)))
    return false;
  if (!may_go_on(worker, wait)) return false;
  if (!wait->attends) atomic_fetch_add_explicit(&worker->attended, 1, memory_order_seq_cst);
  wait->attends = true;
  if (take(worker)) {
    (void)tdm_worker_turn_all(worker);
    give(worker);
  } else {
    tdm_spin_pause();
  }
  return true;
}

/* Executes what is possible, and returns when the worker's thread must check the rest; its bell
 * covers the other events. The caller has taken the queues. */
static uint64_t settle(tdm_worker *worker) {
  do {
    tdm_worker_ask_for_points(worker);
  } while (tdm_worker_turn_all(worker));
  return tdm_worker_next_due_ns(worker);
}

/* Called by a thread that continues with other work. If another thread has taken the queues, it may
 * have checked them before the latest event, so the worker's thread checks again. */
static void look(tdm_attendant *attendant) {
  tdm_worker *worker = worker_of(attendant);
  if (tdm_worker_is_attended(worker)) return;
  bool rings = true;
  if (take(worker)) {
    const uint64_t due_ns = settle(worker);
    rings = due_ns != 0 && !worker->timed;
    give(worker);
  }
  if (rings) tdm_worker_wake(worker);
}

static void leave(tdm_attendant *attendant, tdm_attendance *wait) {
  tdm_worker *worker = worker_of(attendant);
  if (!wait->attends) return;
  wait->attends = false;
  atomic_fetch_sub_explicit(&worker->attended, 1, memory_order_seq_cst);
  look(attendant);
}

static void end(tdm_attendant *attendant, tdm_attendance *wait) {
  leave(attendant, wait);
  if (wait->since_ns != 0) note_wait(worker_of(attendant), tdm_time_ns() - wait->since_ns);
  *wait = (tdm_attendance){.has_cores = wait->has_cores};
}

const tdm_attendant tdm_worker_attendant = {
    .attend = attend, .leave = leave, .end = end, .look = look};

/* ---- The worker's thread --------------------------------------------------------------------- */

/* Returns how long to park; -1: until the bell rings. */
static int64_t pause_until(uint64_t due_ns) {
  const uint64_t now_ns = tdm_time_ns();
  if (due_ns == 0) return -1;
  return due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;
}

void tdm_worker_serve_network(tdm_worker *worker) {
  tdm_doorbell *bell = tdm_context_bell(worker->executor.device->context, worker->bell);
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(bell);
    if (!take(worker)) {
      tdm_doorbell_park(bell, seen, LONGEST_PAUSE_NS);
      continue;
    }
    const bool stops = atomic_load(&worker->stop);
    const uint64_t due_ns = settle(worker);
    worker->timed = due_ns != 0;
    const bool ends = stops && tdm_worker_is_drained(worker);
    give(worker);
    if (ends) return;
    tdm_doorbell_park(bell, seen, pause_until(due_ns));
  }
}
