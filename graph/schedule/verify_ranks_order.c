/* Checks the order of messages between ranks, and between devices of ranks. Invariant: operations
 * with one order are on one queue, on each side. */
#include "graph/schedule/verify_ranks_walk.h"

/* The sends, or the receives, of a rank's host, or all operations of a device with others. */
typedef struct lane {
  uint32_t device;
  uint8_t end; /* the message's `end` on a host; 0 on a device */
  uint32_t queue;
} lane;

/* From a rank's host to another rank, or from a device to one of that rank: where the latest
 * message is received. */
typedef struct way {
  uint32_t to;
  uint32_t device;
  uint32_t partner;
  uint32_t latest;
} way;

/* Checks that each lane has one queue, which defines its order. */
static tdm_status check_queues(ranks_walk *walk, uint32_t rank) {
  const tdm_schedule *schedule = walk->ranks[rank].schedule;
  uint32_t count = 0;
  lane *lanes =
      tdm_region_take(&walk->region, (schedule->step_count + 1) * sizeof(lane), "messages");
  if (!lanes) return TDM_OUT_OF_MEMORY;
  for (uint32_t s = 0; s < schedule->step_count; s++) {
    const tdm_step_message *message = message_at(walk, rank, s);
    if (!has_two_ends(message) && message->device == 0) continue;
    const uint8_t end = message->device == 0 ? message->end : 0;
    uint32_t i = 0;
    while (i < count && (lanes[i].device != message->device || lanes[i].end != end))
      i++;
    if (i == count) lanes[count++] = (lane){message->device, end, schedule->steps[s].queue};
    if (lanes[i].queue == schedule->steps[s].queue) continue;
    return tdm_fail(TDM_INTERNAL, "message %u of rank %u is on queue %u, not %u as those before it",
                    message->number, rank, schedule->steps[s].queue, lanes[i].queue);
  }
  return TDM_OK;
}

static way *find_way(way *ways, uint32_t *count, const tdm_step_message *message) {
  for (uint32_t i = *count; i-- > 0;)
    if (ways[i].to == message->peer && ways[i].device == message->device &&
        ways[i].partner == message->partner)
      return &ways[i];
  ways[*count] = (way){message->peer, message->device, message->partner, 0};
  return &ways[(*count)++];
}

/* Messages on one way match in the order of sending and receiving. */
static tdm_status check_order(const ranks_walk *walk, uint32_t rank, way *ways) {
  const tdm_schedule *schedule = walk->ranks[rank].schedule;
  uint32_t count = 0;
  for (uint32_t s = 0; s < schedule->step_count; s++) {
    const tdm_step_message *message = message_at(walk, rank, s);
    if (message->end != TDM_MESSAGE_SEND) continue;
    const match *found = &walk->matches[walk->walks[rank].matches[s]];
    way *by = find_way(ways, &count, message);
    if (by->latest > found->steps[1])
      return tdm_fail(TDM_INTERNAL,
                      "rank %u sends message %u to rank %u after one that is received later", rank,
                      message->number, message->peer);
    by->latest = found->steps[1];
  }
  return TDM_OK;
}

tdm_status tdm_verify_ranks_order(ranks_walk *walk) {
  way *ways =
      tdm_region_take(&walk->region, (walk->match_count + 1) * sizeof(way), "messages of ranks");
  if (!ways) return TDM_OUT_OF_MEMORY;
  for (uint32_t r = 0; r < walk->rank_count; r++) {
    TDM_TRY(check_queues(walk, r));
    TDM_TRY(check_order(walk, r, ways));
  }
  return TDM_OK;
}
