/* Messages in one direction do not delay those in the other, piece by piece. While all messages of
 * rank 1 are held in transit, a whole train of messages of rank 0 arrives there. */
#define _GNU_SOURCE /* usleep */
#include <pthread.h>
#include <unistd.h>

#include "devices/links/trial.h"
#include "tests/graph/job.h"

enum { BYTES = (2 << 20) + 1000, MESSAGES = 3, PIECES = 3 /* pieces of 1 MiB */ };
enum {
  LOOKS = 30000,
  LOOK_US = 1000
}; /* checks before the test gives up, which takes longer than
    * on any busy machine */

/* Messages of rank 0: the request, an empty message before the train, and the train. */
static const uint64_t train_messages = 2 + MESSAGES * PIECES;

typedef struct watch {
  tdm_simnet *net;
  uint64_t sent[2];   /* bytes sent by each rank before */
  _Atomic bool ended; /* the train, while nothing came back */
  uint64_t back;      /* pieces that rank 1 had sent by then */
} watch;

static uint64_t sent_by(const watch *self, int rank) {
  return tdm_simnet_sent(self->net, rank, 1 - rank).messages - self->sent[rank];
}

/* A message is posted once the one before has been received, since no send settles before. */
static void *let_go_when_one_way_has_ended(void *user) {
  watch *self = user;
  for (int i = 0; i < LOOKS && sent_by(self, 0) < train_messages; i++)
    (void)usleep(LOOK_US);
  atomic_store(&self->ended, sent_by(self, 0) == train_messages);
  self->back = sent_by(self, 1);
  (void)tdm_simnet_let_go(self->net, 1, 0);
  return NULL;
}

static tdm_status meet(job_rank *rank) {
  static char memory[2][2 * BYTES];
  watch *watched = (watch *)(uintptr_t)rank->user;
  pthread_t thread;
  double ns = 0;
  const tdm_rank_train train = {.context = rank->context,
                                .peer = 1 - rank->rank,
                                .leads = rank->rank == 0,
                                .both_ways = true,
                                .memory = memory[rank->rank],
                                .bytes = BYTES,
                                .messages = MESSAGES,
                                .rounds = 1};
  TDM_TRY(tdm_context_start(rank->context));
  TDM_TRY(tdm_context_agree(rank->context, TDM_OK)); /* no other message is sent from here on */
  if (rank->rank == 0) {
    memset(memory[0], 7, BYTES);
    watched->net = rank->net;
    for (int r = 0; r < 2; r++)
      watched->sent[r] = tdm_simnet_sent(rank->net, r, 1 - r).messages;
    tdm_simnet_hold(rank->net, 1, 0);
    assert_int_equal(pthread_create(&thread, NULL, let_go_when_one_way_has_ended, watched), 0);
  }
  const tdm_status status = tdm_rank_train_run(&train, &ns);
  if (rank->rank == 0) assert_int_equal(pthread_join(thread, NULL), 0);
  const char *came = memory[1] + BYTES;
  if (status == TDM_OK && rank->rank == 1 && (came[0] != 7 || came[BYTES - 1] != 7))
    return tdm_fail(TDM_INTERNAL, "what came is not what was sent");
  return status;
}

static void a_train_ends_beside_one_that_is_held(void **state) {
  (void)state;
  watch watched = {.ended = false};
  job_rank ranks[JOB_MOST_RANKS];
  job_must(&(job_options){.rank_count = 2, .user = &watched}, meet, ranks);
  assert_true(atomic_load(&watched.ended));
  assert_true(watched.back <= PIECES); /* at most one message came back */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_train_ends_beside_one_that_is_held)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
