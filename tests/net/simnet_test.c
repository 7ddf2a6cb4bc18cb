/* Properties of simnet: random order by the seed, simulated time, counts, faults, and collectives
 * that do not match. One thread has all ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/park.h"
#include "tests/support/faulty_allocator.h"
#include "tests/support/simnet.h"

#define RANKS 3

typedef struct job {
  tdm_faulty_allocator *memory;
  tdm_simnet *net;
  tdm_endpoint *endpoints[RANKS];
} job;

static job open_job(tdm_simnet_options options) {
  job opened = {.memory = tdm_faulty_allocator_create()};
  const tdm_allocator allocator = tdm_faulty_allocator_view(opened.memory);
  options.struct_size = sizeof(options);
  options.rank_count = RANKS;
  assert_int_equal(tdm_simnet_create(&allocator, &options, &opened.net), TDM_OK);
  for (int rank = 0; rank < RANKS; rank++)
    assert_int_equal(tdm_simnet_endpoint(opened.net, rank, &opened.endpoints[rank]), TDM_OK);
  return opened;
}

static void close_job(job *opened) {
  for (int rank = 0; rank < RANKS; rank++)
    tdm_endpoint_abandon(opened->endpoints[rank]);
  tdm_simnet_release(opened->net);
  assert_int_equal(tdm_faulty_allocator_outstanding_bytes(opened->memory), 0);
  tdm_faulty_allocator_destroy(opened->memory);
}

static void send(job *in, tdm_net_request *request, int from, int to, uint32_t channel,
                 const void *memory, size_t bytes) {
  assert_int_equal(tdm_endpoint_send(in->endpoints[from], request, to, channel, memory, bytes),
                   TDM_OK);
}

static void receive(job *in, tdm_net_request *request, int from, int to, uint32_t channel,
                    void *memory, size_t bytes) {
  assert_int_equal(tdm_endpoint_receive(in->endpoints[to], request, from, channel, memory, bytes),
                   TDM_OK);
}

/* Returns the result of one poll of the rank. */
static tdm_net_request *poll(job *in, int rank) {
  tdm_net_request *settled;
  assert_int_equal(tdm_endpoint_poll(in->endpoints[rank], &settled), TDM_OK);
  return settled;
}

static tdm_net_request *poll_until(job *in, int rank) {
  tdm_net_request *settled = NULL;
  while (!settled)
    settled = poll(in, rank);
  return settled;
}

static void test_eager_and_not(void **state) {
  (void)state;
  job opened = open_job((tdm_simnet_options){.eager_bytes = 4});
  tdm_net_request few, many, received[2];
  char bytes[8] = "message", came[2][8] = {"", ""};
  send(&opened, &few, 0, 1, 0, bytes, 4);
  send(&opened, &many, 0, 1, 1, bytes, 8);
  memset(bytes, 'x', 4); /* those are not read any more */
  assert_ptr_equal(poll(&opened, 0), &few);
  assert_null(poll(&opened, 0));
  receive(&opened, &received[1], 0, 1, 1, came[1], 8);
  receive(&opened, &received[0], 0, 1, 0, came[0], 4);
  assert_non_null(poll(&opened, 1));
  assert_ptr_equal(poll(&opened, 0), &many);
  assert_memory_equal(came[0], "mess", 4);
  assert_memory_equal(came[1], "xxxxage", 7);
  close_job(&opened);
}

/* Returns the order in which ten messages on ten channels arrive, as a number. */
static uint64_t arrival_order(uint64_t seed) {
  enum { COUNT = 10 };
  job opened = open_job((tdm_simnet_options){.seed = seed, .delay_ns = 30000000});
  tdm_net_request sent[COUNT], received[COUNT];
  uint64_t order = 0;
  char byte = 0, came[COUNT];
  for (uint32_t i = 0; i < COUNT; i++)
    receive(&opened, &received[i], 0, 1, i, &came[i], 1);
  for (uint32_t i = 0; i < COUNT; i++)
    send(&opened, &sent[i], 0, 1, i, &byte, 1);
  for (int left = COUNT; left > 0;)
    for (tdm_net_request *settled = poll_until(&opened, 1); settled;
         settled = settled->next, left--)
      order = order * COUNT + settled->channel;
  close_job(&opened);
  return order;
}

