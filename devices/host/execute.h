/* Executes a submission's commands on a thread of this host. Invariant: a tdm_host_queue belongs to
 * one thread at a time, the one in `owner`; only that thread accesses members that are not
 * atomic. */
#ifndef TANDEM_DEVICES_HOST_EXECUTE_H
#define TANDEM_DEVICES_HOST_EXECUTE_H

#include "devices/contract/device.h"

/* A range of addresses that belongs to another device only. */
typedef struct tdm_hidden_range {
  tdm_address begin;
  size_t bytes;
} tdm_hidden_range;

/* State shared by the queues of one device; constant while they run. */
typedef struct tdm_host_executor {
  tdm_device *device;
  tdm_faults *faults;
  const tdm_hidden_range *hidden; /* (hidden_count): ranges of the context's other devices */
  size_t hidden_count;
  bool models_links;        /* copies take the time of ops->link */
  tdm_messenger *messenger; /* NULL if no queue has messages */
} tdm_host_executor;

typedef struct tdm_worker tdm_worker;

enum { TDM_OWNER_IDLE, TDM_OWNER_WORKER, TDM_OWNER_BORROWED };

typedef struct tdm_host_queue {
  tdm_queue base; /* must be the first field: a tdm_queue of this kind is cast to this type */
  tdm_worker *worker;
  const tdm_host_executor *executor;
  _Alignas(64) _Atomic uint32_t owner;
  _Atomic(tdm_submission *) inbox; /* submitted, newest first; pushed under the submit lock */
  tdm_submission *head;            /* submissions taken from the inbox, oldest first */
  /* State of the submission at the head: */
  bool passed_over;   /* a gate found the flight failed */
  bool copies_late;   /* a modelled copy moves its bytes at the end of its time */
  bool draw_lateness; /* copies_late is drawn again for each copy */
  uint64_t random;    /* state of the random generator */
  uint64_t held_until_ns;
} tdm_host_queue;

typedef enum tdm_progress {
  TDM_PROGRESS_END,     /* past the last command, whose point is published */
  TDM_PROGRESS_LIMIT,   /* `limit` commands were executed */
  TDM_PROGRESS_WAITS,   /* waits for the point that tdm_submission_awaits returns */
  TDM_PROGRESS_NOT_DUE, /* a modelled copy ends, or a message is polled, at due_ns */
} tdm_progress;

/* Executes up to limit commands from submission->cursor on, fewer (LIMIT) after a long kernel, and
 * advances the cursor. UINT32_MAX: neither limit applies. team NULL: only this thread. */
tdm_progress tdm_host_queue_advance(tdm_host_queue *queue, tdm_submission *submission,
                                    tdm_team *team, uint32_t limit);
/* Returns the queue and sequence number of the WAIT at the cursor, which blocks the queue, or NULL
 * if there is no preceding run to wait for. */
tdm_queue *tdm_submission_awaits(const tdm_submission *submission, uint64_t *out_sequence);

/* Draws from a small random generator for delays, chosen for its speed, not its quality. */
static inline uint64_t tdm_draw(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

#endif
