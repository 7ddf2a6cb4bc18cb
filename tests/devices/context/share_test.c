/* Cores that threads of a context share: which queues compute, and which yields count as a loss.
 * The test sets the counters of queues; no thread of the context has started. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "devices/context/context_state.h"
#include "tests/devices/support.h"

static int set_up(void **state) {
  *state = test_context(NULL);
  return !*state;
}

static int tear_down(void **state) {
  tdm_context_release(*state);
  return 0;
}

/* A device that has commands left, and waits for no point. */
static void who_has_commands_left_computes(void **state) {
  static const struct {
    uint64_t submitted, completed;
    bool waits, computes;
  } cases[] = {{0, 0, false, false}, {1, 0, false, true}, {1, 0, true, false}, {5, 5, false, false},
               {5, 5, true, false},  {6, 5, false, true}, {6, 5, true, false}};
  for (size_t i = 0; i < tdm_device_count(*state); i++)
    for (size_t k = 0; k < TDM_COUNT_OF(cases); k++) {
      const tdm_device *device = tdm_context_device(*state, i);
      tdm_queue *queue = device->queues[TDM_QUEUE_COMPUTE];
      atomic_store(&queue->submitted, cases[k].submitted);
      atomic_store(&queue->completed, cases[k].completed);
      atomic_store(&queue->waits, cases[k].waits);
      const bool computes = tdm_context_computes(*state);
      atomic_store(&queue->submitted, 0);
      atomic_store(&queue->completed, 0);
      atomic_store(&queue->waits, false);
      if (computes != cases[k].computes) fail_msg("%s, case %zu: %d", device->name, k, computes);
    }
}

/* Checks that no thread of this context spins if other processes used the core recently. */
static void a_core_that_others_took_is_left_to_them(void **state) {
  const uint64_t now_ns = tdm_time_ns();
  atomic_store(&tdm_context_oversubscription(*state)->until_ns, now_ns + 1);
  assert_false(tdm_context_yield(*state, now_ns));
}

/* A yield takes a second in which no thread of this context had the core. No other yield follows
 * for twenty times the loss, which counts up to 5 ms. */
static void a_yield_that_took_long_is_a_loss(void **state) {
  const _Atomic uint64_t *until_ns = &tdm_context_oversubscription(*state)->until_ns;
  const uint64_t begin_ns = tdm_time_ns();
  assert_false(tdm_context_yield(*state, begin_ns - 1000000000));
  assert_true(atomic_load(until_ns) >= begin_ns + 20 * (uint64_t)5000000);
  assert_true(atomic_load(until_ns) <= tdm_time_ns() + 20 * (uint64_t)5000000);
  assert_false(tdm_context_yield(*state, begin_ns));
}

typedef struct counting {
  _Atomic uint64_t *commands;
  _Atomic bool stop;
} counting;

static void *count_on(void *user) {
  counting *self = user;
  while (!atomic_load(&self->stop)) {
    atomic_fetch_add(self->commands, 1);
    (void)sched_yield();
  }
  return NULL;
}

/* Yields while another thread counts, until one yield is no loss. Returns false after this many
 * tries. */
static bool is_ever_no_loss(tdm_context *context, _Atomic uint64_t *commands, int tries) {
  counting beside = {.commands = commands};
  pthread_t thread;
  bool kept = false;
  assert_int_equal(pthread_create(&thread, NULL, count_on, &beside), 0);
  for (int i = 0; i < tries && !kept; i++) {
    atomic_store(&tdm_context_oversubscription(context)->until_ns, 0);
    kept = tdm_context_yield(context, tdm_time_ns() - 1000000000);
  }
  atomic_store(&beside.stop, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  atomic_store(commands, 0);
  return kept;
}

/* Checks that the core counts as used if any device executed commands meanwhile, of kernels or of
 * sums. Copies use no core. */
static void a_core_that_a_device_had_is_not_lost(void **state) {
  for (size_t i = 0; i < tdm_device_count(*state); i++) {
    const tdm_device *device = tdm_context_device(*state, i);
    for (int role = 0; role < TDM_QUEUE_ROLES; role++) {
      tdm_queue *queue = device->queues[role];
      const bool counts = role == TDM_QUEUE_COMPUTE || role == TDM_QUEUE_SUM;
      if (!queue || (!counts && i + 1 < tdm_device_count(*state))) continue;
      atomic_store(&queue->waits, true); /* so that it does not compute */
      const int tries = counts ? 20000 : 50;
      const bool given = is_ever_no_loss(*state, &queue->submitted, tries);
      const bool passed = is_ever_no_loss(*state, &queue->completed, tries);
      atomic_store(&queue->waits, false);
      if (given != counts || passed != counts)
        fail_msg("%s, queue %d: %d, %d", device->name, role, given, passed);
    }
  }
}

/* By where cores begin and end: devices whose cores are adjacent, nested, or absent. */
static void devices_on_the_same_cores_share_them(void **state) {
  tdm_context *context = *state;
  const tdm_device *cpu = test_device(context, "cpu:0"), *sim = test_device(context, "sim:0");
  static const struct {
    tdm_core_range cpu, sim;
    bool shares;
  } cases[] = {
      {{.first = 0, .count = 4}, {.first = 4, .count = 1}, false},
      {{.first = 0, .count = 4}, {.first = 3, .count = 1}, true},
      {{.first = 0, .count = 4}, {.first = 0, .count = 1}, true},
      {{.first = 2, .count = 2}, {.first = 0, .count = 2}, false},
      {{.first = 0, .count = 1}, {.first = 0, .count = 1}, true},
  };
  tdm_core_range *cpus = &context->cores[cpu->context_index];
  tdm_core_range *sims = &context->cores[sim->context_index];
  const tdm_core_range cpu_before = *cpus, sim_before = *sims;
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    *cpus = cases[i].cpu;
    *sims = cases[i].sim;
    const bool shares = tdm_context_share_cores(context, cpu, sim);
    assert_int_equal(tdm_context_share_cores(context, sim, cpu), shares);
    if (shares != cases[i].shares) fail_msg("case %zu: %d", i, shares);
    assert_false(tdm_context_share_cores(context, sim, sim));
  }
  *cpus = cpu_before;
  *sims = sim_before;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(who_has_commands_left_computes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_core_that_others_took_is_left_to_them, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_yield_that_took_long_is_a_loss, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_core_that_a_device_had_is_not_lost, set_up, tear_down),
      cmocka_unit_test_setup_teardown(devices_on_the_same_cores_share_them, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
