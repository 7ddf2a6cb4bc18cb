/* The proof over ranks: each way in which programs of ranks do not fit is refused with a message
 * that names it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "graph/schedule/verify_ranks.h"
#include "tests/graph/schedule/random_schedule.h"

enum { RANKS = 3, MOST_STEPS = 8, COMPUTE = 0, SEND = 1, RECEIVE = 2 };

/* A value goes round: rank 0 makes it and sends it to 1, which sends two to 2, which sends one back
 * to 0. */
struct ring {
  tdm_allocator allocator;
  tdm_schedule schedules[RANKS];
  tdm_step_message messages[RANKS][MOST_STEPS];
  tdm_rank_steps ranks[RANKS];
};

struct maker {
  struct ring *ring;
  uint32_t rank;
  struct builder builder;
};

static struct maker begin_rank(struct ring *ring, uint32_t rank) {
  tdm_schedule *schedule = &ring->schedules[rank];
  tdm_schedule_init(schedule, &ring->allocator);
  schedule->queue_count = 3;
  schedule->arena_count = 1;
  schedule->depth = 1;
  ring->ranks[rank] = (tdm_rank_steps){schedule, ring->messages[rank]};
  return (struct maker){ring, rank, {schedule, TDM_OK}};
}

static uint32_t computes(struct maker *maker, uint32_t reads, uint32_t *out_made) {
  *out_made = builder_storage(&maker->builder, TDM_STORAGE_ARENA, 0, 64);
  const uint32_t step = builder_step(&maker->builder, COMPUTE, TDM_PHASE_MAIN);
  if (reads != UINT32_MAX) builder_reads(&maker->builder, reads);
  builder_writes(&maker->builder, *out_made);
  return step;
}

static void sends(struct maker *maker, uint32_t number, uint32_t peer, uint32_t storage) {
  const uint32_t step = builder_step(&maker->builder, SEND, TDM_PHASE_MAIN);
  builder_reads(&maker->builder, storage);
  maker->ring->messages[maker->rank][step] =
      (tdm_step_message){.end = TDM_MESSAGE_SEND, .number = number, .peer = peer, .bytes = 64};
}

static uint32_t receives(struct maker *maker, uint32_t number, uint32_t peer) {
  const uint32_t storage = builder_storage(&maker->builder, TDM_STORAGE_ARENA, 0, 64);
  const uint32_t step = builder_step(&maker->builder, RECEIVE, TDM_PHASE_MAIN);
  builder_writes(&maker->builder, storage);
  maker->ring->messages[maker->rank][step] =
      (tdm_step_message){.end = TDM_MESSAGE_RECEIVE, .number = number, .peer = peer, .bytes = 64};
  return storage;
}

static void end_rank(const struct maker *maker) {
  assert_int_equal(maker->builder.status, TDM_OK);
  if (schedule_plan(maker->builder.schedule) != TDM_OK) fail_msg("%s", tdm_last_message());
}

static void begin(struct ring *ring) {
  memset(ring, 0, sizeof *ring);
  ring->allocator = tdm_allocator_default();
  uint32_t made;
  struct maker maker = begin_rank(ring, 0);
  (void)computes(&maker, UINT32_MAX, &made); /* step 0 */
  sends(&maker, 11, 1, made);                /* 1 */
  const uint32_t back = receives(&maker, 14, 2);
  (void)computes(&maker, back, &made); /* 3 */
  end_rank(&maker);
  maker = begin_rank(ring, 1);
  const uint32_t first = receives(&maker, 11, 0); /* 0 */
  (void)computes(&maker, first, &made);
  sends(&maker, 12, 2, made);
  sends(&maker, 13, 2, first); /* 3 */
  end_rank(&maker);
  maker = begin_rank(ring, 2);
  (void)receives(&maker, 12, 1); /* 0 */
  const uint32_t second = receives(&maker, 13, 1);
  (void)computes(&maker, second, &made);
  sends(&maker, 14, 0, made); /* 3 */
  end_rank(&maker);
}

static void end(struct ring *ring) {
  for (int r = 0; r < RANKS; r++)
    if (ring->ranks[r].schedule) tdm_schedule_deinit(&ring->schedules[r]);
}

static tdm_status verify(const struct ring *ring) {
  return tdm_verify_ranks(&ring->allocator, ring->ranks, RANKS);
}

