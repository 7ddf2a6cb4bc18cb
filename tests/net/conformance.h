/* What every transport promises, as cases that each rank of a job executes on its own endpoint: in
 * threads for simnet, in processes for engines. Invariant: all ranks execute the same cases in the
 * same order, and a case leaves nothing posted. */
#ifndef TANDEM_TESTS_NET_CONFORMANCE_H
#define TANDEM_TESTS_NET_CONFORMANCE_H

#include "net/transport.h"

/* All cases; false where one failed, which standard error tells: then the endpoint is to be
 * abandoned, since others may wait for it. can_cancel_sends: a send that nobody receives can be
 * taken back. */
bool conformance_run(tdm_endpoint *endpoint, bool can_cancel_sends);

#endif
