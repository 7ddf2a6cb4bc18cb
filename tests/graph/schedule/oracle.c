/* Happens-before as a matrix of bits over all events of depth + 1 runs. Invariant: row e of before
 * has the bits of exactly the events that happen before event e. */
#include "tests/graph/schedule/oracle.h"

#include <stdlib.h>
#include <string.h>

struct touch {
  size_t event;
  uint32_t run;
  const tdm_access *access;
};

struct oracle {
  const tdm_schedule *schedule;
  size_t runs, events, words;
  uint64_t *before;      /* (events, words) */
  struct touch *touches; /* (touch_count), in order of run, step and access */
  size_t touch_count;
};

static void *zeroed(size_t count, size_t bytes) {
  void *memory = calloc(count == 0 ? 1 : count, bytes);
  if (!memory) abort();
  return memory;
}

static uint32_t slots_of(const tdm_schedule *schedule) {
  return schedule->slots == 0 ? schedule->depth : schedule->slots;
}

/* ---- Each step alone ------------------------------------------------------------------------- */

static bool waits_are_legal(const tdm_schedule *schedule, size_t step) {
  const tdm_step *self = &schedule->steps[step];
  for (uint32_t i = 0; i < self->wait_count; i++) {
    const tdm_step_wait *wait = &schedule->waits[self->first_wait + i];
    if (!wait->previous && wait->step >= step) return false;
    if (schedule->steps[wait->step].queue == self->queue) return false;
  }
  return true;
}

static bool accesses_lie_within(const tdm_schedule *schedule, size_t step) {
  const tdm_step *self = &schedule->steps[step];
  for (uint32_t i = 0; i < self->access_count; i++) {
    const tdm_access *access = &schedule->accesses[self->first_access + i];
    const uint64_t end = access->begin + access->bytes;
    if (end < access->begin || end > schedule->storages[access->storage].bytes) return false;
  }
  return true;
}

static bool writes_are_legal(const tdm_schedule *schedule, size_t step) {
  const tdm_step *self = &schedule->steps[step];
  for (uint32_t i = 0; i < self->access_count; i++) {
    const tdm_access *access = &schedule->accesses[self->first_access + i];
    const bool persistent = schedule->storages[access->storage].kind == TDM_STORAGE_PERSISTENT;
    if (access->writes && persistent && self->phase == TDM_PHASE_MAIN && !self->refresh)
      return false;
  }
  return true;
}

/* Parts are contiguous and make up their whole, which is never written itself. */
static bool parts_are_legal(const tdm_schedule *schedule) {
  for (size_t i = 0; i < schedule->storage_count; i++) {
    const tdm_storage_plan *whole = &schedule->storages[i];
    uint64_t bytes = 0;
    for (size_t p = 0; p < schedule->storage_count && whole->part_count > 0; p++) {
      const tdm_storage_plan *part = &schedule->storages[p];
      if (part->whole != i + 1) continue;
      if (part->within != bytes || part->kind != whole->kind) return false;
      if (part->kind == TDM_STORAGE_ARENA &&
          (part->arena != whole->arena || part->offset != whole->offset + bytes)) {
        return false;
      }
      bytes += part->bytes;
    }
    if (whole->part_count > 0 && bytes != whole->bytes) return false;
  }
  for (size_t a = 0; a < schedule->access_count; a++) {
    const tdm_access *access = &schedule->accesses[a];
    if (access->writes && schedule->storages[access->storage].part_count > 0) return false;
  }
  return true;
}

static bool places_are_legal(const tdm_schedule *schedule) {
  for (size_t a = 0; a < schedule->access_count; a++) {
    const tdm_storage_plan *plan = &schedule->storages[schedule->accesses[a].storage];
    if (plan->kind != TDM_STORAGE_ARENA) continue;
    if (plan->whole == 0 && plan->offset % 64 != 0) return false;
    if (plan->offset + plan->bytes > schedule->arena_bytes[plan->arena]) return false;
  }
  return true;
}

