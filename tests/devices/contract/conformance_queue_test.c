/* Conformance of queues: order, waits between devices, failures that travel with a point, gates,
 * conditions, adoption. Run for the device in TEST_DEVICE, with every other device. */
#include <string.h>
#include <time.h>

#include "devices/context/route.h"
#include "tests/devices/support.h"

static int set_up(void **state) {
  *state = test_context(NULL);
  return 0;
}

static int tear_down(void **state) {
  tdm_context_release(*state);
  return 0;
}

static tdm_queue *compute(tdm_context *context, const char *name) {
  return test_device(context, name)->queues[TDM_QUEUE_COMPUTE];
}

static void commands_run_in_order(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 3, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  int64_t expected = 1;
  for (int64_t i = 0; i < 40; i++) {
    test_execute(test, program, &test_mix_kernel, base, NULL, 0, i);
    expected = test_mix(expected, NULL, 0, i);
  }
  test_run(test, false);
  assert_int_equal(test_value(test, base), expected);
  assert_int_equal(test->flight.failure.id, UINT32_MAX);
  test_flight_destroy(test);
}

static void an_empty_program_settles(void **state) {
  test_flight *test = test_flight_create(*state);
  test_program(test, compute(*state, TEST_DEVICE));
  test_run(test, false);
  test_run(test, true);
  test_flight_destroy(test);
}

static void a_flight_without_programs_settles(void **state) {
  test_flight *test = test_flight_create(*state);
  test_run(test, false);
  test_run(test, true);
  test_flight_destroy(test);
}

/* Submits two flights to one queue, thirty times. The second always reads what the first wrote. */
static void flights_on_a_queue_keep_their_order(void **state) {
  tdm_device *device = test_device(*state, TEST_DEVICE);
  test_flight *flights[30];
  test_flight *owner = test_flight_create(*state);
  const uint32_t base = test_base(owner, device, 1, 7);
  int64_t expected = 7;
  for (size_t i = 0; i < TDM_COUNT_OF(flights); i++) {
    test_flight *test = flights[i] = test_flight_create(*state);
    test->bases[0] = owner->bases[base];
    test->memories[0] = owner->memories[base];
    const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
    const tdm_kernel *kernel = i % 3 == 0 ? &test_slow_kernel : &test_mix_kernel;
    test_execute(test, program, kernel, 0, NULL, 0, (int64_t)i);
    expected = test_mix(expected, NULL, 0, (int64_t)i);
    test_submit(test, i % 2 == 0);
  }
  for (size_t i = 0; i < TDM_COUNT_OF(flights); i++)
    test_join(flights[i]);
  assert_int_equal(test_value(owner, base), expected);
  for (size_t i = 0; i < TDM_COUNT_OF(flights); i++)
    test_flight_destroy(flights[i]);
  test_flight_destroy(owner);
}

/* This device and `other` pass a value back and forth. Each step waits for the previous one on the
 * other queue. Copies use the queues of tdm_direct_queue. */
static void ping_pong(tdm_context *context, const char *other_name, bool adopt) {
  test_flight *test = test_flight_create(context);
  tdm_device *devices[2] = {test_device(context, TEST_DEVICE), test_device(context, other_name)};
  tdm_queue *routes[2] = {tdm_direct_queue(devices[0], devices[1]),
                          tdm_direct_queue(devices[1], devices[0])};
  uint32_t bases[2];
  uint32_t programs[2];
  uint32_t copiers[2];
  for (int i = 0; i < 2; i++) {
    bases[i] = test_base(test, devices[i], 5, 1);
    programs[i] = test_program(test, devices[i]->queues[TDM_QUEUE_COMPUTE]);
  }
  for (int i = 0; i < 2; i++) {
    copiers[i] = programs[0];
    if (routes[i] == devices[1]->queues[TDM_QUEUE_COMPUTE]) copiers[i] = programs[1];
    if (routes[i]->role != TDM_QUEUE_COMPUTE) copiers[i] = test_program(test, routes[i]);
  }
  int64_t expected = 1;
  const tdm_command *last = NULL;
  for (int64_t step = 0; step < 10; step++) {
    const int here = (int)(step % 2);
    if (last) test_wait(test, programs[here], last);
    const tdm_command *mixed =
        test_execute(test, programs[here], &test_mix_kernel, bases[here], NULL, 0, step);
    expected = test_mix(expected, NULL, 0, step);
    test_wait(test, copiers[here], mixed);
    last = test_copy(test, copiers[here], bases[here], bases[1 - here]);
  }
  for (int repeat = 0; repeat < 3; repeat++) {
    const int64_t one = repeat == 0 ? 1 : expected;
    if (repeat > 0) {
      expected = one;
      for (int64_t step = 0; step < 10; step++)
        expected = test_mix(expected, NULL, 0, step);
    }
    test_run(test, adopt);
    assert_int_equal(test_value(test, bases[0]), expected);
    assert_int_equal(test_value(test, bases[1]), expected);
  }
  test_flight_destroy(test);
}

