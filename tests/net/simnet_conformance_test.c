/* The conformance suite on simnet: ranks in threads, under delays, a shared medium, and with eager
 * sends and such that wait for their receive. Invariant: a case's outcome does not depend on the
 * seed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/net/conformance.h"
#include "tests/support/simnet.h"

#define MOST_RANKS 5

typedef struct rank_thread {
  tdm_simnet *net;
  int rank;
  bool passed;
} rank_thread;

static void *run_rank(void *user) {
  rank_thread *thread = user;
  tdm_endpoint *endpoint;
  if (tdm_simnet_endpoint(thread->net, thread->rank, &endpoint) != TDM_OK) return NULL;
  thread->passed = conformance_run(endpoint, true);
  if (thread->passed) {
    thread->passed = tdm_endpoint_close(endpoint, 0) == TDM_OK;
  } else {
    tdm_endpoint_abandon(endpoint);
  }
  return NULL;
}

static void run_job(const tdm_simnet_options *options) {
  const tdm_allocator allocator = tdm_allocator_default();
  tdm_simnet *net;
  assert_int_equal(tdm_simnet_create(&allocator, options, &net), TDM_OK);
  pthread_t threads[MOST_RANKS];
  rank_thread ranks[MOST_RANKS];
  for (int i = 0; i < options->rank_count; i++) {
    ranks[i] = (rank_thread){.net = net, .rank = i};
    assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
  }
  for (int i = 0; i < options->rank_count; i++)
    (void)pthread_join(threads[i], NULL);
  for (int i = 0; i < options->rank_count; i++)
    assert_true(ranks[i].passed);
  tdm_simnet_release(net);
}

static void test_ranks(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
    run_job(&(tdm_simnet_options){.struct_size = sizeof(tdm_simnet_options),
                                  .rank_count = ranks,
                                  .eager_bytes = ranks % 2 == 0 ? 4096 : 0,
                                  .loss_is_told = true});
  }
}

static void test_delays(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 6; seed++) {
    run_job(&(tdm_simnet_options){.struct_size = sizeof(tdm_simnet_options),
                                  .rank_count = 2 + (int)(seed % 2),
                                  .seed = seed,
                                  .delay_ns = 200000,
                                  .bytes_per_second = seed % 3 == 0 ? 1000000000 : 0,
                                  .eager_bytes = seed % 2 == 0 ? 1000 : 0,
                                  .loss_is_told = true});
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ranks),
      cmocka_unit_test(test_delays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