/* What `begins` makes is legal, and is refused for that reason once it has changed. */
#define REFUSES_AFTER(begins, change, reason)                                                      \
  do {                                                                                             \
    struct ring ring;                                                                              \
    begins;                                                                                        \
    assert_int_equal(verify(&ring), TDM_OK);                                                       \
    change;                                                                                        \
    assert_int_equal(verify(&ring), TDM_INTERNAL);                                                 \
    if (!strstr(tdm_last_message(), reason))                                                       \
      fail_msg("\"%s\" does not say \"%s\"", tdm_last_message(), reason);                          \
    end(&ring);                                                                                    \
  } while (0)
#define REFUSES(change, reason) REFUSES_AFTER(begin(&ring), change, reason)

static void what_has_not_two_ends_is_refused(void **state) {
  (void)state;
  REFUSES(ring.messages[0][1].end = TDM_MESSAGE_NONE,
          "message 11 is received by step 0 of rank 1, and never sent");
  REFUSES(ring.messages[1][0].end = TDM_MESSAGE_NONE,
          "message 11 is sent by step 1 of rank 0, and never received");
  REFUSES(ring.messages[2][3].number = 12, "message 12 is sent twice");
  REFUSES(ring.messages[2][1].number = 12, "message 12 is received twice");
  REFUSES(ring.messages[1][2].end = TDM_MESSAGE_RECEIVE, "message 12 is received twice");
}

static void ends_that_disagree_are_refused(void **state) {
  (void)state;
  REFUSES(ring.messages[0][1].peer = 2, "message 11 goes from rank 0 to rank 2, and is received by "
                                        "rank 1 from rank 0");
  REFUSES(ring.messages[1][0].peer = 2, "is received by rank 1 from rank 2");
  REFUSES(ring.messages[0][2].bytes = 32, "message 14 has 64 bytes at rank 2 and 32 at rank 0");
  REFUSES(ring.schedules[2].steps[3].phase = TDM_PHASE_UPDATE,
          "message 14 belongs to the update phase of rank 2");
}

static void messages_in_another_order_are_refused(void **state) {
  (void)state;
  REFUSES((ring.messages[1][2].number = 13, ring.messages[1][3].number = 12),
          "rank 1 sends message 12 to rank 2 after one that is received later");
  REFUSES((ring.messages[2][0].number = 13, ring.messages[2][1].number = 12),
          "after one that is received later");
  REFUSES(ring.schedules[1].steps[3].queue = COMPUTE, "message 13 of rank 1 is on queue 0, not 1");
}

/* Rank 0 sends to both others in turn. */
static void begin_star(struct ring *ring) {
  memset(ring, 0, sizeof *ring);
  ring->allocator = tdm_allocator_default();
  uint32_t made;
  struct maker maker = begin_rank(ring, 0);
  (void)computes(&maker, UINT32_MAX, &made);
  sends(&maker, 21, 1, made);
  sends(&maker, 22, 2, made);
  sends(&maker, 23, 1, made);
  end_rank(&maker);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    maker = begin_rank(ring, rank);
    for (uint32_t number = 20 + rank; number <= 23; number += 2)
      (void)receives(&maker, number, 0);
    end_rank(&maker);
  }
}

static void messages_to_each_rank_have_their_order(void **state) {
  (void)state;
  REFUSES_AFTER(begin_star(&ring),
                (ring.messages[1][0].number = 23, ring.messages[1][1].number = 21),
                "rank 0 sends message 23 to rank 1 after one that is received later");
}

/* The step waits for another step, any one, instead of those that it waited for. */
static void set_wait(tdm_schedule *schedule, uint32_t step, uint32_t awaited) {
  assert_true(schedule->wait_count > 0);
  schedule->waits[0] = (tdm_step_wait){.step = awaited};
  schedule->steps[step].first_wait = 0;
  schedule->steps[step].wait_count = 1;
}

static void circles_of_waits_are_refused(void **state) {
  (void)state;
  REFUSES(set_wait(&ring.schedules[0], 1, 2), "the ranks wait for one another: step 3 of rank 0");
  REFUSES(set_wait(&ring.schedules[1], 0, 2), "the ranks wait for one another");
  REFUSES(set_wait(&ring.schedules[2], 1, 3), "the ranks wait for one another");
}

