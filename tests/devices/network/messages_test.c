/* Messages of two ranks, step by step. Several pieces are in flight in both directions. After
 * any failure both ends still post all pieces of a message, so the next message is matched
 * correctly. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/network/network_state.h"
#include "tests/devices/support.h"
#include "tests/support/simnet.h"

enum { ENOUGH_TURNS = 100000 };
#define PIECE_BYTES ((size_t)8192 - 64)
#define MOST_BYTES (20 * PIECE_BYTES + 1234)

/* A rank with the buffers that it sends and receives. */
typedef struct rank {
  tdm_network *network;
  unsigned char *sent;     /* (MOST_BYTES) */
  unsigned char *received; /* (MOST_BYTES) */
  tdm_address bases[2];
  tdm_run_scalars scalars;
  uint8_t failed_ids[2];
  tdm_flight flight;
} rank;

typedef struct pair {
  tdm_simnet *net;
  rank ranks[2];
} pair;

static void begin(pair *made) {
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof options,
                                      .rank_count = 2,
                                      .seed = 7,
                                      .delay_ns = 1000,
                                      .eager_bytes = 8192,
                                      .loss_is_told = true};
  memset(made, 0, sizeof *made);
  assert_ok(tdm_simnet_create(&allocator, &options, &made->net));
  for (int r = 0; r < 2; r++) {
    rank *own = &made->ranks[r];
    tdm_endpoint *endpoint;
    assert_ok(tdm_simnet_endpoint(made->net, r, &endpoint));
    assert_ok(tdm_network_create(&allocator, endpoint, &own->network));
    own->sent = malloc(MOST_BYTES);
    own->received = calloc(MOST_BYTES, 1);
    assert_true(own->sent && own->received);
    for (size_t i = 0; i < MOST_BYTES; i++)
      own->sent[i] = (unsigned char)(i * 31 + i / 251 + (size_t)r);
    own->bases[0] = (tdm_address)own->sent;
    own->bases[1] = (tdm_address)own->received;
    own->flight = (tdm_flight){
        .bases = own->bases, .scalars = &own->scalars, .failed_ids = own->failed_ids, .number = 1};
    tdm_flight_reset(&own->flight, 2);
  }
}

static void *leave(void *network) {
  tdm_network_destroy(network);
  return NULL;
}

/* Leaving waits for the other rank. */
static void end(pair *made) {
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, leave, made->ranks[1].network), 0);
  (void)leave(made->ranks[0].network);
  assert_int_equal(pthread_join(other, NULL), 0);
  tdm_simnet_release(made->net);
  for (int r = 0; r < 2; r++) {
    free(made->ranks[r].sent);
    free(made->ranks[r].received);
  }
}

static tdm_command command_of(tdm_command_kind kind, uint32_t peer, uint32_t number, size_t bytes) {
  return (tdm_command){.kind = (uint8_t)kind,
                       .message = {.plan = 5,
                                   .number = number,
                                   .peer = peer,
                                   .at = {.base = kind == TDM_COMMAND_RECEIVE},
                                   .bytes = bytes}};
}

static tdm_status turn(rank *own, const tdm_command *command, bool spoiled, bool *ended) {
  tdm_messenger *messenger = tdm_network_messenger(own->network);
  return messenger->advance(messenger, command, &own->flight, spoiled, ended);
}

/* Polls both in turn until both have ended. out_receiver: the status of the second. */
static void pass(rank *from, rank *to, const tdm_command *send, const tdm_command *receive,
                 bool spoiled, tdm_status *out_receiver) {
  bool sent = false, received = false;
  *out_receiver = TDM_OK;
  for (int i = 0; i < ENOUGH_TURNS && !(sent && received); i++) {
    if (!sent) assert_ok(turn(from, send, spoiled, &sent));
    if (!received) *out_receiver = turn(to, receive, false, &received);
  }
  assert_true(sent && received);
}

static void expect_bytes(const rank *from, const rank *to, size_t bytes) {
  assert_memory_equal(from->sent, to->received, bytes);
}

/* ---- Whole messages -------------------------------------------------------------------------- */

static void a_message_of_any_size_arrives_as_it_was_sent(void **unused) {
  (void)unused;
  static const size_t sizes[] = {
      0,         1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, TDM_PIECES_OUT * PIECE_BYTES + 3,
      MOST_BYTES};
  pair made;
  begin(&made);
  for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const tdm_command send = command_of(TDM_COMMAND_SEND, 1, i, sizes[i]);
    const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, i, sizes[i]);
    tdm_status status;
    memset(made.ranks[1].received, 0, MOST_BYTES);
    const uint64_t before = tdm_simnet_posts(made.net, 0);
    pass(&made.ranks[0], &made.ranks[1], &send, &receive, false, &status);
    assert_ok(status);
    expect_bytes(&made.ranks[0], &made.ranks[1], sizes[i]);
    for (size_t at = sizes[i]; at < MOST_BYTES; at++) /* nothing after it */
      assert_int_equal(made.ranks[1].received[at], 0);
    const size_t pieces = sizes[i] == 0 ? 1 : (sizes[i] + PIECE_BYTES - 1) / PIECE_BYTES;
    assert_int_equal(tdm_simnet_posts(made.net, 0) - before, pieces);
  }
  end(&made);
}

