/* Messages go in pieces that the transport sends without asking their receiver: how many there are,
 * by what simnet counts. */
#include "devices/links/trial.h"
#include "tests/graph/job.h"

enum { BYTES = 100000, HEADER_BYTES = 40, WORDS_BYTES = 512 };

typedef struct limit {
  size_t eager_bytes;
  uint64_t pieces; /* number of pieces of a message of BYTES */
} limit;

/* Rank 1 sends an empty message and one of BYTES. */
static tdm_status send_and_count(job_rank *rank) {
  static char memory[2][BYTES];
  const tdm_rank_train train = {.context = rank->context,
                                .peer = 1 - rank->rank,
                                .leads = rank->rank == 0,
                                .memory = memory[rank->rank],
                                .bytes = BYTES,
                                .messages = 1,
                                .rounds = 1};
  double ns = 0;
  TDM_TRY(tdm_context_start(rank->context));
  const tdm_simnet_traffic before = tdm_simnet_sent(rank->net, 1, 0);
  if (rank->rank == 1) memset(memory[1], 7, BYTES);
  TDM_TRY(tdm_rank_train_run(&train, &ns));
  const tdm_simnet_traffic after = tdm_simnet_sent(rank->net, 1, 0);
  if (rank->rank == 1) {
    rank->number = after.messages - before.messages;
    rank->hash = after.bytes - before.bytes;
  } else if (memory[0][0] != 7 || memory[0][BYTES - 1] != 7) {
    return tdm_fail(TDM_INTERNAL, "what came is not what was sent");
  }
  return TDM_OK;
}

/* Each with the header of the first is no longer than the limit, and ends of 64 bytes. The empty
 * message has room for words. */
static void a_message_goes_in_pieces_that_nobody_is_asked_for(void **state) {
  (void)state;
  static const limit limits[] = {
      {.eager_bytes = 0, .pieces = 1}, /* simnet's "no limit" */
      {.eager_bytes = BYTES + HEADER_BYTES + 64, .pieces = 1},
      {.eager_bytes = BYTES + HEADER_BYTES - 64, .pieces = 2},
      {.eager_bytes = 16384, .pieces = 7},
      {.eager_bytes = 100, .pieces = 25}, /* pieces have at least 4 KiB */
  };
  for (size_t i = 0; i < TDM_COUNT_OF(limits); i++) {
    job_rank ranks[JOB_MOST_RANKS];
    job_must(&(job_options){.rank_count = 2, .net = {.eager_bytes = limits[i].eager_bytes}},
             send_and_count, ranks);
    assert_int_equal(ranks[1].number, limits[i].pieces + 1);
    assert_int_equal(ranks[1].hash, BYTES + 2 * HEADER_BYTES + WORDS_BYTES);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_goes_in_pieces_that_nobody_is_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
