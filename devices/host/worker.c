/* The worker's thread and the ways into its queues. Invariant: whoever hands something over writes
 * the inbox and then rings; the worker reads its bell, looks at every inbox and awaited point, and
 * only then parks. A borrower writes `owner`, then looks at the inbox; the worker the reverse. */
#include "devices/host/worker.h"

#include <sched.h>
#include <stdio.h>

#include "core/thread.h"
#include "devices/context/context.h"
#include "devices/host/execute.h"
#include "devices/host/team.h"

enum {
  ALONE_NS = 2000, /* spinning longer than this, yield to who shares the core */
  SPIN_NS = 20000, /* about what a futex round trip costs; then park */
  SOON_NS = 60000, /* a due time so near is not worth parking for */
  SPINS_BETWEEN_CLOCKS = 16,
  SHARED_TURN = 8,          /* commands before the worker looks at its other queues */
  LONGEST_HOLD_NS = 200000, /* of adversarial delays */
};

struct tdm_worker {
  tdm_host_queue queues[TDM_QUEUE_ROLES]; /* (queue_count) */
  size_t queue_count;
  tdm_host_executor executor;
  tdm_hidden_range *hidden;
  size_t hidden_capacity;
  const tdm_allocator *allocator;
  const tdm_topology *topology;
  tdm_core_range cores;
  tdm_team *team; /* NULL while not started, or where it is one thread */
  uint64_t delay_seed;
  uint64_t random;
  uint32_t bell;
  bool computes; /* it has the compute queue, and so the team */
  bool running;  /* there is a thread to join */
  pthread_t thread;
  _Atomic bool stop;
};

static tdm_host_queue *host_queue(tdm_queue *queue) {
  return (tdm_host_queue *)queue;
}

/* ---- Handing over and borrowing ------------------------------------------------------------ */

static void wake(tdm_worker *worker) {
  tdm_doorbell_ring(tdm_context_bell(worker->executor.device->context, worker->bell));
}

void tdm_worker_submit(tdm_queue *queue, tdm_submission *submission) {
  tdm_host_queue *mine = host_queue(queue);
  tdm_worker *worker = mine->worker;
  tdm_submission *newest = atomic_load_explicit(&mine->inbox, memory_order_relaxed);
  do {
    submission->next = newest;
  } while (!atomic_compare_exchange_weak_explicit(&mine->inbox, &newest, submission,
                                                  memory_order_seq_cst, memory_order_relaxed));
  wake(worker);
}

/* Pushes are made under the lock that the caller holds: an inbox seen empty stays empty, and a
 * worker that emptied it owned the queue before. */
bool tdm_worker_borrow(tdm_queue *queue) {
  tdm_host_queue *mine = host_queue(queue);
  if (mine->executor->messenger) return false; /* one thread has the network */
  if (atomic_load_explicit(&mine->inbox, memory_order_relaxed)) return false;
  uint32_t idle = TDM_OWNER_IDLE;
  return atomic_compare_exchange_strong_explicit(&mine->owner, &idle, TDM_OWNER_BORROWED,
                                                 memory_order_seq_cst, memory_order_relaxed);
}

/* The flight may be freed by the call of settled. */
static void end_submission(tdm_flight *flight) {
  if (atomic_fetch_sub_explicit(&flight->remaining, 1, memory_order_acq_rel) == 1) {
    flight->settled(flight);
  }
}

/* Waits on a borrowed queue for the point at the cursor. */
static void await_point(const tdm_host_queue *queue, const tdm_submission *submission) {
  uint64_t sequence;
  tdm_queue *awaited = tdm_submission_awaits(submission, &sequence);
  tdm_context *context = queue->base.device->context;
  tdm_oversubscription *oversubscription = tdm_context_oversubscription(context);
  const uint64_t begin_ns = tdm_time_ns();
  while (!queue->worker->cores.shared) {
    for (int i = 0; i < SPINS_BETWEEN_CLOCKS; i++) {
      if (tdm_queue_reached(awaited, sequence)) return;
      tdm_spin_pause();
    }
    const uint64_t spun_ns = tdm_time_ns() - begin_ns;
    if (spun_ns >= SPIN_NS) break;
    /* The thread that would reach the point may be bound to the very core this one spins on. */
    if (spun_ns >= ALONE_NS && !tdm_oversubscription_yield(oversubscription, begin_ns + spun_ns))
      break;
  }
  const uint32_t bell = tdm_context_bell_acquire(context);
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(tdm_context_bell(context, bell));
    tdm_queue_ask(awaited, bell);
    if (tdm_queue_reached(awaited, sequence)) break;
    tdm_doorbell_park(tdm_context_bell(context, bell), seen, -1);
  }
  tdm_context_bell_release(context, bell);
}

