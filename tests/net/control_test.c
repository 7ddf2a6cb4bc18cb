/* The control channel between ranks of simnet: progress, stalls, ends, giving up, leaving. No
 * limit here is one that a busy machine reaches, but those that are waited for. */
#include <stdlib.h>

#include "tests/net/control_job.h"

/* ---- Ranks among themselves ------------------------------------------------------------------ */

static void test_progress_and_leaving(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  start_all(&made);
  for (int i = 0; i < MOST; i++)
    tdm_control_progress(made.ranks[i].control, 0, 100 + (uint64_t)i);
  for (int i = 0; i < MOST; i++)
    for (int peer = 0; peer < MOST; peer++)
      wait_progress(made.ranks[i].control, peer, 100 + (uint64_t)peer);
  tdm_control_leave(made.ranks[1].control);
  made.ranks[1].control = NULL;
  for (int i = 0; i < MOST; i += 2) {
    tdm_control_peer told = {0};
    while (!told.left)
      tdm_control_peer_get(made.ranks[i].control, 1, &told);
    tdm_control_progress(made.ranks[i].control, 0, 200);
  }
  wait_progress(made.ranks[0].control, 2, 200); /* waits for some more beats */
  wait_progress(made.ranks[2].control, 0, 200);
  for (int i = 0; i < MOST; i += 2) {
    tdm_control_dropped dropped;
    assert_false(tdm_control_failed(made.ranks[i].control, NULL));
    tdm_control_dropped_get(made.ranks[i].control, &dropped);
    assert_int_equal(dropped.forged + dropped.malformed + dropped.repeated, 0);
  }
  close_net(&made);
}

static void *part_rank(void *user) {
  rank *one = user;
  one->status = tdm_control_part(one->control) ? TDM_OK : TDM_UNAVAILABLE;
  return NULL;
}

static void begin_part(rank *one) {
  assert_int_equal(pthread_create(&one->thread, NULL, part_rank, one), 0);
}

/* The rank that leaves first is reported as leaving, continues its beats, and waits for the last.
 */
static void test_parting(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  start_all(&made);
  tdm_control *last = made.ranks[0].control;
  for (int i = MOST - 1; i > 0; i--) {
    begin_part(&made.ranks[i]);
    while (!tdm_control_left(last, i, NULL))
      (void)usleep(1000);
    tdm_control_progress(made.ranks[i].control, 0, 100 + (uint64_t)i);
    wait_progress(last, i, 100 + (uint64_t)i);
  }
  begin_part(&made.ranks[0]);
  for (int i = 0; i < MOST; i++) {
    (void)pthread_join(made.ranks[i].thread, NULL);
    assert_int_equal(made.ranks[i].status, TDM_OK);
    assert_false(tdm_control_failed(made.ranks[i].control, NULL));
  }
  close_net(&made);
}

/* A rank that leaves does not wait for lost ranks. */
static void test_parting_from_who_is_lost(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  start_all(&made);
  begin_part(&made.ranks[1]);
  while (!tdm_control_left(made.ranks[2].control, 1, NULL))
    (void)usleep(1000);
  tdm_control_abandon(made.ranks[0].control);
  made.ranks[0].control = NULL;
  (void)pthread_join(made.ranks[1].thread, NULL);
  assert_int_equal(made.ranks[1].status, TDM_UNAVAILABLE);
  close_net(&made);
}

/* ---- Stalled transfers ----------------------------------------------------------------------- */

enum { LIMIT_MS = 3000 };

static tdm_control_transfer post(tdm_control *of, int peer, tdm_control_way way, size_t bytes) {
  tdm_control_transfer transfer = {.peer = peer, .way = way, .bytes = bytes};
  tdm_control_posted(of, &transfer);
  return transfer;
}

/* Waits until rank `of` has received how often its peer has posted to it, and whether it waits. */
static void wait_posted(tdm_control *of, int peer, tdm_control_way way, uint64_t count,
                        bool waits) {
  tdm_control_peer told;
  do {
    (void)usleep(1000);
    tdm_control_peer_get(of, peer, &told);
  } while (told.posted[way] != count || told.waits != waits);
}

/* Polls every 10 ms of a simulated clock; returns the number of polls before a stall, or 0. */
static int stalls_after(tdm_control *of, tdm_control_transfer *transfer) {
  enum { EVERY_MS = 10 };
  for (int ms = 0; ms < 10 * LIMIT_MS; ms += EVERY_MS)
    if (tdm_control_stalls(of, transfer, UINT64_C(1000000) * (uint64_t)(ms + 1))) return ms;
  return 0;
}

