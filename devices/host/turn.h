/* A worker's queues, and a turn of each. Invariant: queues[].head and other members that are not
 * atomic belong to the worker's thread; for a network's worker, to the thread that has `taken`. */
#ifndef TANDEM_DEVICES_HOST_TURN_H
#define TANDEM_DEVICES_HOST_TURN_H

#include <pthread.h>

#include "devices/host/execute.h"
#include "devices/topology/topology.h"

struct tdm_worker {
  tdm_host_queue queues[TDM_QUEUE_ROLES]; /* (queue_count) */
  size_t queue_count;
  tdm_host_executor executor;
  tdm_hidden_range *hidden;
  size_t hidden_capacity;
  const tdm_allocator *allocator;
  const tdm_topology *topology;
  tdm_core_range cores;
  tdm_team *team; /* NULL if not started, or if there is only one thread */
  uint64_t delay_seed;
  uint64_t random;
  uint32_t bell;
  bool computes; /* has the compute queue and therefore the team */
  bool copies;   /* has the queues for copies and no kernels */
  bool running;  /* the thread has to be joined */
  pthread_t thread;
  _Atomic bool stop;
  /* For a network's worker: */
  tdm_attendant attendant;
  _Alignas(64) _Atomic bool taken; /* a thread executes its queues */
  _Atomic uint32_t attended;       /* waiting threads that execute the queues */
  _Atomic uint64_t lately_ns;      /* average time of recent waits, weighted to the latest */
  bool timed; /* its own thread polls them at a due time; accessed between take() and give() */
};

/* Executes one turn of each queue. Returns false if nothing could be done. */
bool tdm_worker_turn_all(tdm_worker *worker);
/* Returns the earliest time at which a held or modelled queue continues, or a message is polled; 0:
 * none. */
uint64_t tdm_worker_next_due_ns(const tdm_worker *worker);
/* Requests a ring of its bell when a point is reached that one of its queues waits for. */
void tdm_worker_ask_for_points(tdm_worker *worker);
/* Returns true if nothing is queued. If `stop` was seen before, nothing can be queued any more. */
bool tdm_worker_is_drained(const tdm_worker *worker);
void tdm_worker_wake(tdm_worker *worker);
/* Records that one of the flight's submissions has ended; the flight may be freed. */
void tdm_worker_end_submission(tdm_flight *flight);

#endif