/* A step that waits for the previous run may wait for any step of a run in flight, except those of
 * a run that waits for its end, on any rank. */
static void runs_in_flight_are_walked(void **state) {
  (void)state;
  for (uint32_t depth = 1; depth <= 4; depth++) {
    struct ring flying;
    begin(&flying);
    for (int r = 0; r < RANKS; r++)
      flying.schedules[r].depth = depth;
    assert_int_equal(verify(&flying), TDM_OK);
    set_wait(&flying.schedules[0], 0, 3);
    flying.schedules[0].waits[0].previous = true;
    assert_int_equal(verify(&flying), TDM_OK);
    end(&flying);
  }
  REFUSES(ring.schedules[1].depth = 2, "rank 0 has 1 runs in flight, and rank 1 has 2");
  REFUSES(ring.schedules[0].steps[0].phase = TDM_PHASE_UPDATE,
          "the ranks wait for one another: step 0 of rank 0");
}

/* Rank 1 computes the terms of the second sum first; the others do the opposite. */
static void begin_together(struct ring *ring, bool swapped) {
  memset(ring, 0, sizeof *ring);
  ring->allocator = tdm_allocator_default();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct maker maker = begin_rank(ring, rank);
    uint32_t made[2];
    for (uint32_t i = 0; i < 2; i++)
      (void)computes(&maker, UINT32_MAX, &made[i]); /* 0, 1 */
    for (uint32_t i = 0; i < 2; i++) {
      const uint32_t number = swapped && rank == 1 ? 1 - i : i;
      const uint32_t step = builder_step(&maker.builder, SEND, TDM_PHASE_MAIN); /* 2, 3 */
      builder_reads(&maker.builder, made[number]);
      builder_writes(&maker.builder, made[number]);
      ring->messages[rank][step] =
          (tdm_step_message){TDM_MESSAGE_OF_ALL, .number = number, .bytes = 64};
    }
    end_rank(&maker);
  }
}

#define REFUSES_TOGETHER(change, reason) REFUSES_AFTER(begin_together(&ring, false), change, reason)

static void messages_of_all_have_one_order(void **state) {
  (void)state;
  struct ring swapped;
  begin_together(&swapped, true);
  assert_int_equal(verify(&swapped), TDM_INTERNAL);
  assert_non_null(strstr(tdm_last_message(), "where rank 0 has message 0 of all ranks, of 64 "
                                             "bytes, rank 1 has message 1, of 64"));
  end(&swapped);
  REFUSES_TOGETHER(ring.messages[2][3].end = TDM_MESSAGE_NONE,
                   "rank 0 has message 1 of all ranks, and rank 2 has not");
  REFUSES_TOGETHER(ring.messages[0][3].end = TDM_MESSAGE_NONE,
                   "rank 1 has message 1 of all ranks, and rank 0 has not");
  REFUSES_TOGETHER(ring.messages[1][2].bytes = 32, "rank 1 has message 0, of 32");
  REFUSES_TOGETHER(ring.schedules[1].steps[3].queue = COMPUTE, "is on queue 0, not 1");
  REFUSES_TOGETHER(ring.schedules[1].steps[3].phase = TDM_PHASE_UPDATE,
                   "message 1 of all ranks belongs to the update phase of rank 1");
  REFUSES_TOGETHER(set_wait(&ring.schedules[1], 0, 2), "the ranks wait for one another");
}

/* Builds four members of one group, two of them on rank 0, each with a queue for its sums. */
static void begin_group(struct ring *ring) {
  memset(ring, 0, sizeof *ring);
  ring->allocator = tdm_allocator_default();
  uint32_t member = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct maker maker = begin_rank(ring, rank);
    for (uint32_t queue = SEND; queue <= (rank == 0 ? RECEIVE : SEND); queue++, member++) {
      for (uint32_t number = 0; number < 2; number++) {
        const uint32_t step = builder_step(&maker.builder, queue, TDM_PHASE_MAIN);
        builder_writes(&maker.builder, builder_storage(&maker.builder, TDM_STORAGE_ARENA, 0, 64));
        ring->messages[rank][step] = (tdm_step_message){.end = TDM_MESSAGE_OF_ALL,
                                                        .number = number,
                                                        .peer = member,
                                                        .bytes = 64,
                                                        .group = 1,
                                                        .members = 4};
      }
    }
    end_rank(&maker);
  }
}

