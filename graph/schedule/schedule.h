/* The combinatorial part of a plan: steps on queues, the storage that each accesses, the waits
 * between queues, and the offsets of storage. The passes schedule, memory and verify use only this.
 * It is independent of operations, shapes and devices, so random ones can be created and judged by
 * an oracle.
 *
 * Happens-before, for all three passes:
 * - on one queue, steps in step order, this run's before the next run's;
 * - a step before whatever waits for it;
 * - all steps of phase MAIN before all of phase UPDATE, if the schedule is two_phase (the update
 *   phase is submitted when the main phase has settled); otherwise one queue has everything;
 * - run r before run r + depth (they share a slot; the host admits the second when the first has
 *   settled);
 * - run r's steps are submitted before run r + 1's on every queue.
 *
 * Storage may have parts: the storages that directly follow it, in order of address, each a range
 * of its bytes. It is written only through them. Reading it reads all parts, and waits for each.
 * Storage of kind ARENA has one piece per slot (run modulo depth). PERSISTENT has one piece for all
 * runs. EXTERNAL (inputs, outputs: separate memory in every run) never aliases anything. */
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
  uint64_t bytes;      /* > 0 */
  uint64_t offset;     /* ARENA: set by memory; a multiple of 64, except for a part */
  uint64_t within;     /* offset of a part in the whole, in bytes */
  uint32_t whole;      /* 1 + the storage that contains this part; 0: not a part */
  uint32_t part_count; /* number of the following storages that are its parts */
  uint32_t arena;      /* ARENA: index of the arena's device */
  uint8_t kind;        /* tdm_place_kind */
} tdm_storage_plan;

typedef struct tdm_access {
  uint32_t storage;
  bool writes; /* true: writes; false: reads. An access in place is two accesses, the read first */
  uint64_t begin; /* the accessed bytes, if a view shows less than all; the order of accesses */
  uint64_t bytes; /* is the same as if all of it were accessed */
} tdm_access;

typedef struct tdm_step_wait {
  uint32_t step; /* step that is awaited, on another queue; an earlier step unless `previous` */
  bool previous; /* the awaited step is in the preceding run */
} tdm_step_wait;

typedef struct tdm_step {
  uint32_t queue; /* index below queue_count */
  uint8_t phase;  /* tdm_phase; all of MAIN are before all of UPDATE */
  bool refresh;   /* a conditional copy into a derived value: may write PERSISTENT in MAIN */
  uint32_t first_access;
  uint32_t access_count;
  uint32_t first_wait; /* set by schedule */
  uint32_t wait_count;
  uint32_t position; /* set by schedule: this step's index on its queue within its phase */
} tdm_step;

typedef struct tdm_schedule {
  const tdm_allocator *allocator;
  uint32_t queue_count;
  uint32_t arena_count;
  uint32_t depth; /* number of runs in flight, >= 1 */
  uint32_t slots; /* pieces of every arena, run r uses piece r modulo slots; 0: equal to depth */
  bool two_phase;
  tdm_step *steps; /* steps in plan order, a topological order */
  size_t step_count, step_capacity;
  tdm_access *accesses;
  size_t access_count, access_capacity;
  tdm_step_wait *waits;
  size_t wait_count, wait_capacity;
  tdm_storage_plan *storages;
  size_t storage_count, storage_capacity;
  uint64_t *arena_bytes; /* set by memory: the size of each arena (arena_count) */
} tdm_schedule;

void tdm_schedule_init(tdm_schedule *schedule, const tdm_allocator *allocator);
void tdm_schedule_deinit(tdm_schedule *schedule);

/* Finds the waits that the accesses require (read after write, write after read, write after write,
 * within a run and from the preceding run), and no others: no wait is implied by the rest. */
tdm_status tdm_pass_schedule(tdm_schedule *schedule) TDM_WARN_UNUSED;

/* Gives every ARENA storage its offset. Two share bytes only if every access of one happens before
 * the first of the other. */
tdm_status tdm_pass_memory(tdm_schedule *schedule) TDM_WARN_UNUSED;

/* Proves the schedule: every access is within its storage, every part within its whole, and every
 * storage within its arena. Over depth + 1 consecutive runs, every two conflicting accesses to the
 * same bytes are ordered, and every read sees the storage's own last write. Persistent writes are
 * in the UPDATE phase or in a step marked as a refresh. Otherwise fails with INTERNAL, naming steps
 * and storages. Computes happens-before independently and shares no code with the two passes
 * above. */
tdm_status tdm_pass_verify(const tdm_schedule *schedule) TDM_WARN_UNUSED;

#endif
