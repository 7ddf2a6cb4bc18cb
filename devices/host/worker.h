/* A thread of this host that executes queues of one device. A cpu device has one, and one more for
 * its queue for sums. A sim device has five, or, if it models links, two on one thread and three on
 * another. Invariant: a queue is executed by its owner only, the worker or a thread that borrowed
 * it. Submissions to a borrowed queue are executed by the worker after it is returned. */
#ifndef TANDEM_DEVICES_HOST_WORKER_H
#define TANDEM_DEVICES_HOST_WORKER_H

#include "devices/contract/device.h"
#include "devices/topology/topology.h"

typedef struct tdm_worker tdm_worker;

typedef struct tdm_worker_options {
  bool has_role[TDM_QUEUE_ROLES]; /* roles of the device's queues that it executes */
  bool models_links;              /* copies take the time of ops->link */
  uint64_t delay_seed;            /* nonzero: queues and copies are delayed at random */
  tdm_messenger *messenger;       /* messenger of queues with messages; NULL: there are none */
} tdm_worker_options;

/* Creates the queues and stores them in device->queues, without a thread. */
tdm_status tdm_worker_create(tdm_device *device, const tdm_worker_options *options,
                             tdm_worker **out_worker) TDM_WARN_UNUSED;
/* The worker is stopped, or was never started. NULL is legal. */
void tdm_worker_destroy(tdm_worker *worker);

/* Starts the thread on its device's cores. If it has the compute queue, creates its team and sets
 * device->team_size. Does nothing for NULL. */
tdm_status tdm_worker_start(tdm_worker *worker) TDM_WARN_UNUSED;
/* Executes queued work, ends the thread and joins it. Legal twice, or without a start. */
void tdm_worker_stop(tdm_worker *worker);

/* Implement the slots of tdm_device_ops for queues created here. */
void tdm_worker_submit(tdm_queue *queue, tdm_submission *submission);
bool tdm_worker_borrow(tdm_queue *queue);
void tdm_worker_run_borrowed(tdm_queue *queue, tdm_submission *submission);

#endif
