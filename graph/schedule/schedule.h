/* The combinatorial side of a plan: steps on queues, what storage each touches, the waits between
 * queues, and where storage lies. The passes schedule, memory and verify work on this alone; it
 * knows no operation, shape or device, so random ones can be made and judged by an oracle.
 *
 * Happens-before, which all three use:
 *   - on one queue, steps in step order, this run's before the next run's;
 *   - a step before whatever waits for it;
 *   - all steps of phase MAIN before all of phase UPDATE, if the schedule is two_phase (the update
 *     phase is submitted when the main phase has settled); otherwise one queue has everything;
 *   - run r before run r + depth (they share a slot; the host admits the second when the first has
 *     settled);
 *   - run r's steps are submitted before run r + 1's on every queue.
 * Storage may have parts: the storages right behind it, in order of address, each a stretch of its
 * bytes. It is written only through them; reading it reads them all, and waits for each.
 * Storage of kind ARENA is one piece per slot (run modulo depth); PERSISTENT is one piece for all
 * runs; EXTERNAL (inputs, outputs: memory of their own every run) never aliases anything. */
#ifndef TANDEM_GRAPH_SCHEDULE_SCHEDULE_H
#define TANDEM_GRAPH_SCHEDULE_SCHEDULE_H

#include "core/allocate.h"
#include "core/status.h"

typedef enum tdm_phase { TDM_PHASE_MAIN, TDM_PHASE_UPDATE } tdm_phase;

typedef enum tdm_place_kind {
  TDM_STORAGE_ARENA,
  TDM_STORAGE_PERSISTENT,
  TDM_STORAGE_EXTERNAL
} tdm_place_kind;

typedef struct tdm_storage_plan {
  uint8_t kind;        /* tdm_place_kind */
  uint32_t arena;      /* ARENA: which one (a device's) */
  uint64_t bytes;      /* > 0 */
  uint64_t offset;     /* ARENA: filled by memory; a multiple of 64, but of a part */
  uint32_t part_count; /* the storages right behind it */
  uint32_t whole;      /* of a part: the storage it is a part of, + 1; 0: it is none */
  uint64_t within;     /* of a part: where it begins there */
} tdm_storage_plan;

typedef struct tdm_access {
  uint32_t storage;
  bool writes;    /* else reads; an access in place is two, the read first */
  uint64_t begin; /* the bytes of it that are touched, where a view shows less than all; order is */
  uint64_t bytes; /* kept as if all of it were */
} tdm_access;

typedef struct tdm_step_wait {
  uint32_t step; /* of another queue; an earlier one, unless previous */
  bool previous; /* of the run before */
} tdm_step_wait;

typedef struct tdm_step {
  uint32_t queue; /* below queue_count */
  uint8_t phase;  /* tdm_phase; all of MAIN stand before all of UPDATE */
  bool refresh;   /* a conditional copy into a derived value: may write PERSISTENT in MAIN */
  uint32_t first_access;
  uint32_t access_count;
  uint32_t first_wait; /* filled by schedule */
  uint32_t wait_count;
  uint32_t position; /* filled by schedule: this step's index on its queue within its phase */
} tdm_step;

typedef struct tdm_schedule {
  const tdm_allocator *allocator;
  uint32_t queue_count;
  uint32_t arena_count;
  uint32_t depth; /* runs in flight, >= 1 */
  uint32_t slots; /* pieces of every arena, run r has piece r modulo slots; 0: as many as depth */
  bool two_phase;
  tdm_step *steps; /* in plan order, a topological one */
  size_t step_count, step_capacity;
  tdm_access *accesses;
  size_t access_count, access_capacity;
  tdm_step_wait *waits;
  size_t wait_count, wait_capacity;
  tdm_storage_plan *storages;
  size_t storage_count, storage_capacity;
  uint64_t *arena_bytes; /* filled by memory: what each arena needs (arena_count) */
} tdm_schedule;

void tdm_schedule_init(tdm_schedule *schedule, const tdm_allocator *allocator);
void tdm_schedule_deinit(tdm_schedule *schedule);

/* Finds the waits that the accesses need (read after write, write after read, write after write,
 * within a run and from the run before), and no others: none is implied by the rest. */
tdm_status tdm_pass_schedule(tdm_schedule *schedule) TDM_WARN_UNUSED;

/* Gives every ARENA storage its offset. Two share bytes only if every access of one happens before
 * the first of the other. */
tdm_status tdm_pass_memory(tdm_schedule *schedule) TDM_WARN_UNUSED;

/* Proves the schedule: every access lies within its storage, every part within its whole, every
 * storage within its arena; over depth + 1 consecutive runs every two conflicting accesses to the
 * same bytes are ordered, every read sees the storage's own last write, persistent writes stand in
 * the UPDATE phase or in a step marked as a refresh. INTERNAL, naming steps and storages, when not.
 * Computes happens-before on its own; shares no code with the two passes above. */
tdm_status tdm_pass_verify(const tdm_schedule *schedule) TDM_WARN_UNUSED;

#endif
