/* The proof over ranks while memory is short: every allocation may fail, and nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "graph/schedule/verify_ranks.h"
#include "tests/graph/schedule/random_schedule.h"
#include "tests/support/faulty_allocator.h"

enum { COMPUTE = 0, SEND = 1, RECEIVE = 2 };
enum { MANY_RANKS = 100, MANY_MESSAGES = 900, MANY_OF_ALL = 100, STEPS = 1000 };

/* Rank 0 sends to rank 1. Then come messages of all ranks; the others have nothing else. */
struct crowd {
  tdm_schedule schedules[3];
  tdm_step_message messages[3][STEPS];
  tdm_rank_steps ranks[MANY_RANKS];
};

static void fill_rank(struct crowd *crowd, uint32_t kind, const tdm_allocator *allocator) {
  tdm_schedule *schedule = &crowd->schedules[kind];
  tdm_schedule_init(schedule, allocator);
  schedule->queue_count = 3;
  schedule->depth = 1;
  struct builder builder = {schedule, TDM_OK};
  for (uint32_t i = 0; i < MANY_MESSAGES && kind < 2; i++) {
    const uint32_t step = builder_step(&builder, kind == 0 ? SEND : RECEIVE, TDM_PHASE_MAIN);
    const tdm_message_end end = kind == 0 ? TDM_MESSAGE_SEND : TDM_MESSAGE_RECEIVE;
    crowd->messages[kind][step] =
        (tdm_step_message){.end = end, .number = 1000 + i, .peer = 1 - kind, .bytes = 64};
  }
  for (uint32_t i = 0; i < MANY_OF_ALL; i++) {
    const uint32_t step = builder_step(&builder, COMPUTE, TDM_PHASE_MAIN);
    crowd->messages[kind][step] =
        (tdm_step_message){.end = TDM_MESSAGE_OF_ALL, .number = i, .bytes = 8};
  }
  assert_int_equal(builder.status, TDM_OK);
}

/* Uses so many ranks and messages that each table is a separate allocation. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
  assert_non_null(faulty);
  const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
  struct crowd *crowd = calloc(1, sizeof *crowd);
  assert_non_null(crowd);
  for (uint32_t kind = 0; kind < 3; kind++)
    fill_rank(crowd, kind, &allocator);
  for (uint32_t r = 0; r < MANY_RANKS; r++) {
    const uint32_t kind = r < 2 ? r : 2;
    crowd->ranks[r] = (tdm_rank_steps){&crowd->schedules[kind], crowd->messages[kind]};
  }
  const int64_t before = tdm_faulty_allocator_outstanding_bytes(faulty);
  tdm_status status = TDM_OUT_OF_MEMORY;
  uint64_t fail_at = 0;
  while (status != TDM_OK) {
    tdm_faulty_allocator_arm(faulty, ++fail_at, false);
    status = tdm_verify_ranks(&allocator, crowd->ranks, MANY_RANKS);
    assert_int_equal(status == TDM_OK, tdm_faulty_allocator_failures(faulty) == 0);
    if (status != TDM_OK) assert_int_equal(status, TDM_OUT_OF_MEMORY);
    assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), before);
  }
  assert_true(fail_at > 4);
  for (uint32_t kind = 0; kind < 3; kind++)
    tdm_schedule_deinit(&crowd->schedules[kind]);
  free(crowd);
  tdm_faulty_allocator_destroy(faulty);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
