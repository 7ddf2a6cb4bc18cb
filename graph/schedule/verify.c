/* The pass verify: walks the runs in plan order with a clock per queue, and checks each access
 * against the last ones to the same bytes. The order of a step of run r and one of run r + d
 * depends only on d, and runs a whole depth apart are ordered by admission.
 *
 * So these runs are walked: run 0; run 1 for persistent storage, if two runs can be in flight; and,
 * if an arena has fewer slots than runs in flight, the first run that uses the bytes of run 0. For
 * each conflict two runs apart there is one with the run between, because conflicting storage is
 * written in every run. */
#include <string.h>

#include "graph/schedule/verify_bytes.h"
#include "graph/schedule/verify_ranges.h"

struct event {
  uint32_t queue;
  uint32_t index; /* index on its queue over all runs, from 1; 0: none */
};

/* The accesses to a storage that a later one must know: the write, and later reads that do not know
 * each other. */
struct uses {
  struct event writer;
  struct event reader;
  uint32_t more; /* index + 1 in further; 0: no more */
};

struct further_reader {
  struct event reader;
  uint32_t more;
};

struct verifier {
  const tdm_schedule *schedule;
  tdm_region region;
  tdm_bytes bytes;
  uint32_t run;
  uint32_t last_run;
  uint32_t slot_run;    /* the run that uses run 0's slot again while both are in flight; or none */
  uint32_t *clocks;     /* (queue_count, queue_count): events of each queue seen by each */
  uint32_t *passed;     /* (queue_count): number of events so far */
  uint32_t *positions;  /* (queue_count): number of steps in the current phase */
  uint32_t *keeps;      /* (step_count): 1 + number of its stored clock if something waits for it */
  uint32_t *kept[2];    /* (kept_count, queue_count): for even and odd runs */
  uint32_t *indices;    /* (step_count): in run 0 */
  uint32_t *run_events; /* (queue_count): number of events per run */
  struct uses *uses;    /* (storage_count) */
  bool *updates;        /* (queue_count): it has a step of the update phase */
  bool *touched;        /* (storage_count) */
  bool *waited;         /* (step_count): something waits for it */
  struct further_reader *further;
  size_t further_count, further_capacity;
};

#define NO_RUN UINT32_MAX
#define QUEUES_MAX 65536 /* the size of the clocks is its square */

/* ---- Clocks ---------------------------------------------------------------------------------- */

static inline uint32_t *clock_of(const struct verifier *verifier, uint32_t queue) {
  return verifier->clocks + (size_t)queue * verifier->schedule->queue_count;
}

static inline void merge(uint32_t *clock, const uint32_t *other, uint32_t queue_count) {
  for (uint32_t q = 0; q < queue_count; q++)
    if (clock[q] < other[q]) clock[q] = other[q];
}

static inline uint32_t *kept_clock(const struct verifier *verifier, uint32_t run, uint32_t step) {
  return verifier->kept[run % 2] +
         (size_t)(verifier->keeps[step] - 1) * verifier->schedule->queue_count;
}

/* Adds step's waits to its queue's clock. */
static void begin_step(const struct verifier *verifier, const tdm_step *step) {
  const tdm_schedule *schedule = verifier->schedule;
  uint32_t *clock = clock_of(verifier, step->queue);
  for (uint32_t i = 0; i < step->wait_count; i++) {
    const tdm_step_wait *wait = &schedule->waits[step->first_wait + i];
    if (wait->previous && verifier->run == 0) continue;
    const uint32_t run = verifier->run - wait->previous;
    merge(clock, kept_clock(verifier, run, wait->step), schedule->queue_count);
  }
}

/* Records the step for everything that follows it on its queue or waits for it. */
static void end_step(const struct verifier *verifier, uint32_t index) {
  const tdm_schedule *schedule = verifier->schedule;
  const uint32_t queue = schedule->steps[index].queue;
  uint32_t *clock = clock_of(verifier, queue);
  clock[queue] = ++verifier->passed[queue];
  if (verifier->keeps[index] != 0) {
    memcpy(kept_clock(verifier, verifier->run, index), clock,
           schedule->queue_count * sizeof(uint32_t));
  }
}

/* Crosses the barrier between the phases: all updates know the last main step of every queue that
 * has one (ran). A queue without updates gets no knowledge: its next run may begin before. */
