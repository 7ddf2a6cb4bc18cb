/* A worker's queues, and a turn of each. Invariant: queues[].head and what else is not atomic
 * belongs to the worker's thread, of a network's worker to who has `taken`. */
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
  tdm_team *team; /* NULL while not started, or where it is one thread */
  uint64_t delay_seed;
  uint64_t random;
  uint32_t bell;
  bool computes; /* it has the compute queue, and so the team */
  bool copies;   /* it has the queues that copy, and no kernels */
  bool running;  /* there is a thread to join */
  pthread_t thread;
  _Atomic bool stop;
  /* Of a network's: */
  tdm_attendant attendant;
  _Alignas(64) _Atomic bool taken; /* a thread is at its queues */
  _Atomic uint32_t attended;       /* threads that wait, and take them on meanwhile */
  _Atomic uint64_t lately_ns;      /* what such waits took, the later ones more */
  bool timed;                      /* its own thread looks after them at a set time; when taken */
};

/* One turn of each of its queues. False: nothing could be done. */
bool tdm_worker_turn_all(tdm_worker *worker);
/* The earliest time at which a held or modelled queue goes on, or a message is looked after; 0:
 * there is none. */
uint64_t tdm_worker_next_due_ns(const tdm_worker *worker);
/* From here on its bell is rung when a point is reached that a queue of it waits for. */
void tdm_worker_ask_for_points(tdm_worker *worker);
/* Nothing is queued, and nothing can come any more once `stop` was seen before. */
bool tdm_worker_is_drained(const tdm_worker *worker);
void tdm_worker_wake(tdm_worker *worker);
/* One of the flight's submissions has ended; the flight may be gone. */
void tdm_worker_end_submission(tdm_flight *flight);

#endif
