/* A rank's side of a job of several ranks: its endpoint, the messages of its queues, and what ranks
 * tell one another outside of plans. Invariant: the endpoint is called under one lock, and whoever
 * polls it hands what has settled to whom it belongs.
 *
 * A message goes through a buffer of the network's, in pieces: the first has a header, by which the
 * other end sees that it is the one it expects, and whether what should be in it was made; if not,
 * why not follows in its place. */
#ifndef TANDEM_DEVICES_NETWORK_NETWORK_H
#define TANDEM_DEVICES_NETWORK_NETWORK_H

#include "devices/contract/device.h"
#include "net/control.h"

typedef struct tdm_network tdm_network;

/* Takes the endpoint over, on failure too. */
tdm_status tdm_network_create(const tdm_allocator *allocator, tdm_endpoint *endpoint,
                              tdm_network **out_network) TDM_WARN_UNUSED;
/* From here on what waits for a rank that has died, hangs, is cut off, gives up, or has left, and
 * whatever is to be sent after that, fails with UNAVAILABLE, naming the rank (net/control.h). All
 * ranks call it before any message. Ranks of one process, which tests make, may do without. */
tdm_status tdm_network_watch(tdm_network *network,
                             const tdm_control_options *options) TDM_WARN_UNUSED;
tdm_control *tdm_network_control(tdm_network *network); /* for tests; NULL: nobody watches */
/* Tells all ranks that this one takes no part any more, with status and the thread's message of
 * why: what waits for it fails, here too. Nothing where nobody watches, where status is TDM_OK, or
 * where the job has lost a rank before. */
void tdm_network_give_up(tdm_network *network, tdm_status status);
/* A run begins, of a plan of that digest. All ranks begin the same, in the same order, and between
 * calls of those below as many: two that wait for each other in different things are told by it. */
void tdm_network_begin_run(tdm_network *network, uint64_t what);
/* One of those has ended. */
void tdm_network_end_run(tdm_network *network);
/* With the thread's message: this rank was asked for a run in a wrong way, and does not begin it.
 * Others that have, or are about to, and were not asked so, fail with these words half a second
 * later, unless it begins the run until then; and the job is over. */
void tdm_network_refuse_run(tdm_network *network, tdm_status status);
/* What ranks tell one another from here on is to do that, an infinitive as "save", the same words
 * on all ranks, at most TDM_INTENT_BYTES - 1; static; NULL: to agree. Two ranks that tell one
 * another different things are told what each does. Answers what it was to do before, which is told
 * again at the end. network may be NULL. */
#define TDM_INTENT_BYTES 48
#define TDM_INTENT_COMPARE "compare a plan before its first run"
const char *tdm_network_intend(tdm_network *network, const char *intent);
/* Leaves the job: waits for the other ranks to do so, for as long as they live where the transport
 * ends all together. NULL is legal. */
void tdm_network_destroy(tdm_network *network);

int tdm_network_rank(const tdm_network *network);
int tdm_network_rank_count(const tdm_network *network);
const char *tdm_network_host(const tdm_network *network, int rank); /* its name; borrowed */
/* Mixes into a hash which machines the ranks are on, and which transport connects them. */
uint64_t tdm_network_hash(const tdm_network *network, uint64_t hash);
tdm_messenger *tdm_network_messenger(tdm_network *network);

/* Every rank tells bytes, and gets what all have told, in their order, into all (rank_count,
 * bytes). All ranks call it equally often, with as many bytes, intending the same; who does not
 * fails with INVALID_ARGUMENT, and the job is over. Blocks; any thread, one at a time. */
tdm_status tdm_network_gather(tdm_network *network, const void *own, size_t bytes,
                              void *all) TDM_WARN_UNUSED;
/* The same of how something went: TDM_OK on all ranks, or on all the failure of the first rank that
 * has one, with its thread's message. */
tdm_status tdm_network_agree(tdm_network *network, tdm_status status) TDM_WARN_UNUSED;
/* One rank's memory becomes that of another, or of all others (to: -1). Ranks that neither give nor
 * get may call it; their memory, and that of rank `from` for itself, is left alone. */
tdm_status tdm_network_pass(tdm_network *network, int from, int to, void *memory,
                            size_t bytes) TDM_WARN_UNUSED;

#endif
