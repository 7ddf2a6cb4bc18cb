/* The pass memory: who may share, alignment, and how close arenas come to what no placing beats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/schedule/lifetimes.h"
#include "tests/graph/schedule/heaviest_set.h"
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

/* A step on queue that reads one storage (or none: UINT32_MAX) and writes a new one. */
static uint32_t produce(struct fixture *fixture, uint32_t queue, uint32_t source, uint64_t bytes) {
  (void)builder_step(&fixture->builder, queue, TDM_PHASE_MAIN);
  if (source != UINT32_MAX) builder_reads(&fixture->builder, source);
  const uint32_t value = builder_storage(&fixture->builder, TDM_STORAGE_ARENA, 0, bytes);
  builder_writes(&fixture->builder, value);
  return value;
}

static uint64_t offset_of(const struct fixture *fixture, uint32_t storage) {
  return fixture->schedule.storages[storage].offset;
}

static void a_chain_takes_turns(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  uint32_t value = UINT32_MAX;
  for (int i = 0; i < 20; i++)
    value = produce(&f, 0, value, 1000);
  plan(&f);
  assert_int_equal(f.schedule.arena_bytes[0], 2 * 1024);
  for (size_t i = 0; i < f.schedule.storage_count; i++)
    assert_int_equal(offset_of(&f, (uint32_t)i), i % 2 * 1024);
  tdm_schedule_deinit(&f.schedule);
}

/* On another queue bytes are free only after a wait that orders the queue after their release. */
static void sharing_needs_order(void **state) {
  (void)state;
  for (int waits = 0; waits < 2; waits++) {
    struct fixture f;
    begin(&f, 2);
    const uint32_t first = produce(&f, 0, UINT32_MAX, 640);
    const uint32_t message = produce(&f, 0, first, 64);
    const uint32_t second = produce(&f, 1, waits ? message : UINT32_MAX, 640);
    plan(&f);
    assert_int_equal(offset_of(&f, first) == offset_of(&f, second), waits);
    assert_int_equal(f.schedule.arena_bytes[0], waits ? 704 : 1280 + 64);
    tdm_schedule_deinit(&f.schedule);
  }
}

/* Checks that storage whose use ends with one step is free immediately. If two steps are unordered,
 * the end of one does not imply the end of the other. */
static void ends_cover_themselves_and_what_is_before(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  (void)builder_step(&f.builder, 0, TDM_PHASE_MAIN);
  (void)builder_step(&f.builder, 0, TDM_PHASE_MAIN);
  (void)builder_step(&f.builder, 1, TDM_PHASE_MAIN);
  plan(&f);
  tdm_lifetimes lifetimes;
  assert_int_equal(tdm_lifetimes_init(&lifetimes, &f.schedule), TDM_OK);
  static const bool covered[3][3] = {
      {true, true, false}, {false, true, false}, {false, false, true}};
  for (uint32_t a = 0; a < 3; a++)
    for (uint32_t b = 0; b < 3; b++)
      assert_int_equal(tdm_ends_covered(&lifetimes, (tdm_ends){.step = a}, (tdm_ends){.step = b}),
                       covered[a][b]);
  tdm_lifetimes_deinit(&lifetimes);
  tdm_schedule_deinit(&f.schedule);
}

/* Parts that one step writes are contiguous in one place, whose life begins once. */
static void parts_of_one_step_begin_together(void **state) {
  (void)state;
  static const uint64_t bytes[] = {64, 128};
  struct fixture f;
  begin(&f, 2);
  const uint32_t before = produce(&f, 0, UINT32_MAX, 192);
  (void)builder_step(&f.builder, 0, TDM_PHASE_MAIN);
  builder_reads(&f.builder, before);
  const uint32_t whole = builder_whole(&f.builder, TDM_STORAGE_ARENA, 0, bytes, 2);
  (void)builder_step(&f.builder, 0, TDM_PHASE_MAIN);
  builder_writes(&f.builder, whole + 1);
  builder_writes(&f.builder, whole + 2);
  (void)builder_step(&f.builder, 1, TDM_PHASE_MAIN);
  builder_reads(&f.builder, whole);
  plan(&f);
  assert_int_equal(f.schedule.arena_bytes[0], 192);
  assert_int_equal(offset_of(&f, whole + 1), 0);
  assert_int_equal(offset_of(&f, whole + 2), 64);
  tdm_lifetimes lifetimes;
  assert_int_equal(tdm_lifetimes_init(&lifetimes, &f.schedule), TDM_OK);
  assert_int_equal(lifetimes.items[whole].first, 2);
  assert_int_equal(lifetimes.items[whole].begins.more, 0);
  tdm_lifetimes_deinit(&lifetimes);
  tdm_schedule_deinit(&f.schedule);
}

