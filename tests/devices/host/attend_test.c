/* The queues of a rank's network, with a messenger whose messages end when the test decides. A
 * waiting thread polls them for a limited time, and the worker's own thread polls messages for
 * which no thread waits. The test does not depend on scheduling. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "devices/host/turn.h"
#include "devices/host/worker.h"
#include "devices/topology/topology.h"
#include "tests/devices/support.h"
#include "tests/options.h"

enum { PATIENT_LOOKS = 20 };
typedef enum ender {
  ANYBODY,
  THE_TEST,
  RATHER_THE_TEST, /* other threads attend only after some checks */
  ANOTHER,
  NOBODY,
} ender;

/* The messages of a network; the test selects the thread that ends them. */
typedef struct post {
  tdm_messenger messenger; /* must be the first field */
  pthread_t test;
  _Atomic int ender;
  _Atomic uint32_t ended;
  _Atomic uint32_t by_test; /* part of `ended` that was ended on the test's thread */
  _Atomic uint32_t looks;
} post;

typedef struct fixture {
  tdm_context *context;
  tdm_device *device;
  post post;
  tdm_worker *worker;
} fixture;

static tdm_status advance(tdm_messenger *messenger, const tdm_command *command, tdm_flight *flight,
                          bool spoiled, bool *out_ended) {
  post *mine = (post *)messenger;
  const bool here = pthread_equal(pthread_self(), mine->test) != 0;
  const int by = atomic_load(&mine->ender);
  (void)command;
  (void)flight;
  (void)spoiled;
  const uint32_t looks = 1 + atomic_fetch_add(&mine->looks, 1);
  *out_ended = by == ANYBODY || (by == THE_TEST && here) || (by == ANOTHER && !here) ||
               (by == RATHER_THE_TEST && (here || looks > PATIENT_LOOKS));
  if (!*out_ended) return TDM_OK;
  atomic_fetch_add(&mine->by_test, here);
  atomic_fetch_add(&mine->ended, 1);
  return TDM_OK;
}

static tdm_status check(tdm_messenger *messenger, uint64_t *left_ns) {
  (void)messenger;
  (void)left_ns;
  return TDM_OK;
}

static void give_up(tdm_messenger *messenger, tdm_status status) {
  (void)messenger;
  (void)status;
}

static int set_up_in(void **state, tdm_context *context) {
  fixture *made = calloc(1, sizeof *made);
  assert_non_null(made);
  made->post.messenger = (tdm_messenger){.advance = advance, .check = check, .give_up = give_up};
  made->post.test = pthread_self();
  made->context = context;
  made->device = test_device(made->context, "cpu:0");
  assert_ok(tdm_context_start(made->context));
  const tdm_worker_options options = {
      .has_role = {[TDM_QUEUE_SEND] = true, [TDM_QUEUE_RECEIVE] = true},
      .messenger = &made->post.messenger};
  assert_ok(tdm_worker_create(made->device, &options, &made->worker));
  assert_ok(tdm_worker_start(made->worker));
  *state = made;
  return 0;
}

static int set_up(void **state) {
  return set_up_in(state, test_context(NULL));
}

/* With one device, which has all cores, two or more on most machines. */
static int set_up_alone(void **state) {
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 0);
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  assert_ok(tdm_kernel_register(context, &test_mix_kernel));
  return set_up_in(state, context);
}

static int tear_down(void **state) {
  fixture *made = *state;
  atomic_store(&made->post.ender, ANYBODY); /* ends the post if a test failed */
  tdm_worker_stop(made->worker);
  made->device->queues[TDM_QUEUE_SEND] = NULL;
  made->device->queues[TDM_QUEUE_RECEIVE] = NULL;
  tdm_worker_destroy(made->worker); /* has the context's allocator */
  tdm_context_release(made->context);
  free(made);
  return 0;
}

static uint32_t program_of(test_flight *test, const fixture *made, tdm_queue_role role) {
  return test_program(test, made->device->queues[role]);
}

static tdm_command *add_message(test_flight *test, uint32_t program, tdm_command_kind kind) {
  tdm_command *command = test_gate(test, program);
  command->kind = (uint8_t)kind;
  command->signals = true;
  return command;
}

