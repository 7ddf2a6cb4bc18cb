/* Reports of a profile with given durations. */
#include "graph/plan/profile.h"

#include "tests/devices/support.h"

static tdm_allocator allocator;
static tdm_region region;
static tdm_profile profile;

static int set_up(void **state) {
  (void)state;
  allocator = tdm_allocator_default();
  tdm_region_init(&region, &allocator);
  assert_ok(tdm_profile_init(&profile, &region, 3));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  tdm_region_deinit(&region);
  return 0;
}

/* Step 1 takes duration_ns; step 0 takes 5 ns each time; step 2 is never executed. */
static void add(uint64_t duration_ns) {
  const tdm_command_times times[3] = {{.begin_ns = 100, .end_ns = 105},
                                      {.begin_ns = 1000, .end_ns = 1000 + duration_ns}};
  tdm_profile_add(&profile, times);
}

static void what_was_not_executed_has_no_time(void **state) {
  (void)state;
  assert_true(tdm_profile_median_ns(&profile, 1) < 0);
  add(7);
  assert_true(tdm_profile_median_ns(&profile, 0) == 5);
  assert_true(tdm_profile_median_ns(&profile, 1) == 7);
  assert_true(tdm_profile_median_ns(&profile, 2) < 0);
}

static void one_run_held_up_does_not_tell_for_the_others(void **state) {
  (void)state;
  add(100000);
  add(7);
  assert_true(tdm_profile_median_ns(&profile, 1) == (100000 + 7) / 2.0);
  add(9);
  assert_true(tdm_profile_median_ns(&profile, 1) == 9);
}

static void only_the_latest_count(void **state) {
  (void)state;
  for (int i = 0; i < 1000; i++)
    add(50);
  for (int i = 0; i < TDM_PROFILE_KEPT; i++)
    add(20);
  assert_true(tdm_profile_median_ns(&profile, 1) == 20);
}

static void nothing_is_told_where_nothing_is_profiled(void **state) {
  (void)state;
  const tdm_profile none = {0};
  assert_true(tdm_profile_median_ns(&none, 0) < 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_was_not_executed_has_no_time, set_up, tear_down),
      cmocka_unit_test_setup_teardown(one_run_held_up_does_not_tell_for_the_others, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(only_the_latest_count, set_up, tear_down),
      cmocka_unit_test(nothing_is_told_where_nothing_is_profiled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
