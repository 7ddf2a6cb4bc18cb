/* A rank's information on the waits and refusals of others: progress of devices, stalled sums and
 * exchanges of devices, and runs in which one rank does not take part. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "devices/contract/engine.h"
#include "devices/network/network_state.h"
#include "tests/devices/network/told_support.h"

/* Survivors must identify the lost rank within a second, for every way in which an engine reports
 * it. */
static void who_is_lost_is_named_within_a_second(void **unused) {
  (void)unused;
  job in;
  open_job(&in, NULL, 0);
  const uint64_t naming_ns = tdm_network_messenger(in.ranks[0].network)->naming_ns;
  close_job(&in);
  assert_in_range(naming_ns, 700000000, 999999999);
}

/* ---- Devices of groups ----------------------------------------------------------------------- */

/* A device has no progress until it reports some. */
static void ranks_know_how_far_devices_have_come(void **unused) {
  (void)unused;
  enum { SLOT = 5, QUEUE = SLOT + 2, COMMAND = 12 };
  const uint64_t place = UINT64_C(3) << 32 | COMMAND;
  job in;
  open_job(&in, NULL, NEVER_NS);
  tdm_messenger *one = tdm_network_messenger(in.ranks[1].network);
  tdm_control *controls[] = {tdm_network_control(in.ranks[0].network),
                             tdm_network_control(in.ranks[1].network)};
  assert_false(tdm_control_has_come(controls[0], 1, QUEUE, 1));
  one->begun(one, SLOT, place);
  assert_true(tdm_control_has_come(controls[1], 1, QUEUE, place));
  while (!tdm_control_has_come(controls[0], 1, QUEUE, place))
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  assert_false(tdm_control_has_come(controls[0], 1, QUEUE, place + 1));
  assert_false(tdm_control_has_come(controls[1], 0, QUEUE, 1));
  tdm_control_failure failure;
  char text[TDM_CONTROL_TEXT_BYTES];
  tdm_control_give_up(controls[1], TDM_IO, "has no disk");
  while (!tdm_control_failed(controls[0], &failure))
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  assert_non_null(strstr(tdm_control_failure_text(&failure, text), ", 7: 12 of run 3"));
  close_job(&in);
}

/* Looks twice, the second time when it is due. Returns true if the wait's clock advanced in
 * between. */
static bool clock_runs(tdm_messenger *messenger, tdm_group_wait *wait) {
  wait->looked_ns = wait->stalled_ns = 0;
  assert_ok(messenger->check_group(messenger, wait));
  const uint64_t looked_ns = wait->looked_ns;
  while (wait->looked_ns == looked_ns) {
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_ok(messenger->check_group(messenger, wait));
  }
  return wait->stalled_ns > 0;
}

enum { SLOT = 3, QUEUE = SLOT + 2 };

/* Expects that rank 0's wait counts as stalled once, and only once, all ranks of the order have
 * reached their place in it. The group has one device per rank. */
