/* Planning while memory is short: OUT_OF_MEMORY is returned for any failed allocation, and all
 * memory is released. */
#include "tests/graph/plans/recorded.h"
#include "tests/graph/support.h"

/* Runs every model except sequences, whose plans are made by runs, which require additional
 * memory. */
static void sweep(const plan_model *models, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!models[i].in_sequence) recorded_sweep_memory(&models[i]);
}

static void planning_is_told_that_memory_is_short(void **unused) {
  (void)unused;
  sweep(plan_placed_models, plan_placed_count);
  sweep(plan_parallel_models, plan_parallel_count);
}

int main(void) {
  (void)recorded_begin(0, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(planning_is_told_that_memory_is_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
