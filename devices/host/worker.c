/* The worker's thread, and submission to its queues. Invariant: a submitter writes the inbox and
 * then rings. The worker reads its bell, checks every inbox and awaited point, and only then parks.
 * A borrower writes `owner`, then checks the inbox; the worker does the reverse. */
#include "devices/host/worker.h"

#include <stdio.h>

#include "core/thread.h"
#include "devices/context/context.h"
#include "devices/host/attend.h"
#include "devices/host/team.h"
#include "devices/host/turn.h"

enum {
  ALONE_NS = 2000, /* after spinning for longer, the worker yields to threads that share its core */
  SPIN_NS = 20000, /* about the cost of a futex round trip; then park */
  SOON_NS = 60000, /* a due time this near is not worth parking for */
  LATE_NS = 20000, /* possible lateness of a sleep, so a due copy is awaited without sleeping */
  SPINS_BETWEEN_CLOCKS = 16,
};

static tdm_host_queue *host_queue(tdm_queue *queue) {
  return (tdm_host_queue *)queue;
}

/* ---- Submission and borrowing ---------------------------------------------------------------- */

void tdm_worker_submit(tdm_queue *queue, tdm_submission *submission) {
  tdm_host_queue *mine = host_queue(queue);
  tdm_worker *worker = mine->worker;
  tdm_submission *newest = atomic_load_explicit(&mine->inbox, memory_order_relaxed);
  do {
    submission->next = newest;
  } while (!atomic_compare_exchange_weak_explicit(&mine->inbox, &newest, submission,
                                                  memory_order_seq_cst, memory_order_relaxed));
  if (!tdm_worker_is_attended(worker)) tdm_worker_wake(worker);
}

/* Pushes are made under the lock that the caller holds, so an inbox seen empty stays empty. A
 * worker that emptied it owned the queue before. */
bool tdm_worker_borrow(tdm_queue *queue) {
  tdm_host_queue *mine = host_queue(queue);
  if (mine->executor->messenger)
    return false; /* the network's queues are executed by one thread
                   * only */
  if (atomic_load_explicit(&mine->inbox, memory_order_relaxed)) return false;
  uint32_t idle = TDM_OWNER_IDLE;
  return atomic_compare_exchange_strong_explicit(&mine->owner, &idle, TDM_OWNER_BORROWED,
                                                 memory_order_seq_cst, memory_order_relaxed);
}

/* Spins until the point is reached, and returns true. Returns false if the thread should park. */
static bool spin_until(tdm_context *context, tdm_queue *awaited, uint64_t sequence) {
  const uint64_t begin_ns = tdm_time_ns();
  for (;;) {
    for (int i = 0; i < SPINS_BETWEEN_CLOCKS; i++) {
      if (tdm_queue_reached(awaited, sequence)) return true;
      tdm_spin_pause();
    }
    const uint64_t spun_ns = tdm_time_ns() - begin_ns;
    if (spun_ns >= SPIN_NS) return false;
    /* The thread that would reach the point may be bound to the core on which this one spins. */
    if (spun_ns >= ALONE_NS && !tdm_context_yield(context, begin_ns + spun_ns)) return false;
  }
}

/* Like spin_until, if the point may depend on messages: executes the network's queues meanwhile. */
static bool attend_until(tdm_context *context, tdm_attendance *wait, tdm_queue *awaited,
                         uint64_t sequence) {
  bool reached = tdm_queue_reached(awaited, sequence);
  while (!reached && tdm_context_attend(context, wait))
    reached = tdm_queue_reached(awaited, sequence);
  tdm_context_attend_leave(context, wait);
  return reached;
}

static void park_until(tdm_context *context, tdm_queue *awaited, uint64_t sequence) {
  const uint32_t bell = tdm_context_bell_acquire(context);
  for (;;) {
    const uint32_t seen = tdm_doorbell_read(tdm_context_bell(context, bell));
    tdm_queue_ask(awaited, bell);
    if (tdm_queue_reached(awaited, sequence)) break;
    tdm_doorbell_park(tdm_context_bell(context, bell), seen, -1);
  }
  tdm_context_bell_release(context, bell);
}

/* Waits on a borrowed queue for the point at the cursor. */
static void await_point(const tdm_host_queue *queue, const tdm_submission *submission) {
  uint64_t sequence;
  tdm_queue *awaited = tdm_submission_awaits(submission, &sequence);
  tdm_context *context = queue->base.device->context;
  tdm_attendance wait = {.has_cores = true};
  const bool spins = !queue->worker->cores.shared;
  if (!spins ||
      !(attend_until(context, &wait, awaited, sequence) || spin_until(context, awaited, sequence)))
    park_until(context, awaited, sequence);
  tdm_context_attend_end(context, &wait);
}

