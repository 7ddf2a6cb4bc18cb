/* The finder of races finds those that were planted, in any order of threads, and none where there
 * is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/devices/cuda_emulation/grid.h"
#include "tests/devices/cuda_emulation/grid_faults.h"
#include "tests/devices/kernels/direct_cuda_stream.h"

static void run(grid_fault fault) {
  direct_block *block = direct_block_create(GRID_FAULT_COUNT * sizeof(float));
  float *data = (float *)(void *)block->data;
  for (int i = 0; i < GRID_FAULT_COUNT; i++)
    data[i] = (float)i;
  direct_cuda_report_clear();
  if (grid_fault_launch(direct_cuda_stream(), fault, data) != TDM_OK) _exit(3);
  direct_block_release(block);
}

enum { TSAN_EXIT = 66 };

/* Returns the exit status of a child that runs the kernel. */
static int exit_code(grid_fault fault, grid_order order) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!getenv("SHOW")) (void)close(STDERR_FILENO);
    grid_set_order(order, 3);
    run(fault);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void planted_races_are_found(void **state) {
  static const grid_order orders[] = {GRID_ASCENDING, GRID_DESCENDING, GRID_RANDOM};
  (void)state;
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
    assert_int_equal(exit_code(GRID_MISSING_BARRIER_BEFORE, orders[i]), TSAN_EXIT);
    assert_int_equal(exit_code(GRID_MISSING_BARRIER_AFTER, orders[i]), TSAN_EXIT);
    assert_int_equal(exit_code(GRID_BLOCKS_ADD, orders[i]), TSAN_EXIT);
  }
}

static void none_is_found_where_there_is_none(void **state) {
  static const grid_order orders[] = {GRID_ASCENDING, GRID_DESCENDING, GRID_RANDOM};
  (void)state;
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
    assert_int_equal(exit_code(GRID_REVERSE, orders[i]), 0);
    assert_int_equal(exit_code(GRID_EXCHANGES, orders[i]), 0);
    assert_int_equal(exit_code(GRID_REDUCTIONS, orders[i]), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(planted_races_are_found),
      cmocka_unit_test(none_is_found_where_there_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
