/* Exchanges between ranks while the job loses one: the caller returns the failure, and the engine
 * does not access its bytes later. Its memory is unmapped after the return, so that a late access
 * would fault in every configuration. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/devices/network/told_support.h"

/* ---- Losing ---------------------------------------------------------------------------------- */

/* The tellers post equally many transfers, half of them for `tell`. Those from rank `from` to `to`
 * are held back until both have returned and their memory is unmapped. */
typedef struct lost_case {
  tell_function tell;
  uint64_t posts[TELLERS];
  int from;
  int to;
} lost_case;

static void lose_while_told(const lost_case *of) {
  job in;
  uint64_t before[TELLERS];
  open_job(&in, of->tell, NEVER_NS);
  tdm_simnet_hold(in.net, of->from, of->to);
  for (int r = 0; r < TELLERS; r++)
    before[r] = tdm_simnet_posts(in.net, r);
  start(&in, TELLERS, tell_main);
  for (int r = 0; r < TELLERS; r++)
    await_posts(&in, r, before[r] + of->posts[r]);
  tdm_control_give_up(tdm_network_control(in.ranks[LOST].network), TDM_IO, "has no disk");
  join(&in, TELLERS);
  for (int r = 0; r < TELLERS; r++) {
    assert_int_equal(in.ranks[r].status, TDM_UNAVAILABLE);
    assert_int_equal(mprotect(in.ranks[r].memory, (1 + RANKS) * BYTES, PROT_NONE), 0);
  }
  assert_int_equal(tdm_simnet_let_go(in.net, of->from, of->to), 2);
  close_job(&in);
}

static tdm_status gather(tdm_network *network, unsigned char *memory) {
  return tdm_network_gather(network, memory, BYTES, memory + BYTES);
}

static tdm_status pass_to_all(tdm_network *network, unsigned char *memory) {
  return tdm_network_pass(network, 0, -1, memory, BYTES);
}

/* Rank 0 receives from both others and sends to both. */
static void a_gather_leaves_the_memory_of_who_has_gone_on(void **unused) {
  (void)unused;
  lose_while_told(&(lost_case){gather, {8, 8}, 0, 1});
  lose_while_told(&(lost_case){gather, {8, 8}, 1, 0});
}

/* Rank 0 sends to both others, and rank 1 receives. */
static void a_pass_leaves_the_memory_of_who_has_gone_on(void **unused) {
  (void)unused;
  lose_while_told(&(lost_case){pass_to_all, {4, 2}, 0, 1});
}

/* ---- A rank that cannot post ----------------------------------------------------------------- */

static tdm_status refuse_send(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                              uint32_t channel, const void *memory, size_t bytes) {
  (void)request, (void)peer, (void)channel, (void)memory, (void)bytes;
  (void)snprintf(endpoint->message, sizeof endpoint->message, "out of memory");
  return TDM_OUT_OF_MEMORY;
}

static tdm_status refuse_sum(tdm_endpoint *endpoint, tdm_net_request *request, tdm_dtype dtype,
                             void *memory, size_t count) {
  (void)request, (void)dtype, (void)memory, (void)count;
  (void)snprintf(endpoint->message, sizeof endpoint->message, "out of memory");
  return TDM_OUT_OF_MEMORY;
}

