/* A thread that feeds streams of one GPU: it takes submissions, enqueues them, and polls the events
 * after them. Invariant: a submitter writes the inbox and then rings. The thread reads its bell,
 * checks every inbox and awaited point, and only then parks. */
#include "devices/cuda/queue.h"

#include <stdio.h>

#include "core/thread.h"
#include "devices/context/context.h"
#include "devices/cuda/enqueue.h"
#include "devices/cuda/library/errors.h"
#include "devices/cuda/sums.h"
#include "devices/topology/topology.h"

enum {
  SPIN_NS = 20000, /* about the cost of a futex round trip; then park */
  SPINS_BETWEEN_CLOCKS = 16,
  /* Interval between polls of pending events: a 32nd of the time since something moved, within
   * these limits. That is the most that polling adds to the time of the GPU. */
  LOOKS_SHARE = 32,
  LOOK_NS = 30000,
  MOST_LOOK_NS = 1000000,
};

struct tdm_cuda_feeder {
  tdm_cuda_queue queues[TDM_QUEUE_ROLES]; /* (queue_count) */
  size_t queue_count;
  tdm_device *device;
  const tdm_cuda_api *api;
  const tdm_allocator *allocator;
  tdm_cuda_blas blas; /* opened at first use */
  int ordinal;
  bool tf32;
  uint32_t bell;
  bool opened; /* the thread has tried to create the streams */
  tdm_cuda_refusal refusal;
  bool running; /* the thread has to be joined */
  pthread_t thread;
  _Atomic bool stop;
};

static void wake(tdm_cuda_feeder *feeder) {
  tdm_doorbell_ring(tdm_context_bell(feeder->device->context, feeder->bell));
}