/* Checks that all pieces are posted before any was polled, since an engine may transfer all of them
 * concurrently, in both directions. */
static void several_pieces_are_out_at_a_time_both_ways(void **unused) {
  (void)unused;
  pair made;
  bool ended[2][2] = {{false}};
  tdm_command commands[2][2];
  begin(&made);
  for (int r = 0; r < 2; r++) {
    commands[r][0] = command_of(TDM_COMMAND_RECEIVE, (uint32_t)!r, 1, MOST_BYTES);
    commands[r][1] = command_of(TDM_COMMAND_SEND, (uint32_t)!r, 1, MOST_BYTES);
  }
  for (int c = 0; c < 2; c++)
    assert_ok(turn(&made.ranks[0], &commands[0][c], false, &ended[0][c]));
  assert_true(tdm_simnet_posts(made.net, 0) >= 2 * TDM_PIECES_OUT);
  for (int i = 0; i < ENOUGH_TURNS; i++)
    for (int r = 0; r < 2; r++)
      for (int c = 0; c < 2; c++)
        if (!ended[r][c]) assert_ok(turn(&made.ranks[r], &commands[r][c], false, &ended[r][c]));
  assert_true(ended[0][0] && ended[0][1] && ended[1][0] && ended[1][1]);
  expect_bytes(&made.ranks[0], &made.ranks[1], MOST_BYTES);
  expect_bytes(&made.ranks[1], &made.ranks[0], MOST_BYTES);
  end(&made);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* Checks that the message after one of many pieces that failed receives none of these pieces. */
static void expect_next(pair *made) {
  const tdm_command send = command_of(TDM_COMMAND_SEND, 1, 9, MOST_BYTES);
  const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, 9, MOST_BYTES);
  tdm_status status;
  pass(&made->ranks[0], &made->ranks[1], &send, &receive, false, &status);
  assert_ok(status);
  expect_bytes(&made->ranks[0], &made->ranks[1], MOST_BYTES);
}

static void what_was_not_made_is_told_and_leaves_nothing_behind(void **unused) {
  (void)unused;
  const tdm_command send = command_of(TDM_COMMAND_SEND, 1, 3, MOST_BYTES);
  const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, 3, MOST_BYTES);
  pair made;
  tdm_status status;
  begin(&made);
  tdm_flight_fail(&made.ranks[0].flight, 0, TDM_IO, "the kernel has burnt");
  pass(&made.ranks[0], &made.ranks[1], &send, &receive, true, &status);
  if (status != TDM_IO) fail_msg("%s", tdm_last_message());
  assert_string_equal(tdm_last_message(), "rank 0: the kernel has burnt");
  for (size_t i = 0; i < MOST_BYTES; i++)
    assert_int_equal(made.ranks[1].received[i], 0);
  expect_next(&made);
  end(&made);
}

/* However few bytes the message has. */
static void all_words_of_a_failure_arrive(void **unused) {
  (void)unused;
  static const size_t sizes[] = {0, 4, 600, MOST_BYTES};
  char words[TDM_MESSAGE_BYTES - sizeof "rank 0: "] = "", told[TDM_MESSAGE_BYTES + 8];
  while (strlen(words) + sizeof "why " <= sizeof words)
    strcat(words, "why ");
  (void)snprintf(told, sizeof told, "rank 0: %s", words);
  pair made;
  begin(&made);
  tdm_flight_fail(&made.ranks[0].flight, 0, TDM_IO, words);
  for (uint32_t i = 0; i < TDM_COUNT_OF(sizes); i++) {
    const tdm_command send = command_of(TDM_COMMAND_SEND, 1, i, sizes[i]);
    const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, i, sizes[i]);
    tdm_status status;
    pass(&made.ranks[0], &made.ranks[1], &send, &receive, true, &status);
    assert_int_equal(status, TDM_IO);
    assert_string_equal(tdm_last_message(), told);
  }
  expect_next(&made);
  end(&made);
}

static void a_message_of_another_run_is_refused_and_leaves_nothing_behind(void **unused) {
  (void)unused;
  const tdm_command send = command_of(TDM_COMMAND_SEND, 1, 3, MOST_BYTES);
  const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, 3, MOST_BYTES);
  pair made;
  tdm_status status;
  begin(&made);
  for (int steps = 0; steps < 2; steps++) { /* or of another step of the same run */
    made.ranks[0].flight.number = steps ? 1 : 2;
    made.ranks[0].scalars.step = steps ? 7 : 0;
    memset(made.ranks[1].received, 0, MOST_BYTES);
    pass(&made.ranks[0], &made.ranks[1], &send, &receive, false, &status);
    assert_int_equal(status, TDM_INVALID_ARGUMENT);
    assert_string_equal(
        tdm_last_message(),
        steps ? "rank 0 is in its run 1, after 7 steps, and this one in its run 1, after 0: all "
                "ranks run the same, in the same order"
              : "rank 0 is in its run 2, after 0 steps, and this one in its run 1, after 0: all "
                "ranks run the same, in the same order");
    for (size_t i = 0; i < MOST_BYTES; i++)
      assert_int_equal(made.ranks[1].received[i], 0);
  }
  made.ranks[0].flight.number = 1;
  made.ranks[0].scalars.step = 0;
  expect_next(&made);
  end(&made);
}