static void test_stalls(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  for (int i = 0; i < MOST; i++)
    made.ranks[i].options.stall_ns = UINT64_C(1000000) * LIMIT_MS;
  start_all(&made);
  tdm_control *zero = made.ranks[0].control, *one = made.ranks[1].control;
  /* A receive whose sender computes: first nothing is posted, then the posted transfer is
   * settled. */
  tdm_control_transfer receive = post(zero, 1, TDM_CONTROL_RECEIVES, 0);
  (void)post(one, 0, TDM_CONTROL_GATHER_SENDS, 0);
  wait_posted(zero, 1, TDM_CONTROL_GATHER_SENDS, 1, true);
  assert_int_equal(stalls_after(zero, &receive), 0);
  (void)post(one, 0, TDM_CONTROL_SENDS, 0);
  tdm_control_settled(one);
  tdm_control_settled(one);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 1, false);
  assert_int_equal(stalls_after(zero, &receive), 0);
  /* It waits for something else: both call their engines. */
  (void)post(one, 2, TDM_CONTROL_RECEIVES, 0);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 1, true);
  receive.clock.looked_ns = 0;
  assert_int_equal(stalls_after(zero, &receive), LIMIT_MS + 10);
  /* The peer has not posted the next transfer; large ones may take longer. */
  tdm_control_transfer next = post(zero, 1, TDM_CONTROL_RECEIVES, 1000000);
  assert_int_equal(stalls_after(zero, &next), 0);
  (void)post(one, 0, TDM_CONTROL_SENDS, 1000000);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 2, true);
  next.clock.looked_ns = 0;
  assert_int_equal(stalls_after(zero, &next), LIMIT_MS + 2000 + 10);
  /* All ranks have posted the collective. */
  tdm_control_transfer sum = post(zero, -1, TDM_CONTROL_COLLECTIVES, 0);
  (void)post(one, -1, TDM_CONTROL_COLLECTIVES, 0);
  wait_posted(zero, 1, TDM_CONTROL_COLLECTIVES, 1, true);
  assert_int_equal(stalls_after(zero, &sum), 0);
  (void)post(made.ranks[2].control, -1, TDM_CONTROL_COLLECTIVES, 0);
  wait_posted(zero, 2, TDM_CONTROL_COLLECTIVES, 1, true);
  sum.clock.looked_ns = 0;
  assert_int_equal(stalls_after(zero, &sum), LIMIT_MS + 10);
  /* A process that did not run for half a minute has seen 20 ms of it. */
  sum.clock.stalled_ns = 0;
  assert_false(tdm_control_stalls(zero, &sum, UINT64_C(33000000000)));
  assert_int_equal(sum.clock.stalled_ns, 20000000);
  close_net(&made);
}

/* Returns the stalled time after a hundred checks 10 ms apart, with a clock that begins now. */
static uint64_t clock_after_a_second(tdm_control *of, tdm_control_transfer *transfer) {
  transfer->clock = (tdm_control_clock){0};
  const uint64_t now_ns = tdm_time_ns();
  for (int i = 0; i < 100; i++)
    (void)tdm_control_stalls(of, transfer, now_ns + UINT64_C(10000000) * (uint64_t)i);
  return transfer->clock.stalled_ns;
}

/* A rank that does not run stalls nothing, though it was waiting for the same before. */
static void test_silence_is_no_stall(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  start_all(&made);
  tdm_control *zero = made.ranks[0].control, *one = made.ranks[1].control;
  tdm_control_transfer receive = post(zero, 1, TDM_CONTROL_RECEIVES, 0);
  (void)post(one, 0, TDM_CONTROL_SENDS, 0);
  tdm_control_progress(one, 0, 5);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 1, true);
  wait_progress(zero, 1, 5);
  tdm_control_pause(one, true);
  uint64_t silent_ns = 0;
  while (tdm_control_most_silent(zero, &silent_ns) != 1)
    (void)usleep(1000);
  assert_int_equal(clock_after_a_second(zero, &receive), 0);
  assert_false(tdm_control_has_come(zero, 1, 0, 5));
  tdm_control_pause(one, false);
  while (!tdm_control_has_come(zero, 1, 0, 5))
    (void)usleep(1000);
  close_net(&made);
}

static void wait_runs(tdm_control *of, int peer, uint64_t runs) {
  tdm_control_peer told;
  do {
    (void)usleep(1000);
    tdm_control_peer_get(of, peer, &told);
  } while (told.runs != runs);
}

/* Queries as stalls_after does. Returns the first result that is not MOVES within ten times the
 * limit. */
static tdm_control_stall end_of(tdm_control *of, tdm_control_transfer *transfer) {
  tdm_control_stall found = TDM_CONTROL_MOVES;
  transfer->clock = (tdm_control_clock){0};
  for (int ms = 0; ms < 10 * LIMIT_MS && found == TDM_CONTROL_MOVES; ms += 10)
    found = tdm_control_stalls(of, transfer, UINT64_C(1000000) * (uint64_t)(ms + 1));
  return found;
}

