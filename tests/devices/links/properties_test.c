/* Properties of devices and links: of this machine, simulated, and of a described machine. Illegal
 * queries are refused by name. */
#include "tandem/devices/properties.h"

#include <string.h>

#include "devices/context/context.h"
#include "devices/links/table.h"
#include "tests/devices/support.h"
#include "tests/options.h"

static tdm_device_properties properties_of(tdm_context *context, const char *name) {
  tdm_device_properties properties = {.struct_size = sizeof properties};
  assert_ok(tdm_device_get_properties(context, name, &properties));
  return properties;
}

static tdm_link_properties link_of(tdm_context *context, const char *from, const char *to,
                                   bool pinned) {
  tdm_link_properties properties = {.struct_size = sizeof properties};
  assert_ok(tdm_link_get_properties(context, from, to, pinned, &properties));
  return properties;
}

static void devices_of_the_host_have_its_memory(void **state) {
  (void)state;
  tdm_context *context = test_context("latency_us=7,gigabytes_per_second=2");
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    const char *name = tdm_device_name_at(context, i);
    const tdm_device_properties told = properties_of(context, name);
    const tdm_device *device = test_device(context, name);
    assert_string_equal(told.kind, device->ops->kind);
    assert_int_equal(told.index, device->index);
    assert_int_equal(told.rank, 0);
    assert_true(told.is_here);
    assert_true(told.threads >= 1);
    assert_true(told.memory_bytes > 0);
    assert_true(told.free_bytes > 0 && told.free_bytes <= told.memory_bytes);
    if (strcmp(told.kind, "sim") == 0) assert_non_null(strstr(told.model, "7 us, 2 GB/s"));
  }
  assert_string_equal(properties_of(context, "cpu").kind, "cpu");
  tdm_context_release(context);
}

static void links_are_the_models(void **state) {
  (void)state;
  tdm_context *context = test_context("latency_us=7,gigabytes_per_second=2");
  for (int pinned = 0; pinned < 2; pinned++) {
    const tdm_link_properties link = link_of(context, "cpu:0", "sim:1", pinned == 1);
    assert_false(link.measured);
    assert_true(link.latency_us == 7 && link.gigabytes_per_second == 2);
    double us = 0;
    assert_ok(tdm_link_predict(context, "cpu:0", "sim:1", pinned == 1, 4000, &us));
    assert_true(us == 7 + 2);
  }
  assert_true(link_of(context, "cpu:0", "cpu:1", false).gigabytes_per_second == 0);
  tdm_context_release(context);
}

static void measured_links_say_so(void **state) {
  (void)state;
  tdm_context *context = test_context("latency_us=300,gigabytes_per_second=0.5");
  assert_ok(tdm_links_calibrate(context, 65536));
  const tdm_link_properties link = link_of(context, "sim:0", "cpu:0", true);
  assert_true(link.measured);
  assert_true(link.latency_us >= 299);
  tdm_context_release(context);
}

static void a_described_machine_tells_its_memory(void **state) {
  (void)state;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 1, o.sim_devices = 0,
              o.machine = "tools/machines/dgx_a100.json");
  tdm_context *context = tdm_context_create(&options);
  assert_non_null(context);
  tdm_device *device = test_device(context, "paper:0");
  tdm_device_properties told = properties_of(context, "paper:0");
  assert_string_equal(told.kind, "paper");
  assert_false(told.is_here);
  assert_int_equal(told.threads, 0);
  assert_true(told.memory_bytes > 0);
  assert_true(told.free_bytes == told.memory_bytes);
  tdm_memory memory;
  assert_ok(device->ops->allocate(device, 1 << 20, &memory));
  told = properties_of(context, "paper:0");
  assert_true(told.free_bytes == told.memory_bytes - (1 << 20));
  device->ops->release(device, &memory);
  tdm_context_release(context);
}

static void what_cannot_be_told_is_refused(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device_properties device = {.struct_size = sizeof device};
  tdm_link_properties link = {.struct_size = sizeof link};
  double us;
  assert_int_equal(tdm_device_get_properties(context, "cpu:9", &device), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "cpu:9"));
  assert_int_equal(tdm_last_status(), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_device_get_properties(context, "cpu:0", NULL), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_device_get_properties(NULL, "cpu:0", &device), TDM_INVALID_ARGUMENT);
  device.struct_size--;
  assert_int_equal(tdm_device_get_properties(context, "cpu:0", &device), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "struct_size"));
  assert_int_equal(tdm_link_get_properties(context, "cpu:0", "gpu", true, &link),
                   TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "gpu"));
  assert_int_equal(tdm_link_get_properties(context, "cpu:0", "sim:0", true, NULL),
                   TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_link_predict(context, "cpu:0", "sim:0", true, 1, NULL),
                   TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_link_predict(context, "sim:7", "sim:0", true, 1, &us), TDM_INVALID_ARGUMENT);
  assert_int_equal(tdm_last_status(), TDM_INVALID_ARGUMENT);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_of_the_host_have_its_memory),
      cmocka_unit_test(links_are_the_models),
      cmocka_unit_test(measured_links_say_so),
      cmocka_unit_test(a_described_machine_tells_its_memory),
      cmocka_unit_test(what_cannot_be_told_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