static bool has_settled(test_flight *test) {
  return atomic_load(&test->settled_count) > 0;
}

/* Attends again and again until the flight has settled. */
static void attend_to_the_end(fixture *made, test_flight *test) {
  tdm_attendance wait = {0};
  while (!has_settled(test)) {
    if (tdm_context_attend(made->context, &wait)) continue;
    tdm_context_attend_end(made->context, &wait);
    (void)sched_yield(); /* another thread needed the core */
  }
  tdm_context_attend_end(made->context, &wait);
}

/* ---- A thread that waits --------------------------------------------------------------------- */

static void a_network_at_rest_is_not_attended(void **state) {
  fixture *made = *state;
  tdm_attendance wait = {0};
  assert_false(tdm_context_attend(made->context, &wait));
  assert_int_equal(wait.since_ns, 0);
  tdm_context_attend_leave(made->context, &wait);
  tdm_context_attend_end(made->context, &wait);
  assert_int_equal(atomic_load(&made->post.looks), 0);
}

static void who_waits_takes_messages_on(void **state) {
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  const uint32_t sends = program_of(test, made, TDM_QUEUE_SEND);
  const uint32_t receives = program_of(test, made, TDM_QUEUE_RECEIVE);
  for (int i = 0; i < 20; i++) {
    const tdm_command *sent = add_message(test, sends, TDM_COMMAND_SEND);
    test_wait(test, receives, sent);
    const tdm_command *received = add_message(test, receives, TDM_COMMAND_RECEIVE);
    test_wait(test, sends, received);
  }
  atomic_store(&made->post.ender, THE_TEST);
  test_submit(test, false);
  attend_to_the_end(made, test);
  test_join(test);
  assert_int_equal(atomic_load(&made->post.by_test), 40);
  test_flight_destroy(test);
}

/* A kernel waits for a message on the test's thread, which has borrowed its queue. */
static void who_has_borrowed_a_queue_takes_messages_on(void **state) {
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  const uint32_t base = test_base(test, made->device, 1, 1);
  const uint32_t computes = program_of(test, made, TDM_QUEUE_COMPUTE);
  const uint32_t receives = program_of(test, made, TDM_QUEUE_RECEIVE);
  const tdm_command *received = add_message(test, receives, TDM_COMMAND_RECEIVE);
  test_wait(test, computes, received);
  test_execute(test, computes, &test_mix_kernel, base, NULL, 0, 3);
  atomic_store(&made->post.ender, RATHER_THE_TEST);
  bool by_test = tdm_context_cores(made->context, made->device)->shared; /* one core: it parks */
  for (int i = 0; i < 1000 && !by_test; i++) { /* it may lose its core, and park */
    atomic_store(&made->post.by_test, 0);
    atomic_store(&made->post.looks, 0);
    test_run(test, true);
    by_test = atomic_load(&made->post.by_test) == 1;
  }
  assert_true(by_test);
  test_flight_destroy(test);
}

/* The thread that makes the contents of a message sends it. */
static void who_has_made_what_is_sent_sends_it(void **state) {
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  const uint32_t base = test_base(test, made->device, 1, 1);
  const uint32_t computes = program_of(test, made, TDM_QUEUE_COMPUTE);
  const uint32_t sends = program_of(test, made, TDM_QUEUE_SEND);
  tdm_command *slow = test_execute(test, computes, &test_slow_kernel, base, NULL, 0, 100);
  test_wait(test, sends, slow);
  add_message(test, sends, TDM_COMMAND_SEND);
  bool by_test = false;
  for (int i = 0; i < 1000 && !by_test; i++) { /* the worker may be at the queues just then */
    atomic_store(&made->post.by_test, 0);
    test_run(test, true);
    by_test = atomic_load(&made->post.by_test) == 1;
  }
  assert_true(by_test);
  test_flight_destroy(test);
}

/* A worker with the queues of a network does not compute, for any number of cores. */
static void a_team_is_of_who_computes_on_several_cores(void **state) {
  fixture *made = *state;
  const tdm_worker *worker = ((tdm_host_queue *)made->device->queues[TDM_QUEUE_COMPUTE])->worker;
  const size_t cores = tdm_context_cores(made->context, made->device)->count;
  assert_null(made->worker->team);
  assert_true(made->worker->cores.shared);
  assert_int_equal(made->worker->cores.count, cores);
  assert_int_equal(worker->team != NULL, cores > 1);
  assert_int_equal(made->device->team_size, cores);
}