/* Advances a command of the network until it has ended. */
static tdm_status advance(tdm_network *network, tdm_command_kind kind, unsigned char *memory) {
  tdm_messenger *messenger = tdm_network_messenger(network);
  const tdm_command command = {.kind = (uint8_t)kind,
                               .message = {.dtype = TDM_FLOAT32, .bytes = BYTES}};
  tdm_address base = (tdm_address)memory;
  const tdm_run_scalars scalars = {0};
  uint8_t failed_ids[1] = {0};
  tdm_flight flight = {.bases = &base, .scalars = &scalars, .failed_ids = failed_ids, .number = 1};
  tdm_flight_reset(&flight, 1);
  for (;;) {
    bool ended = false;
    const tdm_status status = messenger->advance(messenger, &command, &flight, false, &ended);
    if (ended) return status;
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
}

static tdm_status sum(tdm_network *network, unsigned char *memory) {
  return advance(network, TDM_COMMAND_ALL_REDUCE, memory);
}

static tdm_status vote(tdm_network *network, unsigned char *memory) {
  return advance(network, TDM_COMMAND_VOTE, memory);
}

static tdm_status pass_from_one(tdm_network *network, unsigned char *memory) {
  return tdm_network_pass(network, 1, 0, memory, BYTES);
}

/* Checks that a rank that cannot post notifies the rank that waits for it. Rank 1 does not end, so
 * rank 0 is notified only from the message. */
static void who_cannot_post_tells_those_who_wait(void **unused) {
  (void)unused;
  static const tell_function tells[] = {gather, pass_from_one, sum, vote};
  for (size_t i = 0; i < sizeof tells / sizeof *tells; i++) {
    job in;
    open_job(&in, tells[i], NEVER_NS);
    tdm_transport refusing = tdm_simnet_transport;
    refusing.send = refuse_send;
    refusing.all_reduce = refuse_sum;
    in.ranks[1].endpoint->transport = &refusing;
    start(&in, 1, tell_main);
    assert_int_equal(tells[i](in.ranks[1].network, in.ranks[1].memory), TDM_OUT_OF_MEMORY);
    join(&in, 1);
    assert_int_equal(in.ranks[0].status, TDM_UNAVAILABLE);
    in.ranks[1].endpoint->transport = &tdm_simnet_transport;
    close_job(&in);
  }
}

/* ---- An engine that fails -------------------------------------------------------------------- */

static tdm_status poll_in_vain(tdm_endpoint *endpoint, tdm_net_request **out_settled) {
  (void)out_settled;
  (void)snprintf(endpoint->message, sizeof endpoint->message, "the cable is cut");
  return TDM_UNAVAILABLE;
}

static tdm_status refuse_send_by_way(tdm_endpoint *endpoint, tdm_net_request *request, int peer,
                                     uint32_t channel, const void *memory, size_t bytes) {
  (void)refuse_send(endpoint, request, peer, channel, memory, bytes);
  return TDM_UNAVAILABLE;
}

static tdm_status refuse_sum_by_way(tdm_endpoint *endpoint, tdm_net_request *request,
                                    tdm_dtype dtype, void *memory, size_t count) {
  (void)refuse_sum(endpoint, request, dtype, memory, count);
  return TDM_UNAVAILABLE;
}

/* Rank 1's polls fail, or all that it sends and sums. The last rank gives up, where one does. */
static void fail_engine(tell_function tell, bool polls, bool is_named) {
  job in;
  open_job(&in, tell, NEVER_NS);
  tdm_transport failing = tdm_simnet_transport;
  if (polls) {
    failing.poll = poll_in_vain;
  } else {
    failing.send = refuse_send_by_way;
    failing.all_reduce = refuse_sum_by_way;
  }
  in.ranks[1].endpoint->transport = &failing;
  if (!is_named) tdm_network_messenger(in.ranks[1].network)->naming_ns = 1;
  start(&in, TELLERS, tell_main);
  if (is_named) tdm_control_give_up(tdm_network_control(in.ranks[LOST].network), TDM_IO, "no disk");
  join(&in, TELLERS);
  for (int r = 0; r < TELLERS; r++) {
    const char *message = in.ranks[r].message;
    assert_int_equal(in.ranks[r].status, TDM_UNAVAILABLE);
    if (is_named ? !strstr(message, "no disk") : r == 0 && !strstr(message, "rank 1 (host sim1"))
      fail_msg("case %d, rank %d says \"%s\"", (int)polls, r, message);
  }
  in.ranks[1].endpoint->transport = &tdm_simnet_transport;
  close_job(&in);
}

/* Earlier messages may arrive. Both while all ranks live, and where the control channel names a
 * lost one, with its words. */
static void what_an_engine_fails_with_is_told_to_all(void **unused) {
  (void)unused;
  static const tell_function tells[] = {gather, pass_from_one, sum, vote};
  for (size_t i = 0; i < sizeof tells / sizeof *tells; i++)
    for (int polls = 0; polls < 1 + (tells[i] != pass_from_one); polls++)
      for (int is_named = 0; is_named < 2; is_named++)
        fail_engine(tells[i], polls == 1, is_named == 1);
}

/* A way that is cut is lost to the engine long before the limit of silence: all report which rank
 * is silent at that time. */
static void what_an_engine_fails_with_names_who_is_silent(void **unused) {
  (void)unused;
  job in;
  open_job(&in, gather, NEVER_NS);
  tdm_control *lost = tdm_network_control(in.ranks[LOST].network);
  tdm_control_pause(lost, true);
  for (int r = 0; r < TELLERS; r++) {
    uint64_t silent_ns = 0;
    while (tdm_control_most_silent(tdm_network_control(in.ranks[r].network), &silent_ns) != LOST)
      (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  tdm_transport failing = tdm_simnet_transport;
  failing.poll = poll_in_vain;
  in.ranks[1].endpoint->transport = &failing;
  tdm_network_messenger(in.ranks[1].network)->naming_ns = 1;
  start(&in, TELLERS, tell_main);
  join(&in, TELLERS);
  for (int r = 0; r < TELLERS; r++) {
    const char *message = in.ranks[r].message;
    assert_int_equal(in.ranks[r].status, TDM_UNAVAILABLE);
    if (!strstr(message, "; rank 2 (host sim2, pid ") || !strstr(message, "has not been heard of"))
      fail_msg("rank %d says \"%s\"", r, message);
  }
  tdm_control_pause(lost, false);
  in.ranks[1].endpoint->transport = &tdm_simnet_transport;
  close_job(&in);
}

/* The others gather more than rank 1 does. */
static tdm_status gather_another_size(tdm_network *network, unsigned char *memory) {
  const size_t bytes = tdm_network_rank(network) == 1 ? BYTES / 2 : BYTES;
  return tdm_network_gather(network, memory, bytes, memory + BYTES);
}

static void ranks_that_tell_another_size_are_all_told(void **unused) {
  (void)unused;
  job in;
  open_job(&in, gather_another_size, NEVER_NS);
  start(&in, RANKS, tell_main);
  join(&in, RANKS);
  for (int r = 0; r < RANKS; r++) {
    assert_true(in.ranks[r].status == TDM_INVALID_ARGUMENT ||
                in.ranks[r].status == TDM_UNAVAILABLE);
    if (!strstr(in.ranks[r].message, "to agree (2048 bytes)"))
      fail_msg("rank %d says \"%s\"", r, in.ranks[r].message);
  }
  close_job(&in);
}

/* ---- Leaving ----------------------------------------------------------------------------------
 */

static tdm_status close_in_vain(tdm_endpoint *endpoint, uint64_t timeout_ns, char *message) {
  (void)tdm_simnet_transport.close(endpoint, timeout_ns, message);
  (void)snprintf(message, TDM_NET_TEXT_BYTES, "others have not come");
  return TDM_DEADLINE_EXCEEDED;
}

static void who_leaves_tells_what_has_failed_before(void **unused) {
  (void)unused;
  job in;
  tdm_transport failing = tdm_simnet_transport;
  failing.close = close_in_vain;
  open_job(&in, NULL, NEVER_NS);
  in.ranks[0].endpoint->transport = &failing;
  (void)tdm_fail(TDM_IO, "the disk is full");
  tdm_network_destroy(in.ranks[0].network);
  assert_int_equal(tdm_last_status(), TDM_IO);
  assert_string_equal(tdm_last_message(), "the disk is full");
  in.ranks[0].network = NULL;
  close_job(&in);
}

static _Atomic int left_count;

static void *leave_main(void *user) {
  tdm_network_destroy(((rank *)user)->network);
  (void)atomic_fetch_add(&left_count, 1);
  return NULL;
}

/* If a transport ends all ranks together, one that leaves continues to send beats until the last
 * one leaves. */
static void ranks_leave_together(void **unused) {
  (void)unused;
  job in;
  tdm_transport together = tdm_simnet_transport;
  together.ends_together = true;
  open_job(&in, NULL, NEVER_NS);
  for (int r = 0; r < RANKS; r++)
    in.ranks[r].endpoint->transport = &together;
  tdm_control *hears = tdm_network_control(in.ranks[LOST].network);
  tdm_control *beats = tdm_network_control(in.ranks[0].network);
  start(&in, LOST, leave_main);
  for (int r = 0; r < LOST; r++)
    while (!tdm_control_left(hears, r, NULL))
      (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  tdm_control_progress(beats, 0, 42);
  while (!tdm_control_has_come(hears, 0, 0, 42))
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  assert_int_equal(atomic_load(&left_count), 0);
  (void)leave_main(&in.ranks[LOST]);
  join(&in, LOST);
  for (int r = 0; r < RANKS; r++)
    in.ranks[r].network = NULL;
  close_job(&in);
}

/* ---- In the moment of a look ------------------------------------------------------------------
 */

/* The job whose last rank sends a message to rank 0, and gives up, after rank 0 has checked its
 * wait and before it acts on it. NULL: that has been done. */
static _Atomic(job *) to_be_told;

static tdm_status poll_slowly(tdm_endpoint *endpoint, tdm_net_request **out_settled) {
  const tdm_status status = tdm_simnet_transport.poll(endpoint, out_settled);
  job *in = endpoint->rank == 0 ? atomic_exchange(&to_be_told, NULL) : NULL;
  if (!in) return status;
  rank *lost = &in->ranks[LOST];
  assert_null(*out_settled);
  assert_ok(tdm_network_pass(lost->network, LOST, 0, lost->memory, BYTES));
  tdm_control_give_up(tdm_network_control(lost->network), TDM_IO, "has no disk");
  while (!tdm_control_failed(tdm_network_control(in->ranks[0].network), NULL))
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  return status;
}

/* Otherwise a vote could have succeeded for one rank and not for the other. */
static void what_a_rank_tells_before_it_is_lost_is_heard(void **unused) {
  (void)unused;
  job in;
  open_job(&in, NULL, NEVER_NS);
  tdm_transport slow = tdm_simnet_transport;
  slow.poll = poll_slowly;
  in.ranks[0].endpoint->transport = &slow;
  atomic_store(&to_be_told, &in);
  assert_ok(tdm_network_pass(in.ranks[0].network, LOST, 0, in.ranks[0].memory, BYTES));
  assert_null(atomic_load(&to_be_told));
  assert_int_equal(in.ranks[0].memory[0], 'a' + LOST);
  assert_int_equal(tdm_network_pass(in.ranks[0].network, LOST, 0, in.ranks[0].memory, BYTES),
                   TDM_UNAVAILABLE);
  in.ranks[0].endpoint->transport = &tdm_simnet_transport;
  close_job(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gather_leaves_the_memory_of_who_has_gone_on),
      cmocka_unit_test(a_pass_leaves_the_memory_of_who_has_gone_on),
      cmocka_unit_test(who_cannot_post_tells_those_who_wait),
      cmocka_unit_test(what_an_engine_fails_with_is_told_to_all),
      cmocka_unit_test(what_an_engine_fails_with_names_who_is_silent),
      cmocka_unit_test(ranks_that_tell_another_size_are_all_told),
      cmocka_unit_test(who_leaves_tells_what_has_failed_before),
      cmocka_unit_test(ranks_leave_together),
      cmocka_unit_test(what_a_rank_tells_before_it_is_lost_is_heard),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