static void devices_wait_for_each_other(void **state) {
  const tdm_device *device = test_device(*state, TEST_DEVICE);
  for (size_t i = 0; i < tdm_device_count(*state); i++) {
    const tdm_device *other = tdm_context_device(*state, i);
    if (other == device || !test_route(device, other)) continue;
    ping_pong(*state, other->name, false);
    ping_pong(*state, other->name, true);
  }
}

static void failure_reaches_what_depends_on_it_and_nothing_else(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  tdm_device *other = test_device(*state, "cpu:0");
  uint32_t bases[5];
  for (size_t i = 0; i < 4; i++)
    bases[i] = test_base(test, device, 2, 5);
  bases[4] = test_base(test, other, 2, 5);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  tdm_command *first = test_execute(test, program, &test_failing_kernel, bases[0], NULL, 0, 0);
  tdm_command *dependent = test_execute(test, program, &test_mix_kernel, bases[1], NULL, 0, 1);
  test_depend(test, dependent, first);
  tdm_command *indirect = test_execute(test, program, &test_mix_kernel, bases[2], NULL, 0, 1);
  test_depend(test, indirect, dependent);
  tdm_command *independent = test_execute(test, program, &test_mix_kernel, bases[3], NULL, 0, 1);
  const uint32_t elsewhere = test_program(test, other->queues[TDM_QUEUE_COMPUTE]);
  if (test->programs[elsewhere].queue == test->programs[program].queue) {
    test->program_count--; /* cpu:0 itself: the failure stays on its queue */
  } else {
    test_wait(test, elsewhere, indirect);
    tdm_command *far = test_execute(test, elsewhere, &test_mix_kernel, bases[4], NULL, 0, 1);
    test_depend(test, far, indirect);
  }
  for (int repeat = 0; repeat < 2; repeat++) {
    test_run(test, repeat == 1);
    assert_int_equal(test->flight.failure.id, first->id);
    assert_int_equal(test->flight.failure.status, TDM_INVALID_ARGUMENT);
    assert_string_equal(test->flight.failure.message, "the kernel that fails");
    assert_true(test_has_failed(test, dependent));
    assert_true(test_has_failed(test, indirect));
    assert_false(test_has_failed(test, independent));
    assert_int_equal(test_value(test, bases[1]), 5);
    assert_int_equal(test_value(test, bases[2]), 5);
    assert_int_equal(test_value(test, bases[4]), 5);
  }
  assert_int_equal(test_value(test, bases[3]), test_mix(test_mix(5, NULL, 0, 1), NULL, 0, 1));
  /* Mended, the same flight runs clean. */
  first->execute.kernel = test_kernel_on(device, &test_mix_kernel);
  test_run(test, false);
  assert_int_equal(test->flight.failure.id, UINT32_MAX);
  assert_int_equal(test_value(test, bases[1]), test_mix(5, NULL, 0, 1));
  test_flight_destroy(test);
}

static void the_earliest_failure_is_reported(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  tdm_command *late = test_execute(test, program, &test_failing_kernel, base, NULL, 0, 0);
  tdm_command *early = test_execute(test, program, &test_failing_kernel, base, NULL, 0, 0);
  late->id = 1; /* executed first, later in plan order */
  early->id = 0;
  test_run(test, false);
  assert_int_equal(test->flight.failure.id, 0);
  assert_true(test_has_failed(test, late));
  test_flight_destroy(test);
}

