/* One queue's stream: marks, reports, and the feeder thread's state of it. Invariant: marks
 * [retired, marked) are pending. Only the feeder's thread changes them, under `mutex`; other
 * feeders' threads take it to make their streams wait for an event. A mark is retired after all
 * points that its stream waited for, so that a thread that sees a point sees every failure before
 * it. */
#ifndef TANDEM_DEVICES_CUDA_STREAM_H
#define TANDEM_DEVICES_CUDA_STREAM_H

#include <pthread.h>

#include "devices/contract/device.h"
#include "devices/cuda/clock.h"
#include "devices/cuda/library/kernel_stream.h"

enum {
  TDM_CUDA_MARKS = 64,
  TDM_CUDA_REPORTS = 128,
  TDM_CUDA_MARK_WAITS = 4,
  TDM_CUDA_STAGING_BUFFERS = 2, /* two: one is filled while the other is copied */
};

typedef struct tdm_cuda_point {
  tdm_queue *queue;
  uint64_t sequence;
} tdm_cuda_point;

/* A pending point: an event recorded after commands [first, end) of a submission. */
typedef struct tdm_cuda_mark {
  tdm_cuda_event event;
  bool recorded; /* false: reached together with the marks before it */
  bool ends;     /* the submission's last mark */
  tdm_submission *submission;
  uint32_t first;
  uint32_t end;
  uint64_t report_end; /* reports below this are read before the point is published */
  uint32_t wait_count;
  tdm_cuda_point waits[TDM_CUDA_MARK_WAITS]; /* waits of the stream since the previous mark */
} tdm_cuda_mark;

/* Why the GPU could not be opened. status OK: it was opened, or not tried yet. */
typedef struct tdm_cuda_refusal {
  tdm_status status;
  char words[TDM_MESSAGE_BYTES];
} tdm_cuda_refusal;

typedef struct tdm_cuda_queue {
  tdm_queue base; /* must be the first field: a tdm_queue of this kind is cast to this type */
  struct tdm_cuda_feeder *feeder;
  const tdm_cuda_refusal *refusal;      /* the feeder's refusal */
  tdm_cuda_kernel_stream kernel_stream; /* stream NULL: not opened, or the GPU refused */
  _Atomic(tdm_submission *) inbox;      /* newest first */
  tdm_submission *head;                 /* oldest first; not completely enqueued */
  uint32_t marked_cursor;               /* head's commands below this are covered by a mark */
  bool passed_over;                     /* a gate found the flight failed */
  bool lacks_staging;                   /* the pool has no buffer at the moment */
  struct tdm_member *summing;           /* memberships of groups with sums in progress (sums.h) */
  uint64_t summing_from;                /* `from` of the newest sum reported as begun */
  /* Ends these sums, which others wait for, with status and the thread's message, because the
   * stream has failed. NULL: there was no sum yet. */
  void (*end_sums)(struct tdm_cuda_queue *queue, tdm_status status);

  pthread_mutex_t mutex; /* protects marks, retired, marked */
  tdm_cuda_mark marks[TDM_CUDA_MARKS];
  tdm_cuda_span spans[TDM_CUDA_MARKS]; /* span of each mark's last command, if times are recorded */
  uint64_t timed_until_ns;             /* the end of the newest span */
  uint64_t retired;
  uint64_t marked;
  _Atomic uint64_t mark_waiters; /* bells that requested a ring at the next mark */
  uint32_t wait_count;           /* number of waits since the last mark */
  tdm_cuda_point waits[TDM_CUDA_MARK_WAITS];

  tdm_cuda_report *reports; /* (TDM_CUDA_REPORTS), pinned */
  uint32_t report_ids[TDM_CUDA_REPORTS];
  uint64_t reports_read;
  uint64_t reports_taken;
  tdm_cuda_event staging_events[TDM_CUDA_STAGING_BUFFERS];
} tdm_cuda_queue;

static inline tdm_cuda_queue *tdm_cuda_queue_of(tdm_queue *queue) {
  return (tdm_cuda_queue *)queue;
}

/* Returns true if there is room for another mark, and for another command's report. */
static inline bool tdm_cuda_queue_has_room(const tdm_cuda_queue *queue) {
  return queue->marked - queue->retired < TDM_CUDA_MARKS &&
         queue->reports_taken - queue->reports_read < TDM_CUDA_REPORTS;
}

/* Fails with the GPU's message if it refused to open; otherwise returns OK. On the feeder's
 * thread. */
tdm_status tdm_cuda_queue_refusal(const tdm_cuda_queue *queue) TDM_WARN_UNUSED;

/* Returns true if the device executes it together with others of a group (sums.h). */
static inline bool tdm_cuda_command_is_of_group(const tdm_command *command) {
  return command->kind == TDM_COMMAND_ALL_REDUCE || command->kind == TDM_COMMAND_SEND ||
         command->kind == TDM_COMMAND_RECEIVE;
}

/* Returns true if the command executes, copies or sums, and its condition holds. */
bool tdm_cuda_command_works(const tdm_flight *flight, const tdm_command *command);

/* Creates stream, staging events and reports, on a thread whose device is the queue's. The first
 * product creates blas, with or without TF32. close accepts a half-open queue. */
tdm_status tdm_cuda_queue_open(tdm_cuda_queue *queue, const tdm_cuda_api *api, tdm_cuda_blas *blas,
                               bool tf32) TDM_WARN_UNUSED;
void tdm_cuda_queue_close(tdm_cuda_queue *queue);

/* Times what is enqueued until the next mark; there is room for that mark. */
tdm_status tdm_cuda_queue_time(tdm_cuda_queue *queue, tdm_command_times *times) TDM_WARN_UNUSED;
/* Records an event after the head's commands below `end`. There is room. */
void tdm_cuda_queue_mark(tdm_cuda_queue *queue, uint32_t end, bool ends);
/* Retires the marks whose events are reached: failures, points, settling. Returns true if there
 * were any. */
bool tdm_cuda_queue_retire(tdm_cuda_queue *queue);

typedef enum tdm_cuda_wait_answer {
  TDM_CUDA_WAIT_DONE,     /* reached, or the stream waits for it */
  TDM_CUDA_WAIT_UNMARKED, /* the awaited command is not enqueued yet */
  TDM_CUDA_WAIT_REFUSED,  /* CUDA refused; the message is set */
} tdm_cuda_wait_answer;
/* Makes `queue`'s stream wait for sequence of `awaited`, a queue of this kind. There is room among
 * the waits since the last mark. */
tdm_cuda_wait_answer tdm_cuda_queue_await(tdm_cuda_queue *queue, tdm_cuda_queue *awaited,
                                          uint64_t sequence);

#endif
