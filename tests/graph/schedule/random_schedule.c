/* Random schedules and ones like a model's. Invariant: each reads only what an earlier step wrote,
 * and writes persistent storage only in the update phase or in a refresh. */
#include "tests/graph/schedule/random_schedule.h"

#define RESERVE(builder, items, count, capacity)                                                   \
  tdm_array_reserve((builder)->schedule->allocator, (void **)&(builder)->schedule->items,          \
                    &(builder)->schedule->capacity, (builder)->schedule->count + 1,                \
                    sizeof *(builder)->schedule->items, "a test's schedule")

struct numbers numbers_of(const char *stream, uint64_t seed) {
  return (struct numbers){.random = {.seed = seed, .stream = tdm_random_stream(stream)}};
}

uint32_t numbers_below(struct numbers *numbers, uint32_t limit) {
  return (uint32_t)((uint64_t)tdm_random_uint32(&numbers->random, numbers->next++) * limit >> 32);
}

bool numbers_chance(struct numbers *numbers, uint32_t percent) {
  return numbers_below(numbers, 100) < percent;
}

/* ---- Building -------------------------------------------------------------------------------- */

uint32_t builder_storage(struct builder *builder, tdm_place_kind kind, uint32_t arena,
                         uint64_t bytes) {
  tdm_schedule *schedule = builder->schedule;
  if (builder->status == TDM_OK)
    builder->status = RESERVE(builder, storages, storage_count, storage_capacity);
  if (builder->status != TDM_OK) return 0;
  schedule->storages[schedule->storage_count] =
      (tdm_storage_plan){.kind = (uint8_t)kind, .arena = arena, .bytes = bytes};
  return (uint32_t)schedule->storage_count++;
}

uint32_t builder_whole(struct builder *builder, tdm_place_kind kind, uint32_t arena,
                       const uint64_t *part_bytes, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t p = 0; p < count; p++)
    bytes += part_bytes[p];
  const uint32_t whole = builder_storage(builder, kind, arena, bytes);
  bytes = 0;
  for (uint32_t p = 0; p < count; p++) {
    const uint32_t part = builder_storage(builder, kind, arena, part_bytes[p]);
    if (builder->status != TDM_OK) return 0;
    tdm_storage_plan *plan = &builder->schedule->storages[part];
    plan->whole = whole + 1;
    plan->within = bytes;
    bytes += part_bytes[p];
  }
  if (builder->status == TDM_OK) builder->schedule->storages[whole].part_count = count;
  return whole;
}

uint32_t builder_step(struct builder *builder, uint32_t queue, tdm_phase phase) {
  tdm_schedule *schedule = builder->schedule;
  if (builder->status == TDM_OK)
    builder->status = RESERVE(builder, steps, step_count, step_capacity);
  if (builder->status != TDM_OK) return 0;
  schedule->steps[schedule->step_count] =
      (tdm_step){.queue = queue,
                 .phase = (uint8_t)phase,
                 .first_access = (uint32_t)schedule->access_count,
                 .first_wait = (uint32_t)schedule->wait_count};
  return (uint32_t)schedule->step_count++;
}

static void builder_access(struct builder *builder, uint32_t storage, bool writes) {
  tdm_schedule *schedule = builder->schedule;
  if (builder->status == TDM_OK)
    builder->status = RESERVE(builder, accesses, access_count, access_capacity);
  if (builder->status != TDM_OK) return;
  schedule->accesses[schedule->access_count++] =
      (tdm_access){storage, writes, 0, schedule->storages[storage].bytes};
  schedule->steps[schedule->step_count - 1].access_count++;
}

void builder_reads(struct builder *builder, uint32_t storage) {
  builder_access(builder, storage, false);
}

void builder_writes(struct builder *builder, uint32_t storage) {
  builder_access(builder, storage, true);
}

void builder_wait(struct builder *builder, uint32_t step, bool previous) {
  tdm_schedule *schedule = builder->schedule;
  if (builder->status == TDM_OK)
    builder->status = RESERVE(builder, waits, wait_count, wait_capacity);
  if (builder->status != TDM_OK) return;
  schedule->waits[schedule->wait_count++] = (tdm_step_wait){step, previous};
  schedule->steps[schedule->step_count - 1].wait_count++;
}