void tdm_worker_run_borrowed(tdm_queue *queue, tdm_submission *submission) {
  tdm_host_queue *mine = host_queue(queue);
  tdm_flight *flight = submission->flight;
  const int saved = tdm_team_serial_enter();
  while (tdm_host_queue_advance(mine, submission, NULL, UINT32_MAX) != TDM_PROGRESS_END)
    await_point(mine, submission);
  tdm_team_serial_leave(saved);
  atomic_store_explicit(&mine->owner, TDM_OWNER_IDLE, memory_order_seq_cst);
  if (atomic_load_explicit(&mine->inbox, memory_order_seq_cst)) wake(mine->worker);
  end_submission(flight);
}

/* ---- One turn of a queue ------------------------------------------------------------------- */

/* Moves what is in the inbox to the head, oldest first. False: nothing, or the queue is lent. */
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

/* The head has ended. The queue is given up before the flight is told, so that whoever waits for
 * the flight finds it idle. */
static void pop_head(tdm_host_queue *queue) {
  tdm_flight *flight = queue->head->flight;
  queue->head = queue->head->next;
  if (!queue->head) {
    atomic_store_explicit(&queue->owner, TDM_OWNER_IDLE, memory_order_seq_cst);
  }
  end_submission(flight);
}

/* Adversarial delays: now and then the queue is held for a while. True: it is held now. */
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

/* False: nothing could be done. To take something new is to do something: its point was not asked
 * for yet. */
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

static bool turn_all(tdm_worker *worker) {
  bool moved = false;
  uint32_t limit = worker->queue_count > 1 ? SHARED_TURN : UINT32_MAX;
  size_t first = 0;
  if (worker->delay_seed != 0) {
    limit = 1;
    first = (size_t)tdm_draw(&worker->random) % worker->queue_count;
  }
  for (size_t i = 0; i < worker->queue_count; i++) {
    moved |= turn(worker, &worker->queues[(first + i) % worker->queue_count], limit);
  }
  return moved;
}

/* ---- Resting ------------------------------------------------------------------------------- */

typedef struct worker_rest {
  uint64_t since_ns; /* 0: it has just become idle */
  uint32_t spins;
  uint32_t seen;
  bool asked; /* the bell was read and all points asked for: look once more, then park */
} worker_rest;

/* The earliest time at which a held or modelled queue goes on; 0: there is none. */
static uint64_t next_due_ns(const tdm_worker *worker) {
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

static void ask_for_points(tdm_worker *worker) {
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
    if (awaited) tdm_queue_ask(awaited, worker->bell); /* else it is only held */
  }
}

/* Spins on, or yields? No: there is nothing to do soon, or others want the core. Of a core that the
 * worker beside it computes on, none of its time is spun away once a yield has told so. */
static bool keeps_spinning(const tdm_worker *worker, uint64_t now_ns, uint64_t spun_ns,
                           uint64_t due_ns) {
  const bool shared = worker->cores.shared;
  const bool due_soon = due_ns != 0 && due_ns < now_ns + SOON_NS;
  if (!due_soon && (shared || spun_ns >= SPIN_NS)) return false;
  if (!shared && spun_ns < ALONE_NS) return true;
  return tdm_oversubscription_yield(tdm_context_oversubscription(worker->executor.device->context),
                                    now_ns) ||
         (due_soon && !shared);
}

/* Called again and again while nothing can be done: spins, then asks, then parks. */
static void rest(tdm_worker *worker, worker_rest *state) {
  tdm_doorbell *bell = tdm_context_bell(worker->executor.device->context, worker->bell);
  const uint64_t due_ns = next_due_ns(worker);
  if (!state->asked) {
    if (!worker->cores.shared && ++state->spins % SPINS_BETWEEN_CLOCKS != 0) {
      tdm_spin_pause();
      return;
    }
    const uint64_t now_ns = tdm_time_ns();
    if (state->since_ns == 0) state->since_ns = now_ns;
    if (keeps_spinning(worker, now_ns, now_ns - state->since_ns, due_ns)) return;
    state->seen = tdm_doorbell_read(bell);
    ask_for_points(worker);
    state->asked = true;
    return;
  }
  int64_t timeout_ns = -1;
  if (due_ns != 0) {
    const uint64_t now_ns = tdm_time_ns();
    timeout_ns = due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;
  }
  tdm_doorbell_park(bell, state->seen, timeout_ns);
  *state = (worker_rest){0};
}

/* Nothing is queued, and nothing can come any more once `stop` was seen before. */
static bool is_drained(const tdm_worker *worker) {
  for (size_t i = 0; i < worker->queue_count; i++) {
    const tdm_host_queue *queue = &worker->queues[i];
    if (queue->head || atomic_load(&queue->inbox)) return false;
  }
  return true;
}

