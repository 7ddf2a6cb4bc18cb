/* The passes schedule, memory and verify survive the failure of every allocation, and then produce
 * the same plan as without failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/graph/schedule/random_schedule.h"
#include "tests/support/faulty_allocator.h"

struct description {
  size_t steps, accesses, storages;
  uint64_t accesses_sum;
};

static struct description describe(const tdm_schedule *schedule) {
  struct description description = {schedule->step_count, schedule->access_count,
                                    schedule->storage_count, 0};
  for (size_t i = 0; i < schedule->access_count; i++) {
    description.accesses_sum = description.accesses_sum * 31 + schedule->accesses[i].storage * 2 +
                               schedule->accesses[i].writes;
  }
  return description;
}

/* The Nth allocation of the three passes fails, then none: the same schedule is planned. The last
 * schedule is so large that allocations that share a chunk in the others are separate. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  for (uint64_t seed = 0; seed < 13; seed++) {
    const struct random_limits limits = {seed < 12 ? 90 : 3000, 5, 3, 3};
    uint64_t fail_at = 0;
    tdm_status status;
    do {
      tdm_schedule schedule;
      tdm_faulty_allocator_arm(faulty, 0, false);
      tdm_schedule_init(&schedule, &allocator);
      assert_int_equal(random_schedule(&schedule, seed, limits), TDM_OK);
      const struct description before = describe(&schedule);
      fail_at++;
      tdm_faulty_allocator_arm(faulty, fail_at, fail_at % 2 == 0);
      status = schedule_plan(&schedule);
      assert_int_equal(status == TDM_OK, tdm_faulty_allocator_failures(faulty) == 0);
      if (status != TDM_OK) assert_int_equal(status, TDM_OUT_OF_MEMORY);
      tdm_faulty_allocator_arm(faulty, 0, false);
      const struct description after = describe(&schedule);
      assert_memory_equal(&before, &after, sizeof before);
      assert_int_equal(schedule_plan(&schedule), TDM_OK);
      tdm_schedule_deinit(&schedule);
      assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
    } while (status != TDM_OK);
    assert_true(fail_at > 8);
  }
  tdm_faulty_allocator_destroy(faulty);
}

/* Memory of verify that is allocated separately only for many queues: clocks, which are their
 * square. */
static void every_allocation_for_many_queues_may_fail(void **state) {
  (void)state;
  enum { QUEUES = 2100 };
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  tdm_schedule schedule;
  tdm_schedule_init(&schedule, &allocator);
  schedule.queue_count = QUEUES;
  struct builder builder = {&schedule, TDM_OK};
  const uint32_t value = builder_storage(&builder, TDM_STORAGE_EXTERNAL, 0, 64);
  (void)builder_step(&builder, 0, TDM_PHASE_MAIN);
  builder_writes(&builder, value);
  (void)builder_step(&builder, QUEUES - 1, TDM_PHASE_MAIN);
  builder_reads(&builder, value);
  assert_int_equal(builder.status, TDM_OK);
  assert_int_equal(schedule_plan(&schedule), TDM_OK);
  assert_int_equal(schedule.wait_count, 1);
  tdm_status status = TDM_OUT_OF_MEMORY;
  for (uint64_t fail_at = 1; status != TDM_OK; fail_at++) {
    tdm_faulty_allocator_arm(faulty, fail_at, false);
    status = tdm_pass_verify(&schedule);
    assert_int_equal(status == TDM_OK, tdm_faulty_allocator_failures(faulty) == 0);
    if (status != TDM_OK) assert_int_equal(status, TDM_OUT_OF_MEMORY);
  }
  tdm_schedule_deinit(&schedule);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

/* Memory of schedule for waits on the previous run that is allocated separately only for much
 * storage. */
static void every_allocation_for_much_storage_may_fail(void **state) {
  (void)state;
  enum { STORAGES = 9000 };
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  tdm_schedule schedule;
  tdm_schedule_init(&schedule, &allocator);
  schedule.queue_count = 2;
  schedule.depth = 2;
  schedule.two_phase = true;
  struct builder builder = {&schedule, TDM_OK};
  for (int i = 0; i < STORAGES; i++)
    (void)builder_storage(&builder, TDM_STORAGE_PERSISTENT, 0, 64);
  (void)builder_step(&builder, 1, TDM_PHASE_MAIN);
  builder_reads(&builder, 0);
  (void)builder_step(&builder, 0, TDM_PHASE_UPDATE);
  builder_writes(&builder, 0);
  assert_int_equal(builder.status, TDM_OK);
  tdm_status status = TDM_OUT_OF_MEMORY;
  for (uint64_t fail_at = 1; status != TDM_OK; fail_at++) {
    tdm_faulty_allocator_arm(faulty, fail_at, false);
    status = schedule_plan(&schedule);
    assert_int_equal(status == TDM_OK, tdm_faulty_allocator_failures(faulty) == 0);
    if (status != TDM_OK) assert_int_equal(status, TDM_OUT_OF_MEMORY);
  }
  assert_int_equal(schedule.wait_count, 1); /* the next run's read, after this one's update */
  tdm_schedule_deinit(&schedule);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(every_allocation_for_many_queues_may_fail),
      cmocka_unit_test(every_allocation_for_much_storage_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