static void a_gate_passes_over_the_rest_of_a_failed_flight(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  tdm_command *first = test_execute(test, program, &test_failing_kernel, base, NULL, 0, 0);
  tdm_command *before = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 3);
  test_gate(test, program);
  tdm_command *after = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 4);
  test_run(test, false);
  assert_false(test_has_failed(test, before));
  assert_true(test_has_failed(test, after));
  assert_int_equal(test_value(test, base), test_mix(1, NULL, 0, 3));
  first->kind = TDM_COMMAND_NOTHING;
  test_run(test, false);
  int64_t expected = test_mix(1, NULL, 0, 3);
  expected = test_mix(test_mix(expected, NULL, 0, 3), NULL, 0, 4);
  assert_int_equal(test_value(test, base), expected);
  test_flight_destroy(test);
}

/* Stopped from outside: later commands fail without a message, and points are reached. */
static void a_stopped_flight_is_passed_over(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  tdm_command *before = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 3);
  test_gate(test, program);
  tdm_command *after = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 4);
  tdm_flight_reset(&test->flight, test->id_count);
  assert_true(tdm_flight_stop(&test->flight, TDM_DEADLINE_EXCEEDED));
  assert_false(tdm_flight_stop(&test->flight, TDM_CANCELLED));
  atomic_store(&test->settled_count, 0);
  assert_ok(tdm_context_submit(*state, &test->flight, test->submissions, 1, false));
  test_join(test);
  assert_true(test_has_failed(test, before));
  assert_true(test_has_failed(test, after));
  assert_int_equal(test_value(test, base), 1);
  assert_int_equal(test->flight.failure.id, UINT32_MAX);
  assert_status(tdm_flight_close(&test->flight), TDM_DEADLINE_EXCEEDED);
  test_run(test, false); /* anew */
  const int64_t expected = test_mix(test_mix(1, NULL, 0, 3), NULL, 0, 4);
  assert_int_equal(test_value(test, base), expected);
  assert_false(tdm_flight_stop(&test->flight, TDM_CANCELLED)); /* the gate has closed it */
  assert_false(test_has_failed(test, after));
  test_flight_destroy(test);
}

/* A point after a gate still implies that the earlier waits are over. */
static void a_passed_over_wait_is_kept(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  tdm_device *other = test_device(*state, strcmp(TEST_DEVICE, "cpu:0") == 0 ? "sim:0" : "cpu:0");
  const uint32_t slow_base = test_base(test, other, 1, 1);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t elsewhere = test_program(test, other->queues[TDM_QUEUE_COMPUTE]);
  const tdm_command *slow =
      test_execute(test, elsewhere, &test_slow_kernel, slow_base, NULL, 0, 3000);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  test_execute(test, program, &test_failing_kernel, base, NULL, 0, 0);
  test_gate(test, program);
  test_wait(test, program, slow);
  tdm_command *last = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 0);
  last->signals = true;
  test_submit(test, false);
  const uint64_t sequence = test->program_bases[program] + test->programs[program].count - 1;
  while (!tdm_queue_reached(test->programs[program].queue, sequence))
    tdm_spin_pause();
  assert_true(tdm_queue_reached(test->programs[elsewhere].queue, test->program_bases[elsewhere]));
  test_join(test);
  test_flight_destroy(test);
}

static void a_condition_decides_whether_a_command_executes(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  tdm_command *maybe = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 2);
  maybe->condition = 3;
  tdm_command *always = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 5);
  test_depend(test, always, maybe);
  test_run(test, false);
  int64_t expected = test_mix(1, NULL, 0, 5);
  assert_int_equal(test_value(test, base), expected);
  test->conditions[2] = 1;
  test_run(test, true);
  expected = test_mix(test_mix(expected, NULL, 0, 2), NULL, 0, 5);
  assert_int_equal(test_value(test, base), expected);
  test_flight_destroy(test);
}

/* A writer waits until the reader of the run before has read, and not for its own run's reader,
 * which waits for it. */