void tdm_worker_run_borrowed(tdm_queue *queue, tdm_submission *submission) {
  tdm_host_queue *mine = host_queue(queue);
  tdm_flight *flight = submission->flight;
  const int saved = tdm_team_serial_enter();
  while (tdm_host_queue_advance(mine, submission, NULL, UINT32_MAX) != TDM_PROGRESS_END)
    await_point(mine, submission);
  tdm_team_serial_leave(saved);
  atomic_store_explicit(&mine->owner, TDM_OWNER_IDLE, memory_order_seq_cst);
  if (atomic_load_explicit(&mine->inbox, memory_order_seq_cst)) tdm_worker_wake(mine->worker);
  tdm_worker_end_submission(flight);
}

/* ---- Waiting for work ------------------------------------------------------------------------ */

typedef struct worker_rest {
  tdm_attendance wait;
  uint64_t since_ns; /* 0: it has just become idle */
  uint32_t spins;
  uint32_t seen;
  bool asked; /* the bell was read and all points were requested: check once more, then park */
} worker_rest;

/* Returns false if the worker should park: nothing is due soon, or another thread needs the core. A
 * worker that only copies spins for the last microseconds of a copy. It does not yield, because a
 * kernel on the same core would then run for a whole time slice, some hundred times as long as the
 * copy. */
static bool keeps_spinning(const tdm_worker *worker, bool spins, uint64_t now_ns, uint64_t spun_ns,
                           uint64_t due_ns) {
  if (worker->copies) return due_ns != 0 && due_ns < now_ns + LATE_NS;
  const bool due_soon = due_ns != 0 && due_ns < now_ns + SOON_NS;
  if (!due_soon && (!spins || spun_ns >= SPIN_NS)) return false;
  if (spins && spun_ns < ALONE_NS) return true;
  return tdm_context_yield(worker->executor.device->context, now_ns) || (due_soon && spins);
}

/* Returns true if another thread computes on its cores, on a queue that it has borrowed. */
static bool is_lent(const tdm_worker *worker) {
  for (size_t i = 0; i < worker->queue_count; i++)
    if (atomic_load_explicit(&worker->queues[i].owner, memory_order_relaxed) == TDM_OWNER_BORROWED)
      return true;
  return false;
}

/* Returns true if the queue can continue, as far as that is visible. */
static bool is_ready(const tdm_host_queue *queue) {
  const tdm_submission *head = queue->head;
  if (!head) return atomic_load_explicit(&queue->inbox, memory_order_relaxed) != NULL;
  if (head->due_ns != 0) return tdm_time_ns() >= head->due_ns;
  if (!atomic_load_explicit(&queue->base.waits, memory_order_relaxed)) return true;
  uint64_t sequence;
  tdm_queue *awaited = tdm_submission_awaits(head, &sequence);
  return !awaited || tdm_queue_reached(awaited, sequence);
}

/* Executes the network's queues while the worker's queues depend on messages. Returns false if the
 * thread should park. */
static bool attend(tdm_worker *worker, tdm_attendance *wait) {
  tdm_context *context = worker->executor.device->context;
  bool ready = false;
  wait->has_cores = true;
  while (!ready && !is_lent(worker) && tdm_context_attend(context, wait))
    for (size_t i = 0; i < worker->queue_count; i++)
      ready |= is_ready(&worker->queues[i]);
  tdm_context_attend_leave(context, wait);
  return ready;
}

/* Returns the longest time to park in nanoseconds, or -1 to park until a bell rings. */
static int64_t park_ns(const tdm_worker *worker, uint64_t due_ns) {
  if (due_ns == 0) return -1;
  const uint64_t now_ns = tdm_time_ns() + (worker->copies ? LATE_NS : 0);
  return due_ns > now_ns ? (int64_t)(due_ns - now_ns) : 0;
}

/* Called repeatedly while nothing can be done: spins, then requests rings, then parks. */
static void rest(tdm_worker *worker, worker_rest *state) {
  tdm_doorbell *bell = tdm_context_bell(worker->executor.device->context, worker->bell);
  const uint64_t due_ns = tdm_worker_next_due_ns(worker);
  if (!state->asked) {
    const bool spins = !worker->cores.shared && !is_lent(worker);
    if (spins && attend(worker, &state->wait)) return;
    if (spins && ++state->spins % SPINS_BETWEEN_CLOCKS != 0) {
      tdm_spin_pause();
      return;
    }
    const uint64_t now_ns = tdm_time_ns();
    if (state->since_ns == 0) state->since_ns = now_ns;
    if (keeps_spinning(worker, spins, now_ns, now_ns - state->since_ns, due_ns)) return;
    state->seen = tdm_doorbell_read(bell);
    tdm_worker_ask_for_points(worker);
    state->asked = true;
    return;
  }
  tdm_doorbell_park(bell, state->seen, park_ns(worker, due_ns));
  tdm_context_attend_end(worker->executor.device->context, &state->wait);
  *state = (worker_rest){0};
}

