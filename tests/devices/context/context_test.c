/* The context: which devices and kernels it finds, how it starts and how it ends, on its own loop
 * and on a caller's. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "devices/context/kernel_registry.h"
#include "devices/topology/topology.h"
#include "tests/devices/support.h"
#include "tests/options.h"

static tdm_context *create(const tdm_context_options *options) {
  tdm_context *context = tdm_context_create(options);
  if (!context) fail_msg("%s", tdm_last_message());
  return context;
}

static void a_missing_device_says_why(void **state) {
  (void)state;
  tdm_context *context = create(NULL);
  assert_ok(tdm_device_check(context, "cpu:0"));
  assert_ok(tdm_device_check(context, "sim:0"));
  assert_status(tdm_device_check(context, "cuda:0"), TDM_UNAVAILABLE);
  assert_message("CUDA");
  assert_status(tdm_device_check(context, "sim:7"), TDM_UNAVAILABLE);
  assert_message("sim:7");
  assert_message("1 device of kind sim; devices are: cpu:0, sim:0");
  static const char *const bad_names[] = {"tpu:0", "cp", "cpu:", "cpu:x", "cpu:0 ", "", ":0"};
  for (size_t i = 0; i < TDM_COUNT_OF(bad_names); i++) {
    assert_status(tdm_device_check(context, bad_names[i]), TDM_INVALID_ARGUMENT);
    assert_false(tdm_is_available(context, bad_names[i]));
  }
  assert_status(tdm_device_check(context, "cpus:0"), TDM_INVALID_ARGUMENT);
  assert_message("there is no kind of device \"cpus\"; kinds are: cpu, sim, cuda, paper");
  assert_status(tdm_device_check(context, NULL), TDM_INVALID_ARGUMENT);
  tdm_context_release(context);
}

static void a_kind_means_its_first_device(void **state) {
  (void)state;
  (void)setenv("TANDEM_DEVICES", "sim=3,cpu=2", 1);
  tdm_context *context = create(NULL);
  (void)unsetenv("TANDEM_DEVICES");
  assert_int_equal(tdm_device_count_of(context, "cpu"), 2);
  assert_int_equal(tdm_device_count_of(context, "sim"), 3);
  assert_int_equal(tdm_device_count_of(context, "tpu"), 0);
  assert_int_equal(tdm_device_count_of(context, NULL), 0);
  assert_int_equal(tdm_device_count_of(NULL, "cpu"), 0);
  assert_true(tdm_is_available(context, "cpu"));
  assert_true(tdm_is_available(context, "sim:2"));
  assert_false(tdm_is_available(context, "sim:3"));
  assert_false(tdm_is_available(NULL, "cpu"));
  assert_string_equal(tdm_context_find_device(context, "cpu")->name, "cpu:0");
  assert_string_equal(tdm_context_find_device(context, "sim")->name, "sim:0");
  tdm_device *devices[3];
  size_t count;
  assert_ok(tdm_context_find_devices(context, "sim:1,cpu,sim", 3, devices, &count));
  assert_int_equal(count, 3);
  assert_string_equal(devices[1]->name, "cpu:0");
  assert_string_equal(devices[2]->name, "sim:0");
  tdm_context_release(context);
}

/* Words in full, and who is meant where there is one. */
static void names_are_answered_as_recorded(void **state) {
  (void)state;
  static const struct {
    const char *list, *answer;
  } cases[] = {
      {"sim:1,cpu,sim", "sim:1 cpu:0 sim:0"},
      {"sim:*", "sim:0 sim:1"},
      {"cpu:*,sim:1", "cpu:0 cpu:1 sim:1"},
      {"host:0/sim:1", "sim:1"},
      {"host:*/cpu:1", "cpu:1"},
      {"host:0/sim:*,cpu:*,cpu:1", "more than 4 devices, with cpu:1"},
      {"", "no devices are given"},
      {"cpu:0,", "\"cpu:0,\" is no list of devices"},
      {",cpu:0", "\",cpu:0\" is no list of devices"},
      {"cpu:0,,sim:0", "\"cpu:0,,sim:0\" is no list of devices"},
      {"0123456789012345678901234567890",
       "\"0123456789012345678901234567890\": there is no kind of device "
       "\"0123456789012345678901234567890\"; kinds are: cpu, sim, cuda, paper"},
      {"01234567890123456789012345678901",
       "\"01234567890123456789012345678901\" is no list of devices"},
      {"cpu:2", "there is no cpu:2: the context has 2 devices of kind cpu; devices are: cpu:0, "
                "cpu:1, sim:0, sim:1"},
      {":*", "\":*\" does not name a device as kind:index, like cpu:0"},
      {"cpu:", "\"cpu:\" does not name a device as kind:index, like cpu:0"},
      {"cpu:0x", "\"cpu:0x\" does not name a device as kind:index, like cpu:0"},
      {"tpu:*", "\"tpu:*\": there is no kind of device \"tpu\"; kinds are: cpu, sim, cuda, paper"},
      {"paper:*", "there is no paper:*: no machine is described (tdm_context_options.machine); "
                  "devices are: cpu:0, cpu:1, sim:0, sim:1"},
      {"host:1/cpu:0", "there is no host:1/cpu:0: the job has 1 rank"},
      {"host:0",
       "\"host:0\" does not name a rank's device as host:rank/kind:index, like host:1/cpu:0"},
      {"host:/cpu:0",
       "\"host:/cpu:0\" does not name a rank's device as host:rank/kind:index, like host:1/cpu:0"},
      {"host:a/cpu:0",
       "\"host:a/cpu:0\" does not name a rank's device as host:rank/kind:index, like host:1/cpu:0"},
  };
  tdm_context *context = test_context(NULL);
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    tdm_device *devices[4];
    size_t count = 7, placements = 7;
    char answer[256] = "";
    tdm_status status = tdm_context_find_placements(context, cases[i].list, TDM_COUNT_OF(devices),
                                                    devices, &placements);
    if (status != TDM_OK) {
      assert_int_equal(placements, 0);
      assert_string_equal(tdm_last_message(), cases[i].answer);
    }
    status =
        tdm_context_find_devices(context, cases[i].list, TDM_COUNT_OF(devices), devices, &count);
    assert_int_equal(count, placements); /* rank 0's are all */
    for (size_t k = 0; k < count; k++) {
      if (k > 0) strcat(answer, " ");
      strcat(answer, devices[k]->name);
    }
    assert_string_equal(status == TDM_OK ? answer : tdm_last_message(), cases[i].answer);
  }
  static const char *const several[][2] = {
      {"cpu:*", "\"cpu:*\" names all devices of a kind, not one"},
      {"host:*/cpu:0", "\"host:*/cpu:0\" names a device of every rank, not one"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(several); i++) {
    assert_null(tdm_context_find_device(context, several[i][0]));
    assert_string_equal(tdm_last_message(), several[i][1]);
    assert_null(tdm_context_find_placement(context, several[i][0]));
  }
  assert_null(tdm_device_name_at(context, 4));
  assert_string_equal(tdm_device_name_at(context, 3), "sim:1");
  assert_null(tdm_context_device(context, 4));
  tdm_context_release(context);
}

