/* For jobs of several ranks: whether the programs of all of them can run together. Knows nothing of
 * how they were made. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_H

#include "graph/schedule/rank_steps.h"

/* Proves of runs of all ranks (rank_count), as many in flight as the schedules' depth, which every
 * rank submits in the same order: that every message has two ends, of as many bytes, on the ranks
 * and devices that they name; that between each two ranks, or devices, messages are received in the
 * order in which they are sent; that whatever a device does with others is on one queue; that all
 * ranks, and all members of each group of devices, have the same messages of all, on one queue of a
 * member, in the same order and of as many bytes; that no message belongs to the update phase,
 * which ranks enter apart; and that no rank waits in a circle, even where a send ends only once it
 * is received. INTERNAL, naming ranks, steps and messages. */
tdm_status tdm_verify_ranks(const tdm_allocator *allocator, const tdm_rank_steps *ranks,
                            uint32_t rank_count) TDM_WARN_UNUSED;

#endif
