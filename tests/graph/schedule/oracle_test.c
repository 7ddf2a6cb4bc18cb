/* The pass verify and the oracle agree on twelve thousand random plans: as the passes made them,
 * and changed in the ways a defect would change them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/graph/schedule/oracle.h"
#include "tests/graph/schedule/random_schedule.h"

#define PLANS 12000

enum mutation {
  NONE,
  REMOVE_WAIT,
  MOVE_WAIT,
  OVERLAP_OFFSETS,
  ALIAS_SLOTS,
  DEEPEN,
  MOVE_ACCESS,
  FLIP_ACCESS,
  MOVE_STEP,
  DROP_PHASES,
  MUTATION_COUNT
};

static const char *const mutation_names[] = {
    "none",   "remove a wait", "move a wait", "overlap offsets", "alias slots",
    "deepen", "move access",   "flip access", "move to a queue", "drop phases"};

static void number_positions(tdm_schedule *schedule) {
  for (size_t s = 0; s < schedule->step_count; s++) {
    schedule->steps[s].position = 0;
    for (size_t other = 0; other < s; other++) {
      schedule->steps[s].position += schedule->steps[other].queue == schedule->steps[s].queue &&
                                     schedule->steps[other].phase == schedule->steps[s].phase;
    }
  }
}

/* A step with waits; NULL when there is none. */
static tdm_step *draw_waiting_step(tdm_schedule *schedule, struct numbers *numbers) {
  const uint32_t count = (uint32_t)schedule->step_count;
  const uint32_t from = numbers_below(numbers, count);
  for (uint32_t i = 0; i < count; i++) {
    tdm_step *step = &schedule->steps[(from + i) % count];
    if (step->wait_count > 0) return step;
  }
  return NULL;
}

static void mutate_wait(tdm_schedule *schedule, struct numbers *numbers, enum mutation mutation) {
  tdm_step *step = draw_waiting_step(schedule, numbers);
  if (!step) return;
  tdm_step_wait *waits = schedule->waits + step->first_wait;
  tdm_step_wait *wait = &waits[numbers_below(numbers, step->wait_count)];
  if (mutation == REMOVE_WAIT) {
    *wait = waits[--step->wait_count];
  } else {
    wait->step = numbers_below(numbers, (uint32_t)schedule->step_count);
  }
}

static void overlap_offsets(tdm_schedule *schedule, struct numbers *numbers) {
  const uint32_t count = (uint32_t)schedule->storage_count;
  tdm_storage_plan *plan = &schedule->storages[numbers_below(numbers, count)];
  const tdm_storage_plan *other = &schedule->storages[numbers_below(numbers, count)];
  if (plan->kind != TDM_STORAGE_ARENA || other->kind != TDM_STORAGE_ARENA) return;
  if (plan->arena != other->arena) return;
  plan->offset = other->offset / 64 * 64;
  if (numbers_chance(numbers, 30) && plan->offset >= 64) plan->offset -= 64;
  for (uint32_t p = 1; p <= plan->part_count && numbers_chance(numbers, 90); p++)
    plan[p].offset = plan->offset + plan[p].within;
  uint64_t *arena_bytes = &schedule->arena_bytes[plan->arena];
  if (*arena_bytes < plan->offset + plan->bytes && numbers_chance(numbers, 90))
    *arena_bytes = plan->offset + plan->bytes;
}

static void mutate_access(tdm_schedule *schedule, struct numbers *numbers, enum mutation mutation) {
  if (schedule->access_count == 0) return;
  const uint32_t which = numbers_below(numbers, (uint32_t)schedule->access_count);
  tdm_access *access = &schedule->accesses[which];
  if (mutation == MOVE_ACCESS) {
    access->storage = numbers_below(numbers, (uint32_t)schedule->storage_count);
    if (numbers_chance(numbers, 80)) access->bytes = schedule->storages[access->storage].bytes;
  } else {
    access->writes = !access->writes;
  }
}

