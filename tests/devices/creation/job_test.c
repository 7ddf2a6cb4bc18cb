/* Creating contexts of a job. If one rank lacks memory, no rank keeps any resource, and all report
 * that rank. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/creation/job.h"
#include "net/control.h"
#include "tests/support/faulty_allocator.h"
#include "tests/devices/support.h"
#include "tests/options.h"
#include "tests/support/simnet.h"

enum { RANKS = 2, SHORT_RANK = 1, MOST_ALLOCATIONS = 400 };

typedef struct rank {
  tdm_simnet *net;
  int number;
  tdm_faulty_allocator *faulty;
  bool created;
  tdm_context *context; /* the context, for tests that examine it */
  char message[TDM_MESSAGE_BYTES];
} rank;

static void *create_and_release(void *user) {
  rank *self = user;
  const tdm_allocator allocator = tdm_faulty_allocator_view(self->faulty);
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.allocator = &allocator, o.cpu_devices = 1, o.sim_devices = 1);
  tdm_endpoint *endpoint;
  assert_ok(tdm_simnet_endpoint(self->net, self->number, &endpoint));
  tdm_context *context = tdm_context_create_in_job(&options, endpoint, NULL);
  self->created = context != NULL;
  if (!context) tdm_simnet_kill(self->net, self->number); /* or the other would wait for it */
  tdm_context_release(context);
  return NULL;
}

/* Returns true if all ranks had a context. */
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

/* ---- Reports --------------------------------------------------------------------------------- */

/* Two devices of a kind on rank 1, one on rank 0, with different costs of links. */
static void *create_linked(void *user) {
  rank *self = user;
  const tdm_context_options options =
      OPTIONS(tdm_context_options, o.cpu_devices = 2, o.sim_devices = 1 + self->number,
              o.sim = self->number == 0
                          ? "latency_us=1,gigabytes_per_second=8,peer_gigabytes_per_second=16"
                          : "latency_us=2,gigabytes_per_second=0.5,peer_gigabytes_per_second=4");
  tdm_endpoint *endpoint;
  assert_ok(tdm_simnet_endpoint(self->net, self->number, &endpoint));
  self->context = tdm_context_create_in_job(&options, endpoint, NULL);
  return NULL;
}

static void *release_linked(void *user) {
  tdm_context_release(((rank *)user)->context);
  return NULL;
}

static void on_every_rank(rank ranks[RANKS], void *(*begin)(void *)) {
  pthread_t threads[RANKS];
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_create(&threads[r], NULL, begin, &ranks[r]), 0);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(pthread_join(threads[r], NULL), 0);
}

/* All ranks have the same description of devices, and of links between them. */
static void ranks_know_the_same_of_all_devices(void **state) {
  (void)state;
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof options, .rank_count = RANKS};
  tdm_simnet *net;
  assert_ok(tdm_simnet_create(&allocator, &options, &net));
  rank ranks[RANKS] = {{.net = net, .number = 0}, {.net = net, .number = 1}};
  on_every_rank(ranks, create_linked);
  tdm_context *contexts[RANKS] = {ranks[0].context, ranks[1].context};
  assert_true(contexts[0] && contexts[1]);
  const size_t count = tdm_device_count(contexts[0]);
  assert_int_equal(count, 3 + 4);
  assert_int_equal(tdm_device_count(contexts[1]), count);
  for (size_t i = 0; i < count; i++) {
    const tdm_device *told[RANKS], *device = NULL;
    for (int r = 0; r < RANKS; r++)
      told[r] = tdm_context_device(contexts[r], i);
    assert_string_equal(told[0]->name, told[1]->name);
    assert_string_equal(told[0]->identity, told[1]->identity);
    assert_int_equal(told[0]->rank, told[1]->rank);
    assert_int_equal(told[0]->index, told[1]->index);
    assert_int_equal(told[0]->context_index, i);
    assert_int_equal(told[1]->context_index, i);
    assert_int_equal(told[0]->host_addressable, told[1]->host_addressable);
    assert_int_equal(told[0]->stages_pageable, told[1]->stages_pageable);
    device = told[told[0]->rank];
    for (int role = 0; role < TDM_QUEUE_ROLES; role++)
      assert_int_equal(told[1 - device->rank]->queues[role] != NULL, device->queues[role] != NULL);
    for (size_t k = 0; k < count; k++) {
      if (tdm_context_device(contexts[0], k)->rank != device->rank) continue;
      const tdm_link own = device->ops->link(device, tdm_context_device(contexts[device->rank], k));
      const tdm_device *far = told[1 - device->rank];
      const tdm_link link = far->ops->link(far, tdm_context_device(contexts[1 - device->rank], k));
      if (own.latency_ns != link.latency_ns || own.bytes_per_ns != link.bytes_per_ns)
        fail_msg("%s and device %zu: %g ns, %g bytes a ns, and not %g, %g", device->name, k,
                 link.latency_ns, link.bytes_per_ns, own.latency_ns, own.bytes_per_ns);
    }
  }
  on_every_rank(ranks, release_linked);
  tdm_simnet_release(net);
}

/* Rank 1 requests more devices than are possible. */
static void *create_watched(void *user) {
  rank *self = user;
  const tdm_control_options watch = {.struct_size = sizeof watch,
                                     .allocator = tdm_allocator_default(),
                                     .silence_ns = UINT64_C(300000000000)};
  const tdm_context_options options = OPTIONS(
      tdm_context_options, o.cpu_devices = self->number == 1 ? 100000 : 1, o.sim_devices = 0);
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
      cmocka_unit_test(ranks_know_the_same_of_all_devices),
      cmocka_unit_test(all_know_why_a_rank_has_no_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
