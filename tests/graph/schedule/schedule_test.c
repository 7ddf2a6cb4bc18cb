/* The pass schedule: which waits each kind of conflict needs, which are implied by others, and that
 * every wait of many plans is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/graph/schedule/random_schedule.h"

struct fixture {
  tdm_allocator allocator;
  tdm_schedule schedule;
  struct builder builder;
};

static void begin(struct fixture *fixture, uint32_t queue_count) {
  fixture->allocator = tdm_allocator_default();
  tdm_schedule_init(&fixture->schedule, &fixture->allocator);
  fixture->schedule.queue_count = queue_count;
  fixture->schedule.arena_count = 1;
  fixture->builder = (struct builder){&fixture->schedule, TDM_OK};
}

static void plan(struct fixture *fixture) {
  assert_int_equal(fixture->builder.status, TDM_OK);
  const tdm_status status = schedule_plan(&fixture->schedule);
  if (status != TDM_OK) fail_msg("%s", tdm_last_message());
}

/* text: the waits of a step in order, like "0 3 p4"; p of the previous run. */
static void assert_waits(const struct fixture *fixture, uint32_t step, const char *text) {
  char found[128] = "";
  size_t length = 0;
  const tdm_step *self = &fixture->schedule.steps[step];
  for (uint32_t i = 0; i < self->wait_count; i++) {
    const tdm_step_wait *wait = &fixture->schedule.waits[self->first_wait + i];
    length += (size_t)snprintf(found + length, sizeof found - length, "%s%s%u", i == 0 ? "" : " ",
                               wait->previous ? "p" : "", wait->step);
  }
  assert_string_equal(found, text);
}

static uint32_t storage(struct fixture *fixture, tdm_place_kind kind) {
  return builder_storage(&fixture->builder, kind, 0, 256);
}

static void step(struct fixture *fixture, uint32_t queue, tdm_phase phase) {
  (void)builder_step(&fixture->builder, queue, phase);
}

static void conflicts_across_queues_wait(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 3);
  const uint32_t value = storage(&f, TDM_STORAGE_ARENA);
  step(&f, 0, TDM_PHASE_MAIN); /* 0 writes */
  builder_writes(&f.builder, value);
  step(&f, 1, TDM_PHASE_MAIN); /* 1 reads: after 0 */
  builder_reads(&f.builder, value);
  step(&f, 2, TDM_PHASE_MAIN); /* 2 reads: after 0, unordered with 1 */
  builder_reads(&f.builder, value);
  step(&f, 0, TDM_PHASE_MAIN); /* 3 writes: after both reads */
  builder_writes(&f.builder, value);
  step(&f, 1, TDM_PHASE_MAIN); /* 4 writes: after 3 */
  builder_writes(&f.builder, value);
  plan(&f);
  plan(&f); /* again: earlier results are discarded */
  assert_waits(&f, 0, "");
  assert_waits(&f, 1, "0");
  assert_waits(&f, 2, "0");
  assert_waits(&f, 3, "2 1");
  assert_waits(&f, 4, "3");
  assert_int_equal(f.schedule.steps[3].position, 1);
  assert_int_equal(f.schedule.steps[4].position, 1);
  tdm_schedule_deinit(&f.schedule);
  tdm_schedule_deinit(&f.schedule); /* it holds nothing */
}

static void waits_that_others_imply_are_left_out(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 3);
  const uint32_t a = storage(&f, TDM_STORAGE_ARENA);
  const uint32_t b = storage(&f, TDM_STORAGE_ARENA);
  step(&f, 0, TDM_PHASE_MAIN); /* step 0 writes a */
  builder_writes(&f.builder, a);
  step(&f, 1, TDM_PHASE_MAIN); /* step 1 computes b from a */
  builder_reads(&f.builder, a);
  builder_writes(&f.builder, b);
  step(&f, 2, TDM_PHASE_MAIN); /* step 2 reads both, waits for step 1 only */
  builder_reads(&f.builder, a);
  builder_reads(&f.builder, b);
  step(&f, 2, TDM_PHASE_MAIN); /* step 3 reads both, on a queue that has already waited */
  builder_reads(&f.builder, a);
  builder_reads(&f.builder, b);
  plan(&f);
  assert_waits(&f, 1, "0");
  assert_waits(&f, 2, "1");
  assert_waits(&f, 3, "");
  tdm_schedule_deinit(&f.schedule);
}

