/* The context's fields, for this room and for its creation (devices/creation/context_create.c).
 * Invariant: see context.h. Everything from `allocator` to `queue_count` is constant after
 * tdm_context_create. */
#ifndef TANDEM_DEVICES_CONTEXT_CONTEXT_STATE_H
#define TANDEM_DEVICES_CONTEXT_CONTEXT_STATE_H

#include "devices/context/context.h"
#include "devices/context/kernel_registry.h"
#include "devices/contract/kind.h"
#include "devices/machine/machine.h"
#include "devices/topology/topology.h"

#define TDM_CONTEXT_CLOSING ((uint64_t)1 << 63) /* flag in `users`: the context is being closed */

/* Each has its own cache line: neighbours ring on different cores. */
typedef struct tdm_context_bell_slot {
  _Alignas(64) tdm_doorbell bell;
} tdm_context_bell_slot;

struct tdm_context {
  tdm_context_bell_slot bells[TDM_MAX_WAITERS];
  _Atomic uint64_t bells_taken; /* bit i: bell i */
  tdm_oversubscription oversubscription;

  tdm_allocator allocator;
  tdm_log_function log;
  void *log_user;
  bool callers_loop;
  int process;         /* id of the process that created it */
  uint32_t generation; /* generation of that process (core/process.h) */
  tdm_topology *topology;
  struct tdm_network *network; /* NULL in a job of one rank, like `messenger` */
  tdm_messenger *messenger;
  _Atomic(tdm_attendant *) attendant; /* NULL: no thread executes the network's queues */
  int rank;
  int rank_count;       /* number of ranks in the job, at least 1 */
  size_t *rank_begins;  /* (rank_count + 1): index of each rank's first device; NULL: one rank */
  tdm_device **devices; /* (device_count): devices of all ranks */
  size_t device_count;
  size_t device_capacity;
  size_t own_begin;       /* index of this rank's first device */
  size_t primary_count;   /* number of its devices of the first kind, the host itself */
  size_t secondary_count; /* number of other devices on the host's cores, which follow */
  size_t queue_count;     /* total of all devices */
  struct tdm_pool *pool;
  pthread_mutex_t keepers_mutex;
  tdm_keeper *keepers;
  struct tdm_links *links;
  struct tdm_groups *groups; /* NULL in a job of one rank */
  tdm_machine machine;
  bool has_machine;

  tdm_kernel_registry kernels;
  tdm_faults faults;
  tdm_core_range *cores; /* per device of this rank; count 0: not on the host's cores */
  size_t core_capacity;

  pthread_mutex_t submit_mutex; /* protects sequence numbers */
  pthread_mutex_t start_mutex;  /* protects started, stopped, secondary_cores, cores */
  _Atomic bool started;
  bool stopped;
  tdm_red_zones red_zones;
  bool secondary_cores; /* devices on the host beyond the first kind have separate cores */

  /* Frees everything, including what higher rooms store here; legal for a half-built context. The
   * threads are stopped and the loop is closed. Set by the creator of the context. */
  void (*destroy)(tdm_context *context);

  /* Closing: `users` counts work in flight. Its top bit rejects more. */
  _Atomic uint32_t references;
  _Atomic uint64_t users;
  _Atomic uint64_t runs; /* number of runs that requested admission to a store */
  pthread_mutex_t close_mutex;
  pthread_cond_t users_gone;
  _Atomic bool close_begun;
  _Atomic bool closed;
  bool close_in_loop; /* no thread waits: the loop finishes the close */
  tdm_loop *loop;     /* NULL after it is closed */
  tdm_loop_task finish_task;
  void (*closed_call)(void *user);
  void *closed_user;
};

/* Begins closing, in close.c. Takes over one reference. */
void tdm_context_close_begin(tdm_context *context);
/* Stops the devices' threads permanently. */
void tdm_context_stop(tdm_context *context);

#endif