/* Another thread with the queues may have polled before; here the test has them. */
static void who_looks_wakes_the_worker_if_nobody_attends(void **state) {
  fixture *made = *state;
  tdm_attendant *attendant = &made->worker->attendant;
  tdm_doorbell *bell = tdm_context_bell(made->context, made->worker->bell);
  test_flight *test = test_flight_create(made->context);
  add_message(test, program_of(test, made, TDM_QUEUE_RECEIVE), TDM_COMMAND_RECEIVE);
  atomic_store(&made->post.ender, NOBODY);
  test_submit(test, false);
  bool rang[3];
  int attended[3];
  for (int attending = 2; attending >= 0; attending--) {
    tdm_attendance waits[2] = {{0}};
    for (int i = 0; i < attending; i++)
      while (!tdm_context_attend(made->context, &waits[i]))
        tdm_context_attend_end(made->context, &waits[i]);
    attended[attending] = (int)atomic_load(&made->worker->attended);
    while (atomic_exchange(&made->worker->taken, true))
      (void)sched_yield();
    const uint32_t before = tdm_doorbell_read(bell);
    attendant->look(attendant);
    rang[attending] = tdm_doorbell_read(bell) != before;
    atomic_store(&made->worker->taken, false);
    for (int i = 0; i < attending; i++)
      tdm_context_attend_end(made->context, &waits[i]);
  }
  atomic_store(&made->post.ender, ANYBODY);
  test_join(test);
  test_flight_destroy(test);
  for (int attending = 0; attending <= 2; attending++) {
    assert_int_equal(attended[attending], attending);
    assert_int_equal(rang[attending], attending == 0);
  }
}

static void nobody_attends_for_ever(void **state) {
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  add_message(test, program_of(test, made, TDM_QUEUE_RECEIVE), TDM_COMMAND_RECEIVE);
  atomic_store(&made->post.ender, NOBODY);
  test_submit(test, false);
  for (int i = 0; i < 10; i++) { /* repeated, so that earlier waits do not matter */
    tdm_attendance wait = {0};
    while (tdm_context_attend(made->context, &wait))
      assert_false(has_settled(test));
    tdm_context_attend_end(made->context, &wait);
  }
  atomic_store(&made->post.ender, ANYBODY);
  test_join(test);
  test_flight_destroy(test);
}

/* Each is attended for as long as its patience lasts. */
static void how_long_waits_took_lately_is_kept(void **state) {
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  add_message(test, program_of(test, made, TDM_QUEUE_RECEIVE), TDM_COMMAND_RECEIVE);
  atomic_store(&made->post.ender, NOBODY);
  test_submit(test, false);
  uint64_t longest_ns = 0;
  for (int i = 0; i < 5; i++) {
    const uint64_t since_ns = tdm_time_ns();
    tdm_attendance wait = {0};
    while (tdm_context_attend(made->context, &wait))
      assert_false(has_settled(test));
    tdm_context_attend_end(made->context, &wait);
    const uint64_t took_ns = tdm_time_ns() - since_ns;
    if (took_ns > longest_ns) longest_ns = took_ns;
    assert_in_range(atomic_load(&made->worker->lately_ns), 1, longest_ns);
  }
  atomic_store(&made->post.ender, ANYBODY);
  test_join(test);
  test_flight_destroy(test);
}

/* Twice what waits took lately, but no less than a millisecond; and that where they take so long
 * that who waits had better park. */
static void patience_is_twice_what_waits_took(void **state) {
  static const struct {
    uint64_t lately_ns, patience_ns;
  } cases[] = {{0, 1000000},       {400000, 1000000},  {500001, 1000002},
               {4000000, 8000000}, {5000001, 1000000}, {1000000000, 1000000}};
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  add_message(test, program_of(test, made, TDM_QUEUE_RECEIVE), TDM_COMMAND_RECEIVE);
  atomic_store(&made->post.ender, NOBODY);
  test_submit(test, false);
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_attendance wait;
    do { /* the worker's own waits are noted meanwhile */
      wait = (tdm_attendance){0};
      atomic_store(&made->worker->lately_ns, cases[i].lately_ns);
      (void)tdm_context_attend(made->context, &wait);
      tdm_context_attend_leave(made->context, &wait);
    } while (atomic_load(&made->worker->lately_ns) != cases[i].lately_ns);
    assert_int_equal(wait.patience_ns, cases[i].patience_ns);
  }
  atomic_store(&made->post.ender, ANYBODY);
  test_join(test);
  test_flight_destroy(test);
}