#define REFUSES_IN_GROUP(change, reason) REFUSES_AFTER(begin_group(&ring), change, reason)

/* Rank 0's steps 0 and 1 are member 0's, 2 and 3 member 1's. */
static void members_of_a_group_have_one_order(void **state) {
  (void)state;
  REFUSES_IN_GROUP((ring.messages[0][2].number = 1, ring.messages[0][3].number = 0),
                   "where rank 0 has message 0 of all ranks, of 64 bytes, rank 0 has message 1");
  REFUSES_IN_GROUP((ring.messages[2][0].number = 1, ring.messages[2][1].number = 0),
                   "where rank 0 has message 0 of all ranks, of 64 bytes, rank 2 has message 1");
  REFUSES_IN_GROUP(ring.messages[1][1].bytes = 32, "rank 1 has message 1, of 32");
  REFUSES_IN_GROUP(ring.messages[0][3].end = TDM_MESSAGE_NONE,
                   "rank 0 has message 1 of group 1, and member 1 has not");
  REFUSES_IN_GROUP((ring.messages[1][0].end = ring.messages[1][1].end = TDM_MESSAGE_NONE),
                   "rank 0 has message 0 of group 1, and member 2 has not");
  REFUSES_IN_GROUP(ring.messages[1][0].members = 3, "is of member 2 of 3, in a group of 4");
  REFUSES_IN_GROUP(ring.messages[1][0].peer = 4, "is of member 4 of 4, in a group of 4");
  REFUSES_IN_GROUP((ring.messages[1][0].peer = ring.messages[1][1].peer = 3),
                   "member 3 of group 1 is on rank 1 and on rank 2");
  REFUSES_IN_GROUP(ring.messages[0][2].peer = 0, "message 0 of rank 0 is on queue 2, not 1");
  REFUSES_IN_GROUP(ring.schedules[2].steps[1].queue = COMPUTE, "message 1 of rank 2 is on queue 0");
  REFUSES_IN_GROUP(ring.schedules[2].steps[1].phase = TDM_PHASE_UPDATE,
                   "belongs to the update phase of rank 2");
  REFUSES_IN_GROUP(ring.messages[2][1].group = 2, "and member 3 has not");
}

/* Two devices of a process that has no other ranks. */
static void members_of_one_rank_alone_have_one_order(void **state) {
  (void)state;
  struct ring ring;
  begin_group(&ring);
  for (uint32_t step = 0; step < 4; step++)
    ring.messages[0][step].members = 2;
  assert_int_equal(tdm_verify_ranks(&ring.allocator, ring.ranks, 1), TDM_OK);
  ring.messages[0][2].number = 1;
  ring.messages[0][3].number = 0;
  assert_int_equal(tdm_verify_ranks(&ring.allocator, ring.ranks, 1), TDM_INTERNAL);
  assert_non_null(strstr(tdm_last_message(), "where rank 0 has message 0 of all ranks"));
  ring.messages[0][1].group = ring.messages[0][2].group = 2; /* the same of two groups */
  assert_int_equal(tdm_verify_ranks(&ring.allocator, ring.ranks, 1), TDM_INTERNAL);
  assert_non_null(strstr(tdm_last_message(), "the ranks wait for one another: step 0 of rank 0"));
  end(&ring);
}

/* A member may make its second sum only after the first, which another member makes after it. */
static void groups_that_wait_for_one_another_are_refused(void **state) {
  (void)state;
  struct ring ring;
  begin_group(&ring);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    for (uint32_t step = 0; step < (rank == 0 ? 4u : 2u); step++)
      if (ring.messages[rank][step].number == 1) ring.messages[rank][step].group = 2;
  assert_int_equal(verify(&ring), TDM_OK); /* two groups of the same members */
  ring.messages[2][0].number = 1;
  ring.messages[2][0].group = 2;
  ring.messages[2][1].number = 0;
  ring.messages[2][1].group = 1;
  assert_int_equal(verify(&ring), TDM_INTERNAL);
  assert_non_null(strstr(tdm_last_message(), "the ranks wait for one another: step 0 of rank 0"));
  end(&ring);
}

/* Each of two ranks sends before it receives, on one queue: if a send ends only once it is
 * received, none does. */