static void kernels_are_registered_once(void **state) {
  (void)state;
  tdm_context *context = create(NULL);
  assert_null(tdm_context_find_kernel(context, "test_mix", "cpu", TDM_INT64));
  assert_ok(tdm_kernel_register(context, &test_mix_kernel));
  assert_ptr_equal(tdm_context_find_kernel(context, "test_mix", "cpu", TDM_INT64),
                   &test_mix_kernel);
  assert_null(tdm_context_find_kernel(context, "test_mix", "cpu", TDM_INT32));
  assert_null(tdm_context_find_kernel(context, "test_mix", "cuda", TDM_INT64));
  assert_status(tdm_kernel_register(context, &test_mix_kernel), TDM_INVALID_ARGUMENT);
  assert_message("test_mix");
  tdm_kernel kernel = test_mix_kernel;
  kernel.struct_size = 8;
  assert_status(tdm_kernel_register(context, &kernel), TDM_INVALID_ARGUMENT);
  kernel = test_mix_kernel;
  kernel.execute = NULL;
  assert_status(tdm_kernel_register(context, &kernel), TDM_INVALID_ARGUMENT);
  kernel = test_mix_kernel;
  kernel.operation = "";
  assert_status(tdm_kernel_register(context, &kernel), TDM_INVALID_ARGUMENT);
  kernel = test_mix_kernel;
  kernel.dtype = TDM_DTYPE_NONE;
  assert_status(tdm_kernel_register(context, &kernel), TDM_INVALID_ARGUMENT);
  assert_status(tdm_kernel_register(context, NULL), TDM_INVALID_ARGUMENT);
  tdm_context_release(context);
}

