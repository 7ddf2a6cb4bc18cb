/* A rank's part of a job of several ranks: its endpoint, the messages of its queues, and
 * communication outside of plans. Invariant: the endpoint is called under one lock, and the thread
 * that polls it delivers settled requests to their owners.
 *
 * A message passes through a buffer of the network, in pieces. The first has a header, by which the
 * other end checks that it is the expected message and that its data was computed. If it was not,
 * the reason follows instead. */
#ifndef TANDEM_DEVICES_NETWORK_NETWORK_H
#define TANDEM_DEVICES_NETWORK_NETWORK_H

#include "devices/contract/device.h"
#include "net/control.h"

typedef struct tdm_network tdm_network;

/* Creates a network and takes over the endpoint, on failure too. */
tdm_status tdm_network_create(const tdm_allocator *allocator, tdm_endpoint *endpoint,
                              tdm_network **out_network) TDM_WARN_UNUSED;
/* Starts monitoring the ranks. Afterwards, waiting for a rank that has died, hangs, is cut off,
 * gives up or has left fails with UNAVAILABLE, naming the rank (net/control.h). So does sending
 * anything after that. All ranks call it before any message. Ranks of one process, as in tests, may
 * omit it. */
tdm_status tdm_network_watch(tdm_network *network,
                             const tdm_control_options *options) TDM_WARN_UNUSED;
tdm_control *tdm_network_control(tdm_network *network); /* for tests; may return NULL */
/* Notifies all ranks that this one takes no part any more, with status and the thread's message.
 * Operations that wait for it fail, here too. Does nothing if ranks are not monitored, status is
 * TDM_OK, or the job has already lost a rank. */
void tdm_network_give_up(tdm_network *network, tdm_status status);
/* Records that a run begins, of a plan with that digest. All ranks begin the same runs in the same
 * order, and equally many between calls of the functions below. Two ranks that wait for each other
 * in different operations are detected by it. */
void tdm_network_begin_run(tdm_network *network, uint64_t what);
/* Records that one of those runs has ended. */
void tdm_network_end_run(tdm_network *network);
/* Records, with the thread's message, that a call for this rank's next run was invalid and the run
 * does not begin. Other ranks that have begun the run, or are about to, fail with this message half
 * a second later, and the job ends. They do not fail if the run begins until then, or if their
 * calls were invalid too. */
void tdm_network_refuse_run(tdm_network *network, tdm_status status);
/* Sets the purpose of the following communication between ranks, as an infinitive such as "save".
 * It is the same text on all ranks, at most TDM_INTENT_BYTES - 1 bytes, static; NULL: to agree. If
 * two ranks have different purposes, both get an error with each purpose. Returns the previous
 * purpose, which the caller restores at the end. network may be NULL. */
#define TDM_INTENT_BYTES 48
#define TDM_INTENT_COMPARE "compare a plan before its first run"
const char *tdm_network_intend(tdm_network *network, const char *intent);
/* Leaves the job. Waits for the other live ranks to leave if the transport ends all of them
 * together. NULL is legal. */
void tdm_network_destroy(tdm_network *network);

int tdm_network_rank(const tdm_network *network);
int tdm_network_rank_count(const tdm_network *network);
/* borrowed name of the rank's host */
const char *tdm_network_host(const tdm_network *network, int rank);
/* Mixes the ranks' machines, and the transport that connects them, into a hash. */
uint64_t tdm_network_hash(const tdm_network *network, uint64_t hash);
tdm_messenger *tdm_network_messenger(tdm_network *network);

/* Sends bytes to every rank and gets the bytes of all ranks, in their order, in all (rank_count,
 * bytes). All ranks call it equally often, with as many bytes and the same purpose. Otherwise it
 * fails with INVALID_ARGUMENT and the job ends. Blocks; any thread, one at a time. */
tdm_status tdm_network_gather(tdm_network *network, const void *own, size_t bytes,
                              void *all) TDM_WARN_UNUSED;
/* Agrees on a status: TDM_OK if it is so on all ranks, and otherwise on all ranks the failure of
 * the first rank that has one, with that rank's message. */
tdm_status tdm_network_agree(tdm_network *network, tdm_status status) TDM_WARN_UNUSED;
/* Copies one rank's memory to another rank, or to all others (to: -1). Ranks that neither send nor
 * receive may call it; their memory is unchanged. */
tdm_status tdm_network_pass(tdm_network *network, int from, int to, void *memory,
                            size_t bytes) TDM_WARN_UNUSED;

#endif