/* Checks reordering with delays that are milliseconds apart, while posting takes microseconds. */
static void test_reordered_by_the_seed(void **state) {
  (void)state;
  uint64_t orders[3];
  for (uint64_t seed = 0; seed < 3; seed++)
    orders[seed] = arrival_order(seed + 1);
  assert_true(orders[0] != orders[1] || orders[1] != orders[2]);
}

static void test_medium_takes_its_time(void **state) {
  (void)state;
  job opened = open_job((tdm_simnet_options){.bytes_per_second = 1000000, .eager_bytes = 10000});
  tdm_net_request sent[2], received[2];
  static char bytes[5000], came[2][5000];
  const uint64_t begin_ns = tdm_time_ns();
  send(&opened, &sent[0], 0, 1, 0, bytes, 5000);
  send(&opened, &sent[1], 2, 1, 0, bytes, 5000); /* shares it, though of another pair */
  receive(&opened, &received[0], 0, 1, 0, came[0], 5000);
  receive(&opened, &received[1], 2, 1, 0, came[1], 5000);
  for (int left = 2; left > 0;)
    for (tdm_net_request *settled = poll_until(&opened, 1); settled; settled = settled->next)
      left--;
  assert_true(tdm_time_ns() - begin_ns >= 10000000);
  close_job(&opened);
}

static void test_counts(void **state) {
  (void)state;
  job opened = open_job((tdm_simnet_options){.eager_bytes = 100});
  tdm_net_request requests[4];
  char bytes[100] = "";
  send(&opened, &requests[0], 0, 1, 0, bytes, 30);
  send(&opened, &requests[1], 0, 1, 1, bytes, 12);
  send(&opened, &requests[2], 1, 0, 1, bytes, 7);
  receive(&opened, &requests[3], 1, 0, 1, bytes, 7);
  assert_int_equal(tdm_simnet_sent(opened.net, 0, 1).bytes, 42);
  assert_int_equal(tdm_simnet_sent(opened.net, 0, 1).messages, 2);
  assert_int_equal(tdm_simnet_sent(opened.net, 1, 0).bytes, 7);
  assert_int_equal(tdm_simnet_sent(opened.net, 0, 2).messages, 0);
  assert_int_equal(tdm_simnet_posts(opened.net, 0), 3);
  close_job(&opened);
}

/* Expects that a rank ends with its last post, and the state that another rank has of it. */
static void expect_killed(job *opened, bool told) {
  tdm_net_request requests[5];
  char bytes[16] = "";
  double sum = 0;
  tdm_simnet_kill_at(opened->net, 1, 2);
  receive(opened, &requests[0], 1, 0, 0, bytes, 8);
  send(opened, &requests[1], 0, 1, 1, bytes, 8);
  assert_int_equal(
      tdm_endpoint_all_reduce(opened->endpoints[2], &requests[2], TDM_FLOAT64, &sum, 1), TDM_OK);
  receive(opened, &requests[3], 0, 1, 1, bytes + 8, 8);
  assert_int_equal(tdm_endpoint_send(opened->endpoints[1], &requests[4], 0, 0, bytes, 8),
                   TDM_UNAVAILABLE);
  assert_non_null(strstr(tdm_last_message(), "rank 1 was killed"));
  tdm_net_request *settled;
  assert_int_equal(tdm_endpoint_poll(opened->endpoints[1], &settled), TDM_UNAVAILABLE);
  assert_null(settled);
  settled = poll(opened, 0);
  if (!told) {
    assert_null(settled);
    assert_null(poll(opened, 2));
    return;
  }
  int count = 0;
  for (; settled; settled = settled->next, count++)
    assert_int_equal(tdm_net_request_fail(opened->endpoints[0], settled), TDM_UNAVAILABLE);
  assert_int_equal(count, 2);
  assert_non_null(strstr(tdm_last_message(), "rank 1 (host sim1, pid "));
  assert_ptr_equal(poll(opened, 2), &requests[2]);
  assert_int_equal(requests[2].status, TDM_UNAVAILABLE);
  receive(opened, &requests[0], 1, 0, 0, bytes, 8); /* too late */
  assert_ptr_equal(poll(opened, 0), &requests[0]);
  assert_int_equal(requests[0].status, TDM_UNAVAILABLE);
}