void tdm_cuda_feeder_submit(tdm_queue *queue, tdm_submission *submission) {
  tdm_cuda_queue *mine = tdm_cuda_queue_of(queue);
  tdm_cuda_feeder *feeder = mine->feeder;
  tdm_submission *newest = atomic_load_explicit(&mine->inbox, memory_order_relaxed);
  do {
    submission->next = newest;
  } while (!atomic_compare_exchange_weak_explicit(&mine->inbox, &newest, submission,
                                                  memory_order_seq_cst, memory_order_relaxed));
  wake(feeder);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static tdm_status try_open(tdm_cuda_feeder *feeder) {
  const tdm_cuda_api *api = feeder->api;
  TDM_TRY(tdm_cuda_check(api, api->device_set(feeder->ordinal), "choosing the thread's device"));
  for (size_t i = 0; i < feeder->queue_count; i++) {
    tdm_cuda_queue *queue = &feeder->queues[i];
    TDM_TRY(tdm_cuda_queue_open(queue, api, &feeder->blas, feeder->tf32));
  }
  return TDM_OK;
}

static void close_queues(tdm_cuda_feeder *feeder) {
  if (feeder->blas) (void)feeder->api->blas_destroy(feeder->blas);
  feeder->blas = NULL;
  for (size_t i = 0; i < feeder->queue_count; i++)
    tdm_cuda_queue_close(&feeder->queues[i]);
}

static void open_queues(tdm_cuda_feeder *feeder) {
  feeder->opened = true;
  tdm_cuda_refusal *refusal = &feeder->refusal;
  refusal->status = try_open(feeder);
  if (refusal->status == TDM_OK) return;
  (void)snprintf(refusal->words, sizeof refusal->words, "%s", tdm_last_message());
  close_queues(feeder);
}

/* Moves the inbox after the head, oldest first. */
static bool take_inbox(tdm_cuda_queue *queue) {
  if (!atomic_load_explicit(&queue->inbox, memory_order_seq_cst)) return false;
  tdm_submission *newest = atomic_exchange_explicit(&queue->inbox, NULL, memory_order_acquire);
  tdm_submission *oldest = NULL;
  while (newest) {
    tdm_submission *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  tdm_submission **end = &queue->head;
  while (*end)
    end = &(*end)->next;
  *end = oldest;
  return true;
}

static bool turn_all(tdm_cuda_feeder *feeder) {
  bool moved = false;
  for (size_t i = 0; i < feeder->queue_count; i++) {
    tdm_cuda_queue *queue = &feeder->queues[i];
    const bool took = take_inbox(queue);
    if (took && !feeder->opened) open_queues(feeder);
    moved |= took;
    moved |= tdm_cuda_queue_advance(queue);
    moved |= tdm_cuda_queue_retire(queue);
    if (TDM_UNLIKELY(queue->summing != NULL)) moved |= tdm_cuda_sums_look(queue);
  }
  return moved;
}

/* Returns true if an event has to be polled, because no bell will be rung for it. */
static bool must_look(const tdm_cuda_feeder *feeder) {
  for (size_t i = 0; i < feeder->queue_count; i++) {
    const tdm_cuda_queue *queue = &feeder->queues[i];
    if (queue->retired != queue->marked || queue->lacks_staging || queue->summing) return true;
  }
  return false;
}

static bool is_drained(const tdm_cuda_feeder *feeder) {
  for (size_t i = 0; i < feeder->queue_count; i++) {
    const tdm_cuda_queue *queue = &feeder->queues[i];
    if (queue->head || atomic_load(&queue->inbox)) return false;
    if (queue->retired != queue->marked) return false;
  }
  return true;
}

typedef struct feeder_rest {
  uint64_t since_ns; /* 0: it has just become idle */
  uint32_t spins;
  uint32_t seen;
  bool asked;  /* the bell was read and all points were requested: check once more, then park */
  bool parked; /* the thread has parked, so spinning again is useless */
} feeder_rest;

/* Returns the longest time to park in nanoseconds, or -1 if every possible event rings a bell. */
static int64_t park_ns(const tdm_cuda_feeder *feeder, uint64_t since_ns) {
  if (!must_look(feeder)) return -1;
  const int64_t share_ns = (int64_t)(tdm_time_ns() - since_ns) / LOOKS_SHARE;
  return share_ns < LOOK_NS ? LOOK_NS : share_ns > MOST_LOOK_NS ? MOST_LOOK_NS : share_ns;
}

/* Called repeatedly while nothing can be done: spins, then alternates between requesting rings and
 * parking. */
static void rest(tdm_cuda_feeder *feeder, feeder_rest *state) {
  tdm_doorbell *bell = tdm_context_bell(feeder->device->context, feeder->bell);
  if (!state->asked) {
    if (!state->parked && ++state->spins % SPINS_BETWEEN_CLOCKS != 0) {
      tdm_spin_pause();
      return;
    }
    const uint64_t now_ns = tdm_time_ns();
    if (state->since_ns == 0) state->since_ns = now_ns;
    if (!state->parked && now_ns - state->since_ns < SPIN_NS) return;
    state->seen = tdm_doorbell_read(bell);
    for (size_t i = 0; i < feeder->queue_count; i++)
      tdm_cuda_queue_ask(&feeder->queues[i], feeder->bell);
    state->asked = true;
    return;
  }
  tdm_doorbell_park(bell, state->seen, park_ns(feeder, state->since_ns));
  *state = (feeder_rest){.since_ns = state->since_ns, .parked = true};
}

static void *feeder_main(void *user) {
  tdm_cuda_feeder *feeder = user;
  tdm_context *context = feeder->device->context;
  tdm_context_thread_begins(context);
  /* Binds the thread near the GPU, and near the staging buffers that it fills and reads. Failing to
   * bind is no error. */
  (void)tdm_topology_bind_thread_to(tdm_context_topology(context), feeder->device->node);
  tdm_thread_run_promptly();
  tdm_thread_sleep_exactly(); /* LOOK_NS is less than the default lateness of a sleep */
  feeder_rest state = {0};
  for (;;) {
    if (turn_all(feeder)) {
      state = (feeder_rest){0};
      continue;
    }
    if (atomic_load(&feeder->stop) && is_drained(feeder)) break;
    rest(feeder, &state);
  }
  close_queues(feeder);
  return NULL;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static tdm_status add_queue(tdm_cuda_feeder *feeder, tdm_queue_role role) {
  tdm_cuda_queue *queue = &feeder->queues[feeder->queue_count];
  if (pthread_mutex_init(&queue->mutex, NULL) != 0)
    return tdm_fail(TDM_OUT_OF_MEMORY, "no mutex for a stream");
  feeder->queue_count++;
  queue->base.device = feeder->device;
  queue->base.role = role;
  queue->feeder = feeder;
  queue->refusal = &feeder->refusal;
  feeder->device->queues[role] = &queue->base;
  return TDM_OK;
}

tdm_status tdm_cuda_feeder_create(tdm_device *device, const tdm_cuda_api *api, int ordinal,
                                  unsigned roles, bool tf32, tdm_cuda_feeder **out_feeder) {
  *out_feeder = NULL;
  const tdm_allocator *allocator = tdm_context_allocator(device->context);
  tdm_cuda_feeder *feeder = tdm_allocate(allocator, sizeof *feeder, "the queues of a GPU");
  if (!feeder) return TDM_OUT_OF_MEMORY;
  feeder->device = device;
  feeder->api = api;
  feeder->allocator = allocator;
  feeder->ordinal = ordinal;
  feeder->tf32 = tf32;
  for (unsigned role = 0; role < TDM_QUEUE_ROLES; role++) {
    if ((roles >> role & 1) == 0) continue;
    const tdm_status status = add_queue(feeder, (tdm_queue_role)role);
    if (status == TDM_OK) continue;
    tdm_cuda_feeder_destroy(feeder);
    return status;
  }
  *out_feeder = feeder;
  return TDM_OK;
}

void tdm_cuda_feeder_destroy(tdm_cuda_feeder *feeder) {
  if (!feeder) return;
  for (size_t i = 0; i < feeder->queue_count; i++)
    (void)pthread_mutex_destroy(&feeder->queues[i].mutex);
  tdm_release(feeder->allocator, feeder, sizeof *feeder);
}

tdm_status tdm_cuda_feeder_start(tdm_cuda_feeder *feeder) {
  char name[sizeof feeder->device->name + 8]; /* the kernel keeps 15 characters */
  (void)snprintf(name, sizeof(name), "tdm-%s", tdm_device_own_name(feeder->device));
  feeder->bell = tdm_context_bell_acquire(feeder->device->context);
  atomic_store(&feeder->stop, false);
  const tdm_status status = tdm_thread_start(&feeder->thread, name, feeder_main, feeder);
  if (status != TDM_OK) {
    tdm_context_bell_release(feeder->device->context, feeder->bell);
    return status;
  }
  feeder->running = true;
  return TDM_OK;
}

void tdm_cuda_feeder_stop(tdm_cuda_feeder *feeder) {
  if (!feeder || !feeder->running) return;
  atomic_store(&feeder->stop, true);
  wake(feeder);
  (void)pthread_join(feeder->thread, NULL);
  feeder->running = false;
  tdm_context_bell_release(feeder->device->context, feeder->bell);
}
