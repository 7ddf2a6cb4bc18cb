/* The proof that all ranks' programs can run together. Invariant: it executes them as slowly as the
 * rules allow: a step begins when the one before it on its queue and all that it waits for have
 * ended; a message ends on both sides once both have begun it. What can no longer begin is a
 * circle.
 */
#include "graph/schedule/verify_ranks.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* A message as its two ends tell of it. */
typedef struct match {
  uint32_t number;
  uint32_t ranks[2]; /* of the send and of the receive; NONE: not seen */
  uint32_t steps[2];
} match;

typedef struct rank_walk {
  uint32_t *next;    /* per queue: the step that it is at; step_count: behind its last */
  uint32_t *follow;  /* per step: the next one of its queue */
  uint32_t *matches; /* per step: its message among the matches; NONE */
  bool *begun;
  bool *ended;
} rank_walk;

typedef struct ranks_walk {
  const tdm_rank_steps *ranks;
  uint32_t rank_count;
  tdm_region region;
  rank_walk *walks; /* (rank_count) */
  match *matches;   /* (match_count), by number */
  uint32_t match_count;
} ranks_walk;

/* ---- Matching -------------------------------------------------------------------------------- */

static int compare_matches(const void *a, const void *b) {
  const uint32_t first = ((const match *)a)->number;
  const uint32_t second = ((const match *)b)->number;
  return first < second ? -1 : first > second;
}

static const tdm_step_message *message_at(const ranks_walk *walk, uint32_t rank, uint32_t step) {
  return &walk->ranks[rank].messages[step];
}

static uint32_t count_ends(const ranks_walk *walk) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < walk->rank_count; r++)
    for (size_t s = 0; s < walk->ranks[r].schedule->step_count; s++)
      count += message_at(walk, r, (uint32_t)s)->end != TDM_MESSAGE_NONE;
  return count;
}

/* One entry an end, to be put together by their numbers. */
static void list_ends(ranks_walk *walk) {
  for (uint32_t r = 0; r < walk->rank_count; r++) {
    for (uint32_t s = 0; s < walk->ranks[r].schedule->step_count; s++) {
      const tdm_step_message *message = message_at(walk, r, s);
      if (message->end == TDM_MESSAGE_NONE) continue;
      const int side = message->end == TDM_MESSAGE_RECEIVE;
      match *made = &walk->matches[walk->match_count++];
      *made = (match){message->number, {NONE, NONE}, {NONE, NONE}};
      made->ranks[side] = r;
      made->steps[side] = s;
    }
  }
}

static tdm_status join_ends(ranks_walk *walk) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < walk->match_count; i++) {
    match *last = count > 0 ? &walk->matches[count - 1] : NULL;
    const match *end = &walk->matches[i];
    if (!last || last->number != end->number) {
      walk->matches[count++] = *end;
      continue;
    }
    const int side = end->ranks[0] == NONE;
    if (last->ranks[side] != NONE)
      return tdm_fail(TDM_INTERNAL,
                      "message %u is %s twice, by step %u of rank %u and step %u of "
                      "rank %u",
                      end->number, side ? "received" : "sent", last->steps[side], last->ranks[side],
                      end->steps[side], end->ranks[side]);
    last->ranks[side] = end->ranks[side];
    last->steps[side] = end->steps[side];
  }
  walk->match_count = count;
  return TDM_OK;
}