/* Those of a device's own thread too, which parks until the message has come that its queue waits
 * for. */
static void waits_that_end_parked_count(void **state) {
  enum { PAUSE_NS = 50000000, LATELY_NS = PAUSE_NS / 8 };
  fixture *made = *state;
  if (tdm_context_cores(made->context, made->device)->shared) skip(); /* it parks at once */
  test_flight *test = test_flight_create(made->context);
  const uint32_t base = test_base(test, made->device, 1, 1);
  const uint32_t computes = program_of(test, made, TDM_QUEUE_COMPUTE);
  const uint32_t receives = program_of(test, made, TDM_QUEUE_RECEIVE);
  test_wait(test, computes, add_message(test, receives, TDM_COMMAND_RECEIVE));
  test_execute(test, computes, &test_mix_kernel, base, NULL, 0, 3);
  bool counted = false;
  for (int i = 0; i < 50 && !counted; i++) { /* it may get no core to begin to wait on */
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    atomic_store(&made->worker->lately_ns, 0);
    atomic_store(&made->post.ender, NOBODY);
    test_submit(test, false);
    (void)nanosleep(&pause, NULL);
    atomic_store(&made->post.ender, ANYBODY);
    test_join(test);
    counted = atomic_load(&made->worker->lately_ns) >= LATELY_NS;
  }
  assert_true(counted);
  test_flight_destroy(test);
}