static void test_killed(void **state) {
  (void)state;
  for (int told = 0; told < 2; told++) {
    job opened = open_job((tdm_simnet_options){.loss_is_told = told == 1});
    expect_killed(&opened, told == 1);
    close_job(&opened);
  }
}

static void test_stopped_and_cut_off(void **state) {
  (void)state;
  job opened = open_job((tdm_simnet_options){.eager_bytes = 100});
  tdm_net_request requests[5];
  double sums[RANKS] = {1, 2, 3};
  char byte = 7, came = 0;
  for (int round = 0; round < 2; round++) {
    if (round == 0) tdm_simnet_stop(opened.net, 1, true);
    if (round == 1) tdm_simnet_link(opened.net, 1, 0, false);
    send(&opened, &requests[0], 0, 1, 0, &byte, 1);
    receive(&opened, &requests[1], 0, 1, 0, &came, 1);
    for (int rank = 0; rank < RANKS; rank++)
      assert_int_equal(tdm_endpoint_all_reduce(opened.endpoints[rank], &requests[2 + rank],
                                               TDM_FLOAT64, &sums[rank], 1),
                       TDM_OK);
    assert_ptr_equal(poll(&opened, 0), &requests[0]); /* eager: it has left */
    for (int rank = 0; rank < RANKS; rank++)
      assert_null(poll(&opened, rank));
    if (round == 0) tdm_simnet_stop(opened.net, 1, false);
    if (round == 1) tdm_simnet_link(opened.net, 0, 1, true);
    for (int rank = 0; rank < RANKS; rank++)
      assert_non_null(poll(&opened, rank));
    assert_int_equal(came, 7);
    assert_true(sums[0] == (round == 0 ? 6 : 18) && sums[1] == sums[0] && sums[2] == sums[0]);
  }
  close_job(&opened);
}

/* Checks that nothing arrives before it is released, and then immediately: no poll is required. */
static void test_held_back(void **state) {
  (void)state;
  job opened = open_job((tdm_simnet_options){0});
  tdm_net_request sent[2], received[2];
  char bytes[2] = "ab", came[2] = "";
  tdm_simnet_hold(opened.net, 0, 1);
  send(&opened, &sent[0], 0, 1, 0, bytes, 1);
  send(&opened, &sent[1], 1, 0, 0, bytes + 1, 1);
  receive(&opened, &received[0], 0, 1, 0, came, 1);
  receive(&opened, &received[1], 1, 0, 0, came + 1, 1);
  assert_ptr_equal(poll(&opened, 0), &received[1]);
  assert_ptr_equal(poll(&opened, 1), &sent[1]);
  assert_int_equal(came[0], 0);
  assert_int_equal(tdm_simnet_let_go(opened.net, 0, 1), 1);
  assert_int_equal(came[0], 'a');
  assert_ptr_equal(poll(&opened, 0), &sent[0]);
  assert_ptr_equal(poll(&opened, 1), &received[0]);
  assert_int_equal(tdm_simnet_let_go(opened.net, 0, 1), 0);
  close_job(&opened);
}

/* Some orders of 1, 2^-24 and -1 lose the small term. */
static void test_sums_in_some_order(void **state) {
  (void)state;
  bool exact = false, rounded = false;
  for (uint64_t seed = 0; seed < 20; seed++) {
    job opened = open_job((tdm_simnet_options){.seed = seed});
    tdm_net_request requests[RANKS];
    float sums[RANKS] = {1.0F, 0x1p-24F, -1.0F};
    for (int rank = 0; rank < RANKS; rank++)
      assert_int_equal(tdm_endpoint_all_reduce(opened.endpoints[rank], &requests[rank], TDM_FLOAT32,
                                               &sums[rank], 1),
                       TDM_OK);
    for (int rank = 0; rank < RANKS; rank++)
      assert_non_null(poll(&opened, rank));
    assert_true(sums[0] == sums[1] && sums[1] == sums[2]);
    exact = exact || sums[0] == 0x1p-24F;
    rounded = rounded || sums[0] == 0.0F;
    close_job(&opened);
  }
  assert_true(exact && rounded);
}