static void cross_barrier(const struct verifier *verifier, const bool *ran, uint32_t *together) {
  const uint32_t queue_count = verifier->schedule->queue_count;
  memset(together, 0, queue_count * sizeof(uint32_t));
  for (uint32_t q = 0; q < queue_count; q++)
    if (ran[q]) merge(together, clock_of(verifier, q), queue_count);
  for (uint32_t q = 0; q < queue_count; q++)
    if (verifier->updates[q]) merge(clock_of(verifier, q), together, queue_count);
}

/* ---- Conflicts ------------------------------------------------------------------------------- */

/* Returns the step of run 0 or later of an event, for a message; slow. */
static size_t step_of_event(const struct verifier *verifier, struct event event,
                            uint32_t *out_run) {
  const tdm_schedule *schedule = verifier->schedule;
  const uint32_t per_run = verifier->run_events[event.queue];
  *out_run = (event.index - 1) / per_run;
  size_t step = 0;
  while (schedule->steps[step].queue != event.queue ||
         verifier->indices[step] != (event.index - 1) % per_run + 1) {
    step++;
  }
  return step;
}

static tdm_status fail_unordered(const struct verifier *verifier, uint32_t step, uint32_t storage,
                                 struct event other, uint32_t other_storage) {
  uint32_t run = 0;
  const size_t other_step = step_of_event(verifier, other, &run);
  return tdm_fail(TDM_INTERNAL,
                  "step %u of run %u touches storage %u, but nothing orders it after step %zu of "
                  "run %u, which touches storage %u",
                  step, verifier->run + 1, storage, other_step, run + 1, other_storage);
}

static inline bool knows(const uint32_t *clock, struct event event) {
  return clock[event.queue] >= event.index;
}

/* Returns the first of uses that a step with clock does not know, or one with index 0. self is
 * skipped: an access in place reads before it writes, and two writes of one step are one. */
static struct event first_unknown(const struct verifier *verifier, const uint32_t *clock,
                                  const struct uses *uses, struct event self) {
  const struct event writer = uses->writer;
  const bool wrote = writer.queue == self.queue && writer.index == self.index;
  if (!wrote && !knows(clock, writer)) return writer;
  struct event reader = uses->reader;
  for (uint32_t more = uses->more;; more = verifier->further[more - 1].more) {
    const bool is_self = reader.queue == self.queue && reader.index == self.index;
    if (!is_self && !knows(clock, reader)) return reader;
    if (more == 0) return (struct event){0};
    reader = verifier->further[more - 1].reader;
  }
}

/* Checks a read, which follows the write, and records it instead of those that happened before
 * it. */
static tdm_status read_uses(struct verifier *verifier, const uint32_t *clock, uint32_t step,
                            uint32_t storage, struct event self) {
  struct uses *uses = &verifier->uses[storage];
  if (!knows(clock, uses->writer))
    return fail_unordered(verifier, step, storage, uses->writer, storage);
  struct event *reader = &uses->reader;
  uint32_t more = uses->more;
  while (!knows(clock, *reader) && more != 0) {
    reader = &verifier->further[more - 1].reader;
    more = verifier->further[more - 1].more;
  }
  if (knows(clock, *reader)) {
    *reader = self;
    return TDM_OK;
  }
  TDM_TRY(tdm_array_reserve(verifier->schedule->allocator, (void **)&verifier->further,
                            &verifier->further_capacity, verifier->further_count + 1,
                            sizeof(struct further_reader), "readers of storage"));
  verifier->further[verifier->further_count++] = (struct further_reader){self, uses->more};
  uses->more = (uint32_t)verifier->further_count;
  return TDM_OK;
}

/* Checks a write to bytes that hold or held owner's value. Readers of its whole read it too. */
static tdm_status write_over(const struct verifier *verifier, const uint32_t *clock, uint32_t step,
                             uint32_t storage, uint32_t owner, struct event self) {
  const struct event unknown = first_unknown(verifier, clock, &verifier->uses[owner],
                                             owner == storage ? self : (struct event){0});
  if (unknown.index != 0) return fail_unordered(verifier, step, storage, unknown, owner);
  const uint32_t whole = verifier->schedule->storages[owner].whole;
  if (whole == 0) return TDM_OK;
  const struct event reader =
      first_unknown(verifier, clock, &verifier->uses[whole - 1], (struct event){0});
  if (reader.index == 0) return TDM_OK;
  return fail_unordered(verifier, step, storage, reader, whole - 1);
}