static void a_wait_too_many_changes_nothing(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 2);
  const uint32_t first = produce(&f, 0, UINT32_MAX, 640); /* step 0 */
  const uint32_t message = produce(&f, 0, first, 64);     /* 1 */
  (void)produce(&f, 0, UINT32_MAX, 640);                  /* 2, without a step that waits for it */
  const uint32_t second = produce(&f, 1, message, 640);   /* 3 after 1 */
  plan(&f);
  assert_int_equal(f.schedule.steps[3].wait_count, 1);
  const uint64_t offsets[] = {offset_of(&f, first), offset_of(&f, second)};
  builder_wait(&f.builder, 1, false); /* a second wait in step 3 */
  builder_wait(&f.builder, 0, false); /* and of all before that */
  assert_int_equal(f.schedule.steps[3].wait_count, 3);
  assert_int_equal(tdm_pass_memory(&f.schedule), TDM_OK);
  assert_int_equal(tdm_pass_verify(&f.schedule), TDM_OK);
  assert_int_equal(offset_of(&f, first), offsets[0]);
  assert_int_equal(offset_of(&f, second), offsets[1]);
  tdm_schedule_deinit(&f.schedule);
}

static void what_no_step_touches_takes_no_room(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  const uint32_t untouched = builder_storage(&f.builder, TDM_STORAGE_ARENA, 0, 5000);
  const uint32_t first = produce(&f, 0, UINT32_MAX, 1);
  f.schedule.storages[untouched].offset = f.schedule.storages[first].offset = 640; /* as before */
  plan(&f);
  assert_int_equal(f.schedule.arena_bytes[0], 64);
  assert_int_equal(offset_of(&f, untouched), 0);
  assert_int_equal(offset_of(&f, first), 0);
  tdm_schedule_deinit(&f.schedule);
}

static void values_of_one_step_lie_apart(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  (void)produce(&f, 0, UINT32_MAX, 100);
  for (int i = 0; i < 3; i++) { /* with more outputs, which nothing reads */
    builder_writes(&f.builder, builder_storage(&f.builder, TDM_STORAGE_ARENA, 0, 100));
  }
  (void)produce(&f, 0, UINT32_MAX, 512); /* where all of them were */
  plan(&f);
  assert_int_equal(f.schedule.arena_bytes[0], 4 * 128);
  tdm_schedule_deinit(&f.schedule);
}

static void arenas_are_apart(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  f.schedule.arena_count = 2;
  const uint32_t first = produce(&f, 0, UINT32_MAX, 100);
  const uint32_t second = produce(&f, 0, first, 200);
  f.schedule.storages[second].arena = 1;
  plan(&f);
  assert_int_equal(f.schedule.arena_bytes[0], 128);
  assert_int_equal(f.schedule.arena_bytes[1], 256);
  tdm_schedule_deinit(&f.schedule);
}

static void a_step_may_name_a_storage_twice(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, 1);
  const uint32_t value = produce(&f, 0, UINT32_MAX, 1000);
  builder_writes(&f.builder, value);
  (void)produce(&f, 0, value, 100);
  plan(&f);
  assert_int_equal(f.schedule.arena_bytes[0], 1024 + 128);
  tdm_schedule_deinit(&f.schedule);
}