/* The message arrives and is discarded. The next one receives its own data. */
static void who_has_failed_receives_and_keeps_nothing(void **unused) {
  (void)unused;
  const tdm_command send = command_of(TDM_COMMAND_SEND, 1, 3, MOST_BYTES);
  const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, 3, MOST_BYTES);
  pair made;
  bool sent = false, received = false;
  begin(&made);
  for (int i = 0; i < ENOUGH_TURNS && !(sent && received); i++) {
    if (!sent) assert_ok(turn(&made.ranks[0], &send, false, &sent));
    if (!received) assert_ok(turn(&made.ranks[1], &receive, true, &received));
  }
  assert_true(sent && received);
  for (size_t i = 0; i < MOST_BYTES; i++)
    assert_int_equal(made.ranks[1].received[i], 0);
  expect_next(&made);
  end(&made);
}

/* Pieces in transit settle as lost. These ranks have no control channel. */
static void what_is_lost_on_its_way_fails(void **unused) {
  (void)unused;
  const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 1, 3, MOST_BYTES);
  pair made;
  tdm_status status = TDM_OK;
  bool ended = false;
  begin(&made);
  assert_ok(turn(&made.ranks[0], &receive, false, &ended));
  assert_false(ended);
  tdm_simnet_kill(made.net, 1);
  for (int i = 0; i < ENOUGH_TURNS && !ended; i++)
    status = turn(&made.ranks[0], &receive, false, &ended);
  assert_true(ended);
  assert_int_equal(status, TDM_UNAVAILABLE);
  for (size_t i = 0; i < MOST_BYTES; i++)
    assert_int_equal(made.ranks[0].received[i], 0);
  end(&made);
}

/* Pieces of it may never come, so nothing follows on that queue. */
static void behind_another_message_than_expected_none_follows(void **unused) {
  (void)unused;
  static const char *const words[] = {
      "rank 0 sent message 4 (200 bytes) of plan 0000000000000005 where message 3 (200 bytes) of "
      "plan 0000000000000005 was expected: all ranks run the same, in the same order",
      "rank 0 sent message 3 (100 bytes) of plan 0000000000000005 where message 3 (200 bytes) of "
      "plan 0000000000000005 was expected: all ranks run the same, in the same order",
      "rank 0 sent message 3 (200 bytes) of plan 0000000000000006 where message 3 (200 bytes) of "
      "plan 0000000000000005 was expected: all ranks run the same, in the same order"};
  for (size_t i = 0; i < TDM_COUNT_OF(words); i++) {
    tdm_command send = command_of(TDM_COMMAND_SEND, 1, i == 0 ? 4 : 3, i == 1 ? 100 : 200);
    send.message.plan += i == 2;
    const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, 3, 200);
    pair made;
    tdm_status status;
    begin(&made);
    pass(&made.ranks[0], &made.ranks[1], &send, &receive, false, &status);
    assert_int_equal(status, TDM_INVALID_ARGUMENT);
    assert_string_equal(tdm_last_message(), words[i]);
    end(&made);
  }
  const tdm_command send = command_of(TDM_COMMAND_SEND, 1, 3, 10);
  const tdm_command receive = command_of(TDM_COMMAND_RECEIVE, 0, 4, MOST_BYTES);
  pair made;
  tdm_status status;
  bool ended = false;
  begin(&made);
  pass(&made.ranks[0], &made.ranks[1], &send, &receive, false, &status);
  assert_int_equal(status, TDM_INVALID_ARGUMENT);
  assert_int_equal(turn(&made.ranks[1], &receive, false, &ended), TDM_UNAVAILABLE);
  assert_string_equal(tdm_last_message(), "a message of this rank has failed before");
  assert_true(ended);
  end(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_of_any_size_arrives_as_it_was_sent),
      cmocka_unit_test(several_pieces_are_out_at_a_time_both_ways),
      cmocka_unit_test(what_was_not_made_is_told_and_leaves_nothing_behind),
      cmocka_unit_test(all_words_of_a_failure_arrive),
      cmocka_unit_test(a_message_of_another_run_is_refused_and_leaves_nothing_behind),
      cmocka_unit_test(who_has_failed_receives_and_keeps_nothing),
      cmocka_unit_test(what_is_lost_on_its_way_fails),
      cmocka_unit_test(behind_another_message_than_expected_none_follows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
