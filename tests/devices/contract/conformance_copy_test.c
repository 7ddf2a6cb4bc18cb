/* Conformance of copies: between TEST_DEVICE and every device, both ways, of odd sizes at odd
 * offsets, inside plans and outside, with and without modelled links. Bytes around the copy do not
 * change. */
#include <stdlib.h>
#include <string.h>

#include "tests/devices/support.h"

enum { MARGIN = 192, SENTINEL = 0xa5 };

static unsigned char pattern(size_t index, size_t seed) {
  return (unsigned char)((index * 131 + seed * 29 + index / 251) & 0xff);
}

static tdm_memory host_view(tdm_context *context, void *data, size_t bytes) {
  return (tdm_memory){
      .device = tdm_context_device(context, 0), .address = (tdm_address)data, .bytes = bytes};
}

/* Allocates memory of device filled with the sentinel or with the pattern. */
static tdm_memory prepare(tdm_context *context, tdm_device *device, size_t bytes, bool sentinel) {
  tdm_memory memory;
  assert_ok(device->ops->allocate(device, bytes, &memory));
  unsigned char *data = malloc(bytes);
  assert_non_null(data);
  for (size_t i = 0; i < bytes; i++)
    data[i] = sentinel ? SENTINEL : pattern(i, bytes);
  const tdm_memory from = host_view(context, data, bytes);
  assert_ok(tdm_context_copy(context, &from, &memory, bytes));
  free(data);
  return memory;
}

/* Expects that target has bytes of the pattern from source_offset on at target_offset, and the
 * sentinel elsewhere. */
static void verify(tdm_context *context, const tdm_memory *target, size_t target_offset,
                   size_t source_offset, size_t source_bytes, size_t bytes) {
  unsigned char *data = malloc(target->bytes);
  assert_non_null(data);
  const tdm_memory to = host_view(context, data, target->bytes);
  assert_ok(tdm_context_copy(context, target, &to, target->bytes));
  for (size_t i = 0; i < target->bytes; i++) {
    const bool inside = i >= target_offset && i - target_offset < bytes;
    const unsigned char expected =
        inside ? pattern(i - target_offset + source_offset, source_bytes) : SENTINEL;
    if (data[i] != expected)
      fail_msg("byte %zu of a copy of %zu is %d, not %d", i, bytes, data[i], expected);
  }
  free(data);
}

static void copy_once(tdm_context *context, tdm_device *from, tdm_device *to, size_t bytes,
                      size_t from_offset, size_t to_offset) {
  tdm_queue *route = test_route(from, to);
  if (!route) return;
  test_flight *test = test_flight_create(context);
  test->base_count = 2;
  test->memories[0] = prepare(context, from, bytes + from_offset, false);
  test->memories[1] = prepare(context, to, bytes + to_offset + MARGIN, true);
  test->bases[0] = test->memories[0].address;
  test->bases[1] = test->memories[1].address;
  tdm_command *copy = test_copy(test, test_program(test, route), 0, 1);
  copy->copy.from.offset = from_offset;
  copy->copy.to.offset = to_offset;
  copy->copy.bytes = bytes;
  test_run(test, true);
  assert_int_equal(test->flight.failure.id, UINT32_MAX);
  verify(context, &test->memories[1], to_offset, from_offset, bytes + from_offset, bytes);
  test_flight_destroy(test);
}

static void copy_all_ways(tdm_context *context, const size_t *sizes, size_t size_count) {
  tdm_device *device = test_device(context, TEST_DEVICE);
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    tdm_device *other = tdm_context_device(context, i);
    for (size_t k = 0; k < size_count; k++) {
      copy_once(context, device, other, sizes[k], k % 3, 64 + k % 7);
      copy_once(context, other, device, sizes[k], k % 5, 64);
    }
  }
}

static void every_pair_and_size(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 7, 64, 4095, 65537, (1 << 20) + 13};
  tdm_context *context = test_context(NULL);
  assert_ok(tdm_context_start(context));
  copy_all_ways(context, sizes, TDM_COUNT_OF(sizes));
  tdm_context_release(context);
}