/* Rank 0 waits for a transfer that rank 1 has not posted, while rank 1 waits as well. */
static void test_apart(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 2);
  for (int i = 0; i < 2; i++)
    made.ranks[i].options.stall_ns = UINT64_C(1000000) * LIMIT_MS;
  start_all(&made);
  tdm_control *zero = made.ranks[0].control, *one = made.ranks[1].control;
  tdm_control_begun(zero, 11);
  tdm_control_begun(one, 11);
  tdm_control_transfer gather = post(zero, 1, TDM_CONTROL_GATHER_RECEIVES, 0);
  tdm_control_transfer receive = post(zero, 1, TDM_CONTROL_RECEIVES, 0);
  (void)post(one, 0, TDM_CONTROL_RECEIVES, 0);
  wait_runs(zero, 1, 1);
  wait_posted(zero, 1, TDM_CONTROL_RECEIVES, 1, true);
  /* Rank 1 may still compute in the same run. */
  assert_int_equal(end_of(zero, &gather), TDM_CONTROL_MOVES);
  assert_int_equal(end_of(zero, &receive), TDM_CONTROL_MOVES);
  /* Rank 1 is in the next run, which rank 0 begins after its gather; its message may still arrive.
   */
  tdm_control_begun(one, 12);
  wait_runs(zero, 1, 2);
  assert_int_equal(end_of(zero, &gather), TDM_CONTROL_APART);
  assert_int_equal(gather.apart, 1);
  assert_int_equal(end_of(zero, &receive), TDM_CONTROL_MOVES);
  /* Rank 0 begins it, too. */
  tdm_control_begun(zero, 12);
  assert_int_equal(end_of(zero, &gather), TDM_CONTROL_MOVES);
  /* They begin different ones. */
  tdm_control_begun(zero, 13);
  tdm_control_begun(zero, 14);
  tdm_control_begun(one, 14);
  wait_runs(zero, 1, 3);
  assert_int_equal(end_of(zero, &receive), TDM_CONTROL_APART);
  assert_int_equal(end_of(zero, &gather), TDM_CONTROL_APART);
  /* Rank 1 has posted the send. */
  (void)post(one, 0, TDM_CONTROL_SENDS, 0);
  wait_posted(zero, 1, TDM_CONTROL_SENDS, 1, true);
  assert_int_equal(end_of(zero, &receive), TDM_CONTROL_STANDS);
  close_net(&made);
}

static void test_stall_limits(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 1);
  (void)setenv("TANDEM_NET_STALL_SECONDS", "soon", 1);
  (void)start_rank(&made.ranks[0]);
  assert_int_equal(made.ranks[0].status, TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(made.ranks[0].message, "TANDEM_NET_STALL_SECONDS"));
  (void)setenv("TANDEM_NET_STALL_SECONDS", "20", 1);
  start_all(&made);
  assert_int_equal(made.ranks[0].control->options.stall_ns, UINT64_C(20000000000));
  (void)unsetenv("TANDEM_NET_STALL_SECONDS");
  close_net(&made);
}

static void test_one_rank(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, 1);
  start_all(&made);
  assert_false(tdm_control_failed(made.ranks[0].control, NULL));
  close_net(&made);
}

static void test_ended(void **state) {
  (void)state;
  job made = {0};
  open_net(&made, MOST);
  start_all(&made);
  tdm_control_abandon(made.ranks[1].control);
  made.ranks[1].control = NULL;
  for (int i = 0; i < MOST; i += 2) {
    const tdm_control_failure failure = wait_failure(made.ranks[i].control);
    char text[TDM_CONTROL_TEXT_BYTES];
    assert_int_equal(failure.rank, 1);
    assert_int_equal(failure.cause, TDM_CONTROL_ENDED);
    assert_non_null(strstr(tdm_control_failure_text(&failure, text), "has ended without a word"));
  }
  close_net(&made);
}

/* With all that a thread's message can say. */
static void test_give_up(void **state) {
  (void)state;
  job made = {0};
  char reason[TDM_MESSAGE_BYTES] = "no space left on device", told[TDM_MESSAGE_BYTES + 32];
  memset(reason + strlen(reason), 'o', sizeof reason - 1 - strlen(reason));
  (void)snprintf(told, sizeof told, "gave up: IO: %s", reason);
  open_net(&made, MOST);
  start_all(&made);
  tdm_control_give_up(made.ranks[1].control, TDM_IO, reason);
  tdm_control_give_up(made.ranks[1].control, TDM_INTERNAL, "too late");
  for (int i = 0; i < MOST; i++) {
    const tdm_control_failure failure = wait_failure(made.ranks[i].control);
    char text[TDM_CONTROL_TEXT_BYTES];
    assert_int_equal(failure.rank, 1);
    assert_int_equal(failure.cause, TDM_CONTROL_GAVE_UP);
    assert_int_equal(failure.status, TDM_IO);
    assert_non_null(strstr(tdm_control_failure_text(&failure, text), told));
  }
  close_net(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_progress_and_leaving),
      cmocka_unit_test(test_parting),
      cmocka_unit_test(test_parting_from_who_is_lost),
      cmocka_unit_test(test_stalls),
      cmocka_unit_test(test_silence_is_no_stall),
      cmocka_unit_test(test_apart),
      cmocka_unit_test(test_stall_limits),
      cmocka_unit_test(test_one_rank),
      cmocka_unit_test(test_ended),
      cmocka_unit_test(test_give_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