static void one_queue_needs_no_waits(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  assert_int_equal(model_schedule(&f.schedule, (struct model){9, 1, true, 3, 0}), TDM_OK);
  plan(&f);
  assert_int_equal(f.schedule.wait_count, 0);
  tdm_schedule_deinit(&f.schedule);
}

/* Weights w are read on queue 0 and updated on queue 1, from a gradient of queue 0. */
static void begin_training(struct fixture *f, uint32_t depth) {
  begin(f, 2);
  f->schedule.depth = depth;
  f->schedule.two_phase = true;
  const uint32_t weights = storage(f, TDM_STORAGE_PERSISTENT);
  const uint32_t gradient = storage(f, TDM_STORAGE_ARENA);
  step(f, 0, TDM_PHASE_MAIN);
  builder_reads(&f->builder, weights);
  builder_writes(&f->builder, gradient);
  step(f, 0, TDM_PHASE_MAIN);
  builder_reads(&f->builder, weights);
  step(f, 1, TDM_PHASE_UPDATE);
  builder_reads(&f->builder, gradient);
  builder_writes(&f->builder, weights);
  plan(f);
}

static void the_barrier_orders_updates(void **state) {
  (void)state;
  struct fixture f;
  begin_training(&f, 1);
  assert_waits(&f, 2, "");
  tdm_schedule_deinit(&f.schedule);
}

/* A plan with only updates begins with the barrier, which orders nothing before them. */
static void updates_may_come_first(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  f.schedule.two_phase = true;
  const uint32_t weight = storage(&f, TDM_STORAGE_PERSISTENT);
  step(&f, 0, TDM_PHASE_UPDATE);
  builder_writes(&f.builder, weight);
  step(&f, 1, TDM_PHASE_UPDATE);
  builder_reads(&f.builder, weight);
  plan(&f);
  assert_waits(&f, 0, "");
  assert_waits(&f, 1, "0");
  tdm_schedule_deinit(&f.schedule);
}

static void runs_in_flight_wait_for_the_one_before(void **state) {
  (void)state;
  struct fixture f;
  for (uint32_t depth = 1; depth <= 4; depth++) {
    begin_training(&f, depth);
    assert_waits(&f, 0, depth == 1 ? "" : "p2");
    assert_waits(&f, 1, "");
    assert_waits(&f, 2, "");
    tdm_schedule_deinit(&f.schedule);
  }
}

static void a_refresh_waits_for_readers_of_the_run_before(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  f.schedule.depth = 2;
  const uint32_t source = storage(&f, TDM_STORAGE_PERSISTENT);
  const uint32_t derived = storage(&f, TDM_STORAGE_PERSISTENT);
  step(&f, 0, TDM_PHASE_MAIN);
  f.schedule.steps[0].refresh = true;
  builder_reads(&f.builder, source);
  builder_writes(&f.builder, derived);
  step(&f, 1, TDM_PHASE_MAIN);
  builder_reads(&f.builder, derived);
  plan(&f);
  assert_waits(&f, 0, "p1");
  assert_waits(&f, 1, "0");
  tdm_schedule_deinit(&f.schedule);
}

static void inputs_and_slots_need_no_order(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  f.schedule.depth = 3;
  const uint32_t input = storage(&f, TDM_STORAGE_EXTERNAL);
  const uint32_t output = storage(&f, TDM_STORAGE_EXTERNAL);
  const uint32_t value = storage(&f, TDM_STORAGE_ARENA);
  step(&f, 0, TDM_PHASE_MAIN);
  builder_reads(&f.builder, input);
  builder_writes(&f.builder, value);
  step(&f, 1, TDM_PHASE_MAIN);
  builder_reads(&f.builder, input);
  builder_writes(&f.builder, output);
  step(&f, 0, TDM_PHASE_MAIN);
  builder_reads(&f.builder, output); /* written in this run: after it */
  plan(&f);
  assert_waits(&f, 0, "");
  assert_waits(&f, 1, "");
  assert_waits(&f, 2, "1");
  tdm_schedule_deinit(&f.schedule);
}