static bool phases_are_legal(const tdm_schedule *schedule) {
  bool updates = false;
  bool shared = false;
  for (size_t s = 0; s < schedule->step_count; s++) {
    if (updates && schedule->steps[s].phase == TDM_PHASE_MAIN) return false;
    updates = updates || schedule->steps[s].phase == TDM_PHASE_UPDATE;
    shared = shared || schedule->steps[s].queue != schedule->steps[0].queue;
  }
  return schedule->two_phase || !updates || !shared;
}

/* ---- Happens-before -------------------------------------------------------------------------- */

static uint64_t *row_of(const struct oracle *oracle, size_t event) {
  return oracle->before + event * oracle->words;
}

static bool happens_before(const struct oracle *oracle, size_t a, size_t b) {
  return (row_of(oracle, b)[a / 64] >> (a % 64) & 1) != 0;
}

/* a happens before b, and so does all that happens before a, whose row is complete. */
static void order(const struct oracle *oracle, size_t a, size_t b) {
  uint64_t *row = row_of(oracle, b);
  for (size_t w = 0; w < oracle->words; w++)
    row[w] |= row_of(oracle, a)[w];
  row[a / 64] |= (uint64_t)1 << (a % 64);
}

static void order_event(const struct oracle *oracle, size_t run, size_t step) {
  const tdm_schedule *schedule = oracle->schedule;
  const tdm_step *self = &schedule->steps[step];
  const size_t count = schedule->step_count;
  const size_t event = run * count + step;
  for (size_t other = 0; other < event; other++) {
    const tdm_step *earlier = &schedule->steps[other % count];
    const bool same_queue = earlier->queue == self->queue;
    const bool admitted = other / count + schedule->depth <= run;
    const bool barrier = schedule->two_phase && other / count == run &&
                         earlier->phase == TDM_PHASE_MAIN && self->phase == TDM_PHASE_UPDATE;
    if (same_queue || admitted || barrier) order(oracle, other, event);
  }
  for (uint32_t i = 0; i < self->wait_count; i++) {
    const tdm_step_wait *wait = &schedule->waits[self->first_wait + i];
    if (wait->previous && run == 0) continue;
    order(oracle, (run - wait->previous) * count + wait->step, event);
  }
}

/* ---- Accesses -------------------------------------------------------------------------------- */

static void list_touches(struct oracle *oracle) {
  const tdm_schedule *schedule = oracle->schedule;
  for (uint32_t run = 0; run < oracle->runs; run++) {
    for (size_t s = 0; s < schedule->step_count; s++) {
      const tdm_step *step = &schedule->steps[s];
      for (uint32_t i = 0; i < step->access_count; i++) {
        oracle->touches[oracle->touch_count++] = (struct touch){
            run * schedule->step_count + s, run, &schedule->accesses[step->first_access + i]};
      }
    }
  }
}

static bool is_part_of(const tdm_schedule *schedule, const tdm_storage_plan *part,
                       const tdm_storage_plan *whole) {
  return part->whole != 0 && &schedule->storages[part->whole - 1] == whole;
}

/* Returns true if two touches, a being the earlier one, overlap in some byte. */
static bool meet(const struct oracle *oracle, const struct touch *a, const struct touch *b) {
  const tdm_schedule *schedule = oracle->schedule;
  const tdm_storage_plan *first = &schedule->storages[a->access->storage];
  const tdm_storage_plan *second = &schedule->storages[b->access->storage];
  if (first->kind != second->kind) return false;
  if (first->kind == TDM_STORAGE_PERSISTENT) return first == second;
  if (first->kind == TDM_STORAGE_EXTERNAL) {
    const bool same = first == second || is_part_of(schedule, first, second) ||
                      is_part_of(schedule, second, first);
    return same && a->run == b->run;
  }
  const uint32_t slots = slots_of(schedule);
  if (first->arena != second->arena || a->run % slots != b->run % slots) return false;
  return first->offset < second->offset + second->bytes &&
         second->offset < first->offset + first->bytes;
}