static void mutate(tdm_schedule *schedule, struct numbers *numbers, enum mutation mutation) {
  switch (mutation) {
  case REMOVE_WAIT:
  case MOVE_WAIT:
    mutate_wait(schedule, numbers, mutation);
    break;
  case OVERLAP_OFFSETS:
    overlap_offsets(schedule, numbers);
    break;
  case ALIAS_SLOTS:
    schedule->slots = 1 + numbers_below(numbers, schedule->depth);
    break;
  case DEEPEN:
    schedule->depth += 1;
    break;
  case MOVE_ACCESS:
  case FLIP_ACCESS:
    mutate_access(schedule, numbers, mutation);
    break;
  case MOVE_STEP:
    schedule->steps[numbers_below(numbers, (uint32_t)schedule->step_count)].queue =
        numbers_below(numbers, schedule->queue_count);
    number_positions(schedule);
    break;
  case DROP_PHASES:
    schedule->two_phase = false;
    break;
  default:
    break;
  }
}

static void verify_agrees_with_the_oracle(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  size_t counts[MUTATION_COUNT][2] = {{0}}; /* (mutation, 2): numbers of rejected and of valid
                                             * schedules */
  for (uint64_t seed = 0; seed < PLANS; seed++) {
    const enum mutation mutation = (enum mutation)(seed % MUTATION_COUNT);
    struct numbers numbers = numbers_of("mutation", seed);
    tdm_schedule schedule;
    tdm_schedule_init(&schedule, &allocator);
    assert_int_equal(random_schedule(&schedule, seed, (struct random_limits){22, 4, 2, 3}), TDM_OK);
    assert_int_equal(tdm_pass_schedule(&schedule), TDM_OK);
    assert_int_equal(tdm_pass_memory(&schedule), TDM_OK);
    for (uint32_t times = 1 + numbers_below(&numbers, 2); times > 0; times--)
      mutate(&schedule, &numbers, mutation);
    const oracle_answer answer = oracle_judge(&schedule);
    const tdm_status status = tdm_pass_verify(&schedule);
    if (answer.valid != (status == TDM_OK)) {
      fail_msg("seed %d (%s): the oracle says %s, verify %s", (int)seed, mutation_names[mutation],
               answer.valid ? "valid" : answer.why, status == TDM_OK ? "OK" : tdm_last_message());
    }
    if (status != TDM_OK) assert_int_equal(status, TDM_INTERNAL);
    counts[mutation][answer.valid]++;
    tdm_schedule_deinit(&schedule);
  }
  assert_int_equal(counts[NONE][false], 0);
  for (int m = NONE + 1; m < MUTATION_COUNT; m++) {
    print_message("%s: %zu rejected, %zu valid\n", mutation_names[m], counts[m][false],
                  counts[m][true]);
    assert_true(counts[m][false] >= 50);
    assert_true(counts[m][true] >= 50);
  }
}

/* Tests the oracle on plans that are small enough to verify by hand. */
static void the_oracle_knows_simple_plans(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_schedule schedule;
  tdm_schedule_init(&schedule, &allocator);
  schedule.queue_count = 2;
  schedule.arena_count = 1;
  struct builder builder = {&schedule, TDM_OK};
  const uint32_t value = builder_storage(&builder, TDM_STORAGE_ARENA, 0, 100);
  (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
  builder_writes(&builder, value);
  (void)builder_step(&builder, 1, TDM_PHASE_MAIN);
  builder_reads(&builder, value);
  uint64_t arena_bytes = 100;
  schedule.arena_bytes = &arena_bytes;
  assert_int_equal(builder.status, TDM_OK);
  assert_false(oracle_judge(&schedule).valid);
  builder_wait(&builder, 0, false);
  assert_true(oracle_judge(&schedule).valid);
  schedule.depth = 2;
  assert_true(oracle_judge(&schedule).valid);
  schedule.slots = 1;
  assert_false(oracle_judge(&schedule).valid);
  schedule.depth = 1;
  arena_bytes = 99;
  assert_false(oracle_judge(&schedule).valid);
  arena_bytes = 100;
  schedule.accesses[0].writes = false;
  assert_false(oracle_judge(&schedule).valid);
  schedule.arena_bytes = NULL;
  tdm_schedule_deinit(&schedule);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_oracle_knows_simple_plans),
      cmocka_unit_test(verify_agrees_with_the_oracle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
