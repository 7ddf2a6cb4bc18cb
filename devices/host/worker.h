/* A thread of this host that executes queues of one device: one for cpu, and one more for its queue
 * for sums, five for sim, or where sim models links two on one thread and three on another.
 * Invariant: a queue is executed by its owner alone, the worker or a thread that borrowed it; what
 * is handed over while it is borrowed is the worker's once the borrower lets go. */
#ifndef TANDEM_DEVICES_HOST_WORKER_H
#define TANDEM_DEVICES_HOST_WORKER_H

#include "devices/contract/device.h"
#include "devices/topology/topology.h"

typedef struct tdm_worker tdm_worker;

typedef struct tdm_worker_options {
  bool has_role[TDM_QUEUE_ROLES]; /* which of the device's queues it executes */
  bool models_links;              /* copies take the time that ops->link says */
  uint64_t delay_seed;            /* not 0: queues and copies are held up at random */
  tdm_messenger *messenger;       /* of queues with messages; NULL: it has none */
} tdm_worker_options;

/* Makes the queues and puts them into device->queues. No thread yet. */
tdm_status tdm_worker_create(tdm_device *device, const tdm_worker_options *options,
                             tdm_worker **out_worker) TDM_WARN_UNUSED;
/* Stopped, or never started. NULL is legal. */
void tdm_worker_destroy(tdm_worker *worker);

/* Starts the thread on its device's cores; where it has the compute queue, makes its team and sets
 * device->team_size. NULL: nothing. */
tdm_status tdm_worker_start(tdm_worker *worker) TDM_WARN_UNUSED;
/* Executes what is queued, ends the thread and joins it. Legal twice, or without a start. */
void tdm_worker_stop(tdm_worker *worker);

/* The slots of tdm_device_ops for queues made here. */
void tdm_worker_submit(tdm_queue *queue, tdm_submission *submission);
bool tdm_worker_borrow(tdm_queue *queue);
void tdm_worker_run_borrowed(tdm_queue *queue, tdm_submission *submission);

#endif
