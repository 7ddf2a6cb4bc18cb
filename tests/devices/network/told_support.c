/* See told_support.h. */
#define _GNU_SOURCE
#include "tests/devices/network/told_support.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static void *watch_main(void *user) {
  rank *self = user;
  const tdm_control_options watch = {.struct_size = sizeof watch,
                                     .allocator = tdm_allocator_default(),
                                     .silence_ns = self->silence_ns};
  self->status = tdm_network_watch(self->network, &watch);
  return NULL;
}

void *tell_main(void *user) {
  rank *self = user;
  self->status = self->tell(self->network, self->memory);
  (void)snprintf(self->message, sizeof self->message, "%s", tdm_last_message());
  return NULL;
}

void start(job *in, int count, void *(*begin)(void *user)) {
  for (int r = 0; r < count; r++)
    assert_int_equal(pthread_create(&in->ranks[r].thread, NULL, begin, &in->ranks[r]), 0);
}

void join(job *in, int count) {
  for (int r = 0; r < count; r++)
    assert_int_equal(pthread_join(in->ranks[r].thread, NULL), 0);
}

void open_job(job *in, tell_function tell, uint64_t silence_ns) {
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof options, .rank_count = RANKS};
  assert_ok(tdm_simnet_create(&allocator, &options, &in->net));
  for (int r = 0; r < RANKS; r++) {
    rank *mine = &in->ranks[r];
    tdm_endpoint *endpoint;
    *mine = (rank){.tell = tell, .silence_ns = silence_ns};
    assert_ok(tdm_simnet_endpoint(in->net, r, &endpoint));
    mine->endpoint = endpoint;
    assert_ok(tdm_network_create(&allocator, endpoint, &mine->network));
    mine->memory =
        mmap(NULL, (1 + RANKS) * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(mine->memory, MAP_FAILED);
    memset(mine->memory, 'a' + r, BYTES);
  }
  start(in, RANKS, watch_main);
  join(in, RANKS);
  for (int r = 0; r < RANKS; r++)
    assert_ok(in->ranks[r].status);
}

void close_job(job *in) {
  for (int r = 0; r < RANKS; r++)
    tdm_network_destroy(in->ranks[r].network);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(munmap(in->ranks[r].memory, (1 + RANKS) * BYTES), 0);
  tdm_simnet_release(in->net);
}

void await_posts(job *in, int r, uint64_t count) {
  while (tdm_simnet_posts(in->net, r) < count)
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}
