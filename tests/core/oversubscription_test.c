/* A thread that loses a core to something else sleeps for a time in proportion to the loss. Losses
 * are simulated by a time in the past, so the test does not depend on scheduling. */
#include "core/oversubscription.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/park.h"

enum { MILLISECOND = 1000000 };

static void a_loss_keeps_threads_from_yielding(void **state) {
  (void)state;
  tdm_oversubscription cores = {0};
  const uint64_t now_ns = tdm_time_ns();
  assert_false(tdm_oversubscription_yield(&cores, now_ns - 2 * MILLISECOND));
  assert_true(cores.until_ns >= now_ns + 40 * MILLISECOND);
  const uint64_t until_ns = cores.until_ns;
  /* immediately after the last: not a new loss */
  assert_false(tdm_oversubscription_yield(&cores, until_ns - 1));
  assert_int_equal(cores.until_ns, until_ns);
}

static void a_long_loss_counts_as_a_short_one(void **state) {
  (void)state;
  tdm_oversubscription cores = {0};
  assert_false(tdm_oversubscription_yield(&cores, tdm_time_ns() - 5000 * (uint64_t)MILLISECOND));
  assert_true(cores.until_ns <= tdm_time_ns() + 100 * MILLISECOND);
}

static void who_is_alone_goes_on_yielding(void **state) {
  (void)state;
  tdm_oversubscription cores;
  bool kept = false;
  for (int i = 0; i < 1000 && !kept; i++) {
    cores.until_ns = 1;
    kept = tdm_oversubscription_yield(&cores, tdm_time_ns());
    assert_int_equal(kept, cores.until_ns == 1);
  }
  assert_true(kept); /* at least one of a thousand yields returns within 0.2 ms */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loss_keeps_threads_from_yielding),
      cmocka_unit_test(a_long_loss_counts_as_a_short_one),
      cmocka_unit_test(who_is_alone_goes_on_yielding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