static tdm_status check_match(const ranks_walk *walk, const match *found) {
  for (int side = 0; side < 2; side++) {
    if (found->ranks[side] != NONE) continue;
    return tdm_fail(TDM_INTERNAL, "message %u is %s by step %u of rank %u, and %s by nobody",
                    found->number, side ? "sent" : "received", found->steps[!side],
                    found->ranks[!side], side ? "received" : "sent");
  }
  const tdm_step_message *sent = message_at(walk, found->ranks[0], found->steps[0]);
  const tdm_step_message *received = message_at(walk, found->ranks[1], found->steps[1]);
  if (sent->peer != found->ranks[1] || received->peer != found->ranks[0])
    return tdm_fail(TDM_INTERNAL,
                    "message %u goes from rank %u to rank %u, and is received by rank %u from "
                    "rank %u",
                    found->number, found->ranks[0], sent->peer, found->ranks[1], received->peer);
  if (sent->bytes != received->bytes)
    return tdm_fail(TDM_INTERNAL, "message %u has %llu bytes at rank %u and %llu at rank %u",
                    found->number, (unsigned long long)sent->bytes, found->ranks[0],
                    (unsigned long long)received->bytes, found->ranks[1]);
  for (int side = 0; side < 2; side++) {
    const tdm_schedule *schedule = walk->ranks[found->ranks[side]].schedule;
    if (schedule->steps[found->steps[side]].phase == TDM_PHASE_MAIN) continue;
    return tdm_fail(TDM_INTERNAL, "message %u belongs to the update phase of rank %u",
                    found->number, found->ranks[side]);
  }
  return TDM_OK;
}