tdm_status schedule_plan(tdm_schedule *schedule) {
  TDM_TRY(tdm_pass_schedule(schedule));
  TDM_TRY(tdm_pass_memory(schedule));
  return tdm_pass_verify(schedule);
}

/* ---- Random schedules ------------------------------------------------------------------------ */

#define STATES_MAX 8
#define EXTERNALS_MAX 4
#define PARTS_MAX 4

struct drawing {
  struct builder builder;
  struct numbers numbers;
  struct random_limits limits;
  bool local; /* steps mostly read recently written values */
  uint32_t states[STATES_MAX], state_count;
  uint32_t externals[EXTERNALS_MAX], external_count; /* the first is an input, the rest outputs */
  uint32_t first_value, end_value;                   /* written values are storages from here on */
};

static uint64_t draw_bytes(struct drawing *drawing) {
  const uint32_t power = numbers_below(&drawing->numbers, 9);
  return 1 + numbers_below(&drawing->numbers, 64u << power);
}

static uint32_t draw_value(struct drawing *drawing) {
  const uint32_t count = drawing->end_value - drawing->first_value;
  uint32_t back = numbers_below(&drawing->numbers, count);
  if (drawing->local && numbers_chance(&drawing->numbers, 90)) back %= count < 8 ? count : 8;
  return drawing->first_value + count - 1 - back;
}

static bool has_values(const struct drawing *drawing) {
  return drawing->end_value > drawing->first_value;
}

/* The reads of a step of either phase. */
static void draw_reads(struct drawing *drawing) {
  struct builder *builder = &drawing->builder;
  struct numbers *numbers = &drawing->numbers;
  for (uint32_t reads = numbers_below(numbers, 4); reads > 0; reads--)
    if (has_values(drawing)) builder_reads(builder, draw_value(drawing));
  if (drawing->state_count > 0 && numbers_chance(numbers, 30))
    builder_reads(builder, drawing->states[numbers_below(numbers, drawing->state_count)]);
  if (numbers_chance(numbers, 10)) builder_reads(builder, drawing->externals[0]);
}

static void draw_refresh(struct drawing *drawing, uint32_t step) {
  const uint32_t which = numbers_below(&drawing->numbers, drawing->state_count);
  drawing->builder.schedule->steps[step].refresh = true;
  builder_reads(&drawing->builder, drawing->states[(which + 1) % drawing->state_count]);
  builder_writes(&drawing->builder, drawing->states[which]);
}

/* Draws a value that several steps compute together, each on a separate queue, some of them reading
 * parts of others. */
static void draw_parts(struct drawing *drawing, uint32_t count) {
  struct builder *builder = &drawing->builder;
  struct numbers *numbers = &drawing->numbers;
  uint64_t bytes[PARTS_MAX];
  for (uint32_t p = 0; p < count; p++)
    bytes[p] = draw_bytes(drawing);
  const tdm_place_kind kind =
      numbers_chance(numbers, 15) ? TDM_STORAGE_EXTERNAL : TDM_STORAGE_ARENA;
  const uint32_t arena = numbers_below(numbers, builder->schedule->arena_count);
  const uint32_t whole = builder_whole(builder, kind, arena, bytes, count);
  for (uint32_t p = 0; p < count; p++) {
    (void)builder_step(builder, numbers_below(numbers, builder->schedule->queue_count),
                       TDM_PHASE_MAIN);
    if (builder->status != TDM_OK) return;
    draw_reads(drawing);
    builder_writes(builder, whole + 1 + p);
  }
}

