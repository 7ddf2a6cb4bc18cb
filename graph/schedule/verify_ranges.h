/* For the pass verify: checks of a schedule that do not depend on its order. */
#ifndef TANDEM_GRAPH_SCHEDULE_VERIFY_RANGES_H
#define TANDEM_GRAPH_SCHEDULE_VERIFY_RANGES_H

#include "graph/schedule/schedule.h"

/* Checks every index, every access within its storage, and that waits are only for earlier steps
 * (or the preceding run) of other queues. Checks that phases are in order, persistent writes are in
 * the update phase or a refresh, and arenas have known sizes. Fills touched (storage_count) and
 * waited (step_count: something waits for it); positions (queue_count) is scratch memory. All three
 * are false or 0 before. Fails with INTERNAL, naming the step. */
tdm_status tdm_verify_ranges(const tdm_schedule *schedule, uint32_t *positions, bool *touched,
                             bool *waited) TDM_WARN_UNUSED;

#endif