static void sends_that_wait_for_one_another_are_refused(void **state) {
  (void)state;
  struct ring ring = {.allocator = tdm_allocator_default()};
  for (uint32_t rank = 0; rank < 2; rank++) {
    struct maker maker = begin_rank(&ring, rank);
    uint32_t made;
    (void)computes(&maker, UINT32_MAX, &made);
    sends(&maker, rank, 1 - rank, made);
    (void)receives(&maker, 1 - rank, 1 - rank);
    end_rank(&maker);
  }
  assert_int_equal(tdm_verify_ranks(&ring.allocator, ring.ranks, 2), TDM_OK);
  for (uint32_t rank = 0; rank < 2; rank++)
    ring.schedules[rank].steps[2].queue = ring.schedules[rank].steps[1].queue;
  assert_int_equal(tdm_verify_ranks(&ring.allocator, ring.ranks, 2), TDM_INTERNAL);
  assert_non_null(strstr(tdm_last_message(), "the ranks wait for one another: step 1 of rank 0"));
  end(&ring);
}

/* ---- Devices --------------------------------------------------------------------------------- */

enum { PEER = 2 };

/* Adds an end of an exchange between this rank's device and that of another rank. */
static void exchanges(struct maker *maker, uint32_t number, uint32_t from, uint32_t to) {
  const bool is_sent = maker->rank == from;
  if (!is_sent && maker->rank != to) return;
  const uint32_t storage = builder_storage(&maker->builder, TDM_STORAGE_EXTERNAL, 0, 64);
  const uint32_t step = builder_step(&maker->builder, PEER, TDM_PHASE_MAIN);
  is_sent ? builder_reads(&maker->builder, storage) : builder_writes(&maker->builder, storage);
  const uint32_t other = is_sent ? to : from;
  maker->ring->messages[maker->rank][step] =
      (tdm_step_message){.end = is_sent ? TDM_MESSAGE_SEND : TDM_MESSAGE_RECEIVE,
                         .number = number,
                         .peer = other,
                         .bytes = 64,
                         .device = maker->rank + 1,
                         .partner = other + 1};
}

/* Builds transfers over three devices of three ranks and back, then a sum, all on one queue of
 * each, in one order. */
static void begin_devices(struct ring *ring) {
  static const uint32_t ways[][2] = {{0, 1}, {1, 2}, {2, 0}, {0, 2}, {2, 1}, {1, 0}};
  memset(ring, 0, sizeof *ring);
  ring->allocator = tdm_allocator_default();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct maker maker = begin_rank(ring, rank);
    for (uint32_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
      exchanges(&maker, 20 + i, ways[i][0], ways[i][1]);
    const uint32_t step = builder_step(&maker.builder, PEER, TDM_PHASE_MAIN);
    ring->messages[rank][step] = (tdm_step_message){.end = TDM_MESSAGE_OF_ALL,
                                                    .number = 1,
                                                    .peer = rank,
                                                    .bytes = 64,
                                                    .group = 1,
                                                    .members = RANKS,
                                                    .device = rank + 1};
    end_rank(&maker);
  }
}

#define REFUSES_OF_DEVICES(change, reason) REFUSES_AFTER(begin_devices(&ring), change, reason)

static void exchange(tdm_step_message *a, tdm_step_message *b) {
  const tdm_step_message kept = *a;
  *a = *b;
  *b = kept;
}

/* Rank 0 has 20 (to 1), 22 (from 2), 23 (to 2), 25 (from 1); rank 1 has 20, 21, 24, 25; rank 2 has
 * 21, 22, 23, 24; then the sum. */
static void what_devices_exchange_has_one_order(void **state) {
  (void)state;
  REFUSES_OF_DEVICES(ring.messages[0][0].end = TDM_MESSAGE_NONE,
                     "message 20 is received by step 0 of rank 1, and never sent");
  REFUSES_OF_DEVICES(ring.messages[1][1].partner = 1,
                     "message 21 goes from device 2 to device 1, and is received by device 3 from "
                     "device 2");
  REFUSES_OF_DEVICES(ring.messages[2][1].device = 0, "message 22 goes from device 0 to device 1");
  REFUSES_OF_DEVICES(ring.messages[2][3].bytes = 8, "message 24 has 8 bytes at rank 2 and 64");
  for (uint32_t step = 0; step < 4; step++)
    for (uint32_t rank = 0; rank < RANKS; rank++)
      REFUSES_OF_DEVICES(ring.schedules[rank].steps[step].queue = COMPUTE, "is on queue ");
  REFUSES_OF_DEVICES(ring.schedules[1].steps[4].queue = COMPUTE, "message 1 of rank 1 is on queue");
}

