/* The contract of transports, as cases that each rank of a job executes on its own endpoint: in
 * threads for simnet, in processes for engines. Invariant: all ranks execute the same cases in the
 * same order, and no operation is pending after a case. */
#ifndef TANDEM_TESTS_NET_CONFORMANCE_H
#define TANDEM_TESTS_NET_CONFORMANCE_H

#include "net/transport.h"

/* Executes all cases. Returns false if one failed, with a message on standard error; the caller
 * then abandons the endpoint, because others may wait for it. can_cancel_sends: a send without a
 * receiver can be cancelled. */
bool conformance_run(tdm_endpoint *endpoint, bool can_cancel_sends);

#endif