static void *worker_main(void *user) {
  tdm_worker *worker = user;
  tdm_context_thread_begins(worker->executor.device->context);
  (void)tdm_topology_bind_thread(worker->topology, &worker->cores);
  const int saved = tdm_team_serial_enter();
  worker_rest state = {0};
  for (;;) {
    if (turn_all(worker)) {
      state = (worker_rest){0};
      continue;
    }
    if (atomic_load(&worker->stop) && is_drained(worker)) break;
    rest(worker, &state);
  }
  tdm_team_serial_leave(saved);
  return NULL;
}

/* ---- Life ---------------------------------------------------------------------------------- */

tdm_status tdm_worker_create(tdm_device *device, const tdm_worker_options *options,
                             tdm_worker **out_worker) {
  *out_worker = NULL;
  const tdm_allocator *allocator = tdm_context_allocator(device->context);
  tdm_worker *worker = tdm_allocate(allocator, sizeof(*worker), "a worker");
  if (!worker) return TDM_OUT_OF_MEMORY;
  worker->allocator = allocator;
  worker->delay_seed = options->delay_seed;
  worker->random = options->delay_seed;
  worker->executor.device = device;
  worker->executor.faults = tdm_context_faults(device->context);
  worker->executor.models_links = options->models_links;
  worker->executor.messenger = options->messenger;
  worker->computes = options->has_role[TDM_QUEUE_COMPUTE];
  for (size_t role = 0; role < TDM_QUEUE_ROLES; role++) {
    if (!options->has_role[role]) continue;
    tdm_host_queue *queue = &worker->queues[worker->queue_count++];
    queue->base.device = device;
    queue->base.role = (tdm_queue_role)role;
    queue->worker = worker;
    queue->executor = &worker->executor;
    queue->draw_lateness = options->delay_seed != 0;
    queue->random = options->delay_seed + role;
    device->queues[role] = &queue->base;
  }
  *out_worker = worker;
  return TDM_OK;
}

void tdm_worker_destroy(tdm_worker *worker) {
  if (!worker) return;
  const tdm_allocator *allocator = worker->allocator;
  tdm_release(allocator, worker->hidden, worker->hidden_capacity * sizeof(tdm_hidden_range));
  tdm_release(allocator, worker, sizeof(*worker));
}

static tdm_status list_hidden_ranges(tdm_worker *worker) {
  tdm_device *mine = worker->executor.device;
  const size_t count = tdm_device_count(mine->context);
  tdm_release(worker->allocator, worker->hidden,
              worker->hidden_capacity * sizeof(tdm_hidden_range));
  worker->hidden_capacity = 0;
  worker->hidden =
      tdm_allocate(worker->allocator, count * sizeof(tdm_hidden_range), "a list of devices");
  if (!worker->hidden) return TDM_OUT_OF_MEMORY;
  worker->hidden_capacity = count;
  worker->executor.hidden = worker->hidden;
  worker->executor.hidden_count = 0;
  for (size_t i = 0; i < count; i++) {
    const tdm_device *device = tdm_context_device(mine->context, i);
    if (device == mine || device->hidden_bytes == 0) continue;
    worker->hidden[worker->executor.hidden_count++] =
        (tdm_hidden_range){.begin = device->hidden_begin, .bytes = device->hidden_bytes};
  }
  return TDM_OK;
}

tdm_status tdm_worker_start(tdm_worker *worker) {
  if (!worker) return TDM_OK;
  tdm_device *device = worker->executor.device;
  TDM_TRY(list_hidden_ranges(worker));
  worker->topology = tdm_context_topology(device->context);
  worker->cores = *tdm_context_cores(device->context, device);
  if (!worker->computes)
    worker->cores.shared = true; /* by the worker beside it, whose core it does not spin on */
  else
    device->team_size = worker->cores.count;
  if (worker->computes && worker->cores.count > 1) {
    TDM_TRY(tdm_team_create(worker->allocator, worker->topology, &worker->cores,
                            worker->cores.count, &worker->team));
  }
  worker->bell = tdm_context_bell_acquire(device->context);
  atomic_store(&worker->stop, false);
  char name[sizeof device->name + 16]; /* the kernel keeps 15 characters */
  const char *beside = worker->executor.messenger ? "-net" : "-copy";
  (void)snprintf(name, sizeof(name), "tdm-%s%s", device->name, worker->computes ? "" : beside);
  const tdm_status status = tdm_thread_start(&worker->thread, name, worker_main, worker);
  if (status != TDM_OK) {
    tdm_context_bell_release(device->context, worker->bell);
    tdm_team_destroy(worker->team);
    worker->team = NULL;
    return status;
  }
  worker->running = true;
  return TDM_OK;
}

void tdm_worker_stop(tdm_worker *worker) {
  if (!worker || !worker->running) return;
  atomic_store(&worker->stop, true);
  wake(worker);
  (void)pthread_join(worker->thread, NULL);
  worker->running = false;
  tdm_context_bell_release(worker->executor.device->context, worker->bell);
  tdm_team_destroy(worker->team);
  worker->team = NULL;
}
