/* Conformance of failures on demand: the Nth kernel, copy or wait fails, once or from there on, for
 * every N until none fails. Dependent commands are skipped, everything else runs, and all points
 * are reached. The next run is not affected. */
#include <stdio.h>
#include <string.h>

#include "devices/context/route.h"
#include "tests/devices/support.h"

enum { STAGES = 4, ACROSS = 2 };

/* Two independent chains through TEST_DEVICE and another, which share both queues:
 *   here: mix a, mix b | there: copy a, mix a, copy b, mix b | here: copy back ...
 */
typedef struct chains {
  test_flight *test;
  tdm_device *devices[2];
  uint32_t bases[ACROSS][2];
  uint32_t compute[2];
  uint32_t copier[2]; /* [i]: carries copies from device i to the other */
  tdm_command *commands[2 * ACROSS * STAGES];
  size_t chain_of[2 * ACROSS * STAGES];
  size_t command_count;
} chains;

static uint32_t program_for(test_flight *test, tdm_queue *queue) {
  for (uint32_t i = 0; i < test->program_count; i++)
    if (test->programs[i].queue == queue) return i;
  return test_program(test, queue);
}

/* Appends with a wait, where needed, and the dependency on the chain's last command. */
static void link_to(chains *all, size_t chain, uint32_t program, uint32_t last_program,
                    tdm_command *last, bool copies, size_t side) {
  test_flight *test = all->test;
  if (last && program != last_program) test_wait(test, program, last);
  tdm_command *command =
      copies ? test_copy(test, program, all->bases[chain][side], all->bases[chain][1 - side])
             : test_execute(test, program, &test_mix_kernel, all->bases[chain][side], NULL, 0, 1);
  if (last) test_depend(test, command, last);
  all->chain_of[all->command_count] = chain;
  all->commands[all->command_count++] = command;
}

static void build(chains *all, tdm_context *context) {
  memset(all, 0, sizeof *all);
  test_flight *test = all->test = test_flight_create(context);
  all->devices[0] = test_device(context, TEST_DEVICE);
  all->devices[1] = test_device(context, test_partner(TEST_DEVICE));
  for (size_t chain = 0; chain < ACROSS; chain++) {
    for (size_t side = 0; side < 2; side++)
      all->bases[chain][side] = test_base(test, all->devices[side], 3, 1);
  }
  for (size_t side = 0; side < 2; side++) {
    all->compute[side] = program_for(test, all->devices[side]->queues[TDM_QUEUE_COMPUTE]);
    all->copier[side] =
        program_for(test, tdm_direct_queue(all->devices[side], all->devices[1 - side]));
  }
  tdm_command *last[ACROSS] = {NULL};
  uint32_t last_program[ACROSS] = {0};
  for (size_t stage = 0; stage < STAGES; stage++) {
    const size_t side = stage % 2;
    for (size_t step = 0; step < 2; step++) {
      for (size_t chain = 0; chain < ACROSS; chain++) {
        const uint32_t program = step == 0 ? all->compute[side] : all->copier[side];
        link_to(all, chain, program, last_program[chain], last[chain], step == 1, side);
        last[chain] = all->commands[all->command_count - 1];
        last_program[chain] = program;
      }
    }
  }
}

/* Expects of a failed run that exactly the commands after the first failed one of their chain
 * failed too. */
static void assert_failure_travelled(const chains *all, const char *message) {
  const tdm_flight *flight = &all->test->flight;
  assert_int_not_equal(flight->failure.id, UINT32_MAX);
  assert_non_null(strstr(flight->failure.message, message));
  bool chain_failed[ACROSS] = {false};
  uint32_t earliest = UINT32_MAX;
  for (size_t i = 0; i < all->command_count; i++) {
    const size_t chain = all->chain_of[i];
    const bool failed = test_has_failed(all->test, all->commands[i]);
    if (chain_failed[chain]) assert_true(failed);
    if (failed && all->commands[i]->id < earliest) earliest = all->commands[i]->id;
    chain_failed[chain] |= failed;
  }
  assert_int_equal(flight->failure.id, earliest);
}

