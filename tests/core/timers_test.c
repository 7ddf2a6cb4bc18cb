/* The heap of timers against a plain list of the same times: after any additions and removals, the
 * root is the earliest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/timers.h"

enum { TIMERS = 200, MOVES = 20000 };

static uint64_t earliest_of(const tdm_timer *timers, const bool *inside) {
  uint64_t earliest = UINT64_MAX;
  for (int i = 0; i < TIMERS; i++)
    if (inside[i] && timers[i].due_ns < earliest) earliest = timers[i].due_ns;
  return earliest;
}

static void the_root_is_always_due_first(void **state) {
  (void)state;
  static tdm_timer timers[TIMERS];
  bool inside[TIMERS] = {false};
  tdm_timers heap = {0};
  const tdm_random random = {7, 0, 0};
  int removed = 0;
  for (uint64_t move = 0; move < MOVES; move++) {
    const uint32_t drawn = tdm_random_uint32(&random, move);
    const uint32_t which = drawn % TIMERS;
    if (!inside[which]) {
      timers[which].due_ns = drawn / TIMERS % 500; /* several timers get equal times */
      tdm_timers_add(&heap, &timers[which]);
      inside[which] = true;
    } else if (drawn & 0x10000) {
      tdm_timers_remove(&heap, &timers[which]); /* a timer at any position of the heap */
      inside[which] = false;
      removed++;
    } else {
      const long first = heap.root - timers;
      tdm_timers_remove(&heap, heap.root);
      inside[first] = false;
    }
    assert_int_equal(heap.root ? heap.root->due_ns : UINT64_MAX, earliest_of(timers, inside));
  }
  assert_true(removed > 1000);
}

static void all_come_out_in_order(void **state) {
  (void)state;
  static tdm_timer timers[TIMERS];
  tdm_timers heap = {0};
  for (uint64_t i = 0; i < TIMERS; i++) {
    timers[i].due_ns = i * 7919 % TIMERS;
    tdm_timers_add(&heap, &timers[i]);
  }
  for (uint64_t i = 0; i < TIMERS; i++) {
    assert_non_null(heap.root);
    assert_int_equal(heap.root->due_ns, i);
    tdm_timers_remove(&heap, heap.root);
  }
  assert_null(heap.root);
}

static void one_in_no_heap_is_left_alone(void **state) {
  (void)state;
  tdm_timers heap = {0};
  tdm_timer timer = {0};
  tdm_timers_remove(&heap, &timer);
  tdm_timers_add(&heap, &timer);
  tdm_timers_remove(&heap, &timer);
  tdm_timers_remove(&heap, &timer);
  assert_null(heap.root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_root_is_always_due_first),
      cmocka_unit_test(all_come_out_in_order),
      cmocka_unit_test(one_in_no_heap_is_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