/* Checks a read, which follows the writers of the storage or its parts. */
static tdm_status read_storage(struct verifier *verifier, const uint32_t *clock, uint32_t step,
                               uint32_t storage, struct event self) {
  for (uint32_t p = 1; p <= verifier->schedule->storages[storage].part_count; p++) {
    const struct event writer = verifier->uses[storage + p].writer;
    if (!knows(clock, writer)) return fail_unordered(verifier, step, storage, writer, storage + p);
  }
  return read_uses(verifier, clock, step, storage, self);
}

/* Returns true if its bytes, or those of its parts, hold its own value. */
static bool is_whole(const struct verifier *verifier, uint32_t storage) {
  const uint32_t part_count = verifier->schedule->storages[storage].part_count;
  if (part_count == 0) return tdm_bytes_whole(&verifier->bytes, storage);
  for (uint32_t p = 1; p <= part_count; p++) {
    if (!verifier->touched[storage + p] || !tdm_bytes_whole(&verifier->bytes, storage + p))
      return false;
  }
  return true;
}

static tdm_status check_arena(struct verifier *verifier, const uint32_t *clock, uint32_t step,
                              const tdm_access *access, struct event self) {
  const uint32_t storage = access->storage;
  const bool whole = is_whole(verifier, storage);
  if (!access->writes) {
    if (whole) return read_storage(verifier, clock, step, storage, self);
    return tdm_fail(TDM_INTERNAL,
                    "step %u of run %u reads storage %u, whose bytes are not written, or are "
                    "overwritten",
                    step, verifier->run + 1, storage);
  }
  if (whole) {
    TDM_TRY(write_over(verifier, clock, step, storage, storage, self));
  } else {
    uint32_t cursor = verifier->bytes.first_place[storage];
    uint32_t owner = 0;
    while (tdm_bytes_next(&verifier->bytes, storage, &cursor, &owner))
      TDM_TRY(write_over(verifier, clock, step, storage, owner, self));
    tdm_bytes_take(&verifier->bytes, storage);
  }
  verifier->uses[storage] = (struct uses){.writer = self};
  return TDM_OK;
}

static tdm_status check_access(struct verifier *verifier, uint32_t step, const tdm_access *access,
                               struct event self) {
  const uint32_t *clock = clock_of(verifier, self.queue);
  const uint32_t run = verifier->run;
  const uint8_t kind = verifier->schedule->storages[access->storage].kind;
  if (kind == TDM_STORAGE_ARENA) {
    if (run != 0 && run != verifier->slot_run) return TDM_OK;
    return check_arena(verifier, clock, step, access, self);
  }
  if (run > (kind == TDM_STORAGE_PERSISTENT)) return TDM_OK;
  if (!access->writes) return read_storage(verifier, clock, step, access->storage, self);
  TDM_TRY(write_over(verifier, clock, step, access->storage, access->storage, self));
  verifier->uses[access->storage] = (struct uses){.writer = self};
  return TDM_OK;
}

/* ---- The walk -------------------------------------------------------------------------------- */

static tdm_status walk_run(struct verifier *verifier, bool *ran, uint32_t *together) {
  const tdm_schedule *schedule = verifier->schedule;
  bool updating = !schedule->two_phase;
  memset(ran, 0, schedule->queue_count * sizeof(bool));
  for (uint32_t s = 0; s < schedule->step_count; s++) {
    const tdm_step *step = &schedule->steps[s];
    if (!updating && step->phase == TDM_PHASE_UPDATE) {
      cross_barrier(verifier, ran, together);
      updating = true;
    }
    ran[step->queue] = true;
    begin_step(verifier, step);
    const struct event self = {step->queue, verifier->passed[step->queue] + 1};
    for (uint32_t i = 0; i < step->access_count; i++) {
      const tdm_access *access = &schedule->accesses[step->first_access + i];
      TDM_TRY(check_access(verifier, s, access, self));
    }
    end_step(verifier, s);
  }
  return TDM_OK;
}

/* Chooses the runs to walk, and checks that their events can be counted. */
static tdm_status choose_runs(struct verifier *verifier) {
  const tdm_schedule *schedule = verifier->schedule;
  bool carries = false; /* persistent storage is written */
  for (size_t i = 0; i < schedule->access_count && !carries; i++) {
    const tdm_access *access = &schedule->accesses[i];
    carries = access->writes && access->storage < schedule->storage_count &&
              schedule->storages[access->storage].kind == TDM_STORAGE_PERSISTENT;
  }
  verifier->slot_run = NO_RUN;
  if (schedule->depth >= 2 && carries) verifier->last_run = 1;
  if (schedule->slots != 0 && schedule->slots < schedule->depth)
    verifier->last_run = verifier->slot_run = schedule->slots;
  const uint64_t events = ((uint64_t)verifier->last_run + 1) * schedule->step_count;
  if (events >= UINT32_MAX || schedule->storage_count > UINT32_MAX / 4) {
    return tdm_fail(TDM_UNSUPPORTED, "%zu steps with %u runs in flight are too many to verify",
                    schedule->step_count, schedule->depth);
  }
  return TDM_OK;
}