/* One storage is too large, or two are too large only together. */
static void a_size_beyond_all_bounds_is_refused(void **state) {
  (void)state;
  const uint64_t sizes[][2] = {{UINT64_MAX - 3, 1},
                               {INT64_MAX / 2 + 64, INT64_MAX / 2 + 64},
                               {INT64_MAX / 2 + 1, INT64_MAX / 2 - 31}}; /* by the bytes that are
                                                                          * rounded up */
  for (size_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
    struct fixture f;
    begin(&f, 1);
    (void)produce(&f, 0, UINT32_MAX, sizes[i][0]);
    (void)produce(&f, 0, UINT32_MAX, sizes[i][1]);
    assert_int_equal(tdm_pass_schedule(&f.schedule), TDM_OK);
    assert_int_equal(tdm_pass_memory(&f.schedule), TDM_OUT_OF_MEMORY);
    tdm_schedule_deinit(&f.schedule);
  }
}

/* ---- Quality --------------------------------------------------------------------------------- */

/* The worst of arena size over heaviest set, over all arenas of the schedule. */
static double worst_ratio(const tdm_schedule *schedule, bool search_too) {
  double worst = 1;
  for (uint32_t a = 0; a < schedule->arena_count; a++) {
    struct sharing sharing = sharing_of(schedule, a);
    const uint64_t heaviest = heaviest_set_by_flow(&sharing);
    if (search_too && sharing.count <= 40)
      assert_int_equal(heaviest, heaviest_set_by_search(&sharing));
    assert_true(schedule->arena_bytes[a] >= heaviest);
    const double ratio = heaviest == 0 ? 1 : (double)schedule->arena_bytes[a] / (double)heaviest;
    if (worst < ratio) worst = ratio;
    sharing_release(&sharing);
  }
  return worst;
}

static void models_need_little_more_than_they_must(void **state) {
  (void)state;
  static const uint32_t layer_counts[] = {3, 5, 12, 20, 60};
  static const uint32_t queue_counts[] = {1, 2, 4, 8};
  double worst = 1;
  for (uint32_t i = 0; i < 5 * 4 * 2 * 8; i++) {
    struct fixture f;
    begin(&f, 1);
    const struct model model = {layer_counts[i % 5], queue_counts[i / 5 % 4], i / 20 % 2 == 0, 2,
                                i};
    assert_int_equal(model_schedule(&f.schedule, model), TDM_OK);
    plan(&f);
    const double ratio = worst_ratio(&f.schedule, false);
    if (ratio > 1.05)
      fail_msg("%u layers on %u queues (%u): %.3f", model.layers, model.queues, i, ratio);
    if (worst < ratio) worst = ratio;
    tdm_schedule_deinit(&f.schedule);
  }
  print_message("models: at most %.3f of the heaviest set\n", worst);
}

static void random_graphs_need_at_most_a_quarter_more(void **state) {
  (void)state;
  double worst = 1;
  double sum = 0;
  for (uint64_t seed = 0; seed < 1000; seed++) {
    struct fixture f;
    begin(&f, 1);
    const struct random_limits limits = {seed % 10 == 0 ? 200 : 50, 6, 2, 2};
    assert_int_equal(random_schedule(&f.schedule, seed, limits), TDM_OK);
    plan(&f);
    const double ratio = worst_ratio(&f.schedule, true);
    if (ratio > 1.25) fail_msg("seed %d: %.3f", (int)seed, ratio);
    if (worst < ratio) worst = ratio;
    sum += ratio;
    tdm_schedule_deinit(&f.schedule);
  }
  print_message("random: %.4f of the heaviest set, at most %.3f\n", sum / 1000, worst);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_takes_turns),
      cmocka_unit_test(sharing_needs_order),
      cmocka_unit_test(ends_cover_themselves_and_what_is_before),
      cmocka_unit_test(parts_of_one_step_begin_together),
      cmocka_unit_test(a_wait_too_many_changes_nothing),
      cmocka_unit_test(what_no_step_touches_takes_no_room),
      cmocka_unit_test(values_of_one_step_lie_apart),
      cmocka_unit_test(arenas_are_apart),
      cmocka_unit_test(a_step_may_name_a_storage_twice),
      cmocka_unit_test(a_size_beyond_all_bounds_is_refused),
      cmocka_unit_test(models_need_little_more_than_they_must),
      cmocka_unit_test(random_graphs_need_at_most_a_quarter_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
