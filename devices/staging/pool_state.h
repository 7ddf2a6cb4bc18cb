/* The pool's own fields, for the files of this room that make it up. Invariant: a buffer is in the
 * list from before it is made until after it is gone, and `bytes` counts each of them. */
#ifndef TANDEM_DEVICES_STAGING_POOL_STATE_H
#define TANDEM_DEVICES_STAGING_POOL_STATE_H

#include <pthread.h>

#include "devices/context/context.h"
#include "devices/staging/pool.h"

/* A buffer's fields are read under the mutex unless one thread has it to itself. */
typedef enum tdm_buffer_state {
  TDM_BUFFER_MAKING,  /* one thread's: it is being made */
  TDM_BUFFER_OUT,     /* with a user; device, memory, bytes and pinned are fixed */
  TDM_BUFFER_GIVEN,   /* given back; ready once its point is reached */
  TDM_BUFFER_LEAVING, /* one thread's: it is being freed */
} tdm_buffer_state;

typedef struct tdm_pool_buffer {
  tdm_staging staging; /* first: a tdm_staging of ours is one of these */
  tdm_device *device;
  bool bound;     /* the system granted device->node, and the memory lies there */
  bool misplaced; /* it granted the node, and the memory lies elsewhere */
  tdm_buffer_state state;
  tdm_queue *queue; /* of the last use; NULL: it is over */
  uint64_t sequence;
} tdm_pool_buffer;
_Static_assert(offsetof(tdm_pool_buffer, staging) == 0, "a buffer is its staging");

/* A thread that waits for room; on its stack. */
typedef struct tdm_pool_waiter {
  struct tdm_pool_waiter *next;
  uint32_t bell; /* of the context */
} tdm_pool_waiter;

struct tdm_pool {
  tdm_context *context;
  tdm_pool_system system;
  bool exact;
  size_t page_bytes;

  pthread_mutex_t mutex;     /* everything below */
  tdm_pool_buffer **buffers; /* (count) */
  size_t count;
  size_t capacity;
  tdm_pool_waiter *waiters;
  tdm_pool_counters counters;
  bool told_pin, told_bind, told_misplaced;
};

/* The machine's memory, through the context's topology. */
tdm_pool_system tdm_pool_machine(tdm_context *context);
/* A size as the pool hands it out; 0: too large to be one. */
size_t tdm_pool_size(const tdm_pool *pool, size_t bytes);

/* Gives buffer (device and staging.bytes are set) its memory, placed, touched and pinned. Without
 * the mutex. On failure it has none. */
tdm_status tdm_pool_buffer_make(tdm_pool *pool, tdm_pool_buffer *buffer) TDM_WARN_UNUSED;
/* Does it, taken again, still lie where it was put? Looks at some of its pages. */
bool tdm_pool_buffer_check(tdm_pool *pool, tdm_pool_buffer *buffer);
/* Unpins and unmaps; legal without memory. Without the mutex. */
void tdm_pool_buffer_free(tdm_pool *pool, tdm_pool_buffer *buffer);

#endif