static tdm_status verifier_init(struct verifier *verifier, const tdm_schedule *schedule) {
  *verifier = (struct verifier){.schedule = schedule};
  tdm_region *region = &verifier->region;
  tdm_region_init(region, schedule->allocator);
  if (schedule->depth == 0) return tdm_fail(TDM_INTERNAL, "no run may be in flight");
  if (schedule->queue_count > QUEUES_MAX)
    return tdm_fail(TDM_UNSUPPORTED, "%u queues are too many to verify", schedule->queue_count);
  TDM_TRY(choose_runs(verifier));
  const size_t queues = schedule->queue_count;
  uint32_t *numbers = tdm_region_take(
      region, (queues * (queues + 3) + 2 * schedule->step_count) * sizeof(uint32_t), "clocks");
  verifier->uses = tdm_region_take(region, schedule->storage_count * sizeof(struct uses), "uses");
  verifier->updates = tdm_region_take(region, queues * sizeof(bool), "queues");
  verifier->touched = tdm_region_take(region, schedule->storage_count * sizeof(bool), "storage");
  verifier->waited = tdm_region_take(region, schedule->step_count * sizeof(bool), "steps");
  if (region->failed) return TDM_OUT_OF_MEMORY;
  verifier->clocks = numbers;
  verifier->passed = verifier->clocks + queues * queues;
  verifier->positions = verifier->passed + queues;
  verifier->run_events = verifier->positions + queues;
  verifier->keeps = verifier->run_events + queues;
  verifier->indices = verifier->keeps + schedule->step_count;
  return TDM_OK;
}

static void verifier_deinit(struct verifier *verifier) {
  tdm_bytes_deinit(&verifier->bytes);
  tdm_region_deinit(&verifier->region);
  tdm_release(verifier->schedule->allocator, verifier->further,
              verifier->further_capacity * sizeof(struct further_reader));
}

/* Numbers the events of run 0, and allocates the clocks that something waits for. */
static tdm_status number_events(struct verifier *verifier) {
  const tdm_schedule *schedule = verifier->schedule;
  uint32_t count = 0;
  for (size_t s = 0; s < schedule->step_count; s++) {
    if (verifier->waited[s]) verifier->keeps[s] = ++count;
    if (schedule->steps[s].phase == TDM_PHASE_UPDATE)
      verifier->updates[schedule->steps[s].queue] = true;
    verifier->indices[s] = ++verifier->run_events[schedule->steps[s].queue];
  }
  const size_t bytes = (size_t)count * schedule->queue_count * sizeof(uint32_t);
  for (uint32_t parity = 0; parity < 2 && parity <= verifier->last_run; parity++)
    verifier->kept[parity] = tdm_region_take(&verifier->region, bytes, "kept clocks");
  return verifier->region.failed ? TDM_OUT_OF_MEMORY : TDM_OK;
}

static tdm_status verify(struct verifier *verifier) {
  const tdm_schedule *schedule = verifier->schedule;
  TDM_TRY(tdm_verify_ranges(schedule, verifier->positions, verifier->touched, verifier->waited));
  TDM_TRY(tdm_bytes_init(&verifier->bytes, schedule, verifier->touched));
  TDM_TRY(number_events(verifier));
  bool *ran = tdm_region_take(&verifier->region, schedule->queue_count * sizeof(bool), "queues");
  uint32_t *together =
      tdm_region_take(&verifier->region, schedule->queue_count * sizeof(uint32_t), "queues");
  if (verifier->region.failed) return TDM_OUT_OF_MEMORY;
  for (verifier->run = 0; verifier->run <= verifier->last_run; verifier->run++)
    TDM_TRY(walk_run(verifier, ran, together));
  return TDM_OK;
}

tdm_status tdm_pass_verify(const tdm_schedule *schedule) {
  struct verifier verifier;
  tdm_status status = verifier_init(&verifier, schedule);
  if (status == TDM_OK) status = verify(&verifier);
  verifier_deinit(&verifier);
  return status;
}
