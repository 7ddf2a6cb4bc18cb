/* Creation of contexts: options and environment, the cores of devices, and leaks if memory is
 * short. */
#include <stdlib.h>
#include <uv.h>

#include "devices/topology/topology.h"
#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/faulty_allocator.h"

static tdm_context *create(const tdm_context_options *options) {
  tdm_context *context = tdm_context_create(options);
  if (!context) fail_msg("%s", tdm_last_message());
  return context;
}

static void assert_devices(const tdm_context *context, const char *const *names) {
  size_t count = 0;
  for (; names[count]; count++)
    assert_string_equal(tdm_device_name_at(context, count), names[count]);
  assert_int_equal(tdm_device_count(context), count);
  assert_null(tdm_device_name_at(context, count));
}

static void options_win_over_the_environment(void **state) {
  (void)state;
  (void)setenv("TANDEM_DEVICES", "sim=3,cpu=4", 1);
  tdm_context *context = create(NULL);
  assert_devices(context, (const char *[]){"cpu:0", "cpu:1", "cpu:2", "cpu:3", "sim:0", "sim:1",
                                           "sim:2", NULL});
  tdm_context_release(context);
  (void)setenv("TANDEM_CPU_DEVICES", "2", 1);
  const tdm_context_options options = OPTIONS(tdm_context_options, o.sim_devices = 1);
  context = create(&options);
  assert_devices(context, (const char *[]){"cpu:0", "cpu:1", "sim:0", NULL});
  tdm_context_release(context);
  (void)unsetenv("TANDEM_CPU_DEVICES");
  (void)unsetenv("TANDEM_DEVICES");
}

/* A machine of two nodes has two devices, unless another number is requested. */
static void every_node_is_a_device(void **state) {
  (void)state;
  (void)setenv("HWLOC_SYNTHETIC", "numa:2 core:2 pu:1", 1);
  (void)setenv("HWLOC_THISSYSTEM", "0", 1);
  for (int asked = 0; asked <= 3; asked++) { /* 0: all nodes */
    const tdm_context_options options =
        OPTIONS(tdm_context_options, o.cpu_devices = asked > 0 ? asked : TDM_FROM_ENVIRONMENT,
                o.sim_devices = 0);
    tdm_context *context = create(&options);
    assert_int_equal(tdm_device_count(context), asked == 0 ? 2 : asked);
    tdm_context_release(context);
  }
  (void)unsetenv("HWLOC_SYNTHETIC");
  (void)unsetenv("HWLOC_THISSYSTEM");
}

static void a_context_can_do_without_sim(void **state) {
  (void)state;
  (void)setenv("TANDEM_CPU_DEVICES", "1", 1);
  (void)setenv("TANDEM_DEVICES", "sim=0,cuda=0", 1);
  tdm_context *context = create(NULL);
  assert_devices(context, (const char *[]){"cpu:0", NULL});
  assert_string_equal(tdm_accelerator(context), "cpu:0");
  assert_string_equal(tdm_simulator(context), "sim:0"); /* no other device replaces it */
  assert_status(tdm_device_check(context, "sim:0"), TDM_UNAVAILABLE);
  assert_message("none were asked for");
  assert_null(tdm_tensor_zeros(context, tdm_simulator(context), TDM_FLOAT32, tdm_shape_of(1, 2)));
  tdm_context_release(context);
  tdm_context_options options = OPTIONS(tdm_context_options, o.sim_devices = 1);
  context = create(&options);
  assert_devices(context, (const char *[]){"cpu:0", "sim:0", NULL});
  tdm_context_release(context);
  (void)unsetenv("TANDEM_DEVICES");
  options.sim_devices = 0;
  context = create(&options);
  assert_int_equal(tdm_device_check(context, "sim:0"), TDM_UNAVAILABLE);
  tdm_context_release(context);
  options.sim_devices = -1;
  assert_null(tdm_context_create(&options));
  assert_message("sim_devices is -1, expected 0 to 64, or TDM_FROM_ENVIRONMENT");
  (void)unsetenv("TANDEM_CPU_DEVICES");
}

static void a_kind_has_64_devices_at_most(void **state) {
  (void)state;
  tdm_context_options options = OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 64);
  tdm_context *context = create(&options);
  assert_string_equal(tdm_device_name_at(context, 64), "sim:63");
  assert_null(tdm_device_name_at(context, 65));
  tdm_context_release(context);
  options.sim_devices = 65;
  assert_null(tdm_context_create(&options));
  assert_message("sim_devices is 65, expected 0 to 64");
}