static void a_run_waits_for_the_run_before(void **state) {
  tdm_device *device = test_device(*state, TEST_DEVICE);
  tdm_device *other = test_device(*state, strcmp(TEST_DEVICE, "cpu:0") == 0 ? "sim:0" : "cpu:0");
  test_flight *runs[4];
  for (size_t i = 0; i < TDM_COUNT_OF(runs); i++) {
    test_flight *test = runs[i] = test_flight_create(*state);
    const uint32_t written = test_base(test, device, 1, 0);
    const uint32_t read = test_base(test, other, 1, 0);
    const uint32_t writer = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
    const uint32_t reader = test_program(test, other->queues[TDM_QUEUE_COMPUTE]);
    tdm_command *wait = test_wait(test, writer, &test->commands[reader][1]);
    wait->wait.previous = true;
    const tdm_command *write = test_execute(test, writer, &test_mix_kernel, written, NULL, 0, 1);
    test_wait(test, reader, write);
    test_execute(test, reader, &test_slow_kernel, read, NULL, 0, 1000);
    if (i > 0) test->flight.previous_bases = runs[i - 1]->program_bases;
  }
  for (size_t i = 0; i < TDM_COUNT_OF(runs); i++)
    test_submit(runs[i], false);
  for (size_t i = 1; i < TDM_COUNT_OF(runs); i++) {
    while (!tdm_queue_reached(runs[i]->programs[0].queue, runs[i]->program_bases[0] + 1))
      tdm_spin_pause();
    assert_true(
        tdm_queue_reached(runs[i - 1]->programs[1].queue, runs[i - 1]->program_bases[1] + 1));
  }
  for (size_t i = 0; i < TDM_COUNT_OF(runs); i++)
    test_join(runs[i]);
  for (size_t i = 0; i < TDM_COUNT_OF(runs); i++)
    test_flight_destroy(runs[i]);
}

/* Checks that times are recorded, in order, for each executed command and for no other. */
static void times_are_recorded(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  test_execute(test, program, &test_slow_kernel, base, NULL, 0, 100);
  test_execute(test, program, &test_mix_kernel, base, NULL, 0, 1);
  tdm_command *never = test_execute(test, program, &test_mix_kernel, base, NULL, 0, 1);
  never->condition = 1;
  test->flight.times = test->times;
  test_run(test, false);
  const tdm_command_times *times = test->times;
  /* A GPU's clock ticks in half microseconds. */
  assert_true(times[0].begin_ns > 0 && times[0].end_ns - times[0].begin_ns >= 99000);
  assert_true(times[1].begin_ns >= times[0].end_ns && times[1].end_ns >= times[1].begin_ns);
  assert_int_equal(times[2].begin_ns, 0);
  assert_int_equal(times[2].end_ns, 0);
  test_flight_destroy(test);
}

/* ---- Adoption -------------------------------------------------------------------------------- */

static pthread_t executing_thread;

static tdm_status execute_thread(const tdm_kernel_call *call) {
  (void)call;
  executing_thread = pthread_self();
  return TDM_OK;
}

static const tdm_kernel thread_kernel = {.struct_size = sizeof(tdm_kernel),
                                         .operation = "test_thread",
                                         .executes = "cpu",
                                         .dtype = TDM_INT64,
                                         .execute = execute_thread};

static void an_idle_cpu_queue_is_adopted(void **state) {
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  test_execute(test, program, &thread_kernel, base, NULL, 0, 0);
  const bool adopts = strncmp(TEST_DEVICE, "cpu", 3) == 0;
  test_run(test, false);
  assert_false(pthread_equal(executing_thread, pthread_self()));
  test_run(test, true);
  assert_int_equal(pthread_equal(executing_thread, pthread_self()) != 0, adopts);
  test->programs[program].splits = true;
  test_run(test, true);
  assert_false(pthread_equal(executing_thread, pthread_self()));
  test_flight_destroy(test);
}

static void a_busy_queue_is_not_adopted(void **state) {
  test_flight *busy = test_flight_create(*state);
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t slow_base = test_base(busy, device, 1, 1);
  const uint32_t base = test_base(test, device, 1, 1);
  test_execute(busy, test_program(busy, device->queues[TDM_QUEUE_COMPUTE]), &test_slow_kernel,
               slow_base, NULL, 0, 2000);
  test_execute(test, test_program(test, device->queues[TDM_QUEUE_COMPUTE]), &thread_kernel, base,
               NULL, 0, 0);
  test_submit(busy, false);
  test_run(test, true);
  assert_false(pthread_equal(executing_thread, pthread_self()));
  assert_reached(busy);
  test_join(busy);
  test_flight_destroy(busy);
  test_flight_destroy(test);
}

