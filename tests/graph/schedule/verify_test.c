/* The pass verify: each kind of wrong plan is refused with a message that names the mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/graph/schedule/random_schedule.h"

/* The training plan of these tests has four steps. Step 0 loads x on queue 1. The others are on
 * queue 0: step 1 computes y from x, step 2 computes g from y into the bytes of x, and step 3
 * updates w with g. */
enum { X, Y, G, W, INPUT, STORAGE_COUNT };

struct fixture {
  tdm_allocator allocator;
  tdm_schedule schedule;
};

static void begin(struct fixture *fixture) {
  fixture->allocator = tdm_allocator_default();
  tdm_schedule *schedule = &fixture->schedule;
  tdm_schedule_init(schedule, &fixture->allocator);
  schedule->queue_count = 2;
  schedule->arena_count = 1;
  schedule->depth = 2;
  schedule->two_phase = true;
  struct builder builder = {schedule, TDM_OK};
  for (int i = 0; i < W; i++)
    (void)builder_storage(&builder, TDM_STORAGE_ARENA, 0, 128);
  (void)builder_storage(&builder, TDM_STORAGE_PERSISTENT, 0, 128);
  (void)builder_storage(&builder, TDM_STORAGE_EXTERNAL, 0, 128);
  (void)builder_step(&builder, 1, TDM_PHASE_MAIN);
  builder_reads(&builder, INPUT);
  builder_writes(&builder, X);
  (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
  builder_reads(&builder, X);
  builder_reads(&builder, W);
  builder_writes(&builder, Y);
  (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
  builder_reads(&builder, Y);
  builder_writes(&builder, G);
  (void)builder_step(&builder, 0, TDM_PHASE_UPDATE);
  builder_reads(&builder, G);
  builder_writes(&builder, W);
  assert_int_equal(builder.status, TDM_OK);
  const tdm_status status = schedule_plan(schedule);
  if (status != TDM_OK) fail_msg("%s", tdm_last_message());
  assert_int_equal(schedule->wait_count, 1);
  assert_int_equal(schedule->arena_bytes[0], 256);
}

static void assert_refused(struct fixture *fixture, const char *reason) {
  assert_int_equal(tdm_pass_verify(&fixture->schedule), TDM_INTERNAL);
  if (!strstr(tdm_last_message(), reason))
    fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), reason);
  tdm_schedule_deinit(&fixture->schedule);
}

/* Changes one thing of the plan, and expects that verify refuses it with this reason. */
#define REFUSES(change, reason)                                                                    \
  do {                                                                                             \
    struct fixture fixture;                                                                        \
    begin(&fixture);                                                                               \
    tdm_schedule *plan = &fixture.schedule;                                                        \
    (void)plan;                                                                                    \
    change;                                                                                        \
    assert_refused(&fixture, reason);                                                              \
  } while (0)

static void indices_out_of_range_are_refused(void **state) {
  (void)state;
  REFUSES(plan->steps[1].queue = 2, "step 1 is on queue 2 of 2");
  REFUSES(plan->steps[1].access_count = 50, "step 1 has accesses past the last");
  REFUSES(plan->steps[1].first_access = UINT32_MAX, "step 1 has accesses past the last");
  REFUSES(plan->accesses[0].storage = STORAGE_COUNT, "step 0 touches storage 5 of 5");
  REFUSES(plan->steps[1].wait_count = 2, "step 1 has waits past the last");
  REFUSES(plan->waits[0].step = 4, "step 1 waits for step 4 of 4");
  REFUSES(plan->storages[X].arena = 1, "storage 0 lies in arena 1 of 1");
  REFUSES(plan->storages[X].kind = 9, "storage 0 has no kind");
  REFUSES(plan->storages[X].offset = 32, "storage 0 lies at 32");
  REFUSES(plan->storages[Y].offset = 192, "leaves arena 0 of 256 bytes");
  REFUSES(plan->storages[Y].bytes = UINT64_MAX, "leaves arena 0 of 256 bytes");
  REFUSES(plan->storages[Y].offset = UINT64_MAX - 63, "leaves arena 0 of 256 bytes");
  REFUSES(plan->arena_bytes[0] = UINT64_MAX, "arena 0 has");
  REFUSES((plan->storages[X].bytes = plan->accesses[1].bytes = plan->accesses[2].bytes = 0),
          "storage 0 (0 bytes at");
  REFUSES(plan->steps[2].position = 0, "step 2 has position 0 on its queue, not 1");
  REFUSES(plan->depth = 0, "no run");
  REFUSES(plan->accesses[1].storage = 99, "step 0 touches storage 99 of 5");
  REFUSES(plan->steps[3].phase = 7, "step 3 of the main phase follows");
  REFUSES(plan->storages[X].whole = W + 1, "storage 0 is no part of storage 3");
  REFUSES(plan->storages[W].whole = X + 1, "storage 3 is no part of storage 0");
}

