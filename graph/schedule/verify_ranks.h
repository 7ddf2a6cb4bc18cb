/* For jobs of several ranks: checks that the programs of all of them can run together. Independent
 * of how they were created. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_RANKS_H

#include "graph/schedule/rank_steps.h"

/* Proves properties of the runs of all ranks (rank_count). The schedules' depth is the number of
 * runs in flight, and every rank submits them in the same order. Fails with INTERNAL, naming ranks,
 * steps and messages, unless all of these hold:
 * - Every message has two ends, with the same number of bytes, on the ranks and devices that they
 *   name.
 * - Between every two ranks, or devices, messages are received in the order of sending.
 * - All operations of a device with others are on one queue.
 * - All ranks, and all members of each group of devices, have the same messages of all, on one
 *   queue per member, in the same order and with the same bytes.
 * - No message is in the update phase, which ranks enter separately.
 * - No ranks wait in a cycle, even if a send ends only after it is received. */
tdm_status tdm_verify_ranks(const tdm_allocator *allocator, const tdm_rank_steps *ranks,
                            uint32_t rank_count) TDM_WARN_UNUSED;

#endif
