/* What ranks tell one another while the job loses one: who asked goes on with the failure, and the
 * engine reaches for bytes only then. Its memory is taken away when it has returned, so that an
 * engine that still had it would fault, in every configuration. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "devices/network/network.h"
#include "net/control.h"
#include "net/simnet.h"
#include "tests/devices/support.h"

/* Of three ranks the last gives up; the others have something out to one another by then. */
enum { RANKS = 3, TELLERS = 2, LOST = 2, BYTES = 4096 };

typedef tdm_status (*tell_function)(tdm_network *network, unsigned char *memory);

typedef struct rank {
  tdm_network *network;
  tell_function tell;
  unsigned char *memory; /* ((1 + RANKS) * BYTES), of mmap */
  tdm_status status;
  pthread_t thread;
} rank;

typedef struct job {
  tdm_simnet *net;
  rank ranks[RANKS];
} job;

/* ---- The job --------------------------------------------------------------------------------- */

static void *watch_main(void *user) {
  rank *self = user;
  /* That a rank is silent, on a busy machine, is no part of this. */
  const tdm_control_options watch = {.struct_size = sizeof watch,
                                     .allocator = tdm_allocator_default(),
                                     .silence_ns = 600000000000u};
  self->status = tdm_network_watch(self->network, &watch);
  return NULL;
}

static void *tell_main(void *user) {
  rank *self = user;
  self->status = self->tell(self->network, self->memory);
  return NULL;
}

static void start(job *in, int count, void *(*begin)(void *user)) {
  for (int r = 0; r < count; r++)
    assert_int_equal(pthread_create(&in->ranks[r].thread, NULL, begin, &in->ranks[r]), 0);
}

static void join(job *in, int count) {
  for (int r = 0; r < count; r++)
    assert_int_equal(pthread_join(in->ranks[r].thread, NULL), 0);
}

static void open_job(job *in, tell_function tell) {
  const tdm_allocator allocator = tdm_allocator_default();
  const tdm_simnet_options options = {.struct_size = sizeof options, .rank_count = RANKS};
  assert_ok(tdm_simnet_create(&allocator, &options, &in->net));
  for (int r = 0; r < RANKS; r++) {
    rank *mine = &in->ranks[r];
    tdm_endpoint *endpoint;
    *mine = (rank){.tell = tell};
    assert_ok(tdm_simnet_endpoint(in->net, r, &endpoint));
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

static void close_job(job *in) {
  for (int r = 0; r < RANKS; r++)
    tdm_network_destroy(in->ranks[r].network);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(munmap(in->ranks[r].memory, (1 + RANKS) * BYTES), 0);
  tdm_simnet_release(in->net);
}

static void await_posts(job *in, int r, uint64_t count) {
  while (tdm_simnet_posts(in->net, r) < count)
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- Losing ---------------------------------------------------------------------------------- */

/* The tellers post as many transfers, of which those from rank `from` to `to` are held back until
 * both have returned and their memory is gone. */
typedef struct lost_case {
  tell_function tell;
  uint64_t posts[TELLERS];
  int from;
  int to;
} lost_case;

static void lose_while_told(const lost_case *of) {
  job in;
  uint64_t before[TELLERS];
  open_job(&in, of->tell);
  tdm_simnet_hold(in.net, of->from, of->to);
  for (int r = 0; r < TELLERS; r++)
    before[r] = tdm_simnet_posts(in.net, r);
  start(&in, TELLERS, tell_main);
  for (int r = 0; r < TELLERS; r++)
    await_posts(&in, r, before[r] + of->posts[r]);
  tdm_control_give_up(tdm_network_control(in.ranks[LOST].network), TDM_IO, "has no disk");
  join(&in, TELLERS);
  for (int r = 0; r < TELLERS; r++) {
    assert_int_equal(in.ranks[r].status, TDM_UNAVAILABLE);
    assert_int_equal(mprotect(in.ranks[r].memory, (1 + RANKS) * BYTES, PROT_NONE), 0);
  }
  assert_int_equal(tdm_simnet_let_go(in.net, of->from, of->to), 1);
  close_job(&in);
}

static tdm_status gather(tdm_network *network, unsigned char *memory) {
  return tdm_network_gather(network, memory, BYTES, memory + BYTES);
}

static tdm_status pass_to_all(tdm_network *network, unsigned char *memory) {
  return tdm_network_pass(network, 0, -1, memory, BYTES);
}

/* Rank 0 receives from both others and sends to both. */
static void a_gather_leaves_the_memory_of_who_has_gone_on(void **unused) {
  (void)unused;
  lose_while_told(&(lost_case){gather, {4, 4}, 0, 1});
  lose_while_told(&(lost_case){gather, {4, 4}, 1, 0});
}

/* Rank 0 sends to both others, and rank 1 receives. */
static void a_pass_leaves_the_memory_of_who_has_gone_on(void **unused) {
  (void)unused;
  lose_while_told(&(lost_case){pass_to_all, {2, 1}, 0, 1});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gather_leaves_the_memory_of_who_has_gone_on),
      cmocka_unit_test(a_pass_leaves_the_memory_of_who_has_gone_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
