/* Searches better offsets in one arena, for when placing in plan order leaves it too large. */
#ifndef TANDEM_GRAPH_SCHEDULE_ARENA_SEARCH_H
#define TANDEM_GRAPH_SCHEDULE_ARENA_SEARCH_H

#include "graph/schedule/lifetimes.h"

/* Places the storages of arena one by one in several orders. Writes their offsets and *arena_bytes
 * if that makes the arena smaller. Stops when no more than good_bytes are needed, or when the work
 * (pairs of storages inspected) exceeds *credit, which is reduced by it. Fails with OUT_OF_MEMORY,
 * with unchanged offsets. */
tdm_status tdm_arena_search(tdm_schedule *schedule, const tdm_lifetimes *lifetimes, uint32_t arena,
                            uint64_t good_bytes, uint64_t *credit,
                            uint64_t *arena_bytes) TDM_WARN_UNUSED;

#endif
