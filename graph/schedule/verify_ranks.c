/* The proof that all ranks' programs can run together. It executes runs of them as slowly as the
 * rules allow:
 *
 * - a step begins when the preceding one on its queue and everything that it waits for have ended;
 * - a message ends on all its ranks, or members of its group, after all have begun it;
 * - updates, and the next run if there are updates, begin when the main phase has ended on all
 *   ranks;
 * - a run begins on a rank when the one `depth` before it has ended there.
 *
 * Invariant: steps that can no longer begin form a cycle. Every rank submits its runs in the same
 * order, so a message meets that of its own run. Three runs show all possible interactions of two
 * neighbours and a slot. */
#include "graph/schedule/verify_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "graph/schedule/verify_ranks_walk.h"

/* ---- Matching -------------------------------------------------------------------------------- */

static int compare_matches(const void *a, const void *b) {
  const uint32_t first = ((const match *)a)->number;
  const uint32_t second = ((const match *)b)->number;
  return first < second ? -1 : first > second;
}

static uint32_t count_ends(const ranks_walk *walk) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < walk->rank_count; r++)
    for (size_t s = 0; s < walk->ranks[r].schedule->step_count; s++)
      count += has_two_ends(message_at(walk, r, (uint32_t)s));
  return count;
}

/* Creates one entry per end, to be matched by number. */
static void list_ends(ranks_walk *walk) {
  for (uint32_t r = 0; r < walk->rank_count; r++) {
    for (uint32_t s = 0; s < walk->ranks[r].schedule->step_count; s++) {
      const tdm_step_message *message = message_at(walk, r, s);
      if (!has_two_ends(message)) continue;
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
    return tdm_fail(TDM_INTERNAL, "message %u is %s by step %u of rank %u, and never %s",
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
  if (sent->device != received->partner || received->device != sent->partner)
    return tdm_fail(
        TDM_INTERNAL,
        "message %u goes from device %u to device %u, and is received by device %u from "
        "device %u",
        found->number, sent->device, sent->partner, received->device, received->partner);
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

/* ---- Messages of all members ----------------------------------------------------------------- */

static participant *find_participant(ranks_walk *walk, uint32_t rank, uint32_t step,
                                     const tdm_step_message *message) {
  const uint32_t member = message->group ? message->peer : rank;
  uint32_t i = 0;
  while (i < walk->participant_count &&
         (walk->participants[i].group != message->group || walk->participants[i].member != member))
    i++;
  if (i == walk->participant_count)
    walk->participants[walk->participant_count++] = (participant){
        message->group, member, rank, walk->ranks[rank].schedule->steps[step].queue, 0, 0};
  return &walk->participants[i];
}

/* Returns the participant's next message. If no other participant has had it yet, it is added.
 * Returns NULL if memory is short. */
static gathering *find_gathering(ranks_walk *walk, const participant *at, uint32_t rank,
                                 uint32_t step) {
  for (uint32_t i = at->behind; i < walk->of_all_count; i++)
    if (walk->of_all[i].group == at->group && walk->of_all[i].at == at->count)
      return &walk->of_all[i];
  const uint32_t members = at->group ? message_at(walk, rank, step)->members : walk->rank_count;
  const size_t bytes = (members + 1) * sizeof(uint32_t);
  gathering *made = &walk->of_all[walk->of_all_count++];
  *made = (gathering){.group = at->group,
                      .at = at->count,
                      .rank = rank,
                      .step = step,
                      .members = members,
                      .ranks = tdm_region_take(&walk->region, bytes, "messages"),
                      .steps = tdm_region_take(&walk->region, bytes, "messages")};
  if (walk->region.failed) return NULL;
  memset(made->ranks, 0xff, bytes);
  return made;
}

/* Matches the step's message as its member's next one, which has to equal the group's. */
static tdm_status note_of_all(ranks_walk *walk, uint32_t rank, uint32_t step) {
  const tdm_step_message *message = message_at(walk, rank, step);
  const tdm_step *is = &walk->ranks[rank].schedule->steps[step];
  if (is->phase != TDM_PHASE_MAIN)
    return tdm_fail(TDM_INTERNAL, "message %u of all ranks belongs to the update phase of rank %u",
                    message->number, rank);
  participant *at = find_participant(walk, rank, step, message);
  if (at->rank != rank)
    return tdm_fail(TDM_INTERNAL, "member %u of group %u is on rank %u and on rank %u", at->member,
                    at->group, at->rank, rank);
  if (at->queue != is->queue)
    return tdm_fail(TDM_INTERNAL, "message %u of rank %u is on queue %u, not %u as those before it",
                    message->number, rank, is->queue, at->queue);
  gathering *of = find_gathering(walk, at, rank, step);
  if (!of) return TDM_OUT_OF_MEMORY;
  if (at->member >= of->members || (at->group && message->members != of->members))
    return tdm_fail(TDM_INTERNAL, "message %u of rank %u is of member %u of %u, in a group of %u",
                    message->number, rank, at->member, message->members, of->members);
  at->count++;
  at->behind = (uint32_t)(of - walk->of_all);
  of->ranks[at->member] = rank;
  of->steps[at->member] = step;
  walk->walks[rank].of_all[step] = at->behind;
  const tdm_step_message *first = message_at(walk, of->rank, of->step);
  if (first->number == message->number && first->bytes == message->bytes) return TDM_OK;
  return tdm_fail(TDM_INTERNAL,
                  "where rank %u has message %u of all ranks, of %llu bytes, rank %u has message "
                  "%u, of %llu",
                  of->rank, first->number, (unsigned long long)first->bytes, rank, message->number,
                  (unsigned long long)message->bytes);
}

/* Checks that every member of the group has the message. */
static tdm_status check_gathering(const ranks_walk *walk, const gathering *of) {
  for (uint32_t m = 0; m < of->members; m++) {
    if (of->ranks[m] != NONE) continue;
    const uint32_t number = message_at(walk, of->rank, of->step)->number;
    if (of->group)
      return tdm_fail(TDM_INTERNAL, "rank %u has message %u of group %u, and member %u has not",
                      of->rank, number, of->group, m);
    return tdm_fail(TDM_INTERNAL, "rank %u has message %u of all ranks, and rank %u has not",
                    of->rank, number, m);
  }
  return TDM_OK;
}

static tdm_status match_of_all(ranks_walk *walk) {
  size_t most = 0;
  for (uint32_t r = 0; r < walk->rank_count; r++)
    for (size_t s = 0; s < walk->ranks[r].schedule->step_count; s++)
      most += message_at(walk, r, (uint32_t)s)->end == TDM_MESSAGE_OF_ALL;
  walk->of_all = tdm_region_take(&walk->region, (most + 1) * sizeof(gathering), "messages");
  walk->participants = tdm_region_take(&walk->region, (most + 1) * sizeof(participant), "messages");
  if (!walk->of_all || !walk->participants) return TDM_OUT_OF_MEMORY;
  for (uint32_t r = 0; r < walk->rank_count; r++)
    for (uint32_t s = 0; s < walk->ranks[r].schedule->step_count; s++)
      if (message_at(walk, r, s)->end == TDM_MESSAGE_OF_ALL) TDM_TRY(note_of_all(walk, r, s));
  for (uint32_t i = 0; i < walk->of_all_count; i++)
    TDM_TRY(check_gathering(walk, &walk->of_all[i]));
  return TDM_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool waits_are_over(const tdm_schedule *schedule, const rank_walk *walk, uint32_t run,
                           uint32_t step) {
  const tdm_step *is = &schedule->steps[step];
  for (uint32_t i = 0; i < is->wait_count; i++) {
    const tdm_step_wait *wait = &schedule->waits[is->first_wait + i];
    if (wait->previous && run == 0) continue;
    const size_t of = run - wait->previous;
    if (!walk->ended[of * schedule->step_count + wait->step]) return false;
  }
  return true;
}

/* Returns true if the run has been submitted, up to the step's phase. */
static bool is_submitted(const ranks_walk *walk, const rank_walk *mine, uint32_t run,
                         const tdm_step *step) {
  if (run >= walk->depth && mine->left[run - walk->depth] > 0) return false;
  if (!walk->updates) return true;
  if (step->phase == TDM_PHASE_UPDATE && walk->main_left[run] > 0) return false;
  return run == 0 || walk->main_left[run - 1] == 0;
}

/* Ends the current step of its queue. */
static void end_step(ranks_walk *walk, const tdm_schedule *schedule, rank_walk *mine,
                     uint32_t queue) {
  const uint32_t step = mine->next[queue];
  const uint32_t run = mine->run[queue];
  mine->ended[run * schedule->step_count + step] = true;
  mine->left[run]--;
  walk->main_left[run] -= schedule->steps[step].phase == TDM_PHASE_MAIN;
  mine->next[queue] = mine->follow[step];
  if (mine->next[queue] < schedule->step_count) return;
  mine->next[queue] = mine->first[queue];
  mine->run[queue]++;
}

static bool has_begun(const ranks_walk *walk, uint32_t rank, uint32_t run, uint32_t step) {
  return walk->walks[rank].begun[run * walk->ranks[rank].schedule->step_count + step];
}

static bool all_have_begun(const ranks_walk *walk, uint32_t run, const gathering *of) {
  for (uint32_t m = 0; m < of->members; m++)
    if (!has_begun(walk, of->ranks[m], run, of->steps[m])) return false;
  return true;
}

/* Returns true also for a step that is not a message. */
static bool other_ends_have_begun(const ranks_walk *walk, uint32_t rank, uint32_t run,
                                  uint32_t step) {
  const uint32_t of_all = walk->walks[rank].of_all[step];
  if (of_all != NONE) return all_have_begun(walk, run, &walk->of_all[of_all]);
  const uint32_t number = walk->walks[rank].matches[step];
  if (number == NONE) return true;
  const match *found = &walk->matches[number];
  const int side = found->ranks[0] == rank && found->steps[0] == step;
  return has_begun(walk, found->ranks[side], run, found->steps[side]);
}

/* Advances a queue of a rank as far as possible. Returns true if it moved. */
static bool advance_queue(ranks_walk *walk, uint32_t rank, uint32_t queue) {
  const tdm_schedule *schedule = walk->ranks[rank].schedule;
  rank_walk *mine = &walk->walks[rank];
  bool moved = false;
  while (mine->run[queue] < walk->run_count) {
    const uint32_t step = mine->next[queue];
    const uint32_t run = mine->run[queue];
    bool *begun = &mine->begun[run * schedule->step_count + step];
    if (!*begun) {
      if (!is_submitted(walk, mine, run, &schedule->steps[step])) return moved;
      if (!waits_are_over(schedule, mine, run, step)) return moved;
      *begun = true;
      moved = true;
    }
    if (!other_ends_have_begun(walk, rank, run, step)) return moved;
    end_step(walk, schedule, mine, queue);
    moved = true;
  }
  return moved;
}

/* Fails for the earliest run that cannot continue; TDM_OK: there is none. */
static tdm_status check_ended(const ranks_walk *walk) {
  uint32_t earliest = walk->run_count;
  uint32_t at[2] = {0, 0};
  for (uint32_t r = 0; r < walk->rank_count; r++) {
    for (uint32_t q = 0; q < walk->ranks[r].schedule->queue_count; q++) {
      if (walk->walks[r].run[q] >= earliest) continue;
      earliest = walk->walks[r].run[q];
      at[0] = r;
      at[1] = q;
    }
  }
  if (earliest == walk->run_count) return TDM_OK;
  return tdm_fail(TDM_INTERNAL,
                  "the ranks wait for one another: step %u of rank %u never ends (queue %u)",
                  walk->walks[at[0]].next[at[1]], at[0], at[1]);
}

static tdm_status run_all(ranks_walk *walk) {
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t r = 0; r < walk->rank_count; r++)
      for (uint32_t q = 0; q < walk->ranks[r].schedule->queue_count; q++)
        moved |= advance_queue(walk, r, q);
  }
  return check_ended(walk);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static tdm_status begin_rank(ranks_walk *walk, uint32_t rank) {
  const tdm_schedule *schedule = walk->ranks[rank].schedule;
  rank_walk *mine = &walk->walks[rank];
  const size_t steps = schedule->step_count + 1;
  const size_t queues = (size_t)schedule->queue_count + 1;
  const size_t all = walk->run_count * steps;
  mine->first = tdm_region_take(&walk->region, queues * sizeof(uint32_t), "queues");
  mine->next = tdm_region_take(&walk->region, queues * sizeof(uint32_t), "queues");
  mine->run = tdm_region_take(&walk->region, queues * sizeof(uint32_t), "queues");
  mine->follow = tdm_region_take(&walk->region, steps * sizeof(uint32_t), "steps");
  mine->matches = tdm_region_take(&walk->region, steps * sizeof(uint32_t), "steps");
  mine->of_all = tdm_region_take(&walk->region, steps * sizeof(uint32_t), "steps");
  mine->begun = tdm_region_take(&walk->region, all * sizeof(bool), "steps");
  mine->ended = tdm_region_take(&walk->region, all * sizeof(bool), "steps");
  if (walk->region.failed) return TDM_OUT_OF_MEMORY;
  memset(mine->matches, 0xff, steps * sizeof(uint32_t));
  memset(mine->of_all, 0xff, steps * sizeof(uint32_t));
  for (size_t q = 0; q < queues; q++)
    mine->next[q] = (uint32_t)schedule->step_count;
  for (size_t s = schedule->step_count; s-- > 0;) {
    const uint32_t queue = schedule->steps[s].queue;
    mine->follow[s] = mine->next[queue];
    mine->next[queue] = (uint32_t)s;
    walk->updates |= schedule->steps[s].phase == TDM_PHASE_UPDATE;
    for (uint32_t run = 0; run < walk->run_count; run++)
      walk->main_left[run] += schedule->steps[s].phase == TDM_PHASE_MAIN;
  }
  for (uint32_t run = 0; run < walk->run_count; run++)
    mine->left[run] = schedule->step_count;
  for (size_t q = 0; q < queues; q++) {
    mine->first[q] = mine->next[q];
    if (mine->first[q] == schedule->step_count) mine->run[q] = walk->run_count;
  }
  return TDM_OK;
}

/* Computes how many runs are walked; all ranks have the same number in flight. */
static tdm_status count_runs(ranks_walk *walk) {
  walk->depth = walk->ranks[0].schedule->depth;
  for (uint32_t r = 1; r < walk->rank_count; r++) {
    const uint32_t depth = walk->ranks[r].schedule->depth;
    if (depth == walk->depth) continue;
    return tdm_fail(TDM_INTERNAL, "rank 0 has %u runs in flight, and rank %u has %u", walk->depth,
                    r, depth);
  }
  if (walk->depth > MOST_RUNS - 1) walk->depth = MOST_RUNS - 1;
  walk->run_count = walk->depth + 1;
  return TDM_OK;
}

static tdm_status verify(ranks_walk *walk) {
  const size_t count = walk->rank_count;
  TDM_TRY(count_runs(walk));
  walk->walks = tdm_region_take(&walk->region, (count + 1) * sizeof(rank_walk), "ranks");
  if (walk->region.failed) return TDM_OUT_OF_MEMORY;
  for (uint32_t r = 0; r < walk->rank_count; r++)
    TDM_TRY(begin_rank(walk, r));
  TDM_TRY(match_ends(walk));
  TDM_TRY(match_of_all(walk));
  TDM_TRY(tdm_verify_ranks_order(walk));
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
