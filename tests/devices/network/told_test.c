/* Exchanges between ranks outside of plans, each rank a thread, over a net that reorders and
 * delays. All ranks receive all contributions, in the ranks' order, or the same failure. */
#include <pthread.h>
#include <string.h>

#include "devices/network/network.h"
#include "tests/devices/support.h"
#include "tests/support/simnet.h"

enum { MOST_RANKS = 5, BYTES = 3000 };

typedef struct rank {
  tdm_network *network;
  tdm_status (*tell)(struct rank *self);
  int rank;
  int rank_count;
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
} rank;

static void *rank_main(void *user) {
  rank *self = user;
  self->status = self->tell(self);
  (void)snprintf(self->message, sizeof self->message, "%s", tdm_last_message());
  tdm_network_destroy(self->network);
  return NULL;
}

/* Calls `tell` on every rank of a job, concurrently. */
static void all_tell(int rank_count, tdm_status (*tell)(rank *self), rank *ranks) {
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof options,
                                      .rank_count = rank_count,
                                      .seed = (uint64_t)rank_count,
                                      .delay_ns = 50000,
                                      .loss_is_told = true};
  tdm_simnet *net;
  pthread_t threads[MOST_RANKS];
  assert_ok(tdm_simnet_create(&allocator, &options, &net));
  for (int r = 0; r < rank_count; r++) {
    tdm_endpoint *endpoint;
    ranks[r] = (rank){.tell = tell, .rank = r, .rank_count = rank_count};
    assert_ok(tdm_simnet_endpoint(net, r, &endpoint));
    assert_ok(tdm_network_create(&allocator, endpoint, &ranks[r].network));
  }
  for (int r = 0; r < rank_count; r++)
    assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
  for (int r = 0; r < rank_count; r++)
    assert_int_equal(pthread_join(threads[r], NULL), 0);
  tdm_simnet_release(net);
}

static void expect_all(const rank *ranks, int rank_count, tdm_status status, const char *message) {
  for (int r = 0; r < rank_count; r++) {
    if (ranks[r].status != status || (message && !strstr(ranks[r].message, message)))
      fail_msg("rank %d of %d: %s: %s", r, rank_count, tdm_status_name(ranks[r].status),
               ranks[r].message);
  }
}

static unsigned char byte_of(int from, size_t at) {
  return (unsigned char)(31 * from + (int)(at % 251));
}

static tdm_status differs(const char *what, int from, size_t at) {
  return tdm_fail(TDM_INTERNAL, "%s: byte %zu of rank %d is another", what, at, from);
}

/* ---- Gathering ------------------------------------------------------------------------------- */

static tdm_status gather_twice(rank *self) {
  for (size_t bytes = 1; bytes <= BYTES; bytes += BYTES - 1) {
    unsigned char own[BYTES], all[MOST_RANKS * BYTES];
    for (size_t i = 0; i < bytes; i++)
      own[i] = byte_of(self->rank, i);
    TDM_TRY(tdm_network_gather(self->network, own, bytes, all));
    for (int r = 0; r < self->rank_count; r++)
      for (size_t i = 0; i < bytes; i++)
        if (all[(size_t)r * bytes + i] != byte_of(r, i)) return differs("gathered", r, i);
  }
  return TDM_OK;
}

/* Rank 0 makes another exchange than the others. */
static tdm_status tell_something_else(rank *self) {
  unsigned char all[MOST_RANKS] = {0};
  (void)tdm_network_intend(self->network, self->rank == 0 ? "save" : "load");
  return tdm_network_gather(self->network, &(char){0}, 1, all);
}

static tdm_status tell_other_sizes(rank *self) {
  unsigned char all[2 * MOST_RANKS] = {0};
  (void)tdm_network_intend(self->network, "save");
  return tdm_network_gather(self->network, &(char[2]){0}, self->rank == 0 ? 1 : 2, all);
}

static void ranks_that_do_different_things_are_told_which(void **unused) {
  (void)unused;
  rank ranks[2];
  all_tell(2, tell_something_else, ranks);
  expect_all(ranks, 2, TDM_INVALID_ARGUMENT, " to load (1 bytes)");
  expect_all(ranks, 2, TDM_INVALID_ARGUMENT, "rank 0 ");
  expect_all(ranks, 2, TDM_INVALID_ARGUMENT, " to save (1 bytes)");
  all_tell(2, tell_other_sizes, ranks);
  expect_all(ranks, 2, TDM_INVALID_ARGUMENT, " to save (1 bytes)");
  expect_all(ranks, 2, TDM_INVALID_ARGUMENT, " to save (2 bytes)");
}