static void scheduling_again_gives_the_same(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  assert_int_equal(model_schedule(&f.schedule, (struct model){12, 6, true, 2, 3}), TDM_OK);
  plan(&f);
  const size_t wait_count = f.schedule.wait_count;
  tdm_step_wait waits[256];
  assert_in_range(wait_count, 1, TDM_COUNT_OF(waits));
  memcpy(waits, f.schedule.waits, wait_count * sizeof(tdm_step_wait));
  plan(&f);
  assert_int_equal(f.schedule.wait_count, wait_count);
  assert_memory_equal(f.schedule.waits, waits, wait_count * sizeof(tdm_step_wait));
  tdm_schedule_deinit(&f.schedule);
}

/* Takes away each wait in turn: verify must object. Returns how many there were. */
static size_t assert_every_wait_needed(tdm_schedule *schedule, int seed) {
  for (size_t s = 0; s < schedule->step_count; s++) {
    tdm_step *self = &schedule->steps[s];
    tdm_step_wait *waits = schedule->waits + self->first_wait;
    for (uint32_t i = 0; i < self->wait_count; i++) {
      const tdm_step_wait removed = waits[i];
      waits[i] = waits[self->wait_count - 1];
      self->wait_count--;
      if (tdm_pass_verify(schedule) != TDM_INTERNAL) {
        fail_msg("plan %d: step %zu does without its wait for %s%u", seed, s,
                 removed.previous ? "p" : "", removed.step);
      }
      self->wait_count++;
      waits[self->wait_count - 1] = waits[i];
      waits[i] = removed;
    }
  }
  assert_int_equal(tdm_pass_verify(schedule), TDM_OK);
  return schedule->wait_count;
}

static void every_wait_of_models_is_needed(void **state) {
  (void)state;
  size_t waits = 0;
  for (uint32_t i = 0; i < 2 * 3 * 3; i++) {
    struct fixture f;
    begin(&f, 1);
    const struct model model = {14, 2 + i / 6 * 2, i % 2 == 0, 1 + i / 2 % 3, i};
    assert_int_equal(model_schedule(&f.schedule, model), TDM_OK);
    plan(&f);
    waits += assert_every_wait_needed(&f.schedule, (int)i);
    tdm_schedule_deinit(&f.schedule);
  }
  assert_true(waits > 100);
}

static void every_wait_of_random_plans_is_needed(void **state) {
  (void)state;
  size_t waits = 0;
  for (uint64_t seed = 0; seed < 400; seed++) {
    struct fixture f;
    begin(&f, 1);
    const struct random_limits limits = {60, 6, 3, 3};
    assert_int_equal(random_schedule(&f.schedule, seed, limits), TDM_OK);
    plan(&f);
    waits += assert_every_wait_needed(&f.schedule, (int)seed);
    tdm_schedule_deinit(&f.schedule);
  }
  assert_true(waits > 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conflicts_across_queues_wait),
      cmocka_unit_test(waits_that_others_imply_are_left_out),
      cmocka_unit_test(one_queue_needs_no_waits),
      cmocka_unit_test(the_barrier_orders_updates),
      cmocka_unit_test(updates_may_come_first),
      cmocka_unit_test(runs_in_flight_wait_for_the_one_before),
      cmocka_unit_test(a_refresh_waits_for_readers_of_the_run_before),
      cmocka_unit_test(inputs_and_slots_need_no_order),
      cmocka_unit_test(scheduling_again_gives_the_same),
      cmocka_unit_test(every_wait_of_models_is_needed),
      cmocka_unit_test(every_wait_of_random_plans_is_needed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
