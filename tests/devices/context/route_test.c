/* Routes between all devices of a context with three kinds, two of them discrete: hops that join
 * up, each on a queue of one of its ends, and bytes that arrive. */
#include "devices/context/route.h"

#include <string.h>

#include "tests/devices/support.h"

static int set_up(void **state) {
  *state = test_context(NULL);
  return !*state;
}

static int tear_down(void **state) {
  tdm_context_release(*state);
  return 0;
}

static void check_hops(const tdm_route *route, const tdm_device *from, const tdm_device *to) {
  assert_in_range(route->count, 1, TDM_ROUTE_MOST_HOPS);
  const tdm_device *here = from;
  for (uint32_t i = 0; i < route->count; i++) {
    const tdm_hop *hop = &route->hops[i];
    assert_ptr_equal(hop->from, here);
    assert_non_null(hop->queue);
    assert_ptr_equal(hop->queue, tdm_direct_queue(hop->from, hop->to));
    assert_true(hop->queue->device == hop->from || hop->queue->device == hop->to);
    here = hop->to;
    if (here != to) assert_true(tdm_is_waypoint(here));
  }
  assert_ptr_equal(here, to);
}

static void hops_join_up(void **state) {
  const size_t count = tdm_device_count(*state);
  size_t longer = 0;
  for (size_t i = 0; i < count * count; i++) {
    tdm_device *from = tdm_context_device(*state, i / count);
    tdm_device *to = tdm_context_device(*state, i % count);
    const tdm_route route = tdm_route_between(from, to);
    check_hops(&route, from, to);
    assert_int_equal(route.count > 1, !tdm_direct_queue(from, to));
    longer += route.count > 1;
  }
  assert_true(longer > 0);
}

static void the_host_lies_between_two_discrete_kinds(void **state) {
  tdm_device *from = test_device(*state, "sim:1");
  tdm_device *to = test_device(*state, "cuda:0");
  const tdm_route route = tdm_route_between(from, to);
  assert_int_equal(route.count, 2);
  assert_ptr_equal(route.hops[0].to, test_device(*state, "cpu:0"));
  assert_ptr_equal(route.hops[0].queue, from->queues[TDM_QUEUE_DOWNLOAD]);
  assert_ptr_equal(route.hops[1].queue, to->queues[TDM_QUEUE_UPLOAD]);
  assert_false(tdm_is_waypoint(from));
  assert_false(tdm_is_waypoint(to));
}

/* More than one piece of what a copy takes through the device between. */
static void bytes_arrive_by_any_route(void **state) {
  enum { COUNT = (5 << 20) / 8 };
  tdm_tensor *whole = tdm_tensor_create(*state, "cpu:1", TDM_INT64, tdm_shape_of(1, COUNT));
  assert_non_null(whole);
  int64_t *values = tdm_tensor_data(whole);
  for (int64_t i = 0; i < COUNT; i++)
    values[i] = i * i;
  const char *const stations[] = {"sim:0", "cuda:1", "sim:1", "cpu:0"};
  tdm_tensor *here = whole;
  for (size_t i = 0; i < TDM_COUNT_OF(stations); i++) {
    tdm_tensor *there = tdm_tensor_to(here, stations[i], TDM_INT64);
    assert_non_null(there);
    if (here != whole) tdm_tensor_release(here);
    here = there;
  }
  assert_memory_equal(tdm_tensor_data(here), values, COUNT * sizeof(*values));
  tdm_tensor_release(here);
  tdm_tensor_release(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(hops_join_up, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_host_lies_between_two_discrete_kinds, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bytes_arrive_by_any_route, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