static void test_collectives_that_differ(void **state) {
  (void)state;
  job opened = open_job((tdm_simnet_options){0});
  tdm_net_request requests[RANKS];
  double values[RANKS] = {1, 2, 3};
  for (int rank = 0; rank < RANKS; rank++) {
    const tdm_status status = rank == 2
                                  ? tdm_endpoint_broadcast(opened.endpoints[rank], &requests[rank],
                                                           0, &values[rank], sizeof(double))
                                  : tdm_endpoint_all_reduce(opened.endpoints[rank], &requests[rank],
                                                            TDM_FLOAT64, &values[rank], 1);
    assert_int_equal(status, TDM_OK);
  }
  for (int rank = 0; rank < RANKS; rank++) {
    assert_ptr_equal(poll(&opened, rank), &requests[rank]);
    assert_int_equal(tdm_net_request_fail(opened.endpoints[rank], &requests[rank]),
                     TDM_INVALID_ARGUMENT);
    assert_non_null(strstr(tdm_last_message(), "rank 2 (host sim2, pid "));
  }
  assert_true(values[0] == 1 && values[1] == 2);
  close_job(&opened);
}

static void test_short_of_memory(void **state) {
  (void)state;
  for (uint64_t at = 1; at <= 3; at++) {
    job opened = open_job((tdm_simnet_options){.eager_bytes = 8});
    tdm_net_request requests[2];
    double value = 1;
    tdm_faulty_allocator_arm(opened.memory, at, true);
    const tdm_status sent = tdm_endpoint_send(opened.endpoints[0], &requests[0], 1, 0, &value, 8);
    const tdm_status summed =
        tdm_endpoint_all_reduce(opened.endpoints[0], &requests[1], TDM_FLOAT64, &value, 1);
    assert_int_equal(sent, at <= 2 ? TDM_OUT_OF_MEMORY : TDM_OK);
    assert_int_equal(summed, TDM_OUT_OF_MEMORY);
    assert_non_null(strstr(tdm_last_message(), "out of memory"));
    assert_int_equal(opened.endpoints[0]->posted_count, at <= 2 ? 0 : 1);
    tdm_faulty_allocator_arm(opened.memory, 0, false);
    close_job(&opened);
  }
}

static void test_places(void **state) {
  (void)state;
  job opened = open_job((tdm_simnet_options){0});
  tdm_endpoint *endpoint;
  assert_int_equal(tdm_simnet_endpoint(opened.net, 0, &endpoint), TDM_INVALID_ARGUMENT);
  assert_null(endpoint);
  assert_int_equal(tdm_simnet_endpoint(opened.net, RANKS, &endpoint), TDM_INVALID_ARGUMENT);
  tdm_net_request request;
  char byte;
  receive(&opened, &request, 1, 0, 0, &byte, 1);
  assert_int_equal(tdm_endpoint_close(opened.endpoints[0], 0), TDM_INVALID_ARGUMENT);
  opened.endpoints[0] = NULL;
  assert_int_equal(tdm_endpoint_close(opened.endpoints[1], 0), TDM_OK);
  opened.endpoints[1] = NULL;
  close_job(&opened);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_eager_and_not),
      cmocka_unit_test(test_reordered_by_the_seed),
      cmocka_unit_test(test_medium_takes_its_time),
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_stopped_and_cut_off),
      cmocka_unit_test(test_held_back),
      cmocka_unit_test(test_sums_in_some_order),
      cmocka_unit_test(test_collectives_that_differ),
      cmocka_unit_test(test_short_of_memory),
      cmocka_unit_test(test_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
