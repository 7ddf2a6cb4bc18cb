/* How contexts of a job are made, and what is left of them where memory is short on one rank:
 * nothing, on any. And what all are told of one that has none. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/creation/job.h"
#include "net/control.h"
#include "net/simnet.h"
#include "tests/devices/support.h"

enum { RANKS = 2, SHORT_RANK = 1, MOST_ALLOCATIONS = 400 };

typedef struct rank {
  tdm_simnet *net;
  int number;
  tdm_faulty_allocator *faulty;
  bool created;
  char message[TDM_MESSAGE_BYTES];
} rank;

static void *create_and_release(void *user) {
  rank *self = user;
  const tdm_allocator allocator = tdm_faulty_allocator_view(self->faulty);
  const tdm_context_options options = {
      .struct_size = sizeof options, .allocator = &allocator, .cpu_devices = 1, .sim_devices = 1};
  tdm_endpoint *endpoint;
  assert_ok(tdm_simnet_endpoint(self->net, self->number, &endpoint));
  tdm_context *context = tdm_context_create_in_job(&options, endpoint, NULL);
  self->created = context != NULL;
  if (!context) tdm_simnet_kill(self->net, self->number); /* or the other would wait for it */
  tdm_context_release(context);
  return NULL;
}

/* Answers whether all ranks had a context. */
static bool create_job(rank ranks[RANKS], uint64_t fail_at) {
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {
      .struct_size = sizeof options, .rank_count = RANKS, .loss_is_told = true};
  tdm_simnet *net;
  pthread_t threads[RANKS];
  assert_ok(tdm_simnet_create(&allocator, &options, &net));
  for (int r = 0; r < RANKS; r++) {
    ranks[r].net = net;
    ranks[r].number = r;
    tdm_faulty_allocator_arm(ranks[r].faulty, r == SHORT_RANK ? fail_at : 0, false);
  }
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_create(&threads[r], NULL, create_and_release, &ranks[r]), 0);
  bool all = true;
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(pthread_join(threads[r], NULL), 0);
    all = all && ranks[r].created;
  }
  tdm_simnet_release(net);
  return all;
}

static void every_nth_allocation_of_a_rank_fails(void **state) {
  (void)state;
  rank ranks[RANKS] = {{.faulty = tdm_faulty_allocator_create()},
                       {.faulty = tdm_faulty_allocator_create()}};
  (void)setenv("TANDEM_LINKS", "off", 1);
  for (uint64_t n = 1;; n++) {
    assert_true(n < MOST_ALLOCATIONS);
    const bool all = create_job(ranks, n);
    const bool failed = tdm_faulty_allocator_failures(ranks[SHORT_RANK].faulty) > 0;
    assert_int_equal(all, !failed);
    for (int r = 0; r < RANKS; r++)
      if (tdm_faulty_allocator_outstanding_bytes(ranks[r].faulty) != 0)
        fail_msg("allocation %d of rank %d fails, and %lld bytes are left of rank %d", (int)n,
                 SHORT_RANK, (long long)tdm_faulty_allocator_outstanding_bytes(ranks[r].faulty), r);
    if (!failed) break;
  }
  for (int r = 0; r < RANKS; r++)
    tdm_faulty_allocator_destroy(ranks[r].faulty);
}

/* ---- What is told ---------------------------------------------------------------------------- */

/* Rank 1 asks for more devices than there can be. */
static void *create_watched(void *user) {
  rank *self = user;
  const tdm_control_options watch = {.struct_size = sizeof watch,
                                     .allocator = tdm_allocator_default(),
                                     .silence_ns = UINT64_C(300000000000)};
  const tdm_context_options options = {.struct_size = sizeof options,
                                       .cpu_devices = self->number == 1 ? 100000 : 1,
                                       .sim_devices = -1};
  tdm_endpoint *endpoint;
  assert_ok(tdm_simnet_endpoint(self->net, self->number, &endpoint));
  assert_null(tdm_context_create_in_job(&options, endpoint, &watch));
  (void)snprintf(self->message, sizeof self->message, "%s", tdm_last_message());
  return NULL;
}

static void all_know_why_a_rank_has_no_context(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof options, .rank_count = RANKS};
  rank ranks[RANKS] = {{.number = 0}, {.number = 1}};
  pthread_t threads[RANKS];
  tdm_simnet *net;
  assert_ok(tdm_simnet_create(&allocator, &options, &net));
  for (int r = 0; r < RANKS; r++) {
    ranks[r].net = net;
    assert_int_equal(pthread_create(&threads[r], NULL, create_watched, &ranks[r]), 0);
  }
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_join(threads[r], NULL), 0);
  tdm_simnet_release(net);
  for (int r = 0; r < RANKS; r++)
    if (!strstr(ranks[r].message, "cpu")) fail_msg("rank %d says \"%s\"", r, ranks[r].message);
  assert_non_null(strstr(ranks[0].message, "rank 1 (host sim1, pid "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_nth_allocation_of_a_rank_fails),
      cmocka_unit_test(all_know_why_a_rank_has_no_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