static void serve(tdm_worker *worker) {
  worker_rest state = {0};
  for (;;) {
    if (tdm_worker_turn_all(worker)) {
      tdm_context_attend_end(worker->executor.device->context, &state.wait);
      state = (worker_rest){0};
      continue;
    }
    if (atomic_load(&worker->stop) && tdm_worker_is_drained(worker)) break;
    rest(worker, &state);
  }
  tdm_context_attend_end(worker->executor.device->context, &state.wait);
}

static void *worker_main(void *user) {
  tdm_worker *worker = user;
  tdm_context_thread_begins(worker->executor.device->context);
  (void)tdm_topology_bind_thread(worker->topology, &worker->cores);
  if (!worker->computes) tdm_thread_run_promptly();
  if (worker->copies) tdm_thread_sleep_exactly();
  const int saved = tdm_team_serial_enter();
  if (worker->executor.messenger)
    tdm_worker_serve_network(worker);
  else
    serve(worker);
  tdm_team_serial_leave(saved);
  return NULL;
}

/* ---- Life ------------------------------------------------------------------------------------ */

tdm_status tdm_worker_create(tdm_device *device, const tdm_worker_options *options,
                             tdm_worker **out_worker) {
  *out_worker = NULL;
  const tdm_allocator *allocator = tdm_context_allocator(device->context);
  tdm_worker *worker = tdm_allocate(allocator, sizeof *worker, "a worker");
  if (!worker) return TDM_OUT_OF_MEMORY;
  worker->allocator = allocator;
  worker->delay_seed = options->delay_seed;
  worker->random = options->delay_seed;
  worker->executor.device = device;
  worker->executor.faults = tdm_context_faults(device->context);
  worker->executor.models_links = options->models_links;
  worker->executor.messenger = options->messenger;
  worker->attendant = tdm_worker_attendant;
  worker->computes = options->has_role[TDM_QUEUE_COMPUTE];
  worker->copies = options->has_role[TDM_QUEUE_UPLOAD] && !worker->computes;
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
  tdm_release(allocator, worker, sizeof *worker);
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

/* Writes the name of the worker's thread, which the kernel cuts to 15 characters. */
static void name_thread(const tdm_worker *worker, char *text, size_t capacity) {
  const char *device = tdm_device_own_name(worker->executor.device);
  const char *suffix = worker->computes ? "" : worker->copies ? "-copy" : "-sum";
  if (worker->executor.messenger)
    (void)snprintf(text, capacity, "tdm-network");
  else
    (void)snprintf(text, capacity, "tdm-%s%s", device, suffix);
}

tdm_status tdm_worker_start(tdm_worker *worker) {
  if (!worker) return TDM_OK;
  tdm_device *device = worker->executor.device;
  TDM_TRY(list_hidden_ranges(worker));
  worker->topology = tdm_context_topology(device->context);
  worker->cores = worker->copies ? tdm_topology_all_cores(worker->topology)
                                 : *tdm_context_cores(device->context, device);
  if (!worker->computes)
    worker->cores.shared = true; /* the copier shares the cores of computing workers and does not
                                  * spin there */
  else
    device->team_size = worker->cores.count;
  if (worker->computes && worker->cores.count > 1) {
    TDM_TRY(tdm_team_check_stacks(device->name));
    TDM_TRY(tdm_team_create(worker->allocator, worker->topology, &worker->cores,
                            worker->cores.count, &worker->team));
  }
  worker->bell = tdm_context_bell_acquire(device->context);
  atomic_store(&worker->stop, false);
  char name[sizeof device->name + 16];
  name_thread(worker, name, sizeof(name));
  const tdm_status status = tdm_thread_start(&worker->thread, name, worker_main, worker);
  if (status != TDM_OK) {
    tdm_context_bell_release(device->context, worker->bell);
    tdm_team_destroy(worker->team);
    worker->team = NULL;
    return status;
  }
  worker->running = true;
  worker->attendant.bell = worker->bell;
  if (worker->executor.messenger) tdm_context_set_attendant(device->context, &worker->attendant);
  return TDM_OK;
}

void tdm_worker_stop(tdm_worker *worker) {
  if (!worker || !worker->running) return;
  atomic_store(&worker->stop, true);
  if (worker->executor.messenger) tdm_context_set_attendant(worker->executor.device->context, NULL);
  tdm_worker_wake(worker);
  (void)pthread_join(worker->thread, NULL);
  worker->running = false;
  tdm_context_bell_release(worker->executor.device->context, worker->bell);
  tdm_team_destroy(worker->team);
  worker->team = NULL;
}
