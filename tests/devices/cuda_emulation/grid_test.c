/* The grid itself: what kernels may rely on, and that planted faults are found: those that CUDA
 * leaves undefined end a child process with a message, the others give wrong results in at least
 * one order of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/devices/cuda_emulation/grid.h"
#include "tests/devices/cuda_emulation/grid_faults.h"
#include "tests/devices/kernels/direct_cuda_stream.h"

enum { COUNT = GRID_FAULT_COUNT };
static const grid_order orders[] = {GRID_ASCENDING, GRID_DESCENDING, GRID_RANDOM};
enum { ORDERS = sizeof orders / sizeof orders[0] };

/* Runs the kernel on data that holds 0, 1, 2, ... */
static void run(grid_order order, grid_fault fault, float *out) {
  direct_block *block = direct_block_create(COUNT * sizeof(float));
  float *data = (float *)(void *)block->data;
  for (int i = 0; i < COUNT; i++)
    data[i] = (float)i;
  grid_set_order(order, 3);
  direct_cuda_report_clear();
  assert_int_equal(grid_fault_launch(direct_cuda_stream(), fault, data), TDM_OK);
  memcpy(out, data, COUNT * sizeof(float));
  direct_block_release(block);
}

/* ---- Correct kernels ------------------------------------------------------------------------- */

static void barriers_order_threads(void **state) {
  (void)state;
  for (size_t order = 0; order < ORDERS; order++) {
    float out[COUNT];
    run(orders[order], GRID_REVERSE, out);
    for (int i = 0; i < COUNT; i++)
      assert_true(out[i] == (float)i + 2);
  }
}

static void lanes_exchange(void **state) {
  (void)state;
  for (size_t order = 0; order < ORDERS; order++) {
    float out[COUNT];
    run(orders[order], GRID_EXCHANGES, out);
    for (int i = 0; i < COUNT; i++) {
      const int lane = i % 32, warp = i - lane;
      const int below = lane < 1 ? i : i - 1, above = lane >= 30 ? i : i + 2;
      const float expected = (float)(warp + 5) + 100 * (float)below + 10000 * (float)above + 0.5f;
      assert_true(out[i] == expected);
    }
  }
}

static void blocks_reduce(void **state) {
  (void)state;
  for (size_t order = 0; order < ORDERS; order++) {
    float out[COUNT];
    run(orders[order], GRID_REDUCTIONS, out);
    for (int i = 0; i < COUNT; i++)
      assert_true(out[i] == 0);
  }
}

static void shared_memory_begins_as_nan(void **state) {
  (void)state;
  float out[COUNT];
  run(GRID_ASCENDING, GRID_UNSET_SHARED, out);
  for (int i = 0; i < COUNT; i++)
    assert_true(isnan(out[i]));
}

/* ---- Faults that show in the result ---------------------------------------------------------- */

static bool is_reversed_twice(const float *out) {
  for (int i = 0; i < COUNT; i++)
    if (out[i] != (float)i + 2) return false;
  return true;
}

/* Returns true if any order of threads changes the result. */
static bool any_order_finds(grid_fault fault) {
  bool found = false;
  for (size_t order = 0; order < ORDERS; order++) {
    float out[COUNT];
    run(orders[order], fault, out);
    found |= !is_reversed_twice(out);
  }
  return found;
}

static void missing_barriers_spoil_results(void **state) {
  (void)state;
  assert_false(any_order_finds(GRID_REVERSE));
  assert_true(any_order_finds(GRID_MISSING_BARRIER_BEFORE));
  assert_true(any_order_finds(GRID_MISSING_BARRIER_AFTER));
}

/* ---- Faults that end the process ------------------------------------------------------------- */

/* Runs body in a child whose stderr is captured. Returns true if it failed. */
static bool child_fails(void (*body)(const void *user), const void *user, char *message,
                        size_t bytes) {
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)dup2(pipes[1], STDERR_FILENO);
    (void)close(pipes[0]);
    (void)signal(SIGABRT, SIG_DFL);
    (void)signal(SIGSEGV, SIG_DFL);
    body(user);
    _exit(0);
  }
  (void)close(pipes[1]);
  size_t length = 0;
  for (ssize_t got = 1; got > 0 && length + 1 < bytes; length += (size_t)(got > 0 ? got : 0))
    got = read(pipes[0], message + length, bytes - 1 - length);
  message[length] = '\0';
  (void)close(pipes[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void run_fault(const void *user) {
  const grid_fault *fault = user;
  float out[COUNT];
  run(GRID_ASCENDING, *fault, out);
}

/* words: part of the message, or NULL if the processor or a sanitizer reports it. */
static void expect_caught(grid_fault fault, const char *words) {
  char message[4096];
  if (!child_fails(run_fault, &fault, message, sizeof message))
    fail_msg("fault %d was not found", (int)fault);
  if (words && !strstr(message, words))
    fail_msg("fault %d: \"%s\" is not in \"%s\"", (int)fault, words, message);
}

static void misuse_is_named(void **state) {
  (void)state;
  expect_caught(GRID_DIVERGENT_BARRIER, "divergent barriers");
  expect_caught(GRID_DIVERGENT_BARRIER, "grid_faults.cu:");
  expect_caught(GRID_BARRIER_AFTER_RETURN, "1 threads of the block have returned");
  expect_caught(GRID_ABSENT_LANE, "reads lane 1, which is not in the mask");
  expect_caught(GRID_DIVERGENT_WARP, "divergent warp");
  expect_caught(GRID_RETURNED_LANE, "has returned");
}

static void writes_outside_are_caught(void **state) {
  (void)state;
  expect_caught(GRID_SHARED_OVERRUN, NULL);
  expect_caught(GRID_OVERRUN, NULL);
}

static void run_on_host_memory(const void *user) {
  float data[COUNT];
  (void)user;
  memset(data, 0, sizeof data);
  direct_cuda_report_clear();
  if (grid_fault_launch(direct_cuda_stream(), GRID_REVERSE, data) != TDM_OK) _exit(0);
}

static void pointers_of_the_host_are_refused(void **state) {
  char message[4096];
  (void)state;
  assert_true(child_fails(run_on_host_memory, NULL, message, sizeof message));
  assert_non_null(strstr(message, "reverse was handed the host's"));
}

int main(void) {
  /* First those that fork: ThreadSanitizer does not follow fibers into a child. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misuse_is_named),
      cmocka_unit_test(writes_outside_are_caught),
      cmocka_unit_test(pointers_of_the_host_are_refused),
      cmocka_unit_test(barriers_order_threads),
      cmocka_unit_test(lanes_exchange),
      cmocka_unit_test(blocks_reduce),
      cmocka_unit_test(shared_memory_begins_as_nan),
      cmocka_unit_test(missing_barriers_spoil_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