static void many_kernels_are_found(void **state) {
  (void)state;
  enum { KERNELS = 2000 };
  tdm_context *context = create(NULL);
  tdm_kernel *kernels = calloc(KERNELS, sizeof *kernels);
  char(*names)[24] = calloc(KERNELS, sizeof *names);
  assert_true(kernels && names);
  for (int i = 0; i < KERNELS; i++) {
    (void)snprintf(names[i], sizeof names[i], "kernel%d", i);
    kernels[i] = test_mix_kernel;
    kernels[i].operation = names[i];
    assert_ok(tdm_kernel_register(context, &kernels[i]));
  }
  for (int i = 0; i < KERNELS; i++)
    assert_ptr_equal(tdm_context_find_kernel(context, names[i], "cpu", TDM_INT64), &kernels[i]);
  tdm_context_release(context);
  free(names);
  free(kernels);
}

static void every_kind_fills_its_table(void **state) {
  (void)state;
  tdm_context *context = create(NULL);
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    const tdm_device_ops *ops = tdm_context_device(context, i)->ops;
    assert_ok(tdm_device_ops_check(ops));
    for (size_t at = 0; at < sizeof *ops; at += sizeof(void *)) { /* names as well as functions */
      tdm_device_ops broken = *ops;
      memset((char *)&broken + at, 0, sizeof(void *));
      assert_status(tdm_device_ops_check(&broken), TDM_INTERNAL);
    }
    tdm_device_ops broken = *ops;
    broken.translate = NULL;
    assert_status(tdm_device_ops_check(&broken), TDM_INTERNAL);
    assert_message("translate");
  }
  tdm_context_release(context);
}

static void a_registry_without_kernels_finds_none(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_kernel_registry registry;
  assert_ok(tdm_kernel_registry_init(&registry, &allocator));
  assert_null(tdm_kernel_registry_find(&registry, "test_mix", "cpu", TDM_INT64));
  assert_ok(tdm_kernel_registry_add(&registry, &test_mix_kernel));
  assert_ptr_equal(tdm_kernel_registry_find(&registry, "test_mix", "cpu", TDM_INT64),
                   &test_mix_kernel);
  assert_null(tdm_kernel_registry_find(&registry, "test_mix", "cpu", TDM_FLOAT32));
  tdm_kernel_registry_deinit(&registry);
}

static void bells_are_lent_until_they_run_out(void **state) {
  (void)state;
  tdm_context *context = create(NULL);
  bool seen[TDM_MAX_WAITERS] = {false};
  uint32_t bells[TDM_MAX_WAITERS - 1];
  for (size_t i = 0; i < TDM_COUNT_OF(bells); i++) {
    bells[i] = tdm_context_bell_acquire(context);
    assert_true(bells[i] < TDM_MAX_WAITERS - 1);
    assert_false(seen[bells[i]]);
    seen[bells[i]] = true;
  }
  assert_int_equal(tdm_context_bell_acquire(context), TDM_MAX_WAITERS - 1);
  assert_int_equal(tdm_context_bell_acquire(context), TDM_MAX_WAITERS - 1);
  tdm_context_bell_release(context, TDM_MAX_WAITERS - 1);
  assert_int_equal(tdm_context_bell_acquire(context), TDM_MAX_WAITERS - 1);
  tdm_context_bell_release(context, bells[9]);
  assert_int_equal(tdm_context_bell_acquire(context), bells[9]);
  tdm_context_release(context);
}