static void modelled_links_change_the_time_only(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 4095, 65537};
  tdm_context *context = test_context("latency_us=3,gigabytes_per_second=2");
  copy_all_ways(context, sizes, TDM_COUNT_OF(sizes));
  tdm_context_release(context);
  context = test_context("latency_us=1,gigabytes_per_second=0,delay_seed=77");
  copy_all_ways(context, sizes, TDM_COUNT_OF(sizes));
  tdm_context_release(context);
}

/* Between devices with a link, a copy takes at least the time of the link. */
static void a_modelled_copy_is_not_early(void **state) {
  (void)state;
  tdm_context *context = test_context("latency_us=300,gigabytes_per_second=1");
  tdm_device *device = test_device(context, TEST_DEVICE);
  for (size_t i = 0; i < tdm_device_count(context); i++) {
    tdm_device *other = tdm_context_device(context, i);
    tdm_queue *route = test_route(device, other);
    if (!route) continue;
    const tdm_link link =
        route->device->ops->link(route->device, route->device == device ? other : device);
    const bool modelled = !device->host_addressable || !other->host_addressable;
    assert_int_equal(link.latency_ns > 0, modelled && device != other);
    test_flight *test = test_flight_create(context);
    const uint32_t from = test_base(test, device, 25000, 3);
    const uint32_t to = test_base(test, other, 25000, 4);
    test_copy(test, test_program(test, route), from, to);
    const uint64_t begin_ns = tdm_time_ns();
    test_run(test, false);
    const uint64_t wall_ns = tdm_time_ns() - begin_ns;
    /* The duration of a GPU's copy is not modelled. */
    const bool slept = link.latency_ns > 0 && strcmp(route->device->ops->kind, "cuda") != 0;
    if (slept) assert_true(wall_ns >= 300000 + 200000);
    assert_int_equal(test_value(test, to), 3);
    test_flight_destroy(test);
  }
  tdm_context_release(context);
}

/* Outside any plan, before and after the threads start; of more than one staging piece. */
static void copies_outside_a_plan(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *device = test_device(context, TEST_DEVICE);
  for (int started = 0; started < 2; started++) {
    for (size_t i = 0; i < tdm_device_count(context); i++) {
      const size_t bytes = i % 2 == 0 ? 4097 : ((size_t)9 << 20) + 5;
      tdm_memory from = prepare(context, device, bytes, false);
      tdm_memory to = prepare(context, tdm_context_device(context, i), bytes + MARGIN, true);
      assert_ok(tdm_context_copy(context, &from, &to, bytes));
      verify(context, &to, 0, 0, bytes, bytes);
      assert_status(tdm_context_copy(context, &from, &to, bytes + 1), TDM_INVALID_ARGUMENT);
      device->ops->release(device, &from);
      to.device->ops->release(to.device, &to);
    }
    assert_ok(tdm_context_start(context));
  }
  tdm_context_release(context);
}

static void a_copy_past_the_end_is_refused(void **state) {
  (void)state;
  tdm_context *context = test_context(NULL);
  tdm_device *device = test_device(context, TEST_DEVICE);
  if (device->host_addressable) {
    tdm_context_release(context);
    skip(); /* the host's pointers do not know where their block ends */
  }
  test_flight *test = test_flight_create(context);
  const uint32_t from = test_base(test, test_device(context, "cpu:0"), 100, 3);
  const uint32_t to = test_base(test, device, 10, 4);
  tdm_command *copy =
      test_copy(test, test_program(test, device->queues[TDM_QUEUE_UPLOAD]), from, to);
  copy->copy.bytes = 81;
  test_run(test, false);
  assert_int_equal(test->flight.failure.status, TDM_INVALID_ARGUMENT);
  assert_int_equal(test_value(test, to), 4);
  test_flight_destroy(test);
  tdm_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair_and_size),
      cmocka_unit_test(modelled_links_change_the_time_only),
      cmocka_unit_test(a_modelled_copy_is_not_early),
      cmocka_unit_test(copies_outside_a_plan),
      cmocka_unit_test(a_copy_past_the_end_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