static tdm_status match_ends(ranks_walk *walk) {
  const uint32_t ends = count_ends(walk);
  walk->matches = tdm_region_take(&walk->region, (ends + 1) * sizeof(match), "messages");
  if (!walk->matches) return TDM_OUT_OF_MEMORY;
  list_ends(walk);
  qsort(walk->matches, walk->match_count, sizeof(match), compare_matches);
  TDM_TRY(join_ends(walk));
  for (uint32_t m = 0; m < walk->match_count; m++) {
    TDM_TRY(check_match(walk, &walk->matches[m]));
    for (int side = 0; side < 2; side++)
      walk->walks[walk->matches[m].ranks[side]].matches[walk->matches[m].steps[side]] = m;
  }
  return TDM_OK;
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* A rank's sends lie on one queue, and what it receives on another: that is their order. */
static tdm_status check_queues(const ranks_walk *walk, uint32_t rank) {
  const tdm_schedule *schedule = walk->ranks[rank].schedule;
  uint32_t queues[2] = {NONE, NONE};
  for (uint32_t s = 0; s < schedule->step_count; s++) {
    const tdm_step_message *message = message_at(walk, rank, s);
    if (message->end == TDM_MESSAGE_NONE) continue;
    uint32_t *queue = &queues[message->end == TDM_MESSAGE_RECEIVE];
    if (*queue == NONE) *queue = schedule->steps[s].queue;
    if (*queue == schedule->steps[s].queue) continue;
    return tdm_fail(TDM_INTERNAL, "message %u of rank %u is on queue %u, not %u as those before it",
                    message->number, rank, schedule->steps[s].queue, *queue);
  }
  return TDM_OK;
}

/* Messages between two ranks match in the order in which they are sent and received. latest
 * (rank_count, rank_count): the step that received the last one from each to each. */
static tdm_status check_order(const ranks_walk *walk, uint32_t *latest) {
  for (uint32_t r = 0; r < walk->rank_count; r++) {
    const tdm_schedule *schedule = walk->ranks[r].schedule;
    TDM_TRY(check_queues(walk, r));
    for (uint32_t s = 0; s < schedule->step_count; s++) {
      const tdm_step_message *message = message_at(walk, r, s);
      if (message->end != TDM_MESSAGE_SEND) continue;
      const match *found = &walk->matches[walk->walks[r].matches[s]];
      uint32_t *behind = &latest[r * walk->rank_count + message->peer];
      if (*behind > found->steps[1])
        return tdm_fail(TDM_INTERNAL,
                        "rank %u sends message %u to rank %u behind one that is received after it",
                        r, message->number, message->peer);
      *behind = found->steps[1];
    }
  }
  return TDM_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool waits_are_over(const tdm_schedule *schedule, const rank_walk *walk, uint32_t step) {
  const tdm_step *is = &schedule->steps[step];
  for (uint32_t i = 0; i < is->wait_count; i++) {
    const tdm_step_wait *wait = &schedule->waits[is->first_wait + i];
    if (!wait->previous && !walk->ended[wait->step]) return false;
  }
  return true;
}

/* Goes on with a queue of a rank as far as it can; true: it moved. */
static bool advance_queue(ranks_walk *walk, uint32_t rank, uint32_t queue) {
  const tdm_schedule *schedule = walk->ranks[rank].schedule;
  rank_walk *mine = &walk->walks[rank];
  bool moved = false;
  while (mine->next[queue] < schedule->step_count) {
    const uint32_t step = mine->next[queue];
    if (!mine->begun[step]) {
      if (!waits_are_over(schedule, mine, step)) return moved;
      mine->begun[step] = true;
      moved = true;
    }
    if (mine->matches[step] != NONE) {
      const match *found = &walk->matches[mine->matches[step]];
      const int other = found->ranks[0] == rank && found->steps[0] == step;
      if (!walk->walks[found->ranks[other]].begun[found->steps[other]]) return moved;
    }
    mine->ended[step] = true;
    mine->next[queue] = mine->follow[step];
    moved = true;
  }
  return moved;
}

static tdm_status run_all(ranks_walk *walk) {
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t r = 0; r < walk->rank_count; r++)
      for (uint32_t q = 0; q < walk->ranks[r].schedule->queue_count; q++)
        moved |= advance_queue(walk, r, q);
  }
  for (uint32_t r = 0; r < walk->rank_count; r++) {
    const tdm_schedule *schedule = walk->ranks[r].schedule;
    for (uint32_t q = 0; q < schedule->queue_count; q++) {
      const uint32_t step = walk->walks[r].next[q];
      if (step >= schedule->step_count) continue;
      return tdm_fail(TDM_INTERNAL,
                      "the ranks wait for one another: step %u of rank %u never ends (queue %u)",
                      step, r, q);
    }
  }
  return TDM_OK;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static tdm_status begin_rank(ranks_walk *walk, uint32_t rank) {
  const tdm_schedule *schedule = walk->ranks[rank].schedule;
  rank_walk *mine = &walk->walks[rank];
  const size_t steps = schedule->step_count + 1;
  const size_t queues = (size_t)schedule->queue_count + 1;
  mine->next = tdm_region_take(&walk->region, queues * sizeof(uint32_t), "queues");
  mine->follow = tdm_region_take(&walk->region, steps * sizeof(uint32_t), "steps");
  mine->matches = tdm_region_take(&walk->region, steps * sizeof(uint32_t), "steps");
  mine->begun = tdm_region_take(&walk->region, steps * sizeof(bool), "steps");
  mine->ended = tdm_region_take(&walk->region, steps * sizeof(bool), "steps");
  if (walk->region.failed) return TDM_OUT_OF_MEMORY;
  memset(mine->matches, 0xff, steps * sizeof(uint32_t));
  for (size_t q = 0; q < queues; q++)
    mine->next[q] = (uint32_t)schedule->step_count;
  for (size_t s = schedule->step_count; s-- > 0;) {
    const uint32_t queue = schedule->steps[s].queue;
    mine->follow[s] = mine->next[queue];
    mine->next[queue] = (uint32_t)s;
  }
  return TDM_OK;
}

static tdm_status verify(ranks_walk *walk) {
  const size_t count = walk->rank_count;
  walk->walks = tdm_region_take(&walk->region, (count + 1) * sizeof(rank_walk), "ranks");
  uint32_t *latest =
      tdm_region_take(&walk->region, (count * count + 1) * sizeof(uint32_t), "messages of ranks");
  if (walk->region.failed) return TDM_OUT_OF_MEMORY;
  for (uint32_t r = 0; r < walk->rank_count; r++)
    TDM_TRY(begin_rank(walk, r));
  TDM_TRY(match_ends(walk));
  TDM_TRY(check_order(walk, latest));
  return run_all(walk);
}

tdm_status tdm_verify_ranks(const tdm_allocator *allocator, const tdm_rank_steps *ranks,
                            uint32_t rank_count) {
  ranks_walk walk = {.ranks = ranks, .rank_count = rank_count};
  tdm_region_init(&walk.region, allocator);
  const tdm_status status = verify(&walk);
  tdm_region_deinit(&walk.region);
  return status;
}
