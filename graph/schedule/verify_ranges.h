/* For the pass verify: what can be judged of a schedule without its order. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_RANGES_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_RANGES_H

#include "graph/schedule/schedule.h"

/* Every index in range, every access within its storage, waits only for earlier steps (or the run
 * before) of other queues, phases in order, persistent writes in the update phase or a refresh;
 * arenas only where their sizes are known. Fills touched (storage_count) and waited (step_count:
 * something waits for it); positions (queue_count) is scratch; all three are false or 0 before.
 * INTERNAL, naming the step. */
tdm_status tdm_verify_ranges(const tdm_schedule *schedule, uint32_t *positions, bool *touched,
                             bool *waited) TDM_WARN_UNUSED;

#endif
