/* The heaviest antichain: by augmenting paths in the bipartite graph of the order (Dilworth: "A
 * decomposition theorem for partially ordered sets", 1950; Fulkerson's proof of it by flow), and by
 * taking and leaving each storage in turn. */
#include "tests/graph/schedule/heaviest_set.h"

#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t count, size_t bytes) {
  void *memory = calloc(count == 0 ? 1 : count, bytes);
  if (!memory) abort();
  return memory;
}

/* ---- The relation ---------------------------------------------------------------------------- */

/* before[b * steps + a]: a happens before b, within a run. */
static bool *order_steps(const tdm_schedule *schedule) {
  const size_t count = schedule->step_count;
  bool *before = zeroed(count * count, sizeof(bool));
  for (size_t b = 0; b < count; b++) {
    const tdm_step *self = &schedule->steps[b];
    bool *row = before + b * count;
    for (size_t a = b; a-- > 0;) {
      const tdm_step *other = &schedule->steps[a];
      bool direct = other->queue == self->queue;
      direct = direct || (schedule->two_phase && other->phase != self->phase);
      for (uint32_t w = 0; w < self->wait_count; w++) {
        const tdm_step_wait *wait = &schedule->waits[self->first_wait + w];
        direct = direct || (!wait->previous && wait->step == a);
      }
      if (!direct) continue;
      row[a] = true;
      for (size_t c = 0; c < a; c++)
        row[c] = row[c] || before[a * count + c];
    }
  }
  return before;
}

/* Parts lie where their whole does. */
static uint32_t placed(const tdm_schedule *schedule, uint32_t storage) {
  const uint32_t whole = schedule->storages[storage].whole;
  return whole == 0 ? storage : whole - 1;
}

/* Returns the step that touches each storage first; step_count where none does. */
static size_t *first_steps(const tdm_schedule *schedule) {
  size_t *first = zeroed(schedule->storage_count, sizeof(size_t));
  for (size_t i = 0; i < schedule->storage_count; i++)
    first[i] = schedule->step_count;
  for (size_t s = schedule->step_count; s-- > 0;) {
    const tdm_step *step = &schedule->steps[s];
    for (uint32_t i = 0; i < step->access_count; i++)
      first[placed(schedule, schedule->accesses[step->first_access + i].storage)] = s;
  }
  return first;
}

/* late[storage], if some access of it does not happen before step. */
static void mark_late(const tdm_schedule *schedule, const bool *order, size_t step, bool *late) {
  for (size_t s = 0; s < schedule->step_count; s++) {
    if (order[step * schedule->step_count + s]) continue;
    for (uint32_t i = 0; i < schedule->steps[s].access_count; i++) {
      late[placed(schedule, schedule->accesses[schedule->steps[s].first_access + i].storage)] =
          true;
    }
  }
}

/* The same for every step that touches a whole or its parts: their writers run side by side. */
static void mark_late_all(const tdm_schedule *schedule, const bool *order, uint32_t whole,
                          bool *late) {
  for (size_t s = 0; s < schedule->step_count; s++) {
    const tdm_step *step = &schedule->steps[s];
    bool touches = false;
    for (uint32_t i = 0; i < step->access_count; i++)
      touches |= placed(schedule, schedule->accesses[step->first_access + i].storage) == whole;
    if (touches) mark_late(schedule, order, s, late);
  }
}

struct sharing sharing_of(const tdm_schedule *schedule, uint32_t arena) {
  struct sharing sharing = {0};
  uint32_t *storages = zeroed(schedule->storage_count, sizeof(uint32_t));
  bool *late = zeroed(schedule->storage_count, sizeof(bool));
  bool *order = order_steps(schedule);
  size_t *first = first_steps(schedule);
  for (uint32_t i = 0; i < schedule->storage_count; i++) {
    const tdm_storage_plan *plan = &schedule->storages[i];
    const bool lies_here =
        plan->kind == TDM_STORAGE_ARENA && plan->arena == arena && plan->whole == 0;
    if (lies_here && first[i] < schedule->step_count) storages[sharing.count++] = i;
  }
  sharing.bytes = zeroed(sharing.count, sizeof(uint64_t));
  sharing.before = zeroed((size_t)sharing.count * sharing.count, sizeof(bool));
  for (uint32_t b = 0; b < sharing.count; b++) {
    sharing.bytes[b] = (schedule->storages[storages[b]].bytes + 63) / 64 * 64;
    memset(late, 0, schedule->storage_count * sizeof(bool));
    if (schedule->storages[storages[b]].part_count > 0)
      mark_late_all(schedule, order, storages[b], late);
    else
      mark_late(schedule, order, first[storages[b]], late);
    for (uint32_t a = 0; a < sharing.count; a++)
      sharing.before[(size_t)a * sharing.count + b] = !late[storages[a]];
  }
  free(first);
  free(order);
  free(late);
  free(storages);
  return sharing;
}

void sharing_release(struct sharing *sharing) {
  free(sharing->bytes);
  free(sharing->before);
  *sharing = (struct sharing){0};
}

/* ---- By flow --------------------------------------------------------------------------------- */

/* Left node a has its bytes to give, right node b can take its bytes, a to b if a comes before. */
struct flow {
  const struct sharing *sharing;
  uint64_t *gives; /* (count) left over */
  uint64_t *takes; /* (count) left over */
  uint64_t *sent;  /* (count, count) */
  uint32_t *queue; /* (2 count): left nodes a, right nodes count + b */
  uint32_t *from;  /* (2 count): the node before, + 1; roots their own; 0: not reached */
};

