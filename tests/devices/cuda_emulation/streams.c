/* Streams as threads that run their operations in order, events as tickets. Invariant: one mutex
 * guards all queues and tickets; operations run outside it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "tests/devices/cuda_emulation/emulation.h"

struct tdm_cuda_event_opaque {
  uint64_t recorded;  /* tickets given out */
  uint64_t completed; /* tickets whose stream has come so far */
  uint32_t references;
  bool timed;
  uint64_t completed_ns; /* time at which its stream reached the last ticket */
  int ordinal;
};

typedef struct operation {
  struct operation *next;
  void (*work)(void *data); /* NULL: of an event */
  void *data;
  tdm_cuda_event event;
  uint64_t ticket;
  bool waits; /* true: waits for the ticket; false: completes it */
} operation;

struct tdm_cuda_stream_opaque {
  pthread_cond_t appended; /* only its thread waits for it: there is an operation, or it stops */
  operation *first;
  operation **end;
  bool busy;
  bool stop;
  bool urgent; /* requested, and without effect */
  int ordinal;
  pthread_t thread;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* an event, or a stream that is idle */

static void lock(void) {
  (void)pthread_mutex_lock(&mutex);
}

static void unlock(void) {
  (void)pthread_mutex_unlock(&mutex);
}

/* The caller holds the mutex. */
static void event_release(tdm_cuda_event event) {
  if (--event->references == 0) free(event);
}

/* The caller holds the mutex. */
static void run_event(operation *mine) {
  tdm_cuda_event event = mine->event;
  while (mine->waits && event->completed < mine->ticket)
    (void)pthread_cond_wait(&changed, &mutex);
  if (!mine->waits && event->completed < mine->ticket) {
    event->completed = mine->ticket;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    event->completed_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  }
  event_release(event);
  if (!mine->waits) (void)pthread_cond_broadcast(&changed);
}

static void *stream_main(void *user) {
  tdm_cuda_stream stream = user;
  lock();
  for (;;) {
    while (!stream->first && !stream->stop)
      (void)pthread_cond_wait(&stream->appended, &mutex);
    operation *mine = stream->first;
    if (!mine) break;
    stream->first = mine->next;
    if (!stream->first) stream->end = &stream->first;
    stream->busy = true;
    if (!mine->work) {
      run_event(mine);
    } else {
      unlock();
      emulated_pause();
      if (!emulated_is_lost(stream->ordinal)) mine->work(mine->data);
      free(mine->data);
      lock();
    }
    free(mine);
    stream->busy = false;
    if (!stream->first) (void)pthread_cond_broadcast(&changed);
  }
  unlock();
  return NULL;
}

static operation *operation_create(void) {
  operation *made = calloc(1, sizeof *made);
  if (!made) emulated_misuse("no memory");
  return made;
}

/* The caller holds the mutex. */
static void append(tdm_cuda_stream stream, operation *mine) {
  *stream->end = mine;
  stream->end = &mine->next;
  (void)pthread_cond_signal(&stream->appended);
}

void emulated_enqueue(tdm_cuda_stream stream, void (*work)(void *data), void *data) {
  if (!stream) {
    work(data);
    free(data);
    return;
  }
  operation *mine = operation_create();
  mine->work = work;
  mine->data = data;
  lock();
  append(stream, mine);
  unlock();
}

int emulated_stream_ordinal(tdm_cuda_stream stream) {
  return !stream ? emulated_ordinal() : stream->ordinal;
}

void emulated_stream_drain(tdm_cuda_stream stream) {
  if (!stream) return; /* runs at once */
  lock();
  while (stream->first || stream->busy)
    (void)pthread_cond_wait(&changed, &mutex);
  unlock();
}

static _Atomic int urgent_streams;

int emulation_urgent_streams(void) {
  return atomic_load(&urgent_streams);
}

tdm_cuda_code emulated_stream_create(tdm_cuda_stream *out, bool urgent) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  *out = NULL;
  if (code != TDM_CUDA_SUCCESS) return code;
  tdm_cuda_stream stream = calloc(1, sizeof *stream);
  if (!stream) emulated_misuse("no memory");
  stream->end = &stream->first;
  stream->ordinal = emulated_ordinal();
  stream->urgent = urgent;
  if (urgent) atomic_fetch_add(&urgent_streams, 1);
  if (pthread_cond_init(&stream->appended, NULL) != 0 ||
      pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
    emulated_misuse("no thread for a stream");
  }
  *out = stream;
  emulated_count(1);
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_stream_destroy(tdm_cuda_stream stream) {
  const tdm_cuda_code code = emulated_strike(stream->ordinal);
  lock();
  stream->stop = true;
  (void)pthread_cond_signal(&stream->appended);
  unlock();
  (void)pthread_join(stream->thread, NULL);
  (void)pthread_cond_destroy(&stream->appended);
  if (stream->urgent) atomic_fetch_sub(&urgent_streams, 1);
  free(stream);
  emulated_count(-1);
  return code;
}

/* Runs all enqueued operations, even if it returns an error. This call reports their faults. */
tdm_cuda_code emulated_stream_synchronize(tdm_cuda_stream stream) {
  const tdm_cuda_code code = emulated_strike(stream->ordinal);
  emulated_did(EMULATED_HOST_WAIT);
  emulated_stream_drain(stream);
  return code != TDM_CUDA_SUCCESS ? code : emulated_glance(stream->ordinal);
}

tdm_cuda_code emulated_stream_query(tdm_cuda_stream stream) {
  lock();
  const bool idle = !stream->first && !stream->busy;
  unlock();
  const tdm_cuda_code code = emulated_glance(stream->ordinal);
  if (code != TDM_CUDA_SUCCESS) return code;
  return idle ? TDM_CUDA_SUCCESS : TDM_CUDA_NOT_READY;
}

tdm_cuda_code emulated_event_create(tdm_cuda_event *out) {
  const tdm_cuda_code code = emulated_strike(emulated_opened_ordinal());
  *out = NULL;
  if (code != TDM_CUDA_SUCCESS) return code;
  tdm_cuda_event event = calloc(1, sizeof *event);
  if (!event) emulated_misuse("no memory");
  event->references = 1;
  event->ordinal = emulated_ordinal();
  *out = event;
  emulated_count(1);
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_event_create_timed(tdm_cuda_event *out) {
  const tdm_cuda_code code = emulated_event_create(out);
  if (code == TDM_CUDA_SUCCESS) (*out)->timed = true;
  return code;
}

tdm_cuda_code emulated_event_elapsed(double *out_ns, tdm_cuda_event begin, tdm_cuda_event end) {
  const tdm_cuda_code code = emulated_strike(end->ordinal);
  *out_ns = 0;
  if (code != TDM_CUDA_SUCCESS) return code;
  lock();
  if (!begin->timed || !end->timed || begin->completed == 0 || end->completed == 0)
    emulated_misuse("the time between events that have none");
  *out_ns = (double)end->completed_ns - (double)begin->completed_ns;
  unlock();
  return TDM_CUDA_SUCCESS;
}

tdm_cuda_code emulated_event_destroy(tdm_cuda_event event) {
  const tdm_cuda_code code = emulated_strike(event->ordinal);
  lock();
  event_release(event);
  unlock();
  emulated_count(-1);
  return code;
}

/* waits: for the last record so far; otherwise a new ticket, completed on the stream. */
static void append_event(tdm_cuda_stream stream, tdm_cuda_event event, bool waits) {
  operation *mine = operation_create();
  mine->event = event;
  mine->waits = waits;
  lock();
  event->references++;
  if (!waits) event->recorded++;
  mine->ticket = event->recorded;
  append(stream, mine);
  unlock();
}

tdm_cuda_code emulated_stream_wait(tdm_cuda_stream stream, tdm_cuda_event event) {
  tdm_cuda_code code = emulated_strike(stream->ordinal);
  if (code == TDM_CUDA_SUCCESS) code = emulated_glance(event->ordinal);
  emulated_did(EMULATED_STREAM_WAIT);
  if (code == TDM_CUDA_SUCCESS) append_event(stream, event, true);
  return code;
}

tdm_cuda_code emulated_event_record(tdm_cuda_event event, tdm_cuda_stream stream) {
  const tdm_cuda_code code = emulated_strike(stream->ordinal);
  emulated_did(EMULATED_RECORD);
  if (code == TDM_CUDA_SUCCESS) append_event(stream, event, false);
  return code;
}

static _Atomic int longest_slack_ns;

int emulation_longest_slack(void) {
  return atomic_load(&longest_slack_ns);
}

/* Queried once per thread, because the slack does not change once the thread waits. */
static void note_slack(void) {
  static _Thread_local bool is_noted;
  if (is_noted) return;
  is_noted = true;
  const int slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  int longest_ns = atomic_load(&longest_slack_ns);
  while (slack_ns > longest_ns &&
         !atomic_compare_exchange_weak(&longest_slack_ns, &longest_ns, slack_ns))
    continue;
}

tdm_cuda_code emulated_event_query(tdm_cuda_event event) {
  lock();
  const bool reached = event->completed >= event->recorded;
  unlock();
  const tdm_cuda_code code =
      reached ? emulated_strike(event->ordinal) : emulated_glance(event->ordinal);
  if (code != TDM_CUDA_SUCCESS) return code;
  if (!reached) note_slack();
  return reached ? TDM_CUDA_SUCCESS : TDM_CUDA_NOT_READY;
}

tdm_cuda_code emulated_event_synchronize(tdm_cuda_event event) {
  const tdm_cuda_code code = emulated_strike(event->ordinal);
  emulated_did(EMULATED_HOST_WAIT);
  if (code != TDM_CUDA_SUCCESS) return code;
  lock();
  while (event->completed < event->recorded)
    (void)pthread_cond_wait(&changed, &mutex);
  unlock();
  return emulated_glance(event->ordinal);
}