static bool pair_is_ordered(const struct oracle *oracle, const struct touch *a,
                            const struct touch *b) {
  if (!a->access->writes && !b->access->writes) return true;
  if (!meet(oracle, a, b)) return true;
  if (a->event != b->event) return happens_before(oracle, a->event, b->event);
  /* One step: in place, the read first, or writing twice. */
  return a->access->storage == b->access->storage && b->access->writes;
}

/* Returns true if the last touch before reader that wrote the byte wrote its storage, or a part of
 * it, in the same run. */
static bool reads_its_own_byte(const struct oracle *oracle, size_t reader, uint64_t byte) {
  const tdm_schedule *schedule = oracle->schedule;
  const struct touch *read = &oracle->touches[reader];
  const tdm_storage_plan *plan = &schedule->storages[read->access->storage];
  for (size_t t = reader; t-- > 0;) {
    const struct touch *write = &oracle->touches[t];
    const tdm_storage_plan *other = &schedule->storages[write->access->storage];
    if (!write->access->writes || !meet(oracle, write, read)) continue;
    if (other->offset > byte || other->offset + other->bytes <= byte) continue;
    return (other == plan || is_part_of(schedule, other, plan)) && write->run == read->run;
  }
  return false;
}

/* The same for all its bytes: who wrote last can change only where some storage begins or ends. */
static bool reads_its_own(const struct oracle *oracle, size_t reader) {
  const tdm_schedule *schedule = oracle->schedule;
  const tdm_storage_plan *plan = &schedule->storages[oracle->touches[reader].access->storage];
  if (plan->kind != TDM_STORAGE_ARENA) return true;
  if (!reads_its_own_byte(oracle, reader, plan->offset)) return false;
  for (size_t i = 0; i < 2 * schedule->storage_count; i++) {
    const tdm_storage_plan *other = &schedule->storages[i / 2];
    const uint64_t byte = other->offset + (i % 2 == 0 ? 0 : other->bytes);
    if (other->kind != TDM_STORAGE_ARENA || other->arena != plan->arena) continue;
    if (byte <= plan->offset || byte >= plan->offset + plan->bytes) continue;
    if (!reads_its_own_byte(oracle, reader, byte)) return false;
  }
  return true;
}

static oracle_answer judge_touches(const struct oracle *oracle) {
  for (size_t b = 0; b < oracle->touch_count; b++) {
    for (size_t a = 0; a < b; a++) {
      if (!pair_is_ordered(oracle, &oracle->touches[a], &oracle->touches[b]))
        return (oracle_answer){false, "an unordered pair"};
    }
    if (!oracle->touches[b].access->writes && !reads_its_own(oracle, b))
      return (oracle_answer){false, "a read of what is not there"};
  }
  return (oracle_answer){true, NULL};
}

oracle_answer oracle_judge(const tdm_schedule *schedule) {
  if (!phases_are_legal(schedule)) return (oracle_answer){false, "phases"};
  if (!parts_are_legal(schedule)) return (oracle_answer){false, "parts"};
  if (!places_are_legal(schedule)) return (oracle_answer){false, "places"};
  for (size_t s = 0; s < schedule->step_count; s++) {
    if (!waits_are_legal(schedule, s)) return (oracle_answer){false, "a wait"};
    if (!accesses_lie_within(schedule, s)) return (oracle_answer){false, "bytes"};
    if (!writes_are_legal(schedule, s)) return (oracle_answer){false, "a persistent write"};
  }
  struct oracle oracle = {.schedule = schedule, .runs = (size_t)schedule->depth + 1};
  oracle.events = oracle.runs * schedule->step_count;
  oracle.words = oracle.events / 64 + 1;
  oracle.before = zeroed(oracle.events * oracle.words, sizeof(uint64_t));
  oracle.touches = zeroed(oracle.runs * schedule->access_count, sizeof(struct touch));
  list_touches(&oracle);
  for (size_t run = 0; run < oracle.runs; run++) {
    for (size_t s = 0; s < schedule->step_count; s++)
      order_event(&oracle, run, s);
  }
  const oracle_answer answer = judge_touches(&oracle);
  free(oracle.before);
  free(oracle.touches);
  return answer;
}