/* Reaches nodes from those that can give; a right node that can take, or 2 count. */
static uint32_t find_taker(struct flow *flow) {
  const uint32_t count = flow->sharing->count;
  uint32_t head = 0, tail = 0;
  memset(flow->from, 0, 2 * (size_t)count * sizeof(uint32_t));
  for (uint32_t a = 0; a < count; a++) {
    if (flow->gives[a] == 0) continue;
    flow->from[a] = a + 1;
    flow->queue[tail++] = a;
  }
  while (head < tail) {
    const uint32_t node = flow->queue[head++];
    if (node >= count && flow->takes[node - count] > 0) return node;
    for (uint32_t i = 0; i < count; i++) {
      const bool forth = node < count && flow->sharing->before[(size_t)node * count + i];
      const bool back = node >= count && flow->sent[(size_t)i * count + node - count] > 0;
      const uint32_t next = node < count ? count + i : i;
      if ((!forth && !back) || flow->from[next] != 0) continue;
      flow->from[next] = node + 1;
      flow->queue[tail++] = next;
    }
  }
  return 2 * count;
}

/* Sends the amount that the path to taker allows. */
static uint64_t send(struct flow *flow, uint32_t taker) {
  const uint32_t count = flow->sharing->count;
  uint64_t amount = flow->takes[taker - count];
  uint32_t node = taker;
  for (; flow->from[node] != node + 1; node = flow->from[node] - 1) {
    const uint32_t before = flow->from[node] - 1;
    if (node >= count) continue; /* forth: as much as one likes */
    const uint64_t sent = flow->sent[(size_t)node * count + before - count];
    if (amount > sent) amount = sent;
  }
  if (amount > flow->gives[node]) amount = flow->gives[node];
  flow->gives[node] -= amount;
  flow->takes[taker - count] -= amount;
  for (node = taker; flow->from[node] != node + 1; node = flow->from[node] - 1) {
    const uint32_t before = flow->from[node] - 1;
    if (node >= count) {
      flow->sent[(size_t)before * count + node - count] += amount;
    } else {
      flow->sent[(size_t)node * count + before - count] -= amount;
    }
  }
  return amount;
}

uint64_t heaviest_set_by_flow(const struct sharing *sharing) {
  const size_t count = sharing->count;
  struct flow flow = {.sharing = sharing,
                      .gives = zeroed(count, sizeof(uint64_t)),
                      .takes = zeroed(count, sizeof(uint64_t)),
                      .sent = zeroed(count * count, sizeof(uint64_t)),
                      .queue = zeroed(2 * count, sizeof(uint32_t)),
                      .from = zeroed(2 * count, sizeof(uint32_t))};
  uint64_t heaviest = 0;
  for (size_t i = 0; i < count; i++) {
    flow.gives[i] = flow.takes[i] = sharing->bytes[i];
    heaviest += sharing->bytes[i];
  }
  for (uint32_t taker; (taker = find_taker(&flow)) < 2 * count;)
    heaviest -= send(&flow, taker);
  free(flow.gives);
  free(flow.takes);
  free(flow.sent);
  free(flow.queue);
  free(flow.from);
  return heaviest;
}

/* ---- By branch and bound --------------------------------------------------------------------- */

struct branch {
  const struct sharing *sharing;
  uint64_t apart[64]; /* bit: may not share bytes with */
  uint64_t best;
};

static void link_pairs(struct branch *branch) {
  const uint32_t count = branch->sharing->count;
  for (uint32_t a = 0; a < count; a++) {
    for (uint32_t b = 0; b < count; b++) {
      const bool ordered = branch->sharing->before[(size_t)a * count + b] ||
                           branch->sharing->before[(size_t)b * count + a];
      if (a != b && !ordered) branch->apart[a] |= (uint64_t)1 << b;
    }
  }
}

/* Returns the heaviest of the candidates; *sum is the weight of all. */
static uint32_t heaviest_candidate(const struct branch *branch, uint64_t candidates,
                                   uint64_t *sum) {
  const uint64_t *bytes = branch->sharing->bytes;
  uint32_t heaviest = (uint32_t)__builtin_ctzll(candidates);
  *sum = 0;
  for (uint64_t rest = candidates; rest != 0; rest &= rest - 1) {
    const uint32_t candidate = (uint32_t)__builtin_ctzll(rest);
    *sum += bytes[candidate];
    if (bytes[candidate] > bytes[heaviest]) heaviest = candidate;
  }
  return heaviest;
}

/* bytes are taken; candidates go with all of them. */
static void descend(struct branch *branch, uint64_t candidates, uint64_t bytes) {
  if (bytes > branch->best) branch->best = bytes;
  if (candidates == 0) return;
  uint64_t sum = 0;
  const uint32_t next = heaviest_candidate(branch, candidates, &sum);
  if (bytes + sum <= branch->best) return;
  const uint64_t others = candidates & ~((uint64_t)1 << next);
  descend(branch, others & branch->apart[next], bytes + branch->sharing->bytes[next]);
  if ((others & ~branch->apart[next]) != 0) descend(branch, others, bytes);
}

uint64_t heaviest_set_by_search(const struct sharing *sharing) {
  struct branch branch = {.sharing = sharing};
  if (sharing->count > 63) abort();
  link_pairs(&branch);
  descend(&branch, ((uint64_t)1 << sharing->count) - 1, 0);
  return branch.best;
}
