/* The queues of a rank's network, which no thread owns permanently. A thread that waits for
 * messages executes them meanwhile, so that the waiting thread notices a message at once, on its
 * own core. While all threads compute, or have waited for long, the worker's thread polls the
 * queues now and then. Invariant: one thread at a time executes the queues. While they are not
 * empty, a thread attends, or the worker's thread will wake at a set time, by its bell, or by the
 * awaited point. */
#ifndef TANDEM_DEVICES_HOST_ATTEND_H
#define TANDEM_DEVICES_HOST_ATTEND_H

#include "devices/host/execute.h"

extern const tdm_attendant tdm_worker_attendant;

/* Runs the loop of a network worker's thread, until the worker stops and all work has ended. */
void tdm_worker_serve_network(tdm_worker *worker);
/* Returns true if a thread attends, which notices new submissions by itself. */
bool tdm_worker_is_attended(tdm_worker *worker);

#endif