static uint64_t own_cpu_ns(void) {
  struct timespec time;
  assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A queue that is borrowed waits 900 ms for a kernel of another device. */
static void who_waits_long_on_a_borrowed_queue_parks(void **state) {
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  tdm_device *other = test_device(made->context, "cpu:1");
  const uint32_t far = test_base(test, other, 1, 1);
  const uint32_t near = test_base(test, made->device, 1, 1);
  const uint32_t computes =
      program_of(test, made, TDM_QUEUE_COMPUTE); /* the one that is borrowed */
  tdm_command *slow = test_execute(test, test_program(test, other->queues[TDM_QUEUE_COMPUTE]),
                                   &test_slow_kernel, far, NULL, 0, 900000);
  test_wait(test, computes, slow);
  test_execute(test, computes, &test_mix_kernel, near, NULL, 0, 3);
  const uint64_t since_ns = tdm_time_ns(), before_ns = own_cpu_ns();
  test_run(test, true);
  assert_true(tdm_time_ns() - since_ns >= 900000000);
  assert_in_range(own_cpu_ns() - before_ns, 0, 25000000);
  test_flight_destroy(test);
}

static _Atomic int held_kernel; /* 1: it has begun; 2: it may end */

static tdm_status execute_held(const tdm_kernel_call *call) {
  atomic_store(&held_kernel, 1);
  while (atomic_load(&held_kernel) < 2)
    (void)sched_yield();
  return test_mix_kernel.execute(call);
}

/* The waiting thread would use the cores of the kernel. */
static void messages_are_not_attended_beside_a_kernel(void **state) {
  fixture *made = *state;
  tdm_kernel kernel = test_mix_kernel;
  kernel.execute = execute_held;
  test_flight *test = test_flight_create(made->context);
  const uint32_t base = test_base(test, made->device, 1, 1);
  test_execute(test, program_of(test, made, TDM_QUEUE_COMPUTE), &kernel, base, NULL, 0, 3);
  add_message(test, program_of(test, made, TDM_QUEUE_RECEIVE), TDM_COMMAND_RECEIVE);
  atomic_store(&made->post.ender, NOBODY);
  atomic_store(&held_kernel, 0);
  test_submit(test, false);
  while (atomic_load(&held_kernel) == 0)
    (void)sched_yield();
  tdm_attendance wait = {0};
  const bool computes = tdm_context_computes(made->context);
  /* Nor is it a loss if the kernel had the core. */
  bool yields = false;
  for (int i = 0; i < 1000 && !yields; i++) { /* other threads may have recorded a loss */
    atomic_store(&tdm_context_oversubscription(made->context)->until_ns, 0);
    yields = tdm_context_yield(made->context, tdm_time_ns() - 1000000000);
  }
  const bool beside = tdm_context_attend(made->context, &wait);
  tdm_context_attend_end(made->context, &wait);
  atomic_store(&held_kernel, 2);
  while (tdm_context_computes(made->context))
    (void)sched_yield();
  const bool behind = tdm_context_attend(made->context, &wait);
  tdm_context_attend_end(made->context, &wait);
  atomic_store(&made->post.ender, ANYBODY);
  test_join(test);
  assert_true(computes);
  assert_true(yields);
  assert_false(beside);
  assert_true(behind);
  test_flight_destroy(test);
}

/* ---- The worker's own thread ----------------------------------------------------------------- */

static void what_nobody_waits_for_is_looked_after(void **state) {
  fixture *made = *state;
  test_flight *test = test_flight_create(made->context);
  const uint32_t sends = program_of(test, made, TDM_QUEUE_SEND);
  for (int i = 0; i < 5; i++)
    add_message(test, sends, TDM_COMMAND_SEND);
  atomic_store(&made->post.ender, ANOTHER);
  test_run(test, false);
  assert_int_equal(atomic_load(&made->post.ended), 5);
  assert_int_equal(atomic_load(&made->post.by_test), 0);
  test_flight_destroy(test);
}

/* A thread posts a message while it waits for another, and goes: the worker's own thread, which
 * slept until something would come, sees it to its end. */
static void who_goes_leaves_messages_to_the_worker(void **state) {
  fixture *made = *state;
  for (int i = 0; i < 50; i++) {
    test_flight *test = test_flight_create(made->context);
    const uint32_t base = test_base(test, made->device, 1, 1);
    const uint32_t computes = program_of(test, made, TDM_QUEUE_COMPUTE);
    const uint32_t sends = program_of(test, made, TDM_QUEUE_SEND);
    const uint32_t receives = program_of(test, made, TDM_QUEUE_RECEIVE);
    tdm_command *made_first = test_execute(test, computes, &test_mix_kernel, base, NULL, 0, i);
    test_wait(test, sends, made_first);
    add_message(test, sends, TDM_COMMAND_SEND);
    add_message(test, receives, TDM_COMMAND_RECEIVE);
    add_message(test, receives, TDM_COMMAND_RECEIVE);
    atomic_store(&made->post.ender, ANOTHER);
    test_submit(test, false);
    tdm_attendance wait = {0};
    for (int k = 0; k < i; k++)
      if (!tdm_context_attend(made->context, &wait)) break;
    tdm_context_attend_leave(made->context, &wait);
    test_join(test);
    tdm_context_attend_end(made->context, &wait);
    test_flight_destroy(test);
  }
  assert_int_equal(atomic_load(&made->post.ended), 150);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_network_at_rest_is_not_attended, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_waits_takes_messages_on, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_has_borrowed_a_queue_takes_messages_on, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(who_has_made_what_is_sent_sends_it, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_team_is_of_who_computes_on_several_cores, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(a_team_is_of_who_computes_on_several_cores, set_up_alone,
                                      tear_down),
      cmocka_unit_test_setup_teardown(who_looks_wakes_the_worker_if_nobody_attends, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(nobody_attends_for_ever, set_up, tear_down),
      cmocka_unit_test_setup_teardown(how_long_waits_took_lately_is_kept, set_up, tear_down),
      cmocka_unit_test_setup_teardown(waits_that_end_parked_count, set_up_alone, tear_down),
      cmocka_unit_test_setup_teardown(patience_is_twice_what_waits_took, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_waits_long_on_a_borrowed_queue_parks, set_up, tear_down),
      cmocka_unit_test_setup_teardown(messages_are_not_attended_beside_a_kernel, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_nobody_waits_for_is_looked_after, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_goes_leaves_messages_to_the_worker, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
