/* The pool's fields, for the files that implement it. Invariant: a buffer is in the list from
 * before its allocation until after its release, and `bytes` counts all of them. */
#ifndef TANDEM_DEVICES_STAGING_POOL_STATE_H
#define TANDEM_DEVICES_STAGING_POOL_STATE_H

#include <pthread.h>

#include "devices/context/context.h"
#include "devices/staging/pool.h"

/* A buffer's fields are read under the mutex, unless the buffer belongs to one thread. */
typedef enum tdm_buffer_state {
  TDM_BUFFER_MAKING,  /* belongs to one thread: it is being allocated */
  TDM_BUFFER_OUT,     /* in use by a caller; device, memory, bytes and pinned are constant */
  TDM_BUFFER_GIVEN,   /* returned; ready after its point is reached */
  TDM_BUFFER_LEAVING, /* belongs to one thread: it is being freed */
} tdm_buffer_state;

typedef struct tdm_pool_buffer {
  tdm_staging staging; /* must be the first field: a tdm_staging of the pool is cast to this type */
  tdm_device *device;
  bool bound;     /* the system granted device->node, and the memory is there */
  bool misplaced; /* the system granted device->node, but the memory is on another node */
  tdm_buffer_state state;
  tdm_queue *queue; /* queue of the last use; NULL: it is over */
  uint64_t sequence;
} tdm_pool_buffer;
_Static_assert(offsetof(tdm_pool_buffer, staging) == 0, "a buffer is its staging");

/* A thread that waits for room; on its stack. */
typedef struct tdm_pool_waiter {
  struct tdm_pool_waiter *next;
  uint32_t bell; /* bell of the context that the waiter waits for */
} tdm_pool_waiter;

struct tdm_pool {
  tdm_context *context;
  tdm_pool_system system;
  bool exact;
  size_t page_bytes;

  pthread_mutex_t mutex;     /* protects everything below */
  tdm_pool_buffer **buffers; /* (count) */
  size_t count;
  size_t capacity;
  tdm_pool_waiter *waiters;
  tdm_pool_counters counters;
  bool told_pin, told_bind, told_misplaced;
};

/* Returns the machine's memory functions, through the context's topology. */
tdm_pool_system tdm_pool_machine(tdm_context *context);
/* Returns the size that the pool would allocate; 0: too large. */
size_t tdm_pool_size(const tdm_pool *pool, size_t bytes);

/* Allocates the memory of buffer (device and staging.bytes are set), placed, touched and pinned.
 * Without the mutex. On failure it has none. */
tdm_status tdm_pool_buffer_make(tdm_pool *pool, tdm_pool_buffer *buffer) TDM_WARN_UNUSED;
/* Returns true if a reused buffer is still on its node. Checks some of its pages. */
bool tdm_pool_buffer_check(tdm_pool *pool, tdm_pool_buffer *buffer);
/* Unpins and unmaps; legal without memory. Without the mutex. */
void tdm_pool_buffer_free(tdm_pool *pool, tdm_pool_buffer *buffer);

#endif