static void bad_settings_are_named(void **state) {
  (void)state;
  static const struct {
    const char *variable;
    const char *value;
    const char *named;
  } cases[] = {
      {"TANDEM_DEVICES", "tpu=1", "tpu"},
      {"TANDEM_DEVICES", "sim", "TANDEM_DEVICES"},
      {"TANDEM_DEVICES", "cpu=0", "cpu"},
      {"TANDEM_CPU_DEVICES", "many", "many"},
      {"TANDEM_SIM", "speed=3", "speed"},
      {"TANDEM_SIM", "latency_us=-1", "latency_us"},
      {"TANDEM_SIM", "gigabytes_per_second=1e-300", "neither 0 nor from 1e-09"},
      {"TANDEM_SIM", "delay_seed=x", "delay_seed"},
      {"TANDEM_DEVICES", "cuda=1", "CUDA"},
      {"TANDEM_CPU_ISA", "sse9", "sse9"},
  };
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    (void)setenv(cases[i].variable, cases[i].value, 1);
    assert_null(tdm_context_create(NULL));
    assert_message(cases[i].named);
    (void)unsetenv(cases[i].variable);
  }
  assert_null(tdm_context_create(UNMADE(tdm_context_options)));
  assert_message("tdm_context_options_default()");
  tdm_context_options options = OPTIONS(tdm_context_options, o.cpu_devices = -1);
  assert_null(tdm_context_create(&options));
  options = OPTIONS(tdm_context_options, o.sim = "latency_us");
  assert_null(tdm_context_create(&options));
}

static void the_simulator_gets_cores_before_the_start_only(void **state) {
  (void)state;
  for (int early = 0; early < 2; early++) {
    tdm_context *context = create(NULL);
    if (early == 1) assert_string_equal(tdm_simulator(context), "sim:0");
    assert_ok(tdm_context_start(context));
    assert_ok(tdm_context_start(context));
    assert_string_equal(tdm_simulator(context), "sim:0");
    tdm_device *cpu = test_device(context, "cpu:0");
    tdm_device *sim = test_device(context, "sim:0");
    const tdm_core_range *cores = tdm_context_cores(context, sim);
    const size_t machine = tdm_topology_core_count(tdm_context_topology(context));
    assert_int_equal(cpu->team_size, tdm_context_cores(context, cpu)->count);
    assert_int_equal(sim->team_size, cores->count);
    if (machine >= 2 && tdm_topology_node_count(tdm_context_topology(context)) == 1) {
      assert_int_equal(cores->shared, early == 0);
      assert_int_equal(cpu->team_size + (early == 1 ? sim->team_size : 0), machine);
    }
    tdm_context_release(context);
  }
  assert_null(tdm_accelerator(NULL));
  assert_null(tdm_simulator(NULL));
  assert_int_equal(tdm_context_rank(NULL), 0);
}

static void every_nth_allocation_of_a_context_fails(void **state) {
  (void)state;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  for (int callers = 0; callers < 2; callers++) {
    tdm_faulty_allocator *faulty = tdm_faulty_allocator_create();
    const tdm_allocator allocator = tdm_faulty_allocator_view(faulty);
    const tdm_context_options options =
        OPTIONS(tdm_context_options, o.allocator = &allocator, o.loop = callers == 1 ? &loop : NULL,
                o.cpu_devices = 2, o.sim_devices = 2);
    for (uint64_t n = 1;; n++) {
      assert_true(n < 200);
      tdm_faulty_allocator_arm(faulty, n, false);
      tdm_context *context = tdm_context_create(&options);
      if (!context) {
        assert_message("out of memory");
      } else {
        const bool fails =
            tdm_faulty_allocator_failures(faulty) == 0 && tdm_context_start(context) != TDM_OK;
        assert_int_equal(fails, tdm_faulty_allocator_failures(faulty) > 0);
        tdm_faulty_allocator_arm(faulty, 0, false);
        assert_ok(tdm_context_start(context)); /* again, now that there is memory */
        tdm_context_release(context);
        assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
        assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
        if (!fails) break;
        continue;
      }
      assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
      assert_int_equal(tdm_faulty_allocator_outstanding_bytes(faulty), 0);
    }
    tdm_faulty_allocator_destroy(faulty);
  }
  assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_win_over_the_environment),
      cmocka_unit_test(every_node_is_a_device),
      cmocka_unit_test(a_context_can_do_without_sim),
      cmocka_unit_test(a_kind_has_64_devices_at_most),
      cmocka_unit_test(bad_settings_are_named),
      cmocka_unit_test(the_simulator_gets_cores_before_the_start_only),
      cmocka_unit_test(every_nth_allocation_of_a_context_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