static void draw_main_step(struct drawing *drawing) {
  struct builder *builder = &drawing->builder;
  struct numbers *numbers = &drawing->numbers;
  const uint32_t queue = numbers_below(numbers, builder->schedule->queue_count);
  const uint32_t step = builder_step(builder, queue, TDM_PHASE_MAIN);
  if (builder->status != TDM_OK) return;
  if (drawing->state_count > 1 && numbers_chance(numbers, 5)) {
    draw_refresh(drawing, step);
    return;
  }
  draw_reads(drawing);
  if (has_values(drawing) && numbers_chance(numbers, 10)) {
    uint32_t value = draw_value(drawing); /* value that is written in place */
    if (builder->schedule->storages[value].part_count > 0) value++;
    const bool part = builder->schedule->storages[value].whole != 0;
    const bool alone = builder->schedule->steps[step].access_count == 0;
    builder_reads(builder, value);
    if (!part || alone) builder_writes(builder, value); /* another read may read the whole */
    return;
  }
  if (numbers_chance(numbers, 8)) {
    const uint32_t output = 1 + numbers_below(numbers, drawing->external_count - 1);
    builder_writes(builder, drawing->externals[output]);
    return;
  }
  const uint32_t arena = numbers_chance(numbers, 80)
                             ? queue % builder->schedule->arena_count
                             : numbers_below(numbers, builder->schedule->arena_count);
  for (uint32_t writes = 1 + numbers_chance(numbers, 15); writes > 0; writes--) {
    builder_writes(builder,
                   builder_storage(builder, TDM_STORAGE_ARENA, arena, draw_bytes(drawing)));
  }
}

static void draw_update_step(struct drawing *drawing) {
  struct builder *builder = &drawing->builder;
  struct numbers *numbers = &drawing->numbers;
  const uint32_t queue = numbers_below(numbers, builder->schedule->queue_count);
  (void)builder_step(builder, queue, TDM_PHASE_UPDATE);
  if (builder->status != TDM_OK) return;
  draw_reads(drawing);
  const uint32_t state = drawing->states[numbers_below(numbers, drawing->state_count)];
  if (numbers_chance(numbers, 70)) builder_reads(builder, state);
  builder_writes(builder, state);
}

static void draw_storages(struct drawing *drawing) {
  struct builder *builder = &drawing->builder;
  struct numbers *numbers = &drawing->numbers;
  drawing->state_count = numbers_below(numbers, STATES_MAX + 1);
  for (uint32_t i = 0; i < drawing->state_count; i++)
    drawing->states[i] = builder_storage(builder, TDM_STORAGE_PERSISTENT, 0, draw_bytes(drawing));
  drawing->external_count = 2 + numbers_below(numbers, EXTERNALS_MAX - 1);
  for (uint32_t i = 0; i < drawing->external_count; i++)
    drawing->externals[i] = builder_storage(builder, TDM_STORAGE_EXTERNAL, 0, draw_bytes(drawing));
  drawing->first_value = drawing->end_value = (uint32_t)builder->schedule->storage_count;
}

tdm_status random_schedule(tdm_schedule *schedule, uint64_t seed, struct random_limits limits) {
  struct drawing drawing = {.builder = {schedule, TDM_OK},
                            .numbers = numbers_of("random_schedule", seed),
                            .limits = limits};
  struct numbers *numbers = &drawing.numbers;
  schedule->queue_count = 1 + numbers_below(numbers, limits.queues);
  schedule->arena_count = 1 + numbers_below(numbers, limits.arenas);
  schedule->depth = 1 + numbers_below(numbers, limits.depth);
  drawing.local = numbers_chance(numbers, 60);
  draw_storages(&drawing);
  const uint32_t steps = 1 + numbers_below(numbers, limits.steps);
  uint32_t updates = 0;
  if (drawing.state_count > 0 && numbers_chance(numbers, 70))
    updates = numbers_below(numbers, steps / 3 + 1);
  schedule->two_phase = schedule->queue_count > 1 && updates > 0;
  while (schedule->step_count < steps - updates && drawing.builder.status == TDM_OK) {
    const size_t left = steps - updates - schedule->step_count;
    const uint32_t parts = 2 + numbers_below(numbers, PARTS_MAX - 1);
    if (parts <= left && numbers_chance(numbers, 6))
      draw_parts(&drawing, parts);
    else
      draw_main_step(&drawing);
    drawing.end_value = (uint32_t)schedule->storage_count;
  }
  for (uint32_t s = 0; s < updates; s++)
    draw_update_step(&drawing);
  return drawing.builder.status;
}