/* Checks that exactly the doorbells that requested the point ring, once each. */
static void who_asked_for_a_point_is_rung_once(void **state) {
  (void)state;
  tdm_context *context = create(NULL);
  tdm_queue queue = {.device = tdm_context_host(context)};
  uint32_t before[TDM_MAX_WAITERS];
  static const uint32_t asked[] = {0, 5, TDM_MAX_WAITERS - 1};
  for (int turn = 0; turn < 2; turn++) {
    for (uint32_t i = 0; i < TDM_MAX_WAITERS; i++)
      before[i] = tdm_doorbell_read(tdm_context_bell(context, i));
    for (size_t i = 0; i < TDM_COUNT_OF(asked); i++)
      tdm_queue_ask(&queue, asked[i] + (uint32_t)turn * (i == 1));
    tdm_queue_publish(&queue, 1 + (uint64_t)turn);
    tdm_queue_publish(&queue, 3 + (uint64_t)turn);
    assert_int_equal(atomic_load(&queue.waiters), 0);
    assert_int_equal(atomic_load(&queue.completed), 3 + turn);
    for (uint32_t i = 0; i < TDM_MAX_WAITERS; i++) {
      const bool rings = i == 0 || i == 5 + (uint32_t)turn || i == TDM_MAX_WAITERS - 1;
      const bool rang = tdm_doorbell_read(tdm_context_bell(context, i)) != before[i];
      if (rings != rang) fail_msg("bell %u, turn %d: %d", i, turn, rang);
    }
  }
  tdm_context_release(context);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void count_call(void *user) {
  atomic_fetch_add((_Atomic int *)user, 1);
}

/* Checks that a flight without programs settles immediately. */
static void nothing_that_is_submitted_settles(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  test_flight *test = test_flight_create(context);
  tdm_flight_reset(&test->flight, 0);
  assert_ok(tdm_context_submit(context, &test->flight, test->submissions, 0, true));
  assert_int_equal(atomic_load(&test->settled_count), 1);
  test_flight_destroy(test);
  tdm_context_release(context);
}

/* Closed before it was ever used. */
static void a_context_that_is_closed_does_not_start(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_context_close(context, NULL, NULL);
  assert_status(tdm_context_start(context), TDM_CANCELLED);
  assert_string_equal(tdm_last_message(), "the context is closed");
  tdm_context_release(context);
}

static void closing_refuses_new_work(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_context_start(context));
  test_flight *test = test_flight_create(context);
  const uint32_t base = test_base(test, test_device(context, "sim:0"), 1, 1);
  const uint32_t program =
      test_program(test, test_device(context, "sim:0")->queues[TDM_QUEUE_COMPUTE]);
  test_execute(test, program, &test_mix_kernel, base, NULL, 0, 1);
  _Atomic int closed = 0;
  assert_true(tdm_context_enter(context));
  tdm_context_leave(context);
  tdm_context_close(context, count_call, (void *)&closed);
  assert_int_equal(closed, 1);
  assert_false(tdm_context_enter(context));
  tdm_flight_reset(&test->flight, test->id_count);
  assert_status(tdm_context_submit(context, &test->flight, test->submissions, 1, false),
                TDM_CANCELLED);
  tdm_context_close(context, count_call, (void *)&closed); /* a second call has no effect */
  assert_int_equal(closed, 1);
  test_flight_destroy(test);
  tdm_context_release(context);
}

typedef struct closing_user {
  tdm_context *context;
  _Atomic bool entered;
  _Atomic bool left;
} closing_user;

static void *stay_a_while(void *data) {
  closing_user *user = data;
  assert_true(tdm_context_enter(user->context));
  atomic_store(&user->entered, true);
  const struct timespec pause = {.tv_nsec = 20000000};
  (void)nanosleep(&pause, NULL);
  atomic_store(&user->left, true);
  tdm_context_leave(user->context);
  return NULL;
}

static void closing_waits_for_users(void **state) {
  (void)state;
  closing_user user = {.context = create(NULL)};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, stay_a_while, &user), 0);
  while (!atomic_load(&user.entered))
    tdm_spin_pause();
  tdm_context_close(user.context, NULL, NULL);
  assert_true(atomic_load(&user.left));
  tdm_context_release(user.context);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void work_in_flight_settles_before_the_end(void **state) {
  (void)state;
  tdm_context *context = test_context("latency_us=500");
  tdm_device *sim = test_device(context, "sim:0");
  test_flight *test = test_flight_create(context);
  const uint32_t from = test_base(test, test_device(context, "cpu:0"), 8, 5);
  const uint32_t to = test_base(test, sim, 8, 1);
  const uint32_t upload = test_program(test, sim->queues[TDM_QUEUE_UPLOAD]);
  const tdm_command *copy = test_copy(test, upload, from, to);
  const uint32_t compute = test_program(test, sim->queues[TDM_QUEUE_COMPUTE]);
  test_wait(test, compute, copy);
  test_execute(test, compute, &test_slow_kernel, to, NULL, 0, 1000);
  test_submit(test, false);
  tdm_context_close(context, NULL, NULL);
  assert_int_equal(atomic_load(&test->settled_count), 1);
  assert_reached(test);
  test_flight_destroy(test);
  tdm_context_release(context);
}