/* A message from a device of rank 0 (1 and 2) to one of rank 1 (3 and 4); each has a queue. */
static void carries(struct maker *maker, uint32_t number, uint32_t from, uint32_t to) {
  const bool is_sent = maker->rank == 0;
  const uint32_t storage = builder_storage(&maker->builder, TDM_STORAGE_EXTERNAL, 0, 64);
  const uint32_t own = is_sent ? from : to;
  const uint32_t step = builder_step(&maker->builder, own % 2 ? PEER : SEND, TDM_PHASE_MAIN);
  is_sent ? builder_reads(&maker->builder, storage) : builder_writes(&maker->builder, storage);
  maker->ring->messages[maker->rank][step] =
      (tdm_step_message){.end = is_sent ? TDM_MESSAGE_SEND : TDM_MESSAGE_RECEIVE,
                         .number = number,
                         .peer = is_sent ? 1 : 0,
                         .bytes = 64,
                         .device = own,
                         .partner = is_sent ? to : from};
}

static void begin_pairs(struct ring *ring) {
  static const uint32_t pairs[][2] = {{1, 3}, {1, 4}, {2, 3}, {1, 3}};
  memset(ring, 0, sizeof *ring);
  ring->allocator = tdm_allocator_default();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct maker maker = begin_rank(ring, rank);
    for (uint32_t i = 0; i < sizeof pairs / sizeof pairs[0] && rank < 2; i++)
      carries(&maker, 31 + i, pairs[i][0], pairs[i][1]);
    end_rank(&maker);
  }
}

static void pairs_of_devices_have_their_order(void **state) {
  (void)state;
  REFUSES_AFTER(begin_pairs(&ring), exchange(&ring.messages[0][0], &ring.messages[0][3]),
                "rank 0 sends message 31 to rank 1 after one that is received later");
  REFUSES_AFTER(begin_pairs(&ring), ring.schedules[0].steps[3].queue = SEND,
                "message 34 of rank 0 is on queue 1, not 2 as those before it");
}

/* Two adjacent exchanges change places on one rank only. If they have the same partner, or one is
 * the sum, each then waits for the one after the other. The first two of rank 0 make a circle of
 * three. */
static void devices_that_wait_for_one_another_are_refused(void **state) {
  (void)state;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    for (uint32_t step = 0; step < 4; step++) {
      struct ring ring;
      begin_devices(&ring);
      exchange(&ring.messages[rank][step], &ring.messages[rank][step + 1]);
      const bool sum = step == 3;
      const bool one_pair =
          !sum && ring.messages[rank][step].partner == ring.messages[rank][step + 1].partner;
      const tdm_status status = verify(&ring);
      if (sum || one_pair || (rank == 0 && step == 0)) assert_int_equal(status, TDM_INTERNAL);
      if (status != TDM_OK)
        assert_non_null(strstr(tdm_last_message(), "the ranks wait for one another"));
      end(&ring);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_has_not_two_ends_is_refused),
      cmocka_unit_test(ends_that_disagree_are_refused),
      cmocka_unit_test(messages_in_another_order_are_refused),
      cmocka_unit_test(messages_to_each_rank_have_their_order),
      cmocka_unit_test(circles_of_waits_are_refused),
      cmocka_unit_test(runs_in_flight_are_walked),
      cmocka_unit_test(messages_of_all_have_one_order),
      cmocka_unit_test(members_of_a_group_have_one_order),
      cmocka_unit_test(members_of_one_rank_alone_have_one_order),
      cmocka_unit_test(groups_that_wait_for_one_another_are_refused),
      cmocka_unit_test(sends_that_wait_for_one_another_are_refused),
      cmocka_unit_test(what_devices_exchange_has_one_order),
      cmocka_unit_test(devices_that_wait_for_one_another_are_refused),
      cmocka_unit_test(pairs_of_devices_have_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