static void expect_still_behind(const job *in, tdm_group_wait wait, const int *order, int count) {
  tdm_device devices[RANKS] = {{.rank = 0}, {.rank = 1}, {.rank = 2}};
  tdm_device *members[RANKS] = {&devices[0], &devices[1], &devices[2]};
  uint32_t slots[RANKS] = {SLOT, SLOT, SLOT};
  const tdm_group group = {.count = RANKS, .devices = members, .slots = slots};
  tdm_messenger *looks = tdm_network_messenger(in->ranks[0].network);
  tdm_control *hears = tdm_network_control(in->ranks[0].network);
  wait.group = &group;
  for (int come = 0; come < count; come++) {
    tdm_messenger *comes = tdm_network_messenger(in->ranks[order[come]].network);
    assert_false(clock_runs(looks, &wait));
    comes->begun(comes, SLOT, wait.position);
    while (!tdm_control_has_come(hears, order[come], QUEUE, wait.position))
      (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  /* The rank may not be heard at the first check on a busy machine. */
  while (!clock_runs(looks, &wait))
    continue;
}

/* The two devices may arrive in either order. The third device of the group does not take part. */
static void an_exchange_stands_still_once_both_its_devices_have_come(void **unused) {
  (void)unused;
  static const int orders[][2] = {{1, 2}, {2, 1}};
  job in;
  open_job(&in, NULL, NEVER_NS);
  for (uint64_t position = 1; position <= 2; position++) {
    const tdm_group_wait wait = {
        .what = "the exchange", .between = true, .members = {1, 2}, .position = position};
    expect_still_behind(&in, wait, orders[position - 1], 2);
  }
  close_job(&in);
}

/* Checks that the sum counts as stalled only after all three devices of the group have joined it,
 * in any order. */
static void a_sum_stands_still_once_all_devices_have_come(void **unused) {
  (void)unused;
  static const int orders[][RANKS] = {{0, 1, 2}, {2, 1, 0}};
  job in;
  open_job(&in, NULL, NEVER_NS);
  for (uint64_t position = 1; position <= 2; position++)
    expect_still_behind(&in, (tdm_group_wait){.what = "the sum", .position = position},
                        orders[position - 1], RANKS);
  close_job(&in);
}

/* Every rank that checks the others reports the failure in the words of the rank that gave up. */
static void who_gives_up_is_told_to_who_looks(void **unused) {
  (void)unused;
  job in;
  open_job(&in, NULL, NEVER_NS);
  tdm_messenger *looks = tdm_network_messenger(in.ranks[0].network);
  uint64_t left_ns = 0;
  assert_ok(looks->check(looks, &left_ns));
  tdm_messenger *gives_up = tdm_network_messenger(in.ranks[1].network);
  (void)tdm_fail(TDM_IO, "has no disk");
  gives_up->give_up(gives_up, TDM_IO);
  while (!tdm_network_has_lost(in.ranks[0].network))
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  assert_status(looks->check(looks, &left_ns), TDM_UNAVAILABLE);
  assert_message("has no disk");
  close_job(&in);
}

/* The first rank's report about the wait of three devices once all have waited for 100 s. All ranks
 * receive it. */
static void assert_stands_still(tdm_group_wait wait, const char *words) {
  job in;
  open_job(&in, NULL, NEVER_NS);
  tdm_device devices[RANKS] = {{.name = "host:0/cuda:0"},
                               {.name = "host:1/cuda:0", .rank = 1},
                               {.name = "host:2/cuda:0", .rank = 2}};
  tdm_device *members[RANKS] = {&devices[0], &devices[1], &devices[2]};
  uint32_t slots[RANKS] = {SLOT, SLOT, SLOT};
  const tdm_group group = {.count = RANKS, .devices = members, .slots = slots};
  tdm_messenger *looks = tdm_network_messenger(in.ranks[0].network);
  for (int r = 0; r < RANKS && wait.position > 0; r++) {
    tdm_messenger *comes = tdm_network_messenger(in.ranks[r].network);
    comes->begun(comes, SLOT, wait.position);
    while (!tdm_control_has_come(tdm_network_control(in.ranks[0].network), r, QUEUE, wait.position))
      (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  wait.group = &group;
  wait.looked_ns = 0;
  wait.stalled_ns = UINT64_C(100000000000);
  assert_status(looks->check_group(looks, &wait), TDM_UNAVAILABLE);
  assert_string_equal(tdm_last_message(), words);
  tdm_control_failure failure;
  while (!tdm_control_failed(tdm_network_control(in.ranks[2].network), &failure))
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  char text[TDM_CONTROL_TEXT_BYTES];
  assert_non_null(strstr(tdm_control_failure_text(&failure, text), "is stalled"));
  close_job(&in);
}

static void what_stands_still_is_told_in_full(void **unused) {
  (void)unused;
  assert_stands_still((tdm_group_wait){.what = "joining", .name = "the group", .bytes = 0},
                      "joining the group of host:0/cuda:0 to host:2/cuda:0 (3 devices, 0 bytes) "
                      "is stalled: all have waited for it for 100 s and live, so the way that "
                      "their engine takes is cut, or it has stopped");
  assert_stands_still(
      (tdm_group_wait){.what = "the sum", .bytes = 12, .position = 7, .step = 4},
      "the sum  of host:0/cuda:0 to host:2/cuda:0 (3 devices, 12 bytes) is stalled in step 5: "
      "all "
      "have waited for it for 100 s and live, so the way that their engine takes is cut, or it has "
      "stopped");
  assert_stands_still(
      (tdm_group_wait){.what = "the send",
                       .name = "rows",
                       .bytes = 12,
                       .between = true,
                       .members = {2, 1},
                       .position = 7},
      "the send rows of host:2/cuda:0 to host:1/cuda:0 (2 devices, 12 bytes) is "
      "stalled in step 1: all have waited for it for 100 s and live, so the way that "
      "their engine takes is cut, or it has stopped");
}

/* ---- Runs that are refused ------------------------------------------------------------------- */

/* Checks for refusals for longer than a rank has to respond, or until it is notified if is_told. */
static tdm_status look_long(tdm_network *network, const tdm_network_call *call, bool is_told) {
  const uint64_t since_ns = tdm_time_ns();
  const uint64_t long_ns = is_told ? UINT64_C(60000000000) : 700000000;
  while (tdm_time_ns() - since_ns < long_ns) {
    TDM_TRY(tdm_network_check_refused(network, call));
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return TDM_OK;
}

/* Checks that a rank that compares plans is notified when rank 1 has refused the run that no other
 * rank has begun, because it would wait for rank 1. A rank that waits in a message or in another
 * gather is not notified. */
static void who_compares_plans_is_told_of_a_run_refused(void **unused) {
  (void)unused;
  job in;
  open_job(&in, NULL, NEVER_NS);
  tdm_network *network = in.ranks[0].network;
  (void)tdm_fail(TDM_INVALID_ARGUMENT, "no ids were fed");
  tdm_network_refuse_run(in.ranks[1].network, TDM_INVALID_ARGUMENT);
  char why[TDM_CONTROL_TEXT_BYTES];
  while (!tdm_control_refusal_text(tdm_network_control(network), 1, why))
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  static const struct {
    const char *words;
    uint32_t channel;
    bool has_call, is_told;
  } cases[] = {{TDM_INTENT_COMPARE, TDM_MESSAGE_CHANNEL, true, false},
               {TDM_INTENT_COMPARE, TDM_GATHER_CHANNEL, false, false},
               {"save", TDM_GATHER_CHANNEL, true, false},
               {TDM_INTENT_COMPARE, TDM_GATHER_CHANNEL, true, true}};
  for (size_t i = 0; i < TDM_COUNT_OF(cases); i++) {
    const tdm_network_call call = {.request = {.channel = cases[i].channel}};
    (void)snprintf(network->intent.words, TDM_INTENT_BYTES, "%s", cases[i].words);
    const tdm_status status =
        look_long(network, cases[i].has_call ? &call : NULL, cases[i].is_told);
    if ((status != TDM_OK) != cases[i].is_told) fail_msg("case %zu: %d", i, (int)status);
  }
  assert_message("rank 1 (host sim1");
  assert_message(
      " was asked for the run in a wrong way, and takes no part in it: INVALID_ARGUMENT: "
      "no ids were fed");
  close_job(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_is_lost_is_named_within_a_second),
      cmocka_unit_test(ranks_know_how_far_devices_have_come),
      cmocka_unit_test(an_exchange_stands_still_once_both_its_devices_have_come),
      cmocka_unit_test(a_sum_stands_still_once_all_devices_have_come),
      cmocka_unit_test(who_gives_up_is_told_to_who_looks),
      cmocka_unit_test(what_stands_still_is_told_in_full),
      cmocka_unit_test(who_compares_plans_is_told_of_a_run_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