/* The last reference is released on a thread of the context, which cannot join itself. */
static _Atomic bool submitter_left;

static void release_from_settled(tdm_flight *flight) {
  test_flight *test = flight->user;
  tdm_context *context = test->context;
  while (!atomic_load(&submitter_left))
    (void)sched_yield();
  tdm_context_release(context);
}

static _Atomic int outstanding;

static void log_nothing(void *user, tdm_log_level level, const char *message) {
  (void)user;
  (void)level;
  (void)message;
}

static void *counting_allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  atomic_fetch_add(&outstanding, 1);
  const tdm_allocator plain = tdm_allocator_default();
  return plain.allocate(plain.user, bytes, alignment);
}

static void counting_release(void *user, void *memory, size_t bytes) {
  (void)user;
  const tdm_allocator plain = tdm_allocator_default();
  plain.release(plain.user, memory, bytes);
  if (memory) atomic_fetch_sub(&outstanding, 1);
}

static void the_last_reference_may_go_on_a_worker(void **state) {
  (void)state;
  const tdm_allocator allocator = {.allocate = counting_allocate, .release = counting_release};
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.log = log_nothing);
  atomic_store(&outstanding, 0);
  tdm_context *context = create(&options);
  test_flight *test = test_flight_create(context);
  tdm_device *cpu = test_device(context, "cpu:0");
  const uint32_t base = test_base(test, cpu, 1, 1);
  test_execute(test, test_program(test, cpu->queues[TDM_QUEUE_COMPUTE]), &test_mix_kernel, base,
               NULL, 0, 1);
  test->flight.settled = release_from_settled;
  cpu->ops->release(cpu, &test->memories[base]); /* freed early: the kernel is taken out */
  test->commands[0][0].kind = TDM_COMMAND_NOTHING;
  test->base_count = 0;
  tdm_flight_reset(&test->flight, test->id_count);
  atomic_store(&submitter_left, false);
  assert_ok(tdm_context_submit(context, &test->flight, test->submissions, 1, false));
  atomic_store(&submitter_left, true);
  const uint64_t limit_ns = tdm_time_ns() + 20000000000u;
  while (atomic_load(&outstanding) != 0) { /* until the last allocation is released */
    assert_true(tdm_time_ns() < limit_ns);
    (void)sched_yield();
  }
  free(test);
}

static void a_callers_loop_closes_in_its_own_time(void **state) {
  (void)state;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  _Atomic int closed = 0;
  const tdm_context_options options = OPTIONS(tdm_context_options, o.loop = &loop);
  for (int started = 0; started < 2; started++) {
    tdm_context *context = create(&options);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* no operation is in flight: returns */
    if (started == 1) assert_ok(tdm_context_start(context));
    tdm_context_close(context, count_call, (void *)&closed);
    assert_int_equal(closed, started);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(closed, started + 1);
    tdm_context_release(context);
  }
  tdm_context *context = create(&options);
  tdm_context_release(context); /* not closed explicitly: closes itself, in the loop */
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_missing_device_says_why),
      cmocka_unit_test(a_kind_means_its_first_device),
      cmocka_unit_test(names_are_answered_as_recorded),
      cmocka_unit_test(kernels_are_registered_once),
      cmocka_unit_test(many_kernels_are_found),
      cmocka_unit_test(every_kind_fills_its_table),
      cmocka_unit_test(a_registry_without_kernels_finds_none),
      cmocka_unit_test(bells_are_lent_until_they_run_out),
      cmocka_unit_test(who_asked_for_a_point_is_rung_once),
      cmocka_unit_test(nothing_that_is_submitted_settles),
      cmocka_unit_test(a_context_that_is_closed_does_not_start),
      cmocka_unit_test(closing_refuses_new_work),
      cmocka_unit_test(closing_waits_for_users),
      cmocka_unit_test(work_in_flight_settles_before_the_end),
      cmocka_unit_test(the_last_reference_may_go_on_a_worker),
      cmocka_unit_test(a_callers_loop_closes_in_its_own_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