static size_t count_failed_chains(const chains *all) {
  bool failed[ACROSS] = {false};
  for (size_t i = 0; i < all->command_count; i++)
    failed[all->chain_of[i]] |= test_has_failed(all->test, all->commands[i]);
  size_t count = 0;
  for (size_t chain = 0; chain < ACROSS; chain++)
    count += failed[chain];
  return count;
}

static void assert_clean_run(chains *all, bool adopt) {
  int64_t before[ACROSS];
  for (size_t chain = 0; chain < ACROSS; chain++)
    before[chain] = test_value(all->test, all->bases[chain][0]);
  test_run(all->test, adopt);
  assert_int_equal(all->test->flight.failure.id, UINT32_MAX);
  for (size_t chain = 0; chain < ACROSS; chain++) {
    int64_t expected = before[chain];
    for (size_t stage = 0; stage < STAGES; stage++)
      expected = test_mix(expected, NULL, 0, 1);
    assert_int_equal(test_value(all->test, all->bases[chain][0]), expected);
  }
}

static uint64_t sweep(tdm_context *context, tdm_fault_site site, const char *name, bool from_on,
                      bool adopt) {
  chains all;
  build(&all, context);
  tdm_faults *faults = tdm_context_faults(context);
  uint64_t n = 1;
  for (;; n++) {
    assert_true(n < 1000);
    tdm_faults_arm(faults, site, n, from_on);
    test_run(all.test, adopt);
    tdm_faults_arm(faults, site, 0, false);
    if (all.test->flight.failure.id == UINT32_MAX) break;
    char message[64];
    (void)snprintf(message, sizeof message, "injected failure of %s", name);
    assert_failure_travelled(&all, message);
    if (!from_on) assert_int_equal(count_failed_chains(&all), 1);
    assert_clean_run(&all, adopt);
  }
  test_flight_destroy(all.test);
  return n - 1;
}

static void every_nth_call_fails(void **state) {
  (void)state;
  static const struct {
    tdm_fault_site site;
    const char *name;
    uint64_t calls;
  } sites[] = {
      {TDM_FAULT_KERNEL, "kernel", ACROSS * STAGES},
      {TDM_FAULT_COPY, "copy", ACROSS * STAGES},
      {TDM_FAULT_WAIT, "wait", 0}, /* number of waits that the routes require */
  };
  static const char *const settings[] = {NULL, "latency_us=2,gigabytes_per_second=1",
                                         "latency_us=2,delay_seed=5"};
  for (size_t k = 0; k < TDM_COUNT_OF(settings); k++) {
    tdm_context *context = test_context(settings[k]);
    for (size_t i = 0; i < TDM_COUNT_OF(sites); i++) {
      for (int variant = 0; variant < 4; variant++) {
        const uint64_t calls =
            sweep(context, sites[i].site, sites[i].name, variant % 2 == 1, variant / 2 == 1);
        if (sites[i].calls != 0) assert_int_equal(calls, sites[i].calls);
        if (sites[i].calls == 0) assert_true(calls >= ACROSS * STAGES);
      }
    }
    tdm_context_release(context);
  }
}

/* Copies outside a plan return their failure to the caller. */
static void a_blocking_copy_fails(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  for (int started = 0; started < 2; started++) {
    tdm_tensor *tensor = tdm_tensor_zeros(context, TEST_DEVICE, TDM_INT64, tdm_shape_of(1, 3));
    assert_non_null(tensor);
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_COPY, 1, false);
    tdm_tensor *moved = tdm_tensor_to(tensor, test_partner(TEST_DEVICE), TDM_DTYPE_NONE);
    assert_null(moved);
    assert_message("injected failure of copy 1");
    tdm_faults_arm(tdm_context_faults(context), TDM_FAULT_COPY, 0, false);
    tdm_tensor_release(tensor);
    assert_ok(tdm_context_start(context));
  }
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_nth_call_fails),
      cmocka_unit_test(a_blocking_copy_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