static _Atomic bool borrowed_began;

static tdm_status execute_long(const tdm_kernel_call *call) {
  (void)call;
  atomic_store(&borrowed_began, true);
  const struct timespec pause = {.tv_nsec = 3000000}; /* a worker has parked by then */
  (void)nanosleep(&pause, NULL);
  return TDM_OK;
}

static const tdm_kernel long_kernel = {.struct_size = sizeof(tdm_kernel),
                                       .operation = "test_long",
                                       .executes = "cpu",
                                       .dtype = TDM_INT64,
                                       .execute = execute_long};

static void *run_borrowed(void *user) {
  test_run(user, true);
  return NULL;
}

/* Only the borrower can wake the worker for it: it checks when it returns the queue. */
static void work_for_a_lent_queue_is_done_after_it(void **state) {
  test_flight *lent = test_flight_create(*state);
  test_flight *test = test_flight_create(*state);
  tdm_device *device = test_device(*state, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  test_execute(lent, test_program(lent, device->queues[TDM_QUEUE_COMPUTE]), &long_kernel,
               test_base(lent, device, 1, 1), NULL, 0, 0);
  test_execute(test, test_program(test, device->queues[TDM_QUEUE_COMPUTE]), &test_mix_kernel, base,
               NULL, 0, 1);
  assert_ok(tdm_context_start(*state));
  atomic_store(&borrowed_began, false);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_borrowed, lent), 0);
  while (!atomic_load(&borrowed_began))
    tdm_spin_pause();
  test_run(test, false);
  assert_reached(lent);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(test_value(test, base), test_mix(1, NULL, 0, 1));
  test_flight_destroy(test);
  test_flight_destroy(lent);
}

typedef struct rival {
  tdm_context *context;
  uint64_t runs;
} rival;

/* Adopts where it can; the other thread's work lands on the lent queue meanwhile. */
static void *run_rival(void *user) {
  rival *mine = user;
  test_flight *test = test_flight_create(mine->context);
  tdm_device *device = tdm_context_find_device(mine->context, TEST_DEVICE);
  const uint32_t base = test_base(test, device, 1, 1);
  const uint32_t program = test_program(test, device->queues[TDM_QUEUE_COMPUTE]);
  for (int i = 0; i < 5; i++)
    test_execute(test, program, &test_mix_kernel, base, NULL, 0, i);
  int64_t expected = 1;
  for (uint64_t run = 0; run < mine->runs; run++) {
    test_run(test, true);
    for (int i = 0; i < 5; i++)
      expected = test_mix(expected, NULL, 0, i);
  }
  if (test_value(test, base) != expected) mine->runs = 0;
  test_flight_destroy(test);
  return NULL;
}

static void threads_share_a_queue_by_adoption(void **state) {
  rival rivals[3];
  pthread_t threads[3];
  assert_ok(tdm_context_start(*state));
  for (int i = 0; i < 3; i++) {
    rivals[i] = (rival){.context = *state, .runs = 300};
    assert_int_equal(pthread_create(&threads[i], NULL, run_rival, &rivals[i]), 0);
  }
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < 3; i++)
    assert_int_equal(rivals[i].runs, 300);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(commands_run_in_order, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_empty_program_settles, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_flight_without_programs_settles, set_up, tear_down),
      cmocka_unit_test_setup_teardown(flights_on_a_queue_keep_their_order, set_up, tear_down),
      cmocka_unit_test_setup_teardown(devices_wait_for_each_other, set_up, tear_down),
      cmocka_unit_test_setup_teardown(failure_reaches_what_depends_on_it_and_nothing_else, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(the_earliest_failure_is_reported, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_gate_passes_over_the_rest_of_a_failed_flight, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(a_stopped_flight_is_passed_over, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_passed_over_wait_is_kept, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_condition_decides_whether_a_command_executes, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(a_run_waits_for_the_run_before, set_up, tear_down),
      cmocka_unit_test_setup_teardown(times_are_recorded, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_idle_cpu_queue_is_adopted, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_busy_queue_is_not_adopted, set_up, tear_down),
      cmocka_unit_test_setup_teardown(work_for_a_lent_queue_is_done_after_it, set_up, tear_down),
      cmocka_unit_test_setup_teardown(threads_share_a_queue_by_adoption, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