static void everybody_gets_what_all_tell_in_order(void **unused) {
  (void)unused;
  for (int count = 1; count <= MOST_RANKS; count++) {
    rank ranks[MOST_RANKS];
    all_tell(count, gather_twice, ranks);
    expect_all(ranks, count, TDM_OK, NULL);
  }
}

/* More bytes than fit at a time. */
enum { MUCH = (1 << 20) + 100 };

static tdm_status expect_much(const unsigned char *memory, int from) {
  for (size_t i = 0; i < MUCH; i++)
    if (memory[i] != byte_of(from, i)) return differs("much", from, i);
  return TDM_OK;
}

static tdm_status gather_and_pass_much(rank *self) {
  static unsigned char memory[2][3 * MUCH];
  unsigned char *own = memory[self->rank], *all = own + MUCH;
  for (size_t i = 0; i < MUCH; i++)
    own[i] = byte_of(self->rank, i);
  TDM_TRY(tdm_network_gather(self->network, own, MUCH, all));
  for (int r = 0; r < 2; r++)
    TDM_TRY(expect_much(all + (size_t)r * MUCH, r));
  memset(all, 0x5a + self->rank, MUCH);
  TDM_TRY(tdm_network_pass(self->network, 1, 0, own, MUCH));
  for (size_t i = 0; i < MUCH; i++) /* nothing after it */
    if (all[i] != 0x5a + self->rank) return differs("behind much", self->rank, i);
  return expect_much(own, 1);
}

static void what_the_room_does_not_hold_is_told_in_pieces(void **unused) {
  (void)unused;
  rank ranks[MOST_RANKS];
  all_tell(2, gather_and_pass_much, ranks);
  expect_all(ranks, 2, TDM_OK, NULL);
}

/* ---- Agreeing -------------------------------------------------------------------------------- */

static tdm_status agree_on_success(rank *self) {
  return tdm_network_agree(self->network, TDM_OK);
}

/* Ranks 1 and 2 fail, in different ways. */
static tdm_status agree_on_failure(rank *self) {
  tdm_status own = TDM_OK;
  if (self->rank == 1) own = tdm_fail(TDM_OUT_OF_MEMORY, "rank one has no memory");
  if (self->rank == 2) own = tdm_fail(TDM_IO, "rank two has no file");
  return tdm_network_agree(self->network, own);
}

static void all_have_the_first_ranks_failure(void **unused) {
  (void)unused;
  rank ranks[MOST_RANKS];
  all_tell(4, agree_on_success, ranks);
  expect_all(ranks, 4, TDM_OK, NULL);
  all_tell(4, agree_on_failure, ranks);
  expect_all(ranks, 4, TDM_OUT_OF_MEMORY, "rank one has no memory");
}

/* ---- Passing --------------------------------------------------------------------------------- */

static void fill(const rank *self, unsigned char *memory) {
  for (size_t i = 0; i < BYTES; i++)
    memory[i] = byte_of(self->rank, i);
}

static tdm_status expect_from(const unsigned char *memory, int from) {
  for (size_t i = 0; i < BYTES; i++)
    if (memory[i] != byte_of(from, i)) return differs("passed", from, i);
  return TDM_OK;
}

static tdm_status pass_to_one_and_to_all(rank *self) {
  unsigned char memory[BYTES];
  fill(self, memory);
  TDM_TRY(tdm_network_pass(self->network, 2, 0, memory, BYTES));
  TDM_TRY(expect_from(memory, self->rank == 0 ? 2 : self->rank));
  fill(self, memory);
  TDM_TRY(tdm_network_pass(self->network, 1, -1, memory, BYTES));
  TDM_TRY(expect_from(memory, 1));
  return tdm_network_pass(self->network, 1, 1, memory, BYTES);
}

static void memory_becomes_that_of_another_rank(void **unused) {
  (void)unused;
  rank ranks[MOST_RANKS];
  all_tell(3, pass_to_one_and_to_all, ranks);
  expect_all(ranks, 3, TDM_OK, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everybody_gets_what_all_tell_in_order),
      cmocka_unit_test(ranks_that_do_different_things_are_told_which),
      cmocka_unit_test(what_the_room_does_not_hold_is_told_in_pieces),
      cmocka_unit_test(all_have_the_first_ranks_failure),
      cmocka_unit_test(memory_becomes_that_of_another_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