static void accesses_beyond_their_storage_are_refused(void **state) {
  (void)state;
  REFUSES(plan->accesses[0].begin = 1,
          "step 0 touches 128 bytes from byte 1 of storage 4, which has 128");
  REFUSES(plan->accesses[1].bytes = 129,
          "step 0 touches 129 bytes from byte 0 of storage 0, which has 128");
  REFUSES((plan->accesses[2].begin = 64, plan->accesses[2].bytes = 65),
          "step 1 touches 65 bytes from byte 64 of storage 0");
  REFUSES(plan->accesses[3].begin = UINT64_MAX, "of storage 3, which has 128");
  REFUSES(plan->accesses[4].bytes = UINT64_MAX, "of storage 1, which has 128");
  REFUSES((plan->accesses[5].begin = UINT64_MAX - 7, plan->accesses[5].bytes = 8),
          "of storage 1, which has 128");
  REFUSES((plan->accesses[8].begin = 1, plan->accesses[8].bytes = UINT64_MAX), "step 3 touches");
  REFUSES((plan->accesses[8].begin = 129, plan->accesses[8].bytes = 0),
          "step 3 touches 0 bytes from byte 129 of storage 3, which has 128");
}

/* More events, storages or queues than its numbers and clocks have room for. */
static void what_is_too_much_to_verify_is_told(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  tdm_schedule *plan = &fixture.schedule;
  plan->queue_count = 65537;
  assert_int_equal(tdm_pass_verify(plan), TDM_UNSUPPORTED);
  assert_non_null(strstr(tdm_last_message(), "65537 queues"));
  plan->queue_count = 2;
  plan->depth = UINT32_MAX;
  plan->slots = UINT32_MAX - 1;
  assert_int_equal(tdm_pass_verify(plan), TDM_UNSUPPORTED);
  assert_non_null(strstr(tdm_last_message(), "4294967295 runs in flight"));
  plan->depth = 2;
  plan->slots = 0;
  const size_t count = plan->storage_count;
  plan->storage_count = UINT32_MAX / 4 + (size_t)1;
  assert_int_equal(tdm_pass_verify(plan), TDM_UNSUPPORTED);
  plan->storage_count = count;
  uint64_t *bytes = plan->arena_bytes;
  plan->arena_bytes = NULL;
  assert_int_equal(tdm_pass_verify(plan), TDM_INTERNAL);
  assert_non_null(strstr(tdm_last_message(), "arena 0 of 0"));
  uint64_t sizes[] = {INT64_MAX, 256};
  plan->arena_bytes = sizes;
  plan->arena_count = 2;
  assert_int_equal(tdm_pass_verify(plan), TDM_INTERNAL);
  assert_non_null(strstr(tdm_last_message(), "arena 1 has 256 bytes"));
  plan->arena_bytes = bytes;
  plan->arena_count = 1;
  assert_int_equal(tdm_pass_verify(plan), TDM_OK);
  tdm_schedule_deinit(plan);
}

/* Checks offsets in arenas of up to INT64_MAX bytes. */
static void arenas_may_be_as_large_as_can_be_counted(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  tdm_schedule *plan = &fixture.schedule;
  plan->arena_bytes[0] = INT64_MAX;
  plan->storages[Y].offset = (uint64_t)1 << 62;
  plan->storages[G].offset = ((uint64_t)1 << 62) + 128;
  assert_int_equal(tdm_pass_verify(plan), TDM_OK);
  plan->storages[G].offset = ((uint64_t)1 << 62) + 64;
  assert_refused(&fixture, "storage 2");
}

