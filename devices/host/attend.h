/* The queues of a rank's network, which belong to no thread for good: whoever waits for what
 * messages bring takes them on meanwhile, so that a message is noticed at once, by the thread that
 * goes on with it, on the core that it has anyway. While all threads compute, or have waited for
 * long, the worker's own looks after them, now and then. Invariant: one thread at a time is at the
 * queues; as long as something is in them, either a thread attends, or the worker's own wakes at a
 * set time, by its bell, or by the point that is waited for. */
#ifndef TANDEM_DEVICES_HOST_ATTEND_H
#define TANDEM_DEVICES_HOST_ATTEND_H

#include "devices/host/execute.h"

extern const tdm_attendant tdm_worker_attendant;

/* What the thread of a network's worker does, until the worker stops and all has ended. */
void tdm_worker_serve_network(tdm_worker *worker);
/* Does a thread attend, which sees by itself what is handed over? */
bool tdm_worker_is_attended(tdm_worker *worker);

#endif
