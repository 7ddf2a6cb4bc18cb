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

/* Copies more than one piece through the device between source and destination. */
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
  assert_memory_equal(tdm_tensor_data(here), values, COUNT * sizeof *values);
  tdm_tensor_release(here);
  tdm_tensor_release(whole);
}

/* For any queues: the peers' within a kind, otherwise that of the device which the host cannot
 * address, or its kernels' queue if there is none for copies. */
static void within_a_rank_kinds_and_addresses_tell_the_queue(void **state) {
  tdm_queue queues[2][TDM_QUEUE_ROLES] = {{{0}}};
  for (int bits = 0; bits < 16; bits++) {
    const bool alike = bits & 1, from_host = bits & 2, to_host = bits & 4, copies = bits & 8;
    tdm_device from = *test_device(*state, "sim:0");
    tdm_device to = *test_device(*state, alike ? "sim:1" : "cuda:0");
    from.host_addressable = from_host;
    to.host_addressable = to_host;
    for (int role = 0; role < TDM_QUEUE_ROLES; role++) {
      from.queues[role] = copies || role == TDM_QUEUE_COMPUTE ? &queues[0][role] : NULL;
      to.queues[role] = copies || role == TDM_QUEUE_COMPUTE ? &queues[1][role] : NULL;
    }
    const tdm_queue *wanted = NULL;
    if (alike)
      wanted = &queues[1][copies ? TDM_QUEUE_PEER : TDM_QUEUE_COMPUTE];
    else if (from_host)
      wanted = &queues[1][copies ? TDM_QUEUE_UPLOAD : TDM_QUEUE_COMPUTE];
    else if (to_host)
      wanted = &queues[0][copies ? TDM_QUEUE_DOWNLOAD : TDM_QUEUE_COMPUTE];
    if (tdm_direct_queue(&from, &to) != wanted) fail_msg("case %d", bits);
  }
}

/* Two ranks' devices of one kind use their engine, if both have it. Otherwise memory that both
 * hosts can address is used, and the receiving queue of the other rank. */
static void between_ranks_engines_and_hosts_tell_the_queue(void **state) {
  tdm_queue peer = {0}, received = {0};
  tdm_device *host = test_device(*state, "cpu:0");
  tdm_queue *before = host->queues[TDM_QUEUE_RECEIVE];
  host->queues[TDM_QUEUE_RECEIVE] = &received;
  int wrong = -1;
  for (int bits = 0; bits < 32; bits++) {
    const bool alike = bits & 16;
    tdm_device from = *test_device(*state, "sim:0");
    tdm_device to = *test_device(*state, alike ? "sim:1" : "cuda:0");
    from.rank = 1;
    from.exchanges = bits & 1;
    to.exchanges = bits & 2;
    from.host_addressable = bits & 4;
    to.host_addressable = bits & 8;
    to.queues[TDM_QUEUE_PEER] = &peer;
    const tdm_queue *wanted = NULL;
    if (from.exchanges && to.exchanges && alike)
      wanted = &peer;
    else if (from.host_addressable && to.host_addressable)
      wanted = &received;
    if (tdm_direct_queue(&from, &to) != wanted) wrong = bits;
  }
  host->queues[TDM_QUEUE_RECEIVE] = before;
  assert_int_equal(wrong, -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(hops_join_up, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_host_lies_between_two_discrete_kinds, set_up, tear_down),
      cmocka_unit_test_setup_teardown(within_a_rank_kinds_and_addresses_tell_the_queue, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(between_ranks_engines_and_hosts_tell_the_queue, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(bytes_arrive_by_any_route, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