/* Uses as many places as fill the lower level of the bitmap to its last word. */
static void many_storages_side_by_side_are_accepted(void **state) {
  (void)state;
  enum { STORAGES = 64 * 64 - 1 };
  struct fixture fixture;
  fixture.allocator = tdm_allocator_default();
  tdm_schedule *schedule = &fixture.schedule;
  tdm_schedule_init(schedule, &fixture.allocator);
  schedule->queue_count = schedule->arena_count = 1;
  struct builder builder = {schedule, TDM_OK};
  for (uint32_t i = 0; i < STORAGES; i++)
    (void)builder_storage(&builder, TDM_STORAGE_ARENA, 0, 64);
  for (int reads = 0; reads < 2; reads++) {
    (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
    for (uint32_t i = 0; i < STORAGES; i++) {
      if (reads) builder_reads(&builder, i);
      if (!reads) builder_writes(&builder, i);
    }
  }
  assert_int_equal(builder.status, TDM_OK);
  assert_int_equal(schedule_plan(schedule), TDM_OK);
  assert_int_equal(schedule->arena_bytes[0], STORAGES * 64);
  schedule->storages[STORAGES - 1].offset = schedule->storages[STORAGES - 2].offset;
  assert_refused(&fixture, "step 0 of run 1 touches storage 4094");
}

/* A view of nothing may begin where its storage ends. */
static void parts_of_a_storage_are_accepted(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  tdm_access *accesses = fixture.schedule.accesses;
  accesses[0].begin = 128;
  accesses[0].bytes = 0;
  accesses[2].begin = 64;
  accesses[2].bytes = 64;
  assert_int_equal(tdm_pass_verify(&fixture.schedule), TDM_OK);
  tdm_schedule_deinit(&fixture.schedule);
}

static void waits_that_never_end_are_refused(void **state) {
  (void)state;
  REFUSES(plan->waits[0].step = 1, "step 1 waits for step 1, which does not come before it");
  REFUSES(plan->waits[0].step = 3, "step 1 waits for step 3, which does not come before it");
  REFUSES((plan->waits[0].previous = true, plan->waits[0].step = 2),
          "step 1 waits for step 2 of its own queue 0");
}

static void unordered_accesses_are_refused(void **state) {
  (void)state;
  /* Removes the wait: the read of x is unordered. */
  REFUSES(plan->steps[1].wait_count = 0,
          "step 1 of run 1 touches storage 0, but nothing orders it after step 0 of run 1");
  /* x lies where step 0 of the next run writes it while this one is read. */
  REFUSES(plan->slots = 1, "step 0 of run 2 touches storage 0, but nothing orders it after");
  /* The update is on a separate queue: the next run's reader of w does not wait for it. */
  REFUSES((plan->queue_count = 3, plan->steps[3].queue = 2),
          "step 1 of run 2 touches storage 3, but nothing orders it after step 3 of run 1");
}

static void wrong_bytes_are_refused(void **state) {
  (void)state;
  REFUSES(plan->storages[Y].offset = plan->storages[X].offset, "storage 1");
  REFUSES(plan->storages[G].offset = plan->storages[Y].offset, "storage 2");
  REFUSES(plan->accesses[1].storage = Y, "step 1 of run 1 reads storage 0, whose bytes are not");
  REFUSES(plan->accesses[1].writes = false, "step 0 of run 1 reads storage 0");
}

static void persistent_writes_stay_in_their_phase(void **state) {
  (void)state;
  REFUSES((plan->steps[3].phase = TDM_PHASE_MAIN, plan->steps[3].position = 2),
          "step 3 of the main phase writes persistent storage 3 and is no refresh");
  REFUSES(plan->steps[1].phase = TDM_PHASE_UPDATE, "step 2 of the main phase follows");
  REFUSES(plan->two_phase = false, "step 1 runs on queue 0, concurrently with updates");
}

static void a_sound_change_is_accepted(void **state) {
  (void)state;
  struct fixture f;
  begin(&f);
  f.schedule.depth = 1; /* one run at a time may use one piece, and needs no slots */
  f.schedule.slots = 1;
  assert_int_equal(tdm_pass_verify(&f.schedule), TDM_OK);
  f.schedule.depth = 5;
  f.schedule.slots = 7;
  assert_int_equal(tdm_pass_verify(&f.schedule), TDM_OK);
  f.schedule.storages[G].offset = 256;
  f.schedule.arena_bytes[0] = 256 + 128;
  assert_int_equal(tdm_pass_verify(&f.schedule), TDM_OK);
  tdm_schedule_deinit(&f.schedule);
}

/* One queue is order enough for every run to use the same piece. */
static void one_queue_needs_one_slot(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_schedule schedule;
  tdm_schedule_init(&schedule, &allocator);
  assert_int_equal(model_schedule(&schedule, (struct model){6, 1, true, 4, 1}), TDM_OK);
  for (schedule.slots = 0; schedule.slots <= 4; schedule.slots++)
    assert_int_equal(schedule_plan(&schedule), TDM_OK);
  tdm_schedule_deinit(&schedule);
}

static void an_empty_schedule_is_sound(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_schedule schedule;
  tdm_schedule_init(&schedule, &allocator);
  assert_int_equal(schedule_plan(&schedule), TDM_OK);
  schedule.queue_count = 3;
  schedule.arena_count = 2;
  tdm_schedule_deinit(&schedule);
  tdm_schedule zero = {0};
  tdm_schedule_deinit(&zero);
}

/* Checks many readers that are unordered with each other: the next writer must be ordered after all
 * of them. */
static void every_reader_is_remembered(void **state) {
  (void)state;
  enum { READERS = 9 };
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_schedule schedule;
  tdm_schedule_init(&schedule, &allocator);
  schedule.queue_count = READERS + 1;
  schedule.arena_count = 1;
  struct builder builder = {&schedule, TDM_OK};
  const uint32_t value = builder_storage(&builder, TDM_STORAGE_ARENA, 0, 64);
  (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
  builder_writes(&builder, value);
  for (uint32_t q = 1; q <= READERS; q++) {
    (void)builder_step(&builder, q, TDM_PHASE_MAIN);
    builder_reads(&builder, value);
  }
  (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
  builder_writes(&builder, value);
  assert_int_equal(builder.status, TDM_OK);
  assert_int_equal(schedule_plan(&schedule), TDM_OK);
  tdm_step *last = &schedule.steps[READERS + 1];
  assert_int_equal(last->wait_count, READERS);
  tdm_step_wait *waits = schedule.waits + last->first_wait;
  last->wait_count--;
  for (uint32_t i = 0; i < READERS; i++) {
    const tdm_step_wait removed = waits[i];
    waits[i] = waits[READERS - 1];
    waits[READERS - 1] = removed;
    assert_int_equal(tdm_pass_verify(&schedule), TDM_INTERNAL);
  }
  tdm_schedule_deinit(&schedule);
}

/* ---- Parts of storage --------------------------------------------------------------------------
 */

/* Two parts of 100 and 60 bytes, written on queues 1 and 2; queue 0 reads the whole. */
static void begin_parts(struct fixture *fixture) {
  fixture->allocator = tdm_allocator_default();
  tdm_schedule *schedule = &fixture->schedule;
  tdm_schedule_init(schedule, &fixture->allocator);
  schedule->queue_count = 3;
  schedule->arena_count = 1;
  struct builder builder = {schedule, TDM_OK};
  const uint32_t whole =
      builder_whole(&builder, TDM_STORAGE_ARENA, 0, (const uint64_t[]){100, 60}, 2);
  for (uint32_t q = 1; q < 3; q++) {
    (void)builder_step(&builder, q, TDM_PHASE_MAIN);
    builder_writes(&builder, whole + q);
  }
  (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
  builder_reads(&builder, whole);
  assert_int_equal(builder.status, TDM_OK);
  const tdm_status status = schedule_plan(schedule);
  if (status != TDM_OK) fail_msg("%s", tdm_last_message());
  assert_int_equal(schedule->wait_count, 2); /* waits of the reader; the writers run concurrently */
  assert_int_equal(schedule->arena_bytes[0], 192);
  assert_int_equal(schedule->storages[2].offset, 100);
}

static void parts_that_lie_elsewhere_are_refused(void **state) {
  (void)state;
  struct fixture fixture;
  begin_parts(&fixture);
  tdm_schedule *schedule = &fixture.schedule;
  tdm_storage_plan *part = &schedule->storages[2];
  const tdm_storage_plan sound = *part;
  const tdm_storage_plan wrong[] = {
      {.offset = 101, .bytes = 60, .whole = 1, .within = 100},
      {.offset = 101, .bytes = 59, .whole = 1, .within = 101},
      {.offset = 100, .bytes = 59, .whole = 1, .within = 100},
      {.offset = 100, .bytes = 60, .whole = 2, .within = 100},
      {.offset = 100, .bytes = 60, .within = 100},
      {.offset = 100, .bytes = 60, .whole = 1, .within = 100, .part_count = 1},
      {.offset = 100, .bytes = 60, .whole = 1, .within = 100, .arena = 1},
      {.offset = 100, .bytes = 61, .whole = 1, .within = 100},
      {.offset = 100, .bytes = 60, .whole = 1, .within = 100, .kind = TDM_STORAGE_EXTERNAL},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    *part = wrong[i];
    assert_int_equal(tdm_pass_verify(schedule), TDM_INTERNAL);
    *part = sound;
    assert_int_equal(tdm_pass_verify(schedule), TDM_OK);
  }
  schedule->storages[1].whole = 0;
  assert_int_equal(tdm_pass_verify(schedule), TDM_INTERNAL);
  schedule->storages[1].whole = 1;
  tdm_storage_plan *whole = &schedule->storages[0];
  const tdm_storage_plan sound_whole = *whole;
  const tdm_storage_plan wrong_wholes[] = {
      {.bytes = 160, .part_count = 2, .whole = 1},
      {.bytes = 160, .part_count = 3},
      {.bytes = 160, .part_count = 2, .kind = TDM_STORAGE_PERSISTENT},
  };
  for (size_t i = 0; i < sizeof wrong_wholes / sizeof *wrong_wholes; i++) {
    *whole = wrong_wholes[i];
    assert_int_equal(tdm_pass_verify(schedule), TDM_INTERNAL);
    assert_non_null(strstr(tdm_last_message(), "the parts of storage 0"));
  }
  *whole = sound_whole;
  schedule->storages[0].part_count = 0; /* then the parts have no whole */
  assert_refused(&fixture, "storage 1 is no part of storage 0");
}

static void wholes_are_read_behind_their_parts(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct fixture fixture;
    begin_parts(&fixture);
    tdm_schedule *schedule = &fixture.schedule;
    if (i < 2)
      schedule->waits[schedule->steps[2].first_wait] = (tdm_step_wait){.step = (uint32_t)i};
    if (i < 2) schedule->steps[2].wait_count = 1;
    if (i == 2) schedule->accesses[1].writes = false; /* no step writes it */
    if (i == 3) schedule->accesses[1].storage = 0;    /* the whole itself */
    assert_refused(&fixture, i < 2    ? "nothing orders it"
                             : i == 2 ? "whose bytes are not written"
                                      : "which its parts make up");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(indices_out_of_range_are_refused),
      cmocka_unit_test(accesses_beyond_their_storage_are_refused),
      cmocka_unit_test(parts_of_a_storage_are_accepted),
      cmocka_unit_test(waits_that_never_end_are_refused),
      cmocka_unit_test(unordered_accesses_are_refused),
      cmocka_unit_test(wrong_bytes_are_refused),
      cmocka_unit_test(persistent_writes_stay_in_their_phase),
      cmocka_unit_test(a_sound_change_is_accepted),
      cmocka_unit_test(one_queue_needs_one_slot),
      cmocka_unit_test(an_empty_schedule_is_sound),
      cmocka_unit_test(every_reader_is_remembered),
      cmocka_unit_test(parts_that_lie_elsewhere_are_refused),
      cmocka_unit_test(wholes_are_read_behind_their_parts),
      cmocka_unit_test(what_is_too_much_to_verify_is_told),
      cmocka_unit_test(arenas_may_be_as_large_as_can_be_counted),
      cmocka_unit_test(many_storages_side_by_side_are_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
